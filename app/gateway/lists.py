"""Lists that are kept by tiles, by the subscriber's protocol ([Range top-k] II-A)."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from indexes.boards.lists import ListEntry, ObjectView, net_entries

INF = float("inf")


class Point(Protocol):
    """A subscription as a point, with the k of its tiles."""

    l: float
    r: float
    k: int


P = TypeVar("P", bound=Point)


class Tile(NamedTuple):
    """A tile: it reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer, or r_outer is infinite.

    `key` is the place of its object in lists, `number` that of the tile in its message.
    """

    number: int
    k: int
    l_outer: float
    l_inner: float
    r_inner: float
    r_outer: float
    object: ObjectView
    key: tuple[float, int]
    gone: bool

    def reaches(self, l: float, r: float, k: int) -> bool:
        """Whether it reaches a subscription."""
        west = self.l_outer < l or self.l_outer == -INF
        return (
            k == self.k
            and west
            and l <= self.l_inner
            and self.r_inner <= r
            and (r < self.r_outer or self.r_outer == INF)
        )

    def reached(self, points: Iterable[P]) -> Iterator[P]:
        """Those of some subscriptions with its k that it reaches: as `reaches`, without a call for each."""
        l_outer, l_inner, r_inner, r_outer = self[2:6]
        for point in points:
            l, r = point.l, point.r
            west, east = l_outer < l or l_outer == -INF, r < r_outer or r_outer == INF
            if west and east and l <= l_inner and r_inner <= r:
                yield point


class Ranking(NamedTuple):
    """What a board ranks by: its attributes, and whether small values (1) or large ones (-1) come first."""

    x: str
    y: str
    sign: int

    def object(self, said: Mapping[str, Any]) -> ObjectView:
        """An object as the service writes it."""
        values, payload = said["values"], said.get("payload")
        text = None if payload is None else _compact(payload)
        return ObjectView(said["id"], float(values[self.x]), float(values[self.y]), said["created"], text)

    def key(self, item: ObjectView) -> tuple[float, int]:
        """The place of an object in lists."""
        return item.y * self.sign, item.created

    def tile(self, number: int, said: Mapping[str, Any]) -> Tile:
        """A tile as the service writes it."""
        item = self.object(said["object"])
        l_outer, l_inner, r_inner, r_outer = (said[side] for side in ("l_outer", "l_inner", "r_inner", "r_outer"))
        return Tile(
            number,
            said["k"],
            -INF if l_outer is None else l_outer,
            -INF if l_inner is None else l_inner,
            INF if r_inner is None else r_inner,
            INF if r_outer is None else r_outer,
            item,
            self.key(item),
            said["object"]["gone"],
        )


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class KeptList:
    """The best k objects of one subscription, kept right by the tiles that reach it."""

    __slots__ = ("_ids", "_keys", "items", "k")

    def __init__(self, k: int) -> None:
        self.k = k
        self.items: list[ObjectView] = []
        self._keys: list[tuple[float, int]] = []
        self._ids: list[str] = []

    def reset(self, items: Iterable[ObjectView], ranking: Ranking) -> None:
        """Start over from a list that is right, best first."""
        self.items = list(items)
        self._keys = [ranking.key(item) for item in self.items]
        self._ids = [item.id for item in self.items]

    def apply_all(self, tiles: Sequence[Tile], offset: int) -> tuple[ListEntry, ...]:
        """Take the tiles of one seq, in order; return what they change of the ranks behind an offset. O(k)."""
        if len(tiles) == 1 and not offset:
            return self.apply(tiles[0])
        before = self.items.copy()
        for tile in tiles:
            self.apply(tile)
        if offset:
            return net_entries(before[offset:], self.items[offset:], offset, offset)
        return net_entries(before, self.items)

    def apply(self, tile: Tile) -> tuple[ListEntry, ...]:
        """Take a tile that reaches this subscription; return what it changes, seen without comparing lists. O(k)."""
        items, keys, ids, new, place = self.items, self._keys, self._ids, tile.object, tile.key
        id = new.id
        if id in ids:
            was = ids.index(id)
            old = items[was]
            del items[was], keys[was], ids[was]
            if tile.gone:
                return (ListEntry(id, was + 1, None, None, old),)
            at = bisect_left(keys, place)
            items.insert(at, new)
            keys.insert(at, place)
            ids.insert(at, id)
            return () if old == new else (ListEntry(id, was + 1, at + 1, new, old),)
        at = bisect_left(keys, place)
        if tile.gone or at >= self.k:
            return ()
        items.insert(at, new)
        keys.insert(at, place)
        ids.insert(at, id)
        entered = ListEntry(id, None, at + 1, new, None)
        if len(items) <= self.k:
            return (entered,)
        keys.pop()
        last, k = ids.pop(), self.k
        return ListEntry(last, k, None, None, items.pop()), entered
