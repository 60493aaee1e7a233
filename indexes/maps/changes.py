"""What a change of an object does to a zone that was given away: design 1.9, the last row of its table.

A zone stays right as long as its skyline is that of the place and every other object has been cut from it. So one that
is new, or has changed, is cut if a member dominates it at the place; otherwise it enters the skyline, and all is to be
worked out anew. One that goes leaves a zone that is smaller than it could be; a member that goes or changes ends it.
A circle (`sky_circle.py`) is kept as a polygon is, only that it becomes smaller where that one is cut.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from indexes.lean import lean_kernel
from indexes.maps.cuts import cut, is_dominated, measure
from indexes.maps.metrics import distance
from indexes.maps.rtree import Float64
from indexes.maps.sky_circle import CircleZone, lead
from indexes.maps.two_phase import SHORTEST
from indexes.maps.work import (
    FULL,
    LEAST,
    N_CUT,
    N_CUTTERS,
    N_SKYLINE,
    N_ZONE,
    PAIR,
    SKYLINE,
    VERTICES,
    empty_work,
)
from indexes.maps.zones import Zone, read_zone


class Effect(Enum):
    """What is to be done about a zone: nothing; give away the smaller one; work it out anew."""

    KEPT = "kept"
    SHRUNK = "shrunk"
    BROKEN = "broken"


class Changed(NamedTuple):
    """A zone after a change; BROKEN, it is the old one."""

    effect: Effect
    zone: Zone | CircleZone


UNTOUCHED, CUT, ENTERS = 0, 1, 2
"""What `_put` returns."""


class Keeper:
    """Holds changes against zones of d attributes, one at a time, in arrays of its own."""

    def __init__(self, d: int) -> None:
        self._work = empty_work(d)

    def put(self, zone: Zone, slot: int, x: float, y: float, statics: Float64) -> Changed:
        """The object in a slot is new, or has come to (x, y) with these static values. O(members + edges), for one that
        reaches the zone O(members * edges)."""
        if slot in zone.skyline:
            return Changed(Effect.BROKEN, zone)
        self._reserve(zone)
        w = self._work
        values = np.asarray(statics, np.float64) + 0.0
        did = _put(w, zone, int(slot), float(x) + 0.0, float(y) + 0.0, values)
        if did == UNTOUCHED:
            return Changed(Effect.KEPT, zone)
        if did == ENTERS or w.size[FULL]:
            return Changed(Effect.BROKEN, zone)
        smaller = read_zone(w, zone.place, zone.box, zone.margin)
        same = len(smaller.cut_end) == len(zone.cut_end) and np.array_equal(smaller.x, zone.x)
        same = same and np.array_equal(smaller.y, zone.y)
        return Changed(Effect.KEPT, zone) if same else Changed(Effect.SHRUNK, smaller)

    def delete(self, zone: Zone, slot: int) -> Changed:
        """The object in a slot is gone. O(members)."""
        return Changed(Effect.BROKEN if slot in zone.skyline else Effect.KEPT, zone)

    def _reserve(self, zone: Zone) -> None:
        w = self._work
        members, edges = len(zone.skyline) + 32, 2 * len(zone.x) + len(zone.cut_x) + 8
        if members > len(w.x) or edges > len(w.zone_x):
            self._work = empty_work(len(w.corner), 1, max(SKYLINE, 2 * members), max(VERTICES, 2 * edges))


class CircleKeeper:
    """Holds changes against circles, one at a time."""

    def put(self, zone: CircleZone, slot: int, x: float, y: float, statics: Float64) -> Changed:
        """As `Keeper.put`. O(members)."""
        if slot in zone.skyline:
            return Changed(Effect.BROKEN, zone)
        x, y, values = float(x) + 0.0, float(y) + 0.0, np.asarray(statics, np.float64) + 0.0
        far = float(distance(zone.metric, zone.place[0], zone.place[1], x, y))
        no_worse = (zone.statics <= values[:, None]).all(axis=0) & (zone.distances <= far)
        better = no_worse & ((zone.statics < values[:, None]).any(axis=0) | (zone.distances < far))
        if not better.any():
            return Changed(Effect.BROKEN, zone)
        radius = max(0.0, float(lead(zone.metric, float(zone.distances[no_worse].min()), far)))
        if radius >= zone.radius or (better & (zone.places[0] == x) & (zone.places[1] == y)).any():
            return Changed(Effect.KEPT, zone)
        return Changed(Effect.SHRUNK, zone._replace(radius=radius))

    def delete(self, zone: CircleZone, slot: int) -> Changed:
        """As `Keeper.delete`."""
        return Changed(Effect.BROKEN if slot in zone.skyline else Effect.KEPT, zone)


@lean_kernel
def _put(w, zone, slot, px, py, statics):  # type: ignore[no-untyped-def]
    x, y = zone.place[0], zone.place[1]
    _load(w, zone)
    for j in range(statics.size):
        w.corner[j] = statics[j]
    dx, dy = px - x, py - y
    far = dx * dx + dy * dy
    did = UNTOUCHED
    if not is_dominated(w, far):
        did = ENTERS
    elif w.size[N_ZONE] > 0:
        did = CUT
        cut(w, slot, px, py, x, y)
    return did


@lean_kernel
def _load(w, zone):  # type: ignore[no-untyped-def]
    """Put a zone where a search has it."""
    w.size[:] = 0
    stride, d = w.x.size, w.corner.size
    members, edges = zone.skyline.size, zone.x.size
    for s in range(members):
        px, py = zone.places[0, s], zone.places[1, s]
        w.member[s] = zone.skyline[s]
        w.place_x[s], w.place_y[s] = px, py
        w.x[s], w.y[s] = px - zone.place[0], py - zone.place[1]
        w.far[s] = w.x[s] * w.x[s] + w.y[s] * w.y[s]
        w.distance[s] = w.far[s] ** 0.5
        for j in range(d):
            w.statics[j * stride + s] = zone.statics[j, s]
    for i in range(edges):
        w.zone_x[i], w.zone_y[i] = zone.x[i], zone.y[i]
        near, far = np.int64(zone.near[i]), np.int64(zone.far[i])
        w.zone_label[i] = near if near < 0 else (near << PAIR) | far
    for i in range(zone.cut_x.size):
        w.cut_x[i], w.cut_y[i], w.cut_label[i] = zone.cut_x[i], zone.cut_y[i], zone.cut_far[i]
    for i in range(zone.cut_end.size):
        w.cut_end[i], w.cut_owner[i] = zone.cut_end[i], zone.cut_owner[i]
    w.size[N_SKYLINE], w.size[N_ZONE] = members, edges
    w.size[N_CUT], w.size[N_CUTTERS] = zone.cut_x.size, zone.cut_end.size
    w.reach[LEAST] = SHORTEST * max(zone.box[2] - zone.box[0], zone.box[3] - zone.box[1])
    measure(w)
