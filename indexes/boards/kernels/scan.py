"""Lists by scanning the objects, without an index: the reference for verification.

Nothing here reads an index of objects or calls its kernels, and which points a region holds is written out a second
time, so that a list from an index and the same list from here agree only if both are right.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.regions import Regions
from indexes.boards.space.kernels.shapes import BOX, DISC, HALF_PLANE, SIMPLEX
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Bytes, Floats, Ints, Ints32

CHUNK = 512
"""Objects that are compared with a region at once: their marks stay in the fastest cache."""

FIRST = 64
"""The best objects, from which many lists are filled: the size of the first chunk."""


class Lists(NamedTuple):
    """Lists of object rows, best first: that of subscription i is `rows[i, : length[i]]`."""

    rows: Ints32
    length: Ints32

    def of(self, i: int) -> Ints32:
        """The list of subscription i."""
        return self.rows[i, : self.length[i]]


def room(k: Ints32) -> Lists:
    """Empty lists with room for k[i] objects each."""
    return Lists(np.empty((len(k), int(k.max(initial=1))), np.int32), np.zeros(len(k), np.int32))


class Scan:
    """All objects sorted by rank and by x, on a board with one range attribute.

    A wide range is filled from the best object on; of a narrow one all objects are read. The number of objects in the
    range decides which is shorter: O(sqrt(k n)) a list on average.
    """

    def __init__(self, x: Floats, y: Floats, c: Ints, row: Ints32) -> None:
        by_rank = np.lexsort((c, y))
        self._x, self._row = x[by_rank], row[by_rank]
        self._by_x = np.argsort(self._x, kind="stable")
        self._sorted_x = self._x[self._by_x]

    def lists(self, regions: Regions, k: Ints32) -> Lists:
        """The lists of many ranges."""
        l, r = regions.sides
        first = np.searchsorted(self._sorted_x, l, side="left")
        last = np.searchsorted(self._sorted_x, r, side="right")
        out = room(k)
        places = np.empty(out.rows.shape[1], np.int64)
        _scan(self._x, self._row, self._by_x, l, r, k, first, last, places, out)
        return out


class SpaceScan:
    """As `Scan`, with several range attributes: all objects sorted by rank and by each attribute, each time with all
    their columns, so that neighbours are compared several at a time.

    A region's list is filled from the best object on until that has read as many objects as lie between its ends in one
    attribute, the one where they are fewest; then those are all read. So a list costs at most twice the shorter way,
    and O(n) at worst, about half a nanosecond for each object and attribute.
    """

    def __init__(self, x: Floats, y: Floats, c: Ints, row: Ints32) -> None:
        by_rank = np.lexsort((c, y))
        n, d = x.shape
        self._row = row[by_rank]
        self._rank = np.empty((d + 1, n), np.int32)
        self._columns = np.empty((d + 1, d, n))
        self._rank[0] = np.arange(n)
        self._columns[0] = x[by_rank].T
        for j in range(d):
            self._rank[1 + j] = np.argsort(self._columns[0, j], kind="stable")
            self._columns[1 + j] = self._columns[0][:, self._rank[1 + j]]

    def lists(self, regions: Regions, k: Ints32) -> Lists:
        """The lists of many regions."""
        low, high = bounds(regions)
        first, last = (np.empty(low.shape, np.int64) for _ in range(2))
        for j in range(regions.d):
            first[j] = np.searchsorted(self._columns[1 + j, j], low[j], side="left")
            last[j] = np.searchsorted(self._columns[1 + j, j], high[j], side="right")
        axis = (last - first).argmin(0)
        at = axis, np.arange(len(k))
        out = room(k)
        ranks, marks = np.empty(out.rows.shape[1], np.int32), np.empty(CHUNK, np.uint8)
        objects = self._columns, self._rank, self._row
        _scan_regions(*objects, regions.shape, regions.sides, k, axis, first[at], last[at], ranks, marks, out)
        return out


def bounds(regions: Regions) -> tuple[Floats, Floats]:
    """The least and the greatest value that an object of each region can have in each attribute, two arrays (d, m).
    O(m)."""
    low, high = (np.full((regions.d, len(regions)), end) for end in (-np.inf, np.inf))
    for shape in np.unique(regions.shape).tolist():
        at = np.flatnonzero(regions.shape == shape)
        sides = regions.sides[:, at]
        for j in range(regions.d):
            if shape == BOX:
                low[j, at], high[j, at] = sides[2 * j], sides[2 * j + 1]
            elif shape == DISC:
                # Squares are rounded, those of small numbers are 0 and those of large ones infinite: points a little
                # farther out may be inside, and all may be.
                reach = np.where(sides[2] < 1e150, sides[2] * (1.0 + 1e-9) + 1e-150, np.inf)
                low[j, at] = np.nextafter(sides[j] - reach, -np.inf)
                high[j, at] = np.nextafter(sides[j] + reach, np.inf)
            elif shape == SIMPLEX:
                corners = sides[j:6:2]
                low[j, at], high[j, at] = corners.min(0), corners.max(0)
    return low, high


# Ten arguments: the sorted columns, the queries by column, scratch and output, which nothing else has in common.
@kernel
def _scan(
    x: Floats,
    row: Ints32,
    by_x: Ints,
    l: Floats,
    r: Floats,
    k: Ints32,
    first: Ints,
    last: Ints,
    places: Ints,
    out: Lists,
) -> None:
    """Fill the lists of ranges [l, r]: `x` and `row` are ordered by rank, and by_x[first:last] are the ranks of the
    objects in a range. `places` is scratch for a list.

    The arguments are the sorted columns, the queries by column, scratch and output; they have no other common life.
    """
    for i in range(l.size):
        inside = last[i] - first[i]
        n = 0
        if inside * inside > k[i] * x.size:
            rank = 0
            while n < k[i] and rank < x.size:
                if l[i] <= x[rank] and x[rank] <= r[i]:
                    out.rows[i, n] = row[rank]
                    n += 1
                rank += 1
        else:
            for p in range(first[i], last[i]):
                n = _keep(places, n, k[i], by_x[p])
            for z in range(n):
                out.rows[i, z] = row[places[z]]
        out.length[i] = n


# Twelve arguments, as for `_scan`.
@kernel
def _scan_regions(
    columns: Floats,
    rank: Ints32,
    row: Ints32,
    shape: Bytes,
    sides: Floats,
    k: Ints32,
    axis: Ints,
    first: Ints,
    last: Ints,
    ranks: Ints32,
    marks: Bytes,
    out: Lists,
) -> None:
    """Fill the lists of regions. Side j of region i is sides[j, i]; the objects between its ends in attribute `axis`
    are first..last in that attribute's order, which is order 1 + axis of `columns` and `rank`. `ranks` and `marks` are
    scratch, `marks` for the objects that are compared at once.

    For the number of arguments see `_scan`.
    """
    for i in range(k.size):
        most = last[i] - first[i]
        n, start, size = 0, 0, min(FIRST, marks.size)
        while n < k[i] and start < most:
            stop = min(start + size, row.size)
            if _mark(columns, 0, start, stop, shape[i], sides, i, marks) > 0:
                for p in range(stop - start):
                    if marks[p] and n < k[i]:
                        ranks[n] = start + p
                        n += 1
            start, size = stop, marks.size
        if n < k[i] and start < row.size:
            n = 0
            order, start = 1 + axis[i], first[i]
            while start < last[i]:
                stop = min(start + marks.size, last[i])
                if _mark(columns, order, start, stop, shape[i], sides, i, marks) > 0:
                    for p in range(stop - start):
                        if marks[p]:
                            n = _keep(ranks, n, k[i], rank[order, start + p])
                start = stop
        for z in range(n):
            out.rows[i, z] = row[ranks[z]]
        out.length[i] = n


@internal
def _keep(ranks: NDArray[Any], n: int, k: int, rank: int) -> int:
    """Insert `rank` among the k least, in order; returns how many there are."""
    if n < k or rank < ranks[n - 1]:
        z = n if n < k else n - 1
        while z > 0 and ranks[z - 1] > rank:
            ranks[z] = ranks[z - 1]
            z -= 1
        ranks[z] = rank
        n = min(n + 1, k)
    return n


@internal
def _mark(columns: Floats, order: int, start: int, stop: int, shape: int, sides: Floats, i: int, marks: Bytes) -> int:
    """Set marks[p] to 1 for the objects start..stop of an order that region i holds, 0 for the others; returns how
    many.

    The loops are free of branches, so that they are compiled to steps of several objects each.
    """
    n = stop - start
    if shape == BOX:
        marks[:n] = 1
        for j in range(columns.shape[1]):
            l, r, x = sides[2 * j, i], sides[2 * j + 1, i], columns[order, j, start:stop]
            for p in range(n):
                marks[p] &= np.uint8(l <= x[p]) & np.uint8(x[p] <= r)
    else:
        x1, x2 = columns[order, 0, start:stop], columns[order, 1, start:stop]
        a, b, c = sides[0, i], sides[1, i], sides[2, i]
        if shape == DISC:
            for p in range(n):
                dx, dy = x1[p] - a, x2[p] - b
                marks[p] = dx * dx + dy * dy <= c * c
        elif shape == HALF_PLANE:
            for p in range(n):
                marks[p] = a * x1[p] + b * x2[p] <= c
        else:
            d, e, f = sides[3, i], sides[4, i], sides[5, i]
            west, east, south, north = min(a, c, e), max(a, c, e), min(b, d, f), max(b, d, f)
            for p in range(n):
                u, v = x1[p], x2[p]
                one = (c - a) * (v - b) - (d - b) * (u - a)
                two = (e - c) * (v - d) - (f - d) * (u - c)
                three = (a - e) * (v - f) - (b - f) * (u - e)
                left = (one > 0.0) | (two > 0.0) | (three > 0.0)
                right = (one < 0.0) | (two < 0.0) | (three < 0.0)
                within = (west <= u) & (u <= east) & (south <= v) & (v <= north)
                marks[p] = within & (not (left & right))
    total = 0
    for p in range(n):
        total += marks[p]
    return total
