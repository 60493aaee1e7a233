"""What a change does to the zone of one top-k: in Python, to compare `TopBatchUpdater` with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from indexes.core.arrays import INF, Floats, Ints
from indexes.maps.kernels.circles import KEPT
from indexes.maps.kernels.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.kernels.score_table import Scores
from indexes.maps.kernels.top_scratch import TopScratch, member_scratch
from indexes.maps.kernels.top_zone import OtherObject, RankedMembers, circle_against
from indexes.maps.live.top_changes import BROKEN as BROKEN_ZONE
from indexes.maps.live.top_changes import KEPT as KEPT_ZONE
from indexes.maps.live.top_changes import ChangeColumns, TopBatchUpdater, ZoneColumns
from indexes.maps.zones.top import TopZone, measured


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


class ZoneUpdater:
    """`TopBatchUpdater` on zones themselves, whose objects are as they were when the zones were found."""

    def __init__(self, d: int, most: float = 2.0) -> None:
        self._batch = TopBatchUpdater(d, most)

    def update(
        self, zones: Sequence[TopZone], changes: ChangeColumns, table: Scores, scores: Ints, ats: Floats
    ) -> tuple[list[int], list[TopZone]]:
        """The effects of a change to each zone, and the zones after them, the old one where it is kept or broken."""

        def members(name: str) -> Any:
            return np.concatenate([getattr(zone, name)[: zone.members] for zone in zones])

        ends = np.cumsum([len(zone.slots) for zone in zones])
        columns = {name: np.array([getattr(zone, name) for zone in zones]) for name in ("k", "m", "members", "radius")}
        after = self._batch.update(
            ZoneColumns(
                score=scores,
                place=np.array([zone.place for zone in zones]),
                at=ats,
                ends=ends,
                slots=np.concatenate([zone.slots for zone in zones]),
                places=members("places"),
                statics=members("statics"),
                created=members("created"),
                **columns,
            ),
            changes,
            table,
        )
        effects, found = after.effect.tolist(), list(zones)
        for i, zone in enumerate(zones):
            if effects[i] in (KEPT_ZONE, BROKEN_ZONE):
                continue
            _, slots = after.candidates(ends, np.arange(len(zones)) == i)
            place, statics = changes.points[i], changes.statics[i]
            score, far = measured(
                zone.scoring, np.array([zone.place]), np.zeros(1, np.int64), place[None], statics[None]
            )
            known = zone.slots != changes.slot[i]
            adds = slots[-1:] == changes.slot[i]
            new = {"scores": score, "distances": far, "places": place[None], "statics": statics[None]}
            new["created"] = changes.created[i : i + 1]
            own: Any = {name: np.concatenate([getattr(zone, name)[known], one[adds]]) for name, one in new.items()}
            found[i] = replace(zone, radius=float(after.radius[i]), slots=slots, **own)
        return effects, found


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
