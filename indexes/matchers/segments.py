"""Scored segment trees: the fast and fat index, n log n entries (paper, 2.2.1). It is not changed once it is built.

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

from indexes.jit import kernel
from indexes.lean import lean_kernel, pasted_kernel
from indexes.matchers.arrangement import slabs_of
from indexes.matchers.cursors import CURSORS, Cursors
from indexes.matchers.order import rank_order
from indexes.matchers.runs import ENTRIES

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

SIZE, END, NODE, RANK = range(4)
"""Columns of `head`: intervals, where end points, nodes and ranks begin."""

LANE_BITS = 7
"""Bits of the place of a cursor among those of its dimension."""

EXHAUSTED = np.int64(np.iinfo(np.int64).max)


class Segments(NamedTuple):
    """The arrays of all dimensions; see the module's docstring."""

    head: Int64
    ends: Float64
    start: npt.NDArray[np.uint32]
    entry: Int32
    by_rank: Int32


@kernel
def _cover(left, right):  # type: ignore[no-untyped-def]
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


@pasted_kernel
def open_segments(ix, j, a, b, cu):  # type: ignore[no-untyped-def]
    """Cursors at the lists of all nodes on the path of a point. O(log n).

    Their keys are ranks, each with the cursor's place in its lowest bits: the least key says where it is.
    """
    size = ix.head[j, SIZE]
    n = np.int64(0)
    begin = j * CURSORS
    if a == b and size > 0:
        first = ix.head[j, END]
        slab = np.int64(0)  # in the end, how many end points are behind the point
        left = 2 * size
        while left > 0:
            half = (left + 1) >> 1
            slab += half if ix.ends[first + slab + half - 1] < a else 0
            left -= half
        node = slab + 2 * size + 1
        first = ix.head[j, NODE]
        while node > 0:
            at = np.int64(ix.start[first + node])
            end = np.int64(ix.start[first + node + 1])
            cu.at[begin + n] = at
            cu.aux[begin + n] = end
            cu.row[begin + n] = np.int64(ix.entry[at]) << LANE_BITS | n
            n += at < end
            node >>= 1
    elif size > 0:
        cu.at[begin] = -1
        cu.aux[begin] = size
        cu.row[begin] = 0
        n = np.int64(1)
    cu.used[j] = n


@pasted_kernel
def next_in_segments(ix, rec, j, a, b, cu, seen, t):  # type: ignore[no-untyped-def]
    """The next best row that the event meets, or -1. O(log n) for a point."""
    row = np.int64(-1)
    begin = j * CURSORS
    best = EXHAUSTED
    for z in range(begin, begin + cu.used[j]):
        best = min(best, cu.row[z])
    if best != EXHAUSTED:
        z = begin + (best & (CURSORS - 1))
        ranks = ix.head[j, RANK]
        at = cu.at[z]
        if a != b:
            at += 1
            going = at < cu.aux[z]
            while going:
                row = np.int64(ix.by_rank[ranks + at])
                if rec[row, 2 * j] <= b and rec[row, 2 * j + 1] >= a:
                    going = False
                else:
                    row = np.int64(-1)
                    at += 1
                    going = at < cu.aux[z]
            seen[t, ENTRIES] += at - cu.at[z]
        else:
            row = np.int64(ix.by_rank[ranks + (best >> LANE_BITS)])
            seen[t, ENTRIES] += 1
            at += 1
            lane = z - begin
            cu.row[z] = np.int64(ix.entry[at]) << LANE_BITS | lane if at < cu.aux[z] else EXHAUSTED
        cu.at[z] = at
    return row


@lean_kernel
def top_of_segments(
    ix: Segments,
    rec: Float64,
    j: int,
    events: Float64,
    at: int,
    k: int,
    cu: Cursors,
    out: Int32,
    count: Int64,
    seen: Int64,
) -> None:
    """The k best rows of dimension j that each event meets, as `runs.top_of_runs`. O((log n + k) log n) for a point,
    linear in what ranks before the k-th for any other event."""
    for t in range(events.shape[0]):
        a = events[t, at]
        b = events[t, at + 1]
        open_segments(ix, j, a, b, cu)
        n = 0
        row = next_in_segments(ix, rec, j, a, b, cu, seen, t)
        while row >= 0:
            out[t, n] = row
            n += 1
            row = next_in_segments(ix, rec, j, a, b, cu, seen, t) if n < k else np.int64(-1)
        count[t] = n


class _Tree(NamedTuple):
    """The arrays of one dimension, counted from 0."""

    ends: Float64
    start: npt.NDArray[np.integer]
    entry: Int32
    by_rank: Int32


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

    def __init__(self, rec: Float64, rows: Int32, d: int, relaxed: bool) -> None:
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
        """Entries of all nodes: the paper's measure of space."""
        return len(self.arrays.entry) - 1

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)
