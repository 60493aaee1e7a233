"""Convex polygons, as columns of vertices in counter-clockwise order, and what cuts them.

Vertices are given relative to the place that was asked about. A half-plane ``a . p <= c`` between two objects then has
half the difference of their squared distances as c, so that the place lies on the same side as its distances say.
Edge i, from vertex i to the next, has a label. A polygon of fewer than three vertices is empty, and has none.
"""

from __future__ import annotations

from indexes.lean import inner_kernel, pasted_kernel
from indexes.maps.rtree import squared_mindist

BISECTIONS = 12
"""Halvings of an edge that crosses the border of a region; the end outside is taken."""


@pasted_kernel
def clip(px, py, label, n, ax, ay, c, new, side, tx, ty, t_label, least):  # type: ignore[no-untyped-def]
    """Keep the n vertices' polygon where a . p <= c, in place; the edge that is cut is labelled `new`. Returns the
    number of vertices.

    `side`, `tx`, `ty` and `t_label` are scratch, with room for one vertex more. Edges that are no longer than `least`
    in both directions are dropped: one of length zero would make every test of a side fail.
    """
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
                tx[m] = px[i]
                ty[m] = py[i]
                t_label[m] = label[i]
                m += 1
            if (side[i] <= 0.0) != (side[j] <= 0.0):
                t = side[i] / (side[i] - side[j])
                tx[m] = px[i] + t * (px[j] - px[i])
                ty[m] = py[i] + t * (py[j] - py[i])
                t_label[m] = new if side[i] <= 0.0 else label[i]
                m += 1
        kept = settle(tx, ty, t_label, m, px, py, label, least)
    return kept


@inner_kernel
def settle(tx, ty, t_label, m, px, py, label, least):  # type: ignore[no-untyped-def]
    """Copy a polygon of m vertices, its edges that are too short left out; returns how many are left."""
    kept = 0
    for i in range(m):
        j = i + 1 if i + 1 < m else 0
        if abs(tx[i] - tx[j]) > least or abs(ty[i] - ty[j]) > least:
            px[kept] = tx[i]
            py[kept] = ty[i]
            label[kept] = t_label[i]
            kept += 1
    return kept if kept > 2 else 0


@inner_kernel
def squared_radius(px, py, n):  # type: ignore[no-untyped-def]
    """The square of the distance from the place to the farthest of n vertices."""
    most = 0.0
    for i in range(n):
        most = max(most, px[i] * px[i] + py[i] * py[i])
    return most


@inner_kernel
def hull_outside(px, py, n, sx, sy, x0, y0, x1, y1, side, tx, ty):  # type: ignore[no-untyped-def]
    """Make the polygon the convex hull of its points that are at least as far from (sx, sy) as from a rectangle; 0
    vertices: there are none. Returns the number of vertices.

    Those that are nearer form a convex set, so the vertices outside it, and where edges cross its border, span the
    hull. An edge with both ends outside is left as it is, which is too much rather than too little. Design 1.5.
    """
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
                tx[kept] = px[i]
                ty[kept] = py[i]
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
                tx[kept] = vx
                ty[kept] = vy
                kept += 1
        for i in range(kept):
            px[i] = tx[i]
            py[i] = ty[i]
    return kept


@inner_kernel
def keeps_off(px, py, first, end, x, y, margin):  # type: ignore[no-untyped-def]
    """How (x, y) lies to the convex polygon of these vertices: 1 inside by more than `margin`, -1 outside by more than
    it, else 0."""
    inside, outside = end - first > 2, end - first < 3
    for i in range(first, end):
        j = i + 1 if i + 1 < end else first
        ex, ey = px[j] - px[i], py[j] - py[i]
        left = ex * (y - py[i]) - ey * (x - px[i])
        least = margin * (ex * ex + ey * ey) ** 0.5
        inside &= left > least
        outside |= left < -least
    return 1 if inside else -1 if outside else 0
