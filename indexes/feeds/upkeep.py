"""Work on a whole feed between its commands: copying its state, and laying its subscriptions out anew.

Both are plans, so that they have their turn in the feed's queue: what was accepted before them has been applied, what
comes after has not, and reads go on meanwhile. Neither changes any answer, and neither is logged.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.beside import Beside
from indexes.feeds.feed import Epoch
from indexes.feeds.model import FeedConfig
from indexes.feeds.packing import Layout
from indexes.feeds.posts import Piece
from indexes.feeds.views import Slice
from indexes.feeds.window import Window
from indexes.ids import Packed
from indexes.plan import LONG, Plan

if TYPE_CHECKING:
    from indexes.feeds.engine import FeedEngine

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class Asks(NamedTuple):
    """Subscriptions as the table and the listings hold them, by slot, and words by number."""

    slots: Int64
    row: Float64
    k: Int32
    term: Float64
    raw: Float64
    begin: Int64
    length: Int32
    weighted: NDArray[np.uint8]
    word: Int32
    words: list[str]


class Buffered(NamedTuple):
    """What subscriptions hold, by slot, and the window that it is from."""

    held: Int32
    complete: NDArray[np.uint8]
    score: Float64
    tag: Int64
    window: Window


class Captured(NamedTuple):
    """A feed as it lay in memory at `seq`: posts from `first` to `next` - 1 in pieces, of which those that are `gone`
    are none any more, and subscriptions, with ids as the engine holds them. `buffered` is there where indexes were
    asked for."""

    config: FeedConfig
    seq: int
    now: int
    first: int
    next: int
    gone: set[int]
    pieces: list[Piece]
    epoch: Epoch
    asks: Asks
    ids: Packed
    recent: dict[str, int]
    ttl: dict[str, float]
    buffered: Buffered | None


class CapturePlan(Plan["FeedEngine"]):
    """Copies the state of a feed: some nanoseconds for each byte of it, beside reads where that takes long. Posts in
    columns are never changed, so that they are not copied."""

    def __init__(self, engine: FeedEngine, indexes: bool = False) -> None:
        super().__init__(engine, None, 0)
        self._with_indexes = indexes
        self._beside: Beside[Captured] | None = None
        self.captured: Captured | None = None

    @property
    def work(self) -> float:
        engine = self.engine
        each = 2e-7 * (1 + self._with_indexes) * engine.subscription_count + 3e-8 * len(engine.index.words)
        return 1e-3 + each + 1e-7 * self._with_indexes * engine.post_count

    def paint(self, budget: float) -> None:
        if self.work < budget:
            self.captured = self._copy()
        else:
            # No change of this feed has its turn before this is done.
            self._beside = self._beside or Beside(self._copy)
            if not self._beside.done(budget):
                return
            self.captured = self._beside.found

    def _copy(self) -> Captured:
        engine, index, posts = self.engine, self.engine.index, self.engine.posts_kept
        s, listings, ids = index.table.arrays, engine.listings, engine.names.ids
        epoch = index.epoch
        asks = Asks(
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
            asks=asks,
            ids=ids.base._replace(row=ids.base.row.copy()),
            recent=ids.recent.copy(),
            ttl=engine.ttl.copy(),
            buffered=buffered,
        )

    def settle(self) -> Slice | None:
        self.done = self.captured is not None
        return None


class FoldPlan(Plan["FeedEngine"]):
    """Lays all subscriptions out anew by a layout, in slices or beside; `swapped` once that is done. It is never
    `abandoned`, since nothing changes in between. `seconds` is what painting took. O(n log n)."""

    def __init__(self, engine: FeedEngine, layout: Layout) -> None:
        super().__init__(engine, None, 0)
        self._layout = layout
        self.swapped = False
        self.abandoned = False
        self.seconds = 0.0
        self._steps: Generator[None, None, None] | None = None

    @property
    def work(self) -> float:
        return LONG

    def paint(self, budget: float) -> None:
        if self.swapped:
            return
        began = time.perf_counter()
        if self._steps is None:
            words, statistics = self.engine.index.words, self._layout.statistics
            df = np.zeros(len(words), np.int64)
            for word, posts in zip(statistics.words, statistics.df.tolist(), strict=True):
                number = words.number(word)
                if number >= 0:
                    df[number] = posts
            self._steps = self.engine.index.lay_out_steps(df, self._layout.cells)
        for _ in self._steps:
            if time.perf_counter() > began + budget:
                break
        else:
            self.swapped = True
        self.seconds += time.perf_counter() - began

    def settle(self) -> Slice | None:
        self.done = self.swapped
        return None
