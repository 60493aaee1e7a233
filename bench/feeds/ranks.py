"""The cheapest rank of theta by k and by what an evaluation costs: `indexes.feeds.theta.CHEAPEST`, before smoothing.

Posts come as a Poisson process of heights, which are expected ranks, and stay for a window, the unit of time. Theta
stands at the height of rank r until fewer than k posts are below it, when it is drawn anew.

    python -m bench.feeds.ranks
"""

from __future__ import annotations

import numpy as np

from indexes.feeds.theta import KS, RATIOS
from indexes.jit import kernel

WINDOWS = 10.0
"""How long a feed is taken to go on as it is."""


@kernel
def rates(k, r, windows, runs, seed):  # type: ignore[no-untyped-def]
    """Evaluations, and posts that reach theta, a window."""
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


@kernel
def _height(heights, r, high):  # type: ignore[no-untyped-def]
    return np.sort(heights)[min(r, len(heights)) - 1] if len(heights) else high


def cheapest(k: int, runs: int = 100) -> list[int]:
    """By ratio of `RATIOS`."""
    ranks = sorted({*range(k, k + 8), *np.linspace(k, 4 * k + 12, 28).round().astype(int).tolist()})
    found = np.array([rates(k, r, WINDOWS, runs, 1) for r in ranks])
    return [ranks[int(np.argmin(found[:, 1] + ratio * found[:, 0]))] for ratio in RATIOS]


if __name__ == "__main__":
    for k in KS:
        print(k, cheapest(k, max(20, 400 // k)))
