"""Runs of places in columns that only grow: a run that was given back is given out again for one of its length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


class Arena:
    """Who has which run."""

    def __init__(self) -> None:
        self.end = 0
        self._free: dict[int, list[int]] = {}

    def take(self, lengths: Int64) -> Int64:
        """Where runs of these lengths begin. O(n log n)."""
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

    def give_back(self, begin: Int64, lengths: Int64) -> None:
        """Runs that were taken are free. O(n log n)."""
        for length in np.unique(lengths).tolist():
            self._free.setdefault(length, []).extend(begin[lengths == length].tolist())
