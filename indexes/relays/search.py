"""The covering index: one protocol, three structures behind it (`kd_tree`, `z_order`, `linear`).

An index holds slots of a table of `points.py`. The functions `cover`, `insert` and `delete` are what kernels call.
Compiled, they resolve to the structure's own kernel by the type of ``o``, in kernels cached on disk as well; uncompiled
(``NUMBA_DISABLE_JIT=1``) they look the type up. A structure names its kernels once, with `implement`. `CoverIndex` is
the same protocol for Python.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.dispatch import Protocol
from indexes.lean import lean_kernel
from indexes.relays.points import Int32, Points

NODES, COMPARISONS, QUERIES = 0, 1, 2
"""What is counted, the columns of `seen`: nodes visited, points compared and searches. Its rows are the caller's."""

_protocol = Protocol()


def implement(arrays: type, **kernels: Callable[..., Any]) -> None:
    """Serve the protocol for NamedTuples of type `arrays` with these kernels."""
    _protocol.implement(arrays, kernels)


@_protocol.declare()
def cover(o: Any, points: Points, t: int, k: int, out: Int32, first: int, seen: NDArray[np.int64], u: int) -> int:
    """Write up to k slots of the index that cover slot t, which need not be in it, to out[first:]; returns how many.

    What it costs is added to seen[u].
    """
    raise NotImplementedError


@_protocol.declare()
def insert(o: Any, points: Points, t: int) -> None:
    """Add slot t, for which there is room (see `CoverIndex.reserve`)."""
    raise NotImplementedError


@_protocol.declare()
def delete(o: Any, points: Points, t: int) -> None:
    """Take out slot t, which is there."""
    raise NotImplementedError


@lean_kernel
def _cover(o, points, t, k, out, seen):  # type: ignore[no-untyped-def]
    return cover(o, points, t, k, out, 0, seen, 0)


@lean_kernel
def _insert(o, points, slots):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        insert(o, points, slots[i])


@lean_kernel
def _delete(o, points, slots):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        delete(o, points, slots[i])


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
    def slots(self) -> Int32:
        """What is in it, in no particular order."""

    @abstractmethod
    def check(self, points: Points) -> None:
        """Raise AssertionError if an invariant is broken; O(n log n)."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, room kept for more included."""
        return sum(column.nbytes for column in self.arrays if isinstance(column, np.ndarray))

    def insert(self, points: Points, slots: Int32) -> None:
        """Add slots that are not there. O(log^2 n) each, amortised, but for what the structure says."""
        self.reserve(len(slots), len(points.age))
        _insert(self.arrays, points, slots)

    def load(self, points: Points, slots: Int32) -> None:
        """Add all slots at once where there are none."""
        self.insert(points, slots)

    def trimmed(self) -> Any:
        """The arrays without the room that is kept for more, to be written down. Once they are `arrays` again, there is
        no room before `reserve`."""
        return self.arrays

    def delete(self, points: Points, slots: Int32) -> None:
        """Take out slots that are there."""
        _delete(self.arrays, points, slots)

    def cover(self, points: Points, t: int, k: int) -> Int32:
        """Up to k of the slots that cover slot t; all of them when k is at least their number."""
        out = np.empty(max(1, min(k, len(self))), np.int32)
        return out[: _cover(self.arrays, points, t, min(k, len(out)), out, np.zeros((1, 3), np.int64))]
