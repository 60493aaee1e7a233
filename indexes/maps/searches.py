"""Searches of a map: a top-k or a skyline with its zone, in arrays that are reused from search to search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints
from indexes.maps.config import Point
from indexes.maps.kernels.metrics import EUCLIDEAN, METRICS
from indexes.maps.kernels.scores import Scoring
from indexes.maps.object_index import PlaceIndex
from indexes.maps.results import CircleOf
from indexes.maps.zones.circle import CircleSearch, CircleZone
from indexes.maps.zones.geojson import geometries_at
from indexes.maps.zones.skyline import SkylineSearch, Zone
from indexes.maps.zones.top import TopSearch, TopZone


@dataclass(frozen=True, slots=True)
class TopQuery:
    """The k best by a score, with a zone from m candidates; `ordered`: their order holds in the zone too."""

    k: int
    m: int
    scoring: Scoring
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class SkylineQuery:
    """The skyline."""


Query = TopQuery | SkylineQuery

AnswerZone = TopZone | Zone | CircleZone
"""An answer with its zone: of a top-k, or of a skyline, whose zone is a polygon under the Euclidean metric, else a
circle."""


class Skylines(NamedTuple):
    """Skylines at places, one after the other, with their zones as answers show them."""

    slots: Ints  # by member, nearest first
    distances: Floats  # by member
    ends: list[int]  # by place: behind its last member
    zones: Sequence[dict[str, Any] | CircleOf | None]  # by place


Found = Sequence[AnswerZone] | Skylines
"""Answers at places, with their zones."""


class Searches:
    """Searches by one metric, from one thread at a time."""

    def __init__(self, d: int, bounds: Floats | Sequence[float], metric: str) -> None:
        """Among objects with d static values; `bounds` are the map's (x0, y0, x1, y1)."""
        self._bounds = np.asarray(bounds, np.float64)
        self._plane = METRICS[metric] == EUCLIDEAN
        self._polygons, self._circles = SkylineSearch(d), CircleSearch(d, metric)
        self._tops: TopSearch | None = None

    def zones(self, index: PlaceIndex, query: Query, places: Sequence[Point]) -> list[AnswerZone]:
        """The answer to a query at each of some places, with its zone, as standing queries hold it. Reads the index
        only."""
        if isinstance(query, TopQuery):
            if self._tops is None or self._tops.index is not index:
                self._tops = TopSearch(index)
            return list(self._tops.zones(places, query.k, query.m, query.scoring, query.ordered))
        if self._plane:
            return [self._polygons.zone(index, *at, self._bounds) for at in places]
        return [self._circles.zone(index, *at) for at in places]

    def answers(self, index: PlaceIndex, query: Query, places: Sequence[Point]) -> Found:
        """As `zones`, with no more than what answers show."""
        if isinstance(query, TopQuery) or not self._plane:
            return self.zones(index, query, places)
        some = np.array(places, np.float64).reshape(-1, 2)
        rows = self._polygons.many(index, some, self._bounds)
        return Skylines(rows.slot, rows.distance, rows.end.tolist(), geometries_at(some, rows))
