"""A feed against a scan: weights, and every list and buffer, worked out anew from the window without any index."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from indexes.checked import Checked, Difference, compare_ids
from indexes.feeds.subscribers import ALPHA, ENTRY, POSTS, ROW, TERM, THETA, WORDS, X, Y
from indexes.feeds.upkeep import Buffered, Captured
from indexes.feeds.window import FIRST, NEXT

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

PIECE = 64
"""Subscriptions between two reports."""

CLOSE = 1e-9
"""How near weights have to be that are summed in another order."""


class Scan:
    """The posts of a captured window by word, with the weights that the window gives them."""

    def __init__(self, captured: Captured, buffered: Buffered) -> None:
        self._captured = captured
        self._buffered = buffered
        v = buffered.window
        numbers = np.arange(v.size[FIRST], v.size[NEXT])
        place = numbers & (len(v.x) - 1) if len(numbers) else numbers
        numbers, place = numbers[v.gone[place] == 0], place[v.gone[place] == 0]
        length = v.terms[place].astype(np.int64)
        end = np.cumsum(length)
        at = np.repeat(v.term[place] - end + length, length) + np.arange(int(length.sum()))
        at &= len(v.word) - 1
        self.numbers = numbers
        self.x, self.y = v.x[place], v.y[place]
        word, owner = v.word[at].astype(np.int64), np.repeat(np.arange(len(numbers)), length)
        order = np.argsort(word, kind="stable")
        self._word, self._owner, self._weight = word[order], owner[order], v.weight[at][order]
        self._terms = word, owner, v.raw[at], v.weight[at], end

    def broken_weights(self) -> list[Difference]:
        """Posts whose weights are not those of their words: of unit length, over idf as they were given. O(terms)."""
        word, owner, raw, weight, end = self._terms
        wanted = self._unit(word, raw, owner, len(end))
        wrong = np.unique(owner[~np.isclose(weight, wanted, rtol=CLOSE, atol=0.0)])
        return [
            Difference("weights", f"post {number}", "those of its words", "others")
            for number in self.numbers[wrong].tolist()
        ]

    def _unit(self, word: Int64, raw: Float64, owner: Int64, n: int) -> Float64:
        c = self._captured
        df = np.zeros(max(len(c.epoch.df), int(word.max(initial=-1)) + 1))
        df[: len(c.epoch.df)] = c.epoch.df
        idf = np.log(1.0 + c.epoch.posts / np.maximum(1.0, df[word])) if c.epoch.posts else np.ones(len(word))
        most = np.zeros(n)
        np.maximum.at(most, owner, raw)
        value = np.maximum(raw / most[owner], 1e-150) * idf
        return value / np.sqrt(np.bincount(owner, value * value, n))[owner]

    def best(self, slot: int) -> tuple[Int64, Float64]:
        """All posts that share a word with a subscription, best first, and their scores. O(posts)."""
        asks = self._captured.asks
        row = asks.row[slot * ROW : slot * ROW + ROW]
        begin, words = row.view(np.int64)[[TERM, WORDS]].tolist()
        text, there = np.zeros(len(self.numbers)), np.zeros(len(self.numbers), bool)
        for term in range(begin, begin + words):
            lo, hi = np.searchsorted(self._word, [asks.term[2 * term], asks.term[2 * term] + 1]).tolist()
            owner = self._owner[lo:hi]
            text[owner] += asks.term[2 * term + 1] * self._weight[lo:hi]
            there[owner] = True
        at = np.flatnonzero(there)
        dx, dy = row[X] - self.x[at], row[Y] - self.y[at]
        with np.errstate(over="ignore"):
            near = np.maximum(0.0, 1.0 - np.sqrt(dx * dx + dy * dy) / self._captured.config.diagonal)
        score = row[ALPHA] * near + (1.0 - row[ALPHA]) * text[at]
        order = np.lexsort((-self.numbers[at], -score))
        return self.numbers[at][order], score[order]

    def compare(self, slot: int) -> list[Difference]:
        """The list of a subscription beside the scan's, and the rest of its buffer: what is in it is in the window with
        that score, in order, and not below theta. O(posts)."""
        b, asks = self._buffered, self._captured.asks
        row = asks.row[slot * ROW : slot * ROW + ROW]
        base, k, held = int(row.view(np.int64)[ENTRY]), int(asks.k[slot]), int(b.held[slot])
        numbers, scores = b.tag[base : base + held] // POSTS, b.score[base : base + held]
        wanted, best = self.best(slot)
        found = []
        if not (np.array_equal(numbers[:k], wanted[:k]) and np.array_equal(scores[:k], best[:k])):
            shown = [_shown(wanted[:k], best[:k]), _shown(numbers[:k], scores[:k])]
            found.append(Difference("list", self._name(slot), *shown))
        score_of = dict(zip(wanted.tolist(), best.tolist(), strict=True))
        in_order = bool((np.lexsort((-numbers, -scores)) == np.arange(held)).all())
        right = all(score_of.get(n, math.nan) == s for n, s in zip(numbers.tolist(), scores.tolist(), strict=True))
        if not (in_order and right and (scores >= row[THETA]).all()):
            told = "posts of the window by score, none below theta"
            found.append(Difference("buffer", self._name(slot), told, _shown(numbers, scores)))
        return found

    def _name(self, slot: int) -> str:
        c = self._captured
        for key, row in c.recent.items():
            if row == slot:
                return key
        for i in np.flatnonzero(c.ids.row == slot).tolist():
            return c.ids.text[c.ids.offset[i] : c.ids.offset[i + 1]].tobytes().decode()
        return f"slot {slot}"


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare ids, weights, and all lists and buffers. O(posts) a subscription."""
    assert captured.buffered is not None, "the indexes were not copied"
    slots = captured.asks.slots
    scan = Scan(captured, captured.buffered)
    wrong = compare_ids(captured.ids, captured.recent, slots.astype(np.int32)) + scan.broken_weights()
    yield Checked(0, len(slots), len(wrong), wrong)
    for start in range(0, len(slots), PIECE):
        some = slots[start : start + PIECE].tolist()
        wrong = [difference for slot in some for difference in scan.compare(slot)]
        yield Checked(len(some), len(slots), len(wrong), wrong)


def _shown(numbers: Int64, scores: Float64) -> list[str]:
    return [f"post {number} {score!r}" for number, score in zip(numbers.tolist(), scores.tolist(), strict=True)]
