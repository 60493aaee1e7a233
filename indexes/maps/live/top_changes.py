"""Updates of the zones of standing top-k when an object changes: of many zones at once, one change to each.

A zone stays valid as long as its members are the k best at its place, and every other object either is a candidate or
has an irrelevant circle that is no smaller than the zone. So for an object that is new or has changed its circle is
computed, which is rarely smaller. An object that becomes a member, or was one, breaks the zone. For one that was a
further candidate there is an update in any case, since the client would rank it as it was.

An object may be in thousands of answers, and some fifty steps in Python for each of them would take nearly all of the
time: so all of it is one kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Bools, Floats, Ints, int64, run_lengths
from indexes.maps.kernels.circles import KEPT as KEPT_OF_CIRCLE
from indexes.maps.kernels.floats import float_kernel
from indexes.maps.kernels.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.kernels.score_table import Scores, score_in
from indexes.maps.kernels.scores import score_of, static_parts
from indexes.maps.kernels.top_scratch import TopScratch, member_scratch
from indexes.maps.kernels.top_zone import OtherObject, RankedMembers, circle_against

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
    """Zones by column. The slots of the candidates of all zones are concatenated, up to `ends`, the members of each
    first; what is known of objects is that of members alone."""

    score: Ints  # (n,) number in the table
    place: Floats  # (n, 2)
    at: Floats  # (n, 2) where the client is
    k: Ints
    m: Ints
    members: Ints
    radius: Floats
    ends: Ints
    slots: Ints
    places: Floats
    statics: Floats
    created: Ints


class UpdatedColumns(NamedTuple):
    """The zones after the changes: the effect on each, its radius, and how many candidates it has. Their slots are
    written from ends[i - 1] + i on: there may be one more."""

    effect: Ints  # (n,)
    radius: Floats
    number: Ints
    slots: Ints

    def candidates(self, ends: Ints, some: Bools) -> tuple[Ints, Ints]:
        """Where the candidates of each of some zones end, and their slots. `ends` is that of the zones before."""
        number = self.number[some]
        after = np.cumsum(number)
        begins = (ends - run_lengths(ends) + np.arange(len(ends)))[some]
        at = np.arange(int(number.sum())) + np.repeat(begins - after + number, number)
        return after, self.slots[at]


class TopBatchUpdater:
    """Applies changes to zones of objects with d attributes, in arrays of its own.

    An object with a smaller circle becomes a further candidate as long as there are fewer than `most` times as many as
    a zone has at first; after that the zone shrinks.
    """

    def __init__(self, d: int, most: float = 2.0) -> None:
        self._d = d
        self._most = most
        self._scratch: TopScratch = member_scratch(1, d)

    def update(self, zones: ZoneColumns, changes: ChangeColumns, table: Scores) -> UpdatedColumns:
        """Apply a change to each zone. O(candidates)."""
        n, most = len(zones.k), int(zones.k.max())
        if len(self._scratch.members.x) <= most:
            self._scratch = member_scratch(most, self._d)
        after = UpdatedColumns(
            effect=np.empty(n, np.int64),
            radius=zones.radius.copy(),
            number=np.empty(n, np.int64),
            slots=np.empty(len(zones.slots) + n, np.int64),
        )
        _update(table, zones, changes, self._most, np.empty(most), self._scratch, after)
        return after


@float_kernel
def _update(
    table: Scores,
    held: ZoneColumns,
    changes: ChangeColumns,
    most: float,
    scores: Floats,
    scratch: TopScratch,
    after: UpdatedColumns,
) -> None:
    first, m0 = int64(0), int64(0)
    for q in range(held.score.size):
        end, n = held.ends[q], held.members[q]
        known = int64(-1)
        for i in range(first, end):
            if held.slots[i] == changes.slot[q]:
                known = i - first
        effect, adds = KEPT, False
        x, y = changes.points[q, 0], changes.points[q, 1]
        if not changes.there[q]:
            if known >= 0:
                effect = BROKEN if known < n else OTHER
        elif n < held.k[q] or 0 <= known < n:
            effect = BROKEN
        else:
            scoring = score_in(table, held.score[q])
            qx, qy, radius = held.place[q, 0], held.place[q, 1], held.radius[q]
            for i in range(n):
                values = held.statics[m0 + i]
                far = distance(scoring.metric, qx, qy, held.places[m0 + i, 0], held.places[m0 + i, 1])
                total, product = static_parts(scoring, values, 1, 0)
                scores[i] = score_of(scoring, far, total, product, values, 1, 0)
            members = RankedMembers(held.places[m0 : m0 + n], held.statics[m0 : m0 + n], scores[:n])
            other = OtherObject(x, y, changes.statics[q])
            score, circle = circle_against(scoring, qx, qy, members, other, radius, scratch)
            if circle < radius:
                circle = np.inf if scoring.metric == GREAT_CIRCLE and circle >= FARTHEST else circle * KEPT_OF_CIRCLE
            worst = scores[n - 1]
            if score < worst or (score == worst and changes.created[q] < held.created[m0 + n - 1]):
                effect = BROKEN
            elif circle >= radius:
                effect = OTHER if known >= 0 else KEPT
            elif end - first - (1 if known >= 0 else 0) < most * (held.k[q] + held.m[q] - 1):
                effect, adds = (SAME if known >= 0 else OTHER), True
            elif circle == 0.0 or not distance(scoring.metric, qx, qy, held.at[q, 0], held.at[q, 1]) < circle:
                effect = BROKEN
            else:
                effect = SHRUNK
                after.radius[q] = max(0.0, circle)
        after.effect[q] = effect
        o = first + q
        for i in range(first, end):
            if i - first != known:
                after.slots[o] = held.slots[i]
                o += 1
        if adds:
            after.slots[o] = changes.slot[q]
            o += 1
        after.number[q] = o - first - q
        first, m0 = end, m0 + n
