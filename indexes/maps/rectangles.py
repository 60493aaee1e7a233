"""Preferred circles without a closed form: Algorithms 4 and 5 of the paper, and a circle to begin with.

A rectangle about q is cut down to what may be outside of the preferred region (`trim`), and cut in four as long as that
is anything; the nearest of what is left is where the circle ends. Two cases are cut in four alone. Under the
great-circle metric rectangles are of longitude and latitude, where discs have another shape. And where the distance
that belongs to a score has no closed form, finding it takes longer than it saves (100,000 objects, k = m = 10: 26 ms a
zone with it, 6 ms without, for circles as large).

An object is described by its place, by what its static values come to, and by where these are: value j is
statics[j * stride + i].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.maps.floats import float_kernel
from indexes.maps.metrics import EUCLIDEAN, GREAT_CIRCLE, RADIAN, RADIUS, box_around, distance, maxdist, mindist
from indexes.maps.scores import DISTANCE, PRODUCT, SUM, least_and_most

Float64 = NDArray[np.float64]

MOST_BOXES = 160
"""Rectangles that are looked at; then what has been shown is enough."""

BISECTIONS = 30

MISSES = 10

GRAIN = 0.05
"""Sides of rectangles that are cut no more, to the radius that is shown already."""


class Boxes(NamedTuple):
    """A heap of rectangles by their distance from q, and two rectangles for the one at hand."""

    key: Float64  # (n,)
    box: Float64  # (4, n): x0, y0, x1, y1
    part: Float64  # (4,)
    whole: Float64  # (4,)


def empty_boxes() -> Boxes:
    """Room for all rectangles that may wait at once."""
    n = 3 * MOST_BOXES + 8
    return Boxes(np.empty(n), np.empty((4, n)), np.empty(4), np.empty(4))


@float_kernel
def safe_within(s, o_total, o_product, oi, do, p_total, p_product, pi, dp, statics, stride, r):  # type: ignore[no-untyped-def]
    """Whether o scores no worse than p all over the circle of radius r, by their distances from its middle alone: the
    triangle inequality, so any metric."""
    _, most = least_and_most(s, do, do + r, o_total, o_product, statics, stride, oi)
    least, _ = least_and_most(s, max(0.0, dp - r), dp, p_total, p_product, statics, stride, pi)
    return most <= least


@float_kernel
def crude_circle(s, o_total, o_product, oi, do, p_total, p_product, pi, dp, statics, stride, cap):  # type: ignore[no-untyped-def]
    """A radius up to `cap`, which is finite, that `safe_within` shows. O(BISECTIONS) scores."""
    lo, hi = 0.0, cap
    if safe_within(s, o_total, o_product, oi, do, p_total, p_product, pi, dp, statics, stride, cap):
        lo = cap
    else:
        for _ in range(BISECTIONS):
            r = 0.5 * (lo + hi)
            if safe_within(s, o_total, o_product, oi, do, p_total, p_product, pi, dp, statics, stride, r):
                lo = r
            else:
                hi = r
    return lo


@float_kernel
def reaching(s, level, total, above):  # type: ignore[no-untyped-def]
    """The paper's relDist: the distance at which a score comes to `level`; with `above` from there on it is at least
    that, else up to there it is at most that. -1: it is above everywhere; infinite: nowhere."""
    if s.kind == SUM and s.wd > 0.0:
        r = (level - total) / s.wd * s.scale
        r = -1.0 if level < total else r * (1.0 + 1e-12) if above else r * (1.0 - 1e-12)
    elif s.kind == PRODUCT and s.wd > 0.0 and total > 0.0:
        r = (level / total) ** (1.0 / s.wd) * s.scale
        off = 1e-12 + 1e-13 / s.wd
        r = r * (1.0 + off) if above else r * max(0.0, 1.0 - off)
    elif s.kind == DISTANCE and total > 0.0:
        r = level * total * s.scale
        r = r * (1.0 + 1e-12) if above else r * (1.0 - 1e-12)
    else:
        # A static value of 0 makes the score of a product 0 everywhere, and leaves a weighted distance without one.
        r = -1.0 if s.kind == DISTANCE or level < 0.0 else np.inf
    return r


@float_kernel
def _half(metric, radius, off):  # type: ignore[no-untyped-def]
    """Half of how wide a disc is, `off` from its middle."""
    return np.sqrt((radius - off) * (radius + off)) if metric == EUCLIDEAN else radius - off


@float_kernel
def trim(s, R, ox, oy, o_total, o_product, oi, px, py, p_total, p_product, pi, statics, stride):  # type: ignore[no-untyped-def]
    """Algorithm 4: cut R = (x0, y0, x1, y1) down, in place, to a rectangle that holds all of it that may prefer p to o.
    False: there is nothing."""
    metric = s.metric
    far_o = maxdist(metric, ox, oy, R[0], R[1], R[2], R[3])
    near_p = mindist(metric, px, py, R[0], R[1], R[2], R[3])
    _, mx = least_and_most(s, far_o, far_o, o_total, o_product, statics, stride, oi)
    mn, _ = least_and_most(s, near_p, near_p, p_total, p_product, statics, stride, pi)
    left = mx > mn
    if left and metric != GREAT_CIRCLE and s.kind <= DISTANCE and s.wd > 0.0:
        far_p = maxdist(metric, px, py, R[0], R[1], R[2], R[3])
        rp = reaching(s, mx, p_total, True)
        ro = reaching(s, mn, o_total, False)
        left = rp >= 0.0 and ro < np.inf
        if left and rp < far_p:
            # Beyond rp of p its score is at least the worst of o.
            dx, dy = max(R[0] - px, 0.0, px - R[2]), max(R[1] - py, 0.0, py - R[3])
            if dx >= rp or dy >= rp:
                left = False
            else:
                hx, hy = _half(metric, rp, dy), _half(metric, rp, dx)
                R[0], R[2] = max(R[0], px - hx), min(R[2], px + hx)
                R[1], R[3] = max(R[1], py - hy), min(R[3], py + hy)
                left = R[0] <= R[2] and R[1] <= R[3]
        if left and ro > 0.0:
            # Within ro of o its score is at most the best of p.
            x0, y0, x1, y1 = R[0], R[1], R[2], R[3]
            off = max(abs(y0 - oy), abs(y1 - oy))
            if off < ro:
                u = _half(metric, ro, off)
                if x0 >= ox - u and x1 <= ox + u:
                    left = False
                elif x0 >= ox - u and x0 <= ox + u:
                    R[0] = ox + u
                elif x1 <= ox + u and x1 >= ox - u:
                    R[2] = ox - u
            off = max(abs(x0 - ox), abs(x1 - ox))
            if off < ro:
                u = _half(metric, ro, off)
                if y0 >= oy - u and y1 <= oy + u:
                    left = False
                elif y0 >= oy - u and y0 <= oy + u:
                    R[1] = oy + u
                elif y1 <= oy + u and y1 >= oy - u:
                    R[3] = oy - u
    return left


@float_kernel
def first_miss(s, qx, qy, ox, oy, o_total, o_product, oi, px, py, p_total, p_product, pi, statics, stride):  # type: ignore[no-untyped-def]
    """How far it is on the way to p to a place where p is preferred; infinite if it is not even at p. O(1)."""
    metric = s.metric
    lo, hi, miss = 0.0, 1.0, np.inf
    for turn in range(MISSES):
        at = 1.0 if turn == 0 else 0.5 * (lo + hi)
        x, y = qx + at * (px - qx), qy + at * (py - qy)
        do, dp = distance(metric, ox, oy, x, y), distance(metric, px, py, x, y)
        least, _ = least_and_most(s, do, do, o_total, o_product, statics, stride, oi)
        _, most = least_and_most(s, dp, dp, p_total, p_product, statics, stride, pi)
        if least > most:
            hi = at
            miss = distance(metric, qx, qy, x, y)
        elif turn > 0:
            lo = at
        else:
            hi = 0.0
    return miss


@float_kernel
def preferred_circle(  # type: ignore[no-untyped-def]
    s, qx, qy, ox, oy, o_total, o_product, oi, px, py, p_total, p_product, pi, statics, stride, shown, bound, w
):
    """Algorithm 5: a radius up to `bound` within which o scores no worse than p, and at least `shown`, for which that
    is known. O(MOST_BOXES log MOST_BOXES)."""
    key, box, part, whole = w.key, w.box, w.part, w.whole
    metric = s.metric
    cap = min(
        bound, first_miss(s, qx, qy, ox, oy, o_total, o_product, oi, px, py, p_total, p_product, pi, statics, stride)
    )
    grain = GRAIN * shown
    if metric == GREAT_CIRCLE:
        grain /= RADIUS * RADIAN
    box_around(metric, qx, qy, cap, part)
    n = 0
    best = cap
    if shown < cap and trim(s, part, ox, oy, o_total, o_product, oi, px, py, p_total, p_product, pi, statics, stride):
        near = mindist(metric, qx, qy, part[0], part[1], part[2], part[3])
        if near < cap:
            n = _push(key, box, n, near, part)
    looked = 0
    while n > 0:
        near = key[0]
        for j in range(4):
            whole[j] = box[j, 0]
        n = _pop(key, box, n)
        looked += 1
        wide, high = whole[2] - whole[0], whole[3] - whole[1]
        if looked > MOST_BOXES or max(wide, high) <= grain:
            best = near
            n = 0
        else:
            cx, cy = 0.5 * (whole[0] + whole[2]), 0.5 * (whole[1] + whole[3])
            for c in range(4):
                part[0], part[2] = (whole[0], cx) if c % 2 == 0 else (cx, whole[2])
                part[1], part[3] = (whole[1], cy) if c < 2 else (cy, whole[3])
                if trim(s, part, ox, oy, o_total, o_product, oi, px, py, p_total, p_product, pi, statics, stride):
                    near = mindist(metric, qx, qy, part[0], part[1], part[2], part[3])
                    if near < cap:
                        n = _push(key, box, n, near, part)
    return max(shown, best * (1.0 - 1e-9))


@float_kernel
def _push(key, box, n, k, part):  # type: ignore[no-untyped-def]
    i = n
    up = i > 0
    while up:
        above = (i - 1) >> 1
        if k < key[above]:
            key[i] = key[above]
            for j in range(4):
                box[j, i] = box[j, above]
            i = above
            up = i > 0
        else:
            up = False
    key[i] = k
    for j in range(4):
        box[j, i] = part[j]
    return n + 1


@float_kernel
def _pop(key, box, n):  # type: ignore[no-untyped-def]
    last = n - 1
    k = key[last]
    i = 0
    down = True
    while down:
        c = 2 * i + 1
        down = False
        if c < last:
            if c + 1 < last and key[c + 1] < key[c]:
                c += 1
            if key[c] < k:
                key[i] = key[c]
                for j in range(4):
                    box[j, i] = box[j, c]
                i = c
                down = True
    key[i] = k
    for j in range(4):
        box[j, i] = box[j, last]
    return last
