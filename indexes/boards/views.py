"""What the engine shows: objects, subscriptions, tiles and changed lists in the user's own terms.

Rank values carry the user's sign again, unbounded ends are infinities in views of ranges and None in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from indexes.boards.commands import Filter
from indexes.boards.regions import Region
from indexes.boards.space.shapes import width

Place: TypeAlias = float | tuple[float, ...]
"""The range attributes of an object: a number where there is one, else one for each, in their order."""


def place_of(x: npt.NDArray[np.float64], i: int) -> Place:
    """Row i of a column of places."""
    place = x[i].tolist()
    return tuple(place) if x.ndim > 1 else place


def places(x: npt.NDArray[np.float64]) -> list[Place]:
    """All of a column of places."""
    found = x.tolist()
    return list(map(tuple, found)) if x.ndim > 1 else found


class ObjectView(NamedTuple):
    """An object as the user wrote it. `payload` is compact JSON text."""

    id: str
    x: Place
    y: float
    created: int
    payload: bytes | None


class SubscriptionView(NamedTuple):
    """A subscription to the ranks offset + 1 to offset + k, among the objects that pass the filter `where`."""

    id: str
    region: Region
    k: int
    ttl: float | None
    offset: int = 0
    where: Filter = ()


class Reach(NamedTuple):
    """Whom a tile reaches, by what they want in one indexed field: those that filter nothing there (`any`), and those
    that want the `value`, as JSON text."""

    any: bool
    value: str | None


class TileView(NamedTuple):
    """A rectangle of subscription space and the object its subscribers must hear of (paper, II-A).

    Reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer; None is an infinite side. With indexed fields
    also `where` says for each whom it reaches.
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

    `sides` of a box are (l_outer, l_inner, r_inner, r_outer) of each attribute; those of another shape a least and a
    largest value for each of the region's sides, both in. None is an infinite side.
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

    With d range attributes a row of `numbers` has as many sides as the widest tile, the d of the object's place, and y,
    and `shape` says the shapes. `where` is there with indexed fields.
    """

    event: list[int]
    numbers: npt.NDArray[np.float64]
    k: list[int]
    id: list[str]
    created: list[int]
    gone: list[bool]
    payload: list[bytes | None]
    d: int = 1
    shape: list[str] | None = None
    where: list[tuple[Reach, ...]] | None = None

    def views(self) -> Iterator[tuple[int, AnyTile]]:
        """The tiles one by one, each with the place of its event."""
        if self.shape is not None:
            yield from self._region_tiles(self.shape)
            return
        for t, (*sides, x, y) in enumerate(self.numbers.tolist()):
            l_outer, l_inner, r_inner, r_outer = (None if isinf(side) else side for side in sides)
            shown = ObjectView(self.id[t], x, y, self.created[t], self.payload[t])
            where = () if self.where is None else self.where[t]
            yield self.event[t], TileView(self.k[t], l_outer, l_inner, r_inner, r_outer, shown, self.gone[t], where)

    def _region_tiles(self, shapes: list[str]) -> Iterator[tuple[int, RegionTile]]:
        for t, (shape, row) in enumerate(zip(shapes, self.numbers.tolist(), strict=True)):
            sides = tuple(None if isinf(side) else side for side in row[: 2 * width(shape, self.d)])
            shown = ObjectView(self.id[t], tuple(row[-1 - self.d : -1]), row[-1], self.created[t], self.payload[t])
            where = () if self.where is None else self.where[t]
            yield self.event[t], RegionTile(self.k[t], shape, sides, shown, self.gone[t], where)


class ListEntry(NamedTuple):
    """One object that entered, left or got new values in one list.

    Ranks count from 1 over the whole ranking; None is outside the list, on either side of it. `object` is there with a
    new rank, and `old`, the object as it was, with an old one.
    """

    id: str
    old_rank: int | None
    new_rank: int | None
    object: ObjectView | None
    old: ObjectView | None = None


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


class Slice(NamedTuple):
    """What live subscriptions must hear of after a stretch of commands, each list in order of seq.

    `moved` names subscriptions whose question changed (their net change is in `changes`), `gone` those deleted, whose
    live slots are free again. `shifted` are the live slots of those moved whose offset is another now: their readers
    know places by the old one, so that the whole list is due.
    """

    last_seq: int
    changes: list[ListChange]
    tiles: list[LiveTiles]
    moved: list[tuple[int, int]]
    gone: list[tuple[int, int]]
    shifted: tuple[int, ...] = ()
