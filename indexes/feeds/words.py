"""Words by number, and documents as arrays, for kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

import numpy as np

from indexes.core.arrays import Bools, Floats, Ints, Ints32
from indexes.feeds.config import Keywords, bag_of_shown


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

    def __len__(self) -> int:
        """The end of the numbers, those of forgotten words included."""
        return len(self._word)

    def __contains__(self, word: str) -> bool:
        return word in self._number

    @property
    def known(self) -> int:
        """The number of words that are known."""
        return len(self._number)

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
        word = self._numbers_of(list(chain.from_iterable(bags)))
        end = np.cumsum([len(bag) for bag in bags], dtype=np.int64)
        weight = list(chain.from_iterable(bag.values() for bag in bags))
        return Documents(end, word, np.array(weight, np.float64))

    def documents_of(self, keywords: Keywords) -> Documents:
        """The bags of keywords as arrays; new words get numbers. Keywords that are in order are the bags themselves.
        O(words), and O(n log n) where they are not. Raises ValueError where there is not one weight for each."""
        end, words, weight = keywords.end, keywords.words(), keywords.weight
        if not keywords.in_order():
            return self.documents([bag_of_shown(one) for one in keywords.shown()])
        if len(weight) != len(words) or (int(end[-1]) if len(end) else 0) != len(words):
            raise ValueError(f"there are {len(weight)} weights for {len(words)} words")
        return Documents(end, self._numbers_of(words), keywords.weights())

    def _numbers_of(self, words: list[str]) -> Ints32:
        return np.array(self.take(words), np.int32)

    def take(self, words: list[str]) -> list[int]:
        """The numbers of words; new ones get some."""
        numbers = self._number
        try:
            return list(map(numbers.__getitem__, words))
        except KeyError:
            return [numbers[word] if word in numbers else self._take(word) for word in words]

    def forget(self, used: Bools) -> None:
        """Free the numbers of words that are not `used` (by number). O(numbers)."""
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

    def _take(self, word: str) -> int:
        if self._free:
            number = self._free.pop()
            self._word[number] = word
        else:
            number = len(self._word)
            self._word.append(word)
        self._number[word] = number
        return number
