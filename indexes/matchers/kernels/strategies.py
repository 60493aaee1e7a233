"""Ways to match an event of several dimensions over one scored index for each dimension, and what they cost.

Relaxed: Fagin's Threshold Algorithm, over getnext() of every dimension in turn. Exact: along one dimension, the most
selective, looking up the others; or the intersection of all dimensions, which come in the same order of score. Both
modes: a scan of the table, for events whose ranges leave no dimension to go along: for what a range meets the indexes
have no order.

[Ranked matching] stops the Threshold Algorithm when the k-th best is at least the threshold. It has to be strictly
above it: at a tie an older subscription that has not been seen could still win. For a product the threshold is the
largest product over the sets of dimensions that may match, which is not the product of all.

Source: [Ranked matching] 1 and 4; Fagin, Lotem and Naor, "Optimal aggregation algorithms for middleware".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32, int64
from indexes.matchers.kernels.answers import ENTRIES, Answers, keep
from indexes.matchers.kernels.combine import PRODUCT, SUM, combined
from indexes.matchers.kernels.sorted_access import SortedAccess, next_row, seek_first

BLOCKS, ALONG, TOGETHER, SCAN = range(4)
"""Ways: in the blocked layout; over the indexes by dimension, along one (relaxed: along all, by the Threshold
Algorithm) or their intersection; over all rows."""


class Plan(NamedTuple):
    """How each event of a batch is matched: `way[t]`, and for ALONG the dimension `along[t]`."""

    way: Bytes
    along: Ints


class Scratch(NamedTuple):
    """Scratch of a match: by dimension the row that sorted access has come to and its weight, and the scores of
    the k best so far."""

    head: Ints
    last: Floats
    scores: Floats


def new_scratch(dimensions: int, k: int) -> Scratch:
    return Scratch(np.empty(dimensions, np.int64), np.empty(dimensions), np.empty(k))


class Sample(NamedTuple):
    """Left and right ends of some rows, sorted, by dimension: how many rows an event meets is the share of left ends
    up to b less that of right ends below a. `rows` is how many rows there are in all, `held` which dimensions have an
    index to go along."""

    left: Floats
    right: Floats
    rows: Ints
    held: Bytes


SAMPLED = 1024


def sample(rec: Floats, rows: Ints32, d: int, held: Bytes) -> Sample:
    """A sample of these rows, evenly spread over their numbers, so that it is the same every time."""
    picked = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLED)).astype(np.int64)] if len(rows) else rows
    left = np.sort(rec[picked, 0 : 2 * d : 2].T.copy(), axis=1)
    right = np.sort(rec[picked, 1 : 2 * d : 2].T.copy(), axis=1)
    return Sample(left, right, np.array([len(rows)]), held)


GETNEXT, LOOK_UP, OPEN, BLOCK_ROW, BLOCK_START = 15.0, 20.0, 55.0, 0.011, 1000.0
"""Nanoseconds: a getnext(), a look-up of a row of the table, opening an index at a point, a row and dimension passed
over in blocks, a first look into them. Only their ratios matter; `rankcast bench matchers --plan` measures them."""


@internal
def _share(sorted_ends: Floats, dimension: int, value: float, below: bool) -> int:
    """How many of a sorted row are < value, or <= value."""
    lo = 0
    hi = sorted_ends.shape[1]
    while lo < hi:
        mid = (lo + hi) >> 1
        end = sorted_ends[dimension, mid]
        if end < value or (end == value and not below):
            lo = mid + 1
        else:
            hi = mid
    return lo


@kernel
def plan_exact(sample: Sample, dimensions: int, events: Floats, k: int, blocks: int, plan: Plan) -> None:
    """Choose the cheapest way to match each event exactly. O(d log sample) each.

    With shares s_j of rows met in each dimension, independent of each other, the k-th winner is about the
    k / (s_1 ... s_d)-th row in order of score; up to there, dimension j has s_j of the rows. An index has rows in order
    of score for a point only, so an event goes along a dimension in which it is one.
    """
    size = max(1, sample.left.shape[1])
    n = float(sample.rows[0])
    for t in range(events.shape[0]):
        all_met = 1.0
        least = 2.0
        along = 0
        every = 0.0
        ranged = False
        for j in range(dimensions):
            a, b = events[t, 2 * j], events[t, 2 * j + 1]
            point = a >= b
            ranged = ranged or not point
            met = max(0.5, float(_share(sample.left, j, b, False) - _share(sample.right, j, a, True))) / size
            all_met *= met
            every += met
            if sample.held[j] and point and met < least:
                least = met
                along = j
        depth = min(n, k / all_met)
        way = SCAN
        cost = n * dimensions + 1e18
        if blocks:
            way = BLOCKS
            cost = BLOCK_START + depth * dimensions * BLOCK_ROW
        if least <= 1.0:
            walked = OPEN + depth * least * (GETNEXT + LOOK_UP)
            if walked < cost:
                way, cost = ALONG, walked
            together = dimensions * OPEN + depth * every * GETNEXT
            if together < cost and not blocks and not ranged:
                way, cost = TOGETHER, together
        plan.way[t] = way
        plan.along[t] = along


@kernel
def match_along(
    access: SortedAccess, table: Floats, dimensions: int, relaxed: int, events: Floats, plan: Plan, answers: Answers
) -> None:
    """The events whose way is ALONG: getnext() in one dimension, looking up the others, until k match. With one
    dimension (`relaxed` or not) that is all there is to do."""
    out, total, count, seen = answers.rows, answers.scores, answers.found, answers.seen
    k = out.shape[1]
    for t in range(events.shape[0]):
        if plan.way[t] == ALONG:
            dimension = plan.along[t]
            scored = 2 * dimensions + (dimension if relaxed else 0)
            seek_first(
                access, table, dimension, scored, events[t, 2 * dimension], events[t, 2 * dimension + 1], seen, t
            )
            n = 0
            row = int64(0)
            while n < k and row >= 0:
                row = next_row(
                    access, table, dimension, scored, events[t, 2 * dimension], events[t, 2 * dimension + 1], seen, t
                )
                if row >= 0:
                    met = True
                    for j in range(dimensions):
                        met = (
                            met
                            and table[row, 2 * j] <= events[t, 2 * j + 1]
                            and table[row, 2 * j + 1] >= events[t, 2 * j]
                        )
                    if met:
                        out[t, n] = row
                        total[t, n] = table[row, scored]
                        n += 1
            count[t] = n


@kernel
def match_together(
    access: SortedAccess, table: Floats, dimensions: int, events: Floats, plan: Plan, scratch: Scratch, answers: Answers
) -> None:
    """The events whose way is TOGETHER: the intersection of all dimensions in order of score ([Ranked matching] 4). A
    dimension that is ahead waits until the others have caught up; nothing is looked up."""
    out, total, count, seen = answers.rows, answers.scores, answers.found, answers.seen
    k = out.shape[1]
    head = scratch.head
    scored = 2 * dimensions
    for t in range(events.shape[0]):
        if plan.way[t] == TOGETHER:
            n = 0
            going = True
            for j in range(dimensions):
                a, b = events[t, 2 * j], events[t, 2 * j + 1]
                seek_first(access, table, j, scored, a, b, seen, t)
                head[j] = next_row(access, table, j, scored, a, b, seen, t)
                going = going and head[j] >= 0
            while going and n < k:
                worst = head[0]
                for j in range(1, dimensions):
                    if table[head[j], scored] < table[worst, scored] or (
                        table[head[j], scored] == table[worst, scored] and head[j] > worst
                    ):
                        worst = head[j]
                same = True
                for j in range(dimensions):
                    same = same and head[j] == worst
                if same:
                    out[t, n] = worst
                    total[t, n] = table[worst, scored]
                    n += 1
                for j in range(dimensions):
                    if going and (same or head[j] != worst):
                        a, b = events[t, 2 * j], events[t, 2 * j + 1]
                        head[j] = next_row(access, table, j, scored, a, b, seen, t)
                        going = head[j] >= 0
            count[t] = n


@kernel
def match_by_threshold(
    access: SortedAccess,
    table: Floats,
    dimensions: int,
    how: int,
    events: Floats,
    plan: Plan,
    scratch: Scratch,
    answers: Answers,
) -> None:
    """The events whose way is ALONG, in relaxed mode: the Threshold Algorithm over all dimensions."""
    out, total, count, seen = answers.rows, answers.scores, answers.found, answers.seen
    k = out.shape[1]
    last, scores = scratch.last, scratch.scores
    for t in range(events.shape[0]):
        if plan.way[t] == ALONG:
            for j in range(dimensions):
                seek_first(access, table, j, 2 * dimensions + j, events[t, 2 * j], events[t, 2 * j + 1], seen, t)
                last[j] = INF
            n = 0
            going = True
            while going:
                for j in range(dimensions):
                    if last[j] >= 0.0:
                        row = next_row(
                            access, table, j, 2 * dimensions + j, events[t, 2 * j], events[t, 2 * j + 1], seen, t
                        )
                        last[j] = -1.0
                        if row >= 0:
                            last[j] = table[row, 2 * dimensions + j]
                            score = _total(table, dimensions, how, events, t, row)
                            if n < k or score > scores[k - 1] or (score == scores[k - 1] and row < out[t, k - 1]):
                                known = False
                                for i in range(n):
                                    known = known or out[t, i] == row
                                if not known:
                                    n = keep(out, t, scores, n, k, score, row)
                threshold = _threshold(last, dimensions, how)
                going = threshold >= 0.0 and (n < k or scores[k - 1] <= threshold)
            for i in range(n):
                total[t, i] = scores[i]
            count[t] = n


@internal
def _total(table: Floats, dimensions: int, how: int, events: Floats, event: int, row: int) -> float:
    """The combined weights of the dimensions of a row that the event meets; -1 when there are none.

    What is not met counts as that which changes nothing, without a branch: a wrong guess would wait for a row that is
    far away.
    """
    nothing = 1.0 if how == PRODUCT else 0.0
    total = nothing
    some = False
    for j in range(dimensions):
        met = (table[row, 2 * j] <= events[event, 2 * j + 1]) & (table[row, 2 * j + 1] >= events[event, 2 * j])
        total = combined(how, total, table[row, 2 * dimensions + j] if met else nothing, False)
        some |= met
    return total if some else -1.0


@internal
def _threshold(last: Floats, dimensions: int, how: int) -> float:
    """The most that a row can have that no dimension has come to; -1 when all are exhausted. `last[j]` is the weight
    that dimension j has come to, -1 when it is exhausted."""
    total = -1.0
    most = -1.0
    for j in range(dimensions):
        if last[j] >= 0.0:
            most = max(most, last[j])
            if how == SUM:
                total = combined(how, total, last[j], total < 0.0)
            elif how == PRODUCT and last[j] >= 1.0:
                total = combined(how, total, last[j], total < 0.0)
    return total if how == SUM or (how == PRODUCT and most >= 1.0) else most


@kernel
def match_by_scan(
    table: Floats,
    dimensions: int,
    relaxed: int,
    how: int,
    events: Floats,
    plan: Plan,
    scratch: Scratch,
    answers: Answers,
) -> None:
    """The events whose way is SCAN: all rows of the table. O(n d) each."""
    out, total, count, seen = answers.rows, answers.scores, answers.found, answers.seen
    k = out.shape[1]
    scores = scratch.scores
    rows = table.shape[0]
    for t in range(events.shape[0]):
        if plan.way[t] == SCAN:
            n = 0
            for row in range(rows):
                met = 0
                for j in range(dimensions):
                    met += table[row, 2 * j] <= events[t, 2 * j + 1] and table[row, 2 * j + 1] >= events[t, 2 * j]
                if met == dimensions or (relaxed and met > 0):
                    score = _total(table, dimensions, how, events, t, row) if relaxed else table[row, 2 * dimensions]
                    if n < k or score > scores[k - 1]:
                        n = keep(out, t, scores, n, k, score, row)
            for i in range(n):
                total[t, i] = scores[i]
            count[t] = n
            seen[t, ENTRIES] += rows
