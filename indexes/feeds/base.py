"""The arrays of a feed: its window, its subscriptions with their index and parts, and the scratch of kernels."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import chain
from operator import is_

import numpy as np

from indexes.compiled.kept import Keeper
from indexes.core.arrays import Ints
from indexes.core.steps import in_halves, perform, run_all
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.kernels import step
from indexes.feeds.kernels import window as win
from indexes.feeds.kernels.buffers import Evaluation
from indexes.feeds.kernels.cells import Cells
from indexes.feeds.kernels.scratch import Scratch
from indexes.feeds.kernels.subscriptions import Table
from indexes.feeds.kernels.window import FIRST, NEXT
from indexes.feeds.parts import Part, divided
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex
from indexes.feeds.theta import Buffering
from indexes.feeds.words import Documents, Vocabulary

LINES = 4_096
"""Least room of the report, in lines and rows."""

NOTHING = -1
"""Less than the words of any post."""

MANY = 20_000
"""Subscriptions from which on they are indexed in the background, and buffers refilled in two halves."""

DIVIDED = 50_000
"""Subscriptions from which on they are divided in two parts."""


class FeedBase:
    """The arrays of one feed; to be called from one thread at a time."""

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
        self._ready_for = NOTHING
        """The longest post for which there is room wherever it has words and a place in the window: what is beside
        these grows with subscriptions alone. Their changes begin with `_allow`, or end without parts being served."""
        self._churned = 0
        self._unknown = 1.0
        """The idf of a word that the current epoch does not know."""
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
    def churn(self) -> float:
        """Subscriptions added, changed or removed since all were indexed, over their number."""
        return self._churned / max(1, len(self.table))

    @property
    def first(self) -> int:
        """The number of the oldest post of the window, withdrawn or not, or of the next post if it is empty."""
        return int(self.window.size[FIRST])

    def holds(self, post: int) -> bool:
        """Whether a post is in the window."""
        v = self.window
        return bool(v.size[FIRST] <= post < v.size[NEXT]) and v.gone[post & (len(v.x) - 1)] == 0

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
    def counted(self) -> Ints:
        """The counters of posts of all parts: see `Scratch.counted`."""
        return np.sum([part.scratch.counted for part in self.parts], axis=0)

    @property
    def evaluated(self) -> Ints:
        """The counters of evaluations of all parts: see `Evaluation.size`."""
        return np.sum([part.evaluation.size for part in self.parts], axis=0)

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

    def _check_room(self) -> None:
        """Raise AssertionError if posts as long as this is ready for would have too little room."""
        ready, window, parts = self._ready_for, self.window, [part.arrays for part in self.parts]
        if ready == NOTHING:
            return
        self._ready_for = NOTHING
        self._reserve(longest=ready)
        again = [part.arrays for part in self.parts]
        assert self.window is not window or all(map(is_, chain(*parts), chain(*again))), "room was not made"
