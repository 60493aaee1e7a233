"""Moving top-k: the k best objects at a place, and a zone.

A `TopZone` is what a client is sent and what a standing query keeps. Strictly inside its circle the k best of its
candidates are a right top-k, up to equal scores; nothing else has to be asked. `TopSearch` finds it; `top_changes.py`
says what changes of objects leave of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.maps.floats import float_kernel
from indexes.maps.metrics import distance
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import Scoring, score_of, static_parts
from indexes.maps.top_k import tops
from indexes.maps.top_room import Room, room_for
from indexes.maps.top_zone import zones

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


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
    return measured(s, np.array([[x, y]], np.float64), np.zeros(len(places), np.int64), places, statics)[0]


def measured(s: Scoring, ats: Float64, which: Int64, places: Float64, statics: Float64) -> tuple[Float64, Float64]:
    """The scores and distances of objects at `places` (n, 2) with `statics` (n, d), each from the place `ats[which]`.

    O(n d), in one kernel.
    """
    scores, far = np.empty((2, len(places)))
    _measure(s, ats, which, np.ascontiguousarray(places.T), np.ascontiguousarray(statics.T).reshape(-1), scores, far)
    return scores, far


@float_kernel
def _measure(s, ats, which, places, columns, scores, far):  # type: ignore[no-untyped-def]
    n = which.size
    for i in range(n):
        far[i] = distance(s.metric, ats[which[i], 0], ats[which[i], 1], places[0, i], places[1, i])
        total, product = static_parts(s, columns, n, i)
        scores[i] = score_of(s, far[i], total, product, columns, n, i)


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
        tops(self.index.view, _own(scoring), places, k, self._room_for(k, 1), *rows, number)
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
        slots, scores, far = np.empty(shape, np.int64), np.empty(shape), np.empty(shape)
        members, number = np.empty((2, len(places)), np.int64)
        radius = np.empty(len(places))
        room = self._room_for(k, m)
        zones(self.index.view, _own(scoring), places, k, m, ordered, room, slots, scores, far, members, number, radius)
        there = np.arange(shape[1]) < number[:, None]
        objects = slots[there]
        where, statics = self.index.rows(objects)
        created, far_there, scores_there = self.index.view.created[objects], far[there], scores[there]
        found, begin = [], 0
        for q, n in enumerate(number.tolist()):
            mine = slice(begin, begin + n)
            begin += n
            found.append(
                TopZone(
                    place=(float(places[q, 0]), float(places[q, 1])),
                    k=k,
                    m=m,
                    ordered=ordered,
                    scoring=scoring,
                    slots=objects[mine],
                    members=int(members[q]),
                    scores=scores_there[mine],
                    distances=far_there[mine],
                    places=where[mine],
                    statics=statics[mine],
                    created=created[mine],
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


def _own(s: Scoring) -> Scoring:
    """A score for one thread: expressions are worked out in its stack."""
    return s._replace(stack=np.empty_like(s.stack)) if s.stack.size else s


def _checked(points: ArrayLike, k: int, m: int) -> Float64:
    places = np.ascontiguousarray(np.asarray(points, np.float64).reshape(-1, 2))
    if k < 1 or m < 1:
        raise ValueError(f"k {k} or m {m} is below 1")
    if not np.isfinite(places).all():
        raise ValueError("a place is not finite")
    return places
