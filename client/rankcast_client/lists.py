"""The subscriber's half of the protocols: a list kept by tiles, or by changes; and ranges in disguise.

Source: papers/range-topk.txt, section II-A (the subscriber protocol).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar, overload

from rankcast_client.models import AnyRange, Entry, Order, Tile, Where


class Member(Protocol):
    """Of a list: an object of a board, a post of a feed."""

    @property
    def id(self) -> str: ...


M = TypeVar("M", bound=Member)
M_co = TypeVar("M_co", bound=Member, covariant=True)


class Placed(Protocol[M_co]):
    """What a change says of one member; `entry` is there with a new rank."""

    @property
    def id(self) -> str: ...
    @property
    def new_rank(self) -> int | None: ...
    @property
    def entry(self) -> M_co | None: ...


class TopKList:
    """The best k objects of one subscription, kept right by the tiles that reach it and by nothing else.

    The protocol: on a tile, if the object is in the list it takes its new values (a tile that says `gone` drops it);
    otherwise it is inserted; then the best k are kept. Objects compare by (rank value in board order, created).
    Tiles must be applied in the order in which they were sent, starting from a list that was right.

    `l` and `r` are numbers, or None where the range is unbounded; on a board with several range attributes both are
    mappings by attribute, or `TopKList.of` takes the region. `rank` names the rank attribute, `where` is the
    subscription's filter. A tile costs O(k).

    >>> best = TopKList(500, 1000, 2, "desc", rank="delay")
    >>> best.reset([Entry("DL95", {"distance": 760, "delay": 853}, created=3)])
    >>> best.apply({"k": 2, "l_outer": None, "l_inner": 900, "r_inner": 900, "r_outer": None,
    ...     "object": {"id": "AA1", "values": {"distance": 900, "delay": 900}, "created": 9, "gone": False}})
    True
    >>> [entry.id for entry in best.entries]
    ['AA1', 'DL95']
    """

    def __init__(
        self,
        l: float | Mapping[str, float | None] | None,  # noqa: E741
        r: float | Mapping[str, float | None] | None,
        k: int,
        order: Order = "asc",
        *,
        rank: str,
        where: Where | None = None,
    ) -> None:
        self.range: AnyRange
        if isinstance(l, Mapping) or isinstance(r, Mapping):
            low = l if isinstance(l, Mapping) else {}
            high = r if isinstance(r, Mapping) else {}
            self.range = {name: (low.get(name), high.get(name)) for name in {**low, **high}}
        else:
            self.range = (l, r)
        self.k = k
        self.order = order
        self.rank = rank
        self.where: Where = where or {}
        self._keys: list[tuple[float, int]] = []
        self._entries: list[Entry] = []

    @classmethod
    def of(cls, region: AnyRange, k: int, order: Order = "asc", *, rank: str, where: Where | None = None) -> TopKList:
        """The list of a subscription with this range or shape."""
        made = cls(None, None, k, order, rank=rank, where=where)
        made.range = region
        return made

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The list, best first."""
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def reset(self, entries: Iterable[Entry]) -> None:
        """Start over from a list that is right: a snapshot's or a reset's."""
        self._entries = sorted(entries, key=self._key)[: self.k]
        self._keys = [self._key(entry) for entry in self._entries]

    def apply(self, tile: Tile | Mapping[str, object]) -> bool:
        """Apply one tile, parsed or as JSON gave it. Return whether the list is another now.

        A tile that does not reach this subscription changes nothing.
        """
        if not isinstance(tile, Tile):
            tile = Tile.from_json(tile)
        if tile.k != self.k or not tile.reaches(self.range, self.where):
            return False
        entry = tile.object
        place = next((i for i, held in enumerate(self._entries) if held.id == entry.id), None)
        old = None
        if place is not None:
            old = self._entries.pop(place)
            self._keys.pop(place)
        if tile.gone:
            return old is not None
        key = self._key(entry)
        place = bisect_left(self._keys, key)
        self._keys.insert(place, key)
        self._entries.insert(place, entry)
        if len(self._entries) > self.k:
            self._keys.pop()
            return self._entries.pop() is not entry
        return old != entry

    def _key(self, entry: Entry) -> tuple[float, int]:
        value = entry.values[self.rank]
        return (-value if self.order == "desc" else value), entry.created


def apply_changes(entries: Iterable[M], changes: Iterable[Placed[M]], offset: int = 0) -> list[M]:
    """The list after a change: every object that it names is taken out, then those with a new rank are put in,
    in ascending order of it, each at that place behind the list's offset. O(k + changes).

    Raises ValueError if a rank lies beyond the list, which means that an earlier change was missed.
    """
    changes = list(changes)
    named = {change.id for change in changes}
    kept = [entry for entry in entries if entry.id not in named]
    placed = sorted(
        ((change.new_rank, change.entry) for change in changes if change.new_rank is not None and change.entry),
        key=lambda pair: pair[0],
    )
    for rank, entry in placed:
        if not 1 <= rank - offset <= len(kept) + 1:
            raise ValueError(f"{entry.id} is to be at rank {rank} of a list of {len(kept)}")
        kept.insert(rank - offset - 1, entry)
    return kept


@overload
def near(center: float, radius: float) -> tuple[float, float]: ...
@overload
def near(center: Mapping[str, float], radius: float | Mapping[str, float]) -> dict[str, tuple[float, float]]: ...
def near(
    center: float | Mapping[str, float], radius: float | Mapping[str, float]
) -> tuple[float, float] | dict[str, tuple[float, float]]:
    """The range "at most `radius` away from `center`", by attribute in the maximum norm.

    >>> near(760, 40)
    (720, 800)
    >>> near({"price": 100, "weight": 3}, {"price": 20, "weight": 1})
    {'price': (80, 120), 'weight': (2, 4)}
    """
    if isinstance(center, Mapping):
        away = radius if isinstance(radius, Mapping) else dict.fromkeys(center, radius)
        return {name: near(value, away[name]) for name, value in center.items()}
    if isinstance(radius, Mapping):
        raise ValueError("a radius by attribute needs a center by attribute")
    if not radius >= 0:
        raise ValueError(f"a radius is 0 or more, not {radius}")
    return center - radius, center + radius
