"""Cutting the classes of a board into cells by sorting: the numbers of cells, and the halves of points.

The final cells are numbered from 0, class after class. At a higher level a cell has the number of the first of those
that it will be cut into: the left half keeps the number, and a number names one cell on each level.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from indexes.boards.packing import cell_start
from indexes.boards.subscription_index import shape
from indexes.core.arrays import Bools, Floats, Ints


class Halves(NamedTuple):
    """The cells after a level, in order: their numbers, and the position of the first point of each, of all points that
    were cut in order of (cell before, value, sid)."""

    number: Ints
    start: Ints


class Cells:
    """The cells of classes of so many points: none has more than `most` points, unless it is a leaf."""

    def __init__(self, counts: Sequence[int], most: int) -> None:
        self.counts = tuple(counts)
        self.above = tuple(_levels(n, most) for n in counts)
        ends = np.cumsum([1 << above if n else 0 for n, above in zip(self.counts, self.above, strict=True)])
        self.first = (0, *ends[:-1].tolist())
        self.total = int(ends[-1]) if len(ends) else 0

    @property
    def levels(self) -> int:
        """The number of levels on which classes are halved."""
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
        """Of a final cell: the points of its class, the number of halvings of the class, and the cell's index in it."""
        q = bisect.bisect_right(self.first, number) - 1
        return self.counts[q], self.above[q], number - self.first[q]

    def halves(self, level: int) -> Halves:
        """The cells after halving the open classes at a level."""
        number: list[int] = []
        start: list[int] = []
        before = 0
        for q in self.open(level):
            number += self.of_class(q, level + 1)
            start += [before + cell_start(self.counts[q], level + 1, j) for j in range(2 << level)]
            before += self.counts[q]
        return Halves(np.array(number, np.int64), np.array(start, np.int64))


def halve(position: Ints, key: Floats, halves: Halves) -> tuple[Ints, Floats, Bools]:
    """The cells of the points at these positions, and the cuts: the values of the points that are the first of a right
    half, and which they are."""
    at = np.searchsorted(halves.start, position, side="right") - 1
    cuts = (at % 2 == 1) & (halves.start[at] == position)
    return halves.number[at], np.where(cuts, key, 0.0), cuts


def _levels(n: int, most: int) -> int:
    """The number of halvings of a class."""
    above, (depth, _) = 0, shape(n)
    while above < depth and -(-n >> above) > most:
        above += 1
    return above
