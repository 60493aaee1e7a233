"""Scored R-trees packed over an arrangement, and how they change: the SOPT-R-tree and what stands behind it.

A *run* is a packed R-tree with blocks of 64. Its leaves hold intervals in an arrangement that respects their scores: of
two that intersect the better comes first (paper, Lemma 3.2), so that left-first depth-first search meets what a point
stabs in order of score. In order of score itself that is the scored R-tree, in the order of `arrangement.py` the
SOPT-R-tree.

Layout. All runs of all dimensions share one pool. Run v of dimension j is number j * runs + v; its level l begins at
slot first[., l] and holds used[., l] slots. The leaves of all bases come first, then those of all deltas, then all
inner slots. An inner slot covers the 64 slots below it: their extent, and an upper bound for their scores in `best`.
The numbers alone are the tree: slot i of a level covers slots 64 i to 64 i + 63 of the level below. A base alone
answers a point without asking for scores; they are kept beside the leaves from the first change on, when there may be
deltas to be compared with, and looked up in the table before that.

    run 0        the base
    run 1, ...   deltas, smaller ones later, each a tree like the base; the smallest is in order of score
    tail         the newest intervals, a plain list in order of score

A change goes to the tail. A full tail is merged with all deltas too full to take what is newer into one new run, as in
a log-structured merge tree. An interval that goes leaves a *hole* in its slot, [inf, -inf], which nothing meets, and
the extents above are tightened; so a query tests nothing more. Queries read the base first: its k-th score dismisses
most of the deltas. Between two blocks of a walk there are only bit masks: a block is compared at once.

Source: Machanavajjhala, Vee, Garofalakis and Shanmugasundaram, "Scalable ranked publish/subscribe", 2.2.3 and 3.2. The
paper leaves changes of a SOPT-R-tree open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.lean import inner_kernel, lean_kernel, pasted_kernel
from indexes.matchers.masks import (
    BLOCK,
    SHIFT,
    first_lane,
    first_lanes,
    lanes_behind,
    overlapping,
    without_first,
)

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

INF = np.inf
LEVELS = 7
"""Levels of a run: 64 to the 7th intervals would be more than rows can be numbered."""

GONE, IN_TAIL = -1, -2
"""Values of `place`."""

ENTRIES, LEAVES, HOLES = range(3)
"""Columns of what is counted of a query: slots compared, leaves opened, leaves opened that held nothing it meets."""


class Runs(NamedTuple):
    """The pool; see the module's docstring.

    `place[j, row]` is the leaf slot of a row, GONE or IN_TAIL; it has no columns while nothing has changed, and `score`
    is empty. `best` begins with the first inner slot. Tail j begins at j * (capacity + 64).
    """

    lo: Float64
    hi: Float64
    row: Int32
    score: Float64
    best: Float64
    first: Int64
    used: Int64
    top: Int64
    live: Int64
    place: Int32
    tail_lo: Float64
    tail_hi: Float64
    tail_score: Float64
    tail_row: Int32
    tail_used: Int64


class Walk(NamedTuple):
    """What a walk keeps: by level the hits that are to be followed yet and where their block begins; and the scores of
    the answer so far."""

    hits: Int64
    block: Int64
    score: Float64


def new_walk(k: int) -> Walk:
    return Walk(np.zeros(LEVELS, np.int64), np.zeros(LEVELS, np.int64), np.empty(k))


@lean_kernel
def top_of_runs(
    ix: Runs,
    rec: Float64,
    j: int,
    scored: int,
    events: Float64,
    at: int,
    k: int,
    walk: Walk,
    out: Int32,
    count: Int64,
    seen: Int64,
) -> None:
    """The k best rows of dimension j that each event meets, best first: out[t, :count[t]].

    Column `scored` of `rec` ranks them. Event t is events[t, at] and events[t, at + 1]. `seen[t]` is added what was
    looked at. O(k log n) blocks for a base without holes and a point; for an event that is a range the arrangement is
    no order of scores, and the walk is cut by the bounds in `best` only.
    """
    runs = ix.top.size // ix.tail_used.size
    cap = ix.tail_row.size // ix.tail_used.size
    leaves = ix.row.size
    kept = ix.score.size > 0
    for t in range(events.shape[0]):
        a = events[t, at]
        b = events[t, at + 1]
        ordered = a >= b
        ranked = (j + 1) * runs - 1 if runs > 1 else -1  # the smallest delta, which is in order of score
        n = 0
        bound = -INF
        entries = 0
        opened = 0
        holes = 0
        for v in range(j * runs, (j + 1) * runs):
            append = ordered and v == j * runs
            top = ix.top[v]
            level = top
            start = 0
            size = min(ix.used[v, level], BLOCK)
            mask = 0
            going = size > 0
            if going:
                mask = overlapping(ix.lo, ix.hi, ix.first[v, level], a, b) & first_lanes(size)
                entries += size
                if level == 0:
                    opened += 1
                    holes += mask == 0
            while going:
                if level == 0:
                    leaf = ix.first[v, 0] + start
                    while mask != 0:
                        slot = leaf + first_lane(mask)
                        mask = without_first(mask)
                        if append:
                            out[t, n] = ix.row[slot]
                            if kept:
                                walk.score[n] = ix.score[slot]
                            n += 1
                            if n == k:
                                mask = 0
                                going = False
                        else:
                            row = ix.row[slot]
                            score = ix.score[slot] if kept else rec[row, scored]
                            if n == k and (score < bound or (score == bound and row > out[t, k - 1])):
                                if ordered:  # what follows in this run is worse yet
                                    mask = 0
                                    going = False
                            else:
                                n = keep(out, t, walk.score, n, k, score, row)
                                if n == k:
                                    bound = walk.score[k - 1]
                while mask == 0 and level < top:
                    level += 1
                    mask = walk.hits[level]
                    start = walk.block[level]
                if mask == 0 or level == 0:
                    going = False
                if going:
                    i = start + first_lane(mask)
                    mask = without_first(mask)
                    if append or ix.best[ix.first[v, level] + i - leaves] >= bound:
                        walk.hits[level] = mask
                        walk.block[level] = start
                        level -= 1
                        start = i << SHIFT
                        size = min(ix.used[v, level] - start, BLOCK)
                        mask = overlapping(ix.lo, ix.hi, ix.first[v, level] + start, a, b) & first_lanes(size)
                        entries += size
                        if level == 0:
                            opened += 1
                            holes += mask == 0
                    elif v == ranked:  # what follows is worse yet
                        going = False
            if append and kept and n == k:
                bound = walk.score[k - 1]
        tail = j * cap
        used = ix.tail_used[j]
        i = 0
        while i < used and ix.tail_score[tail + i] >= bound:
            mask = overlapping(ix.tail_lo, ix.tail_hi, tail + i, a, b) & first_lanes(used - i)
            entries += min(used - i, BLOCK)
            while mask != 0:
                p = tail + i + first_lane(mask)
                mask = without_first(mask)
                score = ix.tail_score[p]
                row = ix.tail_row[p]
                if n == k and (score < bound or (score == bound and row > out[t, k - 1])):
                    mask = 0
                    i = used
                else:
                    n = keep(out, t, walk.score, n, k, score, row)
                    if n == k:
                        bound = walk.score[k - 1]
            i += BLOCK
        count[t] = n
        seen[t, ENTRIES] += entries
        seen[t, LEAVES] += opened
        seen[t, HOLES] += holes


@inner_kernel
def keep(out, t, scores, n, k, score, row):  # type: ignore[no-untyped-def]
    """Put a row in its place among the n <= k best in out[t]; the caller has seen that it has one. Returns how many
    there are now."""
    z = min(n, k - 1)
    while z > 0 and (scores[z - 1] < score or (scores[z - 1] == score and out[t, z - 1] > row)):
        scores[z] = scores[z - 1]
        out[t, z] = out[t, z - 1]
        z -= 1
    scores[z] = score
    out[t, z] = row
    return min(n + 1, k)


@pasted_kernel
def next_in_run(ix, v, i, a, b):  # type: ignore[no-untyped-def]
    """The first leaf position from i on in run v that the event meets, or -1, and the mask of the lanes behind it in
    its block that it meets too. O(log n) blocks."""
    top = ix.top[v]
    size = ix.used[v, 0]
    level = 0
    found = np.int64(-1)
    mask = 0
    going = i < size
    down = False
    while going:
        while not down and level < top and (i & (BLOCK - 1)) == 0:
            i >>= SHIFT
            level += 1
        start = i & ~(BLOCK - 1)
        mask = overlapping(ix.lo, ix.hi, ix.first[v, level] + start, a, b)
        mask &= first_lanes(ix.used[v, level] - start) & lanes_behind(i & (BLOCK - 1))
        if mask != 0:
            i = start + first_lane(mask)
            if level == 0:
                found = i
                mask = without_first(mask)
                going = False
            else:
                level -= 1
                i <<= SHIFT
                down = True
        else:
            down = False
            i = start + BLOCK
            going = i < ix.used[v, level]
    return found, mask


@lean_kernel
def fill_run(ix: Runs, rec: Float64, j: int, v: int, scored: int, rows: Int32) -> None:
    """Write these rows, in the order of an arrangement, as run v (of all), which belongs to dimension j. O(n)."""
    n = rows.size
    first = ix.first[v, 0]
    placed = ix.place.shape[1] > 0
    kept = ix.score.size > 0
    for i in range(n):
        row = rows[i]
        ix.lo[first + i] = rec[row, 2 * j]
        ix.hi[first + i] = rec[row, 2 * j + 1]
        ix.row[first + i] = row
        if kept:
            ix.score[first + i] = rec[row, scored]
        if placed:
            ix.place[j, row] = first + i
    ix.live[v] = n
    ix.used[v, :] = 0
    ix.used[v, 0] = n
    level = 0
    leaves = ix.row.size
    while n > BLOCK:
        above = ix.first[v, level + 1]
        size = (n + BLOCK - 1) >> SHIFT
        for g in range(size):
            lo, hi, best = INF, -INF, -INF
            for i in range(first + (g << SHIFT), first + min(n, (g + 1) << SHIFT)):
                lo = min(lo, ix.lo[i])
                hi = max(hi, ix.hi[i])
                best = max(best, rec[ix.row[i], scored] if level == 0 else ix.best[i - leaves])
            ix.lo[above + g] = lo
            ix.hi[above + g] = hi
            ix.best[above + g - leaves] = best
        first = above
        n = size
        level += 1
        ix.used[v, level] = n
    ix.top[v] = level


@inner_kernel
def _make_hole(ix, j, slot):  # type: ignore[no-untyped-def]
    runs = ix.top.size // ix.tail_used.size
    v = j * runs
    while slot < ix.first[v, 0] or slot >= ix.first[v, 0] + ix.used[v, 0]:
        v += 1
    gone_lo, gone_hi = ix.lo[slot], ix.hi[slot]
    ix.lo[slot] = INF
    ix.hi[slot] = -INF
    ix.live[v] -= 1
    i = slot - ix.first[v, 0]
    level = 1
    while level <= ix.top[v]:
        i >>= SHIFT
        above = ix.first[v, level] + i
        if gone_lo > ix.lo[above] and gone_hi < ix.hi[above]:  # as most do: others reach further on both sides
            level = LEVELS
        else:
            gone_lo, gone_hi = ix.lo[above], ix.hi[above]
            below = ix.first[v, level - 1]
            lo, hi = INF, -INF
            for s in range(below + (i << SHIFT), below + min(ix.used[v, level - 1], (i + 1) << SHIFT)):
                lo = min(lo, ix.lo[s])
                hi = max(hi, ix.hi[s])
            if gone_lo == lo and gone_hi == hi:
                level = LEVELS
            ix.lo[above] = lo
            ix.hi[above] = hi
        level += 1


@inner_kernel
def _tail_place(ix, start, used, score, row):  # type: ignore[no-untyped-def]
    """The first place of a tail that does not rank before (score, row)."""
    lo = 0
    hi = used
    while lo < hi:
        mid = (lo + hi) >> 1
        there = ix.tail_score[start + mid]
        if there > score or (there == score and ix.tail_row[start + mid] < row):
            lo = mid + 1
        else:
            hi = mid
    return start + lo


@lean_kernel
def remove_from_runs(ix: Runs, rec: Float64, j: int, scored: int, rows: Int32) -> int:
    """Take rows out of dimension j; `rec` must still have their scores. Rows that are not there are passed over.

    Returns how many were there. O(64 log n) each.
    """
    removed = 0
    cap = ix.tail_row.size // ix.tail_used.size
    start = j * cap
    for i in range(rows.size):
        row = rows[i]
        slot = np.int64(ix.place[j, row])
        if slot >= 0:
            _make_hole(ix, j, slot)
        elif slot == IN_TAIL:
            used = ix.tail_used[j]
            p = _tail_place(ix, start, used, rec[row, scored], row)
            for z in range(p, start + used - 1):
                ix.tail_lo[z] = ix.tail_lo[z + 1]
                ix.tail_hi[z] = ix.tail_hi[z + 1]
                ix.tail_score[z] = ix.tail_score[z + 1]
                ix.tail_row[z] = ix.tail_row[z + 1]
            ix.tail_used[j] = used - 1
        removed += slot != GONE
        ix.place[j, row] = GONE
    return removed


@lean_kernel
def add_to_tail(ix: Runs, rec: Float64, j: int, scored: int, rows: Int32, begin: int) -> int:
    """Merge rows[begin:], which take part in dimension j and are in order of rank, into its tail, as far as there is
    room. Returns the first that did not go in, or how many there are. O(tail + rows), from the back: nothing waits in
    between."""
    cap = ix.tail_row.size // ix.tail_used.size
    start = j * cap
    used = ix.tail_used[j]
    end = min(rows.size, begin + cap - BLOCK - used)
    last = start + used - 1
    z = last + end - begin
    for i in range(end - 1, begin - 1, -1):
        row = rows[i]
        score = rec[row, scored]
        while last >= start and (
            ix.tail_score[last] < score or (ix.tail_score[last] == score and ix.tail_row[last] > row)
        ):
            ix.tail_lo[z] = ix.tail_lo[last]
            ix.tail_hi[z] = ix.tail_hi[last]
            ix.tail_score[z] = ix.tail_score[last]
            ix.tail_row[z] = ix.tail_row[last]
            last -= 1
            z -= 1
        ix.tail_lo[z] = rec[row, 2 * j]
        ix.tail_hi[z] = rec[row, 2 * j + 1]
        ix.tail_score[z] = score
        ix.tail_row[z] = row
        ix.place[j, row] = IN_TAIL
        z -= 1
    ix.tail_used[j] = used + end - begin
    return end


@lean_kernel
def empty_runs(ix: Runs, j: int, begin: int, out: Int32) -> int:
    """Write the rows of the runs from `begin` on of dimension j and of its tail to `out`, and empty them; returns how
    many."""
    runs = ix.top.size // ix.tail_used.size
    n = 0
    for v in range(j * runs + begin, (j + 1) * runs):
        for i in range(ix.first[v, 0], ix.first[v, 0] + ix.used[v, 0]):
            if ix.lo[i] <= ix.hi[i]:
                out[n] = ix.row[i]
                n += 1
        ix.used[v, :] = 0
        ix.top[v] = 0
        ix.live[v] = 0
    start = j * (ix.tail_row.size // ix.tail_used.size)
    for i in range(start, start + ix.tail_used[j]):
        out[n] = ix.tail_row[i]
        n += 1
    ix.tail_used[j] = 0
    return n
