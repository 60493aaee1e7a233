"""From what a user writes to words and weights.

A word is a run of letters and digits, casefolded. A *bag* is a document as `dict` from word to weight, in code-point
order of the words: sums run over it in this order, so that they are the same wherever they are worked out.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such "  # noqa: SIM905
    "that the their then there these they this to was will with".split()
)
"""Lucene's list for English, 33 words."""

_RUN = re.compile(r"[^\W_]+")

Bag = dict[str, float]


def tokens(text: str, stop_words: Collection[str] = STOP_WORDS) -> list[str]:
    """The words of a text, one for each time that it is there, without stop words. O(length).

    >>> tokens("The best Ramen in town: ramen No. 1!")
    ['best', 'ramen', 'town', 'ramen', '1']
    """
    return [word for word in _RUN.findall(text.casefold()) if word not in stop_words]


def bag_of(words: Iterable[str]) -> Bag:
    """The words with how often each is there. Words that are equal when casefolded are one.

    >>> bag_of(["Ramen", "coupon", "ramen"])
    {'coupon': 1.0, 'ramen': 2.0}
    """
    counts = Counter(word.casefold() for word in words)
    return {word: float(counts[word]) for word in sorted(counts)}


def bag_of_weights(weights: Mapping[str, float]) -> Bag:
    """The words with their weights; those of words that are equal when casefolded are added, in order of the words as
    they are written.

    Raises:
        ValueError: a weight is not a number above 0, or a sum is too large.
    """
    bag: Bag = {}
    for word in sorted(weights):
        folded = word.casefold()
        bag[folded] = bag.get(folded, 0.0) + float(weights[word])
        if not (weights[word] > 0 and math.isfinite(bag[folded])):
            raise ValueError(f"the weight {weights[word]} of {word!r} is not a number above 0")
    return {word: bag[word] for word in sorted(bag)}
