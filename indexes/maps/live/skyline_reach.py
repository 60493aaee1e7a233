"""An index of standing skylines by the objects that may touch them without being members.

An object p does not matter to a zone if a member s is nowhere worse by its static values and nearer everywhere in the
zone, for which d(q, p) > d(q, s) + 2 rho is enough, rho being how far the zone reaches from its place q ([Moving
queries] Lemma 7). So the index keeps one member of each query, the *guard*, and its *reach*, d(q, s) + 2 rho: below a
node whose guards are all nowhere worse than p, and whose reaches all end before p, no query is touched. The guard is
the member whose worst rank by a static value is best. Queries that are left are tested by all their members, a block of
SIMD lanes at a time.

Of a zone that is a circle rho is the radius, and all this holds by any metric.

The guards are a `PlaceIndex`: a packed base, tombstones and a delta in blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.compiled.simd import LANES, lanes_upto
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints, int64
from indexes.maps.kernels.metrics import EUCLIDEAN, GREAT_CIRCLE, LOOSE, distance, mindist
from indexes.maps.kernels.object_index import BLOCK, BLOCKS, LEAVES, View
from indexes.maps.live.holders import Pairs
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.circle import CircleZone
from indexes.maps.zones.skyline import Zone

MOST = 1.7976931348623157e308
"""A reach of this is none: distances that are too large for a number count as equal, and are within it."""

UP = 1.0 + 1e-9
"""The factor for reaches, which rounding must not make too small."""

TINY = 5e-324

ALONG = 3
"""Dimensions by which the base is tiled: place and reach, which is the first of the static values."""

MOST_CHURN, SMALL = 0.25, 1024
"""The churn, and the number of changes, from which on the index is folded."""


class Members(NamedTuple):
    """Members by query: a run of whole blocks each, padded with infinity. Static value j of member i is statics[j *
    limit.size + i]."""

    x: Floats  # the place, by query, as the next three
    y: Floats
    first: Ints
    end: Ints
    limit: Floats  # by member: the reach of the query, had it this guard
    statics: Floats


class SkylineReach:
    """Standing skylines by number, found by the objects that may touch them."""

    def __init__(self, d: int, metric: int = EUCLIDEAN) -> None:
        """For objects with d static values, by a metric."""
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
        """Insert or replace a query. O(d s log s + BLOCK d) for s members."""
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
        if self.index.delta > SMALL and self.index.churn > MOST_CHURN:
            self.fold()

    def remove(self, query: int) -> None:
        """Delete a query. O(BLOCK d)."""
        self.index.delete([query])
        m = self.members
        self._left += int(m.end[query] - m.first[query])
        m.first[query] = m.end[query] = 0

    def fold(self) -> None:
        """Pack all queries into a new base. O(q d log q)."""
        self.index = self.index.folded(along=ALONG)

    def touched(self, points: Floats, statics: Floats, begin: int, pairs: Pairs) -> tuple[int, int]:
        """As `TopReach.touched`."""
        columns = np.ascontiguousarray(statics).reshape(-1)
        view, stack = self.index.view, self.stack
        i, n = skylines_touched(self.metric, view, self.members, points, columns, begin, stack, pairs)
        return int(i), int(n)

    @property
    def stack(self) -> Ints:
        """Room for the nodes that `skylines_touched` has to look into."""
        if len(self.index.view.first) >= len(self._stack):
            self._stack = np.empty(len(self.index.view.first) + 1, np.int64)
        return self._stack

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


def reaches(zone: Zone | CircleZone) -> Floats:
    """For each member the distance from the zone's place beyond which objects do not matter that are nowhere better
    by their static values."""
    if isinstance(zone, CircleZone):
        loose = 8.0 * LOOSE if zone.metric == GREAT_CIRCLE else 0.0
        far, rho = zone.distances + loose, zone.radius
    else:
        with np.errstate(over="ignore"):
            # As kernels compute it, also where it is too large for a number.
            far = np.sqrt((zone.places[0] - zone.place[0]) ** 2 + (zone.places[1] - zone.place[1]) ** 2)
        rho = np.hypot(zone.x, zone.y).max(initial=0.0)
    with np.errstate(over="ignore"):
        return np.maximum((far + 2.0 * rho) * UP, TINY)


@internal
def _is_safe(metric: int, members: Members, q: int, x: float, y: float, statics: Floats) -> bool:
    """Whether by its distance from the place a member of query q dominates the object everywhere in the zone."""
    far = distance(metric, members.x[q], members.y[q], x, y)
    stride = members.limit.size
    safe = False
    base = members.first[q]
    while base < members.end[q] and not safe:
        mask = lanes_upto(members.limit, base, min(far * (1.0 - 1e-12), MOST))
        for j in range(statics.size):
            mask &= lanes_upto(members.statics, j * stride + base, statics[j])
        safe = mask != 0
        base += LANES
    return safe


@internal
def _is_guarded(near: float, reach: float, stride: int, guard: Floats, entry: int, statics: Floats) -> bool:
    """Whether the guards of entry e are nowhere worse than the object, and their reaches end before it."""
    guarded = min(near * (1.0 - 1e-12), MOST) > reach
    for j in range(statics.size):
        guarded = guarded and guard[(1 + j) * stride + entry] <= statics[j]
    return guarded


@kernel
def skylines_touched(
    metric: int, view: View, members: Members, points: Floats, statics: Floats, begin: int, stack: Ints, pairs: Pairs
) -> tuple[int, int]:
    """As `SkylineReach.touched`, with a stack of more than all nodes."""
    change, query = pairs.change, pairs.query
    d = statics.size // points.shape[0]
    blocks = view.size[BLOCKS]
    node_stride, stride, delta_stride, line = (
        view.nodes.x0.size,
        view.base.x.size,
        view.delta.x.size,
        view.blocks.x0.size,
    )
    i, n = begin, 0
    going = True
    while going and i < points.shape[0]:
        x, y, mine = points[i, 0], points[i, 1], statics[i * d : i * d + d]
        kept = n
        stack[0] = 0
        top = 1
        while top > 0 and going:
            top -= 1
            e = stack[top]
            for c in range(int64(view.first[e]), int64(view.end[e])):
                if e < view.size[LEAVES]:
                    near = mindist(metric, x, y, view.nodes.x0[c], view.nodes.y0[c], view.nodes.x1[c], view.nodes.y1[c])
                    if not _is_guarded(near, -view.nodes.lower[c], node_stride, view.nodes.upper, c, mine):
                        stack[top] = c
                        top += 1
                elif view.dead[c] == 0:
                    near = distance(metric, view.base.x[c], view.base.y[c], x, y)
                    if not _is_guarded(near, -view.base.statics[c], stride, view.base.statics, c, mine):
                        if not _is_safe(metric, members, int64(view.base.slot[c]), x, y, mine):
                            if n < change.size:
                                change[n], query[n] = i, view.base.slot[c]
                                n += 1
                            else:
                                going = False
        for b in range(blocks):
            near = mindist(metric, x, y, view.blocks.x0[b], view.blocks.y0[b], view.blocks.x1[b], view.blocks.y1[b])
            if going and not _is_guarded(near, -view.blocks.lower[b], line, view.blocks.upper, b, mine):
                for c in range(b * BLOCK, view.block_end[b]):
                    near = distance(metric, view.delta.x[c], view.delta.y[c], x, y)
                    if not _is_guarded(near, -view.delta.statics[c], delta_stride, view.delta.statics, c, mine):
                        if not _is_safe(metric, members, int64(view.delta.slot[c]), x, y, mine):
                            if n < change.size:
                                change[n], query[n] = i, view.delta.slot[c]
                                n += 1
                            else:
                                going = False
        if going:
            i += 1
        else:
            n = kept
    return i, n
