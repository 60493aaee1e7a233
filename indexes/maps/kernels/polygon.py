"""Convex polygons, as columns of vertices in counter-clockwise order, and operations that cut them.

Vertices are relative to the place of the search. A half-plane ``a . p <= c`` between two objects then has half the
difference of their squared distances as c, so that the place is on the side that its distances say. Edge i, from vertex
i to the next, has a label. A polygon of fewer than three vertices is empty, and has none.
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.rtree import squared_mindist

BISECTIONS = 12
"""Halvings of an edge that crosses the border of a region; the end outside is taken."""


class Polygon(NamedTuple):
    """The vertices of a polygon, and the labels of its edges; how many there are is kept elsewhere."""

    x: Floats
    y: Floats
    label: Ints


class Spare(NamedTuple):
    """Room in which a polygon is cut: as `Polygon`, with one vertex more, and a value for each vertex."""

    x: Floats
    y: Floats
    label: Ints
    side: Floats


@inlined
def clip(polygon: Polygon, n: int, ax: float, ay: float, c: float, new: int, spare: Spare, least: float) -> int:
    """Cut a polygon of n vertices down to where a . p <= c; the edge of the cut is labelled `new`. Returns the number
    of vertices.

    Edges that are no longer than `least` in both directions are dropped: one of length zero would fail every test of a
    side.
    """
    px, py, label, side = polygon.x, polygon.y, polygon.label, spare.side
    outside = 0
    for i in range(n):
        side[i] = ax * px[i] + ay * py[i] - c
        if not side[i] <= 0.0:
            outside += 1
    kept = n
    if outside == n:
        kept = 0
    elif outside > 0:
        m = 0
        for i in range(n):
            j = i + 1 if i + 1 < n else 0
            if side[i] <= 0.0:
                spare.x[m] = px[i]
                spare.y[m] = py[i]
                spare.label[m] = label[i]
                m += 1
            if (side[i] <= 0.0) != (side[j] <= 0.0):
                t = side[i] / (side[i] - side[j])
                spare.x[m] = px[i] + t * (px[j] - px[i])
                spare.y[m] = py[i] + t * (py[j] - py[i])
                spare.label[m] = new if side[i] <= 0.0 else label[i]
                m += 1
        kept = settle(spare, m, polygon, least)
    return kept


@internal
def settle(spare: Spare, m: int, polygon: Polygon, least: float) -> int:
    """Copy m vertices from `spare` to a polygon, without edges that are too short; returns the number of vertices
    left."""
    kept = 0
    for i in range(m):
        j = i + 1 if i + 1 < m else 0
        if abs(spare.x[i] - spare.x[j]) > least or abs(spare.y[i] - spare.y[j]) > least:
            polygon.x[kept] = spare.x[i]
            polygon.y[kept] = spare.y[i]
            polygon.label[kept] = spare.label[i]
            kept += 1
    return kept if kept > 2 else 0


@internal
def squared_radius(polygon: Polygon, n: int) -> float:
    """The square of the distance from the place to the farthest of n vertices."""
    most = 0.0
    for i in range(n):
        most = max(most, polygon.x[i] * polygon.x[i] + polygon.y[i] * polygon.y[i])
    return most


@internal
def hull_outside(
    polygon: Polygon, n: int, sx: float, sy: float, x0: float, y0: float, x1: float, y1: float, spare: Spare
) -> int:
    """Replace a polygon by the convex hull of its points that are at least as far from (sx, sy) as from a rectangle.
    Returns the number of vertices, 0 where there are no such points.

    The points that are nearer form a convex set, so the hull is spanned by the vertices outside it and the points where
    edges cross its border. An edge with both ends outside is kept whole: the result may be too large, never too small.
    """
    # Nine arguments: those of a point and a rectangle stay scalars, as at every caller.
    px, py, side = polygon.x, polygon.y, spare.side
    outside = 0
    for i in range(n):
        side[i] = (px[i] - sx) ** 2 + (py[i] - sy) ** 2 - squared_mindist(px[i], py[i], x0, y0, x1, y1)
        if not side[i] < 0.0:
            outside += 1
    kept = n
    if outside == 0:
        kept = 0
    elif outside < n:
        kept = 0
        for i in range(n):
            j = i + 1 if i + 1 < n else 0
            if not side[i] < 0.0:
                spare.x[kept] = px[i]
                spare.y[kept] = py[i]
                kept += 1
            if (side[i] < 0.0) != (side[j] < 0.0):
                inner, outer = (i, j) if side[i] < 0.0 else (j, i)
                ux, uy, vx, vy = px[inner], py[inner], px[outer], py[outer]
                for _ in range(BISECTIONS):
                    x, y = 0.5 * (ux + vx), 0.5 * (uy + vy)
                    if (x - sx) ** 2 + (y - sy) ** 2 < squared_mindist(x, y, x0, y0, x1, y1):
                        ux, uy = x, y
                    else:
                        vx, vy = x, y
                spare.x[kept] = vx
                spare.y[kept] = vy
                kept += 1
        for i in range(kept):
            px[i] = spare.x[i]
            py[i] = spare.y[i]
    return kept


@internal
def position_in(px: Floats, py: Floats, first: int, end: int, x: float, y: float, margin: float) -> int:
    """The position of (x, y) in the convex polygon of these vertices: 1 inside by more than `margin`, -1 outside by
    more than it, else 0."""
    inside, outside = end - first > 2, end - first < 3
    for i in range(first, end):
        j = i + 1 if i + 1 < end else first
        ex, ey = px[j] - px[i], py[j] - py[i]
        left = ex * (y - py[i]) - ey * (x - px[i])
        least = margin * (ex * ex + ey * ey) ** 0.5
        inside &= left > least
        outside |= left < -least
    return 1 if inside else -1 if outside else 0
