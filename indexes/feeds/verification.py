"""Comparison of a feed with a scan: weights, and every list and buffer, computed from the window without an index."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from indexes.core.arrays import Floats, Ints, run_places
from indexes.core.verification import Checked, Difference
from indexes.feeds.kernels.subscriptions import ALPHA, ENTRY, POSTS, ROW, THETA, X, Y, terms_of
from indexes.feeds.kernels.weights import LEAST
from indexes.feeds.kernels.window import FIRST, NEXT
from indexes.feeds.plans.maintenance import Buffered, Captured

PIECE = 64
"""Subscriptions between two reports."""

CLOSE = 1e-9
"""The relative tolerance of weights, which are summed in another order."""


class Scan:
    """The posts of a captured window by word, with the weights of the window."""

    def __init__(self, captured: Captured, buffered: Buffered) -> None:
        self._captured = captured
        self._buffered = buffered
        v = buffered.window
        numbers = np.arange(v.size[FIRST], v.size[NEXT])
        place = numbers & (len(v.x) - 1) if len(numbers) else numbers
        numbers, place = numbers[v.gone[place] == 0], place[v.gone[place] == 0]
        length = v.terms[place].astype(np.int64)
        end = np.cumsum(length)
        at = run_places(v.term[place], length) & (len(v.word) - 1)
        self.numbers = numbers
        self.x, self.y = v.x[place], v.y[place]
        word, owner = v.word[at].astype(np.int64), np.repeat(np.arange(len(numbers)), length)
        order = np.argsort(word, kind="stable")
        self._word, self._owner, self._weight = word[order], owner[order], v.weight[at][order]
        self._terms = word, owner, v.raw[at], v.weight[at], end

    def broken_weights(self) -> list[Difference]:
        """Posts whose weights are not the scaled products of given weights and idf. O(terms)."""
        word, owner, raw, weight, end = self._terms
        wanted = self._unit(word, raw, owner, len(end))
        wrong = np.unique(owner[~np.isclose(weight, wanted, rtol=CLOSE, atol=0.0)])
        return [
            Difference("weights", f"post {number}", "those of its words", "others")
            for number in self.numbers[wrong].tolist()
        ]

    def _unit(self, word: Ints, raw: Floats, owner: Ints, n: int) -> Floats:
        c = self._captured
        df = np.zeros(max(len(c.epoch.df), int(word.max(initial=-1)) + 1))
        df[: len(c.epoch.df)] = c.epoch.df
        idf = np.log(1.0 + c.epoch.posts / np.maximum(1.0, df[word])) if c.epoch.posts else np.ones(len(word))
        most = np.zeros(n)
        np.maximum.at(most, owner, raw)
        value = np.maximum(raw / most[owner], LEAST) * idf
        return value / np.sqrt(np.bincount(owner, value * value, n))[owner]

    def best(self, slot: int) -> tuple[Ints, Floats]:
        """All posts that share a word with a subscription, best first, and their scores. O(posts)."""
        queries = self._captured.queries
        row = queries.row[slot * ROW : slot * ROW + ROW]
        terms, _ = terms_of(row)
        text, there = np.zeros(len(self.numbers)), np.zeros(len(self.numbers), bool)
        for term in terms.tolist():
            lo, hi = np.searchsorted(self._word, [queries.term[2 * term], queries.term[2 * term] + 1]).tolist()
            owner = self._owner[lo:hi]
            text[owner] += queries.term[2 * term + 1] * self._weight[lo:hi]
            there[owner] = True
        at = np.flatnonzero(there)
        dx, dy = row[X] - self.x[at], row[Y] - self.y[at]
        with np.errstate(over="ignore"):
            near = np.maximum(0.0, 1.0 - np.sqrt(dx * dx + dy * dy) / self._captured.config.diagonal)
        score = row[ALPHA] * near + (1.0 - row[ALPHA]) * text[at]
        order = np.lexsort((-self.numbers[at], -score))
        return self.numbers[at][order], score[order]

    def compare(self, slot: int) -> list[Difference]:
        """Differences between the list of a subscription and the scan's, and in its buffer: entries have to be posts of
        the window with their scores, in order, and not below theta. O(posts)."""
        b, queries = self._buffered, self._captured.queries
        row = queries.row[slot * ROW : slot * ROW + ROW]
        base, k, held = int(row.view(np.int64)[ENTRY]), int(queries.k[slot]), int(b.held[slot])
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
            expected = "posts of the window by score, none below theta"
            found.append(Difference("buffer", self._name(slot), expected, _shown(numbers, scores)))
        return found

    def _name(self, slot: int) -> str:
        (key,) = self._captured.ids.called(np.array([slot]))
        return key


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare ids, weights, and all lists and buffers with a scan. O(posts) a subscription."""
    assert captured.buffered is not None, "the indexes were not copied"
    slots = captured.queries.slots
    scan = Scan(captured, captured.buffered)
    wrong = captured.ids.compare(slots.astype(np.int32)) + scan.broken_weights()
    yield Checked(0, len(slots), len(wrong), wrong)
    for start in range(0, len(slots), PIECE):
        some = slots[start : start + PIECE].tolist()
        wrong = [difference for slot in some for difference in scan.compare(slot)]
        yield Checked(len(some), len(slots), len(wrong), wrong)


def _shown(numbers: Ints, scores: Floats) -> list[str]:
    return [f"post {number} {score!r}" for number, score in zip(numbers.tolist(), scores.tolist(), strict=True)]
