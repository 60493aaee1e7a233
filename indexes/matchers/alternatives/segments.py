"""Scored segment trees: the fastest and largest index, n log n entries ([Ranked matching] 2.2.1). It is never changed.

Layout. Slabs are those of `arrangement.py`: N = 2n + 1 of them are the leaves of a complete binary tree without
pointers, leaf s being node N + s and the parent of node v node v >> 1. An interval is kept at the at most 2 log N nodes
that together cover just its slabs. Node v of dimension j has the ranks entry[start[v]] ..., best first, v counted from
head[j, NODE]; by_rank names their rows. A point meets exactly what is kept on the path from its slab to the root. An
event that is no point is answered by going through all ranks in order.

`ends` has the end points in order, each left end as the next smaller float: so "behind the point" is the same
comparison for left ends, which are when they are equal to it, and right ends, which are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.compiled.jit import allocating_kernel, inlined
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.matchers.kernels.answers import ENTRIES
from indexes.matchers.kernels.arrangement import slabs_of
from indexes.matchers.kernels.order import rank_order
from indexes.matchers.kernels.positions import MOST_POSITIONS, Positions

SIZE, END, NODE, RANK = range(4)
"""Columns of `head`: intervals, where end points, nodes and ranks begin."""

LANE_BITS = 7
"""Bits of the number of a position among those of its dimension."""

EXHAUSTED = int64(np.iinfo(np.int64).max)


class Segments(NamedTuple):
    """The arrays of all dimensions; see the module's docstring."""

    head: Ints
    ends: Floats
    start: npt.NDArray[np.uint32]
    entry: Ints32
    by_rank: Ints32


@allocating_kernel
def _cover(left: Ints32, right: Ints32) -> tuple[Ints, Ints32]:
    n = left.size
    size = 2 * n + 1
    start = np.zeros(2 * size + 1, np.int64)
    for fill in range(2):
        if fill:
            for v in range(2 * size):
                start[v + 1] += start[v]
            entry = np.empty(start[2 * size], np.int32)
            at = start.copy()
        else:
            entry = np.empty(0, np.int32)
            at = start
        for i in range(n):  # in order of rank, so that the list of every node is
            a = left[i] + 1 + size
            b = right[i] + 1 + size
            while a < b:
                if a & 1:
                    if fill:
                        entry[at[a]] = i
                        at[a] += 1
                    else:
                        start[a + 1] += 1
                    a += 1
                if b & 1:
                    b -= 1
                    if fill:
                        entry[at[b]] = i
                        at[b] += 1
                    else:
                        start[b + 1] += 1
                a >>= 1
                b >>= 1
    return start, entry


@inlined
def open_segments(trees: Segments, dimension: int, low: float, high: float, positions: Positions) -> None:
    """Positions at the lists of all nodes on the path of a point. O(log n).

    Their keys are ranks, each with the number of its position in the lowest bits, so that the least key names it.
    """
    size = trees.head[dimension, SIZE]
    n = int64(0)
    begin = dimension * MOST_POSITIONS
    if low == high and size > 0:
        first = trees.head[dimension, END]
        slab = int64(0)  # in the end, how many end points are behind the point
        left = 2 * size
        while left > 0:
            half = (left + 1) >> 1
            slab += half if trees.ends[first + slab + half - 1] < low else 0
            left -= half
        node = slab + 2 * size + 1
        first = trees.head[dimension, NODE]
        while node > 0:
            at = int64(trees.start[first + node])
            end = int64(trees.start[first + node + 1])
            positions.at[begin + n] = at
            positions.aux[begin + n] = end
            positions.row[begin + n] = int64(trees.entry[at]) << LANE_BITS | n
            n += at < end
            node >>= 1
    elif size > 0:
        positions.at[begin] = -1
        positions.aux[begin] = size
        positions.row[begin] = 0
        n = int64(1)
    positions.used[dimension] = n


@inlined
def next_in_segments(
    trees: Segments,
    table: Floats,
    dimension: int,
    low: float,
    high: float,
    positions: Positions,
    seen: Ints,
    event: int,
) -> int:
    """The next best row that the event meets, or -1. O(log n) for a point."""
    row = int64(-1)
    begin = dimension * MOST_POSITIONS
    best = EXHAUSTED
    for here in range(begin, begin + positions.used[dimension]):
        best = min(best, positions.row[here])
    if best != EXHAUSTED:
        here = begin + (best & (MOST_POSITIONS - 1))
        ranks = trees.head[dimension, RANK]
        at = positions.at[here]
        if low != high:
            at += 1
            going = at < positions.aux[here]
            while going:
                row = int64(trees.by_rank[ranks + at])
                if table[row, 2 * dimension] <= high and table[row, 2 * dimension + 1] >= low:
                    going = False
                else:
                    row = int64(-1)
                    at += 1
                    going = at < positions.aux[here]
            seen[event, ENTRIES] += at - positions.at[here]
        else:
            row = int64(trees.by_rank[ranks + (best >> LANE_BITS)])
            seen[event, ENTRIES] += 1
            at += 1
            lane = here - begin
            positions.row[here] = int64(trees.entry[at]) << LANE_BITS | lane if at < positions.aux[here] else EXHAUSTED
        positions.at[here] = at
    return row


class _Tree(NamedTuple):
    """The arrays of one dimension, counted from 0."""

    ends: Floats
    start: npt.NDArray[np.integer]
    entry: Ints32
    by_rank: Ints32


def _joined(trees: Sequence[_Tree]) -> Segments:
    """All dimensions in the same arrays. Raises OverflowError when there would be more than 2^32 entries."""
    head = np.zeros((len(trees), 4), np.int64)
    starts = []
    ends = nodes = ranks = entries = 0
    for j, tree in enumerate(trees):
        head[j] = len(tree.by_rank), ends, nodes, ranks
        starts.append(tree.start.astype(np.int64) + entries)
        ends, nodes, ranks = ends + len(tree.ends), nodes + len(tree.start), ranks + len(tree.by_rank)
        entries += len(tree.entry)
    if entries >= 1 << 32:
        raise OverflowError("a segment tree of so many intervals has more than 2^32 entries")
    nobody = np.zeros(1, np.int32)  # an empty list may lie at the very end, and is read before it is found empty
    return Segments(
        head,
        np.concatenate([tree.ends for tree in trees]),
        np.concatenate(starts).astype(np.uint32),
        np.concatenate([*(tree.entry for tree in trees), nobody]),
        np.concatenate([tree.by_rank for tree in trees]).astype(np.int32),
    )


class SegmentIndex:
    """One scored segment tree for each of d dimensions, over the rows of a table."""

    def __init__(self, rec: Floats, rows: Ints32, d: int, relaxed: bool) -> None:
        """Build it. O(d n log n). Raises OverflowError when it would have more than 2^32 entries."""
        parts = []
        for j in range(d):
            mine = rows[rec[rows, 2 * j] <= rec[rows, 2 * j + 1]]
            mine = mine[rank_order(rec[mine, 2 * d + (j if relaxed else 0)], mine)]
            slabs = slabs_of(rec[mine, 2 * j], rec[mine, 2 * j + 1])
            start, entry = _cover(slabs.left, slabs.right)
            ends = np.where(slabs.is_right, slabs.ends, np.nextafter(slabs.ends, -np.inf))
            parts.append(_Tree(ends, start, entry, mine))
        self.arrays = _joined(parts)

    @classmethod
    def join(cls, parts: Sequence[SegmentIndex]) -> SegmentIndex:
        """The index of several dimensions, out of that of each alone, over the same rows. O(d n log n). Raises
        OverflowError as building does."""
        index = object.__new__(cls)
        alone = (part.arrays for part in parts)
        index.arrays = _joined([_Tree(ix.ends, ix.start, ix.entry[:-1], ix.by_rank) for ix in alone])
        return index

    @property
    def entries(self) -> int:
        """Entries of all nodes: the measure of space of [Ranked matching]."""
        return len(self.arrays.entry) - 1

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)
