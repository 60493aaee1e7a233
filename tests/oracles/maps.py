"""Skylines around a place by brute force: the definition, with numpy, to be read as the specification.

Objects are rows: `points` (n, 2) and `statics` (n, d), of which smaller values are better.
"""

from __future__ import annotations

import numpy as np


def squared_distances(points: np.ndarray, x: float, y: float) -> np.ndarray:
    """From (x, y) to every object."""
    dx, dy = points[:, 0] - x, points[:, 1] - y
    return dx * dx + dy * dy


def skyline(points: np.ndarray, statics: np.ndarray, x: float, y: float) -> set[int]:
    """The objects that none dominates: none is nowhere worse, in distance and all values, and somewhere better."""
    rows = np.column_stack([statics, squared_distances(points, x, y)])
    no_worse = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    better = (rows[:, None, :] < rows[None, :, :]).any(axis=2)
    return set(np.flatnonzero(~(no_worse & better).any(axis=0)).tolist())
