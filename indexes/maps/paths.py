"""Walking a path through a map: which answer is right where, at the cost of a search only where a zone is left.

A walk holds one answer with its zone. Along the places of a path it finds the first one at which what it holds is not
known to be right: outside the zone, or, for a top-k with more candidates than members, where other candidates are the
best. In between nothing is searched and nothing is made.

Source: Hidayat, Cheema, Lin, Zhang and Zhang, Continuous monitoring of moving skyline and top-k queries: what its
clients do, for paths that are known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.lean import lean_kernel
from indexes.maps.floats import float_kernel, float_part
from indexes.maps.metrics import EUCLIDEAN, distance
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import Scoring, score_of, static_parts
from indexes.maps.sky_circle import CircleSearcher, CircleZone
from indexes.maps.top import TopSearch, TopZone
from indexes.maps.zones import Searcher, Zone, holds

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Members(NamedTuple):
    """An answer at a place: slots with their distances, the best first, of a skyline the nearest; and their scores,
    infinite where there is none, or None for a skyline."""

    slots: Int64
    distances: Float64
    scores: Float64 | None


class Walk(Protocol):
    """A question asked along paths in one map, a path at a time."""

    ordered: bool
    """Whether an answer is another one when its order is."""

    searches: int
    """How many searches it took so far."""

    def begin(self) -> None:
        """Another path begins: nothing is known of its first place."""

    def upto(self, x: Float64, y: Float64, first: int) -> int:
        """The first place of a path, from place `first` on, where the answer is not known to be the one before; the
        number of places if there is none. O(1) a place without other candidates, else O(candidates); for a skyline
        O(edges)."""

    def turn(self, x: float, y: float) -> Members:
        """A right answer at a place, up to equal scores; from now on it is the one held."""


class Change(NamedTuple):
    """The answer becomes another one at a place of a path: with other members, or only in another order, or because it
    is the first place."""

    at: int
    kind: str  # "first", "members" or "order"
    members: Members


class Follower:
    """Follows paths, one at a time and in pieces, and tells where the answer becomes another one."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._last: Int64 | None = None

    def begin(self) -> None:
        """Another path begins."""
        self._walk.begin()
        self._last = None

    def along(self, x: Float64, y: Float64) -> Iterator[Change]:
        """The changes in the next piece of the path: every answer between two is the one before, up to equal scores."""
        at = self._walk.upto(x, y, 0)
        while at < len(x):
            found = self._walk.turn(float(x[at]), float(y[at]))
            kind = self._differs(found.slots)
            if kind is not None:
                self._last = found.slots
                yield Change(at, kind, found)
            at = self._walk.upto(x, y, at + 1)

    def _differs(self, slots: Int64) -> str | None:
        if self._last is None:
            return "first"
        if not np.array_equal(np.sort(slots), np.sort(self._last)):
            return "members"
        return "order" if self._walk.ordered and not np.array_equal(slots, self._last) else None


class TopWalk:
    """The k best by a score along paths, with m - 1 more candidates: the more, the fewer searches."""

    def __init__(self, index: PlaceIndex, k: int, m: int, scoring: Scoring, ordered: bool = False) -> None:
        """Raises ValueError where k or m is below 1."""
        if k < 1 or m < 1:
            raise ValueError(f"k {k} or m {m} is below 1")
        self.ordered, self.searches = ordered, 0
        self._k, self._m, self._scoring = k, m, scoring
        self._search = TopSearch(index)
        self._zone: TopZone | None = None

    def begin(self) -> None:
        self._zone = None

    def upto(self, x: Float64, y: Float64, first: int) -> int:
        zone = self._zone
        if zone is None:
            return first
        if not len(self._rest) and not self.ordered:
            return int(within(self._scoring.metric, *zone.place, zone.radius, x, y, first))
        best = self._of, self._held, self._rest, self.ordered
        return int(_same_best(self._scoring, *zone.place, zone.radius, *best, x, y, first))

    def turn(self, x: float, y: float) -> Members:
        if self._zone is None or not self._zone.inside(x, y):
            # The order is looked at everywhere, so a zone need not hold it: those that do are far smaller.
            self._zone = self._search.zone((x, y), self._k, self._m, self._scoring)
            self.searches += 1
            self._of = _candidates(self._scoring, self._zone)
        far, scores = np.empty((2, len(self._zone.slots)))
        _rate(self._scoring, self._of, x, y, far, scores)
        order = np.lexsort((self._of.created, scores))
        self._held, self._rest = order[: self._k], order[self._k :]
        return Members(self._zone.slots[self._held], far[self._held], scores[self._held])


class SkylineWalk:
    """Skylines along paths."""

    ordered = False

    def __init__(self, index: PlaceIndex, bounds: Float64, metric: str = "euclidean") -> None:
        """`bounds` are the map's (x0, y0, x1, y1): where distances are Euclidean, no zone reaches past them."""
        self.searches = 0
        self._index, self._bounds = index, bounds
        self._searcher = Searcher(index.d)
        self._circles = CircleSearcher(index.d, metric)
        self._zone: Zone | CircleZone | None = None

    def begin(self) -> None:
        self._zone = None

    def upto(self, x: Float64, y: Float64, first: int) -> int:
        zone = self._zone
        if zone is None:
            return first
        if isinstance(zone, CircleZone):
            return int(within(zone.metric, zone.place[0], zone.place[1], zone.radius, x, y, first))
        return int(_in_zone(zone, x, y, first))

    def turn(self, x: float, y: float) -> Members:
        self.searches += 1
        if self._circles.metric != EUCLIDEAN:
            circle = self._zone = self._circles.zone(self._index, x, y)
            return Members(circle.skyline.astype(np.int64), circle.distances, None)
        zone = self._zone = self._searcher.zone(self._index, x, y, self._bounds)
        far = np.sqrt((zone.places[0] - x) ** 2 + (zone.places[1] - y) ** 2)
        return Members(zone.skyline.astype(np.int64), far, None)


class Candidates(NamedTuple):
    """Those of a zone: their places (c, 2), static values by column, order of creation, and static parts (2, c)."""

    places: Float64
    statics: Float64
    created: Int64
    parts: Float64


def _candidates(s: Scoring, zone: TopZone) -> Candidates:
    statics = np.ascontiguousarray(zone.statics.T).reshape(-1)
    found = Candidates(zone.places, statics, zone.created, np.empty((2, len(zone.slots))))
    _fill(s, found)
    return found


@float_kernel
def _fill(s, c):  # type: ignore[no-untyped-def]
    """Work out the static parts of all candidates."""
    n = c.created.size
    for i in range(n):
        c.parts[0, i], c.parts[1, i] = static_parts(s, c.statics, n, i)


@float_kernel
def _rate(s, c, x, y, far, scores):  # type: ignore[no-untyped-def]
    """Write the distances and scores of all candidates at (x, y)."""
    for i in range(c.created.size):
        far[i], scores[i] = _rated(s, c, i, x, y)


@float_part
def _rated(s, c, i, x, y):  # type: ignore[no-untyped-def]
    """The distance and score of a candidate."""
    far = distance(s.metric, x, y, c.places[i, 0], c.places[i, 1])
    return far, score_of(s, far, c.parts[0, i], c.parts[1, i], c.statics, c.created.size, i)


@float_kernel
def within(metric, px, py, radius, x, y, first):  # type: ignore[no-untyped-def]
    """The first place of a path, from `first` on, that is not strictly within a circle; the number of places if there
    is none."""
    i = first
    while i < x.size and distance(metric, px, py, x[i], y[i]) < radius:
        i += 1
    return i


@float_kernel
def _same_best(s, px, py, radius, c, held, rest, ordered, x, y, first):  # type: ignore[no-untyped-def]
    """As `within`, or the first place where the candidates `held`, which stand in order, are not the best, or, if
    `ordered`, stand in another order."""
    at = first
    same = True
    while at < x.size and same:
        same = distance(s.metric, px, py, x[at], y[at]) < radius
        worst, youngest = -np.inf, -1
        for i in held:
            (_, score), created = _rated(s, c, i, x[at], y[at]), c.created[i]
            if score > worst or (score == worst and created > youngest):
                worst, youngest = score, created
            elif ordered:
                same = False
        for i in rest:
            _, score = _rated(s, c, i, x[at], y[at])
            if score < worst or (score == worst and c.created[i] < youngest):
                same = False
        if same:
            at += 1
    return at


@lean_kernel
def _in_zone(zone, x, y, first):  # type: ignore[no-untyped-def]
    """The first place of a path, from `first` on, that is not in a skyline's zone."""
    i = first
    inside = True
    while i < x.size and inside:
        px, py = x[i] - zone.place[0], y[i] - zone.place[1]
        inside = holds(zone.x, zone.y, zone.cut_x, zone.cut_y, zone.cut_end, zone.margin, px, py)
        if inside:
            i += 1
    return i
