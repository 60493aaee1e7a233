"""Cutting the classes of a board into cells by sorting: which cell has which number, and who goes into which half.

The cells that a board ends up in are numbered from 0 on, class after class. On the way there, a cell has the number of
the first of those that it will be cut into: the left half keeps the number, and a number names one cell on each level.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.packing import cell_start
from indexes.boards.subscriptions import shape

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class Halves(NamedTuple):
    """The cells after a level, in order: their numbers, and where each begins among the points that were cut, when all
    these are in order of (cell before, value, sid)."""

    number: Int64
    start: Int64


class Cells:
    """How classes of so many points are cut: no cell has more than `most` points, unless it is a leaf."""

    def __init__(self, counts: Sequence[int], most: int) -> None:
        self.counts = tuple(counts)
        self.above = tuple(_levels(n, most) for n in counts)
        ends = np.cumsum([1 << above if n else 0 for n, above in zip(self.counts, self.above, strict=True)])
        self.first = (0, *ends[:-1].tolist())
        self.total = int(ends[-1]) if len(ends) else 0

    @property
    def levels(self) -> int:
        """How often there is something to halve."""
        return max(self.above, default=0)

    def of_class(self, q: int, level: int | None = None) -> range:
        """The numbers of the cells of a class, in order, at a level; an empty class has none."""
        level = self.above[q] if level is None else level
        end = self.first[q] + (1 << self.above[q]) if self.counts[q] else self.first[q]
        return range(self.first[q], end, 1 << (self.above[q] - level))

    def open(self, level: int) -> list[int]:
        """The classes that are halved at a level, which counts from 0."""
        return [q for q, above in enumerate(self.above) if above > level]

    def place(self, number: int) -> tuple[int, int, int]:
        """Of a cell in the end: the number of points of its class, how often that was halved, the cell in the class."""
        q = bisect.bisect_right(self.first, number) - 1
        return self.counts[q], self.above[q], number - self.first[q]

    def halves(self, level: int) -> Halves:
        """What halving the open classes at a level makes of them."""
        number: list[int] = []
        start: list[int] = []
        before = 0
        for q in self.open(level):
            number += self.of_class(q, level + 1)
            start += [before + cell_start(self.counts[q], level + 1, j) for j in range(2 << level)]
            before += self.counts[q]
        return Halves(np.array(number, np.int64), np.array(start, np.int64))


def halve(position: Int64, key: Float64, halves: Halves) -> tuple[Int64, Float64, npt.NDArray[np.bool_]]:
    """The cells that the points at these positions go to; and the cuts: the values of those points that are the first
    of a right half, and which ones they are."""
    at = np.searchsorted(halves.start, position, side="right") - 1
    cuts = (at % 2 == 1) & (halves.start[at] == position)
    return halves.number[at], np.where(cuts, key, 0.0), cuts


def _levels(n: int, most: int) -> int:
    """How often a class is halved."""
    above, (depth, _) = 0, shape(n)
    while above < depth and -(-n >> above) > most:
        above += 1
    return above
