"""What a change does to the zone of one top-k: in Python, to compare `TopBatchUpdater` with."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import INF, Floats
from indexes.maps.kernels.circles import KEPT
from indexes.maps.kernels.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.kernels.top_scratch import TopScratch, member_scratch
from indexes.maps.kernels.top_zone import OtherObject, RankedMembers, circle_against
from indexes.maps.zones.top import TopZone


class TopEffect(Enum):
    """What a change does to a zone: nothing; it has other candidates; it is smaller; it has to be searched for
    again.
    """

    KEPT = "kept"
    CANDIDATES = "candidates"
    SHRUNK = "shrunk"
    BROKEN = "broken"


class TopUpdate(NamedTuple):
    """A zone after a change; the old one if it is BROKEN."""

    effect: TopEffect
    zone: TopZone


class TopUpdater:
    """Applies changes to zones of objects with d attributes, one at a time, in arrays of its own.

    An object with a smaller circle becomes a further candidate as long as there are fewer than `most` times as many as
    a zone has at first; after that the zone shrinks.
    """

    def __init__(self, d: int, most: float = 2.0) -> None:
        self._d = d
        self._most = most
        self._scratch: TopScratch = member_scratch(1, d)

    def put(
        self,
        zone: TopZone,
        slot: int,
        x: float,
        y: float,
        statics: Floats,
        created: int,
        at: tuple[float, float] | None = None,
    ) -> TopUpdate:
        """Insert or change the object of a slot: it is at (x, y) with these static values (d,), smaller being
        better. A zone that would not contain `at`, the place of the client, is broken. O(members).
        """
        old, known = zone, np.flatnonzero(zone.slots == slot)
        if zone.members < zone.k or (len(known) and known[0] < zone.members):
            return TopUpdate(TopEffect.BROKEN, old)
        if len(known):
            zone = _without(zone, int(known[0]))
        x, y, values = float(x), float(y), np.asarray(statics, np.float64) + 0.0
        score, circle = self._circle(zone, x, y, values)
        last = zone.members - 1
        if (score, created) < (float(zone.scores[last]), int(zone.created[last])):
            return TopUpdate(TopEffect.BROKEN, old)
        if circle >= zone.radius:
            return TopUpdate(TopEffect.CANDIDATES if len(known) else TopEffect.KEPT, zone)
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
            return TopUpdate(TopEffect.CANDIDATES, wider)
        smaller = replace(zone, radius=circle)
        if circle == 0.0 or (at is not None and not smaller.inside(*at)):
            return TopUpdate(TopEffect.BROKEN, old)
        return TopUpdate(TopEffect.SHRUNK, smaller)

    def delete(self, zone: TopZone, slot: int) -> TopUpdate:
        """Delete the object of a slot. O(candidates)."""
        known = np.flatnonzero(zone.slots == slot)
        if not len(known):
            return TopUpdate(TopEffect.KEPT, zone)
        if known[0] < zone.members:
            return TopUpdate(TopEffect.BROKEN, zone)
        return TopUpdate(TopEffect.CANDIDATES, _without(zone, int(known[0])))

    def _circle(self, zone: TopZone, x: float, y: float, values: Floats) -> tuple[float, float]:
        """The score of an object at the zone's place, and its irrelevant circle up to the zone's."""
        scoring, k = zone.scoring, zone.members
        if len(self._scratch.members.x) != k + 1:
            self._scratch = member_scratch(k, self._d)
        members = RankedMembers(zone.places[:k], zone.statics[:k], zone.scores[:k])
        other = OtherObject(x, y, values)
        score, circle = circle_against(scoring, *zone.place, members, other, zone.radius, self._scratch)
        if circle < zone.radius:
            circle = INF if scoring.metric == GREAT_CIRCLE and circle >= FARTHEST else circle * KEPT
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
