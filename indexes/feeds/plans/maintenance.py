"""Plans for a whole feed between its commands: copying its state, and rebuilding the index of its subscriptions.

As plans they have their turn in the feed's queue: commands accepted before them have been applied, later ones have not,
and reads continue meanwhile. Neither changes an answer, and neither is logged.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from indexes.core import maintenance
from indexes.core.arrays import Bytes, Floats, Int16s, Ints, Ints32
from indexes.core.captured_ids import CapturedIds
from indexes.feeds.config import FeedConfig
from indexes.feeds.epochs import Epoch
from indexes.feeds.kernels.window import Window
from indexes.feeds.packing import Layout
from indexes.feeds.posts import Piece
from indexes.feeds.store import FeedStore


class Queries(NamedTuple):
    """Subscriptions as the table and the listings hold them, by slot, and words by number."""

    slots: Ints
    row: Floats
    k: Int16s
    term: Floats
    raw: Floats
    begin: Ints
    length: Ints32
    weighted: Bytes
    word: Ints32
    words: list[str]


class Buffered(NamedTuple):
    """The buffers of subscriptions, by slot, and the window that they are from."""

    held: Int16s
    complete: Bytes
    score: Floats
    tag: Ints
    window: Window


class Captured(NamedTuple):
    """A feed as it lies in memory at `seq`: posts from `first` to `next` - 1 in pieces, except those that are `gone`,
    and subscriptions, with ids as the engine holds them. `buffered` is None unless indexes were requested."""

    config: FeedConfig
    seq: int
    now: int
    first: int
    next: int
    gone: set[int]
    pieces: list[Piece]
    epoch: Epoch
    queries: Queries
    ids: CapturedIds
    ttl: dict[str, float]
    buffered: Buffered | None


class CapturePlan(maintenance.CapturePlan[FeedStore, Captured]):
    """Copies the state of a feed. Posts in columns are never changed, so they are not copied."""

    @property
    def seconds(self) -> float:
        engine = self.engine
        each = 2e-7 * (1 + self._with_indexes) * engine.subscription_count + 3e-8 * len(engine.index.words)
        return 1e-3 + each + 1e-7 * self._with_indexes * engine.post_count

    def read(self) -> Captured:
        engine, index, posts = self.engine, self.engine.index, self.engine.posts_kept
        s, listings = index.table.arrays, engine.listings
        epoch = index.epoch
        queries = Queries(
            index.table.slots(),
            s.row.copy(),
            s.k.copy(),
            s.term.copy(),
            s.raw.copy(),
            listings.begin.copy(),
            listings.length.copy(),
            listings.weighted.copy(),
            listings.word.copy(),
            index.words.texts(),
        )
        buffered = None
        if self._with_indexes:
            window = index.window._replace(**{name: column.copy() for name, column in index.window._asdict().items()})
            buffered = Buffered(s.held.copy(), s.complete.copy(), s.score.copy(), s.tag.copy(), window)
        return Captured(
            config=engine.config,
            seq=engine.seq,
            now=engine.now,
            first=posts.first,
            next=posts.next,
            gone=posts.gone.copy(),
            pieces=posts.pieces(),
            epoch=epoch._replace(df=epoch.df.copy()),
            queries=queries,
            ids=CapturedIds.of(engine.names.ids),
            ttl=engine.ttl.copy(),
            buffered=buffered,
        )


class FoldPlan(maintenance.FoldPlan[FeedStore]):
    """Rebuilds the index of all subscriptions by a layout, in slices. Nothing changes in between. O(n log n)."""

    def __init__(self, engine: FeedStore, layout: Layout) -> None:
        super().__init__(engine)
        self._layout = layout
        self._steps: Generator[None, None, None] | None = None

    def _fold(self, budget: float) -> None:
        if self.swapped:
            return
        until = time.perf_counter() + budget
        if self._steps is None:
            words, statistics = self.engine.index.words, self._layout.statistics
            df = np.zeros(len(words), np.int64)
            for word, posts in zip(statistics.words, statistics.df.tolist(), strict=True):
                number = words.number(word)
                if number >= 0:
                    df[number] = posts
            self._steps = self.engine.index.lay_out_steps(df, self._layout.cells)
        for _ in self._steps:
            if time.perf_counter() > until:
                return
        self.swapped = True

    def publish(self) -> None:
        self.done = self.swapped
