"""What an object outside the skyline takes from a zone: its pseudo-impact region, in which no member of the skyline
dominates it. Source: [Moving queries], Lemmas 6 to 8.

A zone is a convex polygon less its cutters, which are convex as well. An object whose region meets the polygon in the
side of one bisector makes the polygon smaller; where its region has several sides within the polygon, the region
becomes a cutter, and the polygon the convex hull of what is left.
"""

from __future__ import annotations

from indexes.compiled.jit import inlined, internal
from indexes.compiled.simd import LANES, lanes_upto, low_bit
from indexes.core.arrays import Ints
from indexes.maps.kernels.polygon import clip, hull_outside, settle, squared_radius
from indexes.maps.kernels.skyline_scratch import (
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
    SkylineScratch,
)

UP = 1.0 + 1e-12
"""The factor for distances that must not be too small."""

BLUR = 2.0**-49
"""More than the relative error of two computed squared distances, and of the place that they are from, together."""


@internal
def first_lanes(n: int) -> int:
    """The mask of the first n lanes of a block, at most of all of them."""
    return (1 << n) - 1 if n < LANES else (1 << LANES) - 1


@inlined
def measure(scratch: SkylineScratch) -> None:
    """Update the reach of the zone's polygon."""
    most = squared_radius(scratch.zone, scratch.size[N_ZONE]) * UP
    scratch.reach[SQUARED_RADIUS] = most
    scratch.reach[RADIUS] = most**0.5 * UP


@internal
def pair(near: int, far: int) -> int:
    """The label of an edge beyond which the object in slot `far` is nearer than the one in slot `near`."""
    return (near << PAIR) | far


@internal
def blur(scratch: SkylineScratch, far: float, other: float) -> float:
    """More than the rounding error of half the difference of the squared distances from any point of the zone to two
    objects that are at these squared distances from the place. Objects or places that are far beyond the bounds, or two
    objects that are close to each other, make it count: without it their bisector is not where computed distances
    change their order."""
    reach = scratch.reach[SQUARED_RADIUS]
    return BLUR * (far + other + 2.0 * reach)


@inlined
def shrink(scratch: SkylineScratch, ax: float, ay: float, c: float, label: int) -> None:
    """Cut the zone down to where a . p <= c."""
    n = scratch.size[N_ZONE]
    if n + 1 >= scratch.zone.x.size:
        scratch.size[FULL] = NO_VERTICES
    elif c != c:
        scratch.size[N_ZONE] = 0  # both are too far for numbers
    else:
        scratch.size[N_ZONE] = clip(scratch.zone, n, ax, ay, c, label, scratch.spare, scratch.reach[LEAST])


@inlined
def cut(scratch: SkylineScratch, slot: int, px: float, py: float, x: float, y: float) -> None:
    """Cut the region of an object from the zone: it is dominated at the place (x, y), is at (px, py) and has the static
    values scratch.corner."""
    d, stride, members = scratch.corner.size, scratch.x.size, scratch.size[N_SKYLINE]
    ox, oy = px - x, py - y
    far = ox * ox + oy * oy
    n = scratch.size[N_ZONE]
    for i in range(n):
        scratch.part.x[i] = scratch.zone.x[i]
        scratch.part.y[i] = scratch.zone.y[i]
        scratch.part.label[i] = BOX
    scratch.size[EXAMINED] += 1
    blurred = False
    b = 0
    while b < members and n > 0:
        mask = first_lanes(members - b)
        for j in range(d):
            mask &= lanes_upto(scratch.statics, j * stride + b, scratch.corner[j])
        while mask != 0 and n > 0:
            s = b + low_bit(mask)
            mask &= mask - 1
            ax, ay, c = scratch.x[s] - ox, scratch.y[s] - oy, (scratch.far[s] - far) * 0.5
            if (ax == 0.0 and ay == 0.0) or c != c:
                if scratch.place_x[s] != px or scratch.place_y[s] != py:
                    blurred = True
                else:
                    for j in range(d):
                        if scratch.statics[j * stride + s] != scratch.corner[j]:
                            n = 0  # the same place and better: dominated everywhere
            elif n + 1 >= scratch.part.x.size:
                scratch.size[FULL] = NO_VERTICES
                n = 0
            else:
                c += blur(scratch, scratch.far[s], far)
                n = clip(scratch.part, n, ax, ay, c, s, scratch.spare, scratch.reach[LEAST])
        b += LANES
    if n > 0:
        first, several = _labels(scratch.part.label, n)
        if blurred or first < 0:
            scratch.size[N_ZONE] = 0  # the place is on a border, up to rounding
        elif not several:
            shrink(
                scratch,
                ox - scratch.x[first],
                oy - scratch.y[first],
                (far - scratch.far[first]) * 0.5 - blur(scratch, scratch.far[first], far),
                pair(scratch.member[first], slot),
            )
        elif scratch.size[N_CUT] + n > scratch.cut_x.size or 2 * scratch.size[N_ZONE] > scratch.zone.x.size:
            scratch.size[FULL] = NO_VERTICES
        else:
            _add_cutter(scratch, slot, n)
            _leave_hull(scratch, n, ox, oy, far)
        measure(scratch)


@internal
def _labels(label: Ints, n: int) -> tuple[int, bool]:
    """The first label of a member, or BOX, and whether there is another one."""
    first, several = BOX, False
    for i in range(n):
        if label[i] >= 0:
            if first < 0:
                first = label[i]
            elif label[i] != first:
                several = True
    return first, several


@inlined
def _add_cutter(scratch: SkylineScratch, slot: int, n: int) -> None:
    """Add the polygon `part` of n vertices to the cutters."""
    at, cutters = scratch.size[N_CUT], scratch.size[N_CUTTERS]
    for i in range(n):
        scratch.cut_x[at + i] = scratch.part.x[i]
        scratch.cut_y[at + i] = scratch.part.y[i]
        scratch.cut_label[at + i] = scratch.member[scratch.part.label[i]] if scratch.part.label[i] >= 0 else BOX
    scratch.cut_end[cutters] = at + n
    scratch.cut_owner[cutters] = slot
    scratch.size[N_CUT] = at + n
    scratch.size[N_CUTTERS] = cutters + 1


@inlined
def _leave_hull(scratch: SkylineScratch, n: int, ox: float, oy: float, far: float) -> None:
    """Replace the zone's polygon by the hull of what the cutter `part`, of n vertices, leaves of it: vertices within
    the cutter are replaced by the points where edges leave it. A zone with all its vertices within is kept: only
    rounding can cause that."""
    size, outside = scratch.size[N_ZONE], 0
    for i in range(size):
        inside = True
        for k in range(n):
            s = scratch.part.label[k]
            if s >= 0:
                inside &= _beyond(scratch, s, i, ox, oy, far) < 0.0
        scratch.spare.side[i] = -1.0 if inside else 1.0
        outside += 0 if inside else 1
    if 0 < outside < size:
        m = 0
        for i in range(size):
            j = i + 1 if i + 1 < size else 0
            if scratch.spare.side[i] > 0.0:
                scratch.spare.x[m] = scratch.zone.x[i]
                scratch.spare.y[m] = scratch.zone.y[i]
                scratch.spare.label[m] = scratch.zone.label[i]
                m += 1
            if scratch.spare.side[i] != scratch.spare.side[j]:
                inner, outer = (i, j) if scratch.spare.side[i] < 0.0 else (j, i)
                t = 1.0
                for k in range(n):
                    s = scratch.part.label[k]
                    if s >= 0:
                        a, z = _beyond(scratch, s, inner, ox, oy, far), _beyond(scratch, s, outer, ox, oy, far)
                        if z > 0.0:
                            t = min(t, a / (a - z))
                scratch.spare.x[m] = scratch.zone.x[inner] + t * (scratch.zone.x[outer] - scratch.zone.x[inner])
                scratch.spare.y[m] = scratch.zone.y[inner] + t * (scratch.zone.y[outer] - scratch.zone.y[inner])
                scratch.spare.label[m] = scratch.zone.label[i] if scratch.spare.side[i] < 0.0 else CHORD
                m += 1
        scratch.size[N_ZONE] = settle(scratch.spare, m, scratch.zone, scratch.reach[LEAST])


@inlined
def _beyond(scratch: SkylineScratch, member: int, i: int, ox: float, oy: float, far: float) -> float:
    """Below 0 where vertex i of the zone is nearer to the object than to a member."""
    return (
        (scratch.x[member] - ox) * scratch.zone.x[i]
        + (scratch.y[member] - oy) * scratch.zone.y[i]
        - (scratch.far[member] - far) * 0.5
    )


@inlined
def is_covered(scratch: SkylineScratch, x0: float, y0: float, x1: float, y1: float) -> bool:
    """Whether no object in the rectangle, relative to the place, with static values no better than scratch.corner can
    cut the zone: at every point of it some member is nearer than the whole rectangle."""
    d, stride, members = scratch.corner.size, scratch.x.size, scratch.size[N_SKYLINE]
    n = scratch.size[N_ZONE]
    for i in range(n):
        scratch.part.x[i] = scratch.zone.x[i]
        scratch.part.y[i] = scratch.zone.y[i]
    room = True
    b = 0
    while b < members and n > 0 and room:
        mask = first_lanes(members - b)
        for j in range(d):
            mask &= lanes_upto(scratch.statics, j * stride + b, scratch.corner[j])
        while mask != 0 and n > 0 and room:
            s = b + low_bit(mask)
            mask &= mask - 1
            room = 2 * n <= scratch.part.x.size
            if room:
                n = hull_outside(scratch.part, n, scratch.x[s], scratch.y[s], x0, y0, x1, y1, scratch.spare)
        b += LANES
    return n == 0


@inlined
def nearest_better(scratch: SkylineScratch) -> int:
    """The first member, in their order, that is statically no worse than scratch.corner, or -1."""
    d, stride, members = scratch.corner.size, scratch.x.size, scratch.size[N_SKYLINE]
    found = -1
    b = 0
    while b < members and found < 0:
        mask = first_lanes(members - b)
        for j in range(d):
            mask &= lanes_upto(scratch.statics, j * stride + b, scratch.corner[j])
        if mask != 0:
            found = b + low_bit(mask)
        b += LANES
    return found


@inlined
def is_dominated(scratch: SkylineScratch, far: float) -> bool:
    """Whether a member dominates an entry with the static values scratch.corner at this squared distance."""
    d, stride, members = scratch.corner.size, scratch.x.size, scratch.size[N_SKYLINE]
    dominated = False
    b = 0
    while b < members and not dominated:
        mask = first_lanes(members - b) & lanes_upto(scratch.far, b, far)
        for j in range(d):
            mask &= lanes_upto(scratch.statics, j * stride + b, scratch.corner[j])
        while mask != 0:
            s = b + low_bit(mask)
            mask &= mask - 1
            dominated |= scratch.far[s] < far
            for j in range(d):
                dominated |= scratch.statics[j * stride + s] != scratch.corner[j]
        b += LANES
    return dominated
