"""What changes of objects do to the zones of many standing top-k, one change to each: `TopKeeper` in one kernel.

An object may be in thousands of answers. Each zone alone takes some fifty steps in Python to be held against its
change, which is nearly all of the time that it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.maps.circles import KEPT as KEPT_OF_CIRCLE
from indexes.maps.floats import float_kernel, float_part
from indexes.maps.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.score_table import Scores, score_in
from indexes.maps.top import TopZone
from indexes.maps.top_room import Room, member_room
from indexes.maps.top_zone import circle_beside

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

KEPT, SAME, OTHER, SHRUNK, BROKEN = range(5)
"""What is to be done about a zone: nothing; give away the one in which a further candidate is as it is now; the one
with other candidates; the smaller one; work it out anew."""


class OneEach(NamedTuple):
    """A change for each of some zones: what is in a slot now, as in `live.Changes`."""

    slot: Int64  # (n,)
    there: Bool  # (n,)
    points: Float64  # (n, 2)
    statics: Float64  # (n, d)
    created: Int64  # (n,)


class Held(NamedTuple):
    """Zones side by side; candidates of one behind those of the other, up to `ends`."""

    score: Int64  # (n,) number in the table
    place: Float64  # (n, 2)
    at: Float64  # (n, 2) where the client is
    k: Int64
    members: Int64
    radius: Float64
    most: Float64  # so many candidates are enough
    ends: Int64
    slots: Int64
    scores: Float64
    distances: Float64
    places: Float64
    statics: Float64
    created: Int64


class After(NamedTuple):
    """What becomes of them. The candidates of zone i are written from ends[i - 1] + i on: there may be one more."""

    effect: Int64  # (n,)
    radius: Float64
    number: Int64
    slots: Int64
    scores: Float64
    distances: Float64
    places: Float64
    statics: Float64
    created: Int64


class TopBatch:
    """Holds changes against many zones of d attributes at once, as `TopKeeper` does against each; `most` as there."""

    def __init__(self, d: int, most: float = 2.0) -> None:
        self._d = d
        self._most = most
        self._room: Room = member_room(1, d)

    def keep(
        self,
        zones: Sequence[TopZone],
        changes: OneEach,
        table: Scores,
        scores: Int64,
        ats: Float64,
    ) -> tuple[list[int], list[TopZone]]:
        """What each change is to its zone, whose score has this number in a table, and whose client is there; and the
        zones afterwards, the old one where it is kept or broken. O(candidates)."""
        n, d = len(zones), self._d
        k = np.array([zone.k for zone in zones])
        if len(self._room.x) <= k.max():
            self._room = member_room(int(k.max()), d)
        held = Held(
            score=scores,
            place=np.array([zone.place for zone in zones]),
            at=ats,
            k=k,
            members=np.array([zone.members for zone in zones]),
            radius=np.array([zone.radius for zone in zones]),
            most=self._most * (k + np.array([zone.m for zone in zones]) - 1),
            ends=np.cumsum([len(zone.slots) for zone in zones]),
            slots=np.concatenate([zone.slots for zone in zones]),
            scores=np.concatenate([zone.scores for zone in zones]),
            distances=np.concatenate([zone.distances for zone in zones]),
            places=np.concatenate([zone.places for zone in zones]),
            statics=np.concatenate([zone.statics for zone in zones]),
            created=np.concatenate([zone.created for zone in zones]),
        )
        room = len(held.slots) + n
        after = After(
            np.empty(n, np.int64),
            held.radius.copy(),
            np.empty(n, np.int64),
            np.empty(room, np.int64),
            np.empty(room),
            np.empty(room),
            np.empty((room, 2)),
            np.empty((room, d)),
            np.empty(room, np.int64),
        )
        _keep(table, held, changes, self._room, after)
        effects = after.effect.tolist()
        begins = (held.ends - np.diff(held.ends, prepend=0) + np.arange(n)).tolist()
        found = list(zones)
        for i in np.flatnonzero((after.effect != KEPT) & (after.effect != BROKEN)).tolist():
            found[i] = _after(zones[i], after, begins[i], int(after.number[i]), float(after.radius[i]))
        return effects, found


def _after(zone: TopZone, after: After, begin: int, number: int, radius: float) -> TopZone:
    mine = slice(begin, begin + number)
    # Copies: a part would hold on to the arrays of all.
    return TopZone(
        place=zone.place,
        k=zone.k,
        m=zone.m,
        ordered=zone.ordered,
        scoring=zone.scoring,
        slots=after.slots[mine].copy(),
        members=zone.members,
        scores=after.scores[mine].copy(),
        distances=after.distances[mine].copy(),
        places=after.places[mine].copy(),
        statics=after.statics[mine].copy(),
        created=after.created[mine].copy(),
        radius=radius,
    )


@float_kernel
def _keep(t, held, changes, w, after):  # type: ignore[no-untyped-def]
    first = np.int64(0)
    for q in range(held.score.size):
        end, n = held.ends[q], held.members[q]
        known = np.int64(-1)
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
            s = score_in(t, held.score[q])
            qx, qy, radius, last = held.place[q, 0], held.place[q, 1], held.radius[q], first + n - 1
            score, circle = circle_beside(
                s,
                qx,
                qy,
                n,
                held.places[first : first + n],
                held.statics[first : first + n],
                held.scores[first : first + n],
                x,
                y,
                changes.statics[q],
                radius,
                w,
            )
            if circle < radius:
                circle = np.inf if s.metric == GREAT_CIRCLE and circle >= FARTHEST else circle * KEPT_OF_CIRCLE
            worst = held.scores[last]
            if score < worst or (score == worst and changes.created[q] < held.created[last]):
                effect = BROKEN
            elif circle >= radius:
                effect = OTHER if known >= 0 else KEPT
            elif end - first - (1 if known >= 0 else 0) < held.most[q]:
                effect, adds = (SAME if known >= 0 else OTHER), True
                far = distance(s.metric, qx, qy, x, y)
            elif circle == 0.0 or not distance(s.metric, qx, qy, held.at[q, 0], held.at[q, 1]) < circle:
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


@float_part
def _copy(held, i, after, o):  # type: ignore[no-untyped-def]
    """Let candidate i be number o afterwards."""
    after.slots[o], after.created[o] = held.slots[i], held.created[i]
    after.scores[o], after.distances[o] = held.scores[i], held.distances[i]
    after.places[o, 0], after.places[o, 1] = held.places[i, 0], held.places[i, 1]
    for j in range(after.statics.shape[1]):
        after.statics[o, j] = held.statics[i, j]
