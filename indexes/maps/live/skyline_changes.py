"""Updates of the zone of a skyline when an object changes.

A zone stays valid as long as its skyline is that of its place and every other object has been cut from it. So an object
that is new or has changed is cut if a member dominates it at the place; otherwise it enters the skyline, and the zone
is broken. A deleted object leaves a zone that is smaller than it could be; a member that is deleted or changed breaks
it. A zone that is a circle becomes smaller where a polygon would be cut.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, int64
from indexes.maps.kernels.cuts import cut, is_dominated, measure
from indexes.maps.kernels.metrics import distance
from indexes.maps.kernels.skyline_scratch import (
    FULL,
    LEAST,
    N_CUT,
    N_CUTTERS,
    N_SKYLINE,
    N_ZONE,
    PAIR,
    SKYLINE,
    VERTICES,
    SkylineScratch,
    empty_scratch,
)
from indexes.maps.kernels.two_phase import SHORTEST
from indexes.maps.zones.circle import CircleZone, lead
from indexes.maps.zones.skyline import Zone, read_zone


class Effect(Enum):
    """What a change does to a zone: nothing; it is smaller; it has to be searched for again."""

    KEPT = "kept"
    SHRUNK = "shrunk"
    BROKEN = "broken"


class Update(NamedTuple):
    """A zone after a change; the old one if it is BROKEN."""

    effect: Effect
    zone: Zone | CircleZone


UNTOUCHED, CUT, ENTERS = 0, 1, 2
"""Results of `_put`."""


class SkylineUpdater:
    """Applies changes to polygonal zones of objects with d attributes, one at a time, in arrays of its own."""

    def __init__(self, d: int) -> None:
        self._scratch = empty_scratch(d)

    def put(self, zone: Zone, slot: int, x: float, y: float, statics: Floats) -> Update:
        """Insert or change the object of a slot: it is at (x, y) with these static values. O(members + edges), where
        it reaches the zone O(members * edges)."""
        if slot in zone.skyline:
            return Update(Effect.BROKEN, zone)
        self._reserve(zone)
        w = self._scratch
        values = np.asarray(statics, np.float64) + 0.0
        did = _put(w, zone, int(slot), float(x) + 0.0, float(y) + 0.0, values)
        if did == UNTOUCHED:
            return Update(Effect.KEPT, zone)
        if did == ENTERS or w.size[FULL]:
            return Update(Effect.BROKEN, zone)
        smaller = read_zone(w, zone.place, zone.box, zone.margin)
        same = len(smaller.cut_end) == len(zone.cut_end) and np.array_equal(smaller.x, zone.x)
        same = same and np.array_equal(smaller.y, zone.y)
        return Update(Effect.KEPT, zone) if same else Update(Effect.SHRUNK, smaller)

    def delete(self, zone: Zone, slot: int) -> Update:
        """Delete the object of a slot. O(members)."""
        return Update(Effect.BROKEN if slot in zone.skyline else Effect.KEPT, zone)

    def _reserve(self, zone: Zone) -> None:
        w = self._scratch
        members, edges = len(zone.skyline) + 32, 2 * len(zone.x) + len(zone.cut_x) + 8
        if members > len(w.x) or edges > len(w.zone.x):
            self._scratch = empty_scratch(len(w.corner), 1, max(SKYLINE, 2 * members), max(VERTICES, 2 * edges))


class CircleUpdater:
    """Applies changes to zones that are circles, one at a time."""

    def put(self, zone: CircleZone, slot: int, x: float, y: float, statics: Floats) -> Update:
        """As `SkylineUpdater.put`. O(members)."""
        if slot in zone.skyline:
            return Update(Effect.BROKEN, zone)
        x, y, values = float(x) + 0.0, float(y) + 0.0, np.asarray(statics, np.float64) + 0.0
        far = float(distance(zone.metric, zone.place[0], zone.place[1], x, y))
        no_worse = (zone.statics <= values[:, None]).all(axis=0) & (zone.distances <= far)
        better = no_worse & ((zone.statics < values[:, None]).any(axis=0) | (zone.distances < far))
        if not better.any():
            return Update(Effect.BROKEN, zone)
        radius = max(0.0, float(lead(zone.metric, float(zone.distances[no_worse].min()), far)))
        if radius >= zone.radius or (better & (zone.places[0] == x) & (zone.places[1] == y)).any():
            return Update(Effect.KEPT, zone)
        return Update(Effect.SHRUNK, zone._replace(radius=radius))

    def delete(self, zone: CircleZone, slot: int) -> Update:
        """As `SkylineUpdater.delete`."""
        return Update(Effect.BROKEN if slot in zone.skyline else Effect.KEPT, zone)


@kernel
def _put(scratch: SkylineScratch, zone: Zone, slot: int, px: float, py: float, statics: Floats) -> int:
    x, y = zone.place[0], zone.place[1]
    _load(scratch, zone)
    for j in range(statics.size):
        scratch.corner[j] = statics[j]
    dx, dy = px - x, py - y
    far = dx * dx + dy * dy
    did = UNTOUCHED
    if not is_dominated(scratch, far):
        did = ENTERS
    elif scratch.size[N_ZONE] > 0:
        did = CUT
        cut(scratch, slot, px, py, x, y)
    return did


@kernel
def _load(scratch: SkylineScratch, zone: Zone) -> None:
    """Copy a zone to the arrays of a search."""
    scratch.size[:] = 0
    stride, d = scratch.x.size, scratch.corner.size
    members, edges = zone.skyline.size, zone.x.size
    for s in range(members):
        px, py = zone.places[0, s], zone.places[1, s]
        scratch.member[s] = zone.skyline[s]
        scratch.place_x[s], scratch.place_y[s] = px, py
        scratch.x[s], scratch.y[s] = px - zone.place[0], py - zone.place[1]
        scratch.far[s] = scratch.x[s] * scratch.x[s] + scratch.y[s] * scratch.y[s]
        scratch.distance[s] = scratch.far[s] ** 0.5
        for j in range(d):
            scratch.statics[j * stride + s] = zone.statics[j, s]
    for i in range(edges):
        scratch.zone.x[i], scratch.zone.y[i] = zone.x[i], zone.y[i]
        near, far = int64(zone.near[i]), int64(zone.far[i])
        scratch.zone.label[i] = near if near < 0 else (near << PAIR) | far
    for i in range(zone.cut_x.size):
        scratch.cut_x[i], scratch.cut_y[i], scratch.cut_label[i] = zone.cut_x[i], zone.cut_y[i], zone.cut_far[i]
    for i in range(zone.cut_end.size):
        scratch.cut_end[i], scratch.cut_owner[i] = zone.cut_end[i], zone.cut_owner[i]
    scratch.size[N_SKYLINE], scratch.size[N_ZONE] = members, edges
    scratch.size[N_CUT], scratch.size[N_CUTTERS] = zone.cut_x.size, zone.cut_end.size
    scratch.reach[LEAST] = SHORTEST * max(zone.box[2] - zone.box[0], zone.box[3] - zone.box[1])
    measure(scratch)
