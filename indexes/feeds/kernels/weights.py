"""Weights of words: tf-idf by epochs, scaled to unit length.

idf(w) = ln(1 + N / max(1, df(w))), with the number of posts N and the document frequency df counted over the window
when an epoch begins; 1 before the first epoch. N of an empty window counts as 1, so that no weight is 0. Within an
epoch idf is constant, so that scores inside a window can be compared.
"""

from __future__ import annotations

import math

import numpy as np

from indexes.compiled.jit import internal
from indexes.core.arrays import Floats, Ints32, int64

FIRST_EPOCH = 64
"""Posts before the first epoch."""

LEAST = 1e-150
"""The least weight, over the greatest of its document: products of two are above 0."""


def idf_of(posts: int, df: Ints32) -> Floats:
    """The idf of each word, for so many posts in the window, df of which contain it. O(words)."""
    different, at = np.unique(np.maximum(1, df), return_inverse=True)
    return np.array([math.log(1.0 + posts / count) for count in different.tolist()] or [0.0])[at]


class CountEpochs:
    """When epochs begin, for a window of so many posts: right after post 64, 128, ... up to the window, then a window
    after the last one."""

    def __init__(self, window: int) -> None:
        self._window = window
        self.last = 0

    @property
    def next(self) -> int:
        """The post, counted from 1, right after which the next epoch begins."""
        doubled = 2 * self.last if self.last else FIRST_EPOCH
        return doubled if self.last < doubled <= self._window else self.last + self._window

    def begin(self) -> None:
        """Begin the epoch that is due."""
        self.last = self.next


class SpanEpochs:
    """When epochs begin, for a window of time: right after post 64, 128, ... until the first post expires; from then on
    at the first post or tick that is a window after the last epoch."""

    def __init__(self, span: int) -> None:
        self._span = span
        self.expired = False
        self.last = 0
        self.last_at: int | None = None

    @property
    def next(self) -> int:
        """The post, counted from 1, right after which the next epoch begins, if none has expired."""
        return 2 * self.last if self.last else FIRST_EPOCH

    def due(self, posts: int, now: int) -> bool:
        """Whether an epoch begins at this time, right after the last of so many posts since the feed was created."""
        if not self.expired:
            return posts == self.next
        return self.last_at is None or now - self.last_at >= self._span

    def begin(self, posts: int, now: int) -> None:
        """Begin an epoch."""
        self.last, self.last_at = posts, now


@internal
def weigh(
    word: Floats | Ints32, raw: Floats, idf: Floats, begin: int, end: int, mask: int, out: Floats, step: int
) -> None:
    """Write the unit weights of the terms from `begin` to `end` to `out`. Term i has place `i & mask` in columns of
    `step` numbers a term; its weight goes to the last of them. Sums run in the order of the terms. No weight is 0, so
    that a shared word always counts."""
    most = 0.0
    for i in range(begin, end):
        most = max(most, raw[step * (i & mask)])
    total = 0.0
    for i in range(begin, end):
        at = step * (i & mask)
        value = max(raw[at] / most, LEAST) * idf[int64(word[at])]
        total += value * value
    length = math.sqrt(total)
    for i in range(begin, end):
        at = step * (i & mask)
        out[at + step - 1] = max(raw[at] / most, LEAST) * idf[int64(word[at])] / length
