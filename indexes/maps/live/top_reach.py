"""An index of standing top-k queries by the objects that may touch them without being candidates.

Within its circle Z no member of a query's answer scores more than MScore. So an object p may matter only where its
least score in the circle, that at a distance of d(p, q) - Z, is no more than MScore. The index uses two necessary
conditions of that, which hold for every score. p is within the *reach* of q: Z plus the distance at which even the best
static values score MScore. And no static value of p is beyond its *ceiling*, with which p could not score MScore even
at q with the best of all other values. So a query is a box over place and static values; of a million objects most are
beyond the ceilings of all queries and are rejected at the root.

The best static values are those that the ranges of attributes allow, or bounds of all values so far. An object with
better ones causes all boxes to be computed again; the assumed bounds then grow by a share of their width, so that a
value that keeps falling causes it only a logarithmic number of times. Boxes are drawn larger than necessary, so that a
query whose zone is searched for again mostly keeps its own.

The boxes are a `PlaceIndex`: a packed base, tombstones and a delta in blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.simd import LANES, lanes_upto, low_bit
from indexes.core.arrays import Floats, Ints, int64
from indexes.maps.kernels.floats import EPSILON, float_inlined, float_internal, float_kernel
from indexes.maps.kernels.metrics import FARTHEST, GREAT_CIRCLE, distance, mindist, slack
from indexes.maps.kernels.object_index import BLOCK, BLOCKS, LEAVES, View
from indexes.maps.kernels.programs import run_over
from indexes.maps.kernels.rectangles import reaching
from indexes.maps.kernels.score_table import Scores, ScoreTable, score_in
from indexes.maps.kernels.scores import (
    DISTANCE,
    EXPRESSION,
    PRODUCT,
    SUM,
    SURE,
    WASPAS,
    Scoring,
    least_and_most,
    static_parts,
)
from indexes.maps.live.holders import Pairs
from indexes.maps.object_index import PlaceIndex

MOST = 1.7976931348623157e308
"""A reach or a ceiling of this is none: distances that are too large for a number are within it."""

RESTING = np.nan
"""MScore of a query that no object may touch for now. None that is not resting has it."""

FAINT = 4 * 5e-324
"""By so little a score may be off because numbers become too small."""

LARGER = 0.125
"""By which share boxes are enlarged."""

GROWTH = 0.25
"""By which share of their width the assumed bounds of static values grow."""

ALONG = 3
"""Dimensions by which the base is tiled: place and reach, so that queries that reach far have nodes of their own."""

MOST_CHURN, SMALL = 0.25, 1024
"""The churn, and the number of changes, from which on the index is folded."""

DOUBLINGS, HALVINGS = 1100, 24


class Bounds(NamedTuple):
    """The values of the exact test, by query."""

    x: Floats
    y: Floats
    radius: Floats
    most: Floats  # MScore: infinite while there are fewer than k; RESTING
    score: Ints  # in the table


class Touching(NamedTuple):
    """Objects that may touch queries: their places (n, 2) and static values, concatenated."""

    points: Floats
    statics: Floats


class TopReach:
    """Standing top-k queries by number, found by the objects that may touch them."""

    def __init__(self, metric: int, lower: Floats, upper: Floats) -> None:
        """For a map by one of `metrics.METRICS`, whose static values are known to be from `lower` (d,) to `upper`;
        infinite where they are not, until `allow` sets bounds."""
        self.metric = metric
        self.d = len(lower)
        self.scores = ScoreTable()
        self.lower, self.upper = lower.astype(np.float64), upper.astype(np.float64)
        none = np.empty(0)
        self.bounds = Bounds(none, none, none, none, np.empty(0, np.int64))
        self._drawn = np.zeros((0, 1 + self.d))
        self.index = PlaceIndex.build(np.empty((0, 2)), np.empty((0, 1 + self.d)))
        self._stack = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.index)

    def allow(self, statics: Floats) -> None:
        """Widen the bounds for objects with these static values (n, d). O(n d); if one is better than was assumed,
        O(q d log q) for q queries."""
        if ((statics >= self.lower) & (statics <= self.upper)).all():
            return
        least, most = statics.min(axis=0), statics.max(axis=0)
        lower, upper = np.minimum(self.lower, least), np.maximum(self.upper, most)
        with np.errstate(invalid="ignore"):
            known = np.isfinite(self.lower) & np.isfinite(self.upper)
            wider = np.where(known, GROWTH * (upper - lower), 0.0)
        self.lower = np.where(least < self.lower, lower - wider, lower)
        self.upper = np.where(most > self.upper, upper + wider, upper)
        queries = self.index.slots().astype(np.int64)
        queries = queries[~np.isnan(self.bounds.most[queries])]
        if len(queries):
            self._drawn[queries] = self._boxes(queries)
            self._rebuild(queries)

    def put(
        self, queries: Ints, points: Floats, scores: Ints, radius: Floats, ends: Ints, far: Floats, statics: Floats
    ) -> None:
        """Insert or replace queries: at `points` (q, 2), by scorings of the table, which belong to the caller, with
        zones of these radii, the distances and static values (c, d) of members, concatenated, up to `ends`; no
        members where there are fewer than k. O(members + BLOCK d) each."""
        b = self._reserve(int(queries.max(initial=-1)) + 1)
        b.x[queries], b.y[queries] = points.T
        b.radius[queries], b.score[queries] = radius, scores
        most = np.empty(len(queries))
        most_scores(self.scores.arrays, scores, radius, ends, far, np.ascontiguousarray(statics.T).reshape(-1), most)
        b.most[queries] = most
        boxes = self._boxes(queries)
        drawn = self._drawn[queries]
        there = self.index.holds(queries)
        same = there & (boxes <= drawn).all(axis=1) & (boxes[:, 0] >= 0.5 * drawn[:, 0])
        if same.any():
            some = np.flatnonzero(same)
            same[some] = (self.index.rows(queries[some])[0] == points[some]).all(axis=1)
        fresh = queries[~same]
        with np.errstate(over="ignore", invalid="ignore"):
            larger = boxes[~same] + LARGER * np.abs(boxes[~same] - np.concatenate([[0.0], self.lower]))
        self._drawn[fresh] = np.where(larger <= MOST, larger, MOST)
        if len(fresh) > SMALL + MOST_CHURN * len(self):
            self._rebuild(np.union1d(self.index.slots(), fresh))
        else:
            self.index.put(fresh, points[~same], -self._drawn[fresh])
            if self.index.delta > SMALL and self.index.churn > MOST_CHURN:
                self.fold()

    def rest(self, queries: Ints) -> None:
        """Let no object touch queries before they are put again. Their boxes stay, since most will be the same. O(1)
        each."""
        self.bounds.most[queries] = RESTING

    def remove(self, queries: Ints) -> None:
        """Delete queries. O(BLOCK d) each."""
        self.index.delete(queries)

    def fold(self) -> None:
        """Pack all queries into a new base. O(q d log q)."""
        self.index = self.index.folded(along=ALONG)

    def touched(self, points: Floats, statics: Floats, begin: int, pairs: Pairs) -> tuple[int, int]:
        """Write (i, query) for every query that an object at points[i] with statics[i] may touch, i from `begin` on.
        Returns the first i that there was no room for, and how many pairs there are; there has to be room for all
        queries."""
        view, stack = self.index.view, self.stack
        objects = Touching(points, np.ascontiguousarray(statics).reshape(-1))
        i, n = tops_touched(view, self.bounds, self.scores.arrays, self.metric, objects, begin, stack, pairs)
        return int(i), int(n)

    @property
    def stack(self) -> Ints:
        """Room for the nodes that `tops_touched` has to look into."""
        if len(self.index.view.first) >= len(self._stack):
            self._stack = np.empty(len(self.index.view.first) + 1, np.int64)
        return self._stack

    def _boxes(self, queries: Ints) -> Floats:
        boxes = np.empty((len(queries), 1 + self.d))
        _draw(self.scores.arrays, self.bounds, queries, self.metric, self.lower, self.upper, boxes)
        return boxes

    def _rebuild(self, queries: NDArray[Any]) -> None:
        points = np.column_stack([self.bounds.x[queries], self.bounds.y[queries]])
        self.index = PlaceIndex.build(points, -self._drawn[queries], queries, along=ALONG)

    def _reserve(self, queries: int) -> Bounds:
        b, held = self.bounds, len(self.bounds.x)
        if queries > held:
            room = max(queries, held * 3 // 2)
            columns = np.zeros((4, room))
            columns[:, :held] = b.x, b.y, b.radius, b.most
            score, drawn = np.full(room, -1), np.zeros((room, 1 + self.d))
            score[:held], drawn[:held] = b.score, self._drawn
            self.bounds = Bounds(columns[0], columns[1], columns[2], columns[3], score)
            self._drawn = drawn
        return self.bounds


@float_kernel
def most_scores(
    table: Scores, scores: Ints, radius: Floats, ends: Ints, far: Floats, statics: Floats, out: Floats
) -> None:
    """Write the MScore of each query: an upper bound of the scores of its members anywhere in its zone; see
    `TopReach.put`."""
    first = int64(0)
    stride = far.size
    for q in range(scores.size):
        scoring = score_in(table, scores[q])
        within = radius[q] if scoring.wd > 0.0 else 0.0
        worst = -np.inf if first < ends[q] else np.inf
        for i in range(first, ends[q]):
            total, product = static_parts(scoring, statics, stride, i)
            _, most = least_and_most(scoring, far[i], far[i] + within, total, product, statics, stride, i)
            worst = max(worst, most)
        worst += 8.0 * EPSILON * abs(worst)
        out[q] = worst if worst == worst else np.inf
        first = ends[q]


@float_internal
def _reach(scoring: Scoring, radius: float, most: float, lower: Floats, upper: Floats) -> float:
    """An upper bound of the distance from q of an object that scores MScore within the zone."""
    kind = scoring.kind
    if scoring.wd == 0.0 or radius == np.inf or not (most < np.inf):
        r = np.inf
    elif kind == EXPRESSION:
        r = _level_distance(scoring, radius, most, lower, upper)
    else:
        total, product = static_parts(scoring, lower, 1, 0)
        r = np.inf
        if (kind == PRODUCT or kind == WASPAS) and _turns(scoring, lower):
            pass
        elif kind != WASPAS:
            r = reaching(scoring, most + FAINT, total, True)
        else:
            # Neither part of the sum is below zero, so each alone is at most MScore.
            if scoring.blend > 0.0 and total >= 0.0:
                r = ((most + FAINT) / scoring.blend - total) / scoring.wd * scoring.scale
            if scoring.blend < 1.0 and product > 0.0 and total >= 0.0:
                r = min(r, ((most + FAINT) / (1.0 - scoring.blend) / product) ** (1.0 / scoring.wd) * scoring.scale)
            r = r * (1.0 + 1e-9) if r >= 0.0 else 0.0
        if kind == SUM:
            r += (1e-12 * (abs(most) + abs(total)) + FAINT) / scoring.wd * scoring.scale
        elif kind == DISTANCE:
            r = max(r, (most + FAINT) * total * scoring.scale)
        elif total > 0.0 or product > 0.0:
            # A power of a short distance may be too small for a number, whatever it is multiplied by.
            r = max(r, FAINT ** (1.0 / scoring.wd) * scoring.scale)
        r = max(r, FAINT * scoring.scale)
    return radius + max(r, 0.0) if r == r else np.inf


@float_internal
def _turns(scoring: Scoring, lower: Floats) -> bool:
    """Whether the assumed best values are so far out of the ranges of a score that a product grows again: a factor
    below zero to an even power is above it."""
    turns = False
    for c in range(scoring.column.size):
        value, low, width = lower[scoring.column[c]], scoring.low[c], scoring.width[c]
        v = 1.0 - (-value - low) / width if scoring.sign[c] < 0.0 else (value - low) / width
        turns |= v + scoring.shift < 0.0
    return turns


@float_internal
def _level_distance(scoring: Scoring, radius: float, most: float, lower: Floats, upper: Floats) -> float:
    """A distance from which on an expression, which does not fall, is above a level whatever the static values.
    Infinite: none was found."""
    lo, hi = 0.0, max(radius, scoring.scale * 1e-3)
    found = False
    tries = 0
    while not found and hi < np.inf and tries < DOUBLINGS:
        least, _ = run_over(scoring.program, hi / scoring.scale, hi / scoring.scale, lower, upper, 1, 0)
        found = least > most
        if not found:
            lo, hi = hi, 2.0 * hi
        tries += 1
    if found:
        for _ in range(HALVINGS):
            at = 0.5 * (lo + hi)
            least, _ = run_over(scoring.program, at / scoring.scale, at / scoring.scale, lower, upper, 1, 0)
            if least > most:
                hi = at
            else:
                lo = at
    return hi if found else np.inf


@float_kernel
def _draw(
    table: Scores, bounds: Bounds, queries: Ints, metric: int, lower: Floats, upper: Floats, boxes: Floats
) -> None:
    """Write the reach and the ceilings of each query."""
    for i in range(queries.size):
        q = queries[i]
        scoring = score_in(table, bounds.score[q])
        most = bounds.most[q]
        r = _reach(scoring, bounds.radius[q], most, lower, upper)
        if metric == GREAT_CIRCLE:
            r = r + slack(r) if r < FARTHEST else np.inf
        boxes[i, 0] = min(r * (1.0 + 1e-9), MOST)
        for j in range(lower.size):
            boxes[i, 1 + j] = MOST
        if scoring.kind == SUM and most < np.inf:
            best, _ = static_parts(scoring, lower, 1, 0)
            for c in range(scoring.column.size):
                j = scoring.column[c]
                left = max(0.0, most - best) + 1e-9 * (abs(most) + abs(best)) + FAINT
                term = scoring.weight[c] * lower[j]
                above = lower[j] + left / scoring.weight[c]
                above += 1e-12 * (abs(lower[j]) + abs(above))
                # Terms that are clamped are equal, whatever the value.
                if -MOST < above < MOST and term > -MOST and term + left < 0.5 * MOST:
                    boxes[i, 1 + j] = above


@float_inlined
def _may_touch(bounds: Bounds, table: Scores, metric: int, q: int, x: float, y: float, values: Floats) -> bool:
    """Whether the object scores MScore or less anywhere in the zone of query q; NaN counts as if. Nothing touches one
    that rests."""
    return bounds.most[q] == bounds.most[q] and _scores_enough(bounds, table, metric, q, x, y, values)


@float_internal
def _scores_enough(bounds: Bounds, table: Scores, metric: int, q: int, x: float, y: float, values: Floats) -> bool:
    scoring = score_in(table, bounds.score[q])
    far, radius = distance(metric, bounds.x[q], bounds.y[q], x, y), bounds.radius[q]
    rest = far
    if scoring.wd > 0.0:
        far = min(far, SURE)
        rest = far - radius - 4.0 * EPSILON * (far + radius) if 0.0 < radius < np.inf else far if radius == 0.0 else 0.0
        if metric == GREAT_CIRCLE:
            rest -= slack(far)
        rest = max(0.0, rest)
    total, product = static_parts(scoring, values, 1, 0)
    least, _ = least_and_most(scoring, rest, rest, total, product, values, 1, 0)
    return not (least > bounds.most[q])


@float_internal
def _open(first: int, end: int, lowest: Floats, stride: int, mine: Floats) -> int:
    """The mask of the lanes from `first`, before `end`, whose ceilings are not below static values."""
    count = end - first
    mask = (1 << count) - 1 if count < LANES else (1 << LANES) - 1
    for j in range(mine.size):
        mask &= lanes_upto(lowest, (1 + j) * stride + first, -min(mine[j], MOST))
    return mask


@float_kernel
def tops_touched(
    view: View, bounds: Bounds, table: Scores, metric: int, objects: Touching, begin: int, stack: Ints, pairs: Pairs
) -> tuple[int, int]:
    """As `TopReach.touched`, with a stack of more than all nodes."""
    points, statics, change, query = objects.points, objects.statics, pairs.change, pairs.query
    d = statics.size // points.shape[0]
    blocks = view.size[BLOCKS]
    node_stride, stride, delta_stride, line = (
        view.nodes.x0.size,
        view.base.x.size,
        view.delta.x.size,
        view.blocks.x0.size,
    )
    i, n = begin, 0
    going = True
    while going and i < points.shape[0]:
        x, y, mine = points[i, 0], points[i, 1], statics[i * d : i * d + d]
        kept = n
        top = 0
        if _open(0, 1, view.nodes.lower, node_stride, mine) != 0:
            near = mindist(metric, x, y, view.nodes.x0[0], view.nodes.y0[0], view.nodes.x1[0], view.nodes.y1[0])
            if min(near, MOST) <= -view.nodes.lower[0]:
                stack[0] = 0
                top = 1
        while top > 0 and going:
            top -= 1
            e = stack[top]
            first, end = int64(view.first[e]), int64(view.end[e])
            for base in range(first, end, LANES):
                if e < view.size[LEAVES]:
                    mask = _open(base, end, view.nodes.lower, node_stride, mine)
                    while mask != 0:
                        c = base + low_bit(mask)
                        mask &= mask - 1
                        near = mindist(
                            metric, x, y, view.nodes.x0[c], view.nodes.y0[c], view.nodes.x1[c], view.nodes.y1[c]
                        )
                        if min(near, MOST) <= -view.nodes.lower[c]:
                            stack[top] = c
                            top += 1
                else:
                    mask = _open(base, end, view.base.statics, stride, mine)
                    while mask != 0:
                        o = base + low_bit(mask)
                        mask &= mask - 1
                        if (
                            view.dead[o] == 0
                            and min(distance(metric, view.base.x[o], view.base.y[o], x, y), MOST)
                            <= -view.base.statics[o]
                        ):
                            if _may_touch(bounds, table, metric, int64(view.base.slot[o]), x, y, mine):
                                if n < change.size:
                                    change[n], query[n] = i, view.base.slot[o]
                                    n += 1
                                else:
                                    going = False
        for base in range(0, blocks, LANES):
            some = _open(base, blocks, view.blocks.lower, line, mine)
            while some != 0 and going:
                c = base + low_bit(some)
                some &= some - 1
                near = mindist(metric, x, y, view.blocks.x0[c], view.blocks.y0[c], view.blocks.x1[c], view.blocks.y1[c])
                if min(near, MOST) <= -view.blocks.lower[c]:
                    last = int64(view.block_end[c])
                    for at in range(c * BLOCK, last, LANES):
                        mask = _open(at, last, view.delta.statics, delta_stride, mine)
                        while mask != 0:
                            o = at + low_bit(mask)
                            mask &= mask - 1
                            far = distance(metric, view.delta.x[o], view.delta.y[o], x, y)
                            if min(far, MOST) <= -view.delta.statics[o]:
                                if _may_touch(bounds, table, metric, int64(view.delta.slot[o]), x, y, mine):
                                    if n < change.size:
                                        change[n], query[n] = i, view.delta.slot[o]
                                        n += 1
                                    else:
                                        going = False
        if going:
            i += 1
        else:
            n = kept
    return i, n
