"""Walking a path through a map: which answer is right where, at the cost of a search only where a zone is left.

A walk holds one answer with its zone. Along a path it finds the first place at which the answer is not known to be
right: outside the zone, or, for a top-k with more candidates than members, where other candidates are the best. Between
two such places nothing is searched or allocated.

Source: [Moving queries], what its clients do, for paths that are known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.floats import float_internal, float_kernel
from indexes.maps.kernels.metrics import EUCLIDEAN, distance
from indexes.maps.kernels.scores import Scoring, score_of, static_parts
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.circle import CircleSearch, CircleZone
from indexes.maps.zones.skyline import SkylineSearch, Zone, holds
from indexes.maps.zones.top import TopSearch, TopZone


class Members(NamedTuple):
    """An answer at a place: slots with their distances, best first, of a skyline nearest first; and their scores,
    infinite where there is none, or None for a skyline."""

    slots: Ints
    distances: Floats
    scores: Floats | None


class Walk(Protocol):
    """The answer to a question along paths in one map, a path at a time."""

    ordered: bool
    """Whether another order is another answer."""

    searches: int
    """The number of searches so far."""

    def begin(self) -> None:
        """Begin another path."""

    def upto(self, x: Floats, y: Floats, first: int) -> int:
        """The first place of a path, from place `first` on, where the answer may differ from the one before; the
        number of places if there is none. O(1) a place without further candidates, else O(candidates); for a skyline
        O(edges)."""

    def turn(self, x: float, y: float) -> Members:
        """A correct answer at a place, up to equal scores, which is held from now on."""


class Change(NamedTuple):
    """The answer changes at a place of a path: its members, only their order, or because it is the first place."""

    at: int
    kind: str  # "first", "members" or "order"
    members: Members


class Follower:
    """Follows paths, one at a time and in pieces, and yields the changes of the answer."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._last: Ints | None = None

    def begin(self) -> None:
        """Begin another path."""
        self._walk.begin()
        self._last = None

    def along(self, x: Floats, y: Floats) -> Iterator[Change]:
        """The changes in the next piece of the path; between two of them the answer stays the same, up to equal
        scores."""
        at = self._walk.upto(x, y, 0)
        while at < len(x):
            found = self._walk.turn(float(x[at]), float(y[at]))
            kind = self._differs(found.slots)
            if kind is not None:
                self._last = found.slots
                yield Change(at, kind, found)
            at = self._walk.upto(x, y, at + 1)

    def _differs(self, slots: Ints) -> str | None:
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

    def upto(self, x: Floats, y: Floats, first: int) -> int:
        zone = self._zone
        if zone is None:
            return first
        circle = Circle(*zone.place, zone.radius)
        if not len(self._rest) and not self.ordered:
            return int(within(self._scoring.metric, circle, Path(x, y), first))
        best = self._of, self._held, self._rest, self.ordered
        return int(_same_best(self._scoring, circle, *best, Path(x, y), first))

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

    def __init__(self, index: PlaceIndex, bounds: Floats, metric: str = "euclidean") -> None:
        """`bounds` are the map's (x0, y0, x1, y1): where distances are Euclidean, no zone reaches past them."""
        self.searches = 0
        self._index, self._bounds = index, bounds
        self._searcher = SkylineSearch(index.d)
        self._circles = CircleSearch(index.d, metric)
        self._zone: Zone | CircleZone | None = None

    def begin(self) -> None:
        self._zone = None

    def upto(self, x: Floats, y: Floats, first: int) -> int:
        zone = self._zone
        if zone is None:
            return first
        if isinstance(zone, CircleZone):
            return int(within(zone.metric, Circle(zone.place[0], zone.place[1], zone.radius), Path(x, y), first))
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
    """The candidates of a zone: their places (c, 2), static values by column, creation numbers, and static parts (2,
    c)."""

    places: Floats
    statics: Floats
    created: Ints
    parts: Floats


def _candidates(s: Scoring, zone: TopZone) -> Candidates:
    statics = np.ascontiguousarray(zone.statics.T).reshape(-1)
    found = Candidates(zone.places, statics, zone.created, np.empty((2, len(zone.slots))))
    _fill(s, found)
    return found


@float_kernel
def _fill(scoring: Scoring, candidates: Candidates) -> None:
    """Compute the static parts of all candidates."""
    n = candidates.created.size
    for i in range(n):
        candidates.parts[0, i], candidates.parts[1, i] = static_parts(scoring, candidates.statics, n, i)


@float_kernel
def _rate(scoring: Scoring, candidates: Candidates, x: float, y: float, far: Floats, scores: Floats) -> None:
    """Write the distances and scores of all candidates at (x, y)."""
    for i in range(candidates.created.size):
        far[i], scores[i] = _rated(scoring, candidates, i, x, y)


@float_internal
def _rated(scoring: Scoring, candidates: Candidates, i: int, x: float, y: float) -> tuple[float, float]:
    """The distance and score of a candidate."""
    far = distance(scoring.metric, x, y, candidates.places[i, 0], candidates.places[i, 1])
    return far, score_of(
        scoring, far, candidates.parts[0, i], candidates.parts[1, i], candidates.statics, candidates.created.size, i
    )


class Circle(NamedTuple):
    """A zone that is a circle."""

    x: float
    y: float
    radius: float


class Path(NamedTuple):
    """The places of a path, in order."""

    x: Floats
    y: Floats


@float_kernel
def within(metric: int, circle: Circle, path: Path, first: int) -> int:
    """The first place of a path, from `first` on, that is not strictly within a circle; the number of places if there
    is none."""
    i = first
    while i < path.x.size and distance(metric, circle.x, circle.y, path.x[i], path.y[i]) < circle.radius:
        i += 1
    return i


@float_kernel
def _same_best(
    scoring: Scoring,
    circle: Circle,
    candidates: Candidates,
    held: Ints,
    rest: Ints,
    ordered: bool,
    path: Path,
    first: int,
) -> int:
    """As `within`, or the first place where the candidates `held`, which are in order, are not the best, or with
    `ordered` are in another order."""
    x, y = path.x, path.y
    at = first
    same = True
    while at < x.size and same:
        same = distance(scoring.metric, circle.x, circle.y, x[at], y[at]) < circle.radius
        worst, youngest = -np.inf, -1
        for i in held:
            (_, score), created = _rated(scoring, candidates, i, x[at], y[at]), candidates.created[i]
            if score > worst or (score == worst and created > youngest):
                worst, youngest = score, created
            elif ordered:
                same = False
        for i in rest:
            _, score = _rated(scoring, candidates, i, x[at], y[at])
            if score < worst or (score == worst and candidates.created[i] < youngest):
                same = False
        if same:
            at += 1
    return at


@kernel
def _in_zone(zone: Zone, x: Floats, y: Floats, first: int) -> int:
    """The first place of a path, from `first` on, that is not in the zone of a skyline."""
    i = first
    inside = True
    while i < x.size and inside:
        px, py = x[i] - zone.place[0], y[i] - zone.place[1]
        inside = holds(zone.x, zone.y, zone.cut_x, zone.cut_y, zone.cut_end, zone.margin, px, py)
        if inside:
            i += 1
    return i
