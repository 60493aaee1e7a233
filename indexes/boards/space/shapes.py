"""The shapes of regions: their parameters, and which points they hold.

    box        2d parameters: l_1, r_1, ..., l_d, r_d       closed ends, unbounded at -MAX and MAX
    disc       3, in the plane: cx, cy, radius              (x1 - cx)^2 + (x2 - cy)^2 <= radius^2
    half_plane 3, in the plane: a1, a2, b                   a1 x1 + a2 x2 <= b
    simplex    6, in the plane: three corners               the closed triangle, in either orientation, flat ones too

What a region holds is decided by one piece of float arithmetic, `holds`. `some` and `every` decide for all regions
between two vectors of parameters at once whether any of them, or each, holds a point. They use the same operations in
the same order on the ends of intervals; rounding is monotone, so what they rule out or promise is so for the rounded
result of `holds` too (paper, IV-C: "do all, does any of this node's subscriptions contain x?").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

SHAPES = ("box", "disc", "half_plane", "simplex")
"""Names of the shapes; kernels know them by their place."""

BOX, DISC, HALF_PLANE, SIMPLEX = range(4)

MAX = float(np.finfo(np.float64).max)
"""An unbounded end of a box."""


def width(shape: str, d: int) -> int:
    """The number of parameters of a shape over d range attributes.

    ValueError for a name that is no shape, and for a shape of the plane where d is not 2.
    """
    code = SHAPES.index(shape)
    if code != BOX and d != 2:
        raise ValueError(f"a {shape} needs two range attributes, not {d}")
    return (2 * d, 3, 3, 6)[code]


def offered(d: int) -> tuple[str, ...]:
    """The shapes that subscriptions over d range attributes may have."""
    return SHAPES if d == 2 else SHAPES[:1]


def as_params(shape: str, d: int, params: ArrayLike) -> NDArray[np.float64]:
    """Rows of parameters as kernels take them: float64 (m, p), ends of boxes cut to -MAX..MAX, no -0.

    Raises ValueError where the width is wrong or a number is NaN.
    """
    rows = np.array(params, np.float64, ndmin=2) + 0.0
    if rows.ndim != 2 or rows.shape[1] != width(shape, d):
        raise ValueError(f"a {shape} over {d} attributes has {width(shape, d)} parameters, not shape {rows.shape}")
    if np.isnan(rows).any():
        raise ValueError("a parameter is NaN")
    if shape == "box":
        np.clip(rows, -MAX, MAX, out=rows)
    return np.ascontiguousarray(rows)


def contains(shape: str, params: ArrayLike, x: ArrayLike) -> bool:
    """Does the region hold the point? O(d)."""
    point = np.array(x, np.float64, ndmin=2)
    d = point.shape[1]
    return bool(holds_point(SHAPES.index(shape), d, as_params(shape, d, params)[0], point))


@lean_kernel
def holds_point(shape: int, d: int, params: NDArray[np.float64], x: NDArray[np.float64]) -> bool:
    """`holds` for one region and one point, x[0]."""
    return holds(shape, d, params, 0, 1, x, 0)


@pasted_kernel
def holds(shape, d, v, p, step, x, s):  # type: ignore[no-untyped-def]
    """Does the region with parameters v[p], v[p + step], ... hold the point x[s]?"""
    inside = True
    if shape == BOX:
        for j in range(d):
            inside &= (v[p + 2 * j * step] <= x[s, j]) & (x[s, j] <= v[p + (2 * j + 1) * step])
    elif shape == DISC:
        dx, dy, radius = x[s, 0] - v[p], x[s, 1] - v[p + step], v[p + 2 * step]
        inside = dx * dx + dy * dy <= radius * radius
    elif shape == HALF_PLANE:
        inside = v[p] * x[s, 0] + v[p + step] * x[s, 1] <= v[p + 2 * step]
    else:
        left = right = False
        west = south = np.inf
        east = north = -np.inf
        for a in range(3):
            b = (a + 1) % 3
            ax, ay = v[p + 2 * a * step], v[p + (2 * a + 1) * step]
            bx, by = v[p + 2 * b * step], v[p + (2 * b + 1) * step]
            cross = (bx - ax) * (x[s, 1] - ay) - (by - ay) * (x[s, 0] - ax)
            left |= cross > 0.0
            right |= cross < 0.0
            west, east, south, north = min(west, ax), max(east, ax), min(south, ay), max(north, ay)
        inside = (west <= x[s, 0]) & (x[s, 0] <= east) & (south <= x[s, 1]) & (x[s, 1] <= north)
        inside &= not (left and right)
    return inside


@pasted_kernel
def some(shape, d, lo, hi, p, step, x, s):  # type: ignore[no-untyped-def]
    """May any region with parameters from lo[p], lo[p + step], ... to hi[p], ... hold x[s]? False only if none does."""
    found = True
    if shape == BOX:
        for j in range(d):
            found &= (lo[p + 2 * j * step] <= x[s, j]) & (x[s, j] <= hi[p + (2 * j + 1) * step])
    elif shape == DISC:
        dx = _nearest(x[s, 0], lo[p], hi[p])
        dy = _nearest(x[s, 1], lo[p + step], hi[p + step])
        radius = hi[p + 2 * step]
        found = dx * dx + dy * dy <= radius * radius
    elif shape == HALF_PLANE:
        a = min(lo[p] * x[s, 0], hi[p] * x[s, 0])
        b = min(lo[p + step] * x[s, 1], hi[p + step] * x[s, 1])
        # Written so that a sum that is not a number rules nothing out.
        found = not (a + b > hi[p + 2 * step])
    else:
        found = _some_simplex(lo, hi, p, step, x[s, 0], x[s, 1])
    return found


@pasted_kernel
def every(shape, d, lo, hi, p, step, x, s):  # type: ignore[no-untyped-def]
    """Do all regions with parameters from lo[p], lo[p + step], ... to hi[p], ... hold x[s]? True only if all do."""
    all_do = True
    if shape == BOX:
        for j in range(d):
            all_do &= (hi[p + 2 * j * step] <= x[s, j]) & (x[s, j] <= lo[p + (2 * j + 1) * step])
    elif shape == DISC:
        dx = max(abs(x[s, 0] - lo[p]), abs(x[s, 0] - hi[p]))
        dy = max(abs(x[s, 1] - lo[p + step]), abs(x[s, 1] - hi[p + step]))
        radius = lo[p + 2 * step]
        all_do = dx * dx + dy * dy <= radius * radius
    elif shape == HALF_PLANE:
        a = max(lo[p] * x[s, 0], hi[p] * x[s, 0])
        b = max(lo[p + step] * x[s, 1], hi[p + step] * x[s, 1])
        all_do = a + b <= lo[p + 2 * step]
    else:
        all_do = _every_simplex(lo, hi, p, step, x[s, 0], x[s, 1])
    return all_do


@inner_kernel
def _nearest(x, lo, hi):  # type: ignore[no-untyped-def]
    """The least |x - v| for lo <= v <= hi."""
    return x - hi if x > hi else lo - x if x < lo else 0.0


@inner_kernel
def _cross_between(lo, hi, p, step, a, x1, x2):  # type: ignore[no-untyped-def]
    """The least and the greatest cross product of the edge after corner `a` with the way to (x1, x2)."""
    ax, ay, b = p + 2 * a * step, p + (2 * a + 1) * step, (a + 1) % 3
    bx, by = p + 2 * b * step, p + (2 * b + 1) * step
    u0, u1 = lo[bx] - hi[ax], hi[bx] - lo[ax]
    w0, w1 = x2 - hi[ay], x2 - lo[ay]
    least, most = min(u0 * w0, u0 * w1, u1 * w0, u1 * w1), max(u0 * w0, u0 * w1, u1 * w0, u1 * w1)
    u0, u1 = lo[by] - hi[ay], hi[by] - lo[ay]
    w0, w1 = x1 - hi[ax], x1 - lo[ax]
    less, more = min(u0 * w0, u0 * w1, u1 * w0, u1 * w1), max(u0 * w0, u0 * w1, u1 * w0, u1 * w1)
    return least - more, most - less


@inner_kernel
def _some_simplex(lo, hi, p, step, x1, x2):  # type: ignore[no-untyped-def]
    left = right = False
    west = south = np.inf
    east = north = -np.inf
    for a in range(3):
        least, most = _cross_between(lo, hi, p, step, a, x1, x2)
        left |= least > 0.0
        right |= most < 0.0
        west, east = min(west, lo[p + 2 * a * step]), max(east, hi[p + 2 * a * step])
        south, north = min(south, lo[p + (2 * a + 1) * step]), max(north, hi[p + (2 * a + 1) * step])
    return (west <= x1) & (x1 <= east) & (south <= x2) & (x2 <= north) & (not (left and right))


@inner_kernel
def _every_simplex(lo, hi, p, step, x1, x2):  # type: ignore[no-untyped-def]
    left = right = False
    west = south = np.inf
    east = north = -np.inf
    for a in range(3):
        least, most = _cross_between(lo, hi, p, step, a, x1, x2)
        left |= not (most <= 0.0)
        right |= not (least >= 0.0)
        west, east = min(west, hi[p + 2 * a * step]), max(east, lo[p + 2 * a * step])
        south, north = min(south, hi[p + (2 * a + 1) * step]), max(north, lo[p + (2 * a + 1) * step])
    return (west <= x1) & (x1 <= east) & (south <= x2) & (x2 <= north) & (not (left and right))
