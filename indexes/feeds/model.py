"""What a feed is and what is posted and asked, as users say it: its configuration, keywords, subscriptions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexes.feeds.tokens import Bag

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

Point: TypeAlias = tuple[float, float]

Shown: TypeAlias = list[str] | dict[str, float]
"""Keywords as they are shown: a list in the order given, or an object of weights; casefolded."""

MOST_WORDS = 1_000
"""Keywords of one post or subscription, those that are there twice included."""

MOST_LETTERS = 128
"""Characters of a keyword, casefolded."""

MOST_WEIGHT = 1e300
"""The greatest weight of a keyword."""


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """What a feed is made of. Just one of `posts` and `span` is given."""

    bounds: tuple[float, float, float, float]
    posts: int | None = None
    """The window is the last so many posts."""
    span: int | None = None
    """The window is the posts of so much time, in the unit of ticks: the service has milliseconds."""
    tfidf: bool = True
    """Whether weights are times idf."""
    buffer: str = "cost"
    method: str = "ordered"
    stop_words: tuple[str, ...] | None = None
    """What texts are read without, casefolded, in code-point order; None for English. The feed itself sees words."""

    @property
    def diagonal(self) -> float:
        """Of the bounds: the distance at which nothing is near any more."""
        x0, y0, x1, y1 = self.bounds
        return math.hypot(x1 - x0, y1 - y0)


def listed(words: Iterable[str]) -> Shown:
    """Keywords given as a list, or the tokens of a text, as they are shown."""
    return [word.casefold() for word in words]


def weighted(weights: Mapping[str, float]) -> Shown:
    """Keywords given as weights, as they are shown: those that are equal when casefolded are one, and their weights are
    added in order of the words as written."""
    folded = {word.casefold(): 0.0 for word in weights}
    for word in sorted(weights):
        folded[word.casefold()] += float(weights[word])
    return folded


def bag_of_shown(shown: Shown) -> Bag:
    """The words with their weights in code-point order: in a list a word weighs as often as it is there. They are taken
    as they stand, casefolded or not. O(n log n)."""
    if isinstance(shown, dict):
        return {word: shown[word] for word in sorted(shown)}
    counts = Counter(shown)
    return {word: float(counts[word]) for word in sorted(counts)}


@dataclass(slots=True)
class Keywords:
    """Keywords of many, as they are shown, by column: those of document i end at `end[i]`, behind those of the one
    before. `weight` is NaN for those of a list, and no weight may be. They are not changed once they are made: `sound`
    says that all were looked at, and that nothing is wrong but perhaps that there are none."""

    end: Int64
    word: pa.StringArray
    weight: Float64
    sound: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.end)

    @staticmethod
    def of(shown: Sequence[Shown]) -> Keywords:
        """What these say. O(words)."""
        end = np.cumsum([len(one) for one in shown], dtype=np.int64)
        word = pa.array([word for one in shown for word in one], pa.string())
        some = any(isinstance(one, dict) for one in shown)
        weight = np.full(len(word), np.nan)
        if some:
            at = 0
            for one in shown:
                if isinstance(one, dict):
                    weight[at : at + len(one)] = list(one.values())
                at += len(one)
        return Keywords(end, word, weight)

    @staticmethod
    def joined(some: Sequence[Keywords]) -> Keywords:
        """Those of all these, one's behind the other's. O(words), but nothing where there is one."""
        if len(some) == 1:
            return some[0]
        words = [len(one.word) for one in some]
        begin = np.cumsum([0, *words], dtype=np.int64)
        return Keywords(
            np.concatenate([np.empty(0, np.int64), *(one.end + at for one, at in zip(some, begin, strict=False))]),
            pa.concat_arrays([pa.array([], pa.string()), *(one.word for one in some)]),
            np.concatenate([np.empty(0), *(one.weight for one in some)]),
            all(one.sound for one in some),
        )

    def shown(self) -> list[Shown]:
        """All of them, one by one. O(words)."""
        words, weights = self.word.to_pylist(), self.weight.tolist()
        found: list[Shown] = []
        begin = 0
        for end in self.end.tolist():
            if begin < end and weights[begin] == weights[begin]:
                found.append(dict(zip(words[begin:end], weights[begin:end], strict=True)))
            else:
                found.append(words[begin:end])
            begin = end
        return found

    def faults(self, empty: bool) -> list[tuple[int, str]]:
        """What is wrong with which, in order; `empty` says whether one may be without keywords. O(words), but O(1) for
        each where they are known to be sound."""
        n = np.diff(self.end, prepend=0)
        self.sound = self.sound or self._are_sound(n)
        if self.sound and (empty or n.min(initial=1) > 0):
            return []
        letters = pc.utf8_length(self.word).to_numpy(zero_copy_only=False)
        weighted = ~np.isnan(self.weight)
        wrong = weighted & ~((self.weight > 0) & (self.weight <= MOST_WEIGHT))
        owner = np.repeat(np.arange(len(n)), n)
        found = [(int(i), "there must be at least one keyword") for i in np.flatnonzero((n < 1) & (not empty))]
        found += [(int(i), f"there are more than {MOST_WORDS} keywords") for i in np.flatnonzero(n > MOST_WORDS)]
        long = np.unique(owner[(letters < 1) | (letters > MOST_LETTERS)])
        found += [(i, f"a keyword has 1 to {MOST_LETTERS} characters") for i in long.tolist()]
        bad = np.unique(owner[wrong])
        found += [(i, f"a weight is a number above 0 and at most {MOST_WEIGHT:g}") for i in bad.tolist()]
        return sorted(found)

    def _are_sound(self, n: Int64) -> bool:
        letters = pc.utf8_length(self.word).to_numpy(zero_copy_only=False)
        return bool(
            n.max(initial=0) <= MOST_WORDS
            and letters.min(initial=1) > 0
            and letters.max(initial=0) <= MOST_LETTERS
            and not ((self.weight <= 0) | (self.weight > MOST_WEIGHT)).any()
        )

    def part(self, first: int, end: int) -> Keywords:
        """Those of documents first to end - 1, over the same memory."""
        begin = int(self.end[first - 1]) if first else 0
        upto = int(self.end[end - 1]) if end else 0
        word, weight = self.word.slice(begin, upto - begin), self.weight[begin:upto]
        return Keywords(self.end[first:end] - begin, word, weight, self.sound)

    def take(self, rows: Sequence[int]) -> Keywords:
        """Those of these documents, in this order. O(their words)."""
        at, n = np.asarray(rows, np.int64), np.diff(self.end, prepend=0)
        end = np.cumsum(n[at])
        places = np.repeat(self.end[at] - end, n[at]) + np.arange(int(n[at].sum()))
        return Keywords(end, self.word.take(pa.array(places)), self.weight[places], self.sound)


class Asked(NamedTuple):
    """What a subscription asks for."""

    keywords: Shown
    location: Point
    k: int
    alpha: float


class Standing(NamedTuple):
    """A subscription, and how long it may stay unused, in seconds or None."""

    asked: Asked
    ttl: float | None


@dataclass(slots=True)
class Subscriptions:
    """Subscriptions by column: places (n, 2), the length of the list, and how much nearness counts."""

    keywords: Keywords
    points: Float64
    k: Int64
    alpha: Float64

    def __len__(self) -> int:
        return len(self.k)

    def take(self, rows: Sequence[int]) -> Subscriptions:
        """Those at these places, in this order."""
        at = np.asarray(rows, np.int64)
        return Subscriptions(self.keywords.take(rows), self.points[at], self.k[at], self.alpha[at])

    def part(self, first: int, end: int) -> Subscriptions:
        """Those from one place to before another, over the same memory."""
        keywords = self.keywords.part(first, end)
        return Subscriptions(keywords, self.points[first:end], self.k[first:end], self.alpha[first:end])

    def asked(self, i: int) -> Asked:
        """What the one at this place asks for."""
        (shown,) = self.keywords.part(i, i + 1).shown()
        x, y = self.points[i].tolist()
        return Asked(shown, (x, y), int(self.k[i]), float(self.alpha[i]))

    @staticmethod
    def of(asked: Sequence[Asked]) -> Subscriptions:
        """What these say."""
        return Subscriptions(
            Keywords.of([one.keywords for one in asked]),
            np.array([one.location for one in asked], np.float64).reshape(-1, 2) + 0.0,
            np.array([one.k for one in asked], np.int64),
            np.array([one.alpha for one in asked], np.float64),
        )
