"""Relaxed events over boxes of several chunks, however few bounds of blocks are kept: winners are those of a scan."""

from __future__ import annotations

import numpy as np
import pytest

from indexes.compiled.jit import kernel
from indexes.compiled.masks import BLOCK, block_around
from indexes.compiled.simd import LANES
from indexes.core.arrays import Bytes, Floats, Ints
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.kernels import blocks
from indexes.matchers.kernels.weights import sum_lanes
from indexes.matchers.matcher import Matcher
from indexes.matchers.verification import scan
from tests.unit.matchers.worlds import Combine

N = 6_000


@pytest.mark.parametrize("groups", [1, 2, 256])
@pytest.mark.parametrize("combine", ["sum", "max", "product"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_winners_are_those_of_a_scan(d: int, combine: Combine, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "GROUPS", groups)
    rng = np.random.default_rng(d)
    config = MatcherConfig(("a", "b", "c")[:d], "relaxed", combine)
    matcher = Matcher(config)
    middle, half = rng.random((N, d)), rng.random((N, d)) ** 3 / 2
    # Many equal scores, some of them not met at all, and some so large that sums of them are infinite.
    weight = rng.integers(0, 12, (N, d)) / rng.choice([1.0, 8.0], (N, d))
    weight[rng.random((N, d)) < 0.001] = 1.7e308
    matcher.hold(Subscriptions(middle - half, middle + half, weight), afresh=True)
    matcher.withdraw(np.arange(0, 300, 2, dtype=np.int32))
    matcher.hold(Subscriptions(middle[:50], middle[:50] + 0.1, weight[:50]))
    events = np.repeat(rng.uniform(-0.2, 1.2, (40, d)), 2, axis=1)
    events[:8, 1] += 0.1
    for k in (1, 20, 500):
        with np.errstate(over="ignore"):
            found = matcher.match(events, k)
            for t, event in enumerate(events):
                rows, scores = scan(config, matcher.table(), matcher.rows(), event, k)
                n = int(found.found[t])
                assert found.rows[t, :n].tolist() == rows.tolist()
                assert found.scores[t, :n].tolist() == scores.tolist()


@kernel
def _sums(lo: Floats, hi: Floats, weight: Floats, stride: int, events: Floats, dimensions: int, out: Floats) -> None:
    sum_lanes(lo, hi, weight, stride, 3, events, 1, dimensions, out, 5)


@kernel
def _around(code: Bytes, part: int, out: Ints) -> None:
    out[0], out[1] = block_around(code, 7, part)


def test_compiled_primitives_are_their_definitions() -> None:
    rng = np.random.default_rng(0)
    stride, dimensions = LANES + 9, 3
    lo, hi, weight = rng.integers(0, 6, (3, stride * dimensions)).astype(float)
    weight[:4] = -0.0
    events = rng.integers(0, 6, (2, 2 * dimensions)).astype(float)
    code = rng.integers(0, 256, 3 * BLOCK).astype(np.uint8)
    mine, theirs = np.zeros(LANES + 9), np.zeros(LANES + 9)
    _sums(lo, hi, weight, stride, events, dimensions, mine)
    sum_lanes(lo, hi, weight, stride, 3, events, 1, dimensions, theirs, 5)
    assert mine.tolist() == theirs.tolist()
    masks = np.zeros(2, np.int64)
    for part in (1, 128, 254):
        _around(code, part, masks)
        assert tuple(masks.tolist()) == block_around(code, 7, part)
