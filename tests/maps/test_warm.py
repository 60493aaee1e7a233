"""Once the kernels of maps are warm, none is compiled while they are used."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from indexes.maps.attributes import Attribute
from indexes.maps.changes import CircleKeeper, Keeper
from indexes.maps.live import Changes, LiveQueries, SkylineAsk, TopAsk
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import expression_scoring, scoring
from indexes.maps.sky_circle import CircleSearcher
from indexes.maps.top import TopSearch
from indexes.maps.top_changes import TopKeeper
from indexes.maps.warm import exercise, warm
from indexes.maps.zones import Searcher
from tests.compiling import compiled
from tests.maps.worlds import BOUNDS

WAYS = (
    scoring("waspas", [Attribute("x", True, (0, 5))], {"x": 1, "distance": 2}, "manhattan", 2),
    expression_scoring("distance + x * 2", [Attribute("x", True, (0, 5))], "great-circle", 2),
)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_nothing_is_compiled_while_maps_are_used() -> None:
    warm()
    with compiled() as kernels:
        for d in (1, 2, 5):
            exercise(d)
            empty = PlaceIndex.build(np.empty((0, 2)), np.empty((0, d)))
            Searcher(d).zone(empty, 0.5, 0.5, BOUNDS)
            empty.put([3], [[0.0, 0.0]], np.zeros((1, d)))
            Keeper(d).put(Searcher(d).zone(empty.folded(), 5, 5, BOUNDS), np.int32(1), 1, 2, np.ones(d, int))
            zone = TopSearch(empty).zone((1, 2), 1, 2, WAYS[d % 2])
            TopKeeper(d).put(zone, 7, 3, 4, np.ones(d, int), 9, (1, 2))
            zone.ranked(1, 2)
            circles = CircleSearcher(d, "great-circle")
            CircleKeeper().put(circles.zone(empty, 1, 2), np.int32(2), 3, 4, np.ones(d, int))
            circles.zone(empty.folded(), 1, 2).holds(2, 3)
            live = LiveQueries(empty, [], BOUNDS)
            live.put(
                [4, 2],
                [TopAsk(2, 1, scoring("weighted_sum", [], {"distance": 1}, scale=2)), SkylineAsk()],
                [(1, 2)] * 2,
            )
            slots = np.array([3, 9])
            live.apply(Changes(slots, slots > 3, np.ones((2, 2)), np.ones((2, d)), slots))
            live.move(4, (3, 4))
    assert not kernels
