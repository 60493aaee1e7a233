"""Scored R-trees packed over an arrangement, and how they change: the SOPT-R-tree and its deltas.

A *run* is a packed R-tree with blocks of 64. Its leaves hold intervals in an arrangement that respects their scores: of
two that intersect the better comes first (Lemma 3.2), so that left-first depth-first search meets what a point
stabs in order of score. In order of score itself that is the scored R-tree, in the order of `arrangement.py` the
SOPT-R-tree.

Layout. All runs of all dimensions share one pool. Run v of dimension j is number j * runs + v; its level l begins at
slot first[., l] and holds used[., l] slots. The leaves of all bases come first, then those of all deltas, then all
inner slots. An inner slot covers the 64 slots below it: their extent, and an upper bound for their scores in `best`.
The numbers alone are the tree: slot i of a level covers slots 64 i to 64 i + 63 of the level below. A base alone
answers a point without asking for scores; they are stored with the leaves from the first change on, when there may be
deltas to be compared with, and looked up in the table before that.

    run 0        the base
    run 1        a delta, a tree like the base
    run 2, ...   deltas in order of score, smaller ones later
    tail         the newest intervals, a plain list in order of score

A change goes to the tail. A full tail is merged with all deltas too full to take what is newer into one new run, as in
a log-structured merge tree. An interval that goes leaves a *hole* in its slot, [inf, -inf], which nothing meets, and
the extents above are tightened; so a query tests nothing more. Queries read the base first: its k-th score dismisses
most of the deltas. Between two blocks of a walk there are only bit masks: a block is compared at once.

Source: [Ranked matching] 2.2.3 and 3.2, which leaves changes of a SOPT-R-tree open.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.masks import BLOCK, SHIFT, first_lane, first_lanes, lanes_behind, overlapping, without_first
from indexes.compiled.simd import prefetch_line
from indexes.core.arrays import INF, Floats, Ints, Ints32, int64
from indexes.matchers.kernels.answers import ENTRIES, HOLES, LEAVES, Answers, keep

LEVELS = 7
"""Levels of a run: 64 to the 7th intervals would be more than rows can be numbered."""

FAR, NEAR = 16, 8
"""So many changes ahead places, and then slots, are prefetched."""

NOWHERE, IN_TAIL = 0, -1
"""Values of `place` that are no slots, which count from 1: the former is what memory says that was never written to."""


class Runs(NamedTuple):
    """The pool; see the module's docstring.

    `place[j, row]` is one more than the leaf slot of a row, NOWHERE or IN_TAIL; it has no columns while nothing has
    changed, and `score` is empty. `best` begins with the first inner slot. Tail j begins at j * (capacity + 64).
    """

    lo: Floats
    hi: Floats
    row: Ints32
    score: Floats
    best: Floats
    first: Ints
    used: Ints
    top: Ints
    live: Ints
    place: Ints32
    tail_lo: Floats
    tail_hi: Floats
    tail_score: Floats
    tail_row: Ints32
    tail_used: Ints


RANKED = 2
"""The first run of a dimension that is in order of score, and so is what is merged in one pass."""


class Ranked(NamedTuple):
    """Intervals in order of rank, holes among them."""

    lo: Floats
    hi: Floats
    score: Floats
    row: Ints32

    def part(self, part: slice) -> Ranked:
        return Ranked(self.lo[part], self.hi[part], self.score[part], self.row[part])

    def copied(self) -> Ranked:
        return Ranked(self.lo.copy(), self.hi.copy(), self.score.copy(), self.row.copy())


class Walk(NamedTuple):
    """What a walk keeps: by level the hits that are to be followed yet and where their block begins; and the scores of
    the answer so far."""

    hits: Ints
    block: Ints
    score: Floats


def new_walk(k: int) -> Walk:
    return Walk(np.zeros(LEVELS, np.int64), np.zeros(LEVELS, np.int64), np.empty(k))


@kernel
def top_of_runs(
    pool: Runs, table: Floats, dimension: int, scored: int, events: Floats, walk: Walk, answers: Answers
) -> None:
    """The k best rows of a dimension that each event meets, of those of which none are found yet; their scores are not
    written.

    Column `scored` of `table` ranks them. Event t is the pair events[t, 0], events[t, 1]. O(k log n) blocks for a base
    without holes and a point; for an event that is a range the arrangement is no order of scores, and the walk is cut
    by the bounds in `best` only.
    """
    out, count, seen, k = answers.rows, answers.found, answers.seen, answers.rows.shape[1]
    runs = pool.top.size // pool.tail_used.size
    cap = pool.tail_row.size // pool.tail_used.size
    leaves = pool.row.size
    kept = pool.score.size > 0
    for t in range(events.shape[0]):
        a = events[t, 0]
        b = events[t, 1]
        ordered = a >= b
        ranked = dimension * runs + RANKED
        n = 0
        bound = -INF
        entries = 0
        opened = 0
        holes = 0
        asked = count[t] == 0
        for v in range(dimension * runs, (dimension + 1) * runs if asked else 0):
            append = ordered and v == dimension * runs
            top = pool.top[v]
            level = top
            start = 0
            size = min(pool.used[v, level], BLOCK)
            mask = 0
            going = size > 0
            if going:
                mask = overlapping(pool.lo, pool.hi, pool.first[v, level], a, b) & first_lanes(size)
                entries += size
                if level == 0:
                    opened += 1
                    holes += mask == 0
            while going:
                if level == 0:
                    leaf = pool.first[v, 0] + start
                    while mask != 0:
                        slot = leaf + first_lane(mask)
                        mask = without_first(mask)
                        if append:
                            out[t, n] = pool.row[slot]
                            if kept:
                                walk.score[n] = pool.score[slot]
                            n += 1
                            if n == k:
                                mask = 0
                                going = False
                        else:
                            row = pool.row[slot]
                            score = pool.score[slot] if kept else table[row, scored]
                            if n == k and (score < bound or (score == bound and row > out[t, k - 1])):
                                if ordered or v >= ranked:  # what follows in this run is worse yet
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
                    if append or pool.best[pool.first[v, level] + i - leaves] >= bound:
                        walk.hits[level] = mask
                        walk.block[level] = start
                        level -= 1
                        start = i << SHIFT
                        size = min(pool.used[v, level] - start, BLOCK)
                        mask = overlapping(pool.lo, pool.hi, pool.first[v, level] + start, a, b) & first_lanes(size)
                        entries += size
                        if level == 0:
                            opened += 1
                            holes += mask == 0
                    elif v >= ranked:  # what follows is worse yet
                        going = False
            if append and kept and n == k:
                bound = walk.score[k - 1]
        tail = dimension * cap
        used = pool.tail_used[dimension] if asked else 0
        i = 0
        while i < used and pool.tail_score[tail + i] >= bound:
            mask = overlapping(pool.tail_lo, pool.tail_hi, tail + i, a, b) & first_lanes(used - i)
            entries += min(used - i, BLOCK)
            while mask != 0:
                p = tail + i + first_lane(mask)
                mask = without_first(mask)
                score = pool.tail_score[p]
                row = pool.tail_row[p]
                if n == k and (score < bound or (score == bound and row > out[t, k - 1])):
                    mask = 0
                    i = used
                else:
                    n = keep(out, t, walk.score, n, k, score, row)
                    if n == k:
                        bound = walk.score[k - 1]
            i += BLOCK
        count[t] = n if asked else count[t]
        seen[t, ENTRIES] += entries
        seen[t, LEAVES] += opened
        seen[t, HOLES] += holes


@inlined
def next_in_run(pool: Runs, run: int, i: int, low: float, high: float) -> tuple[int, int]:
    """The first leaf position from i on in a run that the event meets, or -1, and the mask of the lanes behind it in
    its block that it meets too. O(log n) blocks."""
    top = pool.top[run]
    size = pool.used[run, 0]
    level = 0
    found = int64(-1)
    mask = 0
    going = i < size
    down = False
    while going:
        while not down and level < top and (i & (BLOCK - 1)) == 0:
            i >>= SHIFT
            level += 1
        start = i & ~(BLOCK - 1)
        mask = overlapping(pool.lo, pool.hi, pool.first[run, level] + start, low, high)
        mask &= first_lanes(pool.used[run, level] - start) & lanes_behind(i & (BLOCK - 1))
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
            going = i < pool.used[run, level]
    return found, mask


@kernel
def fill_run(pool: Runs, table: Floats, dimension: int, run: int, scored: int, rows: Ints32) -> None:
    """Write these rows, in the order of an arrangement, as a run (of all), which belongs to a dimension. O(n)."""
    n = rows.size
    first = pool.first[run, 0]
    placed = pool.place.shape[1] > 0
    kept = pool.score.size > 0
    for i in range(n):
        row = rows[i]
        pool.lo[first + i] = table[row, 2 * dimension]
        pool.hi[first + i] = table[row, 2 * dimension + 1]
        pool.row[first + i] = row
        if kept:
            pool.score[first + i] = table[row, scored]
        if placed:
            pool.place[dimension, row] = first + i + 1
    _raise_levels(pool, table, scored, run, n)


@kernel
def put_run(pool: Runs, table: Floats, dimension: int, run: int, scored: int, ranked: Ranked) -> None:
    """Write intervals in order of rank as a run (of all), which belongs to a dimension. O(n)."""
    n = ranked.row.size
    first = pool.first[run, 0]
    for i in range(n):
        pool.lo[first + i] = ranked.lo[i]
        pool.hi[first + i] = ranked.hi[i]
        pool.score[first + i] = ranked.score[i]
        pool.row[first + i] = ranked.row[i]
    for i in range(n):
        pool.place[dimension, ranked.row[i]] = first + i + 1
    _raise_levels(pool, table, scored, run, n)


@kernel
def merge_ranked(a: Ranked, b: Ranked, out: Ranked) -> int:
    """Write what is in either, without holes, in order of rank; returns how much that is. O(a + b)."""
    i = j = n = 0
    while i < a.row.size or j < b.row.size:
        if i < a.row.size and not a.lo[i] <= a.hi[i]:
            i += 1
        elif j < b.row.size and not b.lo[j] <= b.hi[j]:
            j += 1
        else:
            first = j == b.row.size
            if not first and i < a.row.size:
                first = a.score[i] > b.score[j] or (a.score[i] == b.score[j] and a.row[i] < b.row[j])
            if first:
                out.lo[n], out.hi[n], out.score[n], out.row[n] = a.lo[i], a.hi[i], a.score[i], a.row[i]
                i += 1
            else:
                out.lo[n], out.hi[n], out.score[n], out.row[n] = b.lo[j], b.hi[j], b.score[j], b.row[j]
                j += 1
            n += 1
    return n


@internal
def _raise_levels(pool: Runs, table: Floats, scored: int, run: int, n: int) -> None:
    """Set what a run of n leaves has above them."""
    first = pool.first[run, 0]
    kept = pool.score.size > 0
    pool.live[run] = n
    pool.used[run, :] = 0
    pool.used[run, 0] = n
    level = 0
    leaves = pool.row.size
    while n > BLOCK:
        above = pool.first[run, level + 1]
        size = (n + BLOCK - 1) >> SHIFT
        for g in range(size):
            lo, hi, best = INF, -INF, -INF
            for i in range(first + (g << SHIFT), first + min(n, (g + 1) << SHIFT)):
                lo = min(lo, pool.lo[i])
                hi = max(hi, pool.hi[i])
                if level > 0:
                    best = max(best, pool.best[i - leaves])
                else:
                    best = max(best, pool.score[i] if kept else table[pool.row[i], scored])
            pool.lo[above + g] = lo
            pool.hi[above + g] = hi
            pool.best[above + g - leaves] = best
        first = above
        n = size
        level += 1
        pool.used[run, level] = n
    pool.top[run] = level


@internal
def _make_hole(pool: Runs, dimension: int, slot: int) -> None:
    runs = pool.top.size // pool.tail_used.size
    v = dimension * runs
    while slot < pool.first[v, 0] or slot >= pool.first[v, 0] + pool.used[v, 0]:
        v += 1
    gone_lo, gone_hi = pool.lo[slot], pool.hi[slot]
    pool.lo[slot] = INF
    pool.hi[slot] = -INF
    pool.live[v] -= 1
    i = slot - pool.first[v, 0]
    level = 1
    while level <= pool.top[v]:
        i >>= SHIFT
        above = pool.first[v, level] + i
        if gone_lo > pool.lo[above] and gone_hi < pool.hi[above]:  # as most do: others reach further on both sides
            level = LEVELS
        else:
            gone_lo, gone_hi = pool.lo[above], pool.hi[above]
            below = pool.first[v, level - 1]
            lo, hi = INF, -INF
            for s in range(below + (i << SHIFT), below + min(pool.used[v, level - 1], (i + 1) << SHIFT)):
                lo = min(lo, pool.lo[s])
                hi = max(hi, pool.hi[s])
            if gone_lo == lo and gone_hi == hi:
                level = LEVELS
            pool.lo[above] = lo
            pool.hi[above] = hi
        level += 1


@internal
def _tail_place(pool: Runs, start: int, used: int, score: float, row: int) -> int:
    """The first place of a tail that does not rank before (score, row)."""
    lo = 0
    hi = used
    while lo < hi:
        mid = (lo + hi) >> 1
        there = pool.tail_score[start + mid]
        if there > score or (there == score and pool.tail_row[start + mid] < row):
            lo = mid + 1
        else:
            hi = mid
    return start + lo


@kernel
def remove_from_runs(pool: Runs, table: Floats, dimension: int, scored: int, rows: Ints32) -> int:
    """Take rows out of a dimension; `table` must still have their scores. Absent rows are ignored.

    Returns how many were there. O(64 log n) each.
    """
    removed = 0
    cap = pool.tail_row.size // pool.tail_used.size
    start = dimension * cap
    for i in range(rows.size):
        if i + FAR < rows.size:
            prefetch_line(pool.place, dimension * pool.place.shape[1] + rows[i + FAR])
        if i + NEAR < rows.size:
            ahead = int64(pool.place[dimension, rows[i + NEAR]]) - 1
            prefetch_line(pool.lo, ahead)
            prefetch_line(pool.hi, ahead)
        row = rows[i]
        place = int64(pool.place[dimension, row])
        if place > 0:
            _make_hole(pool, dimension, place - 1)
        elif place == IN_TAIL:
            used = pool.tail_used[dimension]
            p = _tail_place(pool, start, used, table[row, scored], row)
            for z in range(p, start + used - 1):
                pool.tail_lo[z] = pool.tail_lo[z + 1]
                pool.tail_hi[z] = pool.tail_hi[z + 1]
                pool.tail_score[z] = pool.tail_score[z + 1]
                pool.tail_row[z] = pool.tail_row[z + 1]
            pool.tail_used[dimension] = used - 1
        removed += place != NOWHERE
        pool.place[dimension, row] = NOWHERE
    return removed


@kernel
def add_to_tail(pool: Runs, table: Floats, dimension: int, scored: int, rows: Ints32, begin: int) -> int:
    """Merge rows[begin:], which take part in a dimension and are in order of rank, into its tail, as far as there is
    room. Returns the first that did not go in, or how many there are. O(tail + rows), from the back: nothing waits in
    between."""
    cap = pool.tail_row.size // pool.tail_used.size
    start = dimension * cap
    used = pool.tail_used[dimension]
    end = min(rows.size, begin + cap - BLOCK - used)
    last = start + used - 1
    z = last + end - begin
    for i in range(end - 1, begin - 1, -1):
        row = rows[i]
        score = table[row, scored]
        while last >= start and (
            pool.tail_score[last] < score or (pool.tail_score[last] == score and pool.tail_row[last] > row)
        ):
            pool.tail_lo[z] = pool.tail_lo[last]
            pool.tail_hi[z] = pool.tail_hi[last]
            pool.tail_score[z] = pool.tail_score[last]
            pool.tail_row[z] = pool.tail_row[last]
            last -= 1
            z -= 1
        pool.tail_lo[z] = table[row, 2 * dimension]
        pool.tail_hi[z] = table[row, 2 * dimension + 1]
        pool.tail_score[z] = score
        pool.tail_row[z] = row
        pool.place[dimension, row] = IN_TAIL
        z -= 1
    pool.tail_used[dimension] = used + end - begin
    return end


@kernel
def empty_runs(pool: Runs, dimension: int, begin: int, out: Ints32) -> int:
    """Write the rows of the runs from `begin` on of a dimension and of its tail to `out`, and empty them; returns how
    many."""
    runs = pool.top.size // pool.tail_used.size
    n = 0
    for v in range(dimension * runs + begin, (dimension + 1) * runs):
        for i in range(pool.first[v, 0], pool.first[v, 0] + pool.used[v, 0]):
            if pool.lo[i] <= pool.hi[i]:
                out[n] = pool.row[i]
                n += 1
        pool.used[v, :] = 0
        pool.top[v] = 0
        pool.live[v] = 0
    start = dimension * (pool.tail_row.size // pool.tail_used.size)
    for i in range(start, start + pool.tail_used[dimension]):
        out[n] = pool.tail_row[i]
        n += 1
    pool.tail_used[dimension] = 0
    return n
