"""Small worlds for tests: on a grid, so that ends are shared and scores are equal, or off it."""

from __future__ import annotations

from math import inf

from hypothesis import strategies as st

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
