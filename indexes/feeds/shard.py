"""A partition of a feed: some of its subscriptions over the whole window, which takes posts in by rounds.

At the end of a round, of an epoch, and of whatever else is done, the lists are those of a `FeedIndex` that did the
same, bit for bit. A shard without subscriptions is the window alone: it says what weighs how much, and when epochs
begin.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.feeds import owners as own
from indexes.feeds import step
from indexes.feeds.feed import PIECE, FeedIndex, Told, _all, _Telling
from indexes.feeds.model import FeedConfig
from indexes.feeds.routed import GivenIndex, Hits, RoutedIndex
from indexes.feeds.subscribers import ROW, THETA
from indexes.feeds.weights import FIRST_EPOCH, CountEpochs
from indexes.feeds.window import NEXT
from indexes.feeds.words import Documents, Vocabulary

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
T = TypeVar("T")


class Numbers(Vocabulary):
    """The vocabulary of a shard whose words come as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __len__(self) -> int:
        """All numbers are below."""
        return self.count


class FeedShard(FeedIndex):
    """One partition; from one thread at a time. Words come as numbers, the same ones in all partitions.

    `given` is whether other partitions find whom posts reach.
    """

    def __init__(self, config: FeedConfig, given: bool = False) -> None:
        """Raises as `FeedIndex`."""
        super().__init__(config)
        self.words = self.numbers = Numbers()
        self.given = given
        self.method = GivenIndex() if given else RoutedIndex()
        self.method.build(self.table, np.empty(0, np.int64))
        self.epochs = 0
        """How many have begun."""

    def subscribe_steps(
        self, documents: Documents, points: Float64, k: Int64, alpha: Float64, lay_out: bool = True
    ) -> Generator[None, None, Int64]:
        """As `FeedIndex.subscribe_steps`; all are followed: whoever holds the lists is told of each that changes."""
        slots = yield from super().subscribe_steps(documents, points, k, alpha, lay_out)
        self.table.arrays.followed[slots] = 1
        return slots

    def posts_before_epoch(self, times: Int64) -> int:
        """How many posts that come at these times may come in a round: up to the one right after which an epoch may
        begin. At least 1."""
        posts, epochs = int(self.window.size[NEXT]), self._epochs
        if isinstance(epochs, CountEpochs):
            return min(len(times), epochs.next - posts)
        if not epochs.expired:
            return min(len(times), (2 * epochs.last or FIRST_EPOCH) - posts)
        if epochs.last_at is None:
            return 1
        late = np.flatnonzero(times - epochs.last_at >= (self.config.span or 0))
        return int(late[0]) + 1 if len(late) else len(times)

    def take(self, documents: Documents, points: Float64, times: Int64, routed: NDArray[np.uint8] | Hits) -> Told:
        """A round of posts, no longer than `posts_before_epoch`, at these places and times, which never go back.
        `routed` says which posts are looked at, or whom they reach where that is given. O(window change + hits), the
        postings of those that are looked at, and what is evaluated at the end."""
        points, n = np.asarray(points, np.float64) + 0.0, len(documents)
        told, reached = _Telling(), np.zeros(n, np.int32)
        for at in range(0, n, PIECE):
            end = min(n, at + PIECE)
            if isinstance(self.method, GivenIndex):
                assert isinstance(routed, Hits)
                begin = int(routed.end[at - 1]) if at else 0
                upto = int(routed.end[end - 1])
                self.method.hits = Hits(
                    routed.end[at:end] - begin, routed.slot[begin:upto], routed.score[begin:upto]
                )  # fmt: skip
            elif isinstance(self.method, RoutedIndex):
                assert not isinstance(routed, Hits)
                self.method.routed = routed[at:end]
            part = documents.part(at, end)
            x, y = np.ascontiguousarray(points[at:end].T)
            batch = step.Batch(x, y, times[at:end], part.end, part.word, part.weight, reached[at:end])
            self._post(batch, told, at)
        if n:
            self.now = max(self.now, int(times[-1]))
        self._evaluate_short(told, n)
        return told.end()

    def begin_epoch_if_due(self) -> tuple[bool, Told]:
        """After a round: whether an epoch began, and whose lists are others then. O(1), or everything."""
        told, posts = _Telling(), int(self.window.size[NEXT])
        due = posts > 0 and self._due(posts)
        if due:
            _all(self._begin_epoch(told, 0, posts))
        return due, told.end()

    def _begin_epoch(self, told: _Telling, at: int, posts: int) -> Generator[None, None, None]:
        self.epochs += 1
        yield from super()._begin_epoch(told, at, posts)

    def thetas(self) -> Float64:
        """By slot: the score that a post must reach to matter. A copy."""
        found: Float64 = self.table.arrays.row.reshape(-1, ROW)[: self.table.end, THETA].copy()
        return found

    def _evaluate_short(self, told: _Telling, at: int) -> None:
        """Evaluate whoever holds fewer posts than it may have."""
        s, end = self.table.arrays, self.table.end
        short = (s.there[:end] == 1) & (s.complete[:end] == 0) & (s.held[:end] < s.k[:end])
        slots = np.flatnonzero(short)
        if not len(slots):
            return
        old = self.thetas()[slots]
        self._reserve(0, 0, 0)
        _all(self._evaluate(slots))
        s = self.table.arrays
        self._owners = own.with_cells(self._owners, int(s.held[slots].sum()))
        own.own_many(s, self._owners, len(self.window.x) - 1, slots)
        self.method.move(s, slots, old)
        while step.tell_noted(s, self.work, at) != step.DONE:
            self._make_room(step.LINES, 0, told, at)
        told.take(self.work, at)
