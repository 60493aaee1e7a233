"""Moving top-k: the k best objects at a place, with a zone, and what becomes of it as objects change.

A `TopZone` is what a client is sent and what a standing query keeps. Strictly inside its circle the k best of its
candidates are a right top-k, up to equal scores; nothing else has to be asked. `TopSearch` finds it.

When an object changes, `after_put` and `after_delete` say what is to be done (design 2.9, last row): most changes leave
the zone as it is, since an object outside matters only if its own irrelevant circle is smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.maps.circles import KEPT
from indexes.maps.metrics import FARTHEST, GREAT_CIRCLE, distance
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import Scoring, score_of, static_parts
from indexes.maps.top_k import tops
from indexes.maps.top_room import Room, room_for
from indexes.maps.top_zone import circle_beside, zones

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Due(Enum):
    """What a change of an object leaves to be done for a zone."""

    NOTHING = "nothing"
    SHOW = "show"
    """The zone is another one, with other candidates or a smaller circle, and the client has to be told."""
    RENEW = "renew"
    """A new zone has to be asked for."""


@dataclass(frozen=True, slots=True)
class TopZone:
    """A top-k at a place and where its candidates are enough."""

    place: tuple[float, float]
    k: int
    m: int
    ordered: bool
    scoring: Scoring
    slots: Int64  # (c,) the members in order of score, then the other candidates
    members: int
    scores: Float64  # (c,) infinite where there is none
    distances: Float64  # (c,)
    places: Float64  # (c, 2)
    statics: Float64  # (c, d), smaller being better
    created: Int64  # (c,)
    radius: float  # infinite: everywhere; 0: at this place only

    def inside(self, x: float, y: float) -> bool:
        """Whether the candidates are enough at (x, y)."""
        return bool(distance(self.scoring.metric, *self.place, float(x), float(y)) < self.radius)

    def ranked(self, x: float, y: float) -> tuple[Int64, Float64]:
        """The k best candidates at (x, y), as the client ranks them: which, by number, and their scores. O(c log c)."""
        scores = scores_at(self.scoring, x, y, self.places, self.statics)
        order = np.lexsort((self.created, scores))[: self.k]
        return order, scores[order]


def scores_at(s: Scoring, x: float, y: float, places: Float64, statics: Float64) -> Float64:
    """The scores at (x, y) of objects at `places` (n, 2) with `statics` (n, d)."""
    n, _d = statics.shape
    columns = np.ascontiguousarray(statics.T).reshape(-1)
    scores = np.empty(n)
    for i in range(n):
        far = distance(s.metric, float(x), float(y), places[i, 0], places[i, 1])
        total, product = static_parts(s, columns, n, i)
        scores[i] = score_of(s, far, total, product, columns, n, i)
    return scores


class TopSearch:
    """Searches in one index, from one thread at a time."""

    def __init__(self, index: PlaceIndex) -> None:
        self.index = index
        self._room: Room | None = None
        self._view: object = None

    def top(self, points: ArrayLike, k: int, scoring: Scoring) -> tuple[Int64, Float64, Float64, Int64]:
        """For each of the points (q, 2): the slots of the k best objects, their scores (infinite where there is none)
        and distances, as rows of (q, k), and how many there are. Expected O(log n + k) nodes each.

        Raises:
            ValueError: k is below 1.
        """
        places = _checked(points, k, 1)
        rows = np.full((len(places), k), -1), np.full((len(places), k), np.inf), np.full((len(places), k), np.inf)
        number = np.zeros(len(places), np.int64)
        tops(self.index.view, scoring, places, k, self._room_for(k, 1), *rows, number)
        return *rows, number

    def zone(self, place: tuple[float, float], k: int, m: int, scoring: Scoring, ordered: bool = False) -> TopZone:
        """The k best at a place, and the m-relaxed zone. With `ordered` the order of the k holds there too.

        Raises:
            ValueError: k or m is below 1, or the place is not finite.
        """
        return self.zones([place], k, m, scoring, ordered)[0]

    def zones(self, points: ArrayLike, k: int, m: int, scoring: Scoring, ordered: bool = False) -> list[TopZone]:
        """As `zone`, for each of the points (q, 2)."""
        places = _checked(points, k, m)
        shape = (len(places), k + m - 1)
        slots, scores, far = np.full(shape, -1), np.full(shape, np.inf), np.full(shape, np.inf)
        members, number = np.zeros((2, len(places)), np.int64)
        radius = np.zeros(len(places))
        room = self._room_for(k, m)
        zones(self.index.view, scoring, places, k, m, ordered, room, slots, scores, far, members, number, radius)
        found = []
        for q, n in enumerate(number.tolist()):
            there, statics = self.index.rows(slots[q, :n])
            found.append(
                TopZone(
                    place=(float(places[q, 0]), float(places[q, 1])),
                    k=k,
                    m=m,
                    ordered=ordered,
                    scoring=scoring,
                    slots=slots[q, :n],
                    members=int(members[q]),
                    scores=scores[q, :n],
                    distances=far[q, :n],
                    places=there,
                    statics=statics,
                    created=self.index.view.created[slots[q, :n]],
                    radius=float(radius[q]),
                )
            )
        return found

    def _room_for(self, k: int, m: int) -> Room:
        room, view = self._room, self.index.view
        if room is None or self._view is not view or len(room.circle) != m or len(room.best) != k + m:
            self._room = room = room_for(view, k, m)
            self._view = view
        return room


def _checked(points: ArrayLike, k: int, m: int) -> Float64:
    places = np.ascontiguousarray(np.asarray(points, np.float64).reshape(-1, 2))
    if k < 1 or m < 1:
        raise ValueError(f"k {k} or m {m} is below 1")
    if not np.isfinite(places).all():
        raise ValueError("a place is not finite")
    return places


def after_put(
    zone: TopZone,
    slot: int,
    place: tuple[float, float],
    values: Float64,
    created: int,
    at: tuple[float, float] | None = None,
    most: int | None = None,
    room: Room | None = None,
) -> tuple[Due, TopZone]:
    """What becomes of a zone when an object has come, or has other values or another place than before; `values` (d,)
    are its static ones, smaller being better. O(members).

    An object whose circle is smaller becomes one more candidate as long as there are fewer than `most` (by default
    twice as many as a zone begins with); then the circle shrinks to its own, unless `at`, where the client is now,
    would be outside. Who asks often brings the `room` to work in, of `member_room`.
    """
    known = np.flatnonzero(zone.slots == slot)
    before = zone
    if len(known):
        if known[0] < zone.members:
            return Due.RENEW, zone
        zone = _without(zone, int(known[0]))
    if zone.members < zone.k:
        return Due.RENEW, before
    score, circle, far = _circle(zone, place, values, room)
    last = zone.members - 1
    if (score, created) < (float(zone.scores[last]), int(zone.created[last])):
        return Due.RENEW, before
    if circle >= zone.radius and not len(known):
        return Due.NOTHING, zone
    candidates = 2 * (zone.k + zone.m - 1) if most is None else most
    if len(zone.slots) < candidates:
        return Due.SHOW, replace(
            zone,
            slots=np.append(zone.slots, slot),
            scores=np.append(zone.scores, score),
            distances=np.append(zone.distances, far),
            places=np.vstack([zone.places, place]),
            statics=np.vstack([zone.statics, values]),
            created=np.append(zone.created, created),
        )
    radius = min(zone.radius, circle)
    smaller = replace(zone, radius=radius)
    if radius == 0.0 or (at is not None and not smaller.inside(*at)):
        return Due.RENEW, before
    return Due.SHOW, smaller


def after_delete(zone: TopZone, slot: int) -> tuple[Due, TopZone]:
    """What becomes of a zone when an object has gone. A further candidate that has gone must be told, since the client
    would still rank it; the circle stays safe. O(candidates)."""
    known = np.flatnonzero(zone.slots == slot)
    if not len(known):
        return Due.NOTHING, zone
    if known[0] < zone.members:
        return Due.RENEW, zone
    return Due.SHOW, _without(zone, int(known[0]))


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


def _circle(
    zone: TopZone, place: tuple[float, float], values: Float64, room: Room | None
) -> tuple[float, float, float]:
    """The score of an object at the zone's place, its irrelevant circle up to the zone's, and its distance."""
    s, k, x, y = zone.scoring, zone.members, float(place[0]), float(place[1])
    far = float(distance(s.metric, *zone.place, x, y))
    room = member_room(k, len(values)) if room is None else room
    score, circle = circle_beside(
        s, *zone.place, k, zone.places[:k], zone.statics[:k], zone.scores[:k], x, y, values, zone.radius, room
    )
    if circle < zone.radius:
        circle = np.inf if s.metric == GREAT_CIRCLE and circle >= FARTHEST else circle * KEPT
    return float(score), float(circle), far


def member_room(k: int, d: int) -> Room:
    """Room to hold an object of d static values against k members, from one thread at a time."""
    return room_for(PlaceIndex.build(np.empty((0, 2)), np.empty((0, d))).view, k, 1)
