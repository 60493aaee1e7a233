"""The order of numbers by their digits, beside Python's own sort."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from indexes.boards.radix import DIGITS, order_of
from indexes.lean import lean_kernel

few = st.sampled_from([0.0, 1.0, -1.0, 1.0 + 2**-52, 1.5, -1.5, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308])


@lean_kernel
def _order(values, n, least, keys, order, spare, heads):  # type: ignore[no-untyped-def]
    return order_of(values, n, least, keys, order, spare, heads)


def _ordered(values: list[float], least: int) -> tuple[list[int], bool]:
    n = len(values)
    order = np.full(n + 2, -1, np.int64)
    tied = _order(
        np.array([*values, 0.0, -7.0]), n, least, np.empty(n + 2, np.uint64), order, np.empty(n + 2, np.int64),
        np.full((DIGITS, 256), 99, np.int32),
    )  # fmt: skip
    assert (order[n:] == -1).all()
    return order[:n].tolist(), bool(tied)


@given(st.lists(few | st.floats(allow_nan=False).map(lambda x: x + 0.0), max_size=60))
@example([])
def test_numbers_are_put_in_order_and_equal_ones_stay_as_they_lie(values: list[float]) -> None:
    order, tied = _ordered(values, 0)
    assert order == sorted(range(len(values)), key=values.__getitem__)
    assert tied == (len(set(values)) < len(values))


@given(st.lists(few | st.floats(allow_nan=False).map(lambda x: x + 0.0), max_size=60))
def test_without_the_lower_digits_it_is_the_order_of_the_upper_ones(values: list[float]) -> None:
    def upper(i: int) -> int:
        bits = int(np.array(values[i]).view(np.int64))
        return (bits if bits >= 0 else ~bits - (1 << 63)) >> 32

    order, tied = _ordered(values, 4)
    assert order == sorted(range(len(values)), key=upper)
    assert tied == (len({upper(i) for i in range(len(values))}) < len(values))


def test_a_zero_below_nothing_comes_first() -> None:
    assert _ordered([0.0, -0.0], 0) == ([1, 0], False)
