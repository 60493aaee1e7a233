"""A feed: the posts of a window, the subscriptions, and the k most relevant posts of each after every step.

score = alpha max(0, 1 - distance / diagonal) + (1 - alpha) sum of products of the weights of common words, for posts
that share a word; of equal scores the newer post is better. Lists do not depend, to the bit, on the index that finds
the recipients of posts nor on how much of the window buffers keep.

`FeedIndex` is the last of five classes, each of which extends the one before: arrays (`base`), lists (`lists`), epochs
(`epochs`), posts (`publishing`), and here subscriptions, and a window that is restored from a snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from itertools import chain
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints, run_lengths
from indexes.core.steps import run_all
from indexes.feeds.epochs import Epoch
from indexes.feeds.kernels import step
from indexes.feeds.kernels import window as win
from indexes.feeds.kernels.subscriptions import (
    ENTRY,
    MOST_WORDS,
    OLDEST,
    POSTS,
    ROW,
    THETA,
    terms_of,
    weigh_subscriptions,
)
from indexes.feeds.kernels.weights import SpanEpochs, idf_of
from indexes.feeds.kernels.window import FIRST, NEXT
from indexes.feeds.publishing import FeedPosts
from indexes.feeds.theta import MOST_K
from indexes.feeds.words import Documents

MOST_CHAINED = 1_000
"""Subscriptions added at once that are chained to the posts in their buffers, however few there are."""

UNREACHABLE = 2.0
"""A theta greater than any score."""


class Remembered(NamedTuple):
    """The posts of a window that are not withdrawn: numbers from `first` to `next` - 1, ascending, places (n, 2), and
    times."""

    first: int
    next: int
    number: Ints
    points: Floats
    time: Ints


class FeedIndex(FeedPosts):
    """One feed, without ids and payloads; to be called from one thread at a time."""

    def load(self, posts: Remembered, documents: Documents, epoch: Epoch, now: int) -> None:
        """Restore the window and the epoch of another feed; there are no posts yet. O(terms)."""
        v, numbers = self.window, posts.number
        first, n = posts.first, posts.next - posts.first
        self._epoch_posts, self._epoch_df = epoch.posts, epoch.df.copy()
        if epoch.posts:
            self._unknown = math.log(1.0 + epoch.posts)
        v.size[FIRST] = v.size[NEXT] = first
        words = run_lengths(documents.end)
        self._reserve(n, len(documents.word), int(words.max(initial=0)))
        v = self.window
        v.idf[:] = self._unknown
        if epoch.posts:
            v.idf[: len(epoch.df)] = idf_of(epoch.posts, epoch.df)
        # Empty posts, as old as their predecessors, take the numbers of withdrawn ones.
        at = numbers - first
        points, end = np.zeros((n, 2)), np.zeros(n, np.int64)
        time = np.full(n, np.iinfo(np.int64).min)
        points[at] = posts.points
        time[at] = posts.time
        end[at] = words
        time = np.maximum.accumulate(time)
        batch = win.Batch(points, time, np.cumsum(end), documents.word, documents.weight, np.zeros(n, np.int32))
        gone = np.ones(n, np.uint8)
        gone[at] = 0
        win.enter_kept(self._kept_window.kept((v,)), batch, gone)
        self.now = now
        e = self._epochs
        e.last = epoch.last
        if isinstance(e, SpanEpochs):
            e.last_at, e.expired = epoch.last_at, epoch.expired

    def forget_words(self) -> None:
        """Free the numbers of words that no post of the window, no subscription and not the epoch uses. Documents that
        are neither posted nor subscribed with become invalid. O(words + terms)."""
        used = np.zeros(max(len(self.words), len(self.window.df)), bool)
        used[: len(self._epoch_df)] = self._epoch_df > 0
        v, s = self.window, self.table.arrays
        terms = np.arange(v.size[win.TERM_FIRST], v.size[win.TERM_NEXT])
        if len(terms):
            used[v.word[terms & (len(v.word) - 1)]] = True
        at, _ = terms_of(s.row.reshape(-1, ROW)[self.table.slots()])
        used[s.term[2 * at].astype(np.int64)] = True
        self.words.forget(used)

    def subscribe(self, documents: Documents, points: Floats, k: Ints, alpha: Floats) -> Ints:
        """Add subscriptions, at these places (n, 2), and evaluate each. Returns their slots, which are reused once they
        are removed.

        Raises:
            ValueError: one has no words or more than `MOST_WORDS`, a k not in [1, `theta.MOST_K`], or an alpha not in
                [0, 1]; nothing has changed.
        """
        return run_all(self.subscribe_steps(documents, points, k, alpha))

    def put(self, documents: Documents, points: Floats, k: Ints, alpha: Floats) -> Ints:
        """Add subscriptions whose lists are empty, and that posts do not reach, until `fill`. Returns their slots.
        Raises as `subscribe`."""
        k, alpha = self._checked(documents, k, alpha)
        self._allow(k)
        return self.table.put(documents, np.asarray(points, np.float64), k, alpha)

    def fill(self, slots: Ints, theta: Floats) -> None:
        """Fill the buffers of all subscriptions, after `put`. `theta` is a score that k posts of the window reach, 0 if
        all that share a word do, NaN if it is unknown; a subscription that lacks posts with it is evaluated. O(n log n
        + terms + entries), and the cost of publishing the posts of the window."""
        self._reserve()
        s = self.table.arrays
        weigh_subscriptions(s, self.window.idf, slots)
        row = s.row.reshape(-1, ROW)
        row[slots, THETA] = np.where(np.isnan(theta), UNREACHABLE, theta)
        s.complete[slots] = theta == 0.0
        order = self.window.df.astype(np.int64)
        run_all(self._refill(order << 32 | np.arange(len(order))))
        short = slots[(s.held[slots] < s.k[slots]) & (s.complete[slots] == 0)]
        old = row[short, THETA]
        run_all(self._evaluate(short))
        self.subscription_index.move(s, short, old)
        self._own_all(slots)

    def subscribe_steps(
        self, documents: Documents, points: Floats, k: Ints, alpha: Floats, lay_out: bool = True
    ) -> Generator[None, None, Ints]:
        """As `subscribe`, in pieces, as `epoch_steps`. Without `lay_out` posts do not reach them until `lay_out_steps`,
        which is faster for many."""
        k, alpha = self._checked(documents, k, alpha)
        slots = self.table.put(documents, np.asarray(points, np.float64), k, alpha)
        yield from self._admit(slots, k, lay_out)
        return slots

    def change(self, slots: Ints, documents: Documents, points: Floats, k: Ints, alpha: Floats) -> None:
        """Replace subscriptions by others in the same slots, and evaluate them. Raises as `subscribe`, and KeyError for
        a slot without subscription; nothing has changed then."""
        slots = self._known(slots)
        k, alpha = self._checked(documents, k, alpha)
        self.subscription_index.remove(self.table, slots)
        self.table.change(slots, documents, np.asarray(points, np.float64), k, alpha)
        run_all(self._admit(slots, k))

    def remove(self, slots: Ints) -> None:
        """Remove subscriptions. Raises KeyError for a slot without one; nothing has changed then."""
        slots = self._known(slots)
        self.subscription_index.remove(self.table, slots)
        self.table.remove(slots)
        self._churned += len(slots)

    def _known(self, slots: Ints) -> Ints:
        slots = np.asarray(slots, np.int64)
        inside = (slots >= 0) & (slots < self.table.end)
        if not inside.all() or not self.table.arrays.there[slots].all() or len(np.unique(slots)) < len(slots):
            raise KeyError(slots.tolist())
        return slots

    def _checked(self, documents: Documents, k: Ints, alpha: Floats) -> tuple[Ints, Floats]:
        k = np.broadcast_to(np.asarray(k, np.int64), len(documents))
        alpha = np.broadcast_to(np.asarray(alpha, np.float64), len(documents))
        words = run_lengths(documents.end)
        if len(documents) and (
            words.min() < 1
            or words.max() > MOST_WORDS
            or k.min() < 1
            or k.max() > MOST_K
            or not ((alpha >= 0) & (alpha <= 1)).all()
        ):
            raise ValueError("a subscription has no words, or too many, or a k or an alpha out of range")
        return k, alpha

    def _admit(self, slots: Ints, k: Ints, lay_out: bool = True) -> Generator[None, None, None]:
        """Evaluate subscriptions that have just been added to the table, and index them."""
        self._allow(k)
        self._reserve(served=False)
        weigh_subscriptions(self.table.arrays, self.window.idf, slots)
        yield from self._evaluate(slots)
        s = self.table.arrays
        step.begin_step(s, self.scratch)  # forget changes, which are not reported
        self._churned += len(slots)
        if not lay_out:
            return
        again = self.subscription_index.add(self.table, slots)
        if again:
            self._divide()
            self._reserve(served=False)
        if (again and len(self.parts) > 1) or MOST_CHAINED < len(slots) > len(self.table) / 2:
            self._own_all(self.table.slots())
        else:
            for part in self.parts:
                part.own_late(self.window, s, part.of(s, slots))

    def check(self) -> None:
        """Raise AssertionError unless the index is that of the table, buffers are sorted, and subscriptions own the
        posts that they hold. O(everything)."""
        self.subscription_index.check(self.table)
        self._check_room()
        v, s = self.window, self.table.arrays
        owned: dict[int, set[int]] = {post: set() for post in range(v.size[FIRST], v.size[NEXT])}
        parts = [part.of(s, self.table.slots()).tolist() for part in self.parts]
        assert sorted(chain(*parts)) == self.table.slots().tolist(), "a subscription in no part, or in two"
        for part, slots in zip(self.parts, parts, strict=True):
            for post, owners in owned.items():
                owners |= part.owners_of(v, post) & set(slots)
        for slot in self.table.slots().tolist():
            begin = int(s.note[slot * ROW + ENTRY])
            scores = s.score[begin : begin + int(s.held[slot])]
            posts = s.tag[begin : begin + int(s.held[slot])] // POSTS
            assert (np.lexsort((-posts, -scores)) == np.arange(len(posts))).all(), (slot, scores, posts)
            assert (scores >= s.row[slot * ROW + THETA]).all()
            assert (posts >= s.note[slot * ROW + OLDEST]).all()
            assert all(slot in owned[post] for post in posts.tolist())
            assert s.held[slot] >= s.k[slot] or s.complete[slot]
