"""The arrays that kernels of boards with several range attributes take: those of objects and those of subscriptions."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from indexes.boards.kernels.tiles import Tiles
from indexes.boards.space.kernels.points import Points
from indexes.boards.space.kernels.scratch import SpaceScratch
from indexes.core.arrays import Floats, Ints, Ints32


class SpaceArrays(NamedTuple):
    """Objects by slot: `x` (slots, d), `y`, `c` (created) and `row`; `pos` is the slot of each row, -1 if absent.

    `size` is (number of objects, number of free slots, slots ever used), and `free[: size[1]]` are the free slots.
    `tree` indexes (x_1, ..., x_d, y) under slots as ids. `at` (d + 1) and `place` (2, d) are scratch: one point of the
    tree, and the new and the old place of an object.
    """

    x: Floats
    y: Floats
    c: Ints
    row: Ints32
    pos: Ints32
    free: Ints32
    size: Ints
    at: Floats
    place: Floats
    tree: Points


class RegionTrees(Protocol):
    """Subscriptions by class, as far as painting reads them: a tree of parameters for each class, the shape of its
    regions, and how many subscriptions it has."""

    @property
    def tree(self) -> Points: ...
    @property
    def shape(self) -> Ints: ...
    @property
    def total(self) -> Ints: ...
    @property
    def after(self) -> Ints32: ...


class SpaceContext(NamedTuple):
    """What painting reads and writes apart from the index of objects. Class q of `regions` has k = ks[q], 0 if it is
    not painted."""

    regions: RegionTrees
    ks: Ints
    scratch: SpaceScratch
    tiles: Tiles


class RankChange(NamedTuple):
    """A change of the object in `row` at x[point], created c, whose y goes from `y_old` to `y_new`."""

    x: Floats
    point: int
    row: int
    y_old: float
    y_new: float
    c: int
