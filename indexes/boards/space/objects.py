"""The objects of a board with several range attributes: points of R^d with a rank.

An index is a NamedTuple of arrays by *slot*: `x` (slots, d) and `y` float64, `c` int64 (created), `row` int32, and
`pos` int32[rows], the slot of each row or -1. A slot is an object's for as long as it is there. Beside them lies a tree
of `points.Points` over (x_1, ..., x_d, y), cut by x, whose nodes know the least y below them; its ids are slots.
Objects rank by (y, created), smaller is better; one with y = +inf is there, but no query sees it.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.regions import Region
from indexes.boards.space.points import (
    NODE,
    Points,
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
from indexes.boards.space.search import best_of, count_of
from indexes.boards.space.shapes import SHAPES, as_params
from indexes.lanes import LANES
from indexes.lean import lean_kernel

INF = np.inf


class SpaceArrays(NamedTuple):
    """See the module's docstring. `size` is the number of objects, `free[:size[1]]` the slots given back; `size[2]`
    counts the slots ever used. `at` is room for one point of the tree, `place` for where an object goes and where it
    is."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    c: NDArray[np.int64]
    row: NDArray[np.int32]
    pos: NDArray[np.int32]
    free: NDArray[np.int32]
    size: NDArray[np.int64]
    at: NDArray[np.float64]
    place: NDArray[np.float64]
    tree: Points


@lean_kernel
def insert(o: SpaceArrays, row: int, x: NDArray[np.float64], s: int, y: float, c: int) -> int:
    """Add an object at x[s] under an absent row and return its slot; see `SpaceObjects.reserve`. O(log^2 n)."""
    d = o.x.shape[1]
    if o.size[1] > 0:
        o.size[1] -= 1
        slot = int(o.free[o.size[1]])
    else:
        slot = int(o.size[2])
        o.size[2] += 1
    for j in range(d):
        o.x[slot, j] = o.at[j] = x[s, j]
    o.at[d] = y
    o.y[slot], o.c[slot], o.row[slot] = y, c, row
    o.pos[row] = slot
    o.size[0] += 1
    put(o.tree, 0, slot, o.at, 0)
    return slot


@lean_kernel
def delete(o: SpaceArrays, row: int) -> None:
    """Take out an object that is there. O(log n)."""
    slot = o.pos[row]
    take(o.tree, 0, slot)
    o.pos[row] = -1
    o.row[slot] = -1
    o.free[o.size[1]] = slot
    o.size[1] += 1
    o.size[0] -= 1


@lean_kernel
def set_y(o: SpaceArrays, slot: int, y: float) -> None:
    """Give an object a new y; +inf hides it. O(log n)."""
    o.y[slot] = y
    put_value(o.tree, 0, slot, o.x.shape[1], y)


@lean_kernel
def move(o: SpaceArrays, slot: int, x: NDArray[np.float64], s: int, y: float) -> None:
    """Give an object the place x[s] and a new y. O(log^2 n)."""
    d = o.x.shape[1]
    take(o.tree, 0, slot)
    for j in range(d):
        o.x[slot, j] = o.at[j] = x[s, j]
    o.at[d] = y
    o.y[slot] = y
    put(o.tree, 0, slot, o.at, 0)


class SpaceObjects:
    """The objects of a board by place and rank. Kernels work on `arrays`; re-read it after `reserve`."""

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

    def contents(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]:
        """Copies of the columns x (n, d), y, created and row of all objects; O(n)."""
        o = self.arrays
        s = np.flatnonzero(o.row >= 0)
        return o.x[s], o.y[s], o.c[s], o.row[s]

    def reserve(self, more: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`; may replace `arrays`."""
        o = self.arrays
        if rows > len(o.pos):
            grown = np.full(max(rows, len(o.pos) * 3 // 2), -1, np.int32)
            grown[: len(o.pos)] = o.pos
            o = o._replace(pos=grown)
        slots = int(o.size[2] - o.size[1]) + more
        if slots > len(o.y):
            size = max(slots, len(o.y) * 3 // 2, 64)
            tree_pos = _longer(o.tree.pos, size, -1)
            o = o._replace(
                x=_longer(o.x, size), y=_longer(o.y, size), c=_longer(o.c, size), row=_longer(o.row, size, -1),
                free=_longer(o.free, size), tree=o.tree._replace(pos=tree_pos),
            )  # fmt: skip
        count = int(o.size[0])
        if count + more > room(o.tree, 0):
            o = o._replace(tree=resized(o.tree, {0: max(count + more, count * 3 // 2)}, [(self.d + 1, self.d)]))
        self.arrays = o

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

    def top(self, shape: str, params: ArrayLike, k: int) -> NDArray[np.int32]:
        """The slots of the k best objects in a region, best first."""
        rows = as_params(shape, self.d, params)
        out = np.empty(k, np.int32)
        return out[: best_of(self.arrays, SHAPES.index(shape), rows.ravel(), k, out, np.empty(2 * self.d))]

    def best(self, region: Region, k: int) -> NDArray[np.int32]:
        """As `top`, for a region as subscriptions have it."""
        return self.top(*region, k)

    def count_in(self, region: Region) -> int:
        """How many objects a region as subscriptions have it holds. O(answer) and a search."""
        rows = as_params(region.shape, self.d, region.sides)
        return int(count_of(self.arrays, SHAPES.index(region.shape), rows.ravel(), np.empty(2 * self.d)))

    def frozen(self) -> Self:
        """A copy to be read only; O(n)."""
        copy = type(self)(self.d)
        o = self.arrays
        copy.arrays = SpaceArrays(
            o.x.copy(), o.y.copy(), o.c.copy(), o.row.copy(), o.pos.copy(), o.free.copy(), o.size.copy(), o.at.copy(),
            o.place.copy(), copied(o.tree),
        )  # fmt: skip
        return copy

    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n)."""
        o = self.arrays
        check_points(o.tree, 0)
        used = np.flatnonzero(o.row >= 0)
        assert len(used) == o.size[0] == o.tree.cnt[o.tree.head[0, NODE] + 1], (len(used), o.size)
        assert (o.pos[o.row[used]] == used).all() and int((o.pos >= 0).sum()) == len(used), "rows and slots differ"
        free = o.free[: o.size[1]]
        assert len(free) + len(used) == o.size[2] and (o.row[free] == -1).all(), o.size
        at = o.tree.pos[used]
        assert (at >= 0).all() and (o.tree.id[at] == used).all(), "slots and points differ"
        points = values_of(o.tree, 0)[at // LANES, :, at % LANES]
        assert (points == np.column_stack([o.x[used], o.y[used]])).all(), "columns and points differ"

    def _adopt(
        self, x: NDArray[np.float64], y: NDArray[np.float64], c: NDArray[np.int64], row: NDArray[np.int32]
    ) -> None:
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
