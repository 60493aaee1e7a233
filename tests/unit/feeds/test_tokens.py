"""Text becomes words and weights as it is said to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from indexes.feeds.kernels.weights import idf_of
from indexes.feeds.tokens import STOP_WORDS, bag_of, tokens
from indexes.feeds.words import Vocabulary


def test_words_are_runs_of_letters_and_digits_casefolded() -> None:
    assert tokens("Straße_42, the CAFÉ's 3rd\tÉtage") == ["strasse", "42", "café", "s", "3rd", "étage"]
    assert tokens("...") == [] and tokens("The the", ()) == ["the", "the"] and tokens("Ramen bar", {"bar"}) == ["ramen"]


def test_lucene_has_33_stop_words() -> None:
    assert len(STOP_WORDS) == 33 and not tokens(" ".join(STOP_WORDS).upper())


@given(st.text())
def test_any_text_becomes_casefolded_words(text: str) -> None:
    for word in tokens(text, ()):
        assert word and all(c.isalnum() for c in word)


def test_bags_are_in_code_point_order_and_add_up() -> None:
    assert list(bag_of(["b", "A", "é", "a", "Z"]).items()) == [("a", 2.0), ("b", 1.0), ("z", 1.0), ("é", 1.0)]


def test_rarer_words_weigh_more() -> None:
    idf = idf_of(100, np.array([0, 1, 10, 100], np.int32))
    assert idf[0] == idf[1] > idf[2] > idf[3] > 0


def test_numbers_of_words_stay_until_they_are_forgotten() -> None:
    words = Vocabulary()
    documents = words.documents([{"a": 1.0, "b": 2.0}, {}, {"b": 3.0}])
    assert documents.end.tolist() == [2, 2, 3] and documents.word.tolist() == [0, 1, 1]
    assert documents.part(1, 3).end.tolist() == [0, 1] and documents.part(1, 3).weight.tolist() == [3.0]
    words.forget(np.array([False, True]))
    assert "a" not in words and words.word(1) == "b"
    assert words.documents([{"c": 1.0, "b": 1.0}]).word.tolist() == [0, 1] and len(words) == 2
