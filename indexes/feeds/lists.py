"""The lists of a feed's subscriptions: evaluated from the window, read, and reported when they changed."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from indexes.core.arrays import Floats, Ints
from indexes.feeds.base import FeedBase
from indexes.feeds.config import FeedConfig
from indexes.feeds.kernels import owners as own
from indexes.feeds.kernels import step
from indexes.feeds.kernels.buffers import evaluate, lists_of
from indexes.feeds.kernels.scratch import NEXT_SHORT, PHASE
from indexes.feeds.kernels.subscriptions import BY_SLOT, ENTRY, ROW, TERM, Subscribers, within
from indexes.feeds.parts import Part
from indexes.feeds.report import Report
from indexes.feeds.subscription_index import SubscriptionIndex

EVALUATED = 32
"""Subscriptions evaluated at once: each may read some ten thousand postings."""


class FeedLists(FeedBase):
    """The lists of one feed, as they are after its last step."""

    def __init__(self, config: FeedConfig, index: SubscriptionIndex | None = None) -> None:
        super().__init__(config, index)
        self._filling = False
        """Whether buffers are being refilled: lists are evaluated on a copy meanwhile."""

    def follow(self, slot: int, followed: bool = True) -> None:
        """Whether changes of a subscription's list are reported, until it is removed."""
        self.table.arrays.followed[slot] = followed

    def list(self, slot: int) -> tuple[Ints, Floats]:
        """The posts of a subscription's list, best first, and their scores. O(k), or an evaluation while an epoch
        begins."""
        s = self.table.arrays
        if self._filling:
            s, slot = self._evaluated_copy(slot), 0
        n = int(min(s.held[slot], s.k[slot]))
        posts, scores = np.empty(n, np.int64), np.empty(n)
        lists_of(s, np.array([slot]), posts, scores)
        return posts, scores

    def _evaluated_copy(self, slot: int) -> Subscribers:
        """A copy of one subscription, evaluated, while a background thread may fill its buffer."""
        s = self.table.arrays
        row = np.zeros(2 * ROW)
        row[:ROW] = s.row[slot * ROW : slot * ROW + ROW]
        note = row.view(np.int64)
        term = slice(2 * note[TERM], 2 * (note[TERM] + s.words[slot]))
        note[TERM] = note[ENTRY] = 0
        room = int(self.buffering.room(s.k[slot : slot + 1].astype(np.int64))[0])
        by_slot = {name: getattr(s, name)[slot : slot + 1].copy() for name in BY_SLOT}
        one = Subscribers(
            row=row, **within(row), **by_slot,
            term=s.term[term].copy(), raw=s.raw[term].copy(),
            score=np.zeros(room), tag=np.zeros(room, np.int64),
        )  # fmt: skip
        one.held[0] = 0
        evaluate(self.window, one, self.buffering.limits, self.evaluation, 0, self.diagonal)
        return one

    def _evaluate(self, slots: Ints) -> Generator[None, None, None]:
        step.begin_step(self.table.arrays, self.scratch)
        for first in range(0, len(slots), EVALUATED):
            step.evaluate_some(self.state, slots, first, min(len(slots), first + EVALUATED))
            yield

    def _settle(self, report: Report) -> Generator[None, None, None]:
        """Evaluate the subscriptions that lack posts after a step without a post, and report changed lists."""
        most = self._most_entries
        for part in self.parts:
            status, scratch = -1, part.scratch
            scratch.size[PHASE] = step.EVALUATE
            while status != step.DONE:
                first = int(scratch.size[NEXT_SHORT])
                status = step.evaluate_short(self.state_of(part, self.window), most)
                done = slice(first, int(scratch.size[NEXT_SHORT]))
                slots = scratch.short[done].astype(np.int64)
                self.subscription_index.move(self.table.arrays, slots, scratch.hit_score[done])
                part.make_room(status, 0, most, report, 0)
                yield
            self._report(part, report, 0)

    def _report(self, part: Part, report: Report, at: int) -> None:
        """Report the lists that changed in step `at` of a batch."""
        while step.report(self.table.arrays, part.scratch, 0) != step.DONE:
            part.make_room(step.LINES, 0, 0, report, at)
        report.take(part.scratch, at)

    def _lists_with(self, post: int) -> int:
        """The number of lists that hold a post, when owners have just been laid out. O(its owners)."""
        s, mask = self.table.arrays, len(self.window.x) - 1
        return sum(own.lists_with(s, part.owners, mask, post) for part in self.parts)
