"""Metrics: the distance between two places, and its bounds for all places of a rectangle.

Places are (x, y); under the great-circle metric they are (longitude, latitude) in degrees, and distances are metres by
haversine. A rectangle is x0 <= x <= x1, y0 <= y <= y1. Its bounds hold for *computed* distances: `mindist` is never
above, and `maxdist` never below what `distance` gives for a place in it. For the metrics of the plane each step rounds
monotonically, so the bounds are tight in the corners of a rectangle; those of the sphere are widened by more than the
rounding error of its functions.

Source: [Moving queries] 2.2 and 4.3 for the plane; the bounds on the sphere are derived at `_extreme`.
"""

from __future__ import annotations

from math import asin, atan2, cos, floor, pi, sin, sqrt

from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.floats import float_internal, float_kernel

EUCLIDEAN, MANHATTAN, GREAT_CIRCLE = range(3)

METRICS = {"euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "great-circle": GREAT_CIRCLE}

RADIUS = 6_371_008.8
"""Mean radius of the Earth in metres."""

FARTHEST = pi * RADIUS
"""The greatest distance on the sphere, in metres."""

RADIAN = pi / 180.0

NEARLY_OPPOSITE = 0.99 * FARTHEST
"""From this distance on the error of haversine, whose argument is then near 1, may be as large as `LOOSE`."""

LOOSE = 1.0

TIGHT = 1e-6
"""The absolute error of haversine elsewhere, in metres, in addition to the `RELATIVE` one; most of it comes from the
cosine near a pole."""

RELATIVE = 1e-12

FAINT = 1e-153
"""Places nearer than this may have a distance of 0 or nearly: the squares are too small for a number."""


@float_internal
def haversine(ax: float, ay: float, bx: float, by: float) -> float:
    """Metres between two places of longitude and latitude in degrees."""
    up = sin((by - ay) * RADIAN * 0.5)
    along = sin((bx - ax) * RADIAN * 0.5)
    h = up * up + cos(ay * RADIAN) * cos(by * RADIAN) * (along * along)
    return 2.0 * RADIUS * asin(sqrt(min(1.0, h)))


@float_kernel
def distance(metric: int, ax: float, ay: float, bx: float, by: float) -> float:
    """The distance between two places."""
    dx, dy = bx - ax, by - ay
    if metric == EUCLIDEAN:
        far = sqrt(dx * dx + dy * dy)
    elif metric == MANHATTAN:
        far = abs(dx) + abs(dy)
    else:
        far = haversine(ax, ay, bx, by)
    return far


@float_kernel
def measure_distances(metric: int, ats: Floats, which: Ints, points: Floats, far: Floats) -> None:
    """Write how far objects at `points` (2, n) are, each from the place `ats[which]`."""
    for i in range(which.size):
        far[i] = distance(metric, ats[which[i], 0], ats[which[i], 1], points[0, i], points[1, i])


@float_kernel
def mindist(metric: int, x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """At most the distance from (x, y) to any place of a rectangle."""
    if metric == GREAT_CIRCLE:
        far = _nearest(x, y, x0, y0, x1, y1)
        far = max(0.0, far - slack(far))
    else:
        dx, dy = max(x0 - x, 0.0, x - x1), max(y0 - y, 0.0, y - y1)
        far = sqrt(dx * dx + dy * dy) if metric == EUCLIDEAN else dx + dy
    return far


@float_kernel
def maxdist(metric: int, x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """At least the distance from (x, y) to any place of a rectangle."""
    if metric == GREAT_CIRCLE:
        far = _farthest(x, y, x0, y0, x1, y1)
        far = far + slack(far)
    else:
        dx, dy = max(x - x0, x1 - x), max(y - y0, y1 - y)
        far = sqrt(dx * dx + dy * dy) if metric == EUCLIDEAN else dx + dy
    return far


@float_kernel
def slack(far: float) -> float:
    """More than the errors of two computed great-circle distances of about `far` metres together."""
    return LOOSE if far > NEARLY_OPPOSITE else TIGHT + RELATIVE * far


@float_kernel
def turn(degrees: float) -> float:
    """An angle from -180 up to 180 degrees."""
    return degrees - 360.0 * floor((degrees + 180.0) / 360.0)


@float_internal
def _extreme(x: float, y: float, along: float, y0: float, y1: float, opposite: float) -> float:
    """The least distance (`opposite` 0, or 180: the greatest) from (x, y) to the places of a meridian, `along` degrees
    of longitude away, from latitude y0 to y1.

    The cosine of the angle between (x, y) and latitude p of that meridian is sin y sin p + cos y cos along cos p, which
    is A cos(p - peak) with tan(peak) = sin y / (cos y cos along), A > 0. So along the meridian the distance is least at
    the peak, if that is on it, else at an end; and greatest half a turn from the peak, or at an end."""
    here = y * RADIAN
    peak = turn(atan2(sin(here), cos(here) * cos(along * RADIAN)) / RADIAN + opposite)
    a, b = haversine(0.0, y, along, y0), haversine(0.0, y, along, y1)
    far = max(a, b) if opposite > 0.0 else min(a, b)
    if y0 < peak and peak < y1:
        c = haversine(0.0, y, along, peak)
        far = max(far, c) if opposite > 0.0 else min(far, c)
    return far


@float_internal
def _nearest(x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """At one latitude the distance grows with the difference in longitude, so the nearest place of a rectangle that
    does not span the meridian of (x, y) is on the side that is nearer by longitude."""
    west, east = turn(x0 - x), turn(x1 - x)
    if x1 - x0 >= 360.0 or west == 0.0 or east == 0.0 or (x0 <= x and x <= x1) or _between(west, x1 - x0, 0.0):
        far = RADIUS * RADIAN * max(y0 - y, 0.0, y - y1)
    else:
        far = _extreme(x, y, min(abs(west), abs(east)), y0, y1, 0.0)
    return far


@float_internal
def _farthest(x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """As `_nearest`; the farthest is half a turn away, if the rectangle spans that, else on the other side."""
    west, east = turn(x0 - x), turn(x1 - x)
    if x1 - x0 >= 360.0 or _between(west, x1 - x0, 180.0) or _between(west, x1 - x0, -180.0):
        far = _extreme(x, y, 180.0, y0, y1, 180.0)
    else:
        far = _extreme(x, y, max(abs(west), abs(east)), y0, y1, 180.0)
    return far


@float_internal
def _between(begin: float, width: float, angle: float) -> bool:
    """Whether an angle is met when going east from `begin` by `width` degrees, or almost met."""
    return turn(angle - begin - 180.0 + 1e-9) + 180.0 <= width + 2e-9


@float_kernel
def box_around(metric: int, x: float, y: float, radius: float, box: Floats) -> None:
    """Write a rectangle (x0, y0, x1, y1) that holds all places within `radius` of (x, y).

    On the sphere its longitudes may run past 180 degrees, once round at most; a circle with a pole in it takes all."""
    if metric == GREAT_CIRCLE:
        radius += slack(radius)
        up = radius / (RADIUS * RADIAN) * (1.0 + RELATIVE)
        box[1], box[3] = max(-90.0, y - up), min(90.0, y + up)
        wide = 180.0
        if abs(y) + up < 90.0 - 1e-9:
            wide = asin(min(1.0, sin(up * RADIAN) / cos(y * RADIAN))) / RADIAN * (1.0 + RELATIVE) + 1e-9
        box[0], box[2] = x - wide, x + wide
    else:
        radius += FAINT
        box[0], box[1], box[2], box[3] = x - radius, y - radius, x + radius, y + radius
