"""Ways to match an event of several dimensions over one scored index for each dimension, and what they cost.

Relaxed: Fagin's Threshold Algorithm, over getnext() of every dimension in turn. Exact: along one dimension, the most
selective, looking up the others; or the intersection of all dimensions, which come in the same order of score. Both
modes: a scan of the table, for events whose ranges leave no dimension to go along: over what a range meets the indexes
have no order.

The paper stops the Threshold Algorithm when the k-th best is at least the threshold. It has to be strictly above it: at
a tie an older subscription that has not been seen could still win. For a product the threshold is the largest product
over the sets of dimensions that may match, which is not the product of all.

Source: Machanavajjhala et al., "Scalable ranked publish/subscribe", 1 and 4; Fagin, Lotem and Naor, "Optimal
aggregation algorithms for middleware".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.lean import inner_kernel, lean_kernel
from indexes.matchers.combine import PRODUCT, SUM, combined
from indexes.matchers.runs import ENTRIES, keep
from indexes.matchers.streams import Streams, next_row, open_stream

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

INF = np.inf

BLOCKS, ALONG, TOGETHER, SCAN = range(4)
"""Ways: in the blocked layout; over the indexes by dimension, along one (relaxed: along all, by the Threshold
Algorithm) or their intersection; over all rows."""


class Plan(NamedTuple):
    """How each event of a batch is matched: `way[t]`, and for ALONG the dimension `along[t]`."""

    way: npt.NDArray[np.uint8]
    along: Int64


class Sample(NamedTuple):
    """Left and right ends of some rows, sorted, by dimension: how many rows an event meets is the share of left ends
    up to b less that of right ends below a. `rows` is how many rows there are in all, `held` which dimensions have an
    index to go along."""

    left: Float64
    right: Float64
    rows: Int64
    held: npt.NDArray[np.uint8]


SAMPLED = 1024


def sample(rec: Float64, rows: Int32, d: int, held: npt.NDArray[np.uint8]) -> Sample:
    """A sample of these rows, evenly spread over their numbers, so that it is the same every time."""
    picked = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLED)).astype(np.int64)] if len(rows) else rows
    left = np.sort(rec[picked, 0 : 2 * d : 2].T.copy(), axis=1)
    right = np.sort(rec[picked, 1 : 2 * d : 2].T.copy(), axis=1)
    return Sample(left, right, np.array([len(rows)]), held)


GETNEXT, LOOK_UP, OPEN, BLOCK_ROW, BLOCK_START = 15.0, 20.0, 55.0, 0.011, 1000.0
"""Nanoseconds: a getnext(), a look-up of a row of the table, opening an index at a point, a row and dimension passed
over in blocks, a first look into them. Only their ratios matter; `rankcast bench matchers --plan` measures them."""


@inner_kernel
def _share(sorted_ends, j, value, below):  # type: ignore[no-untyped-def]
    """How many of a sorted row are < value, or <= value."""
    lo = 0
    hi = sorted_ends.shape[1]
    while lo < hi:
        mid = (lo + hi) >> 1
        end = sorted_ends[j, mid]
        if end < value or (end == value and not below):
            lo = mid + 1
        else:
            hi = mid
    return lo


@lean_kernel
def plan_exact(sample: Sample, d: int, events: Float64, k: int, blocks: int, plan: Plan) -> None:
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
        for j in range(d):
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
        cost = n * d + 1e18
        if blocks:
            way = BLOCKS
            cost = BLOCK_START + depth * d * BLOCK_ROW
        if least <= 1.0:
            walked = OPEN + depth * least * (GETNEXT + LOOK_UP)
            if walked < cost:
                way, cost = ALONG, walked
            together = d * OPEN + depth * every * GETNEXT
            if together < cost and not blocks and not ranged:
                way, cost = TOGETHER, together
        plan.way[t] = way
        plan.along[t] = along


@lean_kernel
def match_along(
    s: Streams,
    rec: Float64,
    d: int,
    relaxed: int,
    events: Float64,
    k: int,
    plan: Plan,
    out: Int32,
    total: Float64,
    count: Int64,
    seen: Int64,
) -> None:
    """The events whose way is ALONG: getnext() in one dimension, looking up the others, until k match. With one
    dimension (`relaxed` or not) that is all there is to do."""
    for t in range(events.shape[0]):
        if plan.way[t] == ALONG:
            j = plan.along[t]
            scored = 2 * d + (j if relaxed else 0)
            open_stream(s, rec, j, scored, events[t, 2 * j], events[t, 2 * j + 1], seen, t)
            n = 0
            row = np.int64(0)
            while n < k and row >= 0:
                row = next_row(s, rec, j, scored, events[t, 2 * j], events[t, 2 * j + 1], seen, t)
                if row >= 0:
                    met = True
                    for i in range(d):
                        met = (
                            met and rec[row, 2 * i] <= events[t, 2 * i + 1] and rec[row, 2 * i + 1] >= events[t, 2 * i]
                        )
                    if met:
                        out[t, n] = row
                        total[t, n] = rec[row, scored]
                        n += 1
            count[t] = n


@lean_kernel
def match_together(
    s: Streams,
    rec: Float64,
    d: int,
    events: Float64,
    k: int,
    plan: Plan,
    head: Int64,
    out: Int32,
    total: Float64,
    count: Int64,
    seen: Int64,
) -> None:
    """The events whose way is TOGETHER: the intersection of all dimensions in order of score (the paper's way). A
    dimension that is ahead waits until the others have caught up; nothing is looked up."""
    scored = 2 * d
    for t in range(events.shape[0]):
        if plan.way[t] == TOGETHER:
            n = 0
            going = True
            for j in range(d):
                a, b = events[t, 2 * j], events[t, 2 * j + 1]
                open_stream(s, rec, j, scored, a, b, seen, t)
                head[j] = next_row(s, rec, j, scored, a, b, seen, t)
                going = going and head[j] >= 0
            while going and n < k:
                worst = head[0]
                for j in range(1, d):
                    if rec[head[j], scored] < rec[worst, scored] or (
                        rec[head[j], scored] == rec[worst, scored] and head[j] > worst
                    ):
                        worst = head[j]
                same = True
                for j in range(d):
                    same = same and head[j] == worst
                if same:
                    out[t, n] = worst
                    total[t, n] = rec[worst, scored]
                    n += 1
                for j in range(d):
                    if going and (same or head[j] != worst):
                        a, b = events[t, 2 * j], events[t, 2 * j + 1]
                        head[j] = next_row(s, rec, j, scored, a, b, seen, t)
                        going = head[j] >= 0
            count[t] = n


@lean_kernel
def match_by_threshold(
    s: Streams,
    rec: Float64,
    d: int,
    how: int,
    events: Float64,
    k: int,
    plan: Plan,
    last: Float64,
    scores: Float64,
    out: Int32,
    total: Float64,
    count: Int64,
    seen: Int64,
) -> None:
    """The events whose way is ALONG, in relaxed mode: the Threshold Algorithm over all dimensions."""
    for t in range(events.shape[0]):
        if plan.way[t] == ALONG:
            for j in range(d):
                open_stream(s, rec, j, 2 * d + j, events[t, 2 * j], events[t, 2 * j + 1], seen, t)
                last[j] = INF
            n = 0
            going = True
            while going:
                for j in range(d):
                    if last[j] >= 0.0:
                        row = next_row(s, rec, j, 2 * d + j, events[t, 2 * j], events[t, 2 * j + 1], seen, t)
                        last[j] = -1.0
                        if row >= 0:
                            last[j] = rec[row, 2 * d + j]
                            score = _total(rec, d, how, events, t, row)
                            if n < k or score > scores[k - 1] or (score == scores[k - 1] and row < out[t, k - 1]):
                                known = False
                                for i in range(n):
                                    known = known or out[t, i] == row
                                if not known:
                                    n = keep(out, t, scores, n, k, score, row)
                threshold = _threshold(last, d, how)
                going = threshold >= 0.0 and (n < k or scores[k - 1] <= threshold)
            for i in range(n):
                total[t, i] = scores[i]
            count[t] = n


@inner_kernel
def _total(rec, d, how, events, t, row):  # type: ignore[no-untyped-def]
    """The combined weights of the dimensions of a row that the event meets; -1 when there are none.

    What is not met counts as that which changes nothing, without a branch: a wrong guess would wait for a row that is
    far away.
    """
    nothing = 1.0 if how == PRODUCT else 0.0
    total = nothing
    some = False
    for j in range(d):
        met = (rec[row, 2 * j] <= events[t, 2 * j + 1]) & (rec[row, 2 * j + 1] >= events[t, 2 * j])
        total = combined(how, total, rec[row, 2 * d + j] if met else nothing, False)
        some |= met
    return total if some else -1.0


@inner_kernel
def _threshold(last, d, how):  # type: ignore[no-untyped-def]
    """The most that a row can have that no dimension has come to; -1 when all are exhausted. `last[j]` is the weight
    that dimension j has come to, -1 when it is exhausted."""
    total = -1.0
    most = -1.0
    for j in range(d):
        if last[j] >= 0.0:
            most = max(most, last[j])
            if how == SUM:
                total = combined(how, total, last[j], total < 0.0)
            elif how == PRODUCT and last[j] >= 1.0:
                total = combined(how, total, last[j], total < 0.0)
    return total if how == SUM or (how == PRODUCT and most >= 1.0) else most


@lean_kernel
def match_by_scan(
    rec: Float64,
    rows: int,
    d: int,
    relaxed: int,
    how: int,
    events: Float64,
    k: int,
    plan: Plan,
    scores: Float64,
    out: Int32,
    total: Float64,
    count: Int64,
    seen: Int64,
) -> None:
    """The events whose way is SCAN: all rows of the table. O(n d) each."""
    for t in range(events.shape[0]):
        if plan.way[t] == SCAN:
            n = 0
            for row in range(rows):
                met = 0
                for j in range(d):
                    met += rec[row, 2 * j] <= events[t, 2 * j + 1] and rec[row, 2 * j + 1] >= events[t, 2 * j]
                if met == d or (relaxed and met > 0):
                    score = _total(rec, d, how, events, t, row) if relaxed else rec[row, 2 * d]
                    if n < k or score > scores[k - 1]:
                        n = keep(out, t, scores, n, k, score, row)
            for i in range(n):
                total[t, i] = scores[i]
            count[t] = n
            seen[t, ENTRIES] += rows
