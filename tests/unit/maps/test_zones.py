"""Skylines and their zones against the definition.

The skyline at the place, the same everywhere inside, another one outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.baselines.single_pass import single_pass
from bench.baselines.skyline import unpruned_pass
from indexes.maps.kernels.skyline_scratch import BOX, CHORD, empty_scratch
from indexes.maps.kernels.skylines import GROWN, MARGIN
from indexes.maps.kernels.two_phase import two_phase
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.skyline import SkylineSearch, Zone, box_around
from tests.oracles.maps import skyline, squared_distances
from tests.support.values import pair as both
from tests.unit.maps.worlds import BOUNDS, World, worlds

SEARCHES = {"two phases": two_phase, "one pass": single_pass, "unpruned": unpruned_pass}


def ask(world: World, place: np.ndarray, search: Any = two_phase) -> Zone:
    index = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    return SkylineSearch(world.d).zone(index, *both(place), BOUNDS, search)


@pytest.mark.parametrize("search", SEARCHES)
@given(world=worlds)
@settings(max_examples=150, deadline=None)
def test_the_skyline_is_exact_and_the_same_inside_the_zone_and_another_outside(search: str, world: World) -> None:
    rng = np.random.default_rng(0)
    for place in world.asked:
        expected = skyline(world.points, world.statics, *place)
        zone = ask(world, place, SEARCHES[search])
        assert set(zone.skyline.tolist()) == expected
        x0, y0, x1, y1 = zone.box
        for x, y in rng.uniform((x0, y0), (x1, y1), (15, 2)):
            same = skyline(world.points, world.statics, x, y) == expected
            if zone.holds(x, y):
                assert same
            elif not zone.empty and not zone._replace(margin=-MARGIN).holds(x, y):
                assert not same
        for x, y in np.random.default_rng(1).normal(place, 1e-3, (5, 2)):
            assert not zone.holds(x, y) or skyline(world.points, world.statics, x, y) == expected


@given(world=worlds)
@settings(max_examples=100, deadline=None)
def test_a_search_for_the_skyline_alone_finds_it_nearest_first(world: World) -> None:
    index = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    searcher = SkylineSearch(world.d)
    for place in world.asked:
        found = searcher.skyline(index, *place).tolist()
        assert set(found) == skyline(world.points, world.statics, *place) and len(set(found)) == len(found)
        assert (np.diff(squared_distances(world.points, *place)[found]) >= 0).all()
        for search in SEARCHES.values():
            assert searcher.zone(index, *both(place), BOUNDS, search).skyline.tolist() == found


@given(world=worlds)
@settings(max_examples=100, deadline=None)
def test_just_outside_each_edge_that_objects_make_the_skyline_is_another(world: World) -> None:
    for place in world.asked:
        zone = ask(world, place)
        expected = skyline(world.points, world.statics, *place)
        for inside, outside, is_box in crossings(zone):
            if zone.holds(*inside) and not is_box:
                assert skyline(world.points, world.statics, *inside) == expected
                assert skyline(world.points, world.statics, *outside) != expected


def crossings(zone: Zone) -> Iterator[Any]:
    """A point on either side of the middle of every edge that is not too short, inside the zone first.

    And whether the edge is the box's or lies in a cutter.
    """
    polygons = [(zone.x, zone.y, zone.near, 1.0)]
    first = 0
    for end in zone.cut_end:
        polygons.append((zone.cut_x[first:end], zone.cut_y[first:end], zone.cut_far[first:end], -1.0))
        first = end
    for x, y, label, sign in polygons:
        ring = np.column_stack([x, y])
        for a, b, pair in zip(ring, np.roll(ring, -1, axis=0), label, strict=True):
            length = np.hypot(*(b - a))
            if length > 1e-5:
                inward = sign * 1e-7 * np.array([-(b - a)[1], (b - a)[0]]) / length
                middle = zone.place + (a + b) / 2
                yield middle + inward, middle - inward, pair in (BOX, CHORD)


def test_edges_are_named_by_the_objects_that_are_as_far() -> None:
    world = World(np.array([[0.2, 0.5], [0.8, 0.5], [0.3, 0.9]]), np.array([[2.0], [1.0], [2.0]]), 2, np.zeros((0, 2)))
    zone = ask(world, np.array([0.25, 0.4]))
    pairs = {(int(a), int(b)) for a, b in zip(zone.near, zone.far, strict=True)}
    assert zone.skyline.tolist() == [0, 1]
    assert pairs == {(BOX, BOX), (0, 1), (0, 2)}
    for a, b, end_x, end_y in zip(zone.near, zone.far, zone.x, zone.y, strict=True):
        if a != BOX:
            d2 = squared_distances(world.points, zone.place[0] + end_x, zone.place[1] + end_y)
            assert d2[a] == pytest.approx(d2[b])


def test_a_zone_may_have_a_hole_and_may_be_in_pieces() -> None:
    hole = World(
        np.array([[0.3, 0.5], [0.7, 0.5], [0.5, 0.3], [0.5, 0.7], [0.5, 0.5]]),
        np.array([[0.1, 0.4], [0.2, 0.3], [0.3, 0.2], [0.4, 0.1], [0.5, 0.5]]),
        4,
        np.zeros((0, 2)),
    )
    zone = ask(hole, np.array([0.1, 0.1]))
    assert len(zone.cut_end) == 1 and zone.cut_owner.tolist() == [4]
    assert not zone.holds(0.5, 0.5) and zone.holds(0.9, 0.9)
    strip = World(
        np.array([[0.2, 0.5], [0.8, 0.5], [0.5, 0.5]]), np.array([[0.1, 0.4], [0.4, 0.1], [0.5, 0.5]]), 4, hole.asked
    )
    zone = ask(strip, np.array([0.1, 0.1]))
    assert zone.holds(0.1, 0.9) and not zone.holds(0.5, 0.9) and zone.holds(0.9, 0.9)


def test_statically_equal_objects_as_far_are_both_in_and_leave_no_zone() -> None:
    world = World(np.array([[0.25, 0.5], [0.75, 0.5]]), np.ones((2, 2)), 2, np.zeros((0, 2)))
    for search in SEARCHES.values():
        zone = ask(world, np.array([0.5, 0.1]), search)
        assert zone.skyline.tolist() == [0, 1] and zone.empty and not zone.holds(0.5, 0.1)


def test_pruning_is_not_relied_on_where_a_place_is_on_a_border() -> None:
    """What is left of the polygon does not hold the place; object 12 was pruned."""
    thirds = ["22", "22", "32", "12", "33", "01", "32", "12", "30", "03", "02", "13", "31"]
    points = np.array([[int(both[0]) / 3, int(both[1]) / 3] for both in thirds])
    statics = np.array([0.76, 0.17, 0.36, 0.48, 0.07, 0.03, 0.75, 0.15, 0.30, 0.68, 0.26, 0.80, 0.23])[:, None]
    for fanout in (2, 3, 4, 5):
        world = World(points, statics, fanout, np.zeros((0, 2)))
        for search in SEARCHES.values():
            assert set(ask(world, np.array([1.0, 2 / 3]), search).skyline.tolist()) == {2, 4, 5, 12}


def test_the_same_object_twice_is_in_twice_and_bounds_nothing() -> None:
    world = World(np.full((2, 2), 0.5), np.ones((2, 2)), 2, np.zeros((0, 2)))
    zone = ask(world, np.array([0.5, 0.1]))
    assert zone.skyline.tolist() == [0, 1] and zone.holds(0.9, 0.9)


def test_without_objects_the_zone_is_the_box() -> None:
    world = World(np.empty((0, 2)), np.empty((0, 2)), 2, np.zeros((0, 2)))
    for search in SEARCHES.values():
        zone = ask(world, np.array([0.5, 0.1]), search)
        assert not len(zone.skyline) and zone.holds(0.01, 0.99) and not zone.holds(1.01, 0.5)


def test_no_zone_reaches_past_the_bounds_grown_round_a_place_outside_them() -> None:
    bounds = np.array([0.0, 0.0, 2.0, 1.0])
    assert box_around(bounds, 0.01, 1.0).tolist() == bounds.tolist()
    assert box_around(bounds, 3.0, 0.5).tolist() == [0.0, 0.0, 3.0 + 2 * GROWN, 1.0]
    assert box_around(bounds, -1.0, -1.0).tolist() == [-1.0 - 2 * GROWN, -1.0 - 2 * GROWN, 2.0, 1.0]


@pytest.mark.filterwarnings("ignore:overflow")
def test_places_too_far_for_squares_leave_no_zone_and_an_exact_skyline() -> None:
    points = np.array([[1e200, 0.0], [-1e200, 0.0], [0.5, 0.5]])
    world = World(points, np.array([[1.0], [1.0], [2.0]]), 2, np.zeros((0, 2)))
    zone = ask(world, np.array([0.5, 0.1]))
    assert set(zone.skyline.tolist()) == skyline(points, world.statics, 0.5, 0.1) == {0, 1, 2}
    assert zone.empty


def test_a_search_that_runs_out_of_room_begins_anew_with_more() -> None:
    rng = np.random.default_rng(4)
    points, statics = rng.random((400, 2)), rng.random((400, 1))
    statics = np.hstack([statics, -statics])  # none is statically better than another
    searcher = SkylineSearch(2)
    searcher._scratch = empty_scratch(2, 8, 16, 6)
    index = PlaceIndex.build(points, statics, fanout=4)
    assert len(searcher.zone(index, 0.5, 0.5, BOUNDS).skyline) == 400
    ring = np.array([(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 200, endpoint=False)]) * 0.4 + 0.5
    points = np.concatenate([ring, [[0.5, 0.5]]])
    zone = searcher.zone(PlaceIndex.build(points, np.zeros((201, 2)), fanout=4), 0.501, 0.5, BOUNDS)
    assert zone.skyline.tolist() == [200] and len(zone.x) == 200


@given(world=worlds, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_zone_does_not_depend_on_what_is_in_the_base_and_what_in_the_delta(world: World, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = len(world.points)
    some = rng.random(n) < 0.5
    index = PlaceIndex.build(world.points[some], world.statics[some], np.flatnonzero(some), fanout=world.fanout)
    index.put(np.flatnonzero(~some), world.points[~some], world.statics[~some])
    moved = rng.random(n) < 0.2
    index.put(np.flatnonzero(moved), world.points[moved] + 1.0, world.statics[moved])
    index.put(np.flatnonzero(moved), world.points[moved], world.statics[moved])
    whole = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    searcher = SkylineSearch(world.d)
    for place in world.asked:
        a, b = (searcher.zone(one, *both(place), BOUNDS) for one in (index, whole))
        assert a.skyline.tolist() == b.skyline.tolist() and a.empty == b.empty
        for x, y in rng.random((10, 2)):
            assert a.holds(x, y) == b.holds(x, y) or near_an_edge(a, x, y)


def near_an_edge(zone: Zone, x: float, y: float) -> bool:
    return zone._replace(margin=1e-7).holds(x, y) != zone._replace(margin=-1e-7).holds(x, y)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_among_thousands_under_full_nodes_and_a_delta_the_skyline_is_exact(d: int) -> None:
    rng = np.random.default_rng(d)
    points, statics = rng.normal(0.5, 0.2, (2_500, 2)), rng.random((2_500, d))
    index, searcher = PlaceIndex.build(points[:2_300], statics[:2_300]), SkylineSearch(d)
    index.put(np.arange(2_300, 2_500), points[2_300:], statics[2_300:])
    for x, y in rng.random((4, 2)):
        expected = skyline(points, statics, x, y)
        zone = searcher.zone(index, x, y, BOUNDS)
        assert set(zone.skyline.tolist()) == set(searcher.skyline(index, x, y).tolist()) == expected
        shape = np.column_stack([zone.x, zone.y]) + zone.place
        for px, py in rng.uniform(shape.min(axis=0), shape.max(axis=0), (5, 2)):
            assert zone.holds(px, py) == (skyline(points, statics, px, py) == expected) or near_an_edge(zone, px, py)
