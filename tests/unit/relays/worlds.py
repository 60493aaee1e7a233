"""Small worlds for tests: boxes on a grid, so that ends are shared and boxes are equal, off it, and without bounds."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from indexes.relays.alternatives.linear import LinearIndex
from indexes.relays.alternatives.z_order import ZIndex
from indexes.relays.kernels.covering_index import CoverIndex
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.kernels.points import as_points, empty_points, write

NEAR = 1 + 2.0**-40
"""The same as 1 in float32."""

FAR = 1.7e308
"""Farther from -FAR than there are numbers."""

N = 600
"""Boxes in each of `orders`."""

Graph = Literal["G", "G*", "poset"]
Covering = Literal["kd", "zorder", "linear"]
Way = tuple[Graph, int, Covering]
"""A graph, its k, and the index that finds what covers."""

grid = st.integers(-2, 4).map(float)
odd = st.sampled_from([NEAR, 1e300, -1e300, FAR, -FAR, -0.0])
numbers = st.one_of(grid, odd, st.floats(-3, 5, allow_nan=False, width=16))


def _interval(a: float, b: float, open_left: int, open_right: int) -> tuple[float, float]:
    return (-inf if open_left == 0 else min(a, b)), (inf if open_right == 0 else max(a, b))


intervals = st.builds(_interval, numbers, numbers, st.integers(0, 5), st.integers(0, 5))


def boxes(d: int) -> st.SearchStrategy[list[tuple[float, float]]]:
    """Boxes of d attributes."""
    return st.lists(intervals, min_size=d, max_size=d)


INDEXES: dict[str, type[CoverIndex]] = {"kd": KdIndex, "zorder": ZIndex, "linear": LinearIndex}


def small_index(kind: str, coordinates: int) -> CoverIndex:
    """An index whose parts are as small as they may be."""
    if kind == "kd":
        return KdIndex(coordinates, full=8)
    return ZIndex(coordinates, tail=4) if kind == "zorder" else LinearIndex(coordinates)


def rows(given_boxes: list[list[tuple[float, float]]], d: int) -> np.ndarray:
    """Boxes as points."""
    ends = np.array(given_boxes, np.float64).reshape(len(given_boxes), d, 2)
    return as_points(ends[:, :, 0], ends[:, :, 1])


def table(lo: np.ndarray, hi: np.ndarray) -> Any:
    """The boxes as slots in order."""
    points = empty_points(len(lo), 2 * lo.shape[1])
    write(points, np.arange(len(lo), dtype=np.int32), as_points(lo, hi), 0)
    return points


def orders(d: int) -> Iterator[Any]:
    """Boxes in orders that are bad for trees.

    At random, ever smaller, ever larger, shifted, all equal, unbounded, and so wide that their width is no number.
    """
    rng = np.random.default_rng(d)
    ends = np.sort(rng.integers(0, 50, (N, d, 2)), axis=2).astype(float)
    yield "random", ends[:, :, 0], ends[:, :, 1]
    step = np.repeat(np.arange(N, dtype=float)[:, None], d, axis=1)
    yield "smaller", step, 2.0 * N - step
    yield "larger", -step, step
    yield "shifted", step, step + 10
    yield "equal", 0 * step, 0 * step + 1
    lo, hi = ends[:, :, 0].copy(), ends[:, :, 1].copy()
    lo[rng.random((N, d)) < 0.5] = -inf
    hi[rng.random((N, d)) < 0.5] = inf
    yield "unbounded", lo, hi
    far = rng.choice([-FAR, 0.0, FAR], (N, d, 2))
    far[0], far[1] = -FAR, FAR
    far = np.sort(far + ends, axis=2)
    yield "far", far[:, :, 0], far[:, :, 1]
