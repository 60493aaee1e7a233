"""What users give: the configuration of a feed, keywords, and subscriptions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import lt
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.core.arrays import Floats, Ints, run_lengths, run_places
from indexes.feeds.tokens import Bag

Point: TypeAlias = tuple[float, float]

SPACE = " "
"""What is behind each word of a `Spaced`; `indexes.core.cutting.SPACE` as a character."""


@dataclass(slots=True, frozen=True)
class Spaced:
    """`count` words as one text, a space behind each; none of them has a space in it. `listed` is the list of them,
    where it is kept as well.

    >>> spaced = Spaced("ramen udon ", 2)
    >>> spaced.words(), spaced.column().to_pylist()
    (['ramen', 'udon'], ['ramen', 'udon'])
    """

    text: str
    count: int
    listed: list[str] | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return self.count

    @classmethod
    def of(cls, words: list[str], together: str) -> Self | None:
        """These words, which are `together` with spaces between them; None where one has a space or a NUL in it, or
        there are none."""
        if not words or together.count(SPACE) != len(words) - 1 or "\0" in together:
            return None
        return cls(f"{together}{SPACE}", len(words), words)

    def words(self) -> list[str]:
        """The words. O(words), or O(1) where they are `listed`."""
        return self.text.split(SPACE)[:-1] if self.listed is None else self.listed

    def with_list(self) -> Spaced:
        """The same with its words `listed`. O(words), or O(1) where they are."""
        return self if self.listed is not None else Spaced(self.text, self.count, self.words())

    def part(self, begin: int, end: int) -> Spaced:
        """Words `begin` to `end` - 1, of which there are some, listed. O(words), or O(their number) where all are."""
        some = self.words()[begin:end]
        return Spaced(f"{SPACE.join(some)}{SPACE}", len(some), some)

    def column(self) -> pa.StringArray:
        """The words as an Arrow array. O(bytes), without a Python object for each."""
        texts = np.frombuffer(self.text.encode(), np.uint8)
        is_end = texts == ord(SPACE)
        offset = np.zeros(self.count + 1, np.int32)
        offset[1:] = np.flatnonzero(is_end) - np.arange(self.count)
        return pa.StringArray.from_buffers(self.count, pa.py_buffer(offset), pa.py_buffer(texts[~is_end]))


Texts: TypeAlias = list[str] | Spaced | pa.StringArray
"""A column of words: a list for a few documents; one text for some, in which words are looked for together; an Arrow
array for many, which takes the least memory."""

Shown: TypeAlias = list[str] | dict[str, float]
"""Keywords in responses: a list in the order given, or weights by word; casefolded."""

MOST_WORDS = 1_000
"""Keywords of one post or subscription, repeated ones included."""

MOST_LETTERS = 128
"""Characters of a keyword, casefolded."""

MOST_WEIGHT = 1e300
"""The greatest weight of a keyword."""


@dataclass(frozen=True, slots=True)
class FeedConfig:
    """The configuration of a feed. Exactly one of `posts` and `span` is given."""

    bounds: tuple[float, float, float, float]
    posts: int | None = None
    """The number of posts of the window."""
    span: int | None = None
    """The length of the window in time, in the unit of ticks; the service uses milliseconds."""
    tfidf: bool = True
    """Whether weights are multiplied by idf."""
    buffer: str = "cost"
    stop_words: tuple[str, ...] | None = None
    """Words that are left out of texts, casefolded, in code-point order; None for those of English."""

    @property
    def diagonal(self) -> float:
        """The diagonal of the bounds: the distance at which spatial similarity is 0."""
        x0, y0, x1, y1 = self.bounds
        return math.hypot(x1 - x0, y1 - y0)


def listed(words: Iterable[str]) -> Shown:
    """Keywords that were given as a list, or the tokens of a text."""
    return [word.casefold() for word in words]


def weighted(weights: Mapping[str, float]) -> Shown:
    """Keywords that were given as weights. Those that are equal when casefolded are one, and their weights are added in
    order of the words as written."""
    folded = {word.casefold(): 0.0 for word in weights}
    for word in sorted(weights):
        folded[word.casefold()] += float(weights[word])
    return folded


def bag_of_shown(shown: Shown) -> Bag:
    """The words with their weights in code-point order; the weight of a word of a list is its number of occurrences.
    Nothing is casefolded, and weights that are in order are the bag themselves. O(n log n)."""
    if isinstance(shown, dict):
        ordered = sorted(shown)
        return shown if ordered == list(shown) else {word: shown[word] for word in ordered}
    counts = Counter(shown)
    return {word: float(counts[word]) for word in sorted(counts)}


def weights_are_sound(weight: Floats) -> bool:
    """Whether all of these are weights, or NaN."""
    least, most = np.fmin.reduce(weight, initial=1.0), np.fmax.reduce(weight, initial=1.0)
    return bool(least > 0 and most <= MOST_WEIGHT)


@dataclass(slots=True)
class Keywords:
    """Keywords of many documents, by column: those of document i end at `end[i]`, after those of document i - 1.
    `weight` is NaN for those of a list. They are immutable; `sound` says that they were checked, and that no document
    has a fault except, perhaps, no keywords; `unweighted` is how many words have no weight, None if not counted yet;
    `record` is that of one post which came alone, with its words in order and a sound place (`kernels.record`)."""

    end: Ints
    word: Texts
    weight: Floats
    sound: bool = field(default=False, compare=False)
    unweighted: int | None = field(default=None, compare=False)
    record: bytearray | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.end)

    @staticmethod
    def of(shown: Sequence[Shown]) -> Keywords:
        """The keywords of these documents. O(words)."""
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
        """The keywords of all these, in order. O(words), or O(1) for one."""
        if len(some) == 1:
            return some[0]
        begin = np.cumsum([0, *(len(one.word) for one in some)], dtype=np.int64)[:-1]
        end = np.concatenate([np.empty(0, np.int64), *(one.end for one in some)])
        word: Texts
        lists = [one.word for one in some if isinstance(one.word, list)]
        texts = [one.word for one in some if isinstance(one.word, Spaced)]
        if len(lists) == len(some):
            word = list(chain.from_iterable(lists))
        elif len(texts) == len(some):
            word = Spaced("".join([one.text for one in texts]), sum(map(len, texts)))
        else:
            word = pa.concat_arrays([pa.array([], pa.string()), *(one.column() for one in some)])
        return Keywords(
            end + np.repeat(begin, list(map(len, some))),
            word,
            np.concatenate([np.empty(0), *(one.weight for one in some)]),
            all(one.sound for one in some),
        )

    def words(self) -> list[str]:
        """The words of all documents. O(words), or O(1) where there is a list of them."""
        # Read once: another thread may have one text become a list.
        texts = self.word
        if isinstance(texts, list):
            return texts
        word: list[str] = texts.words() if isinstance(texts, Spaced) else texts.to_pylist()
        return word

    def column(self) -> pa.StringArray:
        """The words of all documents as an Arrow array. O(words), or O(1) where they are one."""
        texts = self.word
        if isinstance(texts, Spaced):
            return texts.column()
        return pa.array(texts, pa.string()) if isinstance(texts, list) else texts

    def weights(self) -> Floats:
        """The weights, with 1 for those of a list. O(words), or O(1) where there are none of a list."""
        if self.count_unweighted() == 0:
            return self.weight
        return np.where(np.isnan(self.weight), 1.0, self.weight)

    def count_unweighted(self) -> int:
        """How many have no weight. O(words) for the first time."""
        if self.unweighted is None:
            self.unweighted = int(np.count_nonzero(np.isnan(self.weight)))
        return self.unweighted

    def unlisted(self) -> Keywords:
        """The same without a list of the words beside them as one text. O(1)."""
        if not isinstance(self.word, Spaced) or self.word.listed is None:
            return self
        word = Spaced(self.word.text, self.word.count)
        return Keywords(self.end, word, self.weight, self.sound, self.unweighted)

    def in_column(self) -> Keywords:
        """The same with the words as an Arrow array, which takes the least memory. O(words), or O(1)."""
        if not isinstance(self.word, list | Spaced):
            return self
        return Keywords(self.end, self.column(), self.weight, self.sound, self.unweighted)

    def in_order(self) -> bool:
        """Whether the words of each document are in code-point order, none of them twice. O(words)."""
        words = self.words()
        falls = len(words) - 1 - sum(map(lt, words, islice(words, 1, None)))
        if falls <= 0:
            return True
        # Where a document ends the next one begins with any word.
        ends = {end for end in self.end.tolist() if 0 < end < len(words)}
        return falls == sum(not words[end - 1] < words[end] for end in ends)

    def shown(self) -> list[Shown]:
        """The keywords of each document. O(words)."""
        words, weights = self.words(), self.weight.tolist()
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
        """The faults of documents, in order; `empty`: a document may have no keywords. O(words), or O(documents) if
        they are known to be sound."""
        if self.sound and empty:
            return []
        n = run_lengths(self.end)
        self.sound = self.sound or self._are_sound(n)
        if self.sound and (empty or n.min(initial=1) > 0):
            return []
        letters = self._letters()
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

    def _are_sound(self, n: Ints) -> bool:
        letters = self._letters()
        return bool(
            n.max(initial=0) <= MOST_WORDS
            and letters.min(initial=1) > 0
            and letters.max(initial=0) <= MOST_LETTERS
            and weights_are_sound(self.weight)
        )

    def _letters(self) -> Ints:
        """How long each word is."""
        if isinstance(self.word, list | Spaced):
            return np.array(list(map(len, self.words())), np.int64)
        letters: Ints = pc.utf8_length(self.word).to_numpy(zero_copy_only=False)
        return letters

    def part(self, first: int, end: int) -> Keywords:
        """The keywords of documents `first` to `end` - 1, over the same memory but for a list and for one text. O(1),
        and O(their words) where they are a list or one text, of which all words are listed the first time."""
        if not first and end == len(self.end):
            return self
        begin = int(self.end[first - 1]) if first else 0
        upto = int(self.end[end - 1]) if end else 0
        word: Texts
        if isinstance(self.word, Spaced):
            self.word = self.word.with_list()
            word = self.word.part(begin, upto) if begin < upto else []
        else:
            word = self.word[begin:upto] if isinstance(self.word, list) else self.word.slice(begin, upto - begin)
        return Keywords(self.end[first:end] - begin, word, self.weight[begin:upto], self.sound)

    def take(self, rows: Sequence[int]) -> Keywords:
        """The keywords of these documents, in this order. O(their words)."""
        at, n = np.asarray(rows, np.int64), run_lengths(self.end)
        places = run_places(self.end[at] - n[at], n[at])
        word = self.words() if isinstance(self.word, Spaced) else self.word
        some = [word[i] for i in places.tolist()] if isinstance(word, list) else word.take(pa.array(places))
        return Keywords(np.cumsum(n[at]), some, self.weight[places], self.sound)


class Query(NamedTuple):
    """The query of a subscription."""

    keywords: Shown
    location: Point
    k: int
    alpha: float


class SubscriptionState(NamedTuple):
    """A query, and how long its subscription may stay unused, in seconds or None."""

    query: Query
    ttl: float | None


@dataclass(slots=True)
class Subscriptions:
    """Queries by column: places (n, 2), lengths of lists, and weights of the spatial similarity."""

    keywords: Keywords
    points: Floats
    k: Ints
    alpha: Floats

    def __len__(self) -> int:
        return len(self.k)

    def take(self, rows: Sequence[int]) -> Subscriptions:
        """Those at these places, in this order."""
        at = np.asarray(rows, np.int64)
        return Subscriptions(self.keywords.take(rows), self.points[at], self.k[at], self.alpha[at])

    def part(self, first: int, end: int) -> Subscriptions:
        """Those at places `first` to `end` - 1, over the same memory."""
        keywords = self.keywords.part(first, end)
        return Subscriptions(keywords, self.points[first:end], self.k[first:end], self.alpha[first:end])

    def query(self, i: int) -> Query:
        """The query at this place."""
        (shown,) = self.keywords.part(i, i + 1).shown()
        x, y = self.points[i].tolist()
        return Query(shown, (x, y), int(self.k[i]), float(self.alpha[i]))

    @staticmethod
    def of(queries: Sequence[Query]) -> Subscriptions:
        """Columns of these queries."""
        return Subscriptions(
            Keywords.of([one.keywords for one in queries]),
            np.array([one.location for one in queries], np.float64).reshape(-1, 2) + 0.0,
            np.array([one.k for one in queries], np.int64),
            np.array([one.alpha for one in queries], np.float64),
        )
