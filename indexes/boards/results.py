"""The results of a board in the user's terms: objects, subscriptions, tiles and changes of lists.

Rank values have the user's sign. Unbounded ends are infinite in views of regions, and None in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf
from typing import NamedTuple, TypeAlias

from indexes.boards.commands import Filter
from indexes.boards.lists import ListEntry, ObjectView, Place, net_entries
from indexes.boards.regions import Region
from indexes.boards.space.kernels.shapes import width
from indexes.core.arrays import Bools, Floats, Ints

__all__ = [
    "AnyTile",
    "ListChange",
    "ListEntry",
    "LiveTiles",
    "ObjectView",
    "Painted",
    "Place",
    "Reach",
    "RegionTile",
    "Slice",
    "SubscriptionEdit",
    "SubscriptionView",
    "TileRows",
    "TileView",
    "net_entries",
    "place_of",
    "places",
]


def place_of(x: Floats, i: int) -> Place:
    """Row i of a column of places."""
    place = x[i].tolist()
    return tuple(place) if x.ndim > 1 else place


def places(x: Floats) -> list[Place]:
    """All of a column of places."""
    found = x.tolist()
    return list(map(tuple, found)) if x.ndim > 1 else found


class SubscriptionView(NamedTuple):
    """A subscription to the ranks offset + 1 to offset + k, among the objects that pass the filter `where`."""

    id: str
    region: Region
    k: int
    ttl: float | None
    offset: int = 0
    where: Filter = ()


class Reach(NamedTuple):
    """Which subscriptions a tile reaches by their filter on one indexed field: those without one (`any`), and those
    that require the `value`, as JSON text."""

    any: bool
    value: str | None


class TileView(NamedTuple):
    """A rectangle of subscription space and the object that its subscribers need ([Range top-k] II-A).

    Reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer; None is an infinite side. With indexed fields
    `where` restricts it to the subscriptions with these filters.
    """

    k: int
    l_outer: float | None
    l_inner: float | None
    r_inner: float | None
    r_outer: float | None
    object: ObjectView
    gone: bool
    where: tuple[Reach, ...] = ()


class RegionTile(NamedTuple):
    """As `TileView`, with several range attributes: a box of the sides of regions of one shape.

    `sides` of a box are (l_outer, l_inner, r_inner, r_outer) of each attribute; those of another shape the least and
    the greatest value of each of the region's sides, inclusive. None is an infinite side.
    """

    k: int
    shape: str
    sides: tuple[float | None, ...]
    object: ObjectView
    gone: bool
    where: tuple[Reach, ...] = ()


AnyTile: TypeAlias = TileView | RegionTile


class TileRows(NamedTuple):
    """Tiles by column: the place of the event in its command, the four sides, x and y (one row of `numbers`; a side may
    be infinite), and the rest of a `TileView`.

    With d > 1 range attributes a row of `numbers` has as many sides as the widest tile, the d values of the object's
    place, and y; `shape` has the shapes. `where` is given with indexed fields.
    """

    event: Ints
    numbers: Floats
    k: Ints
    id: list[str]
    created: Ints
    gone: Bools
    payload: list[bytes | None]
    d: int = 1
    shape: list[str] | None = None
    where: list[tuple[Reach, ...]] | None = None

    def taken(self, at: slice) -> TileRows:
        """Some of the tiles; ids and payloads where they are given."""
        return TileRows(
            self.event[at],
            self.numbers[at],
            self.k[at],
            self.id[at],
            self.created[at],
            self.gone[at],
            self.payload[at],
            self.d,
            None if self.shape is None else self.shape[at],
            None if self.where is None else self.where[at],
        )

    def views(self) -> Iterator[tuple[int, AnyTile]]:
        """The tiles one by one, each with the place of its event."""
        if self.shape is not None:
            yield from self._region_tiles(self.shape)
            return
        columns = (column.tolist() for column in (self.event, self.numbers, self.k, self.created, self.gone))
        for t, (event, (*sides, x, y), k, created, gone) in enumerate(zip(*columns, strict=True)):
            l_outer, l_inner, r_inner, r_outer = (None if isinf(side) else side for side in sides)
            shown = ObjectView(self.id[t], x, y, created, self.payload[t])
            where = () if self.where is None else self.where[t]
            yield event, TileView(k, l_outer, l_inner, r_inner, r_outer, shown, gone, where)

    def _region_tiles(self, shapes: list[str]) -> Iterator[tuple[int, RegionTile]]:
        columns = (column.tolist() for column in (self.event, self.numbers, self.k, self.created, self.gone))
        for t, (shape, event, row, k, created, gone) in enumerate(zip(shapes, *columns, strict=True)):
            sides = tuple(None if isinf(side) else side for side in row[: 2 * width(shape, self.d)])
            shown = ObjectView(self.id[t], tuple(row[-1 - self.d : -1]), row[-1], created, self.payload[t])
            where = () if self.where is None else self.where[t]
            yield event, RegionTile(k, shape, sides, shown, gone, where)


class ListChange(NamedTuple):
    """The net change of one live list at one seq. Equal changes of a seq share the same `entries` tuple."""

    seq: int
    live: int
    entries: tuple[ListEntry, ...]


class LiveTiles(NamedTuple):
    """The tiles of one seq that reach one live subscription, in the order in which they apply."""

    seq: int
    live: int
    tiles: tuple[AnyTile, ...]


class Painted(NamedTuple):
    """All tiles of some events, for the zones of a board. The event at place i has the seq `first_seq` + i."""

    first_seq: int
    rows: TileRows


class SubscriptionEdit(NamedTuple):
    """A subscription that was changed or, with no place `after`, deleted, for the zones of a board: (l, r) before and
    after."""

    seq: int
    id: str
    before: tuple[float, float]
    after: tuple[float, float] | None


class Slice(NamedTuple):
    """The notifications of live subscriptions for consecutive commands, each column in order of seq.

    `moved` are the (seq, live slot) of subscriptions that were changed themselves (their net change is in `changes`),
    `gone` those of deleted ones, whose live slots are free again. `shifted` are the live slots of `moved` ones with
    another offset: their readers need the whole list, since the ranks they know have the old one.

    Where the board has zones, all tiles and all changed subscriptions are there too, and whether it was cut again.
    """

    last_seq: int
    changes: Sequence[ListChange]
    tiles: list[LiveTiles]
    moved: list[tuple[int, int]]
    gone: list[tuple[int, int]]
    shifted: tuple[int, ...] = ()
    painted: tuple[Painted, ...] = ()
    edits: tuple[SubscriptionEdit, ...] = ()
    recut: bool = False
