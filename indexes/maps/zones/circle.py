"""Skylines and their safe zones by any metric: circles.

By other metrics than the Euclidean the places that are as far from two objects are on no straight line, so a zone is
not a polygon. The triangle inequality remains: moving by r from the place q changes the difference of any two distances
by at most 2 r. A member o of the skyline remains one as long as no member s that is statically no worse is as near, for
which half of d(q,s) - d(q,o) is enough; and an object p that is no member remains none as long as it is farther than
one member s that dominates it, for which half of d(q,p) - d(q,s) is. The least of all these is the zone's radius.
Objects that are not members need not be compared with members: their dominator would dominate those as well.

The search is branch and bound by distance. Objects taken from the queue are no farther than those still in it, so the
first member that is statically no worse than an entry is the nearest one, and gives a lower bound for all below the
entry: what is no less than the known radius is dropped, often before its distance is computed. An entry that is
dominated and may have a smaller bound is deferred to the end, nodes best-first. Only an object with a smaller bound
than all before it is queued, so that the radius is small early. As in `two_phase.py` a few good objects, the seeds, are
looked for first, by sums of static values and distance. They are used in place of members that are not known yet: what
a seed dominates, a member dominates that is no farther than the seed.

Rounding is on the side of the smaller circle: `lead`. The circle is not the largest possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, kernel
from indexes.compiled.simd import LANES, lanes_from, lanes_min, lanes_upto, low_bit
from indexes.core.arrays import Floats, Ints32, int64
from indexes.maps.kernels.cuts import first_lanes, is_dominated, nearest_better
from indexes.maps.kernels.entries import (
    BY_DISTANCE,
    BY_ENTRY,
    drop_first,
    place_of,
    push,
    rectangle_of,
    slot_of,
    static_of,
)
from indexes.maps.kernels.floats import EPSILON, float_kernel
from indexes.maps.kernels.metrics import (
    GREAT_CIRCLE,
    LOOSE,
    METRICS,
    NEARLY_OPPOSITE,
    RELATIVE,
    TIGHT,
    distance,
    mindist,
)
from indexes.maps.kernels.object_index import BLOCK, BLOCKS, LEAVES, View
from indexes.maps.kernels.skyline_scratch import (
    FULL,
    LEAST,
    N_ASIDE,
    N_BEST,
    N_QUEUE,
    N_SKYLINE,
    NO_ENTRIES,
    NO_SKYLINE,
    NODES,
    NOTHING,
    RADIUS,
    SEEDING,
    SEEDS,
    SkylineScratch,
    empty_scratch,
    grown,
)
from indexes.maps.kernels.two_phase import NEARNESS
from indexes.maps.object_index import PlaceIndex

MOST = 1.7976931348623157e308

NOISE = 16.0 * EPSILON
"""More than the rounding errors of six distances in the plane, up to half as far again, as a share of the longest."""

FAR_ENOUGH = NEARLY_OPPOSITE / 1.5
"""From an object at this distance or less no circle reaches to where great-circle distances have an error of
`LOOSE`."""


class CircleZone(NamedTuple):
    """A skyline at a place, and the radius of the circle in which it stays the same: infinite for everywhere, 0 for
    the place alone."""

    metric: int  # see `metrics`
    place: Floats  # (2,)
    radius: float
    skyline: Ints32  # slots, nearest first
    places: Floats  # (2, members) where they are
    statics: Floats  # (d, members)
    distances: Floats  # (members,) from the place

    @property
    def empty(self) -> bool:
        """Whether the skyline holds at the place alone."""
        return self.radius <= 0.0

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) is strictly inside. O(1)."""
        if self.radius == np.inf:
            return True
        return bool(distance(self.metric, self.place[0], self.place[1], float(x), float(y)) < self.radius)


class CircleSearch:
    """Searches for skylines by one metric, one at a time, in arrays that are reused."""

    def __init__(self, d: int, metric: str) -> None:
        """Among objects with d static values, by a metric of `METRICS`."""
        self.metric = METRICS[metric]
        self._scratch = empty_scratch(d)

    @property
    def nodes(self) -> int:
        """Nodes that the last search opened."""
        return int(self._scratch.size[NODES])

    def skyline(self, index: PlaceIndex, x: float, y: float) -> Ints32:
        """The slots of the skyline at (x, y), nearest first."""
        return self._search(index, x, y, False).skyline

    def zone(self, index: PlaceIndex, x: float, y: float) -> CircleZone:
        """The skyline at (x, y), and its circle."""
        return self._search(index, x, y, True)

    def _search(self, index: PlaceIndex, x: float, y: float, zoned: bool) -> CircleZone:
        x, y = float(x), float(y)
        circle(index.view, self._scratch, self.metric, x, y, zoned)
        while self._scratch.size[FULL]:
            self._scratch = grown(self._scratch)
            circle(index.view, self._scratch, self.metric, x, y, zoned)
        w = self._scratch
        n, d = int(w.size[N_SKYLINE]), len(w.corner)
        return CircleZone(
            metric=self.metric,
            place=np.array([x, y]),
            radius=max(0.0, float(w.reach[RADIUS])),
            skyline=w.member[:n].astype(np.int32),
            places=np.array([w.place_x[:n], w.place_y[:n]]),
            statics=w.statics.reshape(d, len(w.x))[:, :n].copy(),
            distances=w.far[:n].copy(),
        )


@float_kernel
def lead(metric: int, near: float, far: float) -> float:
    """The radius within which an object at distance `far` stays farther than one at distance `near`: half of the
    difference, less the possible rounding error. It never falls as `far` grows."""
    near, far = min(near, MOST), min(far, MOST)
    if metric != GREAT_CIRCLE:
        least = far - NOISE * far
    elif far > FAR_ENOUGH:
        least = far - 4.0 * LOOSE
    else:
        least = min(far - 4.0 * (TIGHT + RELATIVE * far), FAR_ENOUGH - 4.0 * LOOSE)
    return 0.5 * (least - near)


@kernel
def circle(view: View, scratch: SkylineScratch, metric: int, x: float, y: float, zoned: bool) -> None:
    """Find the skyline at (x, y), nearest first, with distances in scratch.far, and the radius of its circle, 0 with
    `zoned` false, in scratch.reach[RADIUS]; scratch.reach[LEAST] is the least bound of an object in the queue. If
    scratch.size[FULL] is set there was too little room, and the result is void."""
    size = scratch.size
    size[:] = 0
    scratch.reach[RADIUS] = scratch.reach[LEAST] = np.inf if zoned else 0.0
    _find_seeds(view, scratch, metric, x, y)
    _queue_roots(view, scratch, metric, x, y)
    while size[N_QUEUE] > 0 and size[FULL] == NOTHING:
        e, far = scratch.entry[0], scratch.key[0]
        drop_first(view, scratch, size[N_QUEUE], BY_DISTANCE, x, y)
        size[N_QUEUE] -= 1
        for j in range(scratch.corner.size):
            scratch.corner[j] = static_of(view, e, j)
        if is_dominated(scratch, far):
            if e < 0:
                _limit_circle(view, scratch, metric, e, far)
            else:
                _defer(scratch, e, lead(metric, scratch.far[nearest_better(scratch)], far))
        elif e >= 0:
            _open(view, scratch, metric, e, far, x, y)
        else:
            _accept(view, scratch, metric, e, far)
    if size[FULL] == NOTHING:
        _resume_deferred(view, scratch, metric, x, y)


@inlined
def _find_seeds(view: View, scratch: SkylineScratch, metric: int, x: float, y: float) -> None:
    """Take as seeds the objects of the base with the least sums of static values and distance, as shares of their
    ranges in the root, that are below the first SEEDING nodes by the same order."""
    d, size = scratch.corner.size, scratch.size
    for j in range(d):
        low, high = view.nodes.lower[j * view.nodes.x0.size], view.nodes.upper[j * view.nodes.x0.size]
        scratch.weight[j] = 1.0 / (high - low) if low < high < np.inf else 0.0
    across = (
        distance(metric, view.nodes.x0[0], view.nodes.y0[0], view.nodes.x1[0], view.nodes.y1[0])
        if view.end[0] > view.first[0]
        else 0.0
    )
    scratch.weight[d] = NEARNESS / across if 0.0 < across < np.inf else 0.0
    if view.end[0] > view.first[0]:
        push(view, scratch, 0, 0.0, 0, BY_ENTRY, x, y)
        size[N_QUEUE] = 1
    while size[N_QUEUE] > 0 and size[NODES] < SEEDING:
        e = scratch.entry[0]
        drop_first(view, scratch, size[N_QUEUE], BY_ENTRY, x, y)
        size[N_QUEUE] -= 1
        size[NODES] += 1
        first, end, base, sign = _below(view, e)
        if size[N_QUEUE] + (end - first) > scratch.entry.size:
            end = first
        for c in range(first, end):
            child = base + sign * c
            if _is_stored(view, child):
                far = _far(view, metric, child, x, y)
                score = scratch.weight[d] * far if scratch.weight[d] > 0.0 else 0.0
                for j in range(d):
                    if scratch.weight[j] > 0.0:
                        score += scratch.weight[j] * static_of(view, child, j)
                if child >= 0:
                    push(view, scratch, size[N_QUEUE], score, child, BY_ENTRY, x, y)
                    size[N_QUEUE] += 1
                elif score < np.inf:
                    _add_seed(view, scratch, child, far, score)
    size[N_QUEUE] = 0


@inlined
def _add_seed(view: View, scratch: SkylineScratch, entry: int, far: float, score: float) -> None:
    """Make an object a seed, if there is room or one has a worse score."""
    at = scratch.size[N_BEST]
    is_room = at < SEEDS
    if is_room:
        scratch.size[N_BEST] = at + 1
    else:
        at = 0
        for b in range(1, SEEDS):
            at = b if scratch.score[b] > scratch.score[at] else at
    if is_room or score < scratch.score[at]:
        scratch.score[at], scratch.best_far[at] = score, far
        for j in range(scratch.corner.size):
            scratch.best[j * scratch.x.size + at] = static_of(view, entry, j)


@inlined
def _nearest_seed(scratch: SkylineScratch) -> float:
    """The least distance of a seed that is statically no worse than scratch.corner; infinite, if none is."""
    mask = first_lanes(scratch.size[N_BEST])
    for j in range(scratch.corner.size):
        mask &= lanes_upto(scratch.best, j * scratch.x.size, scratch.corner[j])
    return lanes_min(scratch.best_far, 0, mask) if mask != 0 else np.inf


@inlined
def _queue_roots(view: View, scratch: SkylineScratch, metric: int, x: float, y: float) -> None:
    """Queue the root of the base and the blocks of the delta."""
    nodes = view.first.size
    blocks = view.size[BLOCKS]
    if blocks + 1 > scratch.entry.size:
        scratch.size[FULL] = NO_ENTRIES
    else:
        for b in range(-1, blocks):
            e = 0 if b < 0 else nodes + b
            if b >= 0 or view.end[0] > view.first[0]:
                push(view, scratch, scratch.size[N_QUEUE], _far(view, metric, e, x, y), e, BY_DISTANCE, x, y)
                scratch.size[N_QUEUE] += 1


@inlined
def _far(view: View, metric: int, entry: int, x: float, y: float) -> float:
    """The distance of an entry; of a node a lower bound for all objects below it."""
    if entry >= 0:
        x0, y0, x1, y1 = rectangle_of(view, entry)
        far = mindist(metric, x, y, x0, y0, x1, y1)
    else:
        px, py = place_of(view, entry)
        far = distance(metric, x, y, px, py)
    return far


@inlined
def _below(view: View, entry: int) -> tuple[int, int, int, int]:
    """The first and the end of the children of a node, and how to number them: entry c of them is base + sign * c."""
    nodes = view.first.size
    if entry >= nodes:
        first = (entry - nodes) * BLOCK
        end, base, sign = int64(view.block_end[entry - nodes]), -1 - view.base.slot.size, -1
    else:
        first, end = int64(view.first[entry]), int64(view.end[entry])
        base, sign = (0, 1) if entry < view.size[LEAVES] else (-1, -1)
    return first, end, base, sign


@inlined
def _is_stored(view: View, entry: int) -> bool:
    """Whether an entry is not a tombstone."""
    return entry >= 0 or -1 - entry >= view.base.slot.size or view.dead[-1 - entry] == 0


@inlined
def _defer(scratch: SkylineScratch, entry: int, least: float) -> None:
    """Keep an entry that is dominated and may bound the circle by `least` or more, at the end of the queue's
    columns."""
    if least < scratch.reach[RADIUS]:
        if scratch.size[N_QUEUE] + scratch.size[N_ASIDE] == scratch.entry.size:
            scratch.size[FULL] = NO_ENTRIES
        else:
            scratch.size[N_ASIDE] += 1
            scratch.key[scratch.entry.size - scratch.size[N_ASIDE]] = least
            scratch.entry[scratch.entry.size - scratch.size[N_ASIDE]] = entry


@inlined
def _limit_circle(view: View, scratch: SkylineScratch, metric: int, entry: int, far: float) -> None:
    """Bound the circle by an object that is dominated and has the static values scratch.corner, unless a better
    member is at the same place."""
    least = lead(metric, scratch.far[nearest_better(scratch)], far)
    if least < scratch.reach[RADIUS]:
        px, py = place_of(view, entry)
        twin = False
        for s in range(scratch.size[N_SKYLINE]):
            if scratch.place_x[s] == px and scratch.place_y[s] == py:
                better = True
                for j in range(scratch.corner.size):
                    better &= scratch.statics[j * scratch.x.size + s] <= scratch.corner[j]
                twin |= better
        if not twin:
            scratch.reach[RADIUS] = max(0.0, least)


@inlined
def _open(view: View, scratch: SkylineScratch, metric: int, entry: int, far: float, x: float, y: float) -> None:
    """Queue the children of a node at this distance that are not dominated or may bound the circle."""
    first, end, base, sign = _below(view, entry)
    scratch.size[NODES] += 1
    if scratch.size[N_QUEUE] + scratch.size[N_ASIDE] + (end - first) > scratch.entry.size:
        scratch.size[FULL] = NO_ENTRIES
        end = first
    for c in range(first, end):
        child = base + sign * c
        for j in range(scratch.corner.size):
            scratch.corner[j] = static_of(view, child, j)
        s = nearest_better(scratch)
        near = scratch.far[s] if s >= 0 else _nearest_seed(scratch)
        if _is_stored(view, child) and lead(metric, near, far) <= scratch.reach[RADIUS]:
            there = max(far, _far(view, metric, child, x, y))
            if near >= there and not (s >= 0 and is_dominated(scratch, there)):
                push(view, scratch, scratch.size[N_QUEUE], there, child, BY_DISTANCE, x, y)
                scratch.size[N_QUEUE] += 1
            else:
                least = lead(metric, near, there)
                if child < 0 and least < min(scratch.reach[RADIUS], scratch.reach[LEAST]):
                    scratch.reach[LEAST] = least
                    push(view, scratch, scratch.size[N_QUEUE], there, child, BY_DISTANCE, x, y)
                    scratch.size[N_QUEUE] += 1
                else:
                    _defer(scratch, child, least)


@inlined
def _accept(view: View, scratch: SkylineScratch, metric: int, entry: int, far: float) -> None:
    """Make an object a member, and bound the circle by nearer members that are statically no better: they have to
    stay nearer."""
    d, stride, s = scratch.corner.size, scratch.x.size, scratch.size[N_SKYLINE]
    if s + LANES >= stride:
        scratch.size[FULL] = NO_SKYLINE
    else:
        px, py = place_of(view, entry)
        b = 0
        while b < s:
            mask = first_lanes(s - b)
            for j in range(d):
                mask &= lanes_from(scratch.statics, j * stride + b, scratch.corner[j])
            while mask != 0:
                o = b + low_bit(mask)
                mask &= mask - 1
                if scratch.place_x[o] != px or scratch.place_y[o] != py:  # else the same object twice
                    scratch.reach[RADIUS] = max(0.0, min(scratch.reach[RADIUS], lead(metric, scratch.far[o], far)))
            b += LANES
        scratch.member[s] = int64(slot_of(view, entry))
        scratch.place_x[s], scratch.place_y[s], scratch.far[s] = px, py, far
        for j in range(d):
            scratch.statics[j * stride + s] = scratch.corner[j]
        scratch.size[N_SKYLINE] = s + 1


@inlined
def _resume_deferred(view: View, scratch: SkylineScratch, metric: int, x: float, y: float) -> None:
    """Bound the circle by the deferred entries, best-first by the least bound of each."""
    size = scratch.size
    first, put_off = scratch.entry.size - size[N_ASIDE], size[N_ASIDE]
    size[N_QUEUE] = size[N_ASIDE] = 0
    for i in range(put_off):
        e, least = scratch.entry[first + i], scratch.key[first + i]
        if least < scratch.reach[RADIUS]:
            for j in range(scratch.corner.size):
                scratch.corner[j] = static_of(view, e, j)
            far = _far(view, metric, e, x, y)
            if e < 0:
                _limit_circle(view, scratch, metric, e, far)
            else:
                least = lead(metric, scratch.far[nearest_better(scratch)], far)
                push(view, scratch, size[N_QUEUE], least, e, BY_ENTRY, x, y)
                size[N_QUEUE] += 1
    while size[N_QUEUE] > 0 and scratch.key[0] < scratch.reach[RADIUS] and size[FULL] == NOTHING:
        e = scratch.entry[0]
        drop_first(view, scratch, size[N_QUEUE], BY_ENTRY, x, y)
        size[N_QUEUE] -= 1
        begin, end, base, sign = _below(view, e)
        size[NODES] += 1
        if size[N_QUEUE] + (end - begin) > scratch.entry.size:
            size[FULL] = NO_ENTRIES
            end = begin
        for c in range(begin, end):
            child = base + sign * c
            if _is_stored(view, child):
                for j in range(scratch.corner.size):
                    scratch.corner[j] = static_of(view, child, j)
                there = _far(view, metric, child, x, y)
                if child < 0:
                    _limit_circle(view, scratch, metric, child, there)
                else:
                    least = lead(metric, scratch.far[nearest_better(scratch)], there)
                    if least < scratch.reach[RADIUS]:
                        push(view, scratch, size[N_QUEUE], least, child, BY_ENTRY, x, y)
                        size[N_QUEUE] += 1
