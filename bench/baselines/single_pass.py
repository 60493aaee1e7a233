"""The skyline at a place and its safe zone in one pass, in order of static scores: [Moving queries] Algorithm 2, with
branch and bound.

Whatever statically dominates an object comes before it, so that an object is known to be a member, or to cut the zone,
as soon as it is taken. The zone is that of `two_phase`, at several times the cost.
"""

from __future__ import annotations

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.simd import LANES, lanes_upto, low_bit
from indexes.core.arrays import Floats, int64
from indexes.maps.kernels.cuts import UP, cut, first_lanes, is_covered, is_dominated, measure, pair, shrink
from indexes.maps.kernels.entries import BY_SCORE, drop_first, far_of, place_of, push, rectangle_of, slot_of, static_of
from indexes.maps.kernels.object_index import BLOCK, BLOCKS, LEAVES, View
from indexes.maps.kernels.polygon import position_in
from indexes.maps.kernels.skyline_scratch import (
    FULL,
    LEAST,
    N_QUEUE,
    N_SKYLINE,
    N_ZONE,
    NO_ENTRIES,
    NO_SKYLINE,
    NODES,
    NOTHING,
    RADIUS,
    SkylineScratch,
)
from indexes.maps.kernels.two_phase import begin, two_phase

ROUNDING = 100.0
"""How far inside the polygon the place has to be for pruning to be safe, in lengths of the shortest edge."""


@kernel
def single_pass(view: View, scratch: SkylineScratch, x: float, y: float, box: Floats, zoned: bool) -> None:
    """As `two_phase.two_phase`."""
    sweep(view, scratch, x, y, box, zoned, True)


@inlined
def sweep(view: View, scratch: SkylineScratch, x: float, y: float, box: Floats, zoned: bool, prune: bool) -> None:
    """As `single_pass`; without `prune` every node is opened and every object tried."""
    begin(scratch, x, y, box, zoned)
    nodes = view.first.size
    blocks = view.size[BLOCKS]
    # What is below a node that has been opened, one at a time; at first the base's root and the blocks of the delta.
    first, end, base, step = int64(-1), blocks, nodes, 1
    opened = 0
    while (first < end or scratch.size[N_QUEUE] > 0) and scratch.size[N_ZONE] > 0 and scratch.size[FULL] == NOTHING:
        if first < end:
            e = base + step * first
            stored = step == 1 or base != -1 or view.dead[first] == 0
            if opened == 0:
                e = 0 if first < 0 else e
                stored = first >= 0 or view.end[0] > view.first[0]
            first += 1
            if stored:
                _load(view, scratch, e)
                far = far_of(view, e, x, y)
                if opened == 0 or not (prune and _is_idle(view, scratch, e, far, x, y)):
                    _queue(view, scratch, e, x, y)
        else:
            e = scratch.entry[0]
            drop_first(view, scratch, scratch.size[N_QUEUE], BY_SCORE, x, y)
            scratch.size[N_QUEUE] -= 1
            _load(view, scratch, e)
            far = far_of(view, e, x, y)
            if prune and _is_idle(view, scratch, e, far, x, y):
                pass
            elif e >= 0:
                scratch.size[NODES] += 1
                opened += 1
                if e >= nodes:
                    first, base, step = (e - nodes) * BLOCK, -1 - view.base.slot.size, -1
                    end = int64(view.block_end[e - nodes])
                else:
                    first, end = int64(view.first[e]), int64(view.end[e])
                    base, step = (0, 1) if e < view.size[LEAVES] else (-1, -1)
            else:
                px, py = place_of(view, e)
                if is_dominated(scratch, far):
                    cut(scratch, int64(slot_of(view, e)), px, py, x, y)
                else:
                    _accept(scratch, int64(slot_of(view, e)), px, py, far, x, y)
        opened = max(opened, 1) if first >= end else opened
    if scratch.size[FULL] == NOTHING:
        n = scratch.size[N_ZONE]
        if n == 0 or position_in(scratch.zone.x, scratch.zone.y, 0, n, 0.0, 0.0, ROUNDING * scratch.reach[LEAST]) <= 0:
            # Pruning rests on the place being inside. On a border rounding decides, and the zone may have lost it.
            two_phase(view, scratch, x, y, box, zoned and n > 0)
        else:
            _sort(scratch)


@inlined
def _load(view: View, scratch: SkylineScratch, entry: int) -> None:
    for j in range(scratch.corner.size):
        scratch.corner[j] = static_of(view, entry, j)


@inlined
def _queue(view: View, scratch: SkylineScratch, entry: int, x: float, y: float) -> None:
    """Queue an entry that has the static values scratch.corner."""
    if scratch.size[N_QUEUE] == scratch.entry.size:
        scratch.size[FULL] = NO_ENTRIES
    else:
        score = 0.0
        for j in range(scratch.corner.size):
            score += scratch.corner[j]
        push(view, scratch, scratch.size[N_QUEUE], score, entry, BY_SCORE, x, y)
        scratch.size[N_QUEUE] += 1


@inlined
def _is_idle(view: View, scratch: SkylineScratch, entry: int, far: float, x: float, y: float) -> bool:
    """Whether an entry that has the static values scratch.corner cannot touch the zone: by Lemma 7 within the circle of
    the zone; a node also where it is covered."""
    d, stride, members = scratch.corner.size, scratch.x.size, scratch.size[N_SKYLINE]
    reach = far**0.5 - 2.0 * scratch.reach[RADIUS]
    idle = False
    b = 0
    while b < members and reach > 0.0 and not idle:
        mask = first_lanes(members - b) & lanes_upto(scratch.distance, b, reach / UP)
        for j in range(d):
            mask &= lanes_upto(scratch.statics, j * stride + b, scratch.corner[j])
        idle = mask != 0
        b += LANES
    if entry >= 0 and not idle:
        x0, y0, x1, y1 = rectangle_of(view, entry)
        idle = is_covered(scratch, x0 - x, y0 - y, x1 - x, y1 - y)
    return idle


@inlined
def _accept(scratch: SkylineScratch, slot: int, px: float, py: float, far: float, x: float, y: float) -> None:
    """Make an object a member: the polygon keeps the side on which it is nearer than each better member."""
    d, stride, size = scratch.corner.size, scratch.x.size, scratch.size
    n = size[N_SKYLINE]
    if n + LANES >= stride:
        size[FULL] = NO_SKYLINE
    else:
        ox, oy = px - x, py - y
        b = 0
        while b < n and size[N_ZONE] > 0:
            mask = first_lanes(n - b)
            for j in range(d):
                mask &= lanes_upto(scratch.statics, j * stride + b, scratch.corner[j])
            while mask != 0 and size[N_ZONE] > 0:
                s = b + low_bit(mask)
                mask &= mask - 1
                c = (scratch.far[s] - far) * 0.5
                if scratch.place_x[s] == px and scratch.place_y[s] == py:
                    pass  # the same object twice
                elif not c > 0.0:
                    size[N_ZONE] = 0  # statically equal and as far: both are members on their bisector only
                else:
                    shrink(scratch, scratch.x[s] - ox, scratch.y[s] - oy, c, pair(slot, scratch.member[s]))
            b += LANES
        measure(scratch)
        scratch.member[n] = slot
        scratch.place_x[n], scratch.place_y[n] = px, py
        scratch.x[n], scratch.y[n] = ox, oy
        scratch.far[n], scratch.distance[n] = far, far**0.5
        for j in range(d):
            scratch.statics[j * stride + n] = scratch.corner[j]
        size[N_SKYLINE] = n + 1


@inlined
def _sort(scratch: SkylineScratch) -> None:
    """Put the members into the order in which `two_phase` finds them. O(members^2)."""
    stride = scratch.x.size
    for n in range(1, scratch.size[N_SKYLINE]):
        i = n
        while i > 0 and _is_behind(scratch, i - 1, i):
            scratch.member[i - 1], scratch.member[i] = scratch.member[i], scratch.member[i - 1]
            for column in (scratch.x, scratch.y, scratch.place_x, scratch.place_y, scratch.far, scratch.distance):
                column[i - 1], column[i] = column[i], column[i - 1]
            for j in range(scratch.corner.size):
                at = j * stride + i
                scratch.statics[at - 1], scratch.statics[at] = scratch.statics[at], scratch.statics[at - 1]
            i -= 1


@internal
def _is_behind(scratch: SkylineScratch, a: int, b: int) -> bool:
    """Whether member a is farther than member b, or as far and after it in lexicographic order of static values."""
    stride, j = scratch.x.size, 0
    decided, behind = scratch.far[a] != scratch.far[b], scratch.far[a] > scratch.far[b]
    while not decided and j < scratch.corner.size:
        p, q = scratch.statics[j * stride + a], scratch.statics[j * stride + b]
        decided, behind = p != q, p > q
        j += 1
    return behind if decided else scratch.member[a] > scratch.member[b]
