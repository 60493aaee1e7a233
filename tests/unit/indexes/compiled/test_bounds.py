"""The primitives of many points: compiled they are what they are uncompiled, by definition."""

from __future__ import annotations

import numpy as np
import pytest

from indexes.compiled.bounds import count_from, count_upto, ends_below, points_bounds
from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints, Ints32

CAP, GROUPS = 24, 16


@kernel
def _bounds(points: Floats, count: Ints32, groups: int, tile: Floats, box: Floats, out: Floats) -> None:
    sides, before = (tile[0], tile[1], tile[2], tile[3]), (box[0], box[1], box[2], box[3])
    a, b, c, d = points_bounds(points[0], points[1], count, 1, 3, CAP, groups, sides, before)
    out[0], out[1], out[2], out[3] = a, b, c, d


@kernel
def _ends(points: Floats, key: Ints, n: int, bound: int) -> tuple[float, float]:
    return ends_below(points[0], points[1], key, n, bound)


@kernel
def _counts(into: Ints, column: Floats, n: int, values: Floats, begin: int, end: int, upto: bool) -> None:
    if upto:
        count_upto(into, column, n, values, begin, end)
    else:
        count_from(into, column, n, values, begin, end)


def _points(rng: np.random.Generator, size: int) -> Floats:
    """Pairs of numbers, of which many are equal and some infinite."""
    return np.where(
        rng.random((2, size)) < 0.05, np.inf * rng.choice([-1, 1], (2, size)), rng.integers(-9, 9, (2, size))
    )


@pytest.mark.parametrize("seed", range(60))
def test_boxes_are_extended_by_the_points_of_some_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, count = _points(rng, 3 + CAP * GROUPS + 16), rng.integers(0, CAP + 1, GROUPS + 1).astype(np.int32)
    groups = int(rng.integers(0, 1 << GROUPS)) if seed % 4 else (1 << GROUPS) - 1
    tile = np.array([*np.sort(rng.integers(-10, 10, 2)), *np.sort(rng.integers(-10, 10, 2))], np.float64)
    box, out = np.array([np.inf, -np.inf] * 2), np.empty(4)
    if seed % 3 == 0:
        box = np.array([-1.0, 1.0, 0.0, 2.0])
    _bounds(points, count, groups, tile, box, out)
    sides, before = tuple(tile.tolist()), tuple(box.tolist())
    assert tuple(out) == points_bounds(points[0], points[1], count, 1, 3, CAP, groups, sides, before)


@pytest.mark.parametrize("seed", range(30))
def test_ends_and_counts_are_those_of_their_definitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 15, 16, 17, 40, 64]))
    points, key, values = _points(rng, n + 16), rng.integers(-2, 3, n + 16), _points(rng, 9)[0]
    for bound in (-5, 0, 5):
        assert _ends(points, key, n, bound) == ends_below(points[0], points[1], key, n, bound)
    for begin, end in ((0, 9), (1, 1), (2, 7)):
        for upto, plain in ((False, count_from), (True, count_upto)):
            into = rng.integers(0, 5, n + 16)
            wanted = into.copy()
            _counts(into, points[0], n, values, begin, end, upto)
            plain(wanted, points[0], n, values, begin, end)
            assert np.array_equal(into[:n], wanted[:n])
