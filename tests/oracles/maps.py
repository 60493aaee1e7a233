"""Skylines around a place by brute force: the definition, with numpy, to be read as the specification.

Objects are rows: `points` (n, 2) and `statics` (n, d), of which smaller values are better.
"""

from __future__ import annotations

import numpy as np

from tests.oracles import top_k


def squared_distances(points: np.ndarray, x: float, y: float) -> np.ndarray:
    """From (x, y) to every object."""
    dx, dy = points[:, 0] - x, points[:, 1] - y
    return dx * dx + dy * dy


def distances(metric: str, points: np.ndarray, x: float, y: float) -> np.ndarray:
    """From (x, y) to every object, by a metric."""
    return np.array([top_k.distance(metric, (x, y), (a, b)) for a, b in points.tolist()])


def skyline(points: np.ndarray, statics: np.ndarray, x: float, y: float, metric: str = "euclidean") -> set[int]:
    """The objects that none dominates: none is nowhere worse, in distance and all values, and somewhere better."""
    far = squared_distances(points, x, y) if metric == "euclidean" else distances(metric, points, x, y)
    rows = np.column_stack([statics, far])
    no_worse = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    better = (rows[:, None, :] < rows[None, :, :]).any(axis=2)
    return set(np.flatnonzero(~(no_worse & better).any(axis=0)).tolist())


def circle(points: np.ndarray, statics: np.ndarray, x: float, y: float, metric: str) -> float:
    """The greatest radius that the triangle inequality shows to leave the skyline at (x, y) the same.

    Half of what the farther of two members is farther than the other, if it is statically no worse; and half of what an
    object that is no member is farther than the nearest one that dominates it. Objects at one place are told apart for
    good.
    """
    members = skyline(points, statics, x, y, metric)
    far = distances(metric, points, x, y)
    radius = np.inf
    for o in range(len(points)):
        affects = [s for s in members if s != o and (statics[s] <= statics[o]).all()]
        if o in members:
            halves = [(far[s] - far[o]) / 2 for s in affects if tuple(points[s]) != tuple(points[o])]
            radius = min([radius, *halves])
        else:
            above = [s for s in affects if far[s] < far[o] or ((statics[s] < statics[o]).any() and far[s] == far[o])]
            if not any(tuple(points[s]) == tuple(points[o]) for s in above):
                radius = min(radius, max((far[o] - far[s]) / 2 for s in above))
    return float(radius)
