"""What an object outside the skyline takes from a zone: its pseudo-impact region, in which no member of the skyline
dominates it. Design 1.5 (Lemmas 6 to 8), 1.6 (CUT).

A zone is a convex polygon less its cutters, which are convex as well. An object whose region meets the polygon in one
bisector's side makes the polygon smaller; from one whose region has several sides within it the polygon keeps the
convex hull of what is left, and the region becomes a cutter.
"""

from __future__ import annotations

from indexes.lanes import LANES, lanes_upto, low_bit
from indexes.lean import inner_kernel, pasted_kernel
from indexes.maps.polygon import clip, hull_outside, settle, squared_radius
from indexes.maps.work import (
    BOX,
    CHORD,
    EXAMINED,
    FULL,
    LEAST,
    N_CUT,
    N_CUTTERS,
    N_SKYLINE,
    N_ZONE,
    NO_VERTICES,
    PAIR,
    RADIUS,
    SQUARED_RADIUS,
)

UP = 1.0 + 1e-12
"""What distances are multiplied with where they must not be too small."""


@inner_kernel
def first_lanes(n):  # type: ignore[no-untyped-def]
    """The mask of the first n lanes of a block, of all of them at most."""
    return (1 << n) - 1 if n < LANES else (1 << LANES) - 1


@pasted_kernel
def measure(w):  # type: ignore[no-untyped-def]
    """Work out how far the zone's polygon reaches."""
    most = squared_radius(w.zone_x, w.zone_y, w.size[N_ZONE]) * UP
    w.reach[SQUARED_RADIUS] = most
    w.reach[RADIUS] = most**0.5 * UP


@inner_kernel
def pair(near, far):  # type: ignore[no-untyped-def]
    """The label of an edge beyond which the object in slot `far` is nearer than the one in slot `near`."""
    return (near << PAIR) | far


@pasted_kernel
def shrink(w, ax, ay, c, label):  # type: ignore[no-untyped-def]
    """Keep the zone where a . p <= c."""
    n = w.size[N_ZONE]
    if n + 1 >= w.zone_x.size:
        w.size[FULL] = NO_VERTICES
    elif c != c:
        w.size[N_ZONE] = 0  # both are too far for numbers
    else:
        w.size[N_ZONE] = clip(
            w.zone_x, w.zone_y, w.zone_label, n, ax, ay, c, label, w.side, w.spare_x, w.spare_y, w.spare_label,
            w.reach[LEAST],
        )  # fmt: skip


@pasted_kernel
def cut(w, slot, px, py, x, y):  # type: ignore[no-untyped-def]
    """Take from the zone what belongs to an object that is dominated at the place (x, y), is at (px, py) and has the
    static values w.corner."""
    d, stride, members = w.corner.size, w.x.size, w.size[N_SKYLINE]
    ox, oy = px - x, py - y
    far = ox * ox + oy * oy
    n = w.size[N_ZONE]
    for i in range(n):
        w.part_x[i] = w.zone_x[i]
        w.part_y[i] = w.zone_y[i]
        w.part_label[i] = BOX
    w.size[EXAMINED] += 1
    blurred = False
    b = 0
    while b < members and n > 0:
        mask = first_lanes(members - b)
        for j in range(d):
            mask &= lanes_upto(w.statics, j * stride + b, w.corner[j])
        while mask != 0 and n > 0:
            s = b + low_bit(mask)
            mask &= mask - 1
            ax, ay, c = w.x[s] - ox, w.y[s] - oy, (w.far[s] - far) * 0.5
            if (ax == 0.0 and ay == 0.0) or c != c:
                if w.place_x[s] != px or w.place_y[s] != py:
                    blurred = True
                else:
                    for j in range(d):
                        if w.statics[j * stride + s] != w.corner[j]:
                            n = 0  # the same place and better: dominated everywhere
            elif n + 1 >= w.part_x.size:
                w.size[FULL] = NO_VERTICES
                n = 0
            else:
                n = clip(
                    w.part_x, w.part_y, w.part_label, n, ax, ay, c, s, w.side, w.spare_x, w.spare_y, w.spare_label,
                    w.reach[LEAST],
                )  # fmt: skip
        b += LANES
    if n > 0:
        first, several = _labels(w.part_label, n)
        if blurred or first < 0:
            w.size[N_ZONE] = 0  # the place is on a border, up to rounding
        elif not several:
            shrink(w, ox - w.x[first], oy - w.y[first], (far - w.far[first]) * 0.5, pair(w.member[first], slot))
        elif w.size[N_CUT] + n > w.cut_x.size or 2 * w.size[N_ZONE] > w.zone_x.size:
            w.size[FULL] = NO_VERTICES
        else:
            _add_cutter(w, slot, n)
            _leave_hull(w, n, ox, oy, far)
        measure(w)


@inner_kernel
def _labels(label, n):  # type: ignore[no-untyped-def]
    """The first label that is a member's, or BOX, and whether there is another."""
    first, several = BOX, False
    for i in range(n):
        if label[i] >= 0:
            if first < 0:
                first = label[i]
            elif label[i] != first:
                several = True
    return first, several


@pasted_kernel
def _add_cutter(w, slot, n):  # type: ignore[no-untyped-def]
    """The polygon `part` of n vertices becomes a cutter."""
    at, cutters = w.size[N_CUT], w.size[N_CUTTERS]
    for i in range(n):
        w.cut_x[at + i] = w.part_x[i]
        w.cut_y[at + i] = w.part_y[i]
        w.cut_label[at + i] = w.member[w.part_label[i]] if w.part_label[i] >= 0 else BOX
    w.cut_end[cutters] = at + n
    w.cut_owner[cutters] = slot
    w.size[N_CUT] = at + n
    w.size[N_CUTTERS] = cutters + 1


@pasted_kernel
def _leave_hull(w, n, ox, oy, far):  # type: ignore[no-untyped-def]
    """Make the zone's polygon the hull of what the cutter `part`, of n vertices, leaves of it: vertices within the
    cutter give way to where edges leave it. A zone whose vertices are all within stays: rounding alone can do that."""
    size, outside = w.size[N_ZONE], 0
    for i in range(size):
        inside = True
        for k in range(n):
            s = w.part_label[k]
            if s >= 0:
                inside &= _beyond(w, s, i, ox, oy, far) < 0.0
        w.side[i] = -1.0 if inside else 1.0
        outside += 0 if inside else 1
    if 0 < outside < size:
        m = 0
        for i in range(size):
            j = i + 1 if i + 1 < size else 0
            if w.side[i] > 0.0:
                w.spare_x[m] = w.zone_x[i]
                w.spare_y[m] = w.zone_y[i]
                w.spare_label[m] = w.zone_label[i]
                m += 1
            if w.side[i] != w.side[j]:
                inner, outer = (i, j) if w.side[i] < 0.0 else (j, i)
                t = 1.0
                for k in range(n):
                    s = w.part_label[k]
                    if s >= 0:
                        a, z = _beyond(w, s, inner, ox, oy, far), _beyond(w, s, outer, ox, oy, far)
                        if z > 0.0:
                            t = min(t, a / (a - z))
                w.spare_x[m] = w.zone_x[inner] + t * (w.zone_x[outer] - w.zone_x[inner])
                w.spare_y[m] = w.zone_y[inner] + t * (w.zone_y[outer] - w.zone_y[inner])
                w.spare_label[m] = w.zone_label[i] if w.side[i] < 0.0 else CHORD
                m += 1
        w.size[N_ZONE] = settle(
            w.spare_x, w.spare_y, w.spare_label, m, w.zone_x, w.zone_y, w.zone_label, w.reach[LEAST]
        )


@pasted_kernel
def _beyond(w, s, i, ox, oy, far):  # type: ignore[no-untyped-def]
    """Below 0 where vertex i of the zone is nearer to the object than to member s."""
    return (w.x[s] - ox) * w.zone_x[i] + (w.y[s] - oy) * w.zone_y[i] - (w.far[s] - far) * 0.5


@pasted_kernel
def is_covered(w, x0, y0, x1, y1):  # type: ignore[no-untyped-def]
    """Whether nothing in the rectangle, relative to the place, with static values no better than w.corner can take
    anything from the zone: wherever one is in it, some member is nearer than all of the rectangle."""
    d, stride, members = w.corner.size, w.x.size, w.size[N_SKYLINE]
    n = w.size[N_ZONE]
    for i in range(n):
        w.part_x[i] = w.zone_x[i]
        w.part_y[i] = w.zone_y[i]
    room = True
    b = 0
    while b < members and n > 0 and room:
        mask = first_lanes(members - b)
        for j in range(d):
            mask &= lanes_upto(w.statics, j * stride + b, w.corner[j])
        while mask != 0 and n > 0 and room:
            s = b + low_bit(mask)
            mask &= mask - 1
            room = 2 * n <= w.part_x.size
            if room:
                n = hull_outside(w.part_x, w.part_y, n, w.x[s], w.y[s], x0, y0, x1, y1, w.side, w.spare_x, w.spare_y)
        b += LANES
    return n == 0


@pasted_kernel
def nearest_better(w):  # type: ignore[no-untyped-def]
    """The first member, in their order, that is statically no worse than w.corner, or -1."""
    d, stride, members = w.corner.size, w.x.size, w.size[N_SKYLINE]
    found = -1
    b = 0
    while b < members and found < 0:
        mask = first_lanes(members - b)
        for j in range(d):
            mask &= lanes_upto(w.statics, j * stride + b, w.corner[j])
        if mask != 0:
            found = b + low_bit(mask)
        b += LANES
    return found


@pasted_kernel
def is_dominated(w, far):  # type: ignore[no-untyped-def]
    """Whether a member dominates what has the static values w.corner at this squared distance."""
    d, stride, members = w.corner.size, w.x.size, w.size[N_SKYLINE]
    dominated = False
    b = 0
    while b < members and not dominated:
        mask = first_lanes(members - b) & lanes_upto(w.far, b, far)
        for j in range(d):
            mask &= lanes_upto(w.statics, j * stride + b, w.corner[j])
        while mask != 0:
            s = b + low_bit(mask)
            mask &= mask - 1
            dominated |= w.far[s] < far
            for j in range(d):
                dominated |= w.statics[j * stride + s] != w.corner[j]
        b += LANES
    return dominated
