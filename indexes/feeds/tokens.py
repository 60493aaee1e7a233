"""From texts and keywords to words and weights.

A word is a run of letters and digits, casefolded. A *bag* is a document as `dict` from word to weight, in code-point
order of the words; sums run in this order everywhere, so that they are equal to the bit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such "  # noqa: SIM905
    "that the their then there these they this to was will with".split()
)
"""Lucene's list for English, 33 words."""

_RUN = re.compile(r"[^\W_]+")

Bag = dict[str, float]


def tokens(text: str, stop_words: Collection[str] = STOP_WORDS) -> list[str]:
    """The words of a text, with repetitions, without stop words. O(length).

    >>> tokens("The best Ramen in town: ramen No. 1!")
    ['best', 'ramen', 'town', 'ramen', '1']
    """
    return [word for word in _RUN.findall(text.casefold()) if word not in stop_words]


def bag_of(words: Iterable[str]) -> Bag:
    """The words with their numbers of occurrences. Words that are equal when casefolded are one.

    >>> bag_of(["Ramen", "coupon", "ramen"])
    {'coupon': 1.0, 'ramen': 2.0}
    """
    counts = Counter(word.casefold() for word in words)
    return {word: float(counts[word]) for word in sorted(counts)}
