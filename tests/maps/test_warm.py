"""Once the kernels of maps are warm, none is compiled while they are used."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from indexes.maps.changes import Keeper
from indexes.maps.places import PlaceIndex
from indexes.maps.warm import exercise, warm
from indexes.maps.zones import Searcher
from tests.maps.worlds import BOUNDS
from tests.service.test_warm import compiled


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_nothing_is_compiled_while_maps_are_used() -> None:
    warm()
    before = compiled()
    for d in (1, 2, 5):
        exercise(d)
        empty = PlaceIndex.build(np.empty((0, 2)), np.empty((0, d)))
        Searcher(d).zone(empty, 0.5, 0.5, BOUNDS)
        empty.put([3], [[0.0, 0.0]], np.zeros((1, d)))
        Keeper(d).put(Searcher(d).zone(empty.folded(), 5, 5, BOUNDS), np.int32(1), 1, 2, np.ones(d, int))
    grown = {name: (before.get(name, 0), n) for name, n in compiled().items() if n > before.get(name, 0)}
    assert not grown, f"compiled while in use: {grown}"
