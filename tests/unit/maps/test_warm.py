"""Once the kernels of maps are warm, none is compiled while they are used."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from indexes.maps.attributes import Attribute
from indexes.maps.live.queries import Changes, LiveQueries
from indexes.maps.live.skyline_changes import CircleUpdater, SkylineUpdater
from indexes.maps.object_index import PlaceIndex
from indexes.maps.scoring import expression_scoring, scoring
from indexes.maps.searches import SkylineQuery, TopQuery
from indexes.maps.warm import exercise, warm
from indexes.maps.zones.circle import CircleSearch
from indexes.maps.zones.skyline import SkylineSearch
from indexes.maps.zones.top import TopSearch
from tests.support.compiling import compiled
from tests.support.values import UNCOMPILED
from tests.unit.maps.worlds import BOUNDS

WAYS = (
    scoring("waspas", [Attribute("x", True, (0, 5))], {"x": 1, "distance": 2}, "manhattan", 2),
    expression_scoring("distance + x * 2", [Attribute("x", True, (0, 5))], "great-circle", 2),
)


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_nothing_is_compiled_while_maps_are_used() -> None:
    warm()
    with compiled() as kernels:
        for d in (1, 2, 5):
            exercise(d)
            empty = PlaceIndex.build(np.empty((0, 2)), np.empty((0, d)))
            SkylineSearch(d).zone(empty, 0.5, 0.5, BOUNDS)
            empty.put([3], [[0.0, 0.0]], np.zeros((1, d)))
            SkylineUpdater(d).put(
                SkylineSearch(d).zone(empty.folded(), 5, 5, BOUNDS), cast("int", np.int32(1)), 1, 2, np.ones(d, int)
            )
            zone = TopSearch(empty).zone((1, 2), 1, 2, WAYS[d % 2])
            zone.ranked(1, 2)
            circles = CircleSearch(d, "great-circle")
            CircleUpdater().put(circles.zone(empty, 1, 2), cast("int", np.int32(2)), 3, 4, np.ones(d, int))
            circles.zone(empty.folded(), 1, 2).holds(2, 3)
            live = LiveQueries(empty, [], BOUNDS)
            live.put(
                [4, 2],
                [TopQuery(2, 1, scoring("weighted_sum", [], {"distance": 1}, scale=2)), SkylineQuery()],
                [(1, 2)] * 2,
            )
            slots = np.array([3, 9])
            live.apply(Changes(slots, slots > 3, np.ones((2, 2)), np.ones((2, d)), slots))
            live.move(4, (3, 4))
    assert not kernels
