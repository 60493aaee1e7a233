"""Epochs of a feed: words get new weights from the window, and one pass over it fills all buffers."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Ints, Ints32
from indexes.core.steps import in_halves
from indexes.feeds.config import FeedConfig
from indexes.feeds.kernels import step
from indexes.feeds.kernels import window as win
from indexes.feeds.kernels.buffers import lists_of
from indexes.feeds.kernels.refill import bound_all
from indexes.feeds.kernels.subscriptions import ROW, THETA, weigh_subscriptions
from indexes.feeds.kernels.weights import CountEpochs, SpanEpochs, idf_of
from indexes.feeds.kernels.window import FIRST, NEXT, THERE
from indexes.feeds.lists import FeedLists
from indexes.feeds.parts import divided
from indexes.feeds.report import Report
from indexes.feeds.subscription_index import SubscriptionIndex

BOUNDED = 4_096
"""Subscriptions whose thetas are computed at once before a refill."""

REFILLED = 64
"""Posts inserted at once by a refill."""


class Epoch(NamedTuple):
    """What idf is computed from: the number of `posts` in the window when the epoch began (0: none has begun, or
    weights are given), and how many of them contained each word, by number. `last` is the number of posts since the
    feed was created, and `last_at` the time, of that moment; `expired`: a post of a window of time has expired."""

    posts: int
    df: Ints32
    last: int
    last_at: int | None
    expired: bool


class FeedEpochs(FeedLists):
    """The epochs of one feed, and the clock that those of a window of time depend on."""

    def __init__(self, config: FeedConfig, index: SubscriptionIndex | None = None) -> None:
        super().__init__(config, index)
        self.now = 0
        self._epochs = CountEpochs(config.posts) if config.posts else SpanEpochs(config.span or 0)
        self._epoch_posts, self._epoch_df = 0, np.empty(0, np.int32)

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        e = self._epochs
        last_at, expired = (e.last_at, e.expired) if isinstance(e, SpanEpochs) else (None, False)
        return Epoch(self._epoch_posts, self._epoch_df, e.last, last_at, expired)

    def before_epoch(self, now: int) -> int:
        """How many posts may be published at this time until an epoch may begin, right after the last of them."""
        posts, epochs = int(self.window.size[NEXT]), self._epochs
        if isinstance(epochs, CountEpochs):
            return epochs.next - posts
        if epochs.expired:
            return 1 if epochs.due(posts, max(now, self.now)) else 1 << 30
        return epochs.next - posts

    @property
    def due(self) -> bool:
        """Whether an epoch is to begin, right after a post."""
        return self._due(int(self.window.size[NEXT]))

    def epoch_steps(self, reached: Ints32, report: Report, at: int = 0) -> Generator[None, None, None]:
        """Begin an epoch in pieces of some milliseconds, right after what `post_batch` returned. Nothing else may
        change between them; lists are those after all of it."""
        posts = int(self.window.size[NEXT])
        yield from self._begin_epoch(report, at + len(reached) - 1, posts)
        if self.config.tfidf:
            reached[-1] = self._lists_with(posts - 1)

    def _due(self, posts: int) -> bool:
        if isinstance(self._epochs, CountEpochs):
            return self._epochs.next == posts
        return self._epochs.due(posts, self.now)

    def _begin_epoch(self, report: Report, at: int, posts: int) -> Generator[None, None, None]:
        """Begin an epoch after a step: take idf and the order of words from the window, and refill all buffers."""
        if isinstance(self._epochs, CountEpochs):
            again = self._epochs.last >= (self.config.posts or 0) // 2
            self._epochs.begin()
        else:
            again = self._epochs.expired and self._epochs.last_at is not None
            self._epochs.begin(posts, self.now)
        v = self.window
        order = v.df.astype(np.int64) << 32 | np.arange(len(v.df))
        if not self.config.tfidf:
            if not again:
                yield from self._lay_out(order)
                if len(self.parts) > 1:
                    yield from self._own_all_steps(self.table.slots())
            return
        self._epoch_posts, self._epoch_df = max(1, int(v.size[THERE])), v.df.copy()
        self._unknown = math.log(1.0 + self._epoch_posts)
        v.idf[:] = idf_of(self._epoch_posts, v.df)
        win.reweigh(v)
        s, slots = self.table.arrays, self.table.slots()
        weigh_subscriptions(s, v.idf, slots)
        self._filling = True
        yield from self._fill_all(slots, order)
        self._filling = False
        self._report(self.parts[0], report, at)
        yield from self._own_all_steps(slots)

    def _fill_all(self, slots: Ints, order: Ints) -> Generator[None, None, None]:
        """Fill all buffers by one pass over the window, after a change of weights, and note the followed lists that
        changed. O(terms + entries), and the cost of publishing the posts of the window."""
        s, followed = self.table.arrays, slots[self.table.arrays.followed[slots] == 1]
        end = np.cumsum(np.minimum(s.held[followed], s.k[followed]), dtype=np.int64)
        rows = int(end[-1]) if len(end) else 0
        posts, scores = np.empty(rows, np.int64), np.empty(rows)
        lists_of(s, followed, posts, scores)

        def bound(part: int) -> Iterator[None]:
            half = len(slots) // 2
            begin, end = ((0, half), (half, len(slots)))[part]
            for first in range(begin, end, BOUNDED):
                yield
                upto = min(end, first + BOUNDED)
                bound_all(self.window, s, self.buffering.limits, slots, first, upto, self.diagonal)

        yield from in_halves(bound, self._many)
        yield from self._refill(order)
        step.begin_step(self.table.arrays, self.scratch)
        step.note_differing(s, self.scratch, followed, end, posts, scores)

    def _refill(self, order: Ints) -> Generator[None, None, None]:
        """Index all subscriptions for words in this order, and insert the posts of the window into their buffers, which
        are empty, by their thetas."""
        yield from self._lay_out(order)
        index, whole = self.subscription_index, self.parts
        if index.middle is not None and self._many:
            self.parts = divided(whole, index.middle)
        self._reserve(longest=int(self.window.terms.max(initial=0)))
        v = self.window
        end = int(v.size[NEXT]) if len(self.table) else 0

        s, slots = self.table.arrays, self.table.slots()
        row = s.row.reshape(-1, ROW)
        indexed = row[:, THETA].copy()
        bounds = indexed.copy()

        def refill(state: step.StepState) -> Iterator[None]:
            for upto in range(end, int(v.size[FIRST]), -REFILLED):
                yield
                index.refill(state, bounds, max(int(v.size[FIRST]), upto - REFILLED), upto)

        states = [self.state_of(part, v) for part in self.parts]
        if len(states) == 1:
            yield from refill(states[0])
        else:
            yield from in_halves(lambda number: refill(states[number]), self._many)
        self.parts = whole
        if len(whole) == 1:
            whole[0].serve_all()
        row[slots, THETA] = bounds[slots]
        index.move(s, slots, indexed[slots])
