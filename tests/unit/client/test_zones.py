"""The client's zones: never a place inside that is not, and no more places asked about than the margin has."""

from __future__ import annotations

import math
from typing import Any

import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rankcast_client.zones import Circle, zone_of
from tests.oracles import top_k as oracle

BOUNDS = (0.0, 0.0, 100.0, 100.0)
MARGIN = 1e-7
"""The margin of the bounds: 1e-9 of their width."""


def ring(center: tuple[float, float], radii: list[float]) -> list[list[float]]:
    """A star around a place, closed: not convex, but it does not cross itself."""
    angles = [2 * math.pi * i / len(radii) for i in range(len(radii))]
    corners = [[center[0] + r * math.cos(a), center[1] + r * math.sin(a)] for r, a in zip(radii, angles, strict=True)]
    return [*corners, corners[0]]


radii = st.lists(st.floats(5, 20), min_size=3, max_size=9)
small = st.lists(st.floats(0.5, 2), min_size=3, max_size=6)
places = st.tuples(st.floats(0, 100), st.floats(0, 100))


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    """A polygon with holes, or several of them apart."""
    polygons = []
    for center in draw(st.sampled_from([[(25, 25)], [(25, 25), (75, 70)]])):
        holes = [
            ring((center[0] + dx, center[1] + dy), draw(small))
            for dx, dy in draw(st.lists(st.sampled_from([(-2.2, -2.2), (2.2, 2.2), (2.2, -2.2)]), unique=True))
        ]
        outer = shapely.Polygon(ring(center, draw(radii)))
        rest = outer.difference(shapely.union_all([shapely.Polygon(hole) for hole in holes])) if holes else outer
        polygons += [part for part in shapely.get_parts(rest) if part.geom_type == "Polygon" and part.area > 0]
    found = polygons[0] if len(polygons) == 1 else shapely.MultiPolygon(polygons)
    assume(found.is_valid)
    return dict(shapely.geometry.mapping(found))


@settings(max_examples=120, deadline=None)
@given(geometries(), st.data())
def test_a_place_is_inside_just_when_it_is_so_by_the_margin(geometry: dict[str, Any], data: st.DataObject) -> None:
    zone, shape = zone_of(geometry, "euclidean", BOUNDS), shapely.geometry.shape(geometry)
    border = shape.boundary
    for _ in range(8):
        x, y = data.draw(places)
        if data.draw(st.booleans()):
            # Near the border, within and beyond the margin.
            on = border.interpolate(data.draw(st.floats(0, 1)), normalized=True)
            off, angle = data.draw(st.sampled_from([0.0, 1e-9, 5e-8, 3e-7, 1e-3])), data.draw(st.floats(0, 6.3))
            x, y = on.x + off * math.cos(angle), on.y + off * math.sin(angle)
        point = shapely.Point(x, y)
        off = border.distance(point)
        if zone.holds(x, y):
            assert shape.contains(point) and off > MARGIN * 0.99
        elif off > MARGIN * 1.01:
            assert not shape.contains(point)


def test_rays_through_corners_and_along_edges_count_once() -> None:
    diamond = {"type": "Polygon", "coordinates": [[[5, 0], [10, 5], [5, 10], [0, 5], [5, 0]]]}
    steps = {
        "type": "Polygon",
        "coordinates": [[[0, 0], [9, 0], [9, 5], [6, 5], [6, 3], [3, 3], [3, 5], [0, 5], [0, 0]]],
    }
    for geometry in (diamond, steps):
        zone, shape = zone_of(geometry, "euclidean", BOUNDS), shapely.geometry.shape(geometry)
        for x in range(-4, 44):
            for y in range(-4, 44):
                point = shapely.Point(x / 4, y / 4)
                assert zone.holds(x / 4, y / 4) == shape.contains(point), (x / 4, y / 4)


def test_far_from_zero_the_margin_grows_with_the_coordinates() -> None:
    far = 1e9
    corners = [[far, far], [far + 1, far], [far + 1, far + 1], [far, far + 1], [far, far]]
    zone = zone_of({"type": "Polygon", "coordinates": [corners]}, "euclidean", (far, far, far + 1, far + 1))
    assert zone.holds(far + 0.5, far + 0.5)
    assert not zone.holds(far + 2.4e-7, far + 0.5)


@pytest.mark.parametrize("geometry", [None, {"type": "GeometryCollection", "geometries": []}, Circle((1, 1), 0)])
def test_what_is_no_area_holds_nothing(geometry: Any) -> None:
    assert not zone_of(geometry, "euclidean", BOUNDS).holds(1, 1)


def test_no_radius_is_everywhere() -> None:
    assert zone_of(Circle((1, 1), None), "great-circle", BOUNDS).holds(170, -80)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "great-circle"])
@settings(max_examples=200, deadline=None)
@given(st.tuples(st.floats(-180, 180), st.floats(-90, 90)), st.tuples(st.floats(-180, 180), st.floats(-90, 90)))
def test_a_circle_holds_what_is_surely_within_it(
    metric: Any, center: tuple[float, float], place: tuple[float, float]
) -> None:
    far = oracle.distance(metric, center, place)
    slack = 1.0 + 1e-6 * far if metric == "great-circle" else 1e-9 * far
    assert not zone_of(Circle(center, far), metric, BOUNDS).holds(*place)
    assert zone_of(Circle(center, far + 3 * slack + 1e-300), metric, BOUNDS).holds(*place)
    if far > slack:
        assert not zone_of(Circle(center, far - slack), metric, BOUNDS).holds(*place)
