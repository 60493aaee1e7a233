"""Skylines off Euclid and their circles against the definition.

The skyline at the place, the same everywhere inside, and the radius that the triangle inequality gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.kernels.metrics import FARTHEST, LOOSE, METRICS
from indexes.maps.kernels.skyline_scratch import empty_scratch
from indexes.maps.live.skyline_changes import CircleUpdater, Effect
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.circle import CircleSearch, CircleZone, lead
from tests.oracles.maps import circle, distances, skyline
from tests.support.values import pair
from tests.unit.maps.helpers import moved
from tests.unit.maps.sky_worlds import worlds_of
from tests.unit.maps.worlds import on_the_sphere

OFF_EUCLID = ("manhattan", "great-circle")


def within(metric: str, zone: CircleZone, rng: np.random.Generator, n: int) -> Iterator[Any]:
    """Places inside a zone, close to its border among them."""
    radius = min(zone.radius, 10.0 if metric == "manhattan" else FARTHEST)
    for far in (0.0, 0.999999 * radius, *(radius * rng.random(n - 2))):
        x, y = moved(metric, tuple(zone.place), far, rng.uniform(0, 6.3))
        x = (x + 180.0) % 360.0 - 180.0 if metric == "great-circle" else x
        if zone.holds(x, y):
            yield x, y


def loose(metric: str, points: np.ndarray, place: np.ndarray) -> float:
    """What a radius may be smaller, for rounding."""
    far = distances(metric, points, *place).max(initial=0.0)
    return 1e-12 * far if metric == "manhattan" else 1e-5 + 1e-11 * far if far < 1.3e7 else 3 * LOOSE


@pytest.mark.parametrize("metric", OFF_EUCLID)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_skyline_is_exact_and_the_same_inside_a_circle_of_the_radius_that_is_due(
    metric: str, data: st.DataObject, seed: int
) -> None:
    world = data.draw(worlds_of(metric))
    rng = np.random.default_rng(seed)
    index = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    searcher = CircleSearch(world.d, metric)
    for place in world.asked:
        expected = skyline(world.points, world.statics, *pair(place), metric)
        zone: Any = searcher.zone(index, *place)
        found = searcher.skyline(index, *place)
        assert zone.skyline.tolist() == found.tolist() and set(found.tolist()) == expected
        assert len(found) == len(expected)
        far = distances(metric, world.points, *place)
        assert (np.diff(far[found]) >= 0).all() and zone.distances.tolist() == far[found].tolist()
        due = circle(world.points, world.statics, *pair(place), metric)
        assert zone.radius <= due and zone.empty == (zone.radius == 0.0)
        assert zone.radius >= due - loose(metric, world.points, place)
        for x, y in within(metric, zone, rng, 8):
            assert skyline(world.points, world.statics, x, y, metric) == expected


@pytest.mark.parametrize("metric", OFF_EUCLID)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_circle_does_not_depend_on_what_is_in_the_base_and_what_in_the_delta(
    metric: str, data: st.DataObject, seed: int
) -> None:
    world = data.draw(worlds_of(metric))
    rng = np.random.default_rng(seed)
    n = len(world.points)
    some = rng.random(n) < 0.5
    index = PlaceIndex.build(world.points[some], world.statics[some], np.flatnonzero(some), fanout=world.fanout)
    index.put(np.flatnonzero(~some), world.points[~some], world.statics[~some])
    index.put([n], [[0.0, 0.0]], np.zeros((1, world.d)))
    moving = rng.random(n) < 0.2
    index.put(np.flatnonzero(moving), np.zeros((moving.sum(), 2)), world.statics[moving])
    index.put(np.flatnonzero(moving), world.points[moving], world.statics[moving])
    index.delete([n])
    whole = PlaceIndex.build(world.points, world.statics)
    searcher = CircleSearch(world.d, metric)
    for place in world.asked:
        a, b = (searcher.zone(one, *place) for one in (index, whole))
        assert a.skyline.tolist() == b.skyline.tolist() and a.radius == b.radius


@pytest.mark.parametrize("metric", OFF_EUCLID)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_a_circle_kept_or_shrunk_is_right_after_each_change_and_a_broken_one_has_another_skyline(
    metric: str, data: st.DataObject, seed: int
) -> None:
    world = data.draw(worlds_of(metric))
    rng = np.random.default_rng(seed)
    index = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    searcher, keeper = CircleSearch(world.d, metric), CircleUpdater()
    for place in world.asked:
        points, statics = dict(enumerate(world.points)), dict(enumerate(world.statics))
        zone: Any = searcher.zone(index, *place)
        for _ in range(6):
            slot = int(rng.integers(0, len(world.points) + 3))
            was = slot in zone.skyline
            if slot in points and rng.random() < 0.3:
                changed = keeper.delete(zone, slot)
                del points[slot], statics[slot]
            else:
                raw = rng.random((1, 2)) if rng.random() < 0.5 else rng.integers(0, 5, (1, 2)) / 4
                off = world._replace(points=raw)
                points[slot] = (off if metric == "manhattan" else on_the_sphere(off, seed)).points[0]
                if len(world.points) and rng.random() < 0.3:
                    points[slot] = world.points[rng.integers(len(world.points))]
                statics[slot] = rng.integers(0, 4, world.d) / 4
                changed = keeper.put(zone, slot, *pair(points[slot]), statics[slot])
            slots = sorted(points)
            rows = np.array([points[s] for s in slots]).reshape(-1, 2), np.array([statics[s] for s in slots])
            rows = rows[0], rows[1].reshape(len(slots), world.d)
            truth = {slots[i] for i in skyline(*rows, *pair(place), metric)}
            if changed.effect is Effect.BROKEN:
                assert was or truth != set(zone.skyline.tolist())
                break
            assert truth == set(zone.skyline.tolist())
            assert (changed.zone is zone) == (changed.effect is Effect.KEPT)
            assert changed.zone.radius < zone.radius or changed.effect is Effect.KEPT
            zone = changed.zone
            assert zone.radius <= circle(*rows, *pair(place), metric)
            for x, y in within(metric, zone, rng, 4):
                assert {slots[i] for i in skyline(*rows, x, y, metric)} == truth


@pytest.mark.parametrize("metric", OFF_EUCLID)
def test_an_object_takes_from_a_circle_what_it_takes_when_all_is_worked_out_anew(metric: str) -> None:
    rng = np.random.default_rng(5)
    points, statics = rng.random((120, 2)), rng.random((120, 2))
    points[20::2], statics[20::2] = (
        np.tile(points[:10], (5, 1)) + rng.normal(0, 0.03, (50, 2)),
        np.tile(statics[:10] + 0.01, (5, 1)),
    )
    searcher, keeper = CircleSearch(2, metric), CircleUpdater()
    index = PlaceIndex.build(points[:20], statics[:20], fanout=4)
    zone: Any = searcher.zone(index, 0.4, 0.6)
    effects = set()
    for slot in range(20, 120):
        index.put([slot], points[slot], statics[slot])
        effect, zone = keeper.put(zone, slot, *pair(points[slot]), statics[slot])
        fresh = searcher.zone(index, 0.4, 0.6)
        effects.add(effect)
        zone = fresh if effect is Effect.BROKEN else zone
        assert zone.radius == fresh.radius and zone.skyline.tolist() == fresh.skyline.tolist()
    assert effects == set(Effect)


@pytest.mark.parametrize("metric", OFF_EUCLID)
@pytest.mark.parametrize("d", [0, 1, 2, 3])
def test_a_walk_among_objects_that_change_is_exact_at_every_step(metric: str, d: int) -> None:
    rng = np.random.default_rng(d)
    n, unit = 60, 1.0 if metric == "manhattan" else 1.0 / 111_000.0
    points, statics = rng.random((n, 2)), rng.random((n, d))
    if metric == "great-circle":
        points = np.column_stack([(points[:, 0] + 359.5) % 360.0 - 180.0, points[:, 1] + 60.0])  # astride 180 degrees
    index = PlaceIndex.build(points, statics, fanout=6)
    there = np.ones(n, bool)
    searcher, keeper = CircleSearch(d, metric), CircleUpdater()
    place = points[0] + 0.01
    zone: Any = searcher.zone(index, *place)
    inside = asked = 0
    for step in range(200):
        slot = int(rng.integers(0, n))
        effect = Effect.KEPT
        if step % 3 == 0:
            if there[slot] and rng.random() < 0.4:
                index.delete([slot])
                there[slot] = False
                effect, zone = keeper.delete(zone, slot)
            else:
                statics[slot] = rng.random(d)
                index.put([slot], points[slot], statics[slot])
                there[slot] = True
                effect, zone = keeper.put(zone, slot, *pair(points[slot]), statics[slot])
        if step % 60 == 59:
            index = index.folded(fanout=6)
        place = place + rng.normal(0, 0.0005, 2) * (unit if metric == "manhattan" else 1.0)
        place[0] = (place[0] + 180.0) % 360.0 - 180.0
        if effect is Effect.BROKEN or not zone.holds(*place):
            zone = searcher.zone(index, *place)
            asked += 1
        else:
            inside += 1
        slots = np.flatnonzero(there)
        truth = skyline(points[there], statics[there], *pair(place), metric)
        assert set(zone.skyline.tolist()) == {int(slots[i]) for i in truth}
    assert inside > asked / 4 > 0


@pytest.mark.parametrize("metric", OFF_EUCLID)
@pytest.mark.parametrize("d", [0, 1, 2, 3])
def test_among_thousands_under_full_nodes_and_a_delta_all_is_exact(metric: str, d: int) -> None:
    rng = np.random.default_rng(d)
    points, statics = rng.normal(0.5, 0.2, (900, 2)), rng.random((900, d))
    if metric == "great-circle":
        points = np.column_stack([(points[:, 0] * 300.0) % 360.0 - 180.0, np.clip(points[:, 1] * 180 - 90, -90, 90)])
    index, searcher = PlaceIndex.build(points[:800], statics[:800]), CircleSearch(d, metric)
    index.put(np.arange(800, 900), points[800:], statics[800:])
    for place in points[rng.integers(0, 900, 2)] * 0.99:
        expected = skyline(points, statics, *pair(place), metric)
        zone: Any = searcher.zone(index, *place)
        assert set(zone.skyline.tolist()) == set(searcher.skyline(index, *place).tolist()) == expected
        due = circle(points, statics, *pair(place), metric)
        assert due - loose(metric, points, place) <= zone.radius <= due
        for x, y in within(metric, zone, rng, 2):
            assert skyline(points, statics, x, y, metric) == expected


def test_where_nothing_bounds_it_a_circle_is_everywhere() -> None:
    for points, statics in (
        (np.empty((0, 2)), np.empty((0, 2))),
        (np.array([[0.0, 0.0], [3.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])),
        (np.full((2, 2), 0.5), np.ones((2, 2))),
        (np.full((2, 2), 0.5), np.array([[0.0, 0.0], [1.0, 0.0]])),
    ):
        zone = CircleSearch(2, "manhattan").zone(PlaceIndex.build(points, statics), 0.2, 0.1)
        assert zone.radius == math.inf and not zone.empty and zone.holds(1e200, -1e200)
        assert set(zone.skyline.tolist()) == skyline(points, statics, 0.2, 0.1, "manhattan")


def test_statically_equal_objects_as_far_are_both_in_and_leave_no_circle() -> None:
    points = np.array([[180.0, 10.0], [180.0, -10.0], [-180.0, 60.0]])
    zone = CircleSearch(1, "great-circle").zone(PlaceIndex.build(points, np.ones((3, 1))), 180.0, 0.0)
    assert sorted(zone.skyline.tolist()) == [0, 1] and zone.empty and not zone.holds(180.0, 0.0)


def test_a_worse_object_beside_a_better_one_bounds_nothing_though_a_nearer_one_dominates_it() -> None:
    """Object 2 is at the place of member 1, which is better. Member 0 is nearer and no better than 1."""
    points, statics = np.array([[0.1, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    searcher, keeper = CircleSearch(2, "manhattan"), CircleUpdater()
    zone: Any = searcher.zone(PlaceIndex.build(points, statics), 0.0, 0.0)
    assert zone.skyline.tolist() == [0, 1] and zone.radius == math.inf
    assert keeper.put(zone, 3, 1.0, 0.0, np.array([3.0, 3.0])).effect is Effect.KEPT
    assert keeper.put(zone, 3, 1.0, 0.5, np.array([3.0, 3.0])).zone.radius == pytest.approx(0.7)


def test_places_too_far_for_numbers_are_told_apart_and_leave_circles_that_hold() -> None:
    points, statics = np.array([[1.7e308, 1.7e308], [-1.7e308, 1.7e308], [1.0, 0.0]]), np.array([[1.0], [1.0], [2.0]])
    zone = CircleSearch(1, "manhattan").zone(PlaceIndex.build(points, statics), 0.0, 0.0)
    with np.errstate(over="ignore"):
        assert set(zone.skyline.tolist()) == skyline(points, statics, 0.0, 0.0, "manhattan") == {0, 1, 2}
    assert zone.empty
    zone = CircleSearch(1, "manhattan").zone(PlaceIndex.build(points[1:], [[2.0], [1.0]]), 0.0, 0.0)
    assert zone.skyline.tolist() == [1] and 0.8e308 < zone.radius < 0.9e308


def test_a_search_that_runs_out_of_room_begins_anew_with_more() -> None:
    rng = np.random.default_rng(4)
    points, statics = rng.random((400, 2)), rng.random((400, 1))
    statics = np.hstack([statics, -statics])  # none is statically better than another
    searcher = CircleSearch(2, "manhattan")
    searcher._scratch = empty_scratch(2, 8, 16, 6)
    index = PlaceIndex.build(points, statics, fanout=4)
    assert len(searcher.zone(index, 0.5, 0.5).skyline) == 400 and searcher.nodes > 100


@given(near=st.floats(0, 2.1e7), far=st.floats(0, 2.1e7), more=st.one_of(st.floats(0, 10), st.floats(0, 2.1e7)))
@settings(max_examples=300)
def test_a_lead_never_falls_as_the_farther_object_recedes_and_never_passes_half(
    near: float, far: float, more: float
) -> None:
    for metric in METRICS.values():
        assert lead(metric, near, far) <= lead(metric, near, far + more)
        assert lead(metric, near, far) <= (far - near) / 2 and lead(metric, far, far) <= 0.0


@pytest.mark.parametrize("metric", OFF_EUCLID)
def test_where_the_place_is_between_two_objects_the_skyline_changes_where_the_circle_ends(metric: str) -> None:
    """Of two equal objects one is ahead and one behind: half the difference is exactly how far one may go."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        q, angle = (rng.uniform(-180, 180), rng.uniform(-89, 89)), rng.uniform(0, 6.3)
        angle = angle if metric == "great-circle" else 0.0
        back, ahead = np.sort(rng.random(2) * 10.0 ** rng.uniform(-1, 6.9))
        there = [moved(metric, q, far, angle + turn) for far, turn in ((back, math.pi), (ahead, 0.0))]
        points = np.array(there)
        index = PlaceIndex.build(points, np.zeros((2, 1)))
        zone = CircleSearch(1, metric).zone(index, *q)
        due = (ahead - back) / 2
        assert zone.skyline.tolist() == [0] and due - 1e-5 - 1e-10 * ahead <= zone.radius <= due + 1e-8
        inside, outside = (moved(metric, q, far, angle) for far in (zone.radius, zone.radius + 2e-5 + 1e-10 * ahead))
        assert not zone.holds(*inside) or skyline(points, np.zeros((2, 1)), *inside, metric) == {0}
        assert skyline(points, np.zeros((2, 1)), *outside, metric) == {1}
