"""The workload of [Ranked matching] 4: a Zipfian generator of points in regions, and boxes around them.

Each dimension is cut into `CELLS` cells. `REGIONS` boxes of cells, all of the same volume, are placed at random; a
point falls into one of them (by Zipf with `skew_across`), nearer to its middle more likely (`skew_within`), and
uniformly into its cell. A subscription is a point with half a length in each dimension (Zipf with `skew_length` over
cells, uniform in a cell); its score in a dimension is 1 less that half length. Defaults are those of Table 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints

CELLS, REGIONS, VOLUME = 100, 10, 1 / 20
QUERIES, K, SKEW_LENGTH = 1_000, 20, 0.75


class World(NamedTuple):
    """Boxes of shape (n, d), their weights by dimension, and points of shape (m, d)."""

    lo: Floats
    hi: Floats
    weight: Floats
    points: Floats


def _zipf(rng: np.random.Generator, n: int, skew: float, size: int | tuple[int, ...]) -> Ints:
    """Numbers 0..n-1, number r as likely as (r + 1) ** -skew."""
    likely = np.arange(1, n + 1) ** -skew
    up_to = np.cumsum(likely / likely.sum())
    return np.minimum(np.searchsorted(up_to, rng.random(size), "right"), n - 1)


def _points(
    rng: np.random.Generator, regions: tuple[Ints, Ints], n: int, skew_across: float = 0.0, skew_within: float = 1.0
) -> Floats:
    start, side = regions
    region = _zipf(rng, REGIONS, skew_across, n)
    points = np.empty((n, start.shape[1]))
    for j in range(start.shape[1]):
        for r in range(REGIONS):
            mine = np.flatnonzero(region == r)
            cells = np.arange(side[r, j])
            from_middle = np.argsort(np.abs(cells - (side[r, j] - 1) / 2), kind="stable")
            points[mine, j] = start[r, j] + from_middle[_zipf(rng, int(side[r, j]), skew_within, len(mine))]
    return (points + rng.random(points.shape)) / CELLS


def make_world(n: int, d: int = 1, skew_length: float = SKEW_LENGTH, points: int = QUERIES, seed: int = 7) -> World:
    """A world of n subscriptions in d dimensions."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(d), REGIONS)
    side = np.maximum(1, np.rint(CELLS * VOLUME**shares)).astype(np.int64)
    start = (rng.random((REGIONS, d)) * (CELLS - side + 1)).astype(np.int64)
    middle = _points(rng, (start, side), n)
    half = (_zipf(rng, CELLS, skew_length, (n, d)) + rng.random((n, d))) / CELLS
    return World(middle - half, middle + half, 1.0 - half, _points(rng, (start, side), points))
