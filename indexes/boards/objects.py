"""The object index of a board: one protocol, two structures behind it (`range_tree`, `kd_tree`).

An index is a NamedTuple of arrays indexed by *slot*: ``x``, ``y`` float64, ``c`` int64 (created), ``row`` int32 (the
caller's number of the object), and ``pos`` int32[rows], the slot of each row or -1. Slots may change when objects come,
go or move; rows never do. Objects are ordered by position (x, created) and ranked by (y, created), smaller is better;
``created`` is unique, so both orders are total. An object with y = +inf is there, but no query sees it.

The functions from `next_west` to `delete` are what kernels call. Compiled, they resolve to the structure's own kernel
by the type of ``o``, in kernels cached on disk as well; uncompiled (``NUMBA_DISABLE_JIT=1``) they look the type up. A
structure names its kernels once, with `implement`. `ObjectIndex` is the same protocol for Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.regions import Region
from indexes.compiled.dispatch import Protocol
from indexes.lanes import prefetch_block
from indexes.lean import lean_kernel, pasted_kernel

MAX = float(np.finfo(np.float64).max)
"""An unbounded end of a range, and the threshold below which every present object lies."""

AHEAD = 4
"""So many changes ahead is what one reads asked for."""

BEFORE_ALL = int(np.iinfo(np.int64).min)
"""Comes before every `created`."""

_protocol = Protocol()


def implement(arrays: type, *kernels: Callable[..., Any]) -> None:
    """Serve the protocol for NamedTuples of type `arrays` with the kernels of the same names."""
    _protocol.implement(arrays, {function.__name__: function for function in kernels})


def _pasted(kernel: Any) -> Any:
    """The kernel with its machine code pasted into callers: for small, hot primitives only."""
    return pasted_kernel(kernel.py_func)


@_protocol.declare(_pasted)
def next_west(o: Any, s: int, T: float, Tc: int) -> int:
    """The nearest slot before `s` in position order whose (y, created) < (T, Tc), or -1."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def next_east(o: Any, s: int, T: float, Tc: int) -> int:
    """The nearest slot after `s` in position order whose (y, created) < (T, Tc), or -1."""
    raise NotImplementedError


@_protocol.declare()
def first_west(o: Any, s: int, T: float, Tc: int, k: int, out: NDArray[Any]) -> int:
    """Write the nearest k slots before `s` with (y, created) < (T, Tc) to `out`, nearest first; returns how many.

    The same as k calls of `next_west`, and faster.
    """
    raise NotImplementedError


@_protocol.declare()
def first_east(o: Any, s: int, T: float, Tc: int, k: int, out: NDArray[Any]) -> int:
    """Write the nearest k slots after `s` with (y, created) < (T, Tc) to `out`, nearest first; returns how many."""
    raise NotImplementedError


@_protocol.declare()
def min_y(o: Any, lo: float, hi: float, y0: float, c0: int) -> int:
    """The slot of the least (y, created) > (y0, c0) with lo <= x <= hi and y finite, or -1 (paper, II-B)."""
    raise NotImplementedError


@_protocol.declare()
def top(o: Any, lo: float, hi: float, k: int, out: NDArray[Any]) -> int:
    """Write the slots of the k best with lo <= x <= hi to `out` (signed integers), best first; returns how many."""
    raise NotImplementedError


@_protocol.declare()
def count(o: Any, lo: float, hi: float) -> int:
    """The number of objects of finite y with lo <= x <= hi."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def set_y(o: Any, s: int, y: float) -> None:
    """Give slot `s` a new y; +inf hides the object and keeps its place."""
    raise NotImplementedError


@_protocol.declare()
def insert(o: Any, row: int, x: float, y: float, c: int) -> int:
    """Add an object under an absent row and return its slot; -1 if there is no room (see `ObjectIndex.reserve`)."""
    raise NotImplementedError


@_protocol.declare()
def delete(o: Any, row: int) -> None:
    """Take out the object of a present row."""
    raise NotImplementedError


@_protocol.declare(_pasted)
def expect(o: Any, row: int) -> None:
    """Ask for what a change of this row's object reads first to be brought near. A hint: it changes nothing."""
    raise NotImplementedError


@pasted_kernel
def look_ahead(o, row, e, end):  # type: ignore[no-untyped-def]
    """Let the index bring near what the next few changes need, as far as row[end]; change e is at hand.

    In a large index most of the time of a change is waiting for memory, which the changes before it can do for it.
    """
    if e + 2 * AHEAD < end:
        prefetch_block(o.pos, int(row[e + 2 * AHEAD]))
    if e + AHEAD < end:
        expect(o, row[e + AHEAD])


@lean_kernel
def walk(o, s, y_end, k, east, best_y, best_c, out, n):  # type: ignore[no-untyped-def]
    """Append the slots on one side of `s` that are exposed as `s` worsens to `y_end` to out[n:]; returns the new n.

    Goes outward below the k-th best (y, created) met so far, starting at (y_end, created of s): the k-skyband of
    nearness and rank. When `out` is full the walk goes on and only counts.
    """
    y, c = o.y[s], o.c[s]
    T, Tc = min(y_end, MAX), c
    seen = 0
    better = 0
    j = s
    while j >= 0:
        j = next_east(o, j, T, Tc) if east else next_west(o, j, T, Tc)
        if j >= 0:
            yj, cj = o.y[j], o.c[j]
            if yj < y or (yj == y and cj < c):
                better += 1
            else:
                if n < out.size:
                    out[n] = j
                n += 1
            z = min(seen, k - 1)
            while z > 0 and (best_y[z - 1] > yj or (best_y[z - 1] == yj and best_c[z - 1] > cj)):
                best_y[z], best_c[z] = best_y[z - 1], best_c[z - 1]
                z -= 1
            best_y[z], best_c[z] = yj, cj
            seen = min(seen + 1, k)
            if seen == k:
                T, Tc = best_y[k - 1], best_c[k - 1]
            if better == k:
                j = -1
    return n


class ObjectIndex(ABC):
    """The objects of a board by position and rank. Kernels work on `arrays`; re-read it after `reserve`."""

    arrays: Any

    @classmethod
    @abstractmethod
    def build(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, rows: ArrayLike) -> Self:
        """The index of objects given by column; O(n log n)."""

    @classmethod
    def of_slots(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, row: ArrayLike) -> Self:
        """The index of objects given as slots of a range tree, holes (row -1) included; O(n) for a range tree."""
        row = np.asarray(row, np.int32)
        s = np.flatnonzero(row >= 0)
        return cls.build(np.asarray(x)[s], np.asarray(y)[s], np.asarray(created)[s], row[s])

    @abstractmethod
    def contents(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]:
        """Copies of the columns x, y, created and row of all objects; O(n)."""

    def in_order(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]:
        """As `contents`, in order of x, to be read until the next change. Between them may be rows of nobody, with
        y = inf."""
        x, y, c, row = self.contents()
        order = np.argsort(x, kind="stable")
        return x[order], y[order], c[order], row[order]

    @abstractmethod
    def reserve(self, inserts: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`; may replace `arrays`."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n log n)."""

    def frozen(self) -> Self:
        """A copy to be read only; O(n)."""
        copy = type(self)()
        copy.arrays = type(self.arrays)(*(column.copy() for column in self.arrays))
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
        slot, o = self._present(row), self.arrays
        y, created = float(o.y[slot]), int(o.c[slot])
        delete(o, row)
        return int(insert(o, row, x, y, created))

    def set_y(self, slot: int, y: float) -> None:
        """Give an object a new y; +inf hides it."""
        set_y(self.arrays, slot, y)

    def first_k(self, slot: int, k: int, y: float | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The k slots nearest to `slot` on either side (west, east) that rank before it, were its y the one given.

        O(k log n): the lists of the influence region (paper, II-B).
        """
        o, out = self.arrays, np.empty(k, np.int64)
        T, Tc = min(float(o.y[slot]) if y is None else y, MAX), int(o.c[slot])
        west = out[: first_west(o, slot, T, Tc, k, out)].copy()
        return west, out[: first_east(o, slot, T, Tc, k, out)].copy()

    def min_y(self, lo: float, hi: float, y0: float = -np.inf, created0: int = BEFORE_ALL) -> int | None:
        """The slot of the least (y, created) beyond (y0, created0) in [lo, hi], None if there is none."""
        slot = int(min_y(self.arrays, lo, hi, y0, created0))
        return None if slot < 0 else slot

    def sweep(self, slot: int, y_new: float, k: int) -> NDArray[np.int64]:
        """The slots that rank between `slot` and (y_new, its created) and are beaten by fewer than k objects nearer to
        it on their own side, by rank. O(log n) for each object met.

        Every object exposed in a list of k as `slot` worsens to y_new is among them, in the order of the sweep (paper,
        III-A). Another one is only where the board holds too few objects, or too many at one x, for a list to gain it.
        """
        o = self.arrays
        best_y, best_c = np.empty(k), np.empty(k, np.int64)
        out = np.empty(max(64, 4 * k), np.int64)
        while True:
            n = walk(o, slot, y_new, k, False, best_y, best_c, out, 0)
            n = walk(o, slot, y_new, k, True, best_y, best_c, out, n)
            if n <= len(out):
                return out[:n][np.lexsort((o.c[out[:n]], o.y[out[:n]]))]
            out = np.empty(n, np.int64)

    def top(self, lo: float, hi: float, k: int) -> NDArray[np.int64]:
        """The slots of the k best in [lo, hi], best first; O(k log n) where objects are spread evenly."""
        out = np.empty(k, np.int64)
        return out[: top(self.arrays, lo, hi, k, out)]

    def best(self, region: Region, k: int) -> NDArray[np.int64]:
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
