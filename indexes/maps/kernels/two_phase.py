"""The skyline at a place and its safe zone, in two phases, each in order of distance.

The first phase is branch and bound. It begins with sums of normalised static values and distance: a few nodes are
opened, and the best objects below them kept as seeds, which dominate much of the rest. Then it goes on by distance. An
entry taken from the queue is no farther than those still in it, and dominates them if it is statically better. So only
members that no other member is statically better than need to be compared (`best`, which also has the seeds that are
left), with a block of SIMD lanes of a node's children at a time. Each new member cuts the zone's polygon by the
bisectors with the worse members before it, so that the polygon is small early: an entry that is dominated and too far
away to reach it (Lemma 7) is dropped at once, and few are deferred. Seeds may be used in place of members: whatever a
seed dominates everywhere in the polygon, some member dominates everywhere in the zone.

The second phase opens what was deferred best-first, by how near the place it can touch the zone: for x in the region of
an object o, and s that dominates o, d(q,o) - d(q,x) <= d(x,o) <= d(x,s) <= d(x,q) + d(q,s), so d(q,x) is at least half
of d(q,o) - d(q,s). The search ends where that exceeds the polygon's radius.

Any order that is monotonic in all coordinates opens the same nodes: those that no member dominates (BBS; Papadias et
al.). Lemmas are those of [Moving queries].
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.simd import LANES, bit_count, high_bit, lanes_from, lanes_upto, low_bit, prefetch_line
from indexes.core.arrays import Floats, int64
from indexes.maps.kernels.cuts import (
    BLUR,
    UP,
    blur,
    cut,
    first_lanes,
    is_covered,
    measure,
    nearest_better,
    pair,
    shrink,
)
from indexes.maps.kernels.entries import (
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
from indexes.maps.kernels.lanes import block_distances, lanes_cutting, lanes_dominated, lanes_dominating
from indexes.maps.kernels.object_index import BLOCK, BLOCKS, LEAVES, View
from indexes.maps.kernels.skyline_scratch import (
    AT_FIRST,
    BOX,
    DEFERRED,
    FULL,
    KIND,
    LEAST,
    N_ASIDE,
    N_BEST,
    N_DEFERRED,
    N_KILLERS,
    N_QUEUE,
    N_SKYLINE,
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
    SkylineScratch,
)

SHORTEST = 1e-14
"""Edges that are shorter than this share of the longer side of the bounds are dropped."""


ONE_BY_ONE = 4
"""Lanes of a block that are compared one by one with a block of the best, and no longer with each of the best."""

LINE = 8
"""Numbers in a line of the cache."""

NEARNESS = 3.0
"""The weight of the distance, compared with a static value, in the choice of seeds."""


@kernel
def two_phase(view: View, scratch: SkylineScratch, x: float, y: float, box: Floats, zoned: bool) -> None:
    """Find the skyline at (x, y), in order of distance, and its zone within the box (x0, y0, x1, y1), or with `zoned`
    false an empty one. If scratch.size[FULL] is set there was too little room, and the result is void."""
    begin(scratch, x, y, box, zoned)
    _set_weights(view, scratch)
    _queue_roots(view, scratch, x, y)
    seeding = True
    while scratch.size[N_QUEUE] > 0 and scratch.size[FULL] == NOTHING:
        e = scratch.entry[0]
        drop_first(view, scratch, scratch.size[N_QUEUE], BY_ENTRY if seeding else BY_DISTANCE, x, y)
        scratch.size[N_QUEUE] -= 1
        if scratch.size[N_QUEUE] > 0:
            _prefetch(view, scratch.entry[0], scratch.corner.size)
        for j in range(scratch.corner.size):
            scratch.corner[j] = static_of(view, e, j)
        far = far_of(view, e, x, y)
        dominated, out_of_reach = _classify(scratch, far)
        if dominated:
            if not out_of_reach and scratch.size[N_ZONE] > 0:
                _defer_entry(view, scratch, e)
        elif e >= 0:
            _open(view, scratch, e, x, y, seeding)
        else:
            _accept(view, scratch, e, far, x, y)
        if seeding and (scratch.size[NODES] == SEEDING or scratch.size[N_QUEUE] == 0):
            _requeue_by_distance(view, scratch, x, y)
            seeding = False
    if scratch.size[N_ZONE] > 0 and scratch.size[FULL] == NOTHING:
        _cut_deferred(view, scratch, x, y)


@inlined
def _set_weights(view: View, scratch: SkylineScratch) -> None:
    """Make static values and distances comparable: weights are the inverse of their ranges in the root."""
    nodes, d = view.nodes, scratch.corner.size
    for j in range(d):
        scratch.weight[j] = _inverse_range(nodes.lower[j * nodes.x0.size], nodes.upper[j * nodes.x0.size])
    scratch.weight[d] = NEARNESS * min(
        _inverse_range(nodes.x0[0], nodes.x1[0]), _inverse_range(nodes.y0[0], nodes.y1[0])
    )


@internal
def _inverse_range(least: float, most: float) -> float:
    """1 / (most - least), or 0 where that is not meaningful."""
    return 1.0 / (most - least) if least < most < np.inf else 0.0


@inlined
def _add_seed(scratch: SkylineScratch, values: Floats, stride: int, i: int, far: float, score: float) -> None:
    """Make object i of these columns a seed, if there are fewer than SEEDS or one has a worse score."""
    at = scratch.size[N_BEST]
    is_room = at < SEEDS
    if is_room:
        scratch.size[N_BEST] = at + 1
    else:
        at = 0
        for b in range(1, SEEDS):
            at = b if scratch.score[b] > scratch.score[at] else at
    if is_room or score < scratch.score[at]:
        scratch.score[at] = score
        scratch.best_far[at], scratch.best_distance[at] = far, far**0.5
        scratch.above[at] = _above(far)
        for j in range(scratch.corner.size):
            scratch.best[j * scratch.x.size + at] = values[j * stride + i]
        _update_reach(scratch, at)


@inlined
def _requeue_by_distance(view: View, scratch: SkylineScratch, x: float, y: float) -> None:
    """Rebuild the queue by distance, of what is in it and of the objects set aside."""
    n, last = scratch.size[N_QUEUE], scratch.entry.size - 1
    for i in range(n + scratch.size[N_ASIDE]):
        e = scratch.entry[i] if i < n else scratch.entry[last - (i - n)]
        push(view, scratch, i, far_of(view, e, x, y), e, BY_DISTANCE, x, y)
    scratch.size[N_QUEUE] = n + scratch.size[N_ASIDE]
    scratch.size[N_ASIDE] = 0


@internal
def begin(scratch: SkylineScratch, x: float, y: float, box: Floats, zoned: bool) -> None:
    """Reset the scratch: nothing found, and the zone is the whole box."""
    scratch.size[:] = 0
    west, south, east, north = box[0] - x, box[1] - y, box[2] - x, box[3] - y
    scratch.reach[LEAST] = SHORTEST * max(east - west, north - south)
    for i in range(4):
        scratch.zone.x[i] = east if i == 1 or i == 2 else west
        scratch.zone.y[i] = north if i > 1 else south
        scratch.zone.label[i] = BOX
    if zoned and east > west and north > south:
        scratch.size[N_ZONE] = 4
        measure(scratch)
        scratch.reach[AT_FIRST] = scratch.reach[RADIUS]
        if not scratch.reach[SQUARED_RADIUS] < np.inf:
            scratch.size[N_ZONE] = 0


@inlined
def _queue_roots(view: View, scratch: SkylineScratch, x: float, y: float) -> None:
    """Queue the root of the base, and the blocks of the delta after all of the base: recent objects may be anywhere,
    and make poor seeds."""
    nodes = view.first.size
    blocks = view.size[BLOCKS]
    if blocks + 1 > scratch.entry.size:
        scratch.size[FULL] = NO_ENTRIES
    else:
        for b in range(-1, blocks):
            e = 0 if b < 0 else nodes + b
            if b >= 0 or view.end[0] > view.first[0]:
                push(view, scratch, scratch.size[N_QUEUE], -np.inf if b < 0 else np.inf, e, BY_ENTRY, x, y)
                scratch.size[N_QUEUE] += 1


@inlined
def _prefetch(view: View, entry: int, d: int) -> None:
    """Prefetch what opening a leaf reads: it is the next entry, unless what comes first now is opened."""
    if view.size[LEAVES] <= entry < view.first.size:
        first, end = int64(view.first[entry]), int64(view.end[entry])
        stride = view.base.x.size
        prefetch_line(view.dead, first)
        for i in range(first, end + LINE - 1, LINE):
            prefetch_line(view.base.x, i)
            prefetch_line(view.base.y, i)
            for j in range(d):
                prefetch_line(view.base.statics, j * stride + i)


@inlined
def _classify(scratch: SkylineScratch, far: float) -> tuple[bool, bool]:
    """Whether a member dominates an entry with the static values scratch.corner at this squared distance, and whether
    it cannot reach the zone either."""
    d, stride = scratch.corner.size, scratch.x.size
    dominated, out_of_reach = False, False
    b = 0
    while b < scratch.size[N_BEST] and not out_of_reach:
        mask = first_lanes(scratch.size[N_BEST] - b) & lanes_upto(scratch.best_far, b, far)
        for j in range(d):
            mask &= lanes_upto(scratch.best, j * stride + b, scratch.corner[j])
        if mask != 0:
            out_of_reach = mask & lanes_upto(scratch.beyond, b, far) != 0
            dominated |= mask & lanes_upto(scratch.above, b, far) != 0
            if not dominated:  # one as far: it has to be better
                while mask != 0:
                    i = b + low_bit(mask)
                    mask &= mask - 1
                    for j in range(d):
                        dominated |= scratch.best[j * stride + i] != scratch.corner[j]
        b += LANES
    return dominated, out_of_reach


@inlined
def _defer(scratch: SkylineScratch, i: int, kind: int, mask: int) -> None:
    n = scratch.size[N_DEFERRED]
    if n == scratch.deferred.size:
        scratch.size[FULL] = NO_ENTRIES
    else:
        scratch.deferred[n] = (((i << 2) | kind) << LANES) | mask
        scratch.size[N_DEFERRED] = n + 1


@inlined
def _defer_entry(view: View, scratch: SkylineScratch, entry: int) -> None:
    nodes, objects = view.first.size, view.base.slot.size
    if entry >= nodes:
        _defer(scratch, entry - nodes, OF_BLOCKS, 1)
    elif entry >= 0:
        _defer(scratch, entry, OF_NODES, 1)
    elif -1 - entry < objects:
        _defer(scratch, -1 - entry, OF_OBJECTS, 1)
    else:
        _defer(scratch, -1 - entry - objects, OF_DELTA, 1)


@inlined
def _columns(view: View, kind: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The least and greatest coordinates and the best static values of this kind of entry."""
    if kind == OF_NODES:
        x0, y0, x1, y1, values = view.nodes.x0, view.nodes.y0, view.nodes.x1, view.nodes.y1, view.nodes.lower
    elif kind == OF_OBJECTS:
        x0, y0, x1, y1, values = view.base.x, view.base.y, view.base.x, view.base.y, view.base.statics
    elif kind == OF_DELTA:
        x0, y0, x1, y1, values = view.delta.x, view.delta.y, view.delta.x, view.delta.y, view.delta.statics
    else:
        x0, y0, x1, y1, values = view.blocks.x0, view.blocks.y0, view.blocks.x1, view.blocks.y1, view.blocks.lower
    return x0, y0, x1, y1, values


@inlined
def _entry(view: View, kind: int, i: int) -> int:
    """The entry that is number i of its kind."""
    base = (
        0
        if kind == OF_NODES
        else -1
        if kind == OF_OBJECTS
        else view.first.size
        if kind == OF_BLOCKS
        else -1 - view.base.slot.size
    )
    return base + i if kind == OF_NODES or kind == OF_BLOCKS else base - i


@inlined
def _apart(scratch: SkylineScratch, values: Floats, stride: int, i: int, left: int) -> tuple[int, int]:
    """Of the lanes `left` of the block from i on, whose squared distances are in scratch.lane, those that no nearer
    object dominates, and those that one dominates but that can reach the zone, as far as is seen at once."""
    d, width, size = scratch.corner.size, scratch.x.size, scratch.size
    cut = size[N_ZONE] == 0 or scratch.reach[RADIUS] < scratch.reach[AT_FIRST]
    dominated, most, killer = 0, 0, -1
    b = size[N_BEST] - 1
    while b >= 0 and bit_count(left & ~dominated) > ONE_BY_ONE:
        mask = left & lanes_dominated(scratch.lane, scratch.above[b], values, stride, i, scratch.best, width, b, d)
        if mask != 0:
            lanes = bit_count(mask & ~dominated)
            if lanes > most:
                most, killer = lanes, b
            dominated |= mask
            if cut:
                left ^= mask & lanes_from(scratch.lane, 0, scratch.beyond[b])
        b -= 1
    if b >= 0:
        rest = left & ~dominated
        while rest != 0:
            k = low_bit(rest)
            rest &= rest - 1
            mask, reaches, first = 0, True, 0
            while first <= b and reaches and (cut or mask == 0):
                some = first_lanes(b + 1 - first) & lanes_dominating(
                    scratch.above, scratch.lane[k], values, stride, i + k, scratch.best, width, first, d
                )
                mask |= some
                if cut and some != 0:
                    reaches = some & lanes_upto(scratch.beyond, first, scratch.lane[k]) == 0
                first += LANES
            if not reaches:
                left ^= 1 << k
            elif mask != 0:
                dominated |= 1 << k
    if killer >= 0 and killer < size[N_BEST] - 1:
        _swap_best(scratch, killer, size[N_BEST] - 1)
    return left & ~dominated, left & dominated


@inlined
def _swap_best(scratch: SkylineScratch, a: int, b: int) -> None:
    """Exchange two of the best: what dominates most of one block is asked first of the next one."""
    width = scratch.x.size
    scratch.best_far[a], scratch.best_far[b] = scratch.best_far[b], scratch.best_far[a]
    scratch.best_distance[a], scratch.best_distance[b] = scratch.best_distance[b], scratch.best_distance[a]
    scratch.above[a], scratch.above[b] = scratch.above[b], scratch.above[a]
    scratch.beyond[a], scratch.beyond[b] = scratch.beyond[b], scratch.beyond[a]
    scratch.score[a], scratch.score[b] = scratch.score[b], scratch.score[a]
    for j in range(scratch.corner.size):
        row = j * width
        scratch.best[row + a], scratch.best[row + b] = scratch.best[row + b], scratch.best[row + a]


@inlined
def _open(view: View, scratch: SkylineScratch, entry: int, x: float, y: float, seeding: bool) -> None:
    """Queue the children of a node that are not dominated, and defer those that are dominated within reach."""
    d, size, nodes = scratch.corner.size, scratch.size, view.first.size
    if entry < nodes:
        first, end = int64(view.first[entry]), int64(view.end[entry])
        kind = OF_NODES if entry < view.size[LEAVES] else OF_OBJECTS
    else:
        first, kind = (entry - nodes) * BLOCK, OF_DELTA
        end = int64(view.block_end[entry - nodes])
    x0, y0, x1, y1, values = _columns(view, kind)
    stride = x0.size
    size[NODES] += 1
    if size[N_QUEUE] + size[N_ASIDE] + 2 * (end - first) > scratch.entry.size:
        size[FULL] = NO_ENTRIES
        end = first
    for i in range(first, end, LANES):
        block_distances(scratch.lane, x0, y0, x1, y1, i, x, y)
        left, dominated = _apart(scratch, values, stride, i, first_lanes(end - i))
        if dominated != 0:
            _defer(scratch, i, kind, dominated)
        while left != 0:
            k = low_bit(left)
            left &= left - 1
            if kind != OF_OBJECTS or view.dead[i + k] == 0:
                entry, key = _entry(view, kind, i + k), scratch.lane[k]
                if seeding:
                    key = scratch.weight[d] * key**0.5
                    for j in range(d):
                        if scratch.weight[j] > 0.0:
                            key += scratch.weight[j] * values[j * stride + i + k]
                if seeding and entry < 0:
                    _add_seed(scratch, values, stride, i + k, scratch.lane[k], key)
                    scratch.entry[scratch.entry.size - 1 - size[N_ASIDE]] = entry
                    size[N_ASIDE] += 1
                else:
                    push(view, scratch, size[N_QUEUE], key, entry, BY_ENTRY if seeding else BY_DISTANCE, x, y)
                    size[N_QUEUE] += 1


@inlined
def _accept(view: View, scratch: SkylineScratch, entry: int, far: float, x: float, y: float) -> None:
    """Make an object a member: the polygon keeps, for each worse member, the side on which that is nearer."""
    d, stride, size = scratch.corner.size, scratch.x.size, scratch.size
    s = size[N_SKYLINE]
    if s + LANES >= stride:
        size[FULL] = NO_SKYLINE
    else:
        px, py = place_of(view, entry)
        slot = int64(slot_of(view, entry))
        sx, sy = px - x, py - y
        was = size[N_ZONE] > 0
        changed = False
        b = 0
        while b < s and size[N_ZONE] > 0:
            mask = first_lanes(s - b)
            for j in range(d):
                mask &= lanes_from(scratch.statics, j * stride + b, scratch.corner[j])
            if mask != 0:
                mask &= lanes_cutting(
                    scratch.x, scratch.y, scratch.far, b, sx, sy, far, scratch.reach[SQUARED_RADIUS], BLUR
                )
            while mask != 0 and size[N_ZONE] > 0:
                o = b + low_bit(mask)
                mask &= mask - 1
                ax, ay = sx - scratch.x[o], sy - scratch.y[o]
                c = (far - scratch.far[o]) * 0.5 - blur(scratch, scratch.far[o], far)
                if scratch.place_x[o] == px and scratch.place_y[o] == py:
                    pass  # the same object twice
                elif not c > 0.0:
                    size[N_ZONE] = 0  # statically equal and as far: both are members on their bisector only
                elif not c * c > scratch.reach[SQUARED_RADIUS] * (ax * ax + ay * ay):
                    shrink(scratch, ax, ay, c, pair(scratch.member[o], slot))
                    measure(scratch)
                    changed = True
            b += LANES
        scratch.member[s] = slot
        scratch.place_x[s], scratch.place_y[s] = px, py
        scratch.x[s], scratch.y[s] = sx, sy
        scratch.far[s], scratch.distance[s] = far, far**0.5
        for j in range(d):
            scratch.statics[j * stride + s] = scratch.corner[j]
        size[N_SKYLINE] = s + 1
        _update_best(scratch, s)
        if changed or (was and size[N_ZONE] == 0):
            for i in range(size[N_BEST]):
                _update_reach(scratch, i)


@inlined
def _update_best(scratch: SkylineScratch, member: int) -> None:
    """Add a member to the best, unless an equal one is there, and remove those that it is statically better than."""
    d, stride, size = scratch.corner.size, scratch.x.size, scratch.size[N_BEST]
    equal, n = False, size
    b = size - (size - 1) % LANES - 1 if size > 0 else -1
    while b >= 0:
        mask = first_lanes(size - b)
        for j in range(d):
            mask &= lanes_from(scratch.best, j * stride + b, scratch.corner[j])
        while mask != 0:
            i = b + high_bit(mask)
            mask ^= 1 << (i - b)
            same = scratch.best_far[i] <= scratch.far[member]
            for j in range(d):
                same &= scratch.corner[j] == scratch.best[j * stride + i]
            equal |= same
            if not same:
                n -= 1  # from behind, so that what takes its place has been looked at
                scratch.best_far[i], scratch.best_distance[i] = scratch.best_far[n], scratch.best_distance[n]
                scratch.above[i], scratch.beyond[i] = scratch.above[n], scratch.beyond[n]
                for j in range(d):
                    scratch.best[j * stride + i] = scratch.best[j * stride + n]
        b -= LANES
    if not equal:
        scratch.best_far[n], scratch.best_distance[n] = scratch.far[member], scratch.distance[member]
        scratch.above[n] = _above(scratch.far[member])
        for j in range(d):
            scratch.best[j * stride + n] = scratch.corner[j]
        _update_reach(scratch, n)
        n += 1
    scratch.size[N_BEST] = n


@inlined
def _update_reach(scratch: SkylineScratch, i: int) -> None:
    """Update the squared distance from which on no entry that best i is no worse than can reach the zone: Lemma 7 and
    the triangle inequality. Without a zone, all that it dominates."""
    scratch.beyond[i] = scratch.above[i]
    if scratch.size[N_ZONE] > 0:
        scratch.beyond[i] = _after(scratch.best_distance[i] + 2.0 * scratch.reach[RADIUS])
        if scratch.beyond[i] < scratch.above[i]:
            scratch.beyond[i] = scratch.above[i]


@internal
def _after(distance: float) -> float:
    """A number above the square of a distance. NaN, which nothing reaches, if there is none: distances too large for
    numbers count as equal."""
    square = distance * distance * UP
    return square if square < np.inf else np.nan


@internal
def _above(far: float) -> float:
    """The least number above a square, or NaN as in `_after`."""
    return np.nextafter(far, np.inf) if far < np.inf else np.nan


@inlined
def _cut_deferred(view: View, scratch: SkylineScratch, x: float, y: float) -> None:
    """Cut the zone by the deferred objects and those below deferred nodes, best-first by how near the place they can
    touch it. Children of a node that is opened are deferred again."""
    size, d, nodes = scratch.size, scratch.corner.size, view.first.size
    size[N_QUEUE] = 0
    for s in range(size[N_SKYLINE]):
        scratch.limit[s] = _after(scratch.distance[s] + 2.0 * scratch.reach[RADIUS])
    p = 0
    more = True
    while more:
        if p < size[N_DEFERRED]:
            _queue_deferred(view, scratch, scratch.deferred[p], x, y)
            p += 1
        else:
            more = size[N_QUEUE] > 0 and size[N_ZONE] > 0 and scratch.key[0] <= scratch.reach[RADIUS]
            if more:
                e = scratch.entry[0]
                drop_first(view, scratch, size[N_QUEUE], BY_ENTRY, x, y)
                size[N_QUEUE] -= 1
                for j in range(d):
                    scratch.corner[j] = static_of(view, e, j)
                if e < 0:
                    px, py = place_of(view, e)
                    cut(scratch, int64(slot_of(view, e)), px, py, x, y)
                else:
                    x0, y0, x1, y1 = rectangle_of(view, e)
                    if not is_covered(scratch, x0 - x, y0 - y, x1 - x, y1 - y):
                        size[NODES] += 1
                        if e < nodes:
                            first, end = int64(view.first[e]), int64(view.end[e])
                            kind = OF_NODES if e < view.size[LEAVES] else OF_OBJECTS
                        else:
                            first, kind = (e - nodes) * BLOCK, OF_DELTA
                            end = int64(view.block_end[e - nodes])
                        p = 0
                        size[N_DEFERRED] = 0
                        for i in range(first, end, LANES):
                            _defer(scratch, i, kind, first_lanes(end - i))
        more &= size[FULL] == NOTHING


@inlined
def _queue_deferred(view: View, scratch: SkylineScratch, record: int, x: float, y: float) -> None:
    """Queue deferred lanes that can still touch the zone, by the least distance at which they can: half of their
    distance less that of a member that dominates them."""
    i, kind, mask = record >> KIND, (record >> LANES) & 3, record & ((1 << LANES) - 1)
    x0, y0, x1, y1, values = _columns(view, kind)
    stride, width, d, size = x0.size, scratch.x.size, scratch.corner.size, scratch.size
    block_distances(scratch.lane, x0, y0, x1, y1, i, x, y)
    # All of them without a branch: a predictor cannot tell after which one nothing is left.
    gone = 0
    for t in range(min(size[N_KILLERS], scratch.killer.size)):
        s = scratch.killer[t]
        gone |= lanes_dominated(scratch.lane, scratch.limit[s], values, stride, i, scratch.statics, width, s, d)
    left = mask & ~gone
    while left != 0:
        k = low_bit(left)
        left &= left - 1
        if kind != OF_OBJECTS or view.dead[i + k] == 0:
            for j in range(d):
                scratch.corner[j] = values[j * stride + i + k]
            s = nearest_better(scratch)
            low = 0.5 * (scratch.lane[k] ** 0.5 - scratch.distance[s] * UP) if s >= 0 else -np.inf
            if s >= 0 and scratch.lane[k] >= scratch.limit[s]:
                scratch.killer[size[N_KILLERS] % scratch.killer.size] = s
                size[N_KILLERS] += 1
                left &= ~lanes_dominated(
                    scratch.lane, scratch.limit[s], values, stride, i, scratch.statics, width, s, d
                )
            elif low <= scratch.reach[RADIUS]:
                size[DEFERRED] += 1
                if size[N_QUEUE] == scratch.entry.size:
                    size[FULL] = NO_ENTRIES
                else:
                    push(view, scratch, size[N_QUEUE], low, _entry(view, kind, i + k), BY_ENTRY, x, y)
                    size[N_QUEUE] += 1
