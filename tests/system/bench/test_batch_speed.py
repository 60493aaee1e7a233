"""Batches and their events one by one, as the benchmark runs them."""

from __future__ import annotations

import numpy as np
import pytest

from bench.boards import batch_speed
from bench.boards.workload import make_world, subscription_index
from bench.report import Report


@pytest.mark.parametrize("dense", [False, True])
def test_both_ways_end_in_the_same_state(dense: bool) -> None:
    world, forest = make_world(300, 200), subscription_index(500)
    events = batch_speed.changes_of(world)
    last = world.y.copy()
    last[events.row] = events.y
    made = []
    for way in (batch_speed.one_by_one, batch_speed.together):
        state = batch_speed.start(batch_speed.new_painter(forest, dense), world)
        made.append(way(state, events))
        o = state.painter.objects.arrays
        assert np.array_equal(o.y[o.pos[:300]], last)
        if way is batch_speed.one_by_one:
            assert np.array_equal(state.view.arrays.y[state.view.arrays.pos[:300]], last)
    assert 0 < made[1] < made[0]


def test_every_size_is_shown_and_judged() -> None:
    said: list[str] = []
    batch_speed.show(Report(said.append), batch_speed.Size(n=(300,), m=500, events=(20, 60), rounds=2))
    page = "\n".join(said)
    for kind in ("sparse", "dense"):
        for events in (20, 60):
            assert page.count(f"{kind}, n = 300, {events} events") == 2
