"""Moving top-k: the k best objects at a place, and the zone.

A `TopZone` is what a client receives and what a standing query holds. Strictly inside its circle the k best of its
candidates are a correct top-k, up to equal scores, without a further search. `TopSearch` finds it;
`live/top_changes.py` updates it when objects change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from indexes.core.arrays import INF, Floats, Ints
from indexes.maps.kernels.floats import float_kernel
from indexes.maps.kernels.metrics import distance
from indexes.maps.kernels.scores import Scoring, score_of, static_parts
from indexes.maps.kernels.top_k import Tops, tops
from indexes.maps.kernels.top_scratch import TopScratch, scratch_for
from indexes.maps.kernels.top_zone import TopZones, zones
from indexes.maps.object_index import PlaceIndex


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TopZone:
    """A top-k at a place, and the circle in which its candidates suffice."""

    place: tuple[float, float]
    k: int
    m: int
    ordered: bool
    scoring: Scoring
    slots: Ints  # (c,) the members in order of score, then the other candidates
    members: int
    scores: Floats  # (c,) infinite where there is none
    distances: Floats  # (c,)
    places: Floats  # (c, 2)
    statics: Floats  # (c, d), smaller being better
    created: Ints  # (c,)
    radius: float  # infinite: everywhere; 0: at this place only

    def inside(self, x: float, y: float) -> bool:
        """Whether (x, y) is strictly inside the circle."""
        return bool(distance(self.scoring.metric, *self.place, float(x), float(y)) < self.radius)

    def ranked(self, x: float, y: float) -> tuple[Ints, Floats]:
        """The k best candidates at (x, y), as the client ranks them: their numbers and scores. O(c log c)."""
        scores = scores_at(self.scoring, x, y, self.places, self.statics)
        order = np.lexsort((self.created, scores))[: self.k]
        return order, scores[order]


def scores_at(s: Scoring, x: float, y: float, places: Floats, statics: Floats) -> Floats:
    """The scores at (x, y) of objects at `places` (n, 2) with `statics` (n, d)."""
    return measured(s, np.array([[x, y]], np.float64), np.zeros(len(places), np.int64), places, statics)[0]


def measured(s: Scoring, ats: Floats, which: Ints, places: Floats, statics: Floats) -> tuple[Floats, Floats]:
    """The scores and distances of objects at `places` (n, 2) with `statics` (n, d), each from the place `ats[which]`.

    O(n d), in one kernel.
    """
    scores, far = np.empty((2, len(places)))
    _measure(s, ats, which, np.ascontiguousarray(places.T), np.ascontiguousarray(statics.T).reshape(-1), scores, far)
    return scores, far


@float_kernel
def _measure(
    scoring: Scoring, ats: Floats, which: Ints, places: Floats, columns: Floats, scores: Floats, far: Floats
) -> None:
    n = which.size
    for i in range(n):
        far[i] = distance(scoring.metric, ats[which[i], 0], ats[which[i], 1], places[0, i], places[1, i])
        total, product = static_parts(scoring, columns, n, i)
        scores[i] = score_of(scoring, far[i], total, product, columns, n, i)


class TopSearch:
    """Searches in one index, from one thread at a time."""

    def __init__(self, index: PlaceIndex) -> None:
        self.index = index
        self._scratch: TopScratch | None = None
        self._view: object = None

    def top(self, points: ArrayLike, k: int, scoring: Scoring) -> Tops:
        """The k best objects at each of the points (q, 2). Expected O(log n + k) nodes each.

        Raises:
            ValueError: k is below 1.
        """
        places = _checked(points, k, 1)
        shape = len(places), k
        found = Tops(np.full(shape, -1), np.full(shape, INF), np.full(shape, INF), np.zeros(len(places), np.int64))
        tops(self.index.view, own_scoring(scoring), places, k, self._scratch_for(k, 1), found)
        return found

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
        members, number = np.empty((2, len(places)), np.int64)
        rows = TopZones(
            np.empty(shape, np.int64), np.empty(shape), np.empty(shape), members, number, np.empty(len(places))
        )
        zones(self.index.view, own_scoring(scoring), places, k, m, ordered, self._scratch_for(k, m), rows)
        there = np.arange(shape[1]) < number[:, None]
        objects = rows.slots[there]
        where, statics = self.index.rows(objects)
        created, far, scores = self.index.view.created[objects], rows.far[there], rows.scores[there]
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
                    scores=scores[mine],
                    distances=far[mine],
                    places=where[mine],
                    statics=statics[mine],
                    created=created[mine],
                    radius=max(0.0, float(rows.radius[q])),
                )
            )
        return found

    def _scratch_for(self, k: int, m: int) -> TopScratch:
        room, view = self._scratch, self.index.view
        if room is None or self._view is not view or len(room.circle) != m or len(room.best) != k + m:
            self._scratch = room = scratch_for(view, k, m)
            self._view = view
        return room


def own_scoring(scoring: Scoring) -> Scoring:
    """The same scoring for one more thread: an expression is evaluated on a stack of its own."""
    program = scoring.program
    return (
        scoring._replace(program=program._replace(stack=np.empty_like(program.stack))) if len(program.step) else scoring
    )


def _checked(points: ArrayLike, k: int, m: int) -> Floats:
    places = np.ascontiguousarray(np.asarray(points, np.float64).reshape(-1, 2))
    if k < 1 or m < 1:
        raise ValueError(f"k {k} or m {m} is below 1")
    if not np.isfinite(places).all():
        raise ValueError("a place is not finite")
    return places
