"""A feed: the posts of a window, the subscriptions, and every subscription's k most relevant posts after every step.

score = alpha max(0, 1 - distance / diagonal) + (1 - alpha) sum of products of the weights of common words, for posts
that share a word; of equal scores the newer post is better. Whichever index finds whom a post may matter to, and
whichever buffer stands between lists and the window, lists are the same, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.beside import Beside
from indexes.feeds import owners as own
from indexes.feeds import step
from indexes.feeds import window as win
from indexes.feeds.buffers import Found, evaluate_one, lists_of, room_to_evaluate
from indexes.feeds.cells import Cells
from indexes.feeds.methods import Method, method_of
from indexes.feeds.model import FeedConfig
from indexes.feeds.refill import bound_all
from indexes.feeds.subscribers import (
    ENTRY,
    POSTS,
    ROW,
    TERM,
    THETA,
    WORDS,
    Subscribers,
    Table,
    terms_at,
    weigh_subscriptions,
)
from indexes.feeds.theta import MOST_K, Buffering
from indexes.feeds.weights import CountEpochs, SpanEpochs, idf_of
from indexes.feeds.window import FIRST, NEXT, THERE
from indexes.feeds.words import Documents, Vocabulary
from indexes.feeds.work import AT, NEXT_SHORT, PHASE, ROWS, TOLD, Work, empty_work, with_work

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
T = TypeVar("T")

PIECE = 256
"""Posts at once."""

EVALUATED = 32
"""Subscriptions to evaluate at once: each may read some ten thousand postings."""

BOUNDED = 4_096
"""Subscriptions to be given a bound at once."""

REFILLED = 32
"""Posts that come into buffers once more at once."""

LINES = 4_096
"""Room for what is told."""

NEVER = 2.0
"""No post scores that much."""

MANY = 20_000
"""Subscriptions from which on they are laid out in a thread of its own."""


class Told(NamedTuple):
    """Which of the lists that are followed are others than before, in order of step, then slot, and what they are now:
    the rows from end[i - 1] to end[i]."""

    step: Int64  # the number in the batch; 0 where there is only one
    slot: Int64
    end: Int64
    post: Int64  # by row
    score: Float64


class Epoch(NamedTuple):
    """What idf is made of: `posts` in the window when the epoch began (0: none has begun, or weights are given), and in
    how many of them each word was, by number. `last` is how many posts had come by then since ever, `last_at` the time;
    `expired` says whether a window of time has lost a post."""

    posts: int
    df: Int32
    last: int
    last_at: int | None
    expired: bool


class Remembered(NamedTuple):
    """The posts of a window, those withdrawn left out: numbers between `first` and `next`, ascending, places (n, 2),
    and times."""

    first: int
    next: int
    number: Int64
    points: Float64
    time: Int64


class Posted(NamedTuple):
    """Posts have numbers from `first` on; how many lists each was in right after it, and whose lists changed when."""

    first: int
    reached: Int32
    told: Told


class FeedIndex:
    """The engine of one feed; from one thread at a time."""

    def __init__(self, config: FeedConfig) -> None:
        """Raises ValueError for bounds without extent, a window that is none, and methods and buffers that are not
        there."""
        if not (math.isfinite(config.diagonal) and config.diagonal > 0):
            raise ValueError(f"bounds {config.bounds} have no extent")
        if (config.posts is None) == (config.span is None) or (config.posts or config.span or 0) < 1:
            raise ValueError("a window is a number of posts or a span of time")
        self.config = config
        self.words = Vocabulary()
        self.window = win.empty_window()
        self.buffering = Buffering(config.buffer)
        self.table = Table(self.buffering)
        self.method: Method = method_of(config.method)
        self.method.build(self.table, np.empty(0, np.int64))
        self.work = empty_work()
        self.now = 0
        self._owners = own.empty_owners()
        self._found: Found = room_to_evaluate(64, 1)
        self._epochs = CountEpochs(config.posts) if config.posts else SpanEpochs(config.span or 0)
        self._epoch_posts, self._epoch_df = 0, np.empty(0, np.int32)
        self._filling = False
        """Whether buffers are being filled anew, so that lists are to be worked out apart."""
        self.settling = False
        """Whether, in the middle of a step, lists are not right yet."""
        self._since_laid_out = 0
        self._unknown = 1.0
        self._most_k = 1

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self.table)

    @property
    def diagonal(self) -> float:
        return self.config.diagonal

    def documents(self, bags: Sequence[dict[str, float]]) -> Documents:
        """Bags as arrays. O(words). Their words are known until `forget_words`."""
        return self.words.documents(bags)

    @property
    def epoch(self) -> Epoch:
        """The epoch that is going on."""
        e = self._epochs
        last_at, expired = (e.last_at, e.expired) if isinstance(e, SpanEpochs) else (None, False)
        return Epoch(self._epoch_posts, self._epoch_df, e.last, last_at, expired)

    @property
    def worn(self) -> float:
        """How many subscriptions came, changed or went since they were laid out, over how many there are."""
        return self._since_laid_out / max(1, len(self.table))

    @property
    def first(self) -> int:
        """The number of the oldest post of the window, withdrawn or not; with none that of the next."""
        return int(self.window.size[FIRST])

    def load(self, posts: Remembered, documents: Documents, epoch: Epoch, now: int) -> None:
        """Take over the window and the epoch of another feed, where there are no posts yet. O(terms)."""
        v, numbers = self.window, posts.number
        first, n = posts.first, posts.next - posts.first
        self._epoch_posts, self._epoch_df = epoch.posts, epoch.df.copy()
        if epoch.posts:
            self._unknown = math.log(1.0 + epoch.posts)
        v.size[FIRST] = v.size[NEXT] = first
        words = np.diff(documents.end, prepend=0)
        self._reserve(n, len(documents.word), int(words.max(initial=0)))
        v = self.window
        v.idf[:] = self._unknown
        if epoch.posts:
            v.idf[: len(epoch.df)] = idf_of(epoch.posts, epoch.df)
        # Numbers of posts that were withdrawn are taken by empty ones, as old as the one before.
        at = numbers - first
        x, y, end = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)
        time = np.full(n, np.iinfo(np.int64).min)
        x[at], y[at] = posts.points.T
        time[at] = posts.time
        end[at] = words
        time = np.maximum.accumulate(time)
        batch = step.Batch(x, y, time, np.cumsum(end), documents.word, documents.weight, np.zeros(n, np.int32))
        gone = np.ones(n, np.uint8)
        gone[at] = 0
        win.enter_all(v, batch, gone)
        self.now = now
        e = self._epochs
        e.last = epoch.last
        if isinstance(e, SpanEpochs):
            e.last_at, e.expired = epoch.last_at, epoch.expired
        self._owners = own.with_places(self._owners, np.empty(0, np.int64), len(v.x))

    def forget_words(self) -> None:
        """Take back the numbers of words that are in no post of the window and no subscription, and that the epoch does
        not know. Documents that were made and neither posted nor subscribed with are void. O(words + terms)."""
        used = np.zeros(max(len(self.words), len(self.window.df)), bool)
        used[: len(self._epoch_df)] = self._epoch_df > 0
        v, s = self.window, self.table.arrays
        terms = np.arange(v.size[win.TERM_FIRST], v.size[win.TERM_NEXT])
        if len(terms):
            used[v.word[terms & (len(v.word) - 1)]] = True
        note = s.note.reshape(-1, ROW)[self.table.slots()]
        used[s.term[2 * terms_at(note)].astype(np.int64)] = True
        self.words.forget(used)

    def post(self, documents: Documents, points: Float64, now: int = 0) -> Posted:
        """Posts come, in order, at these places (n, 2), at a time that is none before the last one. O(postings read +
        buffers entered) each, and what is evaluated; where an epoch begins, everything is."""
        return _all(self.post_steps(documents, points, now))

    def post_steps(self, documents: Documents, points: Float64, now: int = 0) -> Generator[None, None, Posted]:
        """As `post`, in pieces of some milliseconds. Between them nothing else may change, and lists are those after
        some of the posts; while an epoch begins, after it."""
        points = np.asarray(points, np.float64) + 0.0
        self.now = max(self.now, now)
        first, n = int(self.window.size[NEXT]), len(documents)
        reached, told = np.zeros(n, np.int32), _Telling()
        at = 0
        while at < n:
            end = min(n, at + PIECE, at + self.before_epoch(self.now))
            part = documents.part(at, end)
            time = np.full(end - at, self.now)
            x, y = np.ascontiguousarray(points[at:end].T)
            batch = step.Batch(x, y, time, part.end, part.word, part.weight, reached[at:end])
            self._post(batch, told, at)
            at = end
            if not self._due(first + at):
                yield
            else:
                yield from self._begin_epoch(told, at - 1, first + at)
                if self.config.tfidf:
                    places = len(self.window.x) - 1
                    reached[at - 1] = own.lists_with(self.table.arrays, self._owners, places, first + at - 1)
        return Posted(first, reached, told.end())

    def expire(self, now: int) -> Told:
        """The time is `now`: posts that are as old as the window go. O(their entries), and what is evaluated."""
        return _all(self.expire_steps(now))

    def expire_steps(self, now: int) -> Generator[None, None, Told]:
        """As `expire`, in pieces, as `post_steps`; but while it is `settling` lists are not right yet."""
        self.now, told = max(self.now, now), _Telling()
        v, epochs = self.window, self._epochs
        self.settling = True
        if isinstance(epochs, SpanEpochs):
            first, end, there = int(v.size[FIRST]), int(v.size[NEXT]), int(v.size[THERE])
            while first < end and v.time[first & (len(v.x) - 1)] <= self.now - (self.config.span or 0):
                first += 1
            if first > v.size[FIRST]:
                step.expire_until(v, self.table.arrays, self._owners, self.work, first)
                # What had been withdrawn was in the window no more.
                epochs.expired |= int(v.size[THERE]) < there
                yield from self._settle(told)
            self.settling = False
            if epochs.expired and epochs.due(end, self.now):
                yield from self._begin_epoch(told, 0, end)
        self.settling = False
        return told.end()

    def withdraw(self, posts: Sequence[int]) -> Told:
        """Posts of the window go. O(their owners + posts with their words), and an evaluation for each that held one.

        Raises:
            KeyError: a post is not in the window, or is named twice; nothing has changed.
        """
        for post in posts:
            if not self.holds(post) or list(posts).count(post) > 1:
                raise KeyError(post)
        told = _Telling()
        self._reserve(0, 0, 0)
        numbers = np.array(posts, np.int64)
        step.withdraw(self.window, self.table.arrays, self._owners, self.work, numbers)
        _all(self._settle(told))
        return told.end()

    def holds(self, post: int) -> bool:
        """Whether a post is in the window."""
        v = self.window
        return bool(v.size[FIRST] <= post < v.size[NEXT]) and v.gone[post & (len(v.x) - 1)] == 0

    def subscribe(self, documents: Documents, points: Float64, k: Int64, alpha: Float64) -> Int64:
        """Subscriptions come, at these places (n, 2); each is evaluated. Returns their slots, which are used again once
        they are removed.

        Raises:
            ValueError: one has no words, a k below 1 or above `theta.MOST_K`, or an alpha outside [0, 1]; nothing has
                changed.
        """
        return _all(self.subscribe_steps(documents, points, k, alpha))

    def put(self, documents: Documents, points: Float64, k: Int64, alpha: Float64) -> Int64:
        """Subscriptions come that hold nothing, and that no post finds, until `fill`. Returns their slots. Raises as
        `subscribe`."""
        k, alpha = self._checked(documents, k, alpha)
        self._most_k = max(self._most_k, int(k.max(initial=1)))
        return self.table.put(documents, np.asarray(points, np.float64), k, alpha)

    def fill(self, slots: Int64, theta: Float64) -> None:
        """Those that were put, which are all there are, come to what they hold. `theta` is a score that k posts of the
        window reach, 0 for one that all do, NaN if it is not known; who cannot be filled by it is evaluated. O(n log
        n + terms + entries), and what the posts of the window would cost that were posted again."""
        self._reserve(0, 0, 0)
        s = self.table.arrays
        weigh_subscriptions(s, self.window.idf, slots)
        row = s.row.reshape(-1, ROW)
        row[slots, THETA] = np.where(np.isnan(theta), NEVER, theta)
        s.complete[slots] = theta == 0.0
        order = self.window.df.astype(np.int64)
        _all(self._pass_again(order << 32 | np.arange(len(order))))
        short = slots[(s.held[slots] < s.k[slots]) & (s.complete[slots] == 0)]
        old = row[short, THETA]
        _all(self._evaluate(short))
        self.method.move(s, short, old)
        self._own_all(slots)

    def subscribe_steps(
        self, documents: Documents, points: Float64, k: Int64, alpha: Float64, lay_out: bool = True
    ) -> Generator[None, None, Int64]:
        """As `subscribe`, in pieces, as `post_steps`. Without `lay_out` posts do not find them until `lay_out_steps`
        was run: that is faster for many."""
        k, alpha = self._checked(documents, k, alpha)
        slots = self.table.put(documents, np.asarray(points, np.float64), k, alpha)
        yield from self._admit(slots, k, lay_out)
        return slots

    def lay_out_steps(self, df: Int64 | None = None, tree: Cells | None = None) -> Generator[None, None, None]:
        """Lay all subscriptions out anew, for words by how often they are in the window now, or in how many posts they
        are by `df`, by number, and in the cells of a tree or in new ones. Between the pieces lists may be read. O(n log
        n)."""
        order = self.window.df.astype(np.int64)
        if df is not None:
            order[:] = 0
            order[: len(df)] = df[: len(order)]
        yield from self._lay_out(order << 32 | np.arange(len(order)), tree)

    def change(self, slots: Int64, documents: Documents, points: Float64, k: Int64, alpha: Float64) -> None:
        """Subscriptions are others from now on, in the same slots, and are evaluated. Raises as `subscribe`, and
        KeyError where there is none; nothing has changed then."""
        slots = self._there(slots)
        k, alpha = self._checked(documents, k, alpha)
        self.method.remove(self.table, slots)
        self.table.change(slots, documents, np.asarray(points, np.float64), k, alpha)
        _all(self._admit(slots, k))

    def remove(self, slots: Int64) -> None:
        """Subscriptions go. Raises KeyError where there is none; nothing has changed then."""
        slots = self._there(slots)
        self.method.remove(self.table, slots)
        self.table.remove(slots)
        self._since_laid_out += len(slots)

    def follow(self, slot: int, followed: bool = True) -> None:
        """Whether a subscription's list is told whenever it changes. A slot forgets it when it is given up."""
        self.table.arrays.followed[slot] = followed

    def list(self, slot: int) -> tuple[Int64, Float64]:
        """The posts of a subscription's list, best first, and their scores. O(k); while an epoch begins it may be
        evaluated first."""
        s = self.table.arrays
        if self._filling:
            s, slot = self._apart(slot), 0
        n = int(min(s.held[slot], s.k[slot]))
        posts, scores = np.empty(n, np.int64), np.empty(n)
        lists_of(s, np.array([slot]), posts, scores)
        return posts, scores

    def _apart(self, slot: int) -> Subscribers:
        """A copy of one subscription, evaluated: its buffer is being filled, perhaps in another thread's sight."""
        s = self.table.arrays
        row = s.row[slot * ROW : slot * ROW + ROW].copy()
        note = row.view(np.int64)
        term = slice(2 * note[TERM], 2 * (note[TERM] + note[WORDS]))
        note[TERM] = note[ENTRY] = 0
        room = int(self.buffering.room(s.k[slot : slot + 1].astype(np.int64))[0])
        by_slot = {name: getattr(s, name)[slot : slot + 1].copy() for name in Subscribers._fields[2:11]}
        one = Subscribers(
            row=row, note=note, **by_slot, term=s.term[term].copy(), raw=s.raw[term].copy(),
            score=np.zeros(room), tag=np.zeros(room, np.int64),
        )  # fmt: skip
        one.held[0] = 0
        evaluate_one(self.window, one, self.buffering.limits, self._found, 0, self.diagonal)
        return one

    def _there(self, slots: Int64) -> Int64:
        slots = np.asarray(slots, np.int64)
        inside = (slots >= 0) & (slots < self.table.end)
        if not inside.all() or not self.table.arrays.there[slots].all() or len(np.unique(slots)) < len(slots):
            raise KeyError(slots.tolist())
        return slots

    def _checked(self, documents: Documents, k: Int64, alpha: Float64) -> tuple[Int64, Float64]:
        k = np.broadcast_to(np.asarray(k, np.int64), len(documents))
        alpha = np.broadcast_to(np.asarray(alpha, np.float64), len(documents))
        if len(documents) and (
            np.diff(documents.end, prepend=0).min() < 1
            or k.min() < 1
            or k.max() > MOST_K
            or not ((alpha >= 0) & (alpha <= 1)).all()
        ):
            raise ValueError("a subscription without words, or with a k or an alpha that is none")
        return k, alpha

    def _admit(self, slots: Int64, k: Int64, lay_out: bool = True) -> Generator[None, None, None]:
        """Subscriptions that have just been put come to what they hold, and are found from then on."""
        self._most_k = max(self._most_k, int(k.max(initial=1)))
        self._reserve(0, 0, 0)
        weigh_subscriptions(self.table.arrays, self.window.idf, slots)
        yield from self._evaluate(slots)
        s = self.table.arrays
        self._owners = own.with_cells(self._owners, int(s.held[slots].sum()))
        own.own_many(s, self._owners, len(self.window.x) - 1, slots)
        self._since_laid_out += len(slots)
        if lay_out:
            self.method.add(self.table, slots)

    def _evaluate(self, slots: Int64) -> Generator[None, None, None]:
        step.begin(self.work)
        for first in range(0, len(slots), EVALUATED):
            self._evaluate_some(slots, first, min(len(slots), first + EVALUATED))
            yield

    def _evaluate_some(self, slots: Int64, first: int, end: int) -> None:
        step.evaluate_piece(
            self.window, self.table.arrays, self.buffering.limits, self._found, self.work, slots, first, end,
            self.diagonal,
        )  # fmt: skip

    def _lay_out(self, order: Int64, tree: Cells | None = None) -> Generator[None, None, None]:
        """Lay all out for words in this order. Reads of lists do not look at that."""
        yield from self._beside(lambda: self.method.build(self.table, order, tree))
        self._since_laid_out = 0
        self._reserve(0, 0, 0)

    def _beside(self, work: Callable[[], None]) -> Generator[None, None, None]:
        """Work that takes long for many subscriptions, in a thread of its own then."""
        if len(self.table) < MANY:
            work()
            return
        beside = Beside(work)
        while not beside.done(0.005):
            yield
        beside.found  # noqa: B018 -- raises what the work raised

    def _post(self, batch: step.Batch, told: _Telling, at: int) -> None:
        """Posts of a piece, in which no epoch begins."""
        begin = np.diff(batch.end, prepend=0)
        self._reserve(len(batch.end), len(batch.word), int(begin.max(initial=0)))
        self.work.size[AT] = self.work.size[PHASE] = 0
        status = -1
        while status != step.DONE:
            most = self._most_entries()
            status = self.method.post(
                self.window, self.table.arrays, self.buffering.limits, self._owners, self._found, self.work, batch,
                self.config.posts or 1 << 62, self.diagonal, most,
            )  # fmt: skip
            self._make_room(status, most, told, at)
        told.take(self.work, at)

    def _settle(self, told: _Telling) -> Generator[None, None, None]:
        """Evaluate whoever is short after a step without a post, and tell it."""
        status, s, z = -1, self.table.arrays, self.work
        z.size[PHASE] = step.EVALUATE
        while status != step.DONE:
            most = self._most_entries()
            first = int(z.size[NEXT_SHORT])
            status = step.evaluate_noted(
                self.window, s, self.buffering.limits, self._owners, self._found, z, self.diagonal, most
            )
            done = slice(first, int(z.size[NEXT_SHORT]))
            self.method.move(s, z.short[done].astype(np.int64), z.hit_score[done])
            self._make_room(status, most, told, 0)
            yield
        while step.tell_noted(s, self.work, 0) != step.DONE:
            self._make_room(step.LINES, 0, told, 0)
        told.take(self.work, 0)

    def _make_room(self, status: int, most: int, told: _Telling, at: int) -> None:
        """See to what a kernel returned for."""
        if status == step.RING:
            self._owners = own.with_ring(self._owners, len(self.table) + len(self._owners.ring) // 2)
        elif status == step.CELLS:
            self._owners = own.with_cells(self._owners, most + len(self._owners.cell) // 2)
        elif status == step.LINES:
            if self.work.size[TOLD] or self.work.size[ROWS]:
                told.take(self.work, at)
            else:
                lines, rows = 2 * len(self.work.told_slot), 2 * len(self.work.row_post)
                self.work = with_work(self.work, 0, 0, 0, 0, 0, 0, lines, rows)

    def _most_entries(self) -> int:
        return int(self.buffering.room(np.array([self._most_k]))[0])

    def _reserve(self, posts: int, terms: int, longest: int) -> None:
        """Room for so many posts and terms, of which one post has `longest`, and for all words and subscriptions."""
        places = len(self.window.x)
        self.window = win.with_room(self.window, max(1, posts), terms, max(1, len(self.words)), self._unknown)
        v = self.window
        if len(v.x) != places:
            self._owners = own.with_places(self._owners, np.arange(v.size[FIRST], v.size[NEXT]), len(v.x))
        if len(v.x) != len(self._found.turn) or len(self._found.newest) < self._most_k:
            self._found = room_to_evaluate(len(v.x), max(self._most_k, len(self._found.newest)))
        self.method.with_words(len(v.df))
        room = self.method.room(self.table)
        lines = max(LINES, self._most_k, len(self.table) // 4)
        self.work = with_work(self.work, len(v.df), longest, *room, max(1, self.table.end), lines, lines)

    def before_epoch(self, now: int) -> int:
        """How many posts may come at once at this time before an epoch may begin, right after the last of them."""
        posts, epochs = int(self.window.size[NEXT]), self._epochs
        if isinstance(epochs, CountEpochs):
            return epochs.next - posts
        if epochs.expired:
            return 1 if epochs.due(posts, max(now, self.now)) else 1 << 30
        return epochs.next - posts

    def _due(self, posts: int) -> bool:
        if isinstance(self._epochs, CountEpochs):
            return self._epochs.next == posts
        return self._epochs.due(posts, self.now)

    def _begin_epoch(self, told: _Telling, at: int, posts: int) -> Generator[None, None, None]:
        """Right after a step: idf and the order of words are those of the window now, and everything is evaluated."""
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
            return
        self._epoch_posts, self._epoch_df = max(1, int(v.size[THERE])), v.df.copy()
        self._unknown = math.log(1.0 + self._epoch_posts)
        v.idf[:] = idf_of(self._epoch_posts, v.df)
        win.weigh_anew(v)
        s, slots = self.table.arrays, self.table.slots()
        weigh_subscriptions(s, v.idf, slots)
        self._filling = True
        yield from self._refill_all(slots, order) if self.method.finds else self._evaluate_all(slots, order)
        self._filling = False
        while step.tell_noted(s, self.work, 0) != step.DONE:
            self._make_room(step.LINES, 0, told, at)
        told.take(self.work, at)
        yield from self._beside(lambda: self._own_all(slots))

    def _refill_all(self, slots: Int64, order: Int64) -> Generator[None, None, None]:
        """Other weights count: fill all buffers by one pass over the window, and note which of the lists that are
        followed are others. O(terms + entries, and what the posts of the window would cost that were posted again)."""
        s, followed = self.table.arrays, slots[self.table.arrays.followed[slots] == 1]
        end = np.cumsum(np.minimum(s.held[followed], s.k[followed]), dtype=np.int64)
        rows = int(end[-1]) if len(end) else 0
        posts, scores = np.empty(rows, np.int64), np.empty(rows)
        lists_of(s, followed, posts, scores)
        for first in range(0, len(slots), BOUNDED):
            yield
            upto = min(len(slots), first + BOUNDED)
            bound_all(self.window, s, self.buffering.limits, slots, first, upto, self.diagonal)
        yield from self._pass_again(order)
        step.begin(self.work)
        step.note_others(s, self.work, followed, end, posts, scores)

    def _evaluate_all(self, slots: Int64, order: Int64) -> Generator[None, None, None]:
        """As `_refill_all`, where posts are not found a way to whom they reach."""
        step.begin(self.work)
        for first in range(0, len(slots), EVALUATED):
            yield
            self._evaluate_some(slots, first, min(len(slots), first + EVALUATED))
        yield from self._lay_out(order)

    def _pass_again(self, order: Int64) -> Generator[None, None, None]:
        """Lay all out for words in this order, and let the posts of the window come into the buffers, which are empty,
        of those that they reach by their thetas."""
        yield from self._lay_out(order)
        self._reserve(0, 0, int(self.window.terms.max(initial=0)))
        v = self.window
        end = int(v.size[NEXT]) if len(self.table) else 0
        for first in range(int(v.size[FIRST]), end, REFILLED):
            yield
            self.method.refill(
                v, self.table.arrays, self.buffering.limits, self.work, first, min(end, first + REFILLED), self.diagonal
            )

    def _own_all(self, slots: Int64) -> None:
        self._owners.size[:2] = 0
        self._owners = own.with_ring(self._owners, int(self.table.arrays.held[slots].sum()))
        own.own_all(self.window, self.table.arrays, self._owners, slots)

    def check(self) -> None:
        """The postings are those of the table, buffers are sorted, and whoever holds a post owns it. O(everything)."""
        self.method.check(self.table)
        v, s, o = self.window, self.table.arrays, self._owners
        owned: dict[int, set[int]] = {}
        for post in range(v.size[FIRST], v.size[NEXT]):
            place = post & (len(v.x) - 1)
            ring = np.arange(o.begin[place], o.begin[place] + o.number[place]) & (len(o.ring) - 1)
            owned[post] = set(o.ring[ring].tolist())
            cell = int(o.late[place])
            while cell != win.NONE:
                owned[post].add(int(o.cell[cell]))
                cell = int(o.after[cell])
        for slot in self.table.slots().tolist():
            begin = int(s.note[slot * ROW + ENTRY])
            scores = s.score[begin : begin + s.held[slot]]
            posts = s.tag[begin : begin + s.held[slot]] // POSTS
            assert (np.lexsort((-posts, -scores)) == np.arange(len(posts))).all(), (slot, scores, posts)
            assert (scores >= s.row[slot * ROW + THETA]).all()
            assert all(slot in owned[post] for post in posts.tolist())
            assert s.held[slot] >= s.k[slot] or s.complete[slot]


class _Telling:
    """What has been told so far."""

    def __init__(self) -> None:
        self._step: list[Int64] = []
        self._slot: list[Int32] = []
        self._count: list[Int64] = []
        self._post: list[Int64] = []
        self._score: list[Float64] = []

    def take(self, z: Work, first: int) -> None:
        """Take the lines out; they say steps from `first` on."""
        lines, rows = int(z.size[TOLD]), int(z.size[ROWS])
        self._step.append(z.told_step[:lines].astype(np.int64) + first)
        self._slot.append(z.told_slot[:lines].copy())
        self._count.append(np.diff(z.told_end[:lines], prepend=0))
        self._post.append(z.row_post[:rows].copy())
        self._score.append(z.row_score[:rows].copy())
        z.size[TOLD] = z.size[ROWS] = 0

    def end(self) -> Told:
        """All of it in order; of two lines for one list in one step, the later."""
        none = np.empty(0, np.int64)
        at, count = np.concatenate([none, *self._step]), np.concatenate([none, *self._count])
        slot = np.concatenate([none, *self._slot]).astype(np.int64)
        order = np.argsort((at << 32) | slot, kind="stable")
        at, slot = at[order], slot[order]
        last = np.append((at[1:] != at[:-1]) | (slot[1:] != slot[:-1]), True)[: len(at)]
        kept = order[last]
        begin, n = (np.cumsum(count) - count)[kept], count[kept]
        end = np.cumsum(n)
        rows = np.repeat(begin - end + n, n) + np.arange(int(n.sum()))
        post, score = np.concatenate([none, *self._post]), np.concatenate([np.empty(0), *self._score])
        return Told(at[last], slot[last], end, post[rows], score[rows])


def _all(steps: Generator[None, None, T]) -> T:
    """Run to the end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
