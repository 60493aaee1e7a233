"""Sorted access over any of the indexes: getnext(), the rows of one dimension that an event meets, best first.

A dimension merges what its indexes have: its segment tree, and its runs or its lists. There is only one of these, but
for a segment tree, which does not change: what it lacks is kept in runs, and a row that has changed since it was built
is `stale` in it.

Source: [Ranked matching] 3 and 4; sorted access is the term of Fagin, Lotem and Naor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined
from indexes.compiled.masks import BLOCK, first_lane, without_first
from indexes.compiled.simd import prefetch_block
from indexes.core.arrays import Bytes, Floats, Ints, int64
from indexes.matchers.alternatives.lists import ListIndex, Lists, open_lists, seek_list
from indexes.matchers.alternatives.segments import SegmentIndex, Segments, next_in_segments, open_segments
from indexes.matchers.kernels.answers import ENTRIES
from indexes.matchers.kernels.positions import (
    LIST_POSITION,
    MOST_POSITIONS,
    RUN_POSITION,
    TAIL_POSITION,
    Positions,
    best_position,
    drop_position,
    new_positions,
    put_position,
)
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.runs import Runs, next_in_run


class SortedAccess(NamedTuple):
    """The indexes of all dimensions, those that are not there being empty, and the places in them.

    `ahead[j]` is the row that dimension j has read ahead from its segment tree, -1 for none and -2 for not read.
    """

    runs: Runs
    lists: Lists
    segments: Segments
    stale: Bytes
    positions: Positions
    slabs: Positions
    ahead: Ints


def new_sorted_access(
    d: int,
    runs: RunIndex | None = None,
    lists: ListIndex | None = None,
    segments: SegmentIndex | None = None,
    stale: Bytes | None = None,
) -> SortedAccess:
    """Sorted access to the indexes that are given. Make it again after a change, which may replace their arrays."""
    nothing = np.empty((0, 2 * d + 1))
    nobody = np.empty(0, np.int32)
    return SortedAccess(
        (runs or RunIndex(d, False)).arrays,
        (lists or ListIndex(d, False)).arrays,
        (segments or SegmentIndex(nothing, nobody, d, False)).arrays,
        np.zeros(0, np.uint8) if stale is None else stale,
        new_positions(d),
        new_positions(d),
        np.zeros(d, np.int64),
    )


@inlined
def seek_first(
    access: SortedAccess, table: Floats, dimension: int, scored: int, low: float, high: float, seen: Ints, event: int
) -> None:
    """Set a dimension before the best row that a point meets. O(log n)."""
    positions = access.positions
    open_lists(access.lists, dimension, low, high, positions, seen, event)
    runs = access.runs.top.size // access.runs.tail_used.size
    for v in range(dimension * runs, (dimension + 1) * runs):
        here = dimension * MOST_POSITIONS + positions.used[dimension]
        put_position(positions, here, RUN_POSITION, -1, v, 0.0, 0)
        positions.used[dimension] += 1
        _seek_run(access.runs, table, dimension, scored, low, high, positions, here, False)
    if access.runs.tail_used[dimension] > 0:
        here = dimension * MOST_POSITIONS + positions.used[dimension]
        put_position(positions, here, TAIL_POSITION, -1, 0, 0.0, 0)
        positions.used[dimension] += 1
        _seek_tail(access.runs, dimension, low, high, positions, here)
    open_segments(access.segments, dimension, low, high, access.slabs)
    access.ahead[dimension] = -2


@inlined  # nine arguments: a part of two callers, who have all of them
def _seek_run(
    runs: Runs,
    table: Floats,
    dimension: int,
    scored: int,
    low: float,
    high: float,
    positions: Positions,
    here: int,
    alone: bool,
) -> None:
    """Move a position on to the next interval of its run that the event meets, or drop it. Where it is the only one,
    `alone`, its score is not looked up: nothing waits for a row that is far away."""
    run = positions.aux[here]
    left = positions.left[here]
    if left != 0:
        i = (positions.at[here] & ~(BLOCK - 1)) + first_lane(left)
        left = without_first(left)
    else:
        i, left = next_in_run(runs, run, (positions.at[here] | (BLOCK - 1)) + 1, low, high)
    if i >= 0:
        positions.left[here] = left
        row = runs.row[runs.first[run, 0] + i]
        positions.at[here] = i
        positions.row[here] = row
        prefetch_block(table, int64(row) * table.shape[1])
        if not alone:
            positions.score[here] = table[row, scored]
        if left != 0:  # the row after this one, too, will be looked up
            ahead = runs.row[runs.first[run, 0] + (i & ~(BLOCK - 1)) + first_lane(left)]
            prefetch_block(table, int64(ahead) * table.shape[1])
    else:
        drop_position(positions, dimension, here)


@inlined
def _seek_tail(runs: Runs, dimension: int, low: float, high: float, positions: Positions, here: int) -> None:
    start = dimension * (runs.tail_row.size // runs.tail_used.size)
    end = runs.tail_used[dimension]
    i = positions.at[here] + 1
    while i < end and (runs.tail_lo[start + i] > high or runs.tail_hi[start + i] < low):
        i += 1
    if i < end:
        positions.at[here] = i
        positions.row[here] = runs.tail_row[start + i]
        positions.score[here] = runs.tail_score[start + i]
    else:
        drop_position(positions, dimension, here)


@inlined
def next_row(
    access: SortedAccess, table: Floats, dimension: int, scored: int, low: float, high: float, seen: Ints, event: int
) -> int:
    """getnext(): the next best row of a dimension that the point meets, or -1."""
    positions = access.positions
    while access.ahead[dimension] == -2:
        row = next_in_segments(access.segments, table, dimension, low, high, access.slabs, seen, event)
        if row < 0 or access.stale[row] == 0:
            access.ahead[dimension] = row
    ahead = access.ahead[dimension]
    row = int64(-1)
    if positions.used[dimension] > 0:
        begin = dimension * MOST_POSITIONS
        here = best_position(positions, begin, begin + positions.used[dimension])
        first = ahead < 0 or positions.score[here] > table[ahead, scored]
        if first or (positions.score[here] == table[ahead, scored] and positions.row[here] < ahead):
            kind = positions.kind[here]
            row = positions.row[here]
            seen[event, ENTRIES] += 1
            if kind == LIST_POSITION:
                seek_list(access.lists, dimension, low, high, positions, here, seen, event)
                prefetch_block(table, positions.row[here] * table.shape[1])
            elif kind == RUN_POSITION:
                _seek_run(
                    access.runs,
                    table,
                    dimension,
                    scored,
                    low,
                    high,
                    positions,
                    here,
                    ahead < 0 and positions.used[dimension] == 1,
                )
            else:
                _seek_tail(access.runs, dimension, low, high, positions, here)
    if row < 0 and ahead >= 0:
        row = ahead
        access.ahead[dimension] = -2
    return row
