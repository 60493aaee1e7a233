"""Texts by place, beside strings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.compiled.jit import kernel
from indexes.compiled.text import WIDE, put_over
from indexes.core.arrays import Bytes
from indexes.core.texts import LaterTexts, Placed, Texts, gathered, placed

words = st.lists(st.text(max_size=50), max_size=12)


@given(words, words, st.data())
def test_texts_of_rows_are_found_wherever_they_are(base: list[str], later: list[str], data: st.DataObject) -> None:
    more = LaterTexts()
    more.add(later)
    every = base + later
    place = np.array(data.draw(st.permutations(range(len(every)))), np.int32)
    rows = data.draw(st.lists(st.sampled_from(range(len(every))), max_size=20)) if every else []
    wanted = [every[place[row]] for row in rows]
    found = placed(Texts.of(base).read_only, more.taken(), place, np.array(rows, np.int32))
    more.add(["behind"] * 40)
    assert found.size == sum(len(text.encode()) for text in wanted)
    assert gathered(found).array().to_pylist() == wanted
    for begin in range(len(rows) + 1):
        part = found.part(begin, begin + 3)
        assert part.size == sum(len(text.encode()) for text in wanted[begin : begin + 3])
        assert gathered(part).array().to_pylist() == wanted[begin : begin + 3]


def test_no_texts() -> None:
    none = LaterTexts().taken()
    assert gathered(Placed(none, none, np.empty(0, np.int32), 0)).array().to_pylist() == []


@kernel
def _put(out: Bytes, at: int, source: Bytes, begin: int, length: int) -> int:
    return put_over(out, at, source, begin, length)


@pytest.mark.parametrize("size", [1, WIDE, WIDE + 1, 3 * WIDE + 5])
def test_bytes_are_copied_up_to_the_ends_of_arrays(size: int) -> None:
    """Nothing before them is touched, nor more than is said behind them."""
    source = np.arange(1, size + 1, dtype=np.uint8)
    for begin in range(size):
        for length in range(size - begin + 1):
            for at, spare in ((0, 0), (3, 1), (5, WIDE), (0, 2 * WIDE)):
                out = np.zeros(at + length + spare, np.uint8)
                assert _put(out, at, source, begin, length) == at + length
                assert (out[at : at + length] == source[begin : begin + length]).all()
                assert not out[:at].any() and not out[at + length + WIDE :].any()
