"""Which standing skylines an object may touch that is none of their members: design 1.5, and its "Live zones".

An object p does not matter to a zone if a member s is nowhere worse by its static values and nearer all over the zone,
for which d(q, p) > d(q, s) + 2 rho is enough, rho being how far the zone reaches from its place q (Lemma 7). So of each
query the index keeps one member, the *guard*, and its *reach*, d(q, s) + 2 rho: below a node whose guards are all
nowhere worse than p, and whose reaches all end before p, no query is touched. The guard is the member whose worst rank
by a static value is best. Queries that are left are tested by all their members, a block of lanes at a time.

Of a circle (`sky_circle.py`) rho is its radius, and all this holds by any metric.

The guards are a `PlaceIndex`: a packed base, tombstones and a delta in blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.lanes import LANES, lanes_upto
from indexes.lean import inner_kernel, lean_kernel
from indexes.maps.metrics import EUCLIDEAN, GREAT_CIRCLE, LOOSE, distance, mindist
from indexes.maps.places import BLOCK, BLOCKS, LEAVES, PlaceIndex
from indexes.maps.sky_circle import CircleZone
from indexes.maps.zones import Zone

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

MOST = 1.7976931348623157e308

UP = 1.0 + 1e-9
"""What a reach is multiplied with, for what rounding may take from it."""

TINY = 5e-324

ALONG = 3
"""Dimensions of the base's tiles: place and reach, which stands first among the static values."""

WORN, SMALL = 0.25, 1024
"""What the delta and tombstones may be to what is alive, and in number, before there is a new base."""


class Members(NamedTuple):
    """Members by query: a run of whole blocks each, filled up with infinity. Static value j of member i is
    statics[j * limit.size + i]."""

    x: Float64  # the place, by query, as the next three
    y: Float64
    first: Int64
    end: Int64
    limit: Float64  # by member: the reach of the query, had it this guard
    statics: Float64


class SkyReach:
    """Standing skylines by number, found by the objects that may touch them."""

    def __init__(self, d: int, metric: int = EUCLIDEAN) -> None:
        """Of objects with d static values, by a metric."""
        self.d = d
        self.metric = metric
        none = np.empty(0)
        self.members = Members(none, none, np.empty(0, np.int64), np.empty(0, np.int64), none, none)
        self._used = self._left = 0
        self.index = PlaceIndex.build(np.empty((0, 2)), np.empty((0, 1 + d)))
        self._stack = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.index)

    def put(self, query: int, zone: Zone | CircleZone) -> None:
        """A query comes, or has another zone. O(d s log s + BLOCK d) for s members."""
        reach, (d, s) = reaches(zone), zone.statics.shape
        self._reserve(query + 1, s)
        m = self.members
        self._left += int(m.end[query] - m.first[query])
        first = self._used
        self._used += -(-s // LANES) * LANES
        m.x[query], m.y[query] = zone.place
        m.first[query], m.end[query] = first, self._used
        m.limit[first : first + s] = reach
        m.statics.reshape(d, len(m.limit))[:, first : first + s] = zone.statics
        row = np.array([-MOST, *[0.0] * d])
        if s:
            rank = np.argsort(np.argsort(zone.statics, axis=1, kind="stable"), axis=1, kind="stable")
            guard = int(rank.max(axis=0, initial=0).argmin())
            row[0], row[1:] = -min(float(reach[guard]), MOST), zone.statics[:, guard]
        self.index.put([query], zone.place[None], row[None])
        if self.index.delta > SMALL and self.index.worn > WORN:
            self.fold()

    def remove(self, query: int) -> None:
        """A query goes. O(BLOCK d)."""
        self.index.delete([query])
        m = self.members
        self._left += int(m.end[query] - m.first[query])
        m.first[query] = m.end[query] = 0

    def fold(self) -> None:
        """Make a new base of all that is there. O(q d log q)."""
        self.index = self.index.folded(along=ALONG)

    def touched(
        self, points: Float64, statics: Float64, begin: int, change: Int64, query: Int64, n: int
    ) -> tuple[int, int]:
        """As `TopReach.touched`."""
        v = self.index.view
        if len(v.first) >= len(self._stack):
            self._stack = np.empty(len(v.first) + 1, np.int64)
        mine = np.ascontiguousarray(statics).reshape(-1)
        i, n = _touched(self.metric, v, self.members, points, mine, begin, self._stack, change, query, n)
        return int(i), int(n)

    def _reserve(self, queries: int, members: int) -> None:
        m, d = self.members, self.d
        held = len(m.x)
        if queries > held:
            room = max(queries, held * 3 // 2, 64)
            place, run = np.zeros((2, room)), np.zeros((2, room), np.int64)
            place[:, :held], run[:, :held] = (m.x, m.y), (m.first, m.end)
            m = Members(place[0], place[1], run[0], run[1], m.limit, m.statics)
        if self._used + members + LANES > len(m.limit):
            alive = self._used - self._left
            room = -(-(2 * alive + members + 4 * LANES) // LANES) * LANES
            columns = aligned.full((1 + d, room), np.inf)
            old = np.vstack([m.limit[None], m.statics.reshape(d, len(m.limit))])
            at = 0
            for q in np.flatnonzero(m.end > m.first).tolist():
                first, end = int(m.first[q]), int(m.end[q])
                columns[:, at : at + end - first] = old[:, first:end]
                m.first[q], m.end[q] = at, at + end - first
                at += end - first
            self._used, self._left = at, 0
            m = m._replace(limit=columns[0], statics=columns[1:].reshape(-1))
        self.members = m


def reaches(zone: Zone | CircleZone) -> Float64:
    """For each member how far an object has to be from the zone's place that is nowhere better by its static values, so
    as not to matter: farther than this."""
    if isinstance(zone, CircleZone):
        loose = 8.0 * LOOSE if zone.metric == GREAT_CIRCLE else 0.0
        far, rho = zone.distances + loose, zone.radius
    else:
        far = np.hypot(zone.places[0] - zone.place[0], zone.places[1] - zone.place[1])
        rho = np.hypot(zone.x, zone.y).max(initial=0.0)
    return np.maximum((far + 2.0 * rho) * UP, TINY)


@inner_kernel
def _is_safe(metric, m, q, x, y, statics):  # type: ignore[no-untyped-def]
    """Whether a member of query q dominates the object all over the zone, by its distance from the place."""
    far = distance(metric, m.x[q], m.y[q], x, y)
    stride = m.limit.size
    safe = False
    base = m.first[q]
    while base < m.end[q] and not safe:
        mask = lanes_upto(m.limit, base, far * (1.0 - 1e-12))
        for j in range(statics.size):
            mask &= lanes_upto(m.statics, j * stride + base, statics[j])
        safe = mask != 0
        base += LANES
    return safe


@inner_kernel
def _is_guarded(near, reach, stride, guard, e, statics):  # type: ignore[no-untyped-def]
    """Whether the guards of entry e are nowhere worse than the object, and their reaches end before it."""
    guarded = near * (1.0 - 1e-12) > reach
    for j in range(statics.size):
        guarded = guarded and guard[(1 + j) * stride + e] <= statics[j]
    return guarded


@lean_kernel
def _touched(metric, v, m, points, statics, begin, stack, change, query, n):  # type: ignore[no-untyped-def]
    d = statics.size // points.shape[0]
    blocks = v.size[BLOCKS]
    node_stride, stride, delta_stride, line = v.x0.size, v.x.size, v.delta_x.size, v.block_x0.size
    i = begin
    going = True
    while going and i < points.shape[0]:
        x, y, mine = points[i, 0], points[i, 1], statics[i * d : i * d + d]
        kept = n
        stack[0] = 0
        top = 1
        while top > 0 and going:
            top -= 1
            e = stack[top]
            for c in range(np.int64(v.first[e]), np.int64(v.end[e])):
                if e < v.size[LEAVES]:
                    near = mindist(metric, x, y, v.x0[c], v.y0[c], v.x1[c], v.y1[c])
                    if not _is_guarded(near, -v.lower[c], node_stride, v.upper, c, mine):
                        stack[top] = c
                        top += 1
                elif v.dead[c] == 0:
                    near = distance(metric, v.x[c], v.y[c], x, y)
                    if not _is_guarded(near, -v.statics[c], stride, v.statics, c, mine):
                        if not _is_safe(metric, m, np.int64(v.slot[c]), x, y, mine):
                            if n < change.size:
                                change[n], query[n] = i, v.slot[c]
                                n += 1
                            else:
                                going = False
        for b in range(blocks):
            near = mindist(metric, x, y, v.block_x0[b], v.block_y0[b], v.block_x1[b], v.block_y1[b])
            if going and not _is_guarded(near, -v.block_lower[b], line, v.block_upper, b, mine):
                for c in range(b * BLOCK, v.block_end[b]):
                    near = distance(metric, v.delta_x[c], v.delta_y[c], x, y)
                    if not _is_guarded(near, -v.delta_statics[c], delta_stride, v.delta_statics, c, mine):
                        if not _is_safe(metric, m, np.int64(v.delta_slot[c]), x, y, mine):
                            if n < change.size:
                                change[n], query[n] = i, v.delta_slot[c]
                                n += 1
                            else:
                                going = False
        if going:
            i += 1
        else:
            n = kept
    return i, n
