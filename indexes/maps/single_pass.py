"""The skyline at a place, and its safe zone, in one pass in order of static scores: design 1.6, Algorithm A; the text's
Algorithm 2 with its branch and bound.

What statically dominates an object comes before it, so that an object is a member, or may cut the zone, as soon as it
is taken. It gives the same zone as `two_phase`, at several times the cost: it is what the benchmarks compare that with.
"""

from __future__ import annotations

import numpy as np

from indexes.lanes import LANES, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel
from indexes.maps.cuts import UP, cut, first_lanes, is_covered, is_dominated, measure, pair, shrink
from indexes.maps.entries import (
    BY_SCORE,
    drop_first,
    far_of,
    place_of,
    push,
    rectangle_of,
    slot_of,
    static_of,
)
from indexes.maps.places import BLOCK, BLOCKS, LEAVES
from indexes.maps.polygon import keeps_off
from indexes.maps.two_phase import begin, two_phase
from indexes.maps.work import (
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
)

ROUNDING = 100.0
"""How far inside the polygon the place has to be for pruning to be sure of itself, in lengths of the shortest edge."""


@lean_kernel
def single_pass(v, w, x, y, box, zoned):  # type: ignore[no-untyped-def]
    """As `two_phase.two_phase`."""
    sweep(v, w, x, y, box, zoned, True)


@pasted_kernel
def sweep(v, w, x, y, box, zoned, prune):  # type: ignore[no-untyped-def]
    """As `single_pass`; without `prune` everything is opened and tried."""
    begin(w, x, y, box, zoned)
    nodes = v.first.size
    blocks = v.size[BLOCKS]
    # What is below a node that has been opened, one at a time; at first the base's root and the blocks of the delta.
    first, end, base, step = np.int64(-1), blocks, nodes, 1
    opened = 0
    while (first < end or w.size[N_QUEUE] > 0) and w.size[N_ZONE] > 0 and w.size[FULL] == NOTHING:
        if first < end:
            e = base + step * first
            stored = step == 1 or base != -1 or v.dead[first] == 0
            if opened == 0:
                e = 0 if first < 0 else e
                stored = first >= 0 or v.end[0] > v.first[0]
            first += 1
            if stored:
                _load(v, w, e)
                far = far_of(v, e, x, y)
                if opened == 0 or not (prune and _is_idle(v, w, e, far, x, y)):
                    _queue(v, w, e, x, y)
        else:
            e = w.entry[0]
            drop_first(v, w.key, w.entry, w.size[N_QUEUE], BY_SCORE, x, y)
            w.size[N_QUEUE] -= 1
            _load(v, w, e)
            far = far_of(v, e, x, y)
            if prune and _is_idle(v, w, e, far, x, y):
                pass
            elif e >= 0:
                w.size[NODES] += 1
                opened += 1
                if e >= nodes:
                    first, base, step = (e - nodes) * BLOCK, -1 - v.slot.size, -1
                    end = np.int64(v.block_end[e - nodes])
                else:
                    first, end = np.int64(v.first[e]), np.int64(v.end[e])
                    base, step = (0, 1) if e < v.size[LEAVES] else (-1, -1)
            else:
                px, py = place_of(v, e)
                if is_dominated(w, far):
                    cut(w, np.int64(slot_of(v, e)), px, py, x, y)
                else:
                    _accept(w, np.int64(slot_of(v, e)), px, py, far, x, y)
        opened = max(opened, 1) if first >= end else opened
    if w.size[FULL] == NOTHING:
        n = w.size[N_ZONE]
        if n == 0 or keeps_off(w.zone_x, w.zone_y, 0, n, 0.0, 0.0, ROUNDING * w.reach[LEAST]) <= 0:
            # Pruning rests on the place being inside. On a border rounding decides, and the zone may have lost it.
            two_phase(v, w, x, y, box, zoned and n > 0)
        else:
            _sort(w)


@pasted_kernel
def _load(v, w, e):  # type: ignore[no-untyped-def]
    for j in range(w.corner.size):
        w.corner[j] = static_of(v, e, j)


@pasted_kernel
def _queue(v, w, e, x, y):  # type: ignore[no-untyped-def]
    """Put what has the static values w.corner into the queue."""
    if w.size[N_QUEUE] == w.entry.size:
        w.size[FULL] = NO_ENTRIES
    else:
        score = 0.0
        for j in range(w.corner.size):
            score += w.corner[j]
        push(v, w.key, w.entry, w.size[N_QUEUE], score, e, BY_SCORE, x, y)
        w.size[N_QUEUE] += 1


@pasted_kernel
def _is_idle(v, w, e, far, x, y):  # type: ignore[no-untyped-def]
    """Whether an entry that has the static values w.corner cannot touch the zone: Lemma 7 within the zone's circle; for
    nodes also design 1.5."""
    d, stride, members = w.corner.size, w.x.size, w.size[N_SKYLINE]
    reach = far**0.5 - 2.0 * w.reach[RADIUS]
    idle = False
    b = 0
    while b < members and reach > 0.0 and not idle:
        mask = first_lanes(members - b) & lanes_upto(w.distance, b, reach / UP)
        for j in range(d):
            mask &= lanes_upto(w.statics, j * stride + b, w.corner[j])
        idle = mask != 0
        b += LANES
    if e >= 0 and not idle:
        x0, y0, x1, y1 = rectangle_of(v, e)
        idle = is_covered(w, x0 - x, y0 - y, x1 - x, y1 - y)
    return idle


@pasted_kernel
def _accept(w, slot, px, py, far, x, y):  # type: ignore[no-untyped-def]
    """An object becomes a member: the polygon keeps the side on which it is nearer than each better member."""
    d, stride, size = w.corner.size, w.x.size, w.size
    n = size[N_SKYLINE]
    if n + LANES >= stride:
        size[FULL] = NO_SKYLINE
    else:
        ox, oy = px - x, py - y
        b = 0
        while b < n and size[N_ZONE] > 0:
            mask = first_lanes(n - b)
            for j in range(d):
                mask &= lanes_upto(w.statics, j * stride + b, w.corner[j])
            while mask != 0 and size[N_ZONE] > 0:
                s = b + low_bit(mask)
                mask &= mask - 1
                c = (w.far[s] - far) * 0.5
                if w.place_x[s] == px and w.place_y[s] == py:
                    pass  # the same object twice
                elif not c > 0.0:
                    size[N_ZONE] = 0  # statically equal and as far: both are members on their bisector only
                else:
                    shrink(w, w.x[s] - ox, w.y[s] - oy, c, pair(slot, w.member[s]))
            b += LANES
        measure(w)
        w.member[n] = slot
        w.place_x[n], w.place_y[n] = px, py
        w.x[n], w.y[n] = ox, oy
        w.far[n], w.distance[n] = far, far**0.5
        for j in range(d):
            w.statics[j * stride + n] = w.corner[j]
        size[N_SKYLINE] = n + 1


@pasted_kernel
def _sort(w):  # type: ignore[no-untyped-def]
    """Put the members into the order in which `two_phase` finds them. O(members^2)."""
    stride = w.x.size
    for n in range(1, w.size[N_SKYLINE]):
        i = n
        while i > 0 and _is_behind(w, i - 1, i):
            w.member[i - 1], w.member[i] = w.member[i], w.member[i - 1]
            for column in (w.x, w.y, w.place_x, w.place_y, w.far, w.distance):
                column[i - 1], column[i] = column[i], column[i - 1]
            for j in range(w.corner.size):
                at = j * stride + i
                w.statics[at - 1], w.statics[at] = w.statics[at], w.statics[at - 1]
            i -= 1


@inner_kernel
def _is_behind(w, a, b):  # type: ignore[no-untyped-def]
    """Whether member a is farther than member b, or as far and behind it in lexicographic order of static values."""
    stride, j = w.x.size, 0
    decided, behind = w.far[a] != w.far[b], w.far[a] > w.far[b]
    while not decided and j < w.corner.size:
        p, q = w.statics[j * stride + a], w.statics[j * stride + b]
        decided, behind = p != q, p > q
        j += 1
    return behind if decided else w.member[a] > w.member[b]
