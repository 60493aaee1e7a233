"""The skyline at a place, and its safe zone in two phases (design 1.7, Algorithm B), in order of distance.

First branch and bound. It begins by sums of normalised static values and distance: a few nodes are opened, and the best
objects below them kept as seeds, which dominate much of what is to come. Then it goes on by distance. So whatever is
taken is no farther than what is to come, and dominates it as soon as it is statically better: of the members only those
that no other member is statically better than are asked (`best`, which also has what is left of the seeds), for a block
of lanes of a node's children at a time. Members come nearest first as well, and each cuts the zone's polygon by the
bisectors with the worse ones before it, so that the polygon is small early: what is dominated and too far to reach it
(Lemma 7) is dropped on the spot, and little is put off. Any object may stand for a member in that: what it dominates
wherever one is in the polygon is also dominated by a member, wherever one is in the zone.

Then what was put off is opened best-first, by how near the place it can touch the zone: for x in the region of an
object o and s that dominates o, d(q,o) - d(q,x) <= d(x,o) <= d(x,s) <= d(x,q) + d(q,s), so d(q,x) is at least half of
d(q,o) - d(q,s). The search ends where that is more than the polygon's radius.

Any order that grows with every coordinate opens the same nodes: those that no member dominates (BBS; Papadias et al.).
"""

from __future__ import annotations

import numpy as np

from indexes.lanes import LANES, high_bit, lanes_from, lanes_max, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel
from indexes.maps.cuts import UP, cut, first_lanes, is_covered, measure, nearest_better, pair, shrink
from indexes.maps.entries import (
    BY_DISTANCE,
    BY_ENTRY,
    drop_first,
    far_of,
    place_of,
    push,
    rectangle_of,
    slot_of,
    static_of,
)
from indexes.maps.places import BLOCK, BLOCKS, LEAVES
from indexes.maps.work import (
    AT_FIRST,
    BOX,
    DEFERRED,
    FULL,
    KIND,
    LEAST,
    N_ASIDE,
    N_BEST,
    N_QUEUE,
    N_SKYLINE,
    N_WAITING,
    N_ZONE,
    NO_ENTRIES,
    NO_SKYLINE,
    NODES,
    NOTHING,
    OF_BLOCKS,
    OF_DELTA,
    OF_NODES,
    OF_OBJECTS,
    RADIUS,
    SEEDING,
    SEEDS,
    SQUARED_RADIUS,
)

SHORTEST = 1e-14
"""Edges that are shorter than this share of the bounds' longer side are dropped."""


NEARNESS = 3.0
"""What the distance counts among the static values when seeds are chosen."""


@lean_kernel
def two_phase(v, w, x, y, box, zoned):  # type: ignore[no-untyped-def]
    """Find the skyline at (x, y), in order of distance, and its zone within the box (x0, y0, x1, y1), or, where it has
    not to be `zoned`, an empty one. If there was too little room, w.size[FULL] says of what, and nothing counts."""
    begin(w, x, y, box, zoned)
    _weigh(v, w)
    _enter(v, w, x, y)
    seeding = True
    while w.size[N_QUEUE] > 0 and w.size[FULL] == NOTHING:
        e = w.entry[0]
        drop_first(v, w.key, w.entry, w.size[N_QUEUE], BY_ENTRY if seeding else BY_DISTANCE, x, y)
        w.size[N_QUEUE] -= 1
        for j in range(w.corner.size):
            w.corner[j] = static_of(v, e, j)
        far = far_of(v, e, x, y)
        dominated, out_of_reach = _standing(w, far)
        if dominated:
            if not out_of_reach and w.size[N_ZONE] > 0:
                _put_off_entry(v, w, e)
        elif e >= 0:
            _open(v, w, e, x, y, seeding)
        else:
            _accept(v, w, e, far, x, y)
        if seeding and (w.size[NODES] == SEEDING or w.size[N_QUEUE] == 0):
            _by_distance(v, w, x, y)
            seeding = False
    if w.size[N_ZONE] > 0 and w.size[FULL] == NOTHING:
        _cut_down(v, w, x, y)


@pasted_kernel
def _weigh(v, w):  # type: ignore[no-untyped-def]
    """Make static values and distances comparable: each by what there is of it under the root."""
    d = w.corner.size
    for j in range(d):
        w.weight[j] = _share(v.lower[j * v.x0.size], v.upper[j * v.x0.size])
    w.weight[d] = NEARNESS * min(_share(v.x0[0], v.x1[0]), _share(v.y0[0], v.y1[0]))


@inner_kernel
def _share(least, most):  # type: ignore[no-untyped-def]
    """What one of an interval is of all of it; 0 where that says nothing."""
    return 1.0 / (most - least) if least < most < np.inf else 0.0


@pasted_kernel
def _plant(w, values, stride, i, far, score):  # type: ignore[no-untyped-def]
    """Make object i of these columns a seed, if there are fewer than SEEDS or one has a worse score."""
    at = w.size[N_BEST]
    is_room = at < SEEDS
    if is_room:
        w.size[N_BEST] = at + 1
    else:
        at = 0
        for b in range(1, SEEDS):
            at = b if w.score[b] > w.score[at] else at
    if is_room or score < w.score[at]:
        w.score[at] = score
        w.best_far[at], w.best_distance[at] = far, far**0.5
        w.above[at] = _above(far)
        for j in range(w.corner.size):
            w.best[j * w.x.size + at] = values[j * stride + i]
        _reach(w, at)


@pasted_kernel
def _by_distance(v, w, x, y):  # type: ignore[no-untyped-def]
    """Put what is in the queue, and the objects that were put aside, into a queue by distance."""
    n, last = w.size[N_QUEUE], w.entry.size - 1
    for i in range(n + w.size[N_ASIDE]):
        e = w.entry[i] if i < n else w.entry[last - (i - n)]
        push(v, w.key, w.entry, i, far_of(v, e, x, y), e, BY_DISTANCE, x, y)
    w.size[N_QUEUE] = n + w.size[N_ASIDE]
    w.size[N_ASIDE] = 0


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
        w.reach[AT_FIRST] = w.reach[RADIUS]
        if not w.reach[SQUARED_RADIUS] < np.inf:
            w.size[N_ZONE] = 0


@pasted_kernel
def _enter(v, w, x, y):  # type: ignore[no-untyped-def]
    """Put the base's root into the queue, and the blocks of the delta behind all of the base: what came last may be
    anywhere, and makes poor seeds."""
    nodes = v.first.size
    blocks = v.size[BLOCKS]
    if blocks + 1 > w.entry.size:
        w.size[FULL] = NO_ENTRIES
    else:
        for b in range(-1, blocks):
            e = 0 if b < 0 else nodes + b
            if b >= 0 or v.end[0] > v.first[0]:
                push(v, w.key, w.entry, w.size[N_QUEUE], -np.inf if b < 0 else np.inf, e, BY_ENTRY, x, y)
                w.size[N_QUEUE] += 1


@pasted_kernel
def _standing(w, far):  # type: ignore[no-untyped-def]
    """Whether a member dominates what has the static values w.corner at this squared distance, and whether it cannot
    reach the zone either."""
    d, stride = w.corner.size, w.x.size
    dominated, out_of_reach = False, False
    b = 0
    while b < w.size[N_BEST] and not out_of_reach:
        mask = first_lanes(w.size[N_BEST] - b) & lanes_upto(w.best_far, b, far)
        for j in range(d):
            mask &= lanes_upto(w.best, j * stride + b, w.corner[j])
        if mask != 0:
            out_of_reach = mask & lanes_upto(w.beyond, b, far) != 0
            dominated |= mask & lanes_upto(w.above, b, far) != 0
            if not dominated:  # one as far: it has to be better
                while mask != 0:
                    i = b + low_bit(mask)
                    mask &= mask - 1
                    for j in range(d):
                        dominated |= w.best[j * stride + i] != w.corner[j]
        b += LANES
    return dominated, out_of_reach


@pasted_kernel
def _put_off(w, i, kind, mask):  # type: ignore[no-untyped-def]
    n = w.size[N_WAITING]
    if n == w.waiting.size:
        w.size[FULL] = NO_ENTRIES
    else:
        w.waiting[n] = (((i << 2) | kind) << LANES) | mask
        w.size[N_WAITING] = n + 1


@pasted_kernel
def _put_off_entry(v, w, e):  # type: ignore[no-untyped-def]
    nodes, objects = v.first.size, v.slot.size
    if e >= nodes:
        _put_off(w, e - nodes, OF_BLOCKS, 1)
    elif e >= 0:
        _put_off(w, e, OF_NODES, 1)
    elif -1 - e < objects:
        _put_off(w, -1 - e, OF_OBJECTS, 1)
    else:
        _put_off(w, -1 - e - objects, OF_DELTA, 1)


@pasted_kernel
def _columns(v, kind):  # type: ignore[no-untyped-def]
    """The least and greatest coordinates, and the best static values, of what is of this kind."""
    if kind == OF_NODES:
        x0, y0, x1, y1, values = v.x0, v.y0, v.x1, v.y1, v.lower
    elif kind == OF_OBJECTS:
        x0, y0, x1, y1, values = v.x, v.y, v.x, v.y, v.statics
    elif kind == OF_DELTA:
        x0, y0, x1, y1, values = v.delta_x, v.delta_y, v.delta_x, v.delta_y, v.delta_statics
    else:
        x0, y0, x1, y1, values = v.block_x0, v.block_y0, v.block_x1, v.block_y1, v.block_lower
    return x0, y0, x1, y1, values


@pasted_kernel
def _entry(v, kind, i):  # type: ignore[no-untyped-def]
    """The entry that is number i of its kind."""
    base = (
        0 if kind == OF_NODES else -1 if kind == OF_OBJECTS else v.first.size if kind == OF_BLOCKS else -1 - v.slot.size
    )
    return base + i if kind == OF_NODES or kind == OF_BLOCKS else base - i


@pasted_kernel
def _spread(lane, x0, y0, x1, y1, i, x, y):  # type: ignore[no-untyped-def]
    """The squared distances of a block of lanes from i on."""
    for k in range(LANES):
        dx = max(x0[i + k] - x, x - x1[i + k], 0.0)
        dy = max(y0[i + k] - y, y - y1[i + k], 0.0)
        lane[k] = dx * dx + dy * dy


@pasted_kernel
def _within_reach(w, values, stride, i, left):  # type: ignore[no-untyped-def]
    """Of the lanes `left` of the block from i on, whose squared distances are in w.lane, those that can reach the zone
    or are not dominated."""
    b = w.size[N_BEST] - 1
    while b >= 0 and left != 0:
        mask = left & lanes_from(w.lane, 0, w.beyond[b])
        for j in range(w.corner.size):
            mask &= lanes_from(values, j * stride + i, w.best[j * w.x.size + b])
        left ^= mask
        b -= 1
    return left


@pasted_kernel
def _dominated(w, values, stride, i, left):  # type: ignore[no-untyped-def]
    """Of the lanes `left`, as in `_within_reach`, those that are dominated from nearer by."""
    found = 0
    b = w.size[N_BEST] - 1
    while b >= 0 and found != left:
        mask = left & lanes_from(w.lane, 0, w.above[b])
        for j in range(w.corner.size):
            mask &= lanes_from(values, j * stride + i, w.best[j * w.x.size + b])
        found |= mask
        b -= 1
    return found


@pasted_kernel
def _open(v, w, e, x, y, seeding):  # type: ignore[no-untyped-def]
    """Put into the queue what is below a node and not dominated, and off what is dominated within reach."""
    d, size, nodes = w.corner.size, w.size, v.first.size
    if e < nodes:
        first, end = np.int64(v.first[e]), np.int64(v.end[e])
        kind = OF_NODES if e < v.size[LEAVES] else OF_OBJECTS
    else:
        first, kind = (e - nodes) * BLOCK, OF_DELTA
        end = np.int64(v.block_end[e - nodes])
    x0, y0, x1, y1, values = _columns(v, kind)
    stride = x0.size
    size[NODES] += 1
    if size[N_QUEUE] + size[N_ASIDE] + 2 * (end - first) > w.entry.size:
        size[FULL] = NO_ENTRIES
        end = first
    for i in range(first, end, LANES):
        _spread(w.lane, x0, y0, x1, y1, i, x, y)
        left = first_lanes(end - i)
        if size[N_ZONE] == 0 or w.reach[RADIUS] < w.reach[AT_FIRST]:
            left = _within_reach(w, values, stride, i, left)
        if left != 0 and size[N_ZONE] > 0:
            dominated = _dominated(w, values, stride, i, left)
            left ^= dominated
            if dominated != 0:
                _put_off(w, i, kind, dominated)
        while left != 0:
            k = low_bit(left)
            left &= left - 1
            if kind != OF_OBJECTS or v.dead[i + k] == 0:
                e, key = _entry(v, kind, i + k), w.lane[k]
                if seeding:
                    key = w.weight[d] * key**0.5
                    for j in range(d):
                        if w.weight[j] > 0.0:
                            key += w.weight[j] * values[j * stride + i + k]
                if seeding and e < 0:
                    _plant(w, values, stride, i + k, w.lane[k], key)
                    w.entry[w.entry.size - 1 - size[N_ASIDE]] = e
                    size[N_ASIDE] += 1
                else:
                    push(v, w.key, w.entry, size[N_QUEUE], key, e, BY_ENTRY if seeding else BY_DISTANCE, x, y)
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
            mask = first_lanes(s - b)
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
    d, stride, size = w.corner.size, w.x.size, w.size[N_BEST]
    equal, n = False, size
    b = size - (size - 1) % LANES - 1 if size > 0 else -1
    while b >= 0:
        mask = first_lanes(size - b)
        for j in range(d):
            mask &= lanes_from(w.best, j * stride + b, w.corner[j])
        while mask != 0:
            i = b + high_bit(mask)
            mask ^= 1 << (i - b)
            same = w.best_far[i] <= w.far[s]
            for j in range(d):
                same &= w.corner[j] == w.best[j * stride + i]
            equal |= same
            if not same:
                n -= 1  # from behind, so that what takes its place has been looked at
                w.best_far[i], w.best_distance[i] = w.best_far[n], w.best_distance[n]
                w.above[i], w.beyond[i] = w.above[n], w.beyond[n]
                for j in range(d):
                    w.best[j * stride + i] = w.best[j * stride + n]
        b -= LANES
    if not equal:
        w.best_far[n], w.best_distance[n] = w.far[s], w.distance[s]
        w.above[n] = _above(w.far[s])
        for j in range(d):
            w.best[j * stride + n] = w.corner[j]
        _reach(w, n)
        n += 1
    w.size[N_BEST] = n


@pasted_kernel
def _reach(w, i):  # type: ignore[no-untyped-def]
    """From which squared distance on nothing that best i is no worse than can reach the zone: Lemma 7, and the triangle
    inequality. Without a zone, whatever it dominates."""
    w.beyond[i] = w.above[i]
    if w.size[N_ZONE] > 0:
        w.beyond[i] = _after(w.best_distance[i] + 2.0 * w.reach[RADIUS])
        if w.beyond[i] < w.above[i]:
            w.beyond[i] = w.above[i]


@inner_kernel
def _after(distance):  # type: ignore[no-untyped-def]
    """A square above that of a distance. NaN, which nothing reaches, if there is none: what is too far for numbers is
    as far as all that is."""
    square = distance * distance * UP
    return square if square < np.inf else np.nan


@inner_kernel
def _above(far):  # type: ignore[no-untyped-def]
    """The least square above one, or NaN as in `_after`."""
    return np.nextafter(far, np.inf) if far < np.inf else np.nan


@pasted_kernel
def _cut_down(v, w, x, y):  # type: ignore[no-untyped-def]
    """Take from the zone what the objects put off, and those below the nodes put off, can take: best first, by how near
    the place they can touch it. Children of a node that is opened are put off again."""
    size, d, nodes = w.size, w.corner.size, v.first.size
    size[N_QUEUE] = 0
    for s in range(size[N_SKYLINE]):
        w.limit[s] = _after(w.distance[s] + 2.0 * w.reach[RADIUS])
    p = 0
    more = True
    while more:
        if p < size[N_WAITING]:
            _take_up(v, w, w.waiting[p], x, y)
            p += 1
        else:
            more = size[N_QUEUE] > 0 and size[N_ZONE] > 0 and w.key[0] <= w.reach[RADIUS]
            if more:
                e = w.entry[0]
                drop_first(v, w.key, w.entry, size[N_QUEUE], BY_ENTRY, x, y)
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
                            first, end = np.int64(v.first[e]), np.int64(v.end[e])
                            kind = OF_NODES if e < v.size[LEAVES] else OF_OBJECTS
                        else:
                            first, kind = (e - nodes) * BLOCK, OF_DELTA
                            end = np.int64(v.block_end[e - nodes])
                        p = 0
                        size[N_WAITING] = 0
                        for i in range(first, end, LANES):
                            _put_off(w, i, kind, first_lanes(end - i))
        more &= size[FULL] == NOTHING


@pasted_kernel
def _take_up(v, w, record, x, y):  # type: ignore[no-untyped-def]
    """Put into the queue what was put off and can still touch the zone, under the least distance at which it can: of
    what is dominated by s and at a distance f it is half of f less that of s."""
    i, kind, mask = record >> KIND, (record >> LANES) & 3, record & ((1 << LANES) - 1)
    x0, y0, x1, y1, values = _columns(v, kind)
    stride, d, size = x0.size, w.corner.size, w.size
    _spread(w.lane, x0, y0, x1, y1, i, x, y)
    left, s = mask, 0
    farthest = lanes_max(w.lane, 0, mask)
    while s < size[N_SKYLINE] and left != 0 and not w.limit[s] > farthest:
        beyond = left & lanes_from(w.lane, 0, w.limit[s])
        for j in range(d):
            beyond &= lanes_from(values, j * stride + i, w.statics[j * w.x.size + s])
        left ^= beyond
        s += 1
    while left != 0:
        k = low_bit(left)
        left &= left - 1
        if kind != OF_OBJECTS or v.dead[i + k] == 0:
            for j in range(d):
                w.corner[j] = values[j * stride + i + k]
            s = nearest_better(w)
            low = 0.5 * (w.lane[k] ** 0.5 - w.distance[s] * UP) if s >= 0 else -np.inf
            if low <= w.reach[RADIUS]:
                size[DEFERRED] += 1
                if size[N_QUEUE] == w.entry.size:
                    size[FULL] = NO_ENTRIES
                else:
                    push(v, w.key, w.entry, size[N_QUEUE], low, _entry(v, kind, i + k), BY_ENTRY, x, y)
                    size[N_QUEUE] += 1
