"""Distances, and bounds of them for rectangles: never on the wrong side, over the antimeridian and at the poles too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.kernels.metrics import GREAT_CIRCLE, METRICS, RADIUS, box_around, distance, maxdist, mindist
from tests.oracles import top_k as oracle
from tests.support.values import pair

coordinates = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e6, 1e6))
longitudes = st.one_of(st.sampled_from([-180.0, -179.9999999, 0.0, 90.0, 180.0]), st.floats(-180, 180))
latitudes = st.one_of(st.sampled_from([-90.0, -89.9999999, 0.0, 45.0, 90.0]), st.floats(-90, 90))
spread = st.one_of(st.just(0.0), st.floats(0, 1e-6), st.floats(0, 1))


def places(metric: str) -> st.SearchStrategy[Any]:
    return st.tuples(longitudes, latitudes) if metric == "great-circle" else st.tuples(coordinates, coordinates)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=300)
@given(data=st.data())
def test_distances_are_those_of_the_definition(metric: str, data: st.DataObject) -> None:
    a, b = data.draw(places(metric)), data.draw(places(metric))
    far = distance(METRICS[metric], *a, *b)
    assert far == oracle.distance(metric, a, b)
    loose = 1.0 if far > 1.9e7 else 1e-5 + 1e-9 * far
    assert far == pytest.approx(oracle.vector_distance(metric, a, b), rel=1e-9, abs=loose)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=500)
@given(data=st.data())
def test_bounds_of_a_rectangle_hold_for_all_its_places(metric: str, data: st.DataObject) -> None:
    number, q = METRICS[metric], data.draw(places(metric))
    a, b = data.draw(places(metric)), data.draw(places(metric))
    x0, x1, y0, y1 = min(a[0], b[0]), max(a[0], b[0]), min(a[1], b[1]), max(a[1], b[1])
    if data.draw(st.booleans()):
        x1, y1 = x0 + data.draw(spread) * (x1 - x0), y0 + data.draw(spread) * (y1 - y0)
    least, most = mindist(number, *pair(q), x0, y0, x1, y1), maxdist(number, *pair(q), x0, y0, x1, y1)
    found = []
    for _ in range(8):
        u, v = (data.draw(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))) for _ in range(2))
        x, y = min(x1, x0 + u * (x1 - x0)), min(y1, y0 + v * (y1 - y0))
        found.append(distance(number, *pair(q), x, y))
    # The place itself, and what is opposite, where they are within.
    for x, y in (q, (q[0] - 180.0, -q[1]), (q[0] + 180.0, -q[1]), (x0, q[1]), (x1, q[1]), (q[0], y0), (q[0], y1)):
        if x0 <= x <= x1 and y0 <= y <= y1:
            found.append(distance(number, *pair(q), x, y))
    assert least <= min(found) and max(found) <= most


@pytest.mark.parametrize("metric", METRICS)
def test_bounds_of_a_rectangle_are_tight(metric: str) -> None:
    rng = np.random.default_rng(1)
    number = METRICS[metric]
    wide, high = (180.0, 90.0) if metric == "great-circle" else (1.0, 1.0)
    for _ in range(60):
        q = rng.uniform((-wide, -high), (wide, high))
        a, b = np.sort(rng.uniform((-wide, -high), (wide, high), (2, 2)), axis=0)
        xs, ys = np.meshgrid(np.linspace(a[0], b[0], 41), np.linspace(a[1], b[1], 41))
        found = [distance(number, *pair(q), x, y) for x, y in zip(xs.ravel(), ys.ravel(), strict=True)]
        step = 2.0 * distance(number, *a, *b) / 41 if metric != "great-circle" else RADIUS * math.radians(9)
        assert min(found) - mindist(number, *q, *a, *b) <= step
        assert maxdist(number, *q, *a, *b) - max(found) <= step


def test_a_rectangle_may_lie_across_the_antimeridian() -> None:
    assert mindist(GREAT_CIRCLE, -179.0, 0.0, 178.0, -1.0, 182.0, 1.0) == 0.0
    assert mindist(GREAT_CIRCLE, -179.0, 0.0, 170.0, -1.0, 180.0, 1.0) == pytest.approx(RADIUS * math.radians(1))
    assert maxdist(GREAT_CIRCLE, 0.0, 0.0, 170.0, 0.0, 190.0, 0.0) == pytest.approx(math.pi * RADIUS, abs=2.0)


def test_a_box_holds_what_is_too_near_for_a_distance() -> None:
    box = np.empty(4)
    box_around(METRICS["euclidean"], 0.0, 0.0, 5e-324, box)
    assert distance(METRICS["euclidean"], 0.0, 0.0, 0.0, 6e-301) == 0.0
    assert box[1] <= 6e-301 <= box[3]


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=200)
@given(data=st.data())
def test_a_box_holds_the_whole_circle(metric: str, data: st.DataObject) -> None:
    number, q = METRICS[metric], data.draw(places(metric))
    radius = data.draw(st.floats(0, 2.1e7 if metric == "great-circle" else 1e6))
    box = np.empty(4)
    box_around(number, *pair(q), radius, box)
    p = data.draw(places(metric))
    if distance(number, *q, *p) < radius:
        turns = (-360.0, 0.0, 360.0) if metric == "great-circle" else (0.0,)
        assert any(box[0] <= p[0] + turn <= box[2] for turn in turns) and box[1] <= p[1] <= box[3]
