"""The skyline at a place, and its safe zone in two phases (design 1.7, Algorithm B), in order of distance.

First branch and bound: entries are taken nearest first. So whatever has been taken is no farther than what is to come,
and dominates it as soon as it is statically better: that is asked of the few members that no other member is statically
better than (`best`), a block of lanes of a node's children at a time. Members come nearest first as well, and each cuts
the zone's polygon by the bisectors with the worse ones before it, so that the polygon is small early: what is dominated
and too far to reach it (Lemma 7) is dropped on the spot, and little is put off.

Then what was put off is opened best-first, by how near the place it can touch the zone: for x in the region of an
object o and s that dominates o, d(q,o) - d(q,x) <= d(x,o) <= d(x,s) <= d(x,q) + d(q,s), so d(q,x) is at least half of
d(q,o) - d(q,s). The search ends where that is more than the polygon's radius.

Any order that grows with every coordinate opens the same nodes: those that no member dominates (BBS; Papadias et al.).
"""

from __future__ import annotations

import numpy as np

from indexes.lanes import LANES, lanes_from, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel
from indexes.maps.cuts import UP, cut, is_covered, measure, nearest_better, pair, shrink
from indexes.maps.entries import (
    BY_DISTANCE,
    BY_REACH,
    drop_first,
    far_of,
    place_of,
    push,
    rectangle_of,
    slot_of,
    static_of,
)
from indexes.maps.places import BLOCK, DELTA, LEAVES
from indexes.maps.work import (
    BOX,
    DEFERRED,
    FULL,
    LEAST,
    N_BEST,
    N_QUEUE,
    N_SKYLINE,
    N_WAITING,
    N_ZONE,
    NO_ENTRIES,
    NO_SKYLINE,
    NODES,
    NOTHING,
    RADIUS,
    SQUARED_RADIUS,
)

SHORTEST = 1e-14
"""Edges that are shorter than this share of the bounds' longer side are dropped."""


@lean_kernel
def two_phase(v, w, x, y, box, zoned):  # type: ignore[no-untyped-def]
    """Find the skyline at (x, y), in order of distance, and its zone within the box (x0, y0, x1, y1), or, where it has
    not to be `zoned`, an empty one. If there was too little room, w.size[FULL] says of what, and nothing counts."""
    begin(w, x, y, box, zoned)
    _enter(v, w, x, y)
    while w.size[N_QUEUE] > 0 and w.size[FULL] == NOTHING:
        far, e = w.key[0], w.entry[0]
        drop_first(v, w.key, w.entry, w.size[N_QUEUE], BY_DISTANCE, x, y)
        w.size[N_QUEUE] -= 1
        for j in range(w.corner.size):
            w.corner[j] = static_of(v, e, j)
        dominated, out_of_reach = _standing(w, far)
        if dominated:
            if not out_of_reach and w.size[N_ZONE] > 0:
                _put_off(w, e, far)
        elif e >= 0:
            _open(v, w, e, x, y)
        else:
            _accept(v, w, e, far, x, y)
    if w.size[N_ZONE] > 0 and w.size[FULL] == NOTHING:
        _cut_down(v, w, x, y)


@inner_kernel
def begin(w, x, y, box, zoned):  # type: ignore[no-untyped-def]
    """Nothing found yet, and all of the box as the zone."""
    w.size[:] = 0
    west, south, east, north = box[0] - x, box[1] - y, box[2] - x, box[3] - y
    w.reach[LEAST] = SHORTEST * max(east - west, north - south)
    for i in range(4):
        w.zone_x[i] = east if i == 1 or i == 2 else west
        w.zone_y[i] = north if i > 1 else south
        w.zone_label[i] = BOX
    if zoned and east > west and north > south:
        w.size[N_ZONE] = 4
        measure(w)
        if not w.reach[SQUARED_RADIUS] < np.inf:
            w.size[N_ZONE] = 0


@pasted_kernel
def _enter(v, w, x, y):  # type: ignore[no-untyped-def]
    """Put the base's root and the blocks of the delta into the queue."""
    nodes = v.first.size
    blocks = (v.size[DELTA] + BLOCK - 1) // BLOCK
    if blocks + 1 > w.entry.size:
        w.size[FULL] = NO_ENTRIES
    else:
        for b in range(-1, blocks):
            e = 0 if b < 0 else nodes + b
            if b >= 0 or v.end[0] > v.first[0]:
                push(v, w.key, w.entry, w.size[N_QUEUE], far_of(v, e, x, y), e, BY_DISTANCE, x, y)
                w.size[N_QUEUE] += 1


@pasted_kernel
def _standing(w, far):  # type: ignore[no-untyped-def]
    """Whether a member dominates what has the static values w.corner at this squared distance, and whether it cannot
    reach the zone either."""
    d, stride = w.corner.size, w.x.size
    dominated, out_of_reach = False, False
    i = 0
    while i < w.size[N_BEST] and not out_of_reach:
        better, equal = True, True
        for j in range(d):
            better &= w.best[j * stride + i] <= w.corner[j]
            equal &= w.best[j * stride + i] == w.corner[j]
        if better and (not equal or w.best_far[i] < far):
            dominated = True
            out_of_reach = far >= w.beyond[i]
        i += 1
    return dominated, out_of_reach


@pasted_kernel
def _put_off(w, e, far):  # type: ignore[no-untyped-def]
    n = w.size[N_WAITING]
    if n == w.waiting.size:
        w.size[FULL] = NO_ENTRIES
    else:
        w.waiting[n] = e
        w.waiting_far[n] = far
        w.size[N_WAITING] = n + 1


@pasted_kernel
def _open(v, w, e, x, y):  # type: ignore[no-untyped-def]
    """Put into the queue what is below a node and not dominated, and off what is dominated within reach."""
    d, best_stride, size = w.corner.size, w.x.size, w.size
    nodes, objects = v.first.size, v.slot.size
    below, values, offset, stored = v.x, v.statics, 0, True
    xs, ys, x1s, y1s = v.x, v.y, v.x, v.y
    is_leaf = True
    if e < v.size[LEAVES]:
        xs, ys, x1s, y1s, values = v.x0, v.y0, v.x1, v.y1, v.lower
        is_leaf = False
    elif e >= nodes:
        xs, ys, x1s, y1s, values, offset = v.delta_x, v.delta_y, v.delta_x, v.delta_y, v.delta_statics, objects
        stored = False
    if e < nodes:
        first, end = np.int64(v.first[e]), np.int64(v.end[e])
    else:
        first = (e - nodes) * BLOCK
        end = min(first + BLOCK, v.size[DELTA])
    stride = xs.size
    size[NODES] += 1
    if size[N_QUEUE] + end - first > w.entry.size or size[N_WAITING] + end - first > w.waiting.size:
        size[FULL] = NO_ENTRIES
        end = first
    for i in range(first, end, LANES):
        for k in range(LANES):
            dx = xs[i + k] - x if xs[i + k] > x else (x - x1s[i + k] if x > x1s[i + k] else 0.0)
            dy = ys[i + k] - y if ys[i + k] > y else (y - y1s[i + k] if y > y1s[i + k] else 0.0)
            w.lane[k] = dx * dx + dy * dy
        left = (1 << min(LANES, end - i)) - 1
        b = size[N_BEST] - 1
        while b >= 0 and left != 0:
            mask = left & lanes_from(w.lane, 0, w.beyond[b])
            for j in range(d):
                mask &= lanes_from(values, j * stride + i, w.best[j * best_stride + b])
            left ^= mask
            b -= 1
        if left != 0:
            dominated = 0
            b = size[N_BEST] - 1
            while b >= 0 and size[N_ZONE] > 0 and dominated != left:
                mask = left & lanes_from(w.lane, 0, w.above[b])
                for j in range(d):
                    mask &= lanes_from(values, j * stride + i, w.best[j * best_stride + b])
                dominated |= mask
                b -= 1
            while left != 0:
                k = low_bit(left)
                left &= left - 1
                child = -1 - offset - i - k if is_leaf else i + k
                if not is_leaf or not stored or v.dead[i + k] == 0:
                    if (dominated >> k) & 1:
                        w.waiting[size[N_WAITING]] = child
                        w.waiting_far[size[N_WAITING]] = w.lane[k]
                        size[N_WAITING] += 1
                    else:
                        push(v, w.key, w.entry, size[N_QUEUE], w.lane[k], child, BY_DISTANCE, x, y)
                        size[N_QUEUE] += 1


@pasted_kernel
def _accept(v, w, e, far, x, y):  # type: ignore[no-untyped-def]
    """An object becomes a member: the polygon keeps, for each worse member, the side on which that is nearer."""
    d, stride, size = w.corner.size, w.x.size, w.size
    s = size[N_SKYLINE]
    if s + LANES >= stride:
        size[FULL] = NO_SKYLINE
    else:
        px, py = place_of(v, e)
        slot = np.int64(slot_of(v, e))
        sx, sy = px - x, py - y
        was = size[N_ZONE] > 0
        changed = False
        b = 0
        while b < s and size[N_ZONE] > 0:
            mask = (1 << min(LANES, s - b)) - 1
            for j in range(d):
                mask &= lanes_from(w.statics, j * stride + b, w.corner[j])
            while mask != 0 and size[N_ZONE] > 0:
                o = b + low_bit(mask)
                mask &= mask - 1
                ax, ay, c = sx - w.x[o], sy - w.y[o], (far - w.far[o]) * 0.5
                if w.place_x[o] == px and w.place_y[o] == py:
                    pass  # the same object twice
                elif not c > 0.0:
                    size[N_ZONE] = 0  # statically equal and as far: both are members on their bisector only
                elif not c * c > w.reach[SQUARED_RADIUS] * (ax * ax + ay * ay):
                    shrink(w, ax, ay, c, pair(w.member[o], slot))
                    measure(w)
                    changed = True
            b += LANES
        w.member[s] = slot
        w.place_x[s], w.place_y[s] = px, py
        w.x[s], w.y[s] = sx, sy
        w.far[s], w.distance[s] = far, far**0.5
        for j in range(d):
            w.statics[j * stride + s] = w.corner[j]
        size[N_SKYLINE] = s + 1
        _rank(w, s)
        if changed or (was and size[N_ZONE] == 0):
            for i in range(size[N_BEST]):
                _reach(w, i)


@pasted_kernel
def _rank(w, s):  # type: ignore[no-untyped-def]
    """Take member s among the best, unless one there is its equal, in place of those that it is statically better
    than."""
    d, stride = w.corner.size, w.x.size
    n, equal, i = 0, False, 0
    while i < w.size[N_BEST]:
        worse, same = True, True
        for j in range(d):
            worse &= w.corner[j] <= w.best[j * stride + i]
            same &= w.corner[j] == w.best[j * stride + i]
        equal |= same
        if same or not worse:
            if n < i:
                w.best_far[n], w.best_distance[n] = w.best_far[i], w.best_distance[i]
                w.above[n], w.beyond[n] = w.above[i], w.beyond[i]
                for j in range(d):
                    w.best[j * stride + n] = w.best[j * stride + i]
            n += 1
        i += 1
    if not equal:
        w.best_far[n], w.best_distance[n] = w.far[s], w.distance[s]
        w.above[n] = np.nextafter(w.far[s], np.inf)
        for j in range(d):
            w.best[j * stride + n] = w.corner[j]
        _reach(w, n)
        n += 1
    w.size[N_BEST] = n


@pasted_kernel
def _reach(w, i):  # type: ignore[no-untyped-def]
    """From which squared distance on nothing that best i is no worse than can reach the zone: Lemma 7, and the triangle
    inequality. Without a zone, whatever it dominates."""
    if w.size[N_ZONE] > 0:
        reach = w.best_distance[i] + 2.0 * w.reach[RADIUS]
        w.beyond[i] = max(reach * reach * UP, w.above[i])
    else:
        w.beyond[i] = w.above[i]


@pasted_kernel
def _lowest(w, far):  # type: ignore[no-untyped-def]
    """How near the place what is dominated, has the static values w.corner and is at this squared distance can touch
    the zone, rounded down."""
    s = nearest_better(w)
    return 0.5 * (far**0.5 - w.distance[s] * UP) if s >= 0 else -np.inf


@pasted_kernel
def _cut_down(v, w, x, y):  # type: ignore[no-untyped-def]
    """Take from the zone what the objects put off, and those below the nodes put off, can take."""
    size, d = w.size, w.corner.size
    nodes, objects = v.first.size, v.slot.size
    size[N_QUEUE] = 0
    size[DEFERRED] = size[N_WAITING]
    p, first, end, offset, below = 0, 0, 0, 0, 0
    more = True
    while more:
        # What is put off, then the children of what is opened, one at a time.
        e, far, there = 0, 0.0, False
        if p < size[N_WAITING]:
            e, far, there = w.waiting[p], w.waiting_far[p], True
            p += 1
        elif first < end:
            e = first if below == 0 else -1 - offset - first
            there = below != 1 or v.dead[first] == 0
            far = far_of(v, e, x, y)
            first += 1
        if there:
            for j in range(d):
                w.corner[j] = static_of(v, e, j)
            low = _lowest(w, far)
            if low <= w.reach[RADIUS]:
                if size[N_QUEUE] == w.entry.size:
                    size[FULL] = NO_ENTRIES
                else:
                    push(v, w.key, w.entry, size[N_QUEUE], low, e, BY_REACH, x, y)
                    size[N_QUEUE] += 1
        elif p == size[N_WAITING] and first >= end:
            more = size[N_QUEUE] > 0 and size[N_ZONE] > 0 and w.key[0] <= w.reach[RADIUS]
            if more:
                e = w.entry[0]
                drop_first(v, w.key, w.entry, size[N_QUEUE], BY_REACH, x, y)
                size[N_QUEUE] -= 1
                for j in range(d):
                    w.corner[j] = static_of(v, e, j)
                if e < 0:
                    px, py = place_of(v, e)
                    cut(w, np.int64(slot_of(v, e)), px, py, x, y)
                else:
                    x0, y0, x1, y1 = rectangle_of(v, e)
                    if not is_covered(w, x0 - x, y0 - y, x1 - x, y1 - y):
                        size[NODES] += 1
                        if e < nodes:
                            first, end, offset = np.int64(v.first[e]), np.int64(v.end[e]), 0
                            below = 0 if e < v.size[LEAVES] else 1
                        else:
                            first, offset, below = (e - nodes) * BLOCK, objects, 2
                            end = min(first + BLOCK, v.size[DELTA])
        more &= size[FULL] == NOTHING
