"""Preferred circles: how far from q object o scores no worse than object p in every direction.

Places are relative to q. Each function gives a radius that is safe for computed scores: the possible rounding error is
subtracted first. Where there is a closed form, the radius is otherwise exact.

Source: [Moving queries] Definitions 8 and 9; the closed forms are derived here.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

from indexes.maps.kernels.floats import EPSILON, float_internal, float_kernel
from indexes.maps.kernels.metrics import EUCLIDEAN, MANHATTAN

KEPT = 1.0 - 1e-9
"""The share that is kept of a radius that took a longer computation."""

MOST_KAPPA = 1e60
"""Above this ratio o is preferred everywhere except next to p; a smaller ratio is safe."""

NEWTON = 60


class Pair(NamedTuple):
    """Two objects o and p: their places relative to q, and their distances from q."""

    ox: float
    oy: float
    do: float
    px: float
    py: float
    dp: float


@float_internal
def distant(metric: int, pair: Pair) -> float:
    """The distance between o and p in the plane."""
    dx, dy = pair.px - pair.ox, pair.py - pair.oy
    return sqrt(dx * dx + dy * dy) if metric == EUCLIDEAN else abs(dx) + abs(dy)


@float_kernel
def sum_circle(metric: int, pair: Pair, c: float, noise: float, cap: float) -> float:
    """Weighted sum: x prefers o where d(x, o) - d(x, p) <= c, the static lead of o in units of distance; `noise` is
    the possible rounding error of the scores, in distance. At most `cap`. O(1)."""
    ox, oy, do, px, py, dp = pair
    lead = c - do + dp - noise - 8.0 * EPSILON * (do + dp)
    if 0.5 * lead >= cap:  # either distance changes by at most the way that is gone
        r = cap
    elif metric != EUCLIDEAN and metric != MANHATTAN:
        r = max(0.0, 0.5 * lead)
    else:
        D = distant(metric, pair)
        if c >= D:
            r = cap
        elif lead <= 0.0:
            r = 0.0
        elif metric == MANHATTAN:
            r = _manhattan(ox, oy, px, py, 0.5 * lead)
        else:
            r = _hyperbola(ox, oy, px, py, D, lead + do - dp) * KEPT - 32.0 * EPSILON * (do + dp)
            r = max(r, 0.5 * lead)
    return min(r, cap)


@float_internal
def bends_less(pair: Pair, c: float, noise: float, radius: float) -> bool:
    """Whether a Euclidean `sum_circle` is certainly no smaller than a radius: d(x, p) is at least its tangent at q,
    and d(x, o) at most its own plus |x|^2 / (2 (do - |x|)). O(1), no roots."""
    ox, oy, do, px, py, dp = pair
    rest = do - radius
    sure = False
    if rest > 0.0 and dp > 0.0:
        lead = c - do + dp - noise - 16.0 * EPSILON * (do + dp) - radius * radius / (2.0 * rest)
        gx, gy = px / dp - ox / do, py / dp - oy / do
        sure = lead > 0.0 and lead * lead >= (gx * gx + gy * gy) * radius * radius * (1.0 + 1e-9)
    return sure


@float_internal
def _manhattan(ox: float, oy: float, px: float, py: float, needed: float) -> float:
    """How far from the origin the Manhattan difference d(x, o) - d(x, p) can grow by twice `needed`. Along each axis
    it grows between o and p only, by two for each unit, towards p; before that there may be a stretch where it is
    constant. So the shortest way takes one axis, the other, or both."""
    wait_x, grow_x = _ramp(ox, px)
    wait_y, grow_y = _ramp(oy, py)
    r = inf
    if needed <= grow_x:
        r = wait_x + needed
    if needed <= grow_y:
        r = min(r, wait_y + needed)
    if needed <= grow_x + grow_y:
        r = min(r, wait_x + wait_y + needed)
    return r


@float_internal
def _ramp(o: float, p: float) -> tuple[float, float]:
    """Along one axis from 0: the distance before the difference grows, and the distance over which it does."""
    begin, end = (o, p) if o <= p else (-o, -p)
    return max(0.0, begin), max(0.0, end - max(0.0, begin))


@float_internal
def _hyperbola(ox: float, oy: float, px: float, py: float, D: float, c: float) -> float:
    """The distance of the origin from the branch d(x, o) - d(x, p) = c, |c| < D. Newton steps within a bracket.

    In the frame between o and p, with its axis towards p, a = c / 2, f = D / 2 and b^2 = f^2 - a^2, the branch is (a
    sqrt(1 + u^2), b u), and the foot of (X, Y), Y >= 0, is where F u s - a X u - b Y s = 0, s = sqrt(1 + u^2), F = a^2
    + b^2; there is exactly one such u > 0.
    """
    ux, uy = (px - ox) / D, (py - oy) / D
    mx, my = 0.5 * (ox + px), 0.5 * (oy + py)
    X, Y = -(mx * ux + my * uy), abs(mx * uy - my * ux)
    a, f = 0.5 * c, 0.5 * D
    b = sqrt(max(0.0, (f - a) * (f + a)))
    F, aX, bY = f * f, a * X, b * Y
    lo, hi = 0.0, max(1.0, (abs(aX) + 1.4143 * bY) / F)
    u = moved = 0.0
    if bY <= 1e-18 * F:
        u = sqrt(max(0.0, (aX / F) * (aX / F) - 1.0))
    else:
        u = min(hi, Y / b)
        moved = inf
    steps = 0
    while moved > 1e-10 * (1.0 + u) and steps < NEWTON:
        s = sqrt(1.0 + u * u)
        h = F * u * s - aX * u - bY * s
        if h < 0.0:
            lo = u
        else:
            hi = u
        slope = F * (s + u * u / s) - aX - bY * u / s
        v = u - h / slope if slope > 0.0 else -1.0
        if not (lo <= v and v <= hi):
            v = 0.5 * (lo + hi)
        moved = abs(v - u)
        u = v
        steps += 1
    s = sqrt(1.0 + u * u)
    x, y = a * s - X, b * u - Y
    return max(0.0, sqrt(x * x + y * y) - 2.0 * f * moved)


@float_kernel
def ratio_circle(metric: int, pair: Pair, kappa: float, cap: float) -> float:
    """Weighted product and distance: x prefers o where d(x, o) <= kappa d(x, p); kappa has been lowered by the
    possible rounding error. At most `cap`. O(1)."""
    ox, oy, do, px, py, dp = pair
    k = min(kappa, MOST_KAPPA)
    lead = k * dp - do - 8.0 * EPSILON * (k * dp + do)
    if lead <= 0.0:
        r = 0.0
    elif metric != EUCLIDEAN:
        r = lead / (1.0 + k)
    else:
        k2 = k * k
        x, y = k2 * px - ox, k2 * py - oy
        r = lead * (k * dp + do) / (k * distant(metric, pair) + sqrt(x * x + y * y))
        r = max(r * KEPT, lead / (1.0 + k))
    return min(r, cap)
