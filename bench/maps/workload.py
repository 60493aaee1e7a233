"""The workload of [Moving queries] Section 5: objects in a square of 5,000 km, and queries that walk through it.

The square is [0, 1] x [0, 1] here. Four objects of five are in one of 300 towns, large ones more likely, spread
normally about its middle; the others anywhere. [Moving queries] takes real points of interest, as `places.py` does;
these are as unevenly spread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats

WIDTH = 5e6
"""Metres."""

TOWNS, LEG = 300, 5000.0
"""Towns, and the mean length in metres of what a walk goes straight on."""


class World(NamedTuple):
    points: Floats  # (n, 2)
    statics: Floats  # (n, d)
    walks: Floats  # (queries, steps, 2)


def make_world(
    n: int, d: int, clustered: bool, kind: str, queries: int, steps: int, speed: float = 80.0, seed: int = 3
) -> World:
    """n objects with d values, see `make_statics`, and walks at `speed` km/h, a
    step a second; walks begin near objects where these are clustered, else anywhere."""
    rng = np.random.default_rng(seed)
    points = towns(rng, n) if clustered else rng.random((n, 2))
    statics = make_statics(rng, n, d, kind)
    starts = rng.random((queries, 2))
    if clustered:
        starts = points[rng.integers(0, n, queries)] + rng.normal(0, 0.001, (queries, 2))
    return World(points, statics, _walks(rng, starts, steps, speed / 3.6 / WIDTH))


def towns(rng: np.random.Generator, n: int) -> Floats:
    """n places, most of them in towns."""
    middle, size = rng.random((TOWNS, 2)), 0.002 + 0.02 * rng.random(TOWNS)
    likely = np.arange(1, TOWNS + 1) ** -0.8
    town = rng.choice(TOWNS, n * 4 // 5, p=likely / likely.sum())
    there = middle[town] + rng.normal(size=(len(town), 2)) * size[town, None]
    return np.clip(np.concatenate([there, rng.random((n - len(town), 2))]), 0, 1)


def make_statics(rng: np.random.Generator, n: int, d: int, kind: str) -> Floats:
    """d values in [0, 1] each that are uniform, normal, correlated or anti-correlated by `kind`."""
    values = rng.random((n, d))
    if kind == "normal":
        values = rng.normal(0.5, 1 / 6, (n, d))
    elif kind == "correlated":
        values = rng.random((n, 1)) + rng.normal(0, 0.05, (n, d))
    elif kind == "anti-correlated":
        values += rng.normal(0.5, 0.05, (n, 1)) - values.mean(axis=1, keepdims=True)
    return np.clip(values, 0, 1)


def _walks(rng: np.random.Generator, places: Floats, steps: int, step: float) -> Floats:
    """Straight legs of exponential length, a turn between them, and a new direction at the border."""
    n = len(places)
    there = np.empty((n, steps, 2))
    angle, left = rng.uniform(0, 2 * np.pi, n), np.zeros(n)
    pace = step * np.maximum(0.3, rng.normal(1, 0.2, n))
    for t in range(steps):
        turns = left <= 0
        angle[turns] += rng.normal(0, 0.8, turns.sum())
        left[turns] = rng.exponential(LEG / WIDTH, turns.sum())
        places = places + pace[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        left -= pace
        outside = ((places < 0) | (places > 1)).any(axis=1)
        places = np.where(places < 0, -places, np.where(places > 1, 2 - places, places))
        angle[outside] = rng.uniform(0, 2 * np.pi, outside.sum())
        there[:, t] = places
    return there
