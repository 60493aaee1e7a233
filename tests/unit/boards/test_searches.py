"""Searches that only kernels call: the first subscriptions that a tile reaches, and those near a change, apart from
which those are that have left its region.
"""

from __future__ import annotations

import numpy as np
import pytest

from indexes.boards.kernels import forest, shortlist
from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.scratch import Scratch, Shortlist, make_scratch
from indexes.boards.subscription_index import SubscriptionIndex, exists
from indexes.compiled.jit import kernel
from indexes.core.arrays import INF, Floats

Tile = tuple[float, float, float, float]
Points = list[tuple[float, float]]

SIZES = [0, 5, 30, 90, 150, 300, 700, 1500, 3000, 6000, 12_000]
"""Subscriptions of trees of depth 0 to 9."""


@kernel
def _glimpse(f: Forest, a: float, b: float, c: float, d: float) -> tuple[float, float]:
    return forest.glimpse(f, 0, a, b, c, d)


@kernel
def _fetch(f: Forest, a: float, b: float, c: float, d: float, most: int, into: Shortlist) -> int:
    return shortlist.fetch(f, 0, a, b, c, d, most, into)


@kernel
def _count_better(into: Shortlist, n: int, scratch: Scratch, k: int, a: int, b: int) -> int:
    return shortlist.count_better(into, n, scratch, k, a, b)


@kernel
def _shrink(into: Shortlist, n: int, k: int, l_first: float, r_last: float) -> int:
    return shortlist.shrink(into, n, k, l_first, r_last)


@kernel
def _foreign(into: Shortlist, n: int, west: float, east: float, south: float, north: float, least: int) -> bool:
    return shortlist.foreign(into, n, west, east, south, north, least, 4)


def _listed(l: Floats, r: Floats, n: int) -> Points:
    return sorted(zip(l[:n].tolist(), r[:n].tolist(), strict=True))


@pytest.mark.parametrize("m", SIZES)
def test_searches_find_what_a_scan_finds(m: int) -> None:
    rng = np.random.default_rng(m)
    lr = np.sort(rng.integers(0, 1000, (m, 2)) / 1000, axis=1)
    index = SubscriptionIndex([3])
    index.insert_many(0, np.arange(m), lr[:, 0], lr[:, 1])
    near = make_scratch(3).short
    for _ in range(100):
        center, side = rng.random(), rng.random() ** 3
        tile: Tile = (center - side, center, center, center + side)
        if rng.random() < 0.3:
            a, b, c, d = np.sort(rng.random(4)).tolist()
            tile = (a, b, c, d)
        l_outer, l_inner, r_inner, r_outer = tile
        l, r = lr[:, 0], lr[:, 1]
        held = lr[(l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)]
        west, north = _glimpse(index.arrays, *tile)
        if len(held):
            assert west in held[:, 0] and north in held[:, 1]
        else:
            assert (west, north) == (INF, -INF)
        assert bool(exists(index.arrays, 0, *tile)) == (len(held) > 0)
        for most in (10, 300, 2000):
            n = _fetch(index.arrays, *tile, most, near)
            assert n == (len(held) if len(held) <= most else -1)
            if n >= 0:
                assert _listed(near.l, near.r, n) == sorted(map(tuple, held.tolist()))


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100, 500])
def test_subscriptions_that_left_the_region_lie_apart(n: int) -> None:
    rng = np.random.default_rng(n)
    k, scratch = 5, make_scratch(5)
    near = scratch.short
    for _ in range(20):
        l, r = 0.5 - rng.integers(0, 64, n) / 128, 0.5 + rng.integers(0, 64, n) / 128
        near.l[:n], near.r[:n] = l, r
        scratch.west[1 : k + 1] = np.sort(0.5 - rng.integers(0, 128, k) / 128)[::-1]
        scratch.east[1 : k + 1] = np.sort(0.5 + rng.integers(0, 128, k) / 128)
        west = (scratch.west[1 : k + 1, None] >= l).sum(0)
        better = west + (scratch.east[1 : k + 1, None] <= r).sum(0)
        inside = _count_better(near, n, scratch, k, k, k)
        assert near.west[:inside].tolist() == west[better < k].tolist()
        assert near.better[:inside].tolist() == better[better < k].tolist()
        left = int(near.gone[0])
        assert _listed(near.l, near.r, inside) == sorted(zip(l[better < k], r[better < k], strict=True))
        assert _listed(near.gone_l, near.gone_r, left) == sorted(zip(l[better >= k], r[better >= k], strict=True))
        for least in (0, 2):
            a, b = np.sort(rng.integers(0, 64, 2) / 128)
            c, d = np.sort(0.5 + rng.integers(0, 64, 2) / 128)
            other = ((better < least) | (better > 4)) & (l >= a) & (l <= b) & (r >= c) & (r <= d)
            assert bool(_foreign(near, inside, a, b, c, d, least)) == bool(other.any())
        # Some of those in the region leave it, and some of all are dropped.
        near.better[:inside] += rng.integers(0, 4, inside)
        l_first, r_last = 0.5 - rng.integers(0, 64) / 128, 0.5 + rng.integers(0, 64) / 128
        now = [*zip(near.l[:inside].tolist(), near.r[:inside].tolist(), near.better[:inside] >= k, strict=True)]
        away = [*zip(l[better >= k], r[better >= k], strict=True), *(one[:2] for one in now if one[2])]
        stay = _shrink(near, inside, k, l_first, r_last)
        kept = [one[:2] for one in now if not one[2]]
        assert _listed(near.l, near.r, stay) == sorted(one for one in kept if one[0] >= l_first and one[1] <= r_last)
        wanted = sorted(one for one in away if one[0] >= l_first and one[1] <= r_last)
        assert _listed(near.gone_l, near.gone_r, int(near.gone[0])) == wanted
