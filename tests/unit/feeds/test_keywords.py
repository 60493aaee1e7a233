"""Columns of keywords: with their words as a list or as an array, and the documents made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.feeds.config import Keywords, Shown, bag_of_shown
from indexes.feeds.words import Documents, Vocabulary

WORDS = ["a", "b", "ab", "B", "\u00e9", "\uffff", "\U0001d11e"]
some_words = st.sampled_from(WORDS)
weights = st.sampled_from([0.5, 1.0, 3.0])
shown = st.lists(some_words, max_size=4) | st.dictionaries(some_words, weights, max_size=4)
documents = st.lists(shown, max_size=6)


def listed(some: list[Shown]) -> Keywords:
    found = Keywords.of(some)
    return Keywords(found.end, found.words(), found.weight)


def parts(some: Documents) -> tuple[Any, ...]:
    return some.end.tolist(), some.word.tolist(), some.weight.tolist()


def values(some: Keywords) -> tuple[Any, ...]:
    return some.end.tolist(), some.words(), some.shown(), some.faults(True), some.faults(False)


@given(some=documents, rows=st.lists(st.integers(0, 5), max_size=6), lo=st.integers(0, 6), n=st.integers(0, 6))
def test_words_as_a_list_are_those_of_an_array(some: list[Shown], rows: list[int], lo: int, n: int) -> None:
    array, as_list = Keywords.of(some), listed(some)
    assert values(as_list) == values(array) == values(as_list.in_column())
    assert as_list.in_column().column().equals(array.column())
    assert as_list.count_unweighted() == sum(len(one) for one in some if isinstance(one, list))
    rows = [row for row in rows if row < len(some)]
    assert values(as_list.take(rows)) == values(array.take(rows))
    lo, hi = min(lo, len(some)), min(lo + n, len(some))
    assert values(as_list.part(lo, hi)) == values(array.part(lo, hi))
    assert as_list.part(lo, hi).shown() == array.shown()[lo:hi]
    for mixed in ([as_list, as_list], [array, as_list], [as_list.part(0, lo), as_list.part(lo, len(some)), array]):
        joined = Keywords.joined(mixed)
        assert joined.shown() == [one for each in mixed for one in each.shown()]


@given(some=documents, sort=st.booleans())
def test_documents_of_keywords_are_those_of_their_bags(some: list[Shown], sort: bool) -> None:
    if sort:
        some = [sorted(set(one)) if isinstance(one, list) else dict(sorted(one.items())) for one in some]
    keywords, whole, apart = listed(some), Vocabulary(), Vocabulary()
    before = keywords.weight.copy()
    in_order = [list(one) == sorted(set(one)) for one in some]
    assert keywords.in_order() == all(in_order)
    found = whole.documents_of(keywords)
    assert parts(found) == parts(apart.documents([bag_of_shown(one) for one in some]))
    assert whole.texts() == apart.texts()
    assert np.array_equal(keywords.weight, before, equal_nan=True), "responses show which words have none"


def test_weights_that_are_not_one_for_each_word_are_refused() -> None:
    for end, weight in ((2, [1.0]), (1, [1.0, 2.0]), (3, [1.0, 2.0])):
        with pytest.raises(ValueError, match="weights"):
            Vocabulary().documents_of(Keywords(np.array([end]), ["a", "b"], np.array(weight)))
