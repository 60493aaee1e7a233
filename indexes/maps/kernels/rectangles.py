"""Preferred circles without a closed form: [Moving queries] Algorithms 4 and 5, and a circle to begin with.

A rectangle about q is cut down to what may be outside the preferred region (`trim`), and cut in four as long as
anything is left; the circle ends at the nearest of what is left. Two cases are only cut in four: under the great-circle
metric rectangles are of longitude and latitude, where discs have another shape; and where the distance for a given
score has no closed form, finding it takes longer than it saves (100,000 objects, k = m = 10: 26 ms a zone with it, 6 ms
without, for circles as large).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.floats import float_internal, float_kernel
from indexes.maps.kernels.heaps import drop_first, push
from indexes.maps.kernels.metrics import EUCLIDEAN, GREAT_CIRCLE, RADIAN, RADIUS, box_around, distance, maxdist, mindist
from indexes.maps.kernels.scores import DISTANCE, PRODUCT, SUM, Scoring, least_and_most

MOST_BOXES = 160
"""The most rectangles that are examined; after that the radius shown so far is returned."""

BISECTIONS = 30

MISSES = 10

GRAIN = 0.05
"""The side of rectangles that are no longer cut, as a share of the radius known at the start."""


class Boxes(NamedTuple):
    """A heap of rectangles by their distance from q, by their numbers, two rectangles to work on, and how often two
    objects were compared since it was last set to 0."""

    key: Floats  # (n,)
    entry: Ints  # (n,)
    box: Floats  # (4, n) by number: x0, y0, x1, y1
    part: Floats  # (4,)
    whole: Floats  # (4,)
    compared: Ints  # (1,)


def empty_boxes() -> Boxes:
    """Room for all rectangles that are ever in the heap."""
    n = 4 * MOST_BOXES + 8
    return Boxes(np.empty(n), np.empty(n, np.int64), np.empty((4, n)), np.empty(4), np.empty(4), np.zeros(1, np.int64))


class PlacedObject(NamedTuple):
    """One of two objects: its place, its distance from q, its static parts (see `scores.static_parts`) and its
    static values: value j is statics[j * stride + i]."""

    x: float
    y: float
    far: float
    total: float
    product: float
    statics: Floats
    stride: int
    i: int


@float_internal
def score_range(scoring: Scoring, o: PlacedObject, near: float, far: float) -> tuple[float, float]:
    """Bounds of the scores of o at distances from `near` to `far`."""
    return least_and_most(scoring, near, far, o.total, o.product, o.statics, o.stride, o.i)


@float_internal
def safe_within(scoring: Scoring, o: PlacedObject, p: PlacedObject, r: float) -> bool:
    """Whether o scores no worse than p everywhere in the circle of radius r about q, by the triangle inequality
    alone, so for any metric."""
    # An end of each range is enough, and takes half of the time.
    _, most = score_range(scoring, o, o.far + r, o.far + r)
    near = max(0.0, p.far - r)
    least, _ = score_range(scoring, p, near, near)
    return most <= least


@float_internal
def crude_circle(scoring: Scoring, o: PlacedObject, p: PlacedObject, cap: float, boxes: Boxes) -> float:
    """A radius up to `cap`, which is finite, for which `safe_within` holds. O(BISECTIONS) scores."""
    lo, hi = 0.0, cap
    boxes.compared[0] += 1
    if safe_within(scoring, o, p, cap):
        lo = cap
    else:
        boxes.compared[0] += BISECTIONS
        for _ in range(BISECTIONS):
            r = 0.5 * (lo + hi)
            if safe_within(scoring, o, p, r):
                lo = r
            else:
                hi = r
    return lo


@float_internal
def reaching(scoring: Scoring, level: float, total: float, above: bool) -> float:
    """relDist of [Moving queries]: the distance at which a score reaches `level`. With `above` the score is at least
    that from there on, else at most that up to there. -1: it is above everywhere; infinite: nowhere."""
    if scoring.kind == SUM and scoring.wd > 0.0:
        r = (level - total) / scoring.wd * scoring.scale
        r = -1.0 if level < total else r * (1.0 + 1e-12) if above else r * (1.0 - 1e-12)
    elif scoring.kind == PRODUCT and scoring.wd > 0.0 and total > 0.0:
        r = (level / total) ** (1.0 / scoring.wd) * scoring.scale
        off = 1e-12 + 1e-13 / scoring.wd
        r = r * (1.0 + off) if above else r * max(0.0, 1.0 - off)
    elif scoring.kind == DISTANCE and total > 0.0:
        r = level * total * scoring.scale
        r = r * (1.0 + 1e-12) if above else r * (1.0 - 1e-12)
    else:
        # A static value of 0 makes the score of a product 0 everywhere, and leaves a weighted distance without one.
        r = -1.0 if scoring.kind == DISTANCE or level < 0.0 else np.inf
    return r


@float_internal
def _half(metric: int, radius: float, off: float) -> float:
    """Half the width of a disc at the offset `off` from its centre."""
    return np.sqrt((radius - off) * (radius + off)) if metric == EUCLIDEAN else radius - off


@float_kernel
def trim(scoring: Scoring, rectangle: Floats, o: PlacedObject, p: PlacedObject) -> bool:
    """Algorithm 4: cut a rectangle (x0, y0, x1, y1) down, in place, to one that holds every point of it that may
    prefer p to o; whether there is any."""
    metric = scoring.metric
    ox, oy, px, py = o.x, o.y, p.x, p.y
    far_o = maxdist(metric, ox, oy, rectangle[0], rectangle[1], rectangle[2], rectangle[3])
    near_p = mindist(metric, px, py, rectangle[0], rectangle[1], rectangle[2], rectangle[3])
    _, mx = score_range(scoring, o, far_o, far_o)
    mn, _ = score_range(scoring, p, near_p, near_p)
    left = mx > mn
    if left and metric != GREAT_CIRCLE and scoring.kind <= DISTANCE and scoring.wd > 0.0:
        far_p = maxdist(metric, px, py, rectangle[0], rectangle[1], rectangle[2], rectangle[3])
        rp = reaching(scoring, mx, p.total, True)
        ro = reaching(scoring, mn, o.total, False)
        left = rp >= 0.0 and ro < np.inf
        if left and rp < far_p:
            # Beyond rp of p its score is at least the worst of o.
            dx, dy = max(rectangle[0] - px, 0.0, px - rectangle[2]), max(rectangle[1] - py, 0.0, py - rectangle[3])
            if dx >= rp or dy >= rp:
                left = False
            else:
                hx, hy = _half(metric, rp, dy), _half(metric, rp, dx)
                rectangle[0], rectangle[2] = max(rectangle[0], px - hx), min(rectangle[2], px + hx)
                rectangle[1], rectangle[3] = max(rectangle[1], py - hy), min(rectangle[3], py + hy)
                left = rectangle[0] <= rectangle[2] and rectangle[1] <= rectangle[3]
        if left and ro > 0.0:
            # Within ro of o its score is at most the best of p.
            x0, y0, x1, y1 = rectangle[0], rectangle[1], rectangle[2], rectangle[3]
            off = max(abs(y0 - oy), abs(y1 - oy))
            if off < ro:
                u = _half(metric, ro, off)
                if x0 >= ox - u and x1 <= ox + u:
                    left = False
                elif x0 >= ox - u and x0 <= ox + u:
                    rectangle[0] = ox + u
                elif x1 <= ox + u and x1 >= ox - u:
                    rectangle[2] = ox - u
            off = max(abs(x0 - ox), abs(x1 - ox))
            if off < ro:
                u = _half(metric, ro, off)
                if y0 >= oy - u and y1 <= oy + u:
                    left = False
                elif y0 >= oy - u and y0 <= oy + u:
                    rectangle[1] = oy + u
                elif y1 <= oy + u and y1 >= oy - u:
                    rectangle[3] = oy - u
    return left


@float_internal
def first_miss(scoring: Scoring, qx: float, qy: float, o: PlacedObject, p: PlacedObject) -> float:
    """The distance from q, on the way to p, of a place where p is preferred; infinite if p is not preferred even at
    its own place. O(1)."""
    metric = scoring.metric
    lo, hi, miss = 0.0, 1.0, np.inf
    for turn in range(MISSES):
        at = 1.0 if turn == 0 else 0.5 * (lo + hi)
        x, y = qx + at * (p.x - qx), qy + at * (p.y - qy)
        do, dp = distance(metric, o.x, o.y, x, y), distance(metric, p.x, p.y, x, y)
        least, _ = score_range(scoring, o, do, do)
        _, most = score_range(scoring, p, dp, dp)
        if least > most:
            hi = at
            miss = distance(metric, qx, qy, x, y)
        elif turn > 0:
            lo = at
        else:
            hi = 0.0
    return miss


@float_kernel
def preferred_circle(
    scoring: Scoring, qx: float, qy: float, o: PlacedObject, p: PlacedObject, shown: float, bound: float, boxes: Boxes
) -> float:
    """Algorithm 5: a radius up to `bound` within which o scores no worse than p; at least `shown`, for which that is
    known. O(MOST_BOXES log MOST_BOXES)."""
    part, whole = boxes.part, boxes.whole
    metric = scoring.metric
    cap = min(bound, first_miss(scoring, qx, qy, o, p))
    boxes.compared[0] += MISSES
    grain = GRAIN * shown
    if metric == GREAT_CIRCLE:
        grain /= RADIUS * RADIAN
    box_around(metric, qx, qy, cap, part)
    n = queued = 0
    best = cap
    if shown < cap and trim(scoring, part, o, p):
        near = mindist(metric, qx, qy, part[0], part[1], part[2], part[3])
        if near < cap:
            _queue(boxes, n, queued, near)
            n = queued = 1
    looked = 0
    while n > 0:
        near, number = boxes.key[0], boxes.entry[0]
        for j in range(4):
            whole[j] = boxes.box[j, number]
        drop_first(boxes.key, boxes.entry, n)
        n -= 1
        looked += 1
        boxes.compared[0] += 4
        wide, high = whole[2] - whole[0], whole[3] - whole[1]
        if looked > MOST_BOXES or max(wide, high) <= grain:
            best = near
            n = 0
        else:
            cx, cy = 0.5 * (whole[0] + whole[2]), 0.5 * (whole[1] + whole[3])
            for c in range(4):
                part[0], part[2] = (whole[0], cx) if c % 2 == 0 else (cx, whole[2])
                part[1], part[3] = (whole[1], cy) if c < 2 else (cy, whole[3])
                if trim(scoring, part, o, p):
                    near = mindist(metric, qx, qy, part[0], part[1], part[2], part[3])
                    if near < cap:
                        _queue(boxes, n, queued, near)
                        n += 1
                        queued += 1
    return max(shown, best * (1.0 - 1e-9))


@float_internal
def _queue(boxes: Boxes, n: int, number: int, near: float) -> None:
    """Put the rectangle `part`, which is so near, into a heap of n, with a number of its own. O(log n)."""
    for j in range(4):
        boxes.box[j, number] = boxes.part[j]
    push(boxes.key, boxes.entry, n, near, number)
