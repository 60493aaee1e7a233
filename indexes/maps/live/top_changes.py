"""Updates of the zones of standing top-k when an object changes: of many zones at once, one change to each.

A zone stays valid as long as its members are the k best at its place, and every other object either is a candidate or
has an irrelevant circle that is no smaller than the zone. So for an object that is new or has changed its circle is
computed, which is rarely smaller. An object that becomes a member, or was one, breaks the zone. For one that was a
further candidate there is an update in any case, since the client would rank it as it was.

An object may be in thousands of answers, and some fifty steps in Python for each of them would take nearly all of the
time: so all of it is one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from indexes.core.arrays import Bools, Floats, Ints, int64
from indexes.maps.kernels.circles import KEPT as KEPT_OF_CIRCLE
from indexes.maps.kernels.floats import float_internal, float_kernel
from indexes.maps.kernels.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.kernels.score_table import Scores, score_in
from indexes.maps.kernels.top_scratch import TopScratch, member_scratch
from indexes.maps.kernels.top_zone import OtherObject, RankedMembers, circle_against
from indexes.maps.zones.top import TopZone

KEPT, SAME, OTHER, SHRUNK, BROKEN = range(5)
"""What a change does to a zone: nothing; it has the same candidates, one of which has changed; it has other
candidates; it is smaller; it has to be searched for again."""


class ChangeColumns(NamedTuple):
    """A change for each of some zones: what is in a slot now, as in `live.queries.Changes`."""

    slot: Ints  # (n,)
    there: Bools  # (n,)
    points: Floats  # (n, 2)
    statics: Floats  # (n, d)
    created: Ints  # (n,)


class ZoneColumns(NamedTuple):
    """Zones by column; the candidates of all zones are concatenated, up to `ends`."""

    score: Ints  # (n,) number in the table
    place: Floats  # (n, 2)
    at: Floats  # (n, 2) where the client is
    k: Ints
    members: Ints
    radius: Floats
    most: Floats  # so many candidates are enough
    ends: Ints
    slots: Ints
    scores: Floats
    distances: Floats
    places: Floats
    statics: Floats
    created: Ints


class UpdatedColumns(NamedTuple):
    """The zones after the changes. The candidates of zone i are written from ends[i - 1] + i on: there may be one
    more."""

    effect: Ints  # (n,)
    radius: Floats
    number: Ints
    slots: Ints
    scores: Floats
    distances: Floats
    places: Floats
    statics: Floats
    created: Ints


CANDIDATES = ("slots", "scores", "distances", "places", "statics", "created")
"""What a zone has of each of its candidates."""


class TopBatchUpdater:
    """Applies changes to zones of objects with d attributes, in arrays of its own.

    An object with a smaller circle becomes a further candidate as long as there are fewer than `most` times as many as
    a zone has at first; after that the zone shrinks.
    """

    def __init__(self, d: int, most: float = 2.0) -> None:
        self._d = d
        self._most = most
        self._scratch: TopScratch = member_scratch(1, d)

    def update(
        self, zones: Sequence[TopZone], changes: ChangeColumns, table: Scores, scores: Ints, ats: Floats
    ) -> tuple[list[int], list[TopZone]]:
        """Apply a change to each zone, whose scoring has this number in a table and whose client is there. Returns
        the effects and the zones after the changes, the old one where it is kept or broken. O(candidates)."""
        n = len(zones)
        k = np.array([zone.k for zone in zones])
        if len(self._scratch.members.x) <= k.max():
            self._scratch = member_scratch(int(k.max()), self._d)
        held = ZoneColumns(
            score=scores,
            place=np.array([zone.place for zone in zones]),
            at=ats,
            k=k,
            members=np.array([zone.members for zone in zones]),
            radius=np.array([zone.radius for zone in zones]),
            most=self._most * (k + np.array([zone.m for zone in zones]) - 1),
            ends=np.cumsum([len(zone.slots) for zone in zones]),
            **{name: np.concatenate([getattr(zone, name) for zone in zones]) for name in CANDIDATES},
        )
        room = len(held.slots) + n
        columns: dict[str, Any] = {name: getattr(held, name) for name in CANDIDATES}
        after = UpdatedColumns(
            effect=np.empty(n, np.int64),
            radius=held.radius.copy(),
            number=np.empty(n, np.int64),
            **{name: np.empty((room, *column.shape[1:]), column.dtype) for name, column in columns.items()},
        )
        _update(table, held, changes, self._scratch, after)
        effects = after.effect.tolist()
        begins = (held.ends - np.diff(held.ends, prepend=0) + np.arange(n)).tolist()
        found = list(zones)
        for i in np.flatnonzero((after.effect != KEPT) & (after.effect != BROKEN)).tolist():
            mine = slice(begins[i], begins[i] + int(after.number[i]))
            # Copies: a part would hold on to the arrays of all.
            own = {name: getattr(after, name)[mine].copy() for name in CANDIDATES}
            found[i] = replace(zones[i], radius=max(0.0, float(after.radius[i])), **own)
        return effects, found


@float_kernel
def _update(
    table: Scores, held: ZoneColumns, changes: ChangeColumns, scratch: TopScratch, after: UpdatedColumns
) -> None:
    first = int64(0)
    for q in range(held.score.size):
        end, n = held.ends[q], held.members[q]
        known = int64(-1)
        for i in range(first, end):
            if held.slots[i] == changes.slot[q]:
                known = i - first
        effect, adds = KEPT, False
        score = far = 0.0
        x, y = changes.points[q, 0], changes.points[q, 1]
        if not changes.there[q]:
            if known >= 0:
                effect = BROKEN if known < n else OTHER
        elif n < held.k[q] or 0 <= known < n:
            effect = BROKEN
        else:
            scoring = score_in(table, held.score[q])
            qx, qy, radius, last = held.place[q, 0], held.place[q, 1], held.radius[q], first + n
            members = RankedMembers(held.places[first:last], held.statics[first:last], held.scores[first:last])
            other = OtherObject(x, y, changes.statics[q])
            score, circle = circle_against(scoring, qx, qy, members, other, radius, scratch)
            if circle < radius:
                circle = np.inf if scoring.metric == GREAT_CIRCLE and circle >= FARTHEST else circle * KEPT_OF_CIRCLE
            worst = held.scores[last - 1]
            if score < worst or (score == worst and changes.created[q] < held.created[last - 1]):
                effect = BROKEN
            elif circle >= radius:
                effect = OTHER if known >= 0 else KEPT
            elif end - first - (1 if known >= 0 else 0) < held.most[q]:
                effect, adds = (SAME if known >= 0 else OTHER), True
                far = distance(scoring.metric, qx, qy, x, y)
            elif circle == 0.0 or not distance(scoring.metric, qx, qy, held.at[q, 0], held.at[q, 1]) < circle:
                effect = BROKEN
            else:
                effect = SHRUNK
                after.radius[q] = circle
        after.effect[q] = effect
        if effect != KEPT and effect != BROKEN:
            o = first + q
            for i in range(first, end):
                if i - first != known:
                    _copy(held, i, after, o)
                    o += 1
            if adds:
                after.slots[o], after.created[o] = changes.slot[q], changes.created[q]
                after.scores[o], after.distances[o] = score, far
                after.places[o, 0], after.places[o, 1] = x, y
                for j in range(after.statics.shape[1]):
                    after.statics[o, j] = changes.statics[q, j]
                o += 1
            after.number[q] = o - first - q
        first = end


@float_internal
def _copy(held: ZoneColumns, i: int, after: UpdatedColumns, o: int) -> None:
    """Copy candidate i to place o."""
    after.slots[o], after.created[o] = held.slots[i], held.created[i]
    after.scores[o], after.distances[o] = held.scores[i], held.distances[i]
    after.places[o, 0], after.places[o, 1] = held.places[i, 0], held.places[i, 1]
    for j in range(after.statics.shape[1]):
        after.statics[o, j] = held.statics[i, j]
