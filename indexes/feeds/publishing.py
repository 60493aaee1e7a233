"""Posts that enter the window of a feed, where they are published to its subscriptions, and those that leave it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints32, run_lengths
from indexes.core.helper_threads import run_both
from indexes.core.steps import run_all
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.epochs import FeedEpochs
from indexes.feeds.kernels import step
from indexes.feeds.kernels import window as win
from indexes.feeds.kernels.record import OneRecord
from indexes.feeds.kernels.scratch import AT, PHASE
from indexes.feeds.kernels.weights import SpanEpochs
from indexes.feeds.kernels.window import FIRST, NEXT, THERE
from indexes.feeds.parts import Part
from indexes.feeds.report import ChangedLists, Report
from indexes.feeds.subscription_index import SubscriptionIndex
from indexes.feeds.words import Documents

PIECE = 512
"""Posts of a batch."""

BOTH = 2_000_000
"""Posts of a batch, times subscriptions, from which on two parts are served in two threads: about a
millisecond of work."""


class Posted(NamedTuple):
    """Posts that were published: their numbers begin with `first`, `reached` is how many lists held each right after
    it, and `changed` are the lists that changed."""

    first: int
    reached: Ints32
    changed: ChangedLists


class FeedPosts(FeedEpochs):
    """The posts of one feed, and the changes of its lists that they bring about."""

    def __init__(self, config: FeedConfig, index: SubscriptionIndex | None = None) -> None:
        super().__init__(config, index)
        self.waited = 0.0
        """Seconds of a second thread's time beyond those of the calling thread, in all."""
        self.settling = False
        """Whether a step is under way, in the middle of which lists are not valid."""

    def post(self, documents: Documents, points: Floats, now: int = 0) -> Posted:
        """Publish posts, in order, at these places (n, 2), at a time not before the last one. O(postings read + buffers
        entered) each, and the evaluations; all buffers are refilled when an epoch begins."""
        first, n, report = int(self.window.size[NEXT]), len(documents), Report()
        found, at = [np.empty(0, np.int32)], 0
        while at < n:
            begin, at = at, min(n, at + PIECE, at + self.before_epoch(now))
            reached = self.post_batch(documents.part(begin, at), points[begin:at], now, report, begin)
            found.append(reached)
            if self.due:
                run_all(self.epoch_steps(reached, report, begin))
        return Posted(first, np.concatenate(found), report.end())

    def post_batch(self, documents: Documents, points: Floats, now: int, report: Report, at: int = 0) -> Ints32:
        """Publish posts as `post` does, at most `PIECE` and as many as `before_epoch` says; returns how many lists held
        each right after it. The first of them is step `at` in the report. If an epoch is `due` then, it is to begin by
        `epoch_steps` before anything else happens."""
        self.now = max(self.now, now)
        n = len(documents)
        reached = np.zeros(n, np.int32)
        time = np.array([self.now] * n, np.int64)
        self._post(win.Batch(np.ascontiguousarray(points, np.float64), time, *documents, reached), report, at)
        return reached

    def post_keywords(self, keywords: Keywords, points: Floats, now: int, report: Report) -> Ints32:
        """As `post_batch`, with the keywords of each post. One post with few words in order goes without arrays of its
        own. What it returns is valid until the next call."""
        one = self.subscription_index.one_post if len(points) == len(self.parts) == 1 else None
        if one is not None and keywords.record is not None and not self.words.many:
            return self._post_record(one, keywords.record, keywords.words(), now, report)
        words = keywords.words() if one is not None else []
        if one is None or not len(keywords.weight) == len(words) <= win.WORDS_OF_ONE or not keywords.in_order():
            return self.post_batch(self.documents_of(keywords), points, now, report)
        self.now = max(self.now, now)
        ((x, y),) = points.tolist()
        batch = one.fill(x, y, self.now, self.words.assign(words), keywords.weights().tolist())
        self._reserve(1, len(words), len(words))
        self._post_to(self.parts[0], self.window, batch, report, 0)
        return batch.reached

    def expire(self, now: int) -> ChangedLists:
        """Advance the time to `now`: posts that are as old as the window expire. O(their entries), and the
        evaluations."""
        return run_all(self.expire_steps(now))

    def expire_steps(self, now: int) -> Generator[None, None, ChangedLists]:
        """As `expire`, in pieces, as `epoch_steps`; lists are not valid while it is `settling`."""
        self.now, report = max(self.now, now), Report()
        v, epochs = self.window, self._epochs
        self.settling = True
        if isinstance(epochs, SpanEpochs):
            first, end, there = int(v.size[FIRST]), int(v.size[NEXT]), int(v.size[THERE])
            while first < end and v.time[first & (len(v.x) - 1)] <= self.now - (self.config.span or 0):
                first += 1
            if first > v.size[FIRST]:
                self._reserve()
                v = self.window
                for part in self.parts:
                    step.expire_until(part.window(v), self.table.arrays, part.owners, part.scratch, first)
                win.leave_kept(self._kept_window.kept((v,)), first)
                # A withdrawn post had left the window before.
                epochs.expired |= int(v.size[THERE]) < there
                yield from self._settle(report)
            self.settling = False
            if epochs.expired and epochs.due(end, self.now):
                yield from self._begin_epoch(report, 0, end)
        self.settling = False
        return report.end()

    def withdraw(self, posts: Sequence[int]) -> ChangedLists:
        """Withdraw posts of the window. O(their owners + posts with their words), and an evaluation for each owner.

        Raises:
            KeyError: a post is not in the window, or given twice; nothing has changed.
        """
        for post in posts:
            if not self.holds(post) or list(posts).count(post) > 1:
                raise KeyError(post)
        report = Report()
        self._reserve()
        numbers = np.array(posts, np.int64)
        for part in self.parts:
            step.withdraw(self.window, self.table.arrays, part.owners, part.scratch, numbers)
        win.strike_all(self.window, numbers)
        run_all(self._settle(report))
        return report.end()

    def find(self, first: int, end: int) -> None:
        """Find the recipients of posts of the window, and change nothing."""
        self._reserve(longest=int(self.window.terms.max(initial=0)))
        index, states = self.subscription_index, [self.state_of(part, self.window) for part in self.parts]
        if len(states) == 1:
            index.find(states[0], first, end)
        else:
            self._serve_parts(end - first, lambda number: index.find(states[number], first, end))

    def _post_record(self, one: OneRecord, record: bytearray, words: list[str], now: int, report: Report) -> Ints32:
        """As `post_keywords`, of a post that is a record."""
        self.now = max(self.now, now)
        has_room = self.words.lay_out(record, words, self.now, one, self.window)
        if not has_room or len(words) > self._ready_for:
            self._reserve(1, len(words), len(words))
        self._post_to(self.parts[0], self.window, one.batch, report, 0)
        return one.batch.reached

    def _post(self, batch: win.Batch, report: Report, at: int) -> None:
        """Publish a batch of one post at least, within which no epoch begins."""
        longest = words = int(batch.end[-1])
        if longest > len(self.scratch.word):
            longest = int(run_lengths(batch.end).max(initial=0))
        self._reserve(len(batch.end), words, longest)
        if len(self.parts) == 1:
            self._post_to(self.parts[0], self.window, batch, report, at)
            return
        windows = [part.window(self.window) for part in self.parts]
        kept = self._kept_window.kept((self.window,))
        win.enter_kept(kept, batch, np.zeros(len(batch.end), np.uint8))
        reached = np.zeros((len(self.parts), len(batch.end)), np.int32)
        batches = [batch._replace(reached=one) for one in reached]
        reports = [Report() for _ in self.parts]

        def serve(number: int) -> None:
            self._post_to(self.parts[number], windows[number], batches[number], reports[number], at)

        self._serve_parts(len(batch.end), serve)
        win.leave_kept(kept, int(windows[0].size[FIRST]))
        for one in reached:
            np.add(batch.reached, one, out=batch.reached)
        report.join(reports)

    def _serve_parts(self, posts: int, serve: Callable[[int], object]) -> None:
        """Serve so many posts to two parts, in two threads if it takes long. What is done does not depend on it."""
        if posts * len(self.table) >= BOTH:
            self.waited += run_both(lambda: serve(0), lambda: serve(1))
        else:
            serve(0)
            serve(1)

    def _post_to(self, part: Part, window: win.Window, batch: win.Batch, report: Report, at: int) -> None:
        """Publish a batch to a part, for which it enters the window."""
        part.scratch.size[AT] = part.scratch.size[PHASE] = 0
        status, most = -1, self._most_entries
        while status != step.DONE:
            state = self.state_of(part, window)
            status = self.subscription_index.post(state, batch, self.config.posts or 1 << 62, most)
            if status != step.DONE:
                part.make_room(status, len(self.table), most, report, at)
        report.take(part.scratch, at)
