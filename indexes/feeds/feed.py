"""A feed: the posts of a window, the subscriptions, and the k most relevant posts of each after every step.

score = alpha max(0, 1 - distance / diagonal) + (1 - alpha) sum of products of the weights of common words, for posts
that share a word; of equal scores the newer post is better. Lists do not depend, to the bit, on the index that finds
the recipients of posts nor on how much of the window buffers keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import chain
from operator import is_
from typing import NamedTuple

import numpy as np

from indexes.compiled.kept import Keeper
from indexes.core.arrays import Floats, Ints, Ints32, run_lengths
from indexes.core.helper_threads import run_both
from indexes.core.steps import in_halves, perform, run_all
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.kernels import owners as own
from indexes.feeds.kernels import step
from indexes.feeds.kernels import window as win
from indexes.feeds.kernels.buffers import Evaluation, evaluate, lists_of
from indexes.feeds.kernels.cells import Cells
from indexes.feeds.kernels.record import OneRecord
from indexes.feeds.kernels.refill import bound_all
from indexes.feeds.kernels.scratch import AT, NEXT_SHORT, PHASE, Scratch
from indexes.feeds.kernels.subscriptions import (
    BY_SLOT,
    ENTRY,
    MOST_WORDS,
    OLDEST,
    POSTS,
    ROW,
    TERM,
    THETA,
    Subscribers,
    Table,
    terms_of,
    weigh_subscriptions,
    within,
)
from indexes.feeds.kernels.weights import CountEpochs, SpanEpochs, idf_of
from indexes.feeds.kernels.window import FIRST, NEXT, THERE
from indexes.feeds.parts import Part, divided
from indexes.feeds.report import ChangedLists, Report
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex
from indexes.feeds.theta import MOST_K, Buffering
from indexes.feeds.words import Documents, Vocabulary

PIECE = 512
"""Posts of a batch."""

EVALUATED = 32
"""Subscriptions evaluated at once: each may read some ten thousand postings."""

BOUNDED = 4_096
"""Subscriptions whose thetas are computed at once before a refill."""

REFILLED = 64
"""Posts inserted at once by a refill."""

LINES = 4_096
"""Least room of the report, in lines and rows."""

MOST_CHAINED = 1_000
"""Subscriptions added at once that are chained to the posts in their buffers, however few there are."""

NOTHING = -1
"""Less than the words of any post."""

UNREACHABLE = 2.0
"""A theta greater than any score."""

MANY = 20_000
"""Subscriptions from which on they are indexed in the background, and buffers refilled in two halves."""

DIVIDED = 50_000
"""Subscriptions from which on they are divided in two parts."""

BOTH = 2_000_000
"""Posts of a batch, times subscriptions, from which on two parts are served in two threads: about a
millisecond of work."""


class Epoch(NamedTuple):
    """What idf is computed from: the number of `posts` in the window when the epoch began (0: none has begun, or
    weights are given), and how many of them contained each word, by number. `last` is the number of posts since the
    feed was created, and `last_at` the time, of that moment; `expired`: a post of a window of time has expired."""

    posts: int
    df: Ints32
    last: int
    last_at: int | None
    expired: bool


class Remembered(NamedTuple):
    """The posts of a window that are not withdrawn: numbers from `first` to `next` - 1, ascending, places (n, 2), and
    times."""

    first: int
    next: int
    number: Ints
    points: Floats
    time: Ints


class Posted(NamedTuple):
    """Posts that were published: their numbers begin with `first`, `reached` is how many lists held each right after
    it, and `changed` are the lists that changed."""

    first: int
    reached: Ints32
    changed: ChangedLists


class FeedIndex:
    """The lists of one feed; to be called from one thread at a time."""

    def __init__(self, config: FeedConfig, index: SubscriptionIndex | None = None) -> None:
        """`index` finds the recipients of posts; threshold-ordered postings unless it is given.

        Raises:
            ValueError: bounds without extent, a window without one, or an unknown buffer.
        """
        if not (math.isfinite(config.diagonal) and config.diagonal > 0):
            raise ValueError(f"bounds {config.bounds} have no extent")
        if (config.posts is None) == (config.span is None) or (config.posts or config.span or 0) < 1:
            raise ValueError("a window is a number of posts or a span of time")
        self.config = config
        self.diagonal = config.diagonal
        self.words = Vocabulary()
        self.window = win.empty_window()
        self._kept_window = Keeper(win.KeptWindow)
        self.buffering = Buffering(config.buffer)
        self.table = Table(self.buffering)
        self.subscription_index: SubscriptionIndex = index or OrderedIndex()
        self.subscription_index.build(self.table, np.empty(0, np.int64))
        self.parts = [Part()]
        self.waited = 0.0
        """Seconds of a second thread's time beyond those of the calling thread, in all."""
        self.now = 0
        self._epochs = CountEpochs(config.posts) if config.posts else SpanEpochs(config.span or 0)
        self._epoch_posts, self._epoch_df = 0, np.empty(0, np.int32)
        self._filling = False
        """Whether buffers are being refilled: lists are evaluated on a copy meanwhile."""
        self.settling = False
        """Whether a step is under way, in the middle of which lists are not valid."""
        self._ready_for = NOTHING
        """The longest post for which there is room wherever it has words and a place in the window: what is beside
        these grows with subscriptions alone. Their changes begin with `_allow`, or end without parts being served."""
        self._churned = 0
        self._unknown = 1.0
        self._most_k = self._most_entries = 0
        self._allow(np.ones(1, np.int64))

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self.table)

    def documents(self, bags: Sequence[dict[str, float]]) -> Documents:
        """Bags as arrays, valid until `forget_words`. O(words)."""
        return self.words.documents(bags)

    def documents_of(self, keywords: Keywords) -> Documents:
        """The bags of keywords as arrays, valid until `forget_words`: see `Vocabulary.documents_of`."""
        return self.words.documents_of(keywords)

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        e = self._epochs
        last_at, expired = (e.last_at, e.expired) if isinstance(e, SpanEpochs) else (None, False)
        return Epoch(self._epoch_posts, self._epoch_df, e.last, last_at, expired)

    @property
    def churn(self) -> float:
        """Subscriptions added, changed or removed since all were indexed, over their number."""
        return self._churned / max(1, len(self.table))

    @property
    def first(self) -> int:
        """The number of the oldest post of the window, withdrawn or not, or of the next post if it is empty."""
        return int(self.window.size[FIRST])

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

    def _post_record(self, one: OneRecord, record: bytearray, words: list[str], now: int, report: Report) -> Ints32:
        """As `post_keywords`, of a post that is a record."""
        self.now = max(self.now, now)
        has_room = self.words.lay_out(record, words, self.now, one, self.window)
        if not has_room or len(words) > self._ready_for:
            self._reserve(1, len(words), len(words))
        self._post_to(self.parts[0], self.window, one.batch, report, 0)
        return one.batch.reached

    def epoch_steps(self, reached: Ints32, report: Report, at: int = 0) -> Generator[None, None, None]:
        """Begin an epoch in pieces of some milliseconds, right after what `post_batch` returned. Nothing else may
        change between them; lists are those after all of it."""
        posts = int(self.window.size[NEXT])
        yield from self._begin_epoch(report, at + len(reached) - 1, posts)
        if self.config.tfidf:
            reached[-1] = self._lists_with(posts - 1)

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

    def holds(self, post: int) -> bool:
        """Whether a post is in the window."""
        v = self.window
        return bool(v.size[FIRST] <= post < v.size[NEXT]) and v.gone[post & (len(v.x) - 1)] == 0

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
        run_all(self._pass_again(order << 32 | np.arange(len(order))))
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

    def lay_out_steps(self, df: Ints | None = None, tree: Cells | None = None) -> Generator[None, None, None]:
        """Rebuild the index of all subscriptions, and the owners of posts, in pieces between which lists may be read:
        for words in order of their frequency in the window, or of `df`, by number, and in the cells of a tree or in new
        ones. O(n log n)."""
        order = self.window.df.astype(np.int64)
        if df is not None:
            order[:] = 0
            order[: len(df)] = df[: len(order)]
        yield from self._lay_out(order << 32 | np.arange(len(order)), tree)
        yield from self._own_all_steps(self.table.slots())

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

    def _evaluate(self, slots: Ints) -> Generator[None, None, None]:
        step.begin_step(self.table.arrays, self.scratch)
        for first in range(0, len(slots), EVALUATED):
            step.evaluate_some(self.state, slots, first, min(len(slots), first + EVALUATED))
            yield

    @property
    def state(self) -> step.StepState:
        """The arrays that kernels work on that serve the first part, or no part."""
        return self.state_of(self.parts[0], self.window)

    def state_of(self, part: Part, window: win.Window) -> step.StepState:
        """The arrays that kernels work on that serve a part."""
        table, limits = self.table.arrays, self.buffering.limits
        return step.StepState(window, table, limits, part.owners, part.evaluation, part.scratch, self.diagonal)

    @property
    def scratch(self) -> Scratch:
        """Scratch of work that serves no part."""
        return self.parts[0].scratch

    @property
    def evaluation(self) -> Evaluation:
        """Scratch of evaluations that serve no part."""
        return self.parts[0].evaluation

    @property
    def _many(self) -> bool:
        """Whether there are so many subscriptions that work on all of them is done in threads of its own."""
        return len(self.table) >= MANY

    def _lay_out(self, order: Ints, tree: Cells | None = None) -> Generator[None, None, None]:
        """Rebuild the index for words in this order. Reads of lists do not use it."""
        for part in self.parts:
            part.forget()
        yield from perform(lambda: self.subscription_index.build(self.table, order, tree), self._many)
        self._churned = 0
        self._divide()
        self._reserve(served=False)

    def _divide(self) -> None:
        """Divide many subscriptions in two parts by their cells, which are new. The owners of posts are to be laid out
        then."""
        middle = self.subscription_index.middle
        if middle is not None and (len(self.parts) > 1 or len(self.table) >= DIVIDED):
            self.parts = divided(self.parts, middle)

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

    def find(self, first: int, end: int) -> None:
        """Find the recipients of posts of the window, and change nothing."""
        self._reserve(longest=int(self.window.terms.max(initial=0)))
        index, states = self.subscription_index, [self.state_of(part, self.window) for part in self.parts]
        if len(states) == 1:
            index.find(states[0], first, end)
        else:
            self._serve_parts(end - first, lambda number: index.find(states[number], first, end))

    @property
    def counted(self) -> Ints:
        """The counters of posts of all parts: see `Scratch.counted`."""
        return np.sum([part.scratch.counted for part in self.parts], axis=0)

    @property
    def evaluated(self) -> Ints:
        """The counters of evaluations of all parts: see `Evaluation.size`."""
        return np.sum([part.evaluation.size for part in self.parts], axis=0)

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

    def _allow(self, k: Ints) -> None:
        """Note the greatest k of subscriptions that come, and the room of its buffer."""
        self._ready_for = NOTHING
        if (most := int(k.max(initial=1))) > self._most_k:
            self._most_k, self._most_entries = most, int(self.buffering.room(np.array([most]))[0])

    def _reserve(self, posts: int = 0, terms: int = 0, longest: int = 0, served: bool = True) -> None:
        """Make room for so many posts and terms, at most `longest` of one post, and for all words and subscriptions.
        Unless all parts are served now, only the first has scratch: they share what serves none."""
        v = win.with_room(self.window, max(1, posts), terms, max(1, len(self.words)), self._unknown)
        if served and v is self.window and longest <= self._ready_for:
            return
        self.window = v
        self.subscription_index.with_words(len(v.df))
        reads, lines = self.subscription_index.reads(self.table), max(LINES, self._most_k, len(self.table) // 4)
        for part in self.parts:
            part.place(v)
        for part in self.parts if served else self.parts[:1]:
            part.reserve(v, longest, reads, max(1, len(self.table.arrays.there)), self._most_k, lines)
        self._ready_for = longest if served else NOTHING

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
        yield from self._pass_again(order)
        step.begin_step(self.table.arrays, self.scratch)
        step.note_differing(s, self.scratch, followed, end, posts, scores)

    def _pass_again(self, order: Ints) -> Generator[None, None, None]:
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

    def _own_all(self, slots: Ints) -> None:
        """Lay out the owners of posts, of which these subscriptions have buffers: all there are."""
        run_all(self._own_all_steps(slots))

    def _own_all_steps(self, slots: Ints) -> Generator[None, None, None]:
        """As `_own_all`, in pieces between which lists may be read."""
        window, s = self.window, self.table.arrays

        def lay_out(number: int) -> Generator[None, None, None]:
            yield
            part = self.parts[number]
            part.own_all(window, s, part.of(s, slots))

        if len(self.parts) == 1:
            yield from perform(lambda: run_all(lay_out(0)), self._many)
        else:
            yield from in_halves(lay_out, self._many)

    def _lists_with(self, post: int) -> int:
        """The number of lists that hold a post, when owners have just been laid out. O(its owners)."""
        s, mask = self.table.arrays, len(self.window.x) - 1
        return sum(own.lists_with(s, part.owners, mask, post) for part in self.parts)

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

    def _check_room(self) -> None:
        """Raise AssertionError if posts as long as this is ready for would have too little room."""
        ready, window, parts = self._ready_for, self.window, [part.arrays for part in self.parts]
        if ready == NOTHING:
            return
        self._ready_for = NOTHING
        self._reserve(longest=ready)
        again = [part.arrays for part in self.parts]
        assert self.window is not window or all(map(is_, chain(*parts), chain(*again))), "room was not made"
