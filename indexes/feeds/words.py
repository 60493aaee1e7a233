"""Words by number, and documents as arrays, for kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np

from indexes.compiled.text import EIGHT
from indexes.core.arrays import Bools, Floats, Ints, Ints32
from indexes.core.known_ids import MOST, KnownIds
from indexes.feeds.config import SPACE, Keywords, Spaced, bag_of_shown
from indexes.feeds.kernels.record import OneRecord, lay_out, learn
from indexes.feeds.kernels.window import Window
from indexes.feeds.kernels.word_order import in_order


class Documents(NamedTuple):
    """Bags, one after the other, each in code-point order of its words."""

    end: Ints  # by document: where its words end
    word: Ints32
    weight: Floats  # as given: not yet times idf, nor of unit length

    def __len__(self) -> int:
        return len(self.end)

    def part(self, first: int, end: int) -> Documents:
        """Documents `first` to `end` - 1. O(their number), or O(1) for all."""
        if not first and end == len(self.end):
            return self
        begin = int(self.end[first - 1]) if first else 0
        upto = int(self.end[end - 1]) if end else 0
        return Documents(self.end[first:end] - begin, self.word[begin:upto], self.weight[begin:upto])


class Vocabulary:
    """Numbers of words, reused once a word is forgotten."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._free: list[int] = []
        self._word: list[str] = []
        self._table = KnownIds()
        """Numbers of words that are looked up together; a word may be missing."""

    def __len__(self) -> int:
        """The end of the numbers, those of forgotten words included."""
        return len(self._word)

    def __contains__(self, word: str) -> bool:
        return word in self._number

    @property
    def known(self) -> int:
        """The number of words that are known."""
        return len(self._number)

    @property
    def many(self) -> bool:
        """Whether there are too many words to look some up together."""
        return len(self._number) > MOST

    def texts(self) -> list[str]:
        """The words by number; those of free numbers are arbitrary. O(numbers)."""
        return self._word.copy()

    def number(self, word: str) -> int:
        """The number of a word, or -1."""
        return self._number.get(word, -1)

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The numbers of words that are known. Raises KeyError."""
        return [self._number[word] for word in words]

    def word(self, number: int) -> str:
        """The word of a number."""
        return self._word[number]

    def documents(self, bags: Sequence[Mapping[str, float]]) -> Documents:
        """Bags as arrays; new words get numbers. O(words)."""
        word = self._assigned(list(chain.from_iterable(bags)))
        end = np.cumsum([len(bag) for bag in bags], dtype=np.int64)
        weight = list(chain.from_iterable(bag.values() for bag in bags))
        return Documents(end, word, np.array(weight, np.float64))

    def documents_of(self, keywords: Keywords) -> Documents:
        """The bags of keywords as arrays; new words get numbers. Keywords that are in order are the bags themselves.
        O(words), and O(n log n) where they are not. Raises ValueError where there is not one weight for each."""
        end, weight, count = keywords.end, keywords.weight, len(keywords.word)
        if len(weight) != count or (int(end[-1]) if len(end) else 0) != count:
            raise ValueError(f"there are {len(weight)} weights for {count} words")
        if isinstance(keywords.word, Spaced):
            texts = _bytes_of(keywords.word.text)
            if in_order(np.frombuffer(texts, np.uint8), end):
                return Documents(end, self._assigned_spaced(texts, keywords.word), keywords.weights())
        elif keywords.in_order():
            return Documents(end, self._assigned(keywords.words()), keywords.weights())
        return self.documents([bag_of_shown(one) for one in keywords.shown()])

    def lay_out(self, record: bytearray, words: list[str], time: int, one: OneRecord, window: Window) -> bool:
        """Write the batch of a record with these words; new ones get numbers. Returns whether the window surely has
        room for it. There are not to be `many` words. O(words)."""
        table = self._table
        if table.make_room(len(self._number)):
            self._fill_table()
        kept = one.kept(record, table, window)
        unknown = lay_out(kept, time, table.generation)
        if unknown > 0:
            number = one.batch.word
            for i, known in enumerate(number[: len(words)].tolist()):
                if known < 0:
                    (number[i],) = self.assign([words[i]])
            learn(kept, table.generation)
        return unknown == 0

    def assign(self, words: list[str]) -> list[int]:
        """The numbers of words; new ones get some. O(words)."""
        numbers = self._number
        found: list[Any] = list(map(numbers.get, words))
        if None in found:
            for at in [i for i, number in enumerate(found) if number is None]:
                # A new word may come twice.
                found[at] = numbers[words[at]] if words[at] in numbers else self._add(words[at])
        return found

    def _assigned(self, words: list[str]) -> Ints32:
        """As `assign`, as an array."""
        return np.array(self.assign(words), np.int32)

    def _assigned_spaced(self, texts: bytearray, spaced: Spaced) -> Ints32:
        """As `assign`, of words that are also given as `_bytes_of` their text: most are found without the dict."""
        if self.many:
            return self._assigned(spaced.words())
        if self._table.make_room(len(self._number)):
            self._fill_table()
        column = np.frombuffer(texts, np.uint8)
        found = self._table.rows(column, len(spaced))
        at = np.flatnonzero(found < 0)
        if len(at):
            begins = (-1 - found[at]).tolist()
            words = [texts[begin : texts.index(SPACE.encode(), begin)].decode() for begin in begins]
            found[at] = self._assigned(words)
            self._table.learn(column, found)
        return found

    def _fill_table(self) -> None:
        """Put all words that a `Spaced` may have into the table, which is empty. O(words)."""
        words = [word for word in self._number if word and SPACE not in word and "\0" not in word]
        rows = np.array([self._number[word] for word in words], np.int32)
        texts = _bytes_of("".join([f"{word}{SPACE}" for word in words]))
        self._table.learn(np.frombuffer(texts, np.uint8), rows)

    def forget(self, used: Bools) -> None:
        """Free the numbers of words that are not `used` (by number). O(numbers)."""
        self._table = KnownIds()
        for number in np.flatnonzero(~used[: len(self._word)]).tolist():
            if self._number.get(self._word[number]) == number:
                del self._number[self._word[number]]
                self._free.append(number)

    def freeze(self) -> tuple[list[str], list[int]]:
        """The words by number, and the free numbers, for `thaw`."""
        return self._word, self._free

    @classmethod
    def thaw(cls, words: list[str], free: list[int]) -> Self:
        """A vocabulary in the state of a frozen one."""
        vocabulary, forgotten = cls(), set(free)
        vocabulary._word, vocabulary._free = words, free
        vocabulary._number = {word: number for number, word in enumerate(words) if number not in forgotten}
        return vocabulary

    def _add(self, word: str) -> int:
        """Give a new word a number."""
        if self._free:
            number = self._free.pop()
            self._word[number] = word
        else:
            number = len(self._word)
            self._word.append(word)
        self._number[word] = number
        return number


def _bytes_of(texts: str) -> bytearray:
    """Words with a space behind each as kernels read them, which may read EIGHT bytes beyond a word."""
    return bytearray(f"{texts}{SPACE * EIGHT}", "utf-8")
