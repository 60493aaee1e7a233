"""Which standing top-k queries an object may touch that is none of their candidates: design 2.3, and its "Live zones".

Within its circle Z no member of a query's answer scores more than MScore. So an object p may matter only where its
least score in the circle, that at a distance of d(p, q) - Z, is no more than MScore. Of that test the index has two
necessary conditions, which hold for every score. p is within the *reach* of q: Z and the distance at which even the
best static values come to MScore. And none of p's static values is beyond its *ceiling*, with which p could not come to
MScore even at q, had it the best of all others. So a query is a box over place and static values, and of a million
objects most are beyond the ceilings of all queries and are done with at the root.

The best static values are those that the ranges of attributes allow, or below all that was ever there. An object that
is better than these makes all boxes anew; what is assumed of the best then grows by a part of the width, so that a
value that goes on falling does so a logarithm of times. Boxes are drawn larger than they are, so that a query that is
evaluated anew mostly keeps its own.

The boxes are a `PlaceIndex`: a packed base, tombstones and a delta in blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lanes import LANES, lanes_upto, low_bit
from indexes.maps.floats import EPSILON, float_kernel, float_part
from indexes.maps.metrics import FARTHEST, GREAT_CIRCLE, distance, mindist, slack
from indexes.maps.places import BLOCK, BLOCKS, LEAVES, PlaceIndex
from indexes.maps.programs import run_over
from indexes.maps.rectangles import reaching
from indexes.maps.score_table import ScoreTable, score_in
from indexes.maps.scores import EXPRESSION, PRODUCT, SUM, WASPAS, least_and_most, static_parts

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

MOST = 1.7976931348623157e308

LARGER = 0.125
"""How much larger boxes are drawn."""

GROWTH = 0.25
"""How much of their width what is assumed of static values grows by."""

ALONG = 3
"""Dimensions of the base's tiles: place and reach, so that queries that reach far have nodes of their own."""

WORN, SMALL = 0.25, 1024
"""What the delta and tombstones may be to what is alive, or in number, before there is a new base."""

DOUBLINGS, HALVINGS = 1100, 24


class Bounds(NamedTuple):
    """What the exact test needs, by query."""

    x: Float64
    y: Float64
    radius: Float64
    most: Float64  # MScore: infinite while there are fewer than k
    score: Int64  # in the table


class TopReach:
    """Standing top-k queries by number, found by the objects that may touch them."""

    def __init__(self, metric: int, lower: Float64, upper: Float64) -> None:
        """For a map of one of `metrics.METRICS`, whose static values are from `lower` (d,) to `upper`, as far as is
        known: infinite where it is not, and then made anew by `allow`."""
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

    def allow(self, statics: Float64) -> None:
        """There are, or will be, objects with these static values (n, d). O(n d); if one is better than was assumed,
        O(q d log q) for q queries."""
        if not len(statics):
            return
        least, most = statics.min(axis=0), statics.max(axis=0)
        if (least >= self.lower).all() and (most <= self.upper).all():
            return
        lower, upper = np.minimum(self.lower, least), np.maximum(self.upper, most)
        with np.errstate(invalid="ignore"):
            known = np.isfinite(self.lower) & np.isfinite(self.upper)
            wider = np.where(known, GROWTH * (upper - lower), 0.0)
        self.lower = np.where(least < self.lower, lower - wider, lower)
        self.upper = np.where(most > self.upper, upper + wider, upper)
        queries = self.index.slots().astype(np.int64)
        if len(queries):
            self._drawn[queries] = self._boxes(queries)
            self._rebuild(queries)

    def put(
        self,
        queries: Int64,
        points: Float64,
        scores: Int64,
        radius: Float64,
        ends: Int64,
        far: Float64,
        statics: Float64,
    ) -> None:
        """Queries come, or have another answer: at `points` (q, 2), by scores of the table, which stay with whoever
        took them, with zones of these radii, the members' distances and static values (c, d) one query's after the
        other's, up to `ends`; none for an answer that is short of members. O(members + BLOCK d) each."""
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
        if len(fresh) > SMALL + WORN * len(self):
            self._rebuild(np.union1d(self.index.slots(), fresh))
        else:
            self.index.put(fresh, points[~same], -self._drawn[fresh])
            if self.index.delta > SMALL and self.index.worn > WORN:
                self.fold()

    def remove(self, queries: Int64) -> None:
        """Queries go. O(BLOCK d) each."""
        self.index.delete(queries)

    def fold(self) -> None:
        """Make a new base of all that is there. O(q d log q)."""
        self.index = self.index.folded(along=ALONG)

    def touched(
        self, points: Float64, statics: Float64, begin: int, change: Int64, query: Int64, n: int
    ) -> tuple[int, int]:
        """Write (i, query) for every query that an object at points[i] with statics[i] may touch, i from `begin` on,
        behind n others. Returns how far it came before the room was full, and how many pairs there are; there has to be
        room for all queries."""
        v = self.index.view
        if len(v.first) >= len(self._stack):
            self._stack = np.empty(len(v.first) + 1, np.int64)
        mine = np.ascontiguousarray(statics).reshape(-1)
        i, n = _touched(
            v, self.bounds, self.scores.arrays, self.metric, points, mine, begin, self._stack, change, query, n
        )
        return int(i), int(n)

    def _boxes(self, queries: Int64) -> Float64:
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
def most_scores(t, scores, radius, ends, far, statics, out):  # type: ignore[no-untyped-def]
    """Write the MScore of each query: at least what any of its members scores anywhere in its zone; see
    `TopReach.put`."""
    first = np.int64(0)
    stride = far.size
    for q in range(scores.size):
        s = score_in(t, scores[q])
        within = radius[q] if s.wd > 0.0 else 0.0
        worst = -np.inf if first < ends[q] else np.inf
        for i in range(first, ends[q]):
            total, product = static_parts(s, statics, stride, i)
            _, most = least_and_most(s, far[i], far[i] + within, total, product, statics, stride, i)
            worst = max(worst, most)
        worst += 8.0 * EPSILON * abs(worst)
        out[q] = worst if worst == worst else np.inf
        first = ends[q]


@float_part
def _reach(s, radius, most, lower, upper):  # type: ignore[no-untyped-def]
    """At least the distance of q at which an object may come to MScore within the zone."""
    kind = s.kind
    if s.wd == 0.0 or radius == np.inf or not (most < np.inf):
        r = np.inf
    elif kind == EXPRESSION:
        r = _level_distance(s, radius, most, lower, upper)
    else:
        total, product = static_parts(s, lower, 1, 0)
        r = np.inf
        if (kind == PRODUCT or kind == WASPAS) and _turns(s, lower):
            pass
        elif kind != WASPAS:
            r = reaching(s, most, total, True)
        else:
            # Neither part of the sum is below zero, so each alone is at most MScore.
            if s.blend > 0.0 and total >= 0.0:
                r = (most / s.blend - total) / s.wd * s.scale
            if s.blend < 1.0 and product > 0.0 and total >= 0.0:
                r = min(r, (most / (1.0 - s.blend) / product) ** (1.0 / s.wd) * s.scale)
            r = r * (1.0 + 1e-9) if r >= 0.0 else 0.0
        if kind == SUM:
            r += 1e-12 * (abs(most) + abs(total)) / s.wd * s.scale
    return radius + max(r, 0.0) if r == r else np.inf


@float_part
def _turns(s, lower):  # type: ignore[no-untyped-def]
    """Whether what is assumed of the best values is so far out of a score's ranges that a product grows again there: to
    an even power a factor below zero is above it."""
    turns = False
    for c in range(s.column.size):
        value, low, width = lower[s.column[c]], s.low[c], s.width[c]
        v = 1.0 - (-value - low) / width if s.sign[c] < 0.0 else (value - low) / width
        turns |= v + s.shift < 0.0
    return turns


@float_part
def _level_distance(s, radius, most, lower, upper):  # type: ignore[no-untyped-def]
    """A distance at which an expression is above a level whatever the static values; it does not fall, so it is from
    there on. Infinite: none was found."""
    lo, hi = 0.0, max(radius, s.scale * 1e-3)
    found = False
    tries = 0
    while not found and hi < np.inf and tries < DOUBLINGS:
        least, _ = run_over(s.step, s.operand, s.stack, hi / s.scale, hi / s.scale, lower, upper, 1, 0)
        found = least > most
        if not found:
            lo, hi = hi, 2.0 * hi
        tries += 1
    if found:
        for _ in range(HALVINGS):
            at = 0.5 * (lo + hi)
            least, _ = run_over(s.step, s.operand, s.stack, at / s.scale, at / s.scale, lower, upper, 1, 0)
            if least > most:
                hi = at
            else:
                lo = at
    return hi if found else np.inf


@float_kernel
def _draw(t, b, queries, metric, lower, upper, boxes):  # type: ignore[no-untyped-def]
    """Write how far each query reaches, and its ceilings."""
    for i in range(queries.size):
        q = queries[i]
        s = score_in(t, b.score[q])
        most = b.most[q]
        r = _reach(s, b.radius[q], most, lower, upper)
        if metric == GREAT_CIRCLE:
            r = r + slack(r) if r < FARTHEST else np.inf
        boxes[i, 0] = min(r * (1.0 + 1e-9), MOST)
        for j in range(lower.size):
            boxes[i, 1 + j] = MOST
        if s.kind == SUM and most < np.inf:
            best, _ = static_parts(s, lower, 1, 0)
            for c in range(s.column.size):
                j = s.column[c]
                left = max(0.0, most - best) + 1e-9 * (abs(most) + abs(best))
                above = lower[j] + left / s.weight[c]
                above += 1e-12 * (abs(lower[j]) + abs(above))
                if above < MOST:
                    boxes[i, 1 + j] = above


@float_part
def _may_touch(b, t, metric, q, x, y, values):  # type: ignore[no-untyped-def]
    """Whether the object comes to MScore anywhere in the zone of query q; what is not a number counts as if."""
    s = score_in(t, b.score[q])
    far, radius = distance(metric, b.x[q], b.y[q], x, y), b.radius[q]
    rest = far
    if s.wd > 0.0:
        rest = far - radius - 4.0 * EPSILON * (far + radius) if radius < np.inf else 0.0
        if metric == GREAT_CIRCLE:
            rest -= slack(far)
        rest = max(0.0, rest)
    total, product = static_parts(s, values, 1, 0)
    least, _ = least_and_most(s, rest, rest, total, product, values, 1, 0)
    return not (least > b.most[q])


@float_part
def _open(first, end, lowest, stride, mine):  # type: ignore[no-untyped-def]
    """The mask of the lanes from `first`, of those before `end`, whose ceilings are not below static values."""
    count = end - first
    mask = (1 << count) - 1 if count < LANES else (1 << LANES) - 1
    for j in range(mine.size):
        mask &= lanes_upto(lowest, (1 + j) * stride + first, -min(mine[j], MOST))
    return mask


@float_kernel
def _touched(v, b, t, metric, points, statics, begin, stack, change, query, n):  # type: ignore[no-untyped-def]
    d = statics.size // points.shape[0]
    blocks = v.size[BLOCKS]
    node_stride, stride, delta_stride, line = v.x0.size, v.x.size, v.delta_x.size, v.block_x0.size
    i = begin
    going = True
    while going and i < points.shape[0]:
        x, y, mine = points[i, 0], points[i, 1], statics[i * d : i * d + d]
        kept = n
        top = 0
        if _open(0, 1, v.lower, node_stride, mine) != 0:
            if mindist(metric, x, y, v.x0[0], v.y0[0], v.x1[0], v.y1[0]) <= -v.lower[0]:
                stack[0] = 0
                top = 1
        while top > 0 and going:
            top -= 1
            e = stack[top]
            first, end = np.int64(v.first[e]), np.int64(v.end[e])
            for base in range(first, end, LANES):
                if e < v.size[LEAVES]:
                    mask = _open(base, end, v.lower, node_stride, mine)
                    while mask != 0:
                        c = base + low_bit(mask)
                        mask &= mask - 1
                        if mindist(metric, x, y, v.x0[c], v.y0[c], v.x1[c], v.y1[c]) <= -v.lower[c]:
                            stack[top] = c
                            top += 1
                else:
                    mask = _open(base, end, v.statics, stride, mine)
                    while mask != 0:
                        o = base + low_bit(mask)
                        mask &= mask - 1
                        if v.dead[o] == 0 and distance(metric, v.x[o], v.y[o], x, y) <= -v.statics[o]:
                            if _may_touch(b, t, metric, np.int64(v.slot[o]), x, y, mine):
                                if n < change.size:
                                    change[n], query[n] = i, v.slot[o]
                                    n += 1
                                else:
                                    going = False
        for base in range(0, blocks, LANES):
            some = _open(base, blocks, v.block_lower, line, mine)
            while some != 0 and going:
                c = base + low_bit(some)
                some &= some - 1
                near = mindist(metric, x, y, v.block_x0[c], v.block_y0[c], v.block_x1[c], v.block_y1[c])
                if near <= -v.block_lower[c]:
                    last = np.int64(v.block_end[c])
                    for at in range(c * BLOCK, last, LANES):
                        mask = _open(at, last, v.delta_statics, delta_stride, mine)
                        while mask != 0:
                            o = at + low_bit(mask)
                            mask &= mask - 1
                            if distance(metric, v.delta_x[o], v.delta_y[o], x, y) <= -v.delta_statics[o]:
                                if _may_touch(b, t, metric, np.int64(v.delta_slot[o]), x, y, mine):
                                    if n < change.size:
                                        change[n], query[n] = i, v.delta_slot[o]
                                        n += 1
                                    else:
                                        going = False
        if going:
            i += 1
        else:
            n = kept
    return i, n
