"""Algorithms 4 and 5 against the closed forms: never larger, and about as large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from indexes.maps.attributes import Attribute
from indexes.maps.kernels.circles import Pair, ratio_circle, sum_circle
from indexes.maps.kernels.metrics import METRICS
from indexes.maps.kernels.rectangles import PlacedObject, empty_boxes, preferred_circle, trim
from indexes.maps.kernels.scores import static_parts
from indexes.maps.scoring import scoring
from tests.support.values import pair

ATTRIBUTES = (Attribute("a", False, (0.0, 1.0)),)


def parts(s: Any, statics: np.ndarray) -> list[tuple[float, float]]:
    return [static_parts(s, statics, 2, i) for i in (0, 1)]


def placed(s: Any, o: np.ndarray, p: np.ndarray, statics: np.ndarray) -> tuple[PlacedObject, PlacedObject]:
    """Both objects as the kernels take them; these do not use their distances from q."""
    both = zip((o, p), parts(s, statics), (0, 1), strict=True)
    first, second = (
        PlacedObject(*pair(place), 0.0, total, product, statics, 2, i) for place, (total, product), i in both
    )
    return first, second


def cases(s: Any, metric: str, n: int) -> Iterator[Any]:
    """Pairs o, p and a place q where o is preferred: their places, static parts, and the closed circle up to 3."""
    rng = np.random.default_rng(5)
    number = METRICS[metric]
    while n > 0:
        o, p, q = rng.random(2), rng.random(2), rng.random(2) * 1.4 - 0.2
        statics = rng.random(2)
        (a, _), (b, _) = parts(s, statics)
        order = 2 if metric == "euclidean" else 1
        do, dp = float(np.linalg.norm(o - q, order)), float(np.linalg.norm(p - q, order))
        if s.kind == 0:
            r = sum_circle(number, Pair(*pair(o - q), do, *pair(p - q), dp), (b - a) / s.wd, 0.0, 3.0)
        else:
            kappa = (b / a) ** (1 / s.wd) if s.kind == 1 else a / b
            r = ratio_circle(number, Pair(*pair(o - q), do, *pair(p - q), dp), kappa, 3.0)
        if r > 0.0:
            n -= 1
            yield o, p, q, statics, r


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("kind", ["weighted_sum", "weighted_product", "weighted_distance"])
def test_algorithm_5_is_never_larger_than_the_closed_form_and_about_as_large(kind: str, metric: str) -> None:
    s = scoring(kind, ATTRIBUTES, {"a": 0.5} if kind == "weighted_distance" else {"a": 0.5, "distance": 0.5}, metric)
    boxes, ratios = empty_boxes(), []
    exact = metric == "euclidean" or kind == "weighted_sum"
    for o, p, q, statics, r in cases(s, metric, 300):
        (a, _), (b, _) = parts(s, statics)
        mine = preferred_circle(s, *pair(q), *placed(s, o, p, statics), r / 20 if exact else r, 3.0, boxes)
        ratios.append(mine / r)
        assert mine <= r * (1 + 1e-9) or not exact
        ring = [q + mine * 0.999999 * np.array([math.cos(t), math.sin(t)]) for t in np.linspace(0, 6.28, 90)]
        order = 2 if metric == "euclidean" else 1
        for x in ring:
            x = q + (x - q) / (np.linalg.norm(x - q, order) / (mine * 0.999999))
            do, dp = np.linalg.norm(o - x, order), np.linalg.norm(p - x, order)
            if s.kind == 0:
                assert a + 0.5 * do <= b + 0.5 * dp + 1e-12
            elif s.kind == 1:
                assert a * do**0.5 <= b * dp**0.5 + 1e-12
            else:
                assert do / a <= dp / b + 1e-12
    assert np.mean(ratios) > (0.85 if exact else 1.0), np.mean(ratios)


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("kind", ["weighted_sum", "weighted_product", "weighted_distance", "waspas"])
def test_algorithm_4_leaves_out_nothing_that_may_prefer_the_other(kind: str, metric: str) -> None:
    s = scoring(kind, ATTRIBUTES, {"a": 0.5} if kind == "weighted_distance" else {"a": 0.5, "distance": 0.5}, metric)
    rng = np.random.default_rng(6)
    order = 2 if metric == "euclidean" else 1
    cut = 0
    for _ in range(400):
        o, p, statics = rng.random(2), rng.random(2), rng.random(2)
        ends = np.sort(rng.random((2, 2)) * 3 - 1, axis=0)
        R = ends.reshape(-1).copy()
        (a, c), (b, d) = parts(s, statics)
        some = trim(s, R, *placed(s, o, p, statics))
        cut += not some or bool((ends.reshape(-1) != R).any())
        for x in ends[0] + rng.random((60, 2)) * (ends[1] - ends[0]):
            do, dp = np.linalg.norm(o - x, order), np.linalg.norm(p - x, order)
            mine, theirs = {
                "weighted_sum": (a + 0.5 * do, b + 0.5 * dp),
                "weighted_product": (a * do**0.5, b * dp**0.5),
                "weighted_distance": (do / a, dp / b),
                "waspas": (0.5 * (a + 0.5 * do + c * do**0.5), 0.5 * (b + 0.5 * dp + d * dp**0.5)),
            }[kind]
            if theirs < mine - 1e-9:
                assert some and R[0] <= x[0] <= R[2] and R[1] <= x[1] <= R[3]
    assert cut > 20
