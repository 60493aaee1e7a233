"""Lists without an index: what a list must be, by looking at the objects one after another.

Nothing here looks into an index of objects or calls its kernels; what a region holds is written out once more, too, so
that a list from an index and the same list from here agree only if both are right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.regions import Regions
from indexes.boards.space.shapes import BOX, DISC, HALF_PLANE, SIMPLEX
from indexes.lean import inner_kernel, lean_kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
UInt8 = npt.NDArray[np.uint8]

CHUNK = 512
"""Objects that are compared with a region at once: what they are marked with stays close to the processor."""

FIRST = 64
"""The best objects, which many a list is filled from."""


class Lists(NamedTuple):
    """Lists of object rows, best first: that of subscription i is `rows[i, : length[i]]`."""

    rows: Int32
    length: Int32

    def of(self, i: int) -> Int32:
        """The list of subscription i."""
        return self.rows[i, : self.length[i]]


def room(k: Int32) -> Lists:
    """Empty lists with room for so many objects each."""
    return Lists(np.empty((len(k), int(k.max(initial=1))), np.int32), np.zeros(len(k), np.int32))


class Scan:
    """All objects once by rank and once by x, on a board with one range attribute.

    A wide range is filled from the best object on; of a narrow one all objects are looked at. The number of objects in
    the range says which is shorter: O(sqrt(k n)) a list in the mean.
    """

    def __init__(self, x: Float64, y: Float64, c: Int64, row: Int32) -> None:
        by_rank = np.lexsort((c, y))
        self._x, self._row = x[by_rank], row[by_rank]
        self._by_x = np.argsort(self._x, kind="stable")
        self._sorted_x = self._x[self._by_x]

    def lists(self, regions: Regions, k: Int32) -> Lists:
        """The lists of many ranges."""
        l, r = regions.sides
        first = np.searchsorted(self._sorted_x, l, side="left")
        last = np.searchsorted(self._sorted_x, r, side="right")
        out = room(k)
        places = np.empty(out.rows.shape[1], np.int64)
        _scan(self._x, self._row, self._by_x, l, r, k, first, last, places, out)
        return out


class SpaceScan:
    """As `Scan`, with several range attributes: all objects once by rank and once by each attribute, each time with all
    their columns, so that those that follow each other are compared several at a time.

    A region's list is filled from the best object on for as long as that looks at no more objects than lie between its
    ends in one attribute, the one where they are fewest; then those are all looked at. So a list costs at most twice
    the shorter way, and O(n) at worst, about half a nanosecond for each object and attribute.
    """

    def __init__(self, x: Float64, y: Float64, c: Int64, row: Int32) -> None:
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

    def lists(self, regions: Regions, k: Int32) -> Lists:
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


def bounds(regions: Regions) -> tuple[Float64, Float64]:
    """The least and the largest value that an object of each region can have in each attribute, (d, m). O(m)."""
    low, high = (np.full((regions.d, len(regions)), end) for end in (-np.inf, np.inf))
    for shape in np.unique(regions.shape).tolist():
        at = np.flatnonzero(regions.shape == shape)
        sides = regions.sides[:, at]
        for j in range(regions.d):
            if shape == BOX:
                low[j, at], high[j, at] = sides[2 * j], sides[2 * j + 1]
            elif shape == DISC:
                # Squares are rounded, those of small numbers vanish and those of large ones are infinite: what lies a
                # little farther out may be inside, and everything may.
                reach = np.where(sides[2] < 1e150, sides[2] * (1.0 + 1e-9) + 1e-150, np.inf)
                low[j, at] = np.nextafter(sides[j] - reach, -np.inf)
                high[j, at] = np.nextafter(sides[j] + reach, np.inf)
            elif shape == SIMPLEX:
                corners = sides[j:6:2]
                low[j, at], high[j, at] = corners.min(0), corners.max(0)
    return low, high


@lean_kernel
def _scan(
    x: Float64,
    row: Int32,
    by_x: Int64,
    l: Float64,
    r: Float64,
    k: Int32,
    first: Int64,
    last: Int64,
    places: Int64,
    out: Lists,
) -> None:
    """`x` and `row` are in order of rank; by_x[first:last] are the ranks of the objects in a range."""
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


@lean_kernel
def _scan_regions(columns, rank, row, shape, sides, k, axis, first, last, ranks, marks, out):  # type: ignore[no-untyped-def]
    """Side j of region i is sides[j, i]; the objects between its ends in attribute `axis` are first..last in that
    attribute's order, which is order 1 + axis of `columns` and `rank`. `ranks` and `marks` are scratch, `marks` for the
    objects that are compared at once."""
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


@inner_kernel
def _keep(ranks, n, k, rank):  # type: ignore[no-untyped-def]
    """Keep the k least ranks, in order; returns how many there are now."""
    if n < k or rank < ranks[n - 1]:
        z = n if n < k else n - 1
        while z > 0 and ranks[z - 1] > rank:
            ranks[z] = ranks[z - 1]
            z -= 1
        ranks[z] = rank
        n = min(n + 1, k)
    return n


@inner_kernel
def _mark(columns, order, start, stop, shape, sides, i, marks):  # type: ignore[no-untyped-def]
    """Mark the objects start..stop of an order that region i holds by 1, the others by 0; returns how many it holds.

    The loops have no branch, so that they are compiled to steps of several objects each.
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
