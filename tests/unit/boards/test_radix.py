"""The order of numbers by their digits, beside Python's own sort."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from indexes.boards.kernels.radix import DIGITS, MOVES, order_by_upper, order_of, place_of
from indexes.compiled.jit import kernel

few = st.sampled_from([0.0, 1.0, -1.0, 1.0 + 2**-52, 1.5, -1.5, np.inf, -np.inf, 5e-324, -5e-324, 1e308, -1e308])
numbers = st.lists(few | st.floats(allow_nan=False).map(lambda x: x + 0.0), max_size=60)


@kernel
def _order(values: Any, n: Any, words: Any, spare: Any, heads: Any, wholly: Any, places: Any) -> Any:
    decided = True
    if wholly:
        decided = order_of(values, n, words, spare, heads)
    else:
        order_by_upper(values, n, words, spare, heads)
    for t in range(n):
        places[t] = place_of(words[t])
    return decided


def _ordered(values: list[float], wholly: bool) -> tuple[list[int], bool]:
    n = len(values)
    words, spare, places = np.full(n + 2, 77, np.uint64), np.empty(n + 2, np.uint64), np.full(n + 2, -1)
    heads = np.full((DIGITS, 256), 99, np.int32)
    decided = _order(np.array([*values, 0.0, -7.0]), n, words, spare, heads, wholly, places)
    assert (words[n:] == 77).all()
    return places[:n].tolist(), bool(decided)


@given(numbers)
@example([])
def test_numbers_are_put_in_order_unless_some_are_equal(values: list[float]) -> None:
    order, decided = _ordered(values, True)
    assert decided == (len(set(values)) == len(values))
    if decided:
        assert order == sorted(range(len(values)), key=values.__getitem__)


@given(numbers)
def test_by_the_upper_half_those_that_are_alike_stay_as_they_lie(values: list[float]) -> None:
    def upper(i: int) -> int:
        bits = int(np.array(values[i]).view(np.int64))
        return (bits if bits >= 0 else ~bits - (1 << 63)) >> 32

    assert _ordered(values, False)[0] == sorted(range(len(values)), key=upper)


def test_a_zero_below_nothing_comes_first() -> None:
    assert _ordered([0.0, -0.0], False) == ([1, 0], True)


def test_where_too_many_are_alike_nothing_is_decided() -> None:
    n = 40 * MOVES
    falling = [1.0 + (n - i) * 2.0**-52 for i in range(n)]
    assert not _ordered(falling, True)[1]
    assert _ordered(falling[::-1], True) == ([*range(n)], True)
