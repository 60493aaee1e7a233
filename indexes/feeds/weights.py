"""Weights of words: tf-idf by epochs, scaled to unit length.

idf(w) = ln(1 + N / max(1, df(w))), with N posts and df counted over the window when an epoch begins; before the first,
1. Of an empty window N is taken to be 1, so that no word weighs nothing. In between idf stands still, so that scores
inside a window can be compared.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

FIRST_EPOCH = 64
"""Posts before the first epoch."""

LEAST = 1e-150
"""What a weight is at least, over the greatest of its document: products of two are above 0."""


def idf_of(posts: int, df: NDArray[np.int32]) -> Float64:
    """By word, for so many posts in the window of which df have the word. O(words)."""
    different, at = np.unique(np.maximum(1, df), return_inverse=True)
    return np.array([math.log(1.0 + posts / count) for count in different.tolist()] or [0.0])[at]


class CountEpochs:
    """When epochs begin under a window of so many posts: right after post 64, 128, ... while that is at most the
    window, then each window after the last one."""

    def __init__(self, window: int) -> None:
        self._window = window
        self.last = 0

    @property
    def next(self) -> int:
        """The post, counted from 1, right after which the next epoch begins."""
        doubled = 2 * self.last if self.last else FIRST_EPOCH
        return doubled if self.last < doubled <= self._window else self.last + self._window

    def begin(self) -> None:
        """An epoch begins where the next one is due."""
        self.last = self.next


class SpanEpochs:
    """When epochs begin under a window of time: right after post 64, 128, ... until a post expires for the first time;
    from then on with the first post or tick that is a window after the last epoch."""

    def __init__(self, span: int) -> None:
        self._span = span
        self.expired = False
        self.last = 0
        self.last_at: int | None = None

    @property
    def next(self) -> int:
        """The post, counted from 1, right after which the next epoch begins, as long as none has expired."""
        return 2 * self.last if self.last else FIRST_EPOCH

    def due(self, posts: int, now: int) -> bool:
        """Whether one begins at this time with so many posts since ever, the last of them just now."""
        if not self.expired:
            return posts == self.next
        return self.last_at is None or now - self.last_at >= self._span

    def begin(self, posts: int, now: int) -> None:
        """An epoch begins."""
        self.last, self.last_at = posts, now


@inner_kernel
def weigh(word, raw, idf, begin, end, mask, out, base, step):  # type: ignore[no-untyped-def]
    """Write the unit weights of the terms from `begin` to `end` to `out`, from `base` on. A term stands at its number
    & mask, times `step`. Sums run in the order of the terms. No weight is 0, so that a shared word always counts."""
    most = 0.0
    for i in range(begin, end):
        most = max(most, raw[step * (i & mask)])
    total = 0.0
    for i in range(begin, end):
        at = step * (i & mask)
        value = max(raw[at] / most, LEAST) * idf[np.int64(word[at])]
        total += value * value
    length = math.sqrt(total)
    for i in range(begin, end):
        at = step * (i & mask)
        out[base + at] = max(raw[at] / most, LEAST) * idf[np.int64(word[at])] / length
