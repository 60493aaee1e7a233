"""Columns of keywords: with their words as a list, as one text or as an array, and the documents made of them."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.feeds import words as feed_words
from indexes.feeds.config import SPACE, Keywords, Shown, Spaced, bag_of_shown
from indexes.feeds.words import Documents, Vocabulary

WORDS = ["a", "b", "ab", "B", "\u00e9", "\uffff", "\U0001d11e"]
some_words = st.sampled_from(WORDS)
weights = st.sampled_from([0.5, 1.0, 3.0])
shown = st.lists(some_words, max_size=4) | st.dictionaries(some_words, weights, max_size=4)
documents = st.lists(shown, max_size=6)


def listed(some: list[Shown]) -> Keywords:
    found = Keywords.of(some)
    return Keywords(found.end, found.words(), found.weight)


def spaced(some: list[Shown]) -> Keywords:
    found = listed(some)
    words = found.words()
    return Keywords(found.end, Spaced.of(words, SPACE.join(words)) or words, found.weight)


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
    keywords, whole, apart, together = listed(some), Vocabulary(), Vocabulary(), Vocabulary()
    before = keywords.weight.copy()
    in_order = [list(one) == sorted(set(one)) for one in some]
    assert keywords.in_order() == all(in_order)
    found = whole.documents_of(keywords)
    assert parts(found) == parts(apart.documents([bag_of_shown(one) for one in some]))
    assert whole.texts() == apart.texts()
    assert parts(together.documents_of(spaced(some))) == parts(found) and together.texts() == whole.texts()
    assert np.array_equal(keywords.weight, before, equal_nan=True), "responses show which words have none"


@given(some=documents, lo=st.integers(0, 6), n=st.integers(0, 6), unlisted=st.booleans())
def test_words_as_one_text_are_those_of_a_list(some: list[Shown], lo: int, n: int, unlisted: bool) -> None:
    as_list, as_text = listed(some), spaced(some)
    if unlisted:
        as_text = as_text.unlisted()
    assert values(as_text) == values(as_list) and as_text.column().equals(as_list.column())
    assert values(as_text.in_column()) == values(as_list.in_column())
    assert values(as_text.take(range(len(some)))) == values(as_list)
    for mixed in ([as_text, as_text], [as_list, as_text], [as_text, as_list.in_column()]):
        assert Keywords.joined(mixed).shown() == [one for each in mixed for one in each.shown()]
    lo, hi = min(lo, len(some)), min(lo + n, len(some))
    assert values(as_text.part(lo, hi)) == values(as_list.part(lo, hi))


def test_words_with_a_space_or_a_nul_are_no_one_text() -> None:
    for words in ([], ["a b"], ["a", "b\0"], ["a", " "]):
        assert Spaced.of(words, SPACE.join(words)) is None


@pytest.mark.parametrize("seed", range(6))
def test_words_looked_up_together_have_the_same_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed == 5:
        monkeypatch.setattr(feed_words, "MOST", 20)
    draw = random.Random(seed)
    letters, longest = draw.choice([("ab", 6), ("a\u00e9\U0001d11e\t~", 40), ("0123456789", 9), ("xyz.-", 25)])
    one, together, apart = Vocabulary(), Vocabulary(), Vocabulary()
    for _ in range(60):
        words = ["".join(draw.choices(letters, k=draw.randrange(1, longest))) for _ in range(draw.randrange(1, 90))]
        end = np.sort(np.array([*draw.choices(range(len(words) + 1), k=5), len(words)]))
        some: list[Shown] = [sorted(set(words[lo:hi])) for lo, hi in pairwise([0, *end.tolist()])]
        documents = together.documents_of(spaced(some))
        assert parts(documents) == parts(one.documents_of(listed(some)))
        whole, middle = spaced(some), draw.randrange(len(some) + 1)
        pieces = [apart.documents_of(whole.part(lo, hi)) for lo, hi in ((0, middle), (middle, len(some)))]
        assert [word for piece in pieces for word in piece.word.tolist()] == documents.word.tolist()
        if draw.random() < 0.3:
            # Of numbers that are used again, each is that of another word.
            used = np.array([draw.random() < 0.5 for _ in range(len(one))])
            one.forget(used)
            together.forget(used)
            apart.forget(used)
    assert one.texts() == together.texts() == apart.texts()
    assert together.freeze() == one.freeze()


def test_weights_that_are_not_one_for_each_word_are_refused() -> None:
    for end, weight in ((2, [1.0]), (1, [1.0, 2.0]), (3, [1.0, 2.0])):
        with pytest.raises(ValueError, match="weights"):
            Vocabulary().documents_of(Keywords(np.array([end]), ["a", "b"], np.array(weight)))
