"""The covering index: one protocol, three structures behind it (`kd_tree`, `z_order`, `linear`).

An index holds slots of a table of `points.py`. The functions `cover`, `insert` and `delete` are what kernels call.
Compiled, they resolve to the structure's own kernel by the type of ``index``, in kernels cached on disk as well;
uncompiled (``NUMBA_DISABLE_JIT=1``) they look the type up. A structure names its kernels once, with `implement`.
`CoverIndex` is the same protocol for Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from indexes.compiled import dispatch
from indexes.compiled.jit import kernel
from indexes.core.arrays import Ints, Ints32
from indexes.relays.kernels.points import Points

NODES, COMPARISONS, QUERIES = 0, 1, 2
"""What is counted, the columns of `seen`: nodes visited, points compared and searches. Its rows are the caller's."""


class CoverArrays(Protocol):
    """The arrays of a structure, by which its kernels are chosen."""

    @property
    def at(self) -> Ints32:
        """By slot: where it is, or a negative number."""

    @property
    def size(self) -> Ints:
        """Counts and dimensions, each structure's own."""


_dispatch = dispatch.Protocol()


def implement(arrays: type, **kernels: Callable[..., Any]) -> None:
    """Serve the protocol for NamedTuples of type `arrays` with these kernels."""
    _dispatch.implement(arrays, kernels)


@_dispatch.declare()
def cover(
    index: CoverArrays, points: Points, slot: int, k: int, out: Ints32, first: int, seen: Ints, seen_row: int
) -> int:
    """Write up to k slots of the index that cover a slot, which need not be in it, to out[first:]; returns how many.

    The cost is added to seen[seen_row].
    """
    raise NotImplementedError


@_dispatch.declare()
def insert(index: CoverArrays, points: Points, slot: int) -> None:
    """Add a slot, for which there is room (see `CoverIndex.reserve`)."""
    raise NotImplementedError


@_dispatch.declare()
def delete(index: CoverArrays, points: Points, slot: int) -> None:
    """Take out a slot that is there."""
    raise NotImplementedError


@kernel
def _cover(index: CoverArrays, points: Points, slot: int, k: int, out: Ints32, seen: Ints) -> int:
    return cover(index, points, slot, k, out, 0, seen, 0)


@kernel
def _insert(index: CoverArrays, points: Points, slots: Ints32) -> None:
    for i in range(slots.size):
        insert(index, points, slots[i])


@kernel
def _delete(index: CoverArrays, points: Points, slots: Ints32) -> None:
    for i in range(slots.size):
        delete(index, points, slots[i])


class CoverIndex(ABC):
    """Slots by the boxes that they stand for. Kernels work on `arrays`; re-read it after `reserve`."""

    arrays: Any

    @abstractmethod
    def __init__(self, coordinates: int) -> None:
        """An empty index of points of so many coordinates, twice the attributes."""

    @abstractmethod
    def __len__(self) -> int:
        """How many slots are in it."""

    @abstractmethod
    def reserve(self, inserts: int, slots: int) -> None:
        """Make room for that many insertions by kernels, of slots below `slots`; may replace `arrays`."""

    @abstractmethod
    def slots(self) -> Ints32:
        """What is in it, in no particular order."""

    @abstractmethod
    def check(self, points: Points) -> None:
        """Raise AssertionError if an invariant is broken; O(n log n)."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, room kept for more included."""
        return sum(column.nbytes for column in self.arrays if isinstance(column, np.ndarray))

    def insert(self, points: Points, slots: Ints32) -> None:
        """Add slots that are not there. O(log^2 n) each, amortised, but for what the structure says."""
        self.reserve(len(slots), len(points.age))
        _insert(self.arrays, points, slots)

    def load(self, points: Points, slots: Ints32) -> None:
        """Add all slots at once where there are none."""
        self.insert(points, slots)

    def trimmed(self) -> Any:
        """The arrays without the room that is kept for more, to be written down. Once they are `arrays` again, there is
        no room before `reserve`."""
        return self.arrays

    def delete(self, points: Points, slots: Ints32) -> None:
        """Take out slots that are there."""
        _delete(self.arrays, points, slots)

    def cover(self, points: Points, t: int, k: int) -> Ints32:
        """Up to k of the slots that cover slot t; all of them when k is at least their number."""
        out = np.empty(max(1, min(k, len(self))), np.int32)
        return out[: _cover(self.arrays, points, t, min(k, len(out)), out, np.zeros((1, 3), np.int64))]
