"""The keywords of subscriptions as they were given, by slot: numbers of words, in the order given, with repetitions.

Weights are with the terms of the table, which has each word once, in code-point order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from indexes.core.arrays import Ints, run_places
from indexes.feeds.config import Shown
from indexes.feeds.kernels.arena import Arena, grown
from indexes.feeds.kernels.subscriptions import ROW, TERM, Table
from indexes.feeds.words import Vocabulary


class Listings:
    """The columns: 13 bytes a subscription, and four a keyword."""

    def __init__(self) -> None:
        self._runs = Arena()
        self.begin = np.empty(0, np.int64)
        self.length = np.empty(0, np.int32)
        self.weighted = np.empty(0, np.uint8)
        self.word = np.empty(0, np.int32)

    def put(self, slots: Ints, shown: Sequence[Shown], words: Vocabulary) -> None:
        """Store the keywords of slots that have none; the vocabulary knows their words. O(keywords)."""
        length = np.array([len(one) for one in shown], np.int64)
        begin = self._runs.take(length)
        self._reserve(int(slots.max(initial=-1)) + 1)
        self.begin[slots], self.length[slots] = begin, length
        self.weighted[slots] = [isinstance(one, dict) for one in shown]
        self.word[run_places(begin, length)] = words.numbers(word for one in shown for word in one)

    def expect(self, slots: int, keywords: int) -> None:
        """Make room, and no more, for slots below this and so many new keywords. O(their number)."""
        self._reserve(slots, keywords)

    def remove(self, slots: Ints) -> None:
        """Remove the keywords of slots. O(n log n)."""
        self._runs.give_back(self.begin[slots], self.length[slots].astype(np.int64))

    def shown(self, slot: int, table: Table, words: Vocabulary) -> Shown:
        """The keywords of a slot. O(keywords)."""
        begin = int(self.begin[slot])
        numbers = self.word[begin : begin + int(self.length[slot])].tolist()
        if not self.weighted[slot]:
            return [words.word(number) for number in numbers]
        s = table.arrays
        first = int(s.note[slot * ROW + TERM])
        terms = slice(2 * first, 2 * (first + int(s.words[slot])), 2)
        weight = dict(zip(s.term[terms].astype(np.int64).tolist(), s.raw[terms].tolist(), strict=True))
        return {words.word(number): weight[number] for number in numbers}

    def _reserve(self, slots: int, keywords: int = 0) -> None:
        if slots > len(self.begin):
            room = max(slots, 3 * len(self.begin) // 2, 64)
            for name in ("begin", "length", "weighted"):
                setattr(self, name, grown(getattr(self, name), room))
        if (keywords := self._runs.end + keywords) > len(self.word):
            self.word = grown(self.word, max(keywords, 3 * len(self.word) // 2, 64))
