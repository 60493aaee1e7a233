"""getnext() over any of the indexes: the rows of one dimension that an event meets, best first.

What an index has built stands beside what has changed since: a dimension's stream is the better of the next of its
segment tree and of its runs or lists. Of these only one is there, save that what a segment tree lacks is kept in runs;
a row that changed since the segment tree was built is `stale` in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.lanes import prefetch_block
from indexes.lean import lean_kernel, pasted_kernel
from indexes.matchers.cursors import (
    CURSORS,
    LIST_CURSOR,
    RUN_CURSOR,
    TAIL_CURSOR,
    Cursors,
    best_cursor,
    drop_cursor,
    new_cursors,
    put_cursor,
)
from indexes.matchers.dynamic import RunIndex
from indexes.matchers.lists import ListIndex, Lists, open_lists, seek_list
from indexes.matchers.masks import BLOCK, first_lane, without_first
from indexes.matchers.runs import ENTRIES, Runs, next_in_run
from indexes.matchers.segments import SegmentIndex, Segments, next_in_segments, open_segments

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Streams(NamedTuple):
    """The indexes of all dimensions, those that are not there being empty, and the places in them.

    `ahead[j]` is the row that dimension j has read ahead from its segment tree, -1 for none and -2 for not read.
    """

    runs: Runs
    lists: Lists
    segments: Segments
    stale: npt.NDArray[np.uint8]
    cursors: Cursors
    slabs: Cursors
    ahead: Int64


def open_streams(
    d: int,
    runs: RunIndex | None = None,
    lists: ListIndex | None = None,
    segments: SegmentIndex | None = None,
    stale: npt.NDArray[np.uint8] | None = None,
) -> Streams:
    """Streams over the indexes that are there. Kernels move them to events; arrays that an index has since replaced are
    not seen, so open them anew after a change."""
    nothing = np.empty((0, 2 * d + 1))
    nobody = np.empty(0, np.int32)
    return Streams(
        (runs or RunIndex(d, False)).arrays,
        (lists or ListIndex(d, False)).arrays,
        (segments or SegmentIndex(nothing, nobody, d, False)).arrays,
        np.zeros(0, np.uint8) if stale is None else stale,
        new_cursors(d),
        new_cursors(d),
        np.zeros(d, np.int64),
    )


@pasted_kernel
def open_stream(s, rec, j, scored, a, b, seen, t):  # type: ignore[no-untyped-def]
    """Set the stream of dimension j before the best row that a point meets. O(log n)."""
    cu = s.cursors
    open_lists(s.lists, j, a, b, cu, seen, t)
    runs = s.runs.top.size // s.runs.tail_used.size
    for v in range(j * runs, (j + 1) * runs):
        z = j * CURSORS + cu.used[j]
        put_cursor(cu, z, RUN_CURSOR, -1, v, 0.0, 0)
        cu.used[j] += 1
        _seek_run(s.runs, rec, j, scored, a, b, cu, z, False)
    if s.runs.tail_used[j] > 0:
        z = j * CURSORS + cu.used[j]
        put_cursor(cu, z, TAIL_CURSOR, -1, 0, 0.0, 0)
        cu.used[j] += 1
        _seek_tail(s.runs, j, a, b, cu, z)
    open_segments(s.segments, j, a, b, s.slabs)
    s.ahead[j] = -2


@pasted_kernel
def _seek_run(ix, rec, j, scored, a, b, cu, z, alone):  # type: ignore[no-untyped-def]
    """Move cursor z on to the next interval of its run that the event meets, or close it. Where it is the last cursor,
    `alone`, its score is not looked up: nothing waits for a row that is far away."""
    v = cu.aux[z]
    left = cu.left[z]
    if left != 0:
        i = (cu.at[z] & ~(BLOCK - 1)) + first_lane(left)
        left = without_first(left)
    else:
        i, left = next_in_run(ix, v, (cu.at[z] | (BLOCK - 1)) + 1, a, b)
    if i >= 0:
        cu.left[z] = left
        row = ix.row[ix.first[v, 0] + i]
        cu.at[z] = i
        cu.row[z] = row
        prefetch_block(rec, np.int64(row) * rec.shape[1])
        if not alone:
            cu.score[z] = rec[row, scored]
        if left != 0:  # the row after this one, too, will be looked up
            ahead = ix.row[ix.first[v, 0] + (i & ~(BLOCK - 1)) + first_lane(left)]
            prefetch_block(rec, np.int64(ahead) * rec.shape[1])
    else:
        drop_cursor(cu, j, z)


@pasted_kernel
def _seek_tail(ix, j, a, b, cu, z):  # type: ignore[no-untyped-def]
    start = j * (ix.tail_row.size // ix.tail_used.size)
    end = ix.tail_used[j]
    i = cu.at[z] + 1
    while i < end and (ix.tail_lo[start + i] > b or ix.tail_hi[start + i] < a):
        i += 1
    if i < end:
        cu.at[z] = i
        cu.row[z] = ix.tail_row[start + i]
        cu.score[z] = ix.tail_score[start + i]
    else:
        drop_cursor(cu, j, z)


@pasted_kernel
def next_row(s, rec, j, scored, a, b, seen, t):  # type: ignore[no-untyped-def]
    """getnext(): the next best row of dimension j that the point meets, or -1."""
    cu = s.cursors
    while s.ahead[j] == -2:
        row = next_in_segments(s.segments, rec, j, a, b, s.slabs, seen, t)
        if row < 0 or s.stale[row] == 0:
            s.ahead[j] = row
    ahead = s.ahead[j]
    row = np.int64(-1)
    if cu.used[j] > 0:
        begin = j * CURSORS
        z = best_cursor(cu, begin, begin + cu.used[j])
        first = ahead < 0 or cu.score[z] > rec[ahead, scored]
        if first or (cu.score[z] == rec[ahead, scored] and cu.row[z] < ahead):
            kind = cu.kind[z]
            row = cu.row[z]
            seen[t, ENTRIES] += 1
            if kind == LIST_CURSOR:
                seek_list(s.lists, j, a, b, cu, z, seen, t)
                prefetch_block(rec, cu.row[z] * rec.shape[1])
            elif kind == RUN_CURSOR:
                _seek_run(s.runs, rec, j, scored, a, b, cu, z, ahead < 0 and cu.used[j] == 1)
            else:
                _seek_tail(s.runs, j, a, b, cu, z)
    if row < 0 and ahead >= 0:
        row = ahead
        s.ahead[j] = -2
    return row


@lean_kernel
def stab(s: Streams, rec: Float64, j: int, scored: int, a: float, b: float, seen: Int64) -> None:
    """Open the stream of dimension j at a point."""
    open_stream(s, rec, j, scored, a, b, seen, 0)


@lean_kernel
def read_on(s: Streams, rec: Float64, j: int, scored: int, a: float, b: float, out: Int32, seen: Int64) -> int:
    """The next rows of an open stream, as many as `out` takes; returns how many there were."""
    n = 0
    row = np.int64(0)
    while n < out.size and row >= 0:
        row = next_row(s, rec, j, scored, a, b, seen, 0)
        if row >= 0:
            out[n] = row
            n += 1
    return n
