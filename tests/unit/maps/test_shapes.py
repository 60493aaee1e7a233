"""A zone as GeoJSON: what is strictly inside the piece that holds the place is in the zone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones import skyline as zone_searches
from indexes.maps.zones.geojson import component, geometries_at, geometry
from indexes.maps.zones.skyline import SkylineSearch
from tests.oracles.maps import skyline
from tests.unit.maps.worlds import BOUNDS, worlds
from tests.unit.maps.worlds import world as make_world

HOLE = np.array([[0.3, 0.5], [0.7, 0.5], [0.5, 0.3], [0.5, 0.7], [0.5, 0.5]])
WORSE = np.array([[0.1, 0.4], [0.2, 0.3], [0.3, 0.2], [0.4, 0.1], [0.5, 0.5]])
STRIP = np.array([[0.25, 0.5], [0.75, 0.5], [0.5, 0.5]])
PAIR = STRIP[:2]


def zone_of(points: np.ndarray, statics: np.ndarray, x: float, y: float, bounds: np.ndarray = BOUNDS) -> Any:
    return SkylineSearch(statics.shape[1]).zone(PlaceIndex.build(points, statics, fanout=4), x, y, bounds)


@given(world=worlds)
@settings(max_examples=150, deadline=None)
def test_what_is_strictly_inside_the_rings_has_the_same_skyline(world: Any) -> None:
    rng = np.random.default_rng(0)
    for place in world.asked:
        zone = zone_of(world.points, world.statics, *place)
        rings = component(zone)
        if rings is None:
            continue
        shape = shapely.Polygon(rings[0], rings[1:])
        assert all(ring[0] == ring[-1] and len(ring) > 3 for ring in rings)
        assert shape.is_valid and shape.area > 0 and shape.exterior.is_ccw
        assert not any(hole.is_ccw for hole in shape.interiors)
        assert shape.distance(shapely.Point(place)) < 1e-9
        assert shapely.box(*zone.box).buffer(1e-9).contains(shape)
        expected = skyline(world.points, world.statics, *place)
        for x, y in rng.uniform(shape.bounds[:2], shape.bounds[2:], (15, 2)):
            point = shapely.Point(x, y)
            if shape.boundary.distance(point) > 1e-8 and shape.contains(point):
                assert zone.holds(x, y) and skyline(world.points, world.statics, x, y) == expected


def test_a_hole_is_a_hole() -> None:
    found = geometry(zone_of(HOLE, WORSE, 0.1, 0.1))
    assert found is not None and found["type"] == "Polygon" and len(found["coordinates"]) == 2
    assert shapely.Polygon(*found["coordinates"][:1], found["coordinates"][1:]).area < 1
    assert not shapely.Polygon(found["coordinates"][0], found["coordinates"][1:]).contains(shapely.Point(0.5, 0.5))


def test_only_the_piece_that_holds_the_place_is_given() -> None:
    rings = component(zone_of(STRIP, WORSE[[0, 3, 4]], 0.125, 0.125))
    assert rings is not None and len(rings) == 1
    # It ends before the bisector by more than the rounding error of distances.
    expected = np.array([[0.0, 0.0], [0.375, 0.0], [0.375, 1.0], [0.0, 1.0], [0.0, 0.0]])
    assert np.abs(np.array(rings[0]) - expected).max() < 1e-12 and 0.375 - rings[0][1][0] > 0.0


def test_a_zone_without_area_is_null() -> None:
    assert geometry(zone_of(PAIR, np.ones((2, 1)), 0.5, 0.125)) is None


def test_a_zone_too_small_for_numbers_where_it_is_is_null() -> None:
    zone = zone_of(PAIR, np.ones((2, 1)), 0.25, 0.125)
    assert component(zone) is not None
    assert component(zone._replace(place=zone.place + 1e18)) is None


def test_a_place_that_no_piece_of_its_zone_holds_has_none_of_them() -> None:
    for seed, place, cutters in ((1811, (1.0, 0.5), 1), (5451, (2 / 3, 0.0), 0)):
        world = make_world(seed)  # one of few such: the place is on the border of what is left out, on all sides
        zone = zone_of(world.points, world.statics, *place)
        assert not zone.empty and not zone.holds(*place) and len(zone.cut_end) == cutters
        assert geometry(zone) is None


def answered(searcher: SkylineSearch, index: PlaceIndex, asked: np.ndarray) -> list[Any]:
    """Members, distances, margin and geometry of each place, searched for in one call."""
    rows = searcher.many(index, np.array(asked), BOUNDS)
    ends = rows.end.tolist()
    parts = [slice(*both) for both in pairwise([0, *ends])]
    shapes = geometries_at(np.array(asked), rows)
    return [
        (rows.slot[part].tolist(), rows.distance[part].tolist(), margin, shape)
        for part, margin, shape in zip(parts, rows.margin.tolist(), shapes, strict=True)
    ]


@given(world=worlds, room=st.sampled_from([(16, 128), (1, 1)]))
@settings(max_examples=300, deadline=None)
def test_many_places_in_one_call_are_answered_as_each_alone(world: Any, room: tuple[int, int]) -> None:
    created = np.random.default_rng(len(world.points)).permutation(len(world.points))
    index = PlaceIndex.build(world.points, world.statics, created=created, fanout=world.fanout)
    index.delete(np.arange(0, len(world.points), 7))
    searcher = SkylineSearch(world.d)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(zone_searches, "CORNERS", room[0])
        patched.setattr(zone_searches, "MEMBERS", room[1])
        found = answered(searcher, index, world.asked)
    for (px, py), (slots, distances, margin, shape) in zip(world.asked.tolist(), found, strict=True):
        zone = searcher.zone(index, px, py, BOUNDS)
        far = [float(np.sqrt((dx := x - px) * dx + (dy := y - py) * dy)) for x, y in zone.places.T.tolist()]
        wanted = sorted(zip(far, created[zone.skyline].tolist(), zone.skyline.tolist(), strict=True))
        assert list(zip(distances, slots, strict=True)) == [(d, slot) for d, _, slot in wanted]
        assert margin == zone.margin and shape == geometry(zone)


def test_a_search_at_many_places_goes_on_where_its_arrays_are_full() -> None:
    rng = np.random.default_rng(3)
    values = rng.random(600)
    index = PlaceIndex.build(rng.random((600, 2)), np.column_stack([values, 1.0 - values]))  # all are members
    asked = rng.random((5, 2))
    found = answered(SkylineSearch(2), index, asked)
    for (x, y), (slots, _, _, shape) in zip(asked.tolist(), found, strict=True):
        assert len(slots) == 600 and shape == geometry(SkylineSearch(2).zone(index, x, y, BOUNDS))
    assert answered(SkylineSearch(2), index, asked[:0]) == []
