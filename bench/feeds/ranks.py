"""The cheapest rank of theta by k and the cost of an evaluation: `indexes.feeds.theta.CHEAPEST`, before smoothing.

Posts come as a Poisson process of heights, which are expected ranks, and stay for a window, the unit of time. Theta
is the height of rank r until fewer than k posts are below it, when it is drawn again.

    python -m bench.feeds.ranks
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import allocating_kernel
from indexes.core.arrays import Floats
from indexes.feeds.theta import KS, RATIOS

WINDOWS = 10.0
"""The time over which a feed is assumed to be stationary."""


@allocating_kernel
def rates(k: int, r: int, windows: float, runs: int, seed: int) -> tuple[float, float]:
    """Evaluations, and posts that reach theta, per window."""
    np.random.seed(seed)
    high = r + 9.0 * np.sqrt(r) + 20.0
    evaluations, arrivals = 0, 0.0
    for _ in range(runs):
        now, heights = 0.0, np.random.random(np.random.poisson(high)) * high
        ends = np.sort(np.random.random(len(heights)))
        theta = _height(heights, r, high)
        while now < windows:
            coming = now + np.random.exponential(1.0 / high)
            expires = ends[0] if len(ends) else np.inf
            if coming <= expires:
                arrivals += (coming - now) * theta
                now = coming
                ends, heights = np.append(ends, now + 1.0), np.append(heights, np.random.random() * high)
            else:
                arrivals += (expires - now) * theta
                now = expires
                ends, heights = ends[1:], heights[1:]
                if (heights <= theta).sum() < k:
                    evaluations += 1
                    theta = _height(heights, r, high)
    return evaluations / (runs * windows), arrivals / (runs * windows)


@allocating_kernel
def _height(heights: Floats, r: int, high: float) -> float:
    return np.sort(heights)[min(r, len(heights)) - 1] if len(heights) else high


def cheapest(k: int, runs: int = 100) -> list[int]:
    """The cheapest rank for each of `RATIOS`."""
    ranks = sorted({*range(k, k + 8), *np.linspace(k, 4 * k + 12, 28).round().astype(int).tolist()})
    found = np.array([rates(k, r, WINDOWS, runs, 1) for r in ranks])
    return [ranks[int(np.argmin(found[:, 1] + ratio * found[:, 0]))] for ratio in RATIOS]


if __name__ == "__main__":
    for k in KS:
        print(k, cheapest(k, max(20, 400 // k)))
