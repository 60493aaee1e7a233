"""The paper's workloads other than the uniform one (V): clustered objects; clustered, correlated and anti-correlated
subscriptions; and steps of a Gaussian size.

All lie in the unit interval. What falls outside it, or has l > r, is drawn again, so that every distribution is the
printed one under the condition that it is a range of S.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.boards.plays import Sequence
from bench.boards.workload import World
from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints32

CLUSTERS = 10
GRID = 10_000
"""Points a side of the grid that clustered subscriptions lie on."""

WIDTH = 1.0 / (CLUSTERS + 1)
CENTRES = WIDTH * np.arange(1, CLUSTERS + 1)
DEVIATION = WIDTH / 8


def clustered_objects(n: int, seed: int) -> tuple[Floats, Floats]:
    """x in ascending order and uniform y: a tenth of the objects around each of ten equally spaced centres."""
    rng = np.random.default_rng(seed)
    x = CENTRES[np.arange(n) % CLUSTERS] + DEVIATION * rng.standard_normal(n)
    return np.sort(np.clip(x, 0.0, 1.0)), rng.random(n)


def clustered_ranges(m: int, seed: int, spread: float) -> tuple[Floats, Floats]:
    """Ranges on the grid around ten centres drawn from S; `spread` is the paper's lambda.

    A mixture of ten equal bells exp(-0.5 d^2 / (spread / 4)^2), cut to S. (The paper prints the distance without its
    square, which would not be the "standard deviation" that it calls it.)
    """
    rng = np.random.default_rng(seed)
    centres = np.sort(rng.random((CLUSTERS, 2)), 1)

    def draw(size: int) -> Floats:
        points = centres[rng.integers(CLUSTERS, size=size)] + spread / 4 * rng.standard_normal((size, 2))
        return np.rint(points * GRID) / GRID

    return _ranges(m, draw)


def correlated_ranges(m: int, seed: int, shift: float = 0.0) -> tuple[Floats, Floats]:
    """Ranges whose two ends lie around the centre of one cluster of the objects, moved by `shift` widths; a shift
    leaves out the last cluster. Half a width is the anti-correlated workload."""
    rng = np.random.default_rng(seed)
    centres = (CENTRES if shift == 0 else CENTRES[:-1]) + shift * WIDTH

    def draw(size: int) -> Floats:
        centre = centres[rng.integers(len(centres), size=size), None]
        return np.sort(centre + DEVIATION * rng.standard_normal((size, 2)), 1)

    return _ranges(m, draw)


def _ranges(m: int, draw: Callable[[int], Floats]) -> tuple[Floats, Floats]:
    """Draw until m points lie in S."""
    kept: list[Floats] = []
    missing = m
    while missing > 0:
        points = draw(max(1_000, 2 * missing))
        points = points[(points[:, 0] >= 0) & (points[:, 1] <= 1) & (points[:, 0] <= points[:, 1])][:missing]
        kept.append(points)
        missing -= len(points)
    found = np.concatenate(kept)
    return found[:, 0].copy(), found[:, 1].copy()


def gaussian_steps(world: World, c: float, seed: int) -> Sequence:
    """The objects of the world's events, each moved by a normal step of standard deviation c / 8; what would leave the
    unit interval is thrown back at its end."""
    row = (world.events[:, 0] * len(world.x)).astype(np.int32)
    steps = c / 8 * np.random.default_rng(seed).standard_normal(len(row))
    out = np.empty(len(row))
    walk(row, world.y.copy(), steps, out)
    return Sequence(row, out)


@kernel
def walk(row: Ints32, y: Floats, steps: Floats, out: Floats) -> None:
    """Write the new y of every event to `out`; `y` is moved on."""
    for e in range(len(row)):
        moved = abs(y[row[e]] + steps[e]) % 2.0
        y[row[e]] = 2.0 - moved if moved > 1.0 else moved
        out[e] = y[row[e]]
