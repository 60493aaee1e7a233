"""Keywords that are read together are those that are read one by one."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.api.element_errors import ElementErrors
from app.api.feeds.parsing.keywords import Words
from indexes.feeds.config import Keywords

words = st.sampled_from(["a", "b", "ab", "A", "ß", "ſ", "", "x" * 129, "\0", "İ"])
weights = st.sampled_from([1, 2.5, 1e300, 2e300, 0, -1.0, 10**400, math.nan, math.inf, True, "1", None])
keywords = st.one_of(
    st.lists(words, max_size=4),
    st.dictionaries(words, st.sampled_from([1, 0.5, 3.0]), max_size=4),
    st.dictionaries(words, weights, max_size=3),
    st.sampled_from([7, None, ["a", 3], ["a"] * 1001]),
)
items = st.one_of(
    st.fixed_dictionaries({"keywords": keywords}),
    st.sampled_from([{}, {"text": "The a of b"}, {"text": "a", "keywords": ["a"]}]),
)


def read(some: list[Any], needed: bool) -> tuple[Keywords, list[Any]]:
    errors = ElementErrors()
    return Words(None, errors, needed).read(3, some), list(errors)


@given(some=st.lists(items, max_size=4), needed=st.booleans(), few=st.sampled_from([1, 4]))
def test_keywords_read_together_are_those_read_one_by_one(some: list[Any], needed: bool, few: int) -> None:
    with patch("app.api.feeds.parsing.keywords.FEW", few // 4), patch("app.api.feeds.parsing.keywords.SOME", few):
        found, errors = read(some, needed)
    with patch("app.api.feeds.parsing.keywords.plain_keywords", lambda _: None):
        wanted, faults = read(some, needed)
    assert errors == faults
    assert found.end.tolist() == wanted.end.tolist() and found.words() == wanted.words()
    assert np.array_equal(found.weight, wanted.weight, equal_nan=True)
    assert found.count_unweighted() == wanted.count_unweighted()
    if not errors:
        # Whatever they say of themselves.
        assert Keywords(found.end, found.word, found.weight).faults(not needed) == []
