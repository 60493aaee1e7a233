"""The shapes of regions: their parameters, and which points they hold.

    box        2d parameters: l_1, r_1, ..., l_d, r_d       closed ends, unbounded at -MAX and MAX
    disc       3, in the plane: cx, cy, radius              (x1 - cx)^2 + (x2 - cy)^2 <= radius^2
    half_plane 3, in the plane: a1, a2, b                   a1 x1 + a2 x2 <= b
    simplex    6, in the plane: three corners               the closed triangle, in either orientation, flat ones too

Which points a region holds is decided by one piece of float arithmetic, `holds`. `some` and `every` decide for all
regions between two vectors of parameters at once whether any of them, or each, holds a point. They use the same
operations in the same order on the ends of intervals; rounding is monotone, so their answers are right for the rounded
result of `holds` too ([Range top-k] IV-C: "do all, does any of this node's subscriptions contain x?").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import Floats

SHAPES = ("box", "disc", "half_plane", "simplex")
"""Names of the shapes; kernels take their index."""

BOX, DISC, HALF_PLANE, SIMPLEX = range(4)

MAX = float(np.finfo(np.float64).max)
"""An unbounded end of a box."""


def width(shape: str, d: int) -> int:
    """The number of parameters of a shape over d range attributes.

    ValueError for an unknown shape, and for a shape of the plane where d is not 2.
    """
    code = SHAPES.index(shape)
    if code != BOX and d != 2:
        raise ValueError(f"a {shape} needs two range attributes, not {d}")
    return (2 * d, 3, 3, 6)[code]


def offered(d: int) -> tuple[str, ...]:
    """The shapes that subscriptions over d range attributes may have."""
    return SHAPES if d == 2 else SHAPES[:1]


def as_params(shape: str, d: int, params: ArrayLike) -> Floats:
    """Rows of parameters as kernels take them: float64 (m, p), ends of boxes clipped to -MAX..MAX, no -0.

    ValueError if the width is wrong or a number is NaN.
    """
    rows = np.array(params, np.float64, ndmin=2) + 0.0
    if rows.ndim != 2 or rows.shape[1] != width(shape, d):
        raise ValueError(f"a {shape} over {d} attributes has {width(shape, d)} parameters, not shape {rows.shape}")
    if np.isnan(rows).any():
        raise ValueError("a parameter is NaN")
    if shape == "box":
        np.clip(rows, -MAX, MAX, out=rows)
    return np.ascontiguousarray(rows)


@inlined
def holds(shape: int, d: int, params: Floats, at: int, step: int, x: Floats, point: int) -> bool:
    """Whether the region with parameters params[at], params[at + step], ... holds the point x[point]. O(d)."""
    inside = True
    if shape == BOX:
        for j in range(d):
            inside &= (params[at + 2 * j * step] <= x[point, j]) & (x[point, j] <= params[at + (2 * j + 1) * step])
    elif shape == DISC:
        dx, dy, radius = x[point, 0] - params[at], x[point, 1] - params[at + step], params[at + 2 * step]
        inside = dx * dx + dy * dy <= radius * radius
    elif shape == HALF_PLANE:
        inside = params[at] * x[point, 0] + params[at + step] * x[point, 1] <= params[at + 2 * step]
    else:
        left = right = False
        west = south = np.inf
        east = north = -np.inf
        for a in range(3):
            b = (a + 1) % 3
            ax, ay = params[at + 2 * a * step], params[at + (2 * a + 1) * step]
            bx, by = params[at + 2 * b * step], params[at + (2 * b + 1) * step]
            cross = (bx - ax) * (x[point, 1] - ay) - (by - ay) * (x[point, 0] - ax)
            left |= cross > 0.0
            right |= cross < 0.0
            west, east, south, north = min(west, ax), max(east, ax), min(south, ay), max(north, ay)
        inside = (west <= x[point, 0]) & (x[point, 0] <= east) & (south <= x[point, 1]) & (x[point, 1] <= north)
        inside &= not (left and right)
    return inside


@inlined
def some(shape: int, d: int, lo: Floats, hi: Floats, at: int, step: int, x: Floats, point: int) -> bool:
    """Whether any region with parameters from lo[at], lo[at + step], ... to hi[at], ... may hold x[point]. False only
    if none does. O(d)."""
    found = True
    if shape == BOX:
        for j in range(d):
            found &= (lo[at + 2 * j * step] <= x[point, j]) & (x[point, j] <= hi[at + (2 * j + 1) * step])
    elif shape == DISC:
        dx = _nearest(x[point, 0], lo[at], hi[at])
        dy = _nearest(x[point, 1], lo[at + step], hi[at + step])
        radius = hi[at + 2 * step]
        found = dx * dx + dy * dy <= radius * radius
    elif shape == HALF_PLANE:
        a = min(lo[at] * x[point, 0], hi[at] * x[point, 0])
        b = min(lo[at + step] * x[point, 1], hi[at + step] * x[point, 1])
        # Negated, so that a sum that is NaN excludes nothing.
        found = not (a + b > hi[at + 2 * step])
    else:
        found = _some_simplex(lo, hi, at, step, x[point, 0], x[point, 1])
    return found


@inlined
def every(shape: int, d: int, lo: Floats, hi: Floats, at: int, step: int, x: Floats, point: int) -> bool:
    """Whether all regions with parameters from lo[at], lo[at + step], ... to hi[at], ... hold x[point]. True only if
    all do. O(d)."""
    all_do = True
    if shape == BOX:
        for j in range(d):
            all_do &= (hi[at + 2 * j * step] <= x[point, j]) & (x[point, j] <= lo[at + (2 * j + 1) * step])
    elif shape == DISC:
        dx = max(abs(x[point, 0] - lo[at]), abs(x[point, 0] - hi[at]))
        dy = max(abs(x[point, 1] - lo[at + step]), abs(x[point, 1] - hi[at + step]))
        radius = lo[at + 2 * step]
        all_do = dx * dx + dy * dy <= radius * radius
    elif shape == HALF_PLANE:
        a = max(lo[at] * x[point, 0], hi[at] * x[point, 0])
        b = max(lo[at + step] * x[point, 1], hi[at + step] * x[point, 1])
        all_do = a + b <= lo[at + 2 * step]
    else:
        all_do = _every_simplex(lo, hi, at, step, x[point, 0], x[point, 1])
    return all_do


@internal
def _nearest(x: float, lo: float, hi: float) -> float:
    """The least |x - v| for lo <= v <= hi."""
    return x - hi if x > hi else lo - x if x < lo else 0.0


@internal
def _cross_between(
    lo: Floats, hi: Floats, at: int, step: int, corner: int, x1: float, x2: float
) -> tuple[float, float]:
    """The least and the greatest cross product of the edge after a corner with the vector from it to (x1, x2)."""
    ax, ay, b = at + 2 * corner * step, at + (2 * corner + 1) * step, (corner + 1) % 3
    bx, by = at + 2 * b * step, at + (2 * b + 1) * step
    u0, u1 = lo[bx] - hi[ax], hi[bx] - lo[ax]
    w0, w1 = x2 - hi[ay], x2 - lo[ay]
    least, most = min(u0 * w0, u0 * w1, u1 * w0, u1 * w1), max(u0 * w0, u0 * w1, u1 * w0, u1 * w1)
    u0, u1 = lo[by] - hi[ay], hi[by] - lo[ay]
    w0, w1 = x1 - hi[ax], x1 - lo[ax]
    less, more = min(u0 * w0, u0 * w1, u1 * w0, u1 * w1), max(u0 * w0, u0 * w1, u1 * w0, u1 * w1)
    return least - more, most - less


@internal
def _some_simplex(lo: Floats, hi: Floats, at: int, step: int, x1: float, x2: float) -> bool:
    """`some` for simplices."""
    left = right = False
    west = south = np.inf
    east = north = -np.inf
    for corner in range(3):
        least, most = _cross_between(lo, hi, at, step, corner, x1, x2)
        left |= least > 0.0
        right |= most < 0.0
        west, east = min(west, lo[at + 2 * corner * step]), max(east, hi[at + 2 * corner * step])
        south, north = min(south, lo[at + (2 * corner + 1) * step]), max(north, hi[at + (2 * corner + 1) * step])
    return (west <= x1) & (x1 <= east) & (south <= x2) & (x2 <= north) & (not (left and right))


@internal
def _every_simplex(lo: Floats, hi: Floats, at: int, step: int, x1: float, x2: float) -> bool:
    """`every` for simplices."""
    left = right = False
    west = south = np.inf
    east = north = -np.inf
    for corner in range(3):
        least, most = _cross_between(lo, hi, at, step, corner, x1, x2)
        left |= not (most <= 0.0)
        right |= not (least >= 0.0)
        west, east = min(west, hi[at + 2 * corner * step]), max(east, lo[at + 2 * corner * step])
        south, north = min(south, hi[at + (2 * corner + 1) * step]), max(north, lo[at + (2 * corner + 1) * step])
    return (west <= x1) & (x1 <= east) & (south <= x2) & (x2 <= north) & (not (left and right))
