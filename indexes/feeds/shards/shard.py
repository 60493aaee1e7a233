"""A shard of a feed: some of its subscriptions over the whole window, to which posts are published in rounds.

At the end of each round and of every other operation, the lists are those of a `FeedIndex` after the same operations,
to the bit. A shard without subscriptions is the window alone: it knows the weights of words and when epochs begin.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from indexes.core.arrays import Bytes, Floats, Ints
from indexes.core.steps import run_all
from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels import window as win
from indexes.feeds.kernels.subscriptions import ROW, THETA
from indexes.feeds.kernels.weights import FIRST_EPOCH, CountEpochs
from indexes.feeds.kernels.window import NEXT
from indexes.feeds.publishing import PIECE
from indexes.feeds.report import ChangedLists, Report
from indexes.feeds.shards.rounds import GivenIndex, Hits, RoutedIndex
from indexes.feeds.words import Documents, Vocabulary


class Numbers(Vocabulary):
    """The vocabulary of a shard, whose words are given as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __len__(self) -> int:
        """The end of the numbers."""
        return self.count


class FeedShard(FeedIndex):
    """One shard; to be called from one thread at a time. Words are given as numbers, which all shards share.

    `given`: other shards find the recipients of posts.
    """

    def __init__(self, config: FeedConfig, given: bool = False) -> None:
        """Raises as `FeedIndex`."""
        super().__init__(config, GivenIndex() if given else RoutedIndex())
        self.words = self.numbers = Numbers()
        self.given = given
        self.epochs = 0
        """The number of epochs that have begun."""

    def subscribe_steps(
        self, documents: Documents, points: Floats, k: Ints, alpha: Floats, lay_out: bool = True
    ) -> Generator[None, None, Ints]:
        """As `FeedIndex.subscribe_steps`; all subscriptions are followed."""
        slots = yield from super().subscribe_steps(documents, points, k, alpha, lay_out)
        self.table.arrays.followed[slots] = 1
        return slots

    def posts_before_epoch(self, times: Ints) -> int:
        """How many posts of these times may be in a round: up to the one right after which an epoch may begin. At least
        1."""
        posts, epochs = int(self.window.size[NEXT]), self._epochs
        if isinstance(epochs, CountEpochs):
            return min(len(times), epochs.next - posts)
        if not epochs.expired:
            return min(len(times), (2 * epochs.last or FIRST_EPOCH) - posts)
        if epochs.last_at is None:
            return 1
        late = np.flatnonzero(times - epochs.last_at >= (self.config.span or 0))
        return int(late[0]) + 1 if len(late) else len(times)

    def publish_round(self, documents: Documents, points: Floats, times: Ints, routed: Bytes | Hits) -> ChangedLists:
        """Publish a round of posts, no longer than `posts_before_epoch`, at these places and times, which never
        decrease. `routed` marks the posts whose recipients are looked for here, or gives the recipients. O(window
        change + hits), the postings read, and the evaluations at the end."""
        points, n = np.ascontiguousarray(points, np.float64) + 0.0, len(documents)
        report, reached = Report(), np.zeros(n, np.int32)
        for at in range(0, n, PIECE):
            end = min(n, at + PIECE)
            index = self.subscription_index
            if isinstance(index, GivenIndex):
                assert isinstance(routed, Hits)
                begin = int(routed.end[at - 1]) if at else 0
                upto = int(routed.end[end - 1])
                index.hits = Hits(routed.end[at:end] - begin, routed.slot[begin:upto], routed.score[begin:upto])
            elif isinstance(index, RoutedIndex):
                assert not isinstance(routed, Hits)
                index.routed = routed[at:end]
            part = documents.part(at, end)
            batch = win.Batch(points[at:end], times[at:end], part.end, part.word, part.weight, reached[at:end])
            self._post(batch, report, at)
        if n:
            self.now = max(self.now, int(times[-1]))
        self._evaluate_short(report, n)
        return report.end()

    def begin_epoch_if_due(self) -> tuple[bool, ChangedLists]:
        """Begin an epoch after a round, if one is due; returns whether it was, and the lists that changed. O(1), or the
        evaluations of all subscriptions."""
        report, posts = Report(), int(self.window.size[NEXT])
        due = posts > 0 and self._due(posts)
        if due:
            run_all(self._begin_epoch(report, 0, posts))
        return due, report.end()

    def _begin_epoch(self, report: Report, at: int, posts: int) -> Generator[None, None, None]:
        self.epochs += 1
        yield from super()._begin_epoch(report, at, posts)

    def _fill_all(self, slots: Ints, order: Ints) -> Generator[None, None, None]:
        if not self.given:
            yield from super()._fill_all(slots, order)
            return
        # Other shards find the recipients of the window's posts, so every subscription is evaluated.
        yield from self._evaluate(slots)
        yield from self._lay_out(order)

    def thetas(self) -> Floats:
        """By slot: the score that a post must reach to matter, as a copy."""
        found: Floats = self.table.arrays.row.reshape(-1, ROW)[: self.table.end, THETA].copy()
        return found

    def _evaluate_short(self, report: Report, at: int) -> None:
        """Evaluate the subscriptions that lack posts."""
        s, end = self.table.arrays, self.table.end
        short = (s.there[:end] == 1) & (s.complete[:end] == 0) & (s.held[:end] < s.k[:end])
        slots = np.flatnonzero(short)
        if not len(slots):
            return
        old = self.thetas()[slots]
        self._reserve()
        run_all(self._evaluate(slots))
        s = self.table.arrays
        self.parts[0].own_late(self.window, s, slots)
        self.subscription_index.move(s, slots, old)
        self._report(self.parts[0], report, at)
