"""The object index of a board: one protocol, two structures (`range_tree`, `alternatives.kd_tree`).

An index is a NamedTuple of arrays indexed by *slot* (`ObjectArrays`): ``x``, ``y`` float64, ``c`` int64 (created),
``row`` int32 (the caller's number of the object), and ``pos`` int32[rows], the slot of each row or -1. Slots may change
when objects are inserted, deleted or moved; rows never do. Objects are ordered by position (x, created) and ranked by
(y, created), smaller is better; ``created`` is unique, so both orders are total. An object with y = +inf is present but
hidden: no query returns it.

Kernels call the functions from `next_west` to `expect_walk`. Compiled, each resolves to the structure's own kernel
by the type of the first argument, in kernels cached on disk as well; uncompiled (``NUMBA_DISABLE_JIT=1``) the type is
looked up. A structure registers its kernels once, with `implement`. `ObjectIndex` is the same protocol for Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.regions import Region
from indexes.compiled import dispatch
from indexes.compiled.jit import inlined
from indexes.compiled.simd import prefetch_block, prefetch_line
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints, Ints32

MAX = float(np.finfo(np.float64).max)
"""An unbounded end of a range, and a threshold at or above every visible object."""

AHEAD, WALK_AHEAD, APPLIED_AHEAD = 4, 3, 16
"""Memory is prefetched for the change that many places ahead: for changes that are painted, what is near them and then
what a search reads beyond; and for others."""

BEFORE_ALL = int(np.iinfo(np.int64).min)
"""Less than every `created`."""


class ObjectArrays(Protocol):
    """The columns that every object index has, by slot, whatever tree lies over them; see the module's docstring.
    `size[0]` is the number of objects."""

    @property
    def x(self) -> Floats: ...
    @property
    def y(self) -> Floats: ...
    @property
    def c(self) -> Ints: ...
    @property
    def row(self) -> Ints32: ...
    @property
    def pos(self) -> Ints32: ...
    @property
    def size(self) -> Ints: ...


_protocol = dispatch.Protocol()


def implement(arrays: type, *kernels: Callable[..., Any]) -> None:
    """Register the kernels of the same names as the protocol's implementation for NamedTuples of type `arrays`."""
    _protocol.implement(arrays, {function.__name__: function for function in kernels})


def _pasted(kernel: Any) -> Any:
    """The kernel as machine code inside its callers: for small, hot primitives only."""
    return inlined(kernel.py_func)


@_protocol.declare(_pasted)
def next_west(objects: ObjectArrays, slot: int, y_limit: float, c_limit: int) -> int:
    """The nearest slot before `slot` in position order whose (y, created) < (y_limit, c_limit), or -1."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def next_east(objects: ObjectArrays, slot: int, y_limit: float, c_limit: int) -> int:
    """The nearest slot after `slot` in position order whose (y, created) < (y_limit, c_limit), or -1."""
    raise NotImplementedError


@_protocol.declare()
def first_west(objects: ObjectArrays, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any]) -> int:
    """Write the nearest k slots before `slot` with (y, created) < (y_limit, c_limit) to `out`, nearest first; returns
    how many.

    Equivalent to k calls of `next_west`, and faster.
    """
    raise NotImplementedError


@_protocol.declare()
def first_east(objects: ObjectArrays, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any]) -> int:
    """Write the nearest k slots after `slot` with (y, created) < (y_limit, c_limit) to `out`, nearest first; returns
    how many."""
    raise NotImplementedError


@_protocol.declare()
def min_y(objects: ObjectArrays, lo: float, hi: float, y0: float, c0: int) -> int:
    """The slot of the least (y, created) > (y0, c0) with lo <= x <= hi and y finite, or -1 ([Range top-k] II-B)."""
    raise NotImplementedError


@_protocol.declare()
def top(objects: ObjectArrays, lo: float, hi: float, k: int, out: NDArray[Any]) -> int:
    """Write the slots of the k best with lo <= x <= hi to `out` (signed integers), best first; returns how many."""
    raise NotImplementedError


@_protocol.declare()
def count(objects: ObjectArrays, lo: float, hi: float) -> int:
    """The number of objects of finite y with lo <= x <= hi."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def set_y(objects: ObjectArrays, slot: int, y: float) -> None:
    """Give an object a new y; +inf hides it and keeps its place."""
    raise NotImplementedError


@_protocol.declare()
def insert(objects: ObjectArrays, row: int, x: float, y: float, c: int) -> int:
    """Add an object under an absent row and return its slot; -1 if there is no room (see `ObjectIndex.reserve`)."""
    raise NotImplementedError


@_protocol.declare()
def delete(objects: ObjectArrays, row: int) -> None:
    """Remove the object of a present row."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def expect(objects: ObjectArrays, row: int) -> None:
    """Prefetch the memory that a change of this row's object reads first. A hint without effect on results."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def expect_applied(objects: ObjectArrays, row: int) -> None:
    """As `expect`, for a change that is not painted: the few lines that a new y of the object reads."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def expect_walk(objects: ObjectArrays, row: int, y: float) -> None:
    """After `expect`, when that memory has come: prefetch what a search outward from this row's object, for what is
    better than it is or will be at `y`, reads beyond the neighbourhood. `y` may be NaN: as it is."""
    raise NotImplementedError


@inlined
def look_ahead(objects: ObjectArrays, rows: Ints32, y: Floats, at: int, end: int) -> None:
    """Prefetch memory for the next few changes, to y[at + 1 : end] of objects rows[at + 1 : end]; change `at` is at
    hand.

    In a large index most of the time of a change is spent waiting for memory; this overlaps it with the changes before.
    """
    if at + 2 * AHEAD < end:
        prefetch_block(objects.pos, int(rows[at + 2 * AHEAD]))
    if at + AHEAD < end:
        expect(objects, rows[at + AHEAD])
    if at + WALK_AHEAD < end:
        expect_walk(objects, rows[at + WALK_AHEAD], y[at + WALK_AHEAD])


@inlined
def look_ahead_applied(objects: ObjectArrays, rows: Ints32, at: int, end: int) -> None:
    """As `look_ahead`, for changes that are applied without painting: they read less, and are done sooner."""
    if at + 2 * APPLIED_AHEAD < end:
        prefetch_line(objects.pos, int(rows[at + 2 * APPLIED_AHEAD]))
    if at + APPLIED_AHEAD < end:
        expect_applied(objects, rows[at + APPLIED_AHEAD])


class ObjectIndex(ABC):
    """The objects of a board by position and rank. Kernels take `arrays`; re-read it after `reserve`."""

    arrays: Any

    @classmethod
    @abstractmethod
    def build(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, rows: ArrayLike) -> Self:
        """The index of objects given by column; O(n log n)."""

    @classmethod
    def of_slots(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, row: ArrayLike) -> Self:
        """The index of objects given as slots of a range tree, holes (row -1) included; O(n) for a range tree."""
        row = np.asarray(row, np.int32)
        slots = np.flatnonzero(row >= 0)
        return cls.build(np.asarray(x)[slots], np.asarray(y)[slots], np.asarray(created)[slots], row[slots])

    @abstractmethod
    def contents(self) -> tuple[Floats, Floats, Ints, Ints32]:
        """Copies of the columns x, y, created and row of all objects; O(n)."""

    def in_order(self) -> tuple[Floats, Floats, Ints, Ints32]:
        """As `contents`, in order of x, to be read until the next change. Between them may be rows of nobody, with
        y = inf."""
        x, y, c, row = self.contents()
        order = np.argsort(x, kind="stable")
        return x[order], y[order], c[order], row[order]

    def laid_out(self) -> Self:
        """An index of the same objects as `build` makes it; O(n log n), or O(n) where they lie in order."""
        return type(self).build(*self.contents())

    @abstractmethod
    def reserve(self, inserts: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`; may replace `arrays`."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n log n)."""

    def frozen(self) -> Self:
        """A copy; O(n)."""
        copy = type(self)()
        copy.arrays = type(self.arrays)(*map(aligned.copied, self.arrays))
        return copy

    def __len__(self) -> int:
        """The number of objects, those with y = +inf included."""
        return int(self.arrays.size[0])

    def slot(self, row: int) -> int | None:
        """Where a row's object is, None if it is absent; O(1)."""
        pos = self.arrays.pos
        return int(pos[row]) if 0 <= row < len(pos) and pos[row] >= 0 else None

    def insert(self, row: int, x: float, y: float, created: int) -> int:
        """Add an object and return its slot; ValueError if the row is present. Costs what the structure says."""
        if self.slot(row) is not None:
            raise ValueError(f"row {row} is present")
        self.reserve(1, row + 1)
        return int(insert(self.arrays, row, x, y, created))

    def delete(self, row: int) -> None:
        """Take out an object; KeyError if the row is absent."""
        self._present(row)
        delete(self.arrays, row)

    def move(self, row: int, x: float) -> int:
        """Give an object a new x, keep its y and created, and return its slot; KeyError if the row is absent."""
        slot, objects = self._present(row), self.arrays
        y, created = float(objects.y[slot]), int(objects.c[slot])
        delete(objects, row)
        return int(insert(objects, row, x, y, created))

    def set_y(self, slot: int, y: float) -> None:
        """Give an object a new y; +inf hides it."""
        set_y(self.arrays, slot, y)

    def first_k(self, slot: int, k: int, y: float | None = None) -> tuple[Ints, Ints]:
        """The k slots nearest to `slot` on either side (west, east) that rank before it, were its y the one given.

        O(k log n): the lists of the influence region ([Range top-k] II-B).
        """
        objects, out = self.arrays, np.empty(k, np.int64)
        y_limit, c_limit = min(float(objects.y[slot]) if y is None else y, MAX), int(objects.c[slot])
        west = out[: first_west(objects, slot, y_limit, c_limit, k, out)].copy()
        return west, out[: first_east(objects, slot, y_limit, c_limit, k, out)].copy()

    def min_y(self, lo: float, hi: float, y0: float = -np.inf, created0: int = BEFORE_ALL) -> int | None:
        """The slot of the least (y, created) beyond (y0, created0) in [lo, hi], None if there is none."""
        slot = int(min_y(self.arrays, lo, hi, y0, created0))
        return None if slot < 0 else slot

    def top(self, lo: float, hi: float, k: int) -> Ints:
        """The slots of the k best in [lo, hi], best first; O(k log n) where objects are spread evenly."""
        out = np.empty(k, np.int64)
        return out[: top(self.arrays, lo, hi, k, out)]

    def best(self, region: Region, k: int) -> Ints:
        """As `top`, for a region as subscriptions have it: an end may be infinite."""
        l, r = region.sides
        return self.top(max(l, -MAX), min(r, MAX), k)

    def count(self, lo: float, hi: float) -> int:
        """How many objects of finite y lie in [lo, hi]."""
        return int(count(self.arrays, lo, hi))

    def count_in(self, region: Region) -> int:
        """As `count`, for a region as subscriptions have it."""
        l, r = region.sides
        return self.count(max(l, -MAX), min(r, MAX))

    def _present(self, row: int) -> int:
        slot = self.slot(row)
        if slot is None:
            raise KeyError(row)
        return slot
