"""Small worlds for tests: places and static values on grids, so that distances and values are equal, and off them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

BOUNDS = np.array([0.0, 0.0, 1.0, 1.0])


class World(NamedTuple):
    """Objects, a fanout for their tree, and places to ask at."""

    points: np.ndarray  # (n, 2)
    statics: np.ndarray  # (n, d)
    fanout: int
    asked: np.ndarray  # (m, 2)

    @property
    def d(self) -> int:
        return self.statics.shape[1]


def world(seed: int) -> World:
    """One of many: up to 14 objects, more rarely up to 200, in 1 to 4 attributes.

    Places and values on grids or not, some values missing or absorbed in sums, and places on the grid's lines,
    anywhere, and outside the bounds.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 15)) if rng.random() < 0.8 else int(rng.integers(15, 200))
    d, lines, values = (int(rng.integers(1, most)) for most in (5, 8, 6))
    points = rng.integers(0, lines + 1, (n, 2)) / lines if rng.random() < 0.6 else rng.random((n, 2)) * 1.2 - 0.1
    kind = rng.random()
    statics = rng.integers(0, values, (n, d)) / values if kind < 0.6 else rng.random((n, d))
    if 0.5 < kind < 0.6:
        statics[rng.random((n, d)) < 0.2] = np.inf
    if 0.6 < kind < 0.7:
        statics[:, 0] = 1e-20 * rng.integers(0, 3, n)  # 1 + 1e-20 is 1
    if rng.random() < 0.3 and n:
        some = rng.integers(0, n, n // 3)
        points[: len(some)], statics[: len(some)] = points[some], statics[some]  # the same object twice
    on_lines = rng.integers(0, 2 * lines + 1, (3, 2)) / (2 * lines)
    return World(points, statics, int(rng.integers(2, 6)), np.concatenate([on_lines, rng.random((2, 2)) * 2 - 0.5]))


worlds = st.integers(0, 2**32).map(world)


def on_the_sphere(world: World, seed: int) -> World:
    """The same world in longitude and latitude.

    All over the globe, poles and antimeridian included; or within a degree of the antimeridian, or of a pole.
    """
    where = ((-180.0, -90.0, 360.0, 180.0), (179.5, 10.0, 1.0, 1.0), (-180.0, 89.0, 360.0, 1.0))[seed % 3]

    def placed(some: np.ndarray) -> np.ndarray:
        lon, lat = np.clip(some, 0.0, 1.0).T
        lon = where[0] + where[2] * lon
        return np.column_stack([np.where(lon > 180.0, lon - 360.0, lon), where[1] + where[3] * lat])

    return world._replace(points=placed(world.points), asked=placed(world.asked))
