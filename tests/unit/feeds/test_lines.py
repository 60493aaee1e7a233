"""Primitives of feeds that work on eight numbers at once: compiled they do what they do uncompiled, by definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.compiled.jit import kernel
from indexes.compiled.simd import LANES
from indexes.core.arrays import Floats, Ints
from indexes.feeds.kernels.buffers import _least_of_best
from indexes.feeds.kernels.entries import insert_lanes, remove_lanes
from indexes.feeds.kernels.nearness import (
    BOUND,
    EIGHT,
    FARTHEST,
    LEFT,
    LOWEST,
    SCALE,
    STEPS,
    WORD_RATIOS,
    lanes_around,
    lanes_near,
)
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, THETA, X, Y
from indexes.feeds.theta import LINE

seeds = st.integers(0, 2**32 - 1)


@kernel
def _near(row: Floats, ratio: Floats, key: Ints, ratios: Ints, at: int, x: float, y: float, diagonal: float) -> int:
    return lanes_near(row, ratio, key, ratios, at, x, y, diagonal)


@kernel
def _around(key: Ints, at: int, x: float, y: float, reach: float, most: int) -> int:
    return lanes_around(key, at, x, y, reach, most)


@kernel
def _insert(scores: Floats, tags: Ints, base: int, at: int, end: int, score: float, tag: int, more: int) -> None:
    insert_lanes(scores, tags, base, at, end, score, tag, more)


@kernel
def _remove(scores: Floats, tags: Ints, base: int, at: int, following: int) -> None:
    remove_lanes(scores, tags, base, at, following)


@kernel
def _least(score: Floats, n: int, rank: int) -> float:
    return _least_of_best(score, n, rank)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, diagonal=st.sampled_from([1e-3, 1.0, math.sqrt(2), 1e3]))
def test_rows_that_are_near_are_those_of_the_definition(seed: int, diagonal: float) -> None:
    rng = np.random.default_rng(seed)
    n = 64
    row = rng.random((n, ROW))
    row[:, ALPHA] = rng.choice([0.0, 1.0, 0.5, *rng.random(3)], n)
    row[:, THETA] = rng.choice([0.0, 2.0, *rng.random(3)], n)
    row[:, [X, Y]] *= rng.choice([0.0, diagonal, 1.0], (n, 1))
    bound = rng.integers(LOWEST, 3 * SCALE // 2, n)
    bound[rng.random(n) < 0.2] = LOWEST
    key = bound << BOUND | rng.integers(STEPS**2, size=n) << 32 | rng.permutation(n) << LEFT | rng.integers(4, size=n)
    ratio, ratios = rng.random(5 * WORD_RATIOS), rng.integers(5, size=n) * WORD_RATIOS
    found = []
    for at in range(n - EIGHT + 1):
        x, y = rng.random(2).tolist()
        found.append(lanes_near(row.reshape(-1), ratio, key, ratios, at, x, y, diagonal))
        assert _near(row.reshape(-1), ratio, key, ratios, at, x, y, diagonal) == found[-1]
    assert any(found) and any(mask < (1 << EIGHT) - 1 for mask in found)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, reach=st.sampled_from([0.0, 30.0, 400.0, FARTHEST]))
def test_keys_of_places_around_are_those_of_the_definition(seed: int, reach: float) -> None:
    rng = np.random.default_rng(seed)
    bound = rng.integers(LOWEST, 3 * SCALE // 2, 64)
    bound[rng.random(64) < 0.2] = rng.choice([0, SCALE])
    key = bound << BOUND | rng.integers(STEPS**2, size=64) << 32 | rng.integers(1 << 32, size=64)
    for at in range(64 - LANES + 1):
        x, y = (rng.choice([0.0, 1.0, rng.random()], 2) * STEPS).tolist()
        most = int(rng.integers(SCALE))
        assert _around(key, at, x, y, reach, most) == lanes_around(key, at, x, y, reach, most)


@pytest.mark.parametrize("base", [0, LINE, 2 * LINE])
@pytest.mark.parametrize("more", [0, 1])
def test_entries_are_inserted_as_by_the_definition(base: int, more: int) -> None:
    for at in range(-3, LINE + 1):
        for end in range(at, LINE + 3):
            if base or at >= 0:
                scores, tags = np.arange(24) / 7, np.arange(24) << 40
                compiled = scores.copy(), tags.copy()
                insert_lanes(scores, tags, base, at, end, -1.5, -7, more)
                _insert(*compiled, base, at, end, -1.5, -7, more)
                assert np.array_equal(compiled[0], scores) and np.array_equal(compiled[1], tags)


@pytest.mark.parametrize("base", [0, LINE])
def test_entries_are_removed_as_by_the_definition(base: int) -> None:
    for at in range(-2, LINE):
        for following in (base, base + LINE):
            scores, tags = np.arange(24) / 7, np.arange(24) << 40
            compiled = scores.copy(), tags.copy()
            remove_lanes(scores, tags, base, at, following)
            _remove(*compiled, base, at, following)
            assert np.array_equal(compiled[0], scores) and np.array_equal(compiled[1], tags)


@settings(max_examples=50, deadline=None)
@given(
    scores=st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 1.0])), min_size=2, max_size=60),
    part=st.floats(0, 1),
)
def test_the_best_are_no_less_than_the_bound(scores: list[float], part: float) -> None:
    rank = 1 + int(part * (len(scores) - 2))
    least = _least(np.array(scores), len(scores), rank)
    assert sorted(scores)[-rank] >= least >= 0.0
