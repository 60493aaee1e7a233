"""What a change does to a zone that was given away, and walks among objects that change: exact at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.kernels.skyline_scratch import VERTICES, empty_scratch
from indexes.maps.live.skyline_changes import Effect, SkylineUpdater
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.skyline import SkylineSearch
from tests.oracles.maps import skyline
from tests.support.values import pair
from tests.unit.maps.worlds import BOUNDS, worlds


@given(world=worlds, seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_zone_kept_or_shrunk_is_right_after_each_change_and_a_broken_one_has_another_skyline(
    world: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    index = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    searcher, keeper = SkylineSearch(world.d), SkylineUpdater(world.d)
    for place in world.asked:
        points = dict(enumerate(world.points))
        statics = dict(enumerate(world.statics))
        zone: Any = searcher.zone(index, *pair(place), BOUNDS)
        for _ in range(6):
            slot = int(rng.integers(0, len(world.points) + 3))
            if slot in points and rng.random() < 0.3:
                changed = keeper.delete(zone, slot)
                was = slot in zone.skyline
                del points[slot], statics[slot]
            else:
                was = slot in zone.skyline
                points[slot] = rng.random(2) if rng.random() < 0.5 else rng.integers(0, 4, 2) / 4
                statics[slot] = rng.integers(0, 4, world.d) / 4
                changed = keeper.put(zone, slot, *pair(points[slot]), statics[slot])
            slots = sorted(points)
            rows = np.array([points[s] for s in slots]).reshape(-1, 2), np.array([statics[s] for s in slots])
            rows = rows[0], rows[1].reshape(-1, world.d)

            def found(
                x: float, y: float, rows: tuple[np.ndarray, np.ndarray] = rows, slots: list[int] = slots
            ) -> set[int]:
                return {slots[i] for i in skyline(*rows, x, y)}

            truth = found(*place)
            if changed.effect is Effect.BROKEN:
                assert was or truth != set(zone.skyline.tolist())
                break
            assert truth == set(zone.skyline.tolist())
            assert (changed.zone is zone) == (changed.effect is Effect.KEPT)
            zone = changed.zone
            for x, y in rng.uniform(zone.box[:2], zone.box[2:], (10, 2)):
                assert not zone.holds(x, y) or found(x, y) == truth


def test_an_object_takes_from_a_zone_what_it_takes_when_all_is_worked_out_anew() -> None:
    rng = np.random.default_rng(5)
    points, statics = rng.random((40, 2)), rng.random((40, 2))
    searcher, keeper = SkylineSearch(2), SkylineUpdater(2)
    index = PlaceIndex.build(points[:20], statics[:20], fanout=4)
    zone: Any = searcher.zone(index, 0.4, 0.6, BOUNDS)
    effects = set()
    for slot in range(20, 40):
        index.put([slot], points[slot], statics[slot])
        effect, zone = keeper.put(zone, slot, *pair(points[slot]), statics[slot])
        fresh = searcher.zone(index, 0.4, 0.6, BOUNDS)
        effects.add(effect)
        if effect is Effect.BROKEN:
            zone = fresh
        for x, y in rng.random((50, 2)):
            assert zone.holds(x, y) == fresh.holds(x, y)
    assert effects == set(Effect)


def test_a_change_that_needs_more_room_than_there_was_is_held_against_a_zone_all_the_same() -> None:
    ring = np.array([(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 3 * VERTICES, endpoint=False)]) * 0.4
    points = np.concatenate([ring + 0.5, [[0.5, 0.5]]])
    zone = SkylineSearch(2).zone(PlaceIndex.build(points, np.zeros((len(points), 2))), 0.501, 0.5, BOUNDS)
    keeper = SkylineUpdater(2)
    keeper._scratch = empty_scratch(2, 1, 1, 8)
    effect, smaller = keeper.put(zone, len(points), 0.6, 0.5, np.zeros(2))
    assert effect is Effect.SHRUNK and zone.holds(0.56, 0.5) and not smaller.holds(0.56, 0.5)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_walk_among_objects_that_change_is_exact_at_every_step(d: int) -> None:
    rng = np.random.default_rng(d)
    n = 120
    points, statics = rng.random((n, 2)), rng.random((n, d))
    index = PlaceIndex.build(points, statics, fanout=6)
    there = np.ones(n, bool)
    searcher, keeper = SkylineSearch(d), SkylineUpdater(d)
    place = np.array([0.5, 0.5])
    zone: Any = searcher.zone(index, *pair(place), BOUNDS)
    inside = asked = 0
    for step in range(300):
        slot = int(rng.integers(0, n))
        effect = Effect.KEPT
        if step % 3 == 0:
            if there[slot] and rng.random() < 0.4:
                index.delete([slot])
                there[slot] = False
                effect, zone = keeper.delete(zone, slot)
            else:
                points[slot] += rng.normal(0, 0.05, 2)
                statics[slot] = rng.random(d)
                index.put([slot], points[slot], statics[slot])
                there[slot] = True
                effect, zone = keeper.put(zone, slot, *pair(points[slot]), statics[slot])
        if step % 60 == 59:
            index = index.folded(fanout=6)
        place = place + rng.normal(0, 0.002, 2)
        if effect is Effect.BROKEN or not zone.holds(*place):
            zone = searcher.zone(index, *pair(place), BOUNDS)
            asked += 1
        else:
            inside += 1
        slots = np.flatnonzero(there)
        assert set(zone.skyline.tolist()) == {int(slots[i]) for i in skyline(points[there], statics[there], *place)}
    assert inside > asked / 4 > 0
