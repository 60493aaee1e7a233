"""Small worlds for tests: on a grid, so that ends are shared and scores are equal, or off it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st

from indexes.matchers.config import Kind, Subscriptions
from tests.oracles.matchers import exact_top, relaxed_top

grid = st.integers(0, 7).map(float)
numbers = st.one_of(grid, st.floats(0, 7, allow_nan=False, width=16))
scores = st.one_of(st.integers(0, 3).map(float), st.floats(0, 1, allow_nan=False, width=16))


def _interval(a: float, b: float, open_left: int, open_right: int) -> tuple[float, float]:
    return (-inf if open_left == 0 else min(a, b)), (inf if open_right == 0 else max(a, b))


intervals = st.one_of(
    st.builds(_interval, numbers, numbers, st.integers(0, 9), st.integers(0, 9)), numbers.map(lambda x: (x, x))
)
scored_intervals = st.builds(lambda interval, score: (*interval, score), intervals, scores)
ranges = st.tuples(st.one_of(numbers, st.just(-inf)), st.one_of(numbers, st.just(inf))).map(
    lambda ends: (min(ends), max(ends))
)
events = st.one_of(numbers, st.integers(-1, 8).map(lambda x: x + 0.5), ranges, st.none())


NAMES = ("a", "b", "c")


Mode = Literal["exact", "relaxed"]
Combine = Literal["sum", "max", "product"]

KINDS: tuple[Kind, ...] = ("auto", "sopt-r", "ir", "segment", "interval", "scored-r")


MODES: tuple[tuple[Mode, Combine], ...] = (
    ("exact", "sum"),
    ("relaxed", "sum"),
    ("relaxed", "max"),
    ("relaxed", "product"),
)


weights = st.one_of(scores, st.sampled_from([0.0, 2.0, 0.5]))


boxes = st.lists(st.one_of(st.none(), intervals), min_size=3, max_size=3)


subscriptions = st.tuples(boxes, st.lists(weights, min_size=3, max_size=3))


places = st.lists(events, min_size=3, max_size=3)


def columns(config: Any, given_subscriptions: list[Any]) -> Subscriptions:
    """Subscriptions (intervals by dimension, weights) as the columns of the engine."""
    d = len(config.dimensions)
    n = len(given_subscriptions)
    lo, hi = np.empty((n, d)), np.empty((n, d))
    out = np.zeros((n, config.scores))
    for i, (box, weight) in enumerate(given_subscriptions):
        for j in range(d):
            absent = (inf, -inf) if config.relaxed else (-inf, inf)
            lo[i, j], hi[i, j] = absent if box[j] is None else box[j]
            if config.relaxed and box[j] is not None:
                out[i, j] = weight[j]
        if not config.relaxed:
            out[i, 0] = weight[0]
    return Subscriptions(lo, hi, out)


def wanted(
    config: Any, known: dict[Any, Any], event: Sequence[float | tuple[float, float] | None], k: int
) -> list[tuple[int, float]]:
    """The winners by brute force, as (number, score)."""
    d = len(config.dimensions)
    event = event[:d]
    if config.relaxed:
        return relaxed_top({n: (box[:d], weight) for n, (box, weight) in known.items()}, event, k, config.combine)
    return exact_top({n: (box[:d], weight[0]) for n, (box, weight) in known.items()}, event, k)
