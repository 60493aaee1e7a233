"""The skyline at a place by any metric, and a circle in which it stays the same.

Off Euclid the places that are as far from two objects lie on no straight line, so a zone is not cut out of a polygon.
The triangle inequality is all that is left: whoever goes a way r from the place q changes the difference of any two
distances by at most 2 r. Members o of the skyline stay as long as no member s that is statically no worse comes as
near, for which half of d(q,s) - d(q,o) is enough; and an object p that is none stays out as long as it is farther than
one member s that dominates it, for which half of d(q,p) - d(q,s) is. The least of all these is the zone's radius.
Objects that are no members need not be held against members: their dominator would dominate those as well.

The search is branch and bound by distance. Whatever has been taken is no farther than what is to come, so the first
member that is statically no worse than an entry is the nearest, once and for all, and gives the least that anything
below it can come to: what is no less than the radius that is known is dropped, often before its distance is worked out.
What is dominated and may come to less is put off, and taken up at last, nodes best first: design 1.7, step 3. Only an
object that asks for less than any before it waits for its turn, so that the radius is small early. As in `two_phase.py`
a few good objects, the seeds, are looked for first, by sums of static values and distance. They stand for members that
are not known yet: what a seed dominates, a member does that is no farther than the seed.

Rounding is on the side of the smaller circle: `lead`. The circle is not the largest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.lanes import LANES, lanes_from, lanes_min, lanes_upto, low_bit
from indexes.lean import lean_kernel, pasted_kernel
from indexes.maps.cuts import first_lanes, is_dominated, nearest_better
from indexes.maps.entries import BY_DISTANCE, BY_ENTRY, drop_first, place_of, push, rectangle_of, slot_of, static_of
from indexes.maps.floats import EPSILON, float_kernel
from indexes.maps.metrics import (
    GREAT_CIRCLE,
    LOOSE,
    METRICS,
    NEARLY_OPPOSITE,
    RELATIVE,
    TIGHT,
    distance,
    mindist,
)
from indexes.maps.places import BLOCK, BLOCKS, LEAVES, PlaceIndex
from indexes.maps.rtree import Float64, Int32
from indexes.maps.two_phase import NEARNESS
from indexes.maps.work import (
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
    empty_work,
    grown,
)

MOST = 1.7976931348623157e308

NOISE = 16.0 * EPSILON
"""More than six distances in the plane, up to half as far again, are off by together, in the farther one's length."""

FAR_ENOUGH = NEARLY_OPPOSITE / 1.5
"""From an object that is no farther than this no circle reaches to where great-circle distances are off by `LOOSE`."""


class CircleZone(NamedTuple):
    """A skyline at a place, and the radius of the circle in which it stays the same: infinite, everywhere; 0, at the
    place alone."""

    metric: int  # see `metrics`
    place: Float64  # (2,)
    radius: float
    skyline: Int32  # slots, nearest first
    places: Float64  # (2, members) where they are
    statics: Float64  # (d, members)
    distances: Float64  # (members,) from the place

    @property
    def empty(self) -> bool:
        """Whether the skyline holds at the place alone."""
        return self.radius <= 0.0

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) is strictly inside. O(1)."""
        if self.radius == np.inf:
            return True
        return bool(distance(self.metric, self.place[0], self.place[1], float(x), float(y)) < self.radius)


class CircleSearcher:
    """Searches for skylines by one metric, one at a time, in arrays of its own that are used again and again."""

    def __init__(self, d: int, metric: str) -> None:
        """Among objects with d static values, by a metric of `METRICS`."""
        self.metric = METRICS[metric]
        self._work = empty_work(d)

    @property
    def nodes(self) -> int:
        """Nodes that the last search opened."""
        return int(self._work.size[NODES])

    def skyline(self, index: PlaceIndex, x: float, y: float) -> Int32:
        """The slots of the skyline at (x, y), nearest first."""
        return self._search(index, x, y, False).skyline

    def zone(self, index: PlaceIndex, x: float, y: float) -> CircleZone:
        """The skyline at (x, y), and its circle."""
        return self._search(index, x, y, True)

    def _search(self, index: PlaceIndex, x: float, y: float, zoned: bool) -> CircleZone:
        x, y = float(x), float(y)
        circle(index.view, self._work, self.metric, x, y, zoned)
        while self._work.size[FULL]:
            self._work = grown(self._work)
            circle(index.view, self._work, self.metric, x, y, zoned)
        w = self._work
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
def lead(metric, near, far):  # type: ignore[no-untyped-def]
    """How far one may go while an object that is `far` away stays farther than one that is `near`: half of what it is
    farther, less what rounding may come to there and here. It never falls as `far` grows."""
    near, far = min(near, MOST), min(far, MOST)
    if metric != GREAT_CIRCLE:
        least = far - NOISE * far
    elif far > FAR_ENOUGH:
        least = far - 4.0 * LOOSE
    else:
        least = min(far - 4.0 * (TIGHT + RELATIVE * far), FAR_ENOUGH - 4.0 * LOOSE)
    return 0.5 * (least - near)


@lean_kernel
def circle(v, w, metric, x, y, zoned):  # type: ignore[no-untyped-def]
    """Find the skyline at (x, y), nearest first, with distances in w.far, and the radius of its circle in
    w.reach[RADIUS], or, where it has not to be `zoned`, none; w.reach[LEAST] is the least that an object in the queue
    may ask for. If there was too little room, w.size[FULL] says of what,
    and nothing counts."""
    size = w.size
    size[:] = 0
    w.reach[RADIUS] = w.reach[LEAST] = np.inf if zoned else 0.0
    _find_seeds(v, w, metric, x, y)
    _enter(v, w, metric, x, y)
    while size[N_QUEUE] > 0 and size[FULL] == NOTHING:
        e, far = w.entry[0], w.key[0]
        drop_first(v, w.key, w.entry, size[N_QUEUE], BY_DISTANCE, x, y)
        size[N_QUEUE] -= 1
        for j in range(w.corner.size):
            w.corner[j] = static_of(v, e, j)
        if is_dominated(w, far):
            if e < 0:
                _keep_out(v, w, metric, e, far)
            else:
                _put_off(w, e, lead(metric, w.far[nearest_better(w)], far))
        elif e >= 0:
            _open(v, w, metric, e, far, x, y)
        else:
            _accept(v, w, metric, e, far)
    if size[FULL] == NOTHING:
        _take_up(v, w, metric, x, y)


@pasted_kernel
def _find_seeds(v, w, metric, x, y):  # type: ignore[no-untyped-def]
    """Make seeds of the objects of the base that come first by static values and distance, each in parts of what there
    is of it under the root, and are below the SEEDING nodes that do."""
    d, size = w.corner.size, w.size
    for j in range(d):
        low, high = v.lower[j * v.x0.size], v.upper[j * v.x0.size]
        w.weight[j] = 1.0 / (high - low) if low < high < np.inf else 0.0
    across = distance(metric, v.x0[0], v.y0[0], v.x1[0], v.y1[0]) if v.end[0] > v.first[0] else 0.0
    w.weight[d] = NEARNESS / across if 0.0 < across < np.inf else 0.0
    if v.end[0] > v.first[0]:
        push(v, w.key, w.entry, 0, 0.0, 0, BY_ENTRY, x, y)
        size[N_QUEUE] = 1
    while size[N_QUEUE] > 0 and size[NODES] < SEEDING:
        e = w.entry[0]
        drop_first(v, w.key, w.entry, size[N_QUEUE], BY_ENTRY, x, y)
        size[N_QUEUE] -= 1
        size[NODES] += 1
        first, end, base, sign = _below(v, e)
        if size[N_QUEUE] + (end - first) > w.entry.size:
            end = first
        for c in range(first, end):
            child = base + sign * c
            if _is_there(v, child):
                far = _far(v, metric, child, x, y)
                score = w.weight[d] * far if w.weight[d] > 0.0 else 0.0
                for j in range(d):
                    if w.weight[j] > 0.0:
                        score += w.weight[j] * static_of(v, child, j)
                if child >= 0:
                    push(v, w.key, w.entry, size[N_QUEUE], score, child, BY_ENTRY, x, y)
                    size[N_QUEUE] += 1
                elif score < np.inf:
                    _plant(v, w, child, far, score)
    size[N_QUEUE] = 0


@pasted_kernel
def _plant(v, w, e, far, score):  # type: ignore[no-untyped-def]
    """Make an object a seed, if there is room or one has a worse score."""
    at = w.size[N_BEST]
    is_room = at < SEEDS
    if is_room:
        w.size[N_BEST] = at + 1
    else:
        at = 0
        for b in range(1, SEEDS):
            at = b if w.score[b] > w.score[at] else at
    if is_room or score < w.score[at]:
        w.score[at], w.best_far[at] = score, far
        for j in range(w.corner.size):
            w.best[j * w.x.size + at] = static_of(v, e, j)


@pasted_kernel
def _nearest_seed(w):  # type: ignore[no-untyped-def]
    """The least distance of a seed that is statically no worse than w.corner; infinite, if none is."""
    mask = first_lanes(w.size[N_BEST])
    for j in range(w.corner.size):
        mask &= lanes_upto(w.best, j * w.x.size, w.corner[j])
    return lanes_min(w.best_far, 0, mask) if mask != 0 else np.inf


@pasted_kernel
def _enter(v, w, metric, x, y):  # type: ignore[no-untyped-def]
    """Put the base's root and the blocks of the delta into the queue."""
    nodes = v.first.size
    blocks = v.size[BLOCKS]
    if blocks + 1 > w.entry.size:
        w.size[FULL] = NO_ENTRIES
    else:
        for b in range(-1, blocks):
            e = 0 if b < 0 else nodes + b
            if b >= 0 or v.end[0] > v.first[0]:
                push(v, w.key, w.entry, w.size[N_QUEUE], _far(v, metric, e, x, y), e, BY_DISTANCE, x, y)
                w.size[N_QUEUE] += 1


@pasted_kernel
def _far(v, metric, e, x, y):  # type: ignore[no-untyped-def]
    """The distance of an entry, of a node at most that of any object below it."""
    if e >= 0:
        x0, y0, x1, y1 = rectangle_of(v, e)
        far = mindist(metric, x, y, x0, y0, x1, y1)
    else:
        px, py = place_of(v, e)
        far = distance(metric, x, y, px, py)
    return far


@pasted_kernel
def _below(v, e):  # type: ignore[no-untyped-def]
    """The first and the end of what is below a node, and what entry c of it is: base + sign * c."""
    nodes = v.first.size
    if e >= nodes:
        first = (e - nodes) * BLOCK
        end, base, sign = np.int64(v.block_end[e - nodes]), -1 - v.slot.size, -1
    else:
        first, end = np.int64(v.first[e]), np.int64(v.end[e])
        base, sign = (0, 1) if e < v.size[LEAVES] else (-1, -1)
    return first, end, base, sign


@pasted_kernel
def _is_there(v, e):  # type: ignore[no-untyped-def]
    """Whether an entry is no tombstone."""
    return e >= 0 or -1 - e >= v.slot.size or v.dead[-1 - e] == 0


@pasted_kernel
def _put_off(w, e, least):  # type: ignore[no-untyped-def]
    """Keep what is dominated, and may bound the circle by `least` or more, for later: behind all else in the queue's
    columns."""
    if least < w.reach[RADIUS]:
        if w.size[N_QUEUE] + w.size[N_ASIDE] == w.entry.size:
            w.size[FULL] = NO_ENTRIES
        else:
            w.size[N_ASIDE] += 1
            w.key[w.entry.size - w.size[N_ASIDE]] = least
            w.entry[w.entry.size - w.size[N_ASIDE]] = e


@pasted_kernel
def _keep_out(v, w, metric, e, far):  # type: ignore[no-untyped-def]
    """Make the circle no larger than an object that is dominated, and has the static values w.corner, allows: all of
    it, if a member at the same place is better."""
    least = lead(metric, w.far[nearest_better(w)], far)
    if least < w.reach[RADIUS]:
        px, py = place_of(v, e)
        twin = False
        for s in range(w.size[N_SKYLINE]):
            if w.place_x[s] == px and w.place_y[s] == py:
                better = True
                for j in range(w.corner.size):
                    better &= w.statics[j * w.x.size + s] <= w.corner[j]
                twin |= better
        if not twin:
            w.reach[RADIUS] = max(0.0, least)


@pasted_kernel
def _open(v, w, metric, e, far, x, y):  # type: ignore[no-untyped-def]
    """Put into the queue what is below a node at this distance and not dominated, or may bound the circle."""
    first, end, base, sign = _below(v, e)
    w.size[NODES] += 1
    if w.size[N_QUEUE] + w.size[N_ASIDE] + (end - first) > w.entry.size:
        w.size[FULL] = NO_ENTRIES
        end = first
    for c in range(first, end):
        child = base + sign * c
        for j in range(w.corner.size):
            w.corner[j] = static_of(v, child, j)
        s = nearest_better(w)
        near = w.far[s] if s >= 0 else _nearest_seed(w)
        if _is_there(v, child) and lead(metric, near, far) <= w.reach[RADIUS]:
            there = max(far, _far(v, metric, child, x, y))
            if near >= there and not (s >= 0 and is_dominated(w, there)):
                push(v, w.key, w.entry, w.size[N_QUEUE], there, child, BY_DISTANCE, x, y)
                w.size[N_QUEUE] += 1
            else:
                least = lead(metric, near, there)
                if child < 0 and least < min(w.reach[RADIUS], w.reach[LEAST]):
                    w.reach[LEAST] = least
                    push(v, w.key, w.entry, w.size[N_QUEUE], there, child, BY_DISTANCE, x, y)
                    w.size[N_QUEUE] += 1
                else:
                    _put_off(w, child, least)


@pasted_kernel
def _accept(v, w, metric, e, far):  # type: ignore[no-untyped-def]
    """An object becomes a member: statically no better than it, nearer ones have to stay nearer."""
    d, stride, s = w.corner.size, w.x.size, w.size[N_SKYLINE]
    if s + LANES >= stride:
        w.size[FULL] = NO_SKYLINE
    else:
        px, py = place_of(v, e)
        b = 0
        while b < s:
            mask = first_lanes(s - b)
            for j in range(d):
                mask &= lanes_from(w.statics, j * stride + b, w.corner[j])
            while mask != 0:
                o = b + low_bit(mask)
                mask &= mask - 1
                if w.place_x[o] != px or w.place_y[o] != py:  # else the same object twice
                    w.reach[RADIUS] = max(0.0, min(w.reach[RADIUS], lead(metric, w.far[o], far)))
            b += LANES
        w.member[s] = np.int64(slot_of(v, e))
        w.place_x[s], w.place_y[s], w.far[s] = px, py, far
        for j in range(d):
            w.statics[j * stride + s] = w.corner[j]
        w.size[N_SKYLINE] = s + 1


@pasted_kernel
def _take_up(v, w, metric, x, y):  # type: ignore[no-untyped-def]
    """Make the circle as small as what was put off asks for, best first by the least that it may ask for."""
    size = w.size
    first, put_off = w.entry.size - size[N_ASIDE], size[N_ASIDE]
    size[N_QUEUE] = size[N_ASIDE] = 0
    for i in range(put_off):
        e, least = w.entry[first + i], w.key[first + i]
        if least < w.reach[RADIUS]:
            for j in range(w.corner.size):
                w.corner[j] = static_of(v, e, j)
            far = _far(v, metric, e, x, y)
            if e < 0:
                _keep_out(v, w, metric, e, far)
            else:
                least = lead(metric, w.far[nearest_better(w)], far)
                push(v, w.key, w.entry, size[N_QUEUE], least, e, BY_ENTRY, x, y)
                size[N_QUEUE] += 1
    while size[N_QUEUE] > 0 and w.key[0] < w.reach[RADIUS] and size[FULL] == NOTHING:
        e = w.entry[0]
        drop_first(v, w.key, w.entry, size[N_QUEUE], BY_ENTRY, x, y)
        size[N_QUEUE] -= 1
        begin, end, base, sign = _below(v, e)
        size[NODES] += 1
        if size[N_QUEUE] + (end - begin) > w.entry.size:
            size[FULL] = NO_ENTRIES
            end = begin
        for c in range(begin, end):
            child = base + sign * c
            if _is_there(v, child):
                for j in range(w.corner.size):
                    w.corner[j] = static_of(v, child, j)
                there = _far(v, metric, child, x, y)
                if child < 0:
                    _keep_out(v, w, metric, child, there)
                else:
                    least = lead(metric, w.far[nearest_better(w)], there)
                    if least < w.reach[RADIUS]:
                        push(v, w.key, w.entry, size[N_QUEUE], least, child, BY_ENTRY, x, y)
                        size[N_QUEUE] += 1
