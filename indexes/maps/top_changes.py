"""What a change of an object does to a top-k's zone that was given away: design 2.9, the last row of its table.

A zone stays right as long as its members are the k best at its place, and every other object either is a candidate or
has an irrelevant circle that is no smaller than the zone. So an object that is new, or has changed, is asked for its
circle; most are not smaller. One that enters the members, or was one of them, ends the zone. One that was a further
candidate is told of even so, since the client would rank it as it was.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from indexes.maps.circles import KEPT
from indexes.maps.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.rtree import Float64
from indexes.maps.top import TopZone
from indexes.maps.top_room import Room, member_room
from indexes.maps.top_zone import circle_beside


class TopEffect(Enum):
    """What is to be done about a zone: nothing; give away the one with other candidates; give away the smaller one;
    work it out anew."""

    KEPT = "kept"
    TOLD = "told"
    SHRUNK = "shrunk"
    BROKEN = "broken"


class TopChanged(NamedTuple):
    """A zone after a change; BROKEN, it is the old one."""

    effect: TopEffect
    zone: TopZone


class TopKeeper:
    """Holds changes against zones of d attributes, one at a time, in arrays of its own.

    An object with a smaller circle becomes one more candidate as long as there are fewer than `most` times as many as a
    zone begins with; after that the zone shrinks.
    """

    def __init__(self, d: int, most: float = 2.0) -> None:
        self._d = d
        self._most = most
        self._room: Room = member_room(1, d)

    def put(
        self,
        zone: TopZone,
        slot: int,
        x: float,
        y: float,
        statics: Float64,
        created: int,
        at: tuple[float, float] | None = None,
    ) -> TopChanged:
        """The object in a slot is new, or has come to (x, y) with these static values (d,), smaller being better. A
        zone that would leave out `at`, where the client is by now, is broken. O(members)."""
        old, known = zone, np.flatnonzero(zone.slots == slot)
        if zone.members < zone.k or (len(known) and known[0] < zone.members):
            return TopChanged(TopEffect.BROKEN, old)
        if len(known):
            zone = _without(zone, int(known[0]))
        x, y, values = float(x), float(y), np.asarray(statics, np.float64) + 0.0
        score, circle = self._circle(zone, x, y, values)
        last = zone.members - 1
        if (score, created) < (float(zone.scores[last]), int(zone.created[last])):
            return TopChanged(TopEffect.BROKEN, old)
        if circle >= zone.radius:
            return TopChanged(TopEffect.TOLD if len(known) else TopEffect.KEPT, zone)
        if len(zone.slots) < self._most * (zone.k + zone.m - 1):
            far = float(distance(zone.scoring.metric, *zone.place, x, y))
            wider = replace(
                zone,
                slots=np.append(zone.slots, slot),
                scores=np.append(zone.scores, score),
                distances=np.append(zone.distances, far),
                places=np.vstack([zone.places, (x, y)]),
                statics=np.vstack([zone.statics, values]),
                created=np.append(zone.created, created),
            )
            return TopChanged(TopEffect.TOLD, wider)
        smaller = replace(zone, radius=circle)
        if circle == 0.0 or (at is not None and not smaller.inside(*at)):
            return TopChanged(TopEffect.BROKEN, old)
        return TopChanged(TopEffect.SHRUNK, smaller)

    def delete(self, zone: TopZone, slot: int) -> TopChanged:
        """The object in a slot is gone. O(candidates)."""
        known = np.flatnonzero(zone.slots == slot)
        if not len(known):
            return TopChanged(TopEffect.KEPT, zone)
        if known[0] < zone.members:
            return TopChanged(TopEffect.BROKEN, zone)
        return TopChanged(TopEffect.TOLD, _without(zone, int(known[0])))

    def _circle(self, zone: TopZone, x: float, y: float, values: Float64) -> tuple[float, float]:
        """The score of an object at the zone's place, and its irrelevant circle up to the zone's."""
        s, k = zone.scoring, zone.members
        if len(self._room.x) != k + 1:
            self._room = member_room(k, self._d)
        places, statics, scores = zone.places[:k], zone.statics[:k], zone.scores[:k]
        score, circle = circle_beside(s, *zone.place, k, places, statics, scores, x, y, values, zone.radius, self._room)
        if circle < zone.radius:
            circle = np.inf if s.metric == GREAT_CIRCLE and circle >= FARTHEST else circle * KEPT
        return float(score), float(circle)


def _without(zone: TopZone, i: int) -> TopZone:
    return replace(
        zone,
        slots=np.delete(zone.slots, i),
        scores=np.delete(zone.scores, i),
        distances=np.delete(zone.distances, i),
        places=np.delete(zone.places, i, axis=0),
        statics=np.delete(zone.statics, i, axis=0),
        created=np.delete(zone.created, i),
    )
