"""The objects of a board with several range attributes: points of R^d with a rank.

An index is a `SpaceArrays`: columns by *slot*, and over them a tree of `Points` on (x_1, ..., x_d, y), cut by x, whose
nodes store the least y below them. An object keeps its slot as long as it exists. Objects rank by (y, created), smaller
is better; one with y = +inf is present but hidden: no query returns it.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.regions import Region
from indexes.boards.space.kernels.arrays import SpaceArrays
from indexes.boards.space.kernels.points import (
    NODE,
    check_points,
    copied,
    empty_points,
    fill,
    put,
    put_value,
    resized,
    room,
    shape_of,
    take,
    values_of,
)
from indexes.boards.space.kernels.search import best_of, count_of
from indexes.boards.space.kernels.shapes import SHAPES, as_params
from indexes.compiled.jit import kernel
from indexes.compiled.simd import LANES
from indexes.core.arrays import Floats, Ints, Ints32


@kernel
def insert(objects: SpaceArrays, row: int, x: Floats, point: int, y: float, c: int) -> int:
    """Add an object at x[point] under an absent row and return its slot; see `SpaceObjects.reserve`. O(log^2 n)."""
    d = objects.x.shape[1]
    if objects.size[1] > 0:
        objects.size[1] -= 1
        slot = int(objects.free[objects.size[1]])
    else:
        slot = int(objects.size[2])
        objects.size[2] += 1
    for j in range(d):
        objects.x[slot, j] = objects.at[j] = x[point, j]
    objects.at[d] = y
    objects.y[slot], objects.c[slot], objects.row[slot] = y, c, row
    objects.pos[row] = slot
    objects.size[0] += 1
    put(objects.tree, 0, slot, objects.at, 0)
    return slot


@kernel
def delete(objects: SpaceArrays, row: int) -> None:
    """Remove an object that is present. O(log n)."""
    slot = objects.pos[row]
    take(objects.tree, 0, slot)
    objects.pos[row] = -1
    objects.row[slot] = -1
    objects.free[objects.size[1]] = slot
    objects.size[1] += 1
    objects.size[0] -= 1


@kernel
def set_y(objects: SpaceArrays, slot: int, y: float) -> None:
    """Give an object a new y; +inf hides it. O(log n)."""
    objects.y[slot] = y
    put_value(objects.tree, 0, slot, objects.x.shape[1], y)


@kernel
def move(objects: SpaceArrays, slot: int, x: Floats, point: int, y: float) -> None:
    """Give an object the place x[point] and a new y. O(log^2 n)."""
    d = objects.x.shape[1]
    take(objects.tree, 0, slot)
    for j in range(d):
        objects.x[slot, j] = objects.at[j] = x[point, j]
    objects.at[d] = y
    objects.y[slot] = y
    put(objects.tree, 0, slot, objects.at, 0)


class SpaceObjects:
    """The objects of a board by place and rank. Kernels take `arrays`; re-read it after `reserve`."""

    arrays: SpaceArrays

    def __init__(self, d: int = 2) -> None:
        self.d = d
        self._adopt(np.empty((0, d)), np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32))

    @classmethod
    def build(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, rows: ArrayLike) -> Self:
        """The index of objects given by column, x as (n, d); O(n log n)."""
        place = np.array(x, np.float64, ndmin=2)
        new = cls(place.shape[1])
        new._adopt(place, np.array(y, np.float64), np.array(created, np.int64), np.array(rows, np.int32))
        return new

    def __len__(self) -> int:
        """The number of objects, those with y = +inf included."""
        return int(self.arrays.size[0])

    def slot(self, row: int) -> int | None:
        """Where a row's object is, None if it is absent; O(1)."""
        pos = self.arrays.pos
        return int(pos[row]) if 0 <= row < len(pos) and pos[row] >= 0 else None

    def contents(self) -> tuple[Floats, Floats, Ints, Ints32]:
        """Copies of the columns x (n, d), y, created and row of all objects; O(n)."""
        objects = self.arrays
        slots = np.flatnonzero(objects.row >= 0)
        return objects.x[slots], objects.y[slots], objects.c[slots], objects.row[slots]

    def reserve(self, more: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`; may replace `arrays`."""
        objects = self.arrays
        if rows > len(objects.pos):
            grown = np.full(max(rows, len(objects.pos) * 3 // 2), -1, np.int32)
            grown[: len(objects.pos)] = objects.pos
            objects = objects._replace(pos=grown)
        slots = int(objects.size[2] - objects.size[1]) + more
        if slots > len(objects.y):
            size = max(slots, len(objects.y) * 3 // 2, 64)
            tree_pos = _longer(objects.tree.pos, size, -1)
            objects = objects._replace(
                x=_longer(objects.x, size), y=_longer(objects.y, size), c=_longer(objects.c, size),
                row=_longer(objects.row, size, -1), free=_longer(objects.free, size),
                tree=objects.tree._replace(pos=tree_pos),
            )  # fmt: skip
        count = int(objects.size[0])
        if count + more > room(objects.tree, 0):
            objects = objects._replace(
                tree=resized(objects.tree, {0: max(count + more, count * 3 // 2)}, [(self.d + 1, self.d)])
            )
        self.arrays = objects

    def insert(self, row: int, x: ArrayLike, y: float, created: int) -> int:
        """Add an object and return its slot; ValueError if the row is present. O(log^2 n)."""
        if self.slot(row) is not None:
            raise ValueError(f"row {row} is present")
        self.reserve(1, row + 1)
        return int(insert(self.arrays, row, np.array(x, np.float64, ndmin=2), 0, y, created))

    def delete(self, row: int) -> None:
        """Take out an object; KeyError if the row is absent. O(log n)."""
        if self.slot(row) is None:
            raise KeyError(row)
        delete(self.arrays, row)

    def top(self, shape: str, params: ArrayLike, k: int) -> Ints32:
        """The slots of the k best objects in a region, best first."""
        rows = as_params(shape, self.d, params)
        out = np.empty(k, np.int32)
        return out[: best_of(self.arrays, SHAPES.index(shape), rows.ravel(), k, out, np.empty(2 * self.d))]

    def best(self, region: Region, k: int) -> Ints32:
        """As `top`, for a region as subscriptions have it."""
        return self.top(*region, k)

    def count_in(self, region: Region) -> int:
        """How many objects a region as subscriptions have it holds. O(answer) and a search."""
        rows = as_params(region.shape, self.d, region.sides)
        return int(count_of(self.arrays, SHAPES.index(region.shape), rows.ravel(), np.empty(2 * self.d)))

    def frozen(self) -> Self:
        """A copy to be read only; O(n)."""
        copy = type(self)(self.d)
        columns, tree = self.arrays[:-1], self.arrays.tree
        copy.arrays = SpaceArrays._make([*(column.copy() for column in columns), copied(tree)])
        return copy

    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n)."""
        objects = self.arrays
        check_points(objects.tree, 0)
        used = np.flatnonzero(objects.row >= 0)
        assert len(used) == objects.size[0] == objects.tree.cnt[objects.tree.head[0, NODE] + 1], (
            len(used),
            objects.size,
        )
        assert (objects.pos[objects.row[used]] == used).all() and int((objects.pos >= 0).sum()) == len(used), (
            "rows and slots differ"
        )
        free = objects.free[: objects.size[1]]
        assert len(free) + len(used) == objects.size[2] and (objects.row[free] == -1).all(), objects.size
        at = objects.tree.pos[used]
        assert (at >= 0).all() and (objects.tree.id[at] == used).all(), "slots and points differ"
        points = values_of(objects.tree, 0)[at // LANES, :, at % LANES]
        assert (points == np.column_stack([objects.x[used], objects.y[used]])).all(), "columns and points differ"

    def _adopt(self, x: Floats, y: Floats, c: Ints, row: Ints32) -> None:
        n, d = x.shape
        if not n == len(y) == len(c) == len(row):
            raise ValueError(f"{n} places, {len(y)} ranks, {len(c)} numbers and {len(row)} rows")
        pos = np.full(int(row.max()) + 1 if n else 0, -1, np.int32)
        pos[row] = np.arange(n)
        tree = empty_points([shape_of(n)], [(d + 1, d)], n)
        fill(tree, 0, np.arange(n, dtype=np.int32), np.column_stack([x, y]))
        self.arrays = SpaceArrays(
            np.ascontiguousarray(x), y, c, row, pos, np.zeros(n, np.int32), np.array([n, 0, n]), np.empty(d + 1),
            np.empty((2, d)), tree,
        )  # fmt: skip


def _longer(a: NDArray, size: int, empty: int = 0) -> NDArray:
    out = np.full((size, *a.shape[1:]), empty, a.dtype)
    out[: len(a)] = a
    return out
