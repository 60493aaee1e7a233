"""Columns that only grow, and the allocation of runs in them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexes.core import aligned
from indexes.core.arrays import Ints


class Arena:
    """The end of the columns, and the free runs: one that was given back is reused for one of the same length."""

    def __init__(self) -> None:
        self.end = 0
        self._free: dict[int, list[int]] = {}

    def take(self, lengths: Ints) -> Ints:
        """Allocate runs of these lengths; returns where they begin. O(n log n)."""
        begin = np.empty(len(lengths), np.int64)
        for length in np.unique(lengths).tolist():
            which, free = np.flatnonzero(lengths == length), self._free.setdefault(length, [])
            old = free[max(0, len(free) - len(which)) :]
            del free[len(free) - len(old) :]
            begin[which[: len(old)]] = old
            fresh = len(which) - len(old)
            begin[which[len(old) :]] = self.end + length * np.arange(fresh)
            self.end += length * fresh
        return begin

    def give_back(self, begin: Ints, lengths: Ints) -> None:
        """Free runs that were taken. O(n log n)."""
        for length in np.unique(lengths).tolist():
            self._free.setdefault(length, []).extend(begin[lengths == length].tolist())


def grown(column: NDArray, room: int, filler: float = 0) -> NDArray:
    """A copy of a column with more room, of which what is 0 takes no memory until it is written to. O(room)."""
    longer = aligned.full(room, filler, column.dtype) if filler else aligned.zeros(room, column.dtype)
    longer[: len(column)] = column
    return longer
