"""Searches of a map, of all kinds, in arrays that are used again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from indexes.maps.live import Ask, Held, SkylineAsk
from indexes.maps.model import MapConfig, Point
from indexes.maps.places import PlaceIndex
from indexes.maps.sky_circle import CircleSearcher
from indexes.maps.top import TopSearch
from indexes.maps.zones import Searcher


class Searches:
    """Searches, one at a time."""

    def __init__(self, config: MapConfig) -> None:
        d = len(config.attributes)
        self._bounds = np.array(config.bounds)
        self._plane = config.metric == "euclidean"
        self._polygons, self._circles = Searcher(d), CircleSearcher(d, config.metric)
        self._tops: TopSearch | None = None

    def held(self, index: PlaceIndex, ask: Ask, locations: Sequence[Point]) -> list[Held]:
        """What a standing query would hold at each of some places."""
        if not isinstance(ask, SkylineAsk):
            if self._tops is None or self._tops.index is not index:
                self._tops = TopSearch(index)
            return list(self._tops.zones(locations, ask.k, ask.m, ask.scoring, ask.ordered))
        if self._plane:
            return [self._polygons.zone(index, *at, self._bounds) for at in locations]
        return [self._circles.zone(index, *at) for at in locations]
