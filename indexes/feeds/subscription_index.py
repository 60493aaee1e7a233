"""Indexes of subscriptions, which find the recipients of a post, and publish posts with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.kept import Keeper
from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints
from indexes.core.helper_threads import run_both
from indexes.feeds.kernels import postings as kernels
from indexes.feeds.kernels import recipients
from indexes.feeds.kernels.arena import grown
from indexes.feeds.kernels.cells import Cells, build_cells, put_into
from indexes.feeds.kernels.nearness import BOUND, LEFT, SLOTS, STEPS, WIDE
from indexes.feeds.kernels.postings import (
    DIRECTORY_END,
    EMPTY,
    LEVELS,
    SINGLE,
    Postings,
    empty_postings,
)
from indexes.feeds.kernels.record import OneRecord
from indexes.feeds.kernels.scratch import ALL_CELLS, SEEN, Reads
from indexes.feeds.kernels.step import StepState
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, TERM, THETA, Subscribers, Table, X, Y, terms_of
from indexes.feeds.kernels.window import Batch

CAPACITY = 8_000
"""Subscriptions of a cell."""

PARTS = 2
"""Parts of the subscriptions, at most, for each of which the arguments of posts are kept."""

FILLED = 20_000
"""Subscriptions from which on lists are filled in two threads."""


class SubscriptionIndex:
    """An index of the subscriptions of a table. All indexes give the same lists, to the bit. This one has nothing in
    it, and finds nothing.

    `middle` is the cell before which half of the subscriptions lie, which parts of them can be served by in two
    threads; None if they cannot. `one_post`, if there is one, has the batch in which a post that comes alone is
    published with the least overhead."""

    middle: int | None = None
    one_post: OneRecord | None = None

    def build(self, table: Table, order: Ints, tree: Cells | None = None) -> None:
        """Index all subscriptions, for words in this order, rarer ones first, in the cells of a tree or in new ones."""

    def add(self, table: Table, slots: Ints) -> bool:
        """Add subscriptions that have a theta. Returns whether all have new cells."""
        return False

    def remove(self, table: Table, slots: Ints) -> None:
        """Remove subscriptions, which are still in the table."""

    def move(self, subscribers: Subscribers, slots: Ints, old: Floats) -> None:
        """Move subscriptions whose thetas were `old`."""

    def with_words(self, words: int) -> None:
        """Make room for words below this; new ones are the rarest."""

    def reads(self, table: Table) -> Reads:
        """What finding the recipients of a post may read, at most."""
        return Reads(0, 0, 0)

    def post(self, state: StepState, batch: Batch, window_posts: int, most_entries: int) -> int:
        """Publish the posts of a batch: see `kernels.recipients.post_ordered`."""
        raise NotImplementedError

    def find(self, state: StepState, first: int, end: int) -> int:
        """Find the recipients of posts of the window, and change nothing: see `kernels.recipients.find_many`."""
        return 0

    def refill(self, state: StepState, bounds: Floats, first: int, end: int) -> None:
        """Insert posts of the window, from the newest on, into buffers with these thetas in the end, by slot: see
        `kernels.recipients.refill_ordered`."""

    def check(self, table: Table) -> None:
        """Raise AssertionError if the index is not that of the table."""


class OrderedIndex(SubscriptionIndex):
    """Threshold-ordered postings: see `kernels.postings`."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self.built = 0
        """Subscriptions when all were indexed last."""
        self.middle: int | None = 0
        self.cells, _ = build_cells(np.empty((0, 2)), capacity)
        self.arrays = empty_postings()
        self._keeper = Keeper(recipients.KeptPostings, PARTS)
        self.one_post: OneRecord = OneRecord()

    def build(self, table: Table, order: Ints, tree: Cells | None = None) -> None:
        """O(n log n) for n postings."""
        self._keeper.clear()
        subscribers, slots = table.arrays, table.slots()
        points = subscribers.row.reshape(-1, ROW)[slots][:, [X, Y]]
        if tree is None:
            self.cells, cell = build_cells(points, self._capacity)
        else:
            # A copy: boxes grow.
            cell = np.empty(len(slots), np.int64)
            self.cells = Cells(tree.x.copy(), tree.y.copy(), tree.child.copy(), tree.box.copy())
            put_into(self.cells, points, cell)
        subscribers.cell[slots] = cell
        self.middle = int(np.median(cell)) if len(cell) else 0
        at, words = terms_of(subscribers.row.reshape(-1, ROW)[slots])
        word, owner = subscribers.term[2 * at].astype(np.int64), np.repeat(np.arange(len(slots)), words)
        block, which = np.unique(word * len(self.cells.box) + cell[owner], return_inverse=True)
        count = np.bincount(which, minlength=len(block)).astype(np.int32)
        fits = count + count // 8
        room = np.where(fits > SINGLE, len(LEVELS) * fits, SINGLE)
        begin = np.cumsum(room) - room
        of_word = block // len(self.cells.box)
        blocks = np.bincount(of_word, minlength=len(order)).astype(np.int32)
        keys, directory = int(room.sum()), len(block)
        free, more = keys // 8 + 1024 * len(LEVELS), directory // 8 + 1024
        filler = np.zeros(more, np.int32)
        self.arrays = Postings(
            frame_of(points),
            np.array(order, np.int64),
            (np.cumsum(blocks) - blocks).astype(np.int32),
            blocks,
            blocks.copy(),
            np.append((block % len(self.cells.box)).astype(np.int32), filler),
            np.append(begin.astype(np.int32), filler),
            np.append(np.zeros(directory, np.int32), filler),
            np.append(fits.astype(np.int32), filler),
            aligned.empty(len(LEVELS) * (directory + more), np.int32),
            aligned.empty(keys + free, np.int64),
            np.array([directory, keys]),
        )
        middle = self.middle or 0

        def fill(first: int, end: int) -> None:
            kernels.fill(self.arrays, subscribers, slots, which, at, first, end)

        if len(slots) < FILLED:
            fill(0, ALL_CELLS)
        else:
            run_both(lambda: fill(0, middle), lambda: fill(middle, ALL_CELLS))
        self.built = len(slots)

    def add(self, table: Table, slots: Ints) -> bool:
        """O(words (log n + block)) each; all are indexed again when their number has
        doubled, in O(n log n)."""
        if len(table) > 2 * self.built + 256:
            self.build(table, self.arrays.order)
            return True
        at = 0
        while (at := kernels.add(self.arrays, self.cells, table.arrays, slots, at)) < len(slots):
            self._grow()
        return False

    def remove(self, table: Table, slots: Ints) -> None:
        """O(words (log n + block)) each."""
        kernels.remove(self.arrays, table.arrays, slots)

    def move(self, subscribers: Subscribers, slots: Ints, old: Floats) -> None:
        """O(words (log block + places passed)) each."""
        kernels.move_all(self.arrays, subscribers, slots, old)

    def with_words(self, words: int) -> None:
        """O(1) amortized."""
        a, had = self.arrays, len(self.arrays.order)
        if words > had:
            more = max(words, 2 * had) - had
            none = np.zeros(more, np.int32)
            self.arrays = a._replace(
                order=np.append(a.order, np.arange(had, had + more)),
                at=np.append(a.at, none),
                blocks=np.append(a.blocks, none),
                room=np.append(a.room, none),
            )

    def reads(self, table: Table) -> Reads:
        return Reads(len(self.cells.box) // 4, int(self.arrays.size[DIRECTORY_END]), SEEN + 2 * LANES)

    def post(self, state: StepState, batch: Batch, window_posts: int, most_entries: int) -> int:
        postings, cells, one = self.arrays, self.cells, self.one_post.batch
        kept = self._keeper.kept((postings, cells, *state), lambda: (postings, cells, state, one))
        if batch is one:
            return recipients.post_one(kept, window_posts, most_entries)
        return recipients.post_kept(kept, batch, window_posts, most_entries)

    def find(self, state: StepState, first: int, end: int) -> int:
        return recipients.find_many(self.arrays, self.cells, state, first, end)

    def refill(self, state: StepState, bounds: Floats, first: int, end: int) -> None:
        recipients.refill_ordered(self.arrays, self.cells, state, bounds, first, end)

    def _grow(self) -> None:
        a = self.arrays
        directory = len(a.cell)
        by_block = {name: getattr(a, name) for name in ("cell", "begin", "filled", "fits")}
        self.arrays = a._replace(
            **{name: np.append(column, np.zeros(directory, np.int32)) for name, column in by_block.items()},
            head=_wider(a.head, directory, 2 * directory),
            key=grown(a.key, 2 * len(a.key)),
        )

    def check(self, table: Table) -> None:
        """Raise AssertionError unless each posting is in all its lists, which are sorted, and nothing else is. O(n)."""
        a, subscribers = self.arrays, table.arrays
        found = set()
        for word in range(len(a.order)):
            blocks = range(a.at[word], a.at[word] + a.blocks[word])
            cells = [int(a.cell[block]) for block in blocks]
            assert cells == sorted(set(cells)) and len(cells) <= a.room[word]
            for level in range(len(LEVELS)):
                for block in blocks:
                    slots = self._check_list(subscribers, word, level, block)
                    found |= {(word, slot, level) for slot in slots}
        terms = int(subscribers.words[table.slots()].sum())
        assert len(found) == terms * len(LEVELS)

    def _check_list(self, subscribers: Subscribers, word: int, level: int, block: int) -> list[int]:
        """Check a list of a block; returns the slots that are in it."""
        a = self.arrays
        single = a.fits[block] == SINGLE
        begin = int(a.begin[block]) + (0 if single else level * int(a.fits[block]))
        run: list[int] = a.key[begin : begin + a.filled[block]].tolist()
        assert run == sorted(run) and a.filled[block] <= a.fits[block]
        head = int(a.head[level * len(a.cell) + block])
        slots = [key >> LEFT & SLOTS - 1 for key in run]
        if single:
            assert [key >> BOUND for key in run] == [int(a.head[(len(LEVELS) - 1) * len(a.cell) + block])][: len(run)]
            run = [head << BOUND | key & (1 << BOUND) - 1 for key in run]
        assert head == (run[0] >> BOUND if run else EMPTY)
        for key, slot in zip(run, slots, strict=True):
            row, note = (column[slot * ROW : slot * ROW + ROW] for column in (subscribers.row, subscribers.note))
            terms = range(note[TERM], note[TERM] + int(subscribers.words[slot]))
            lengths = {int(subscribers.term[2 * i]): float(subscribers.raw[2 * i + 1]) for i in terms}
            assert subscribers.there[slot] and subscribers.cell[slot] == a.cell[block]
            left = sum(a.order[other] >= a.order[word] for other in lengths)
            tag = kernels.tag_of(a.frame, row[X], row[Y], slot, left)
            assert key == kernels.key_of(row[THETA], row[ALPHA], LEVELS[level], lengths[word], tag)
        return slots


def frame_of(points: Floats) -> Floats:
    """A frame around these places: see `Postings`."""
    if not len(points):
        return np.zeros(3)
    (x, y), extent = points.min(axis=0), np.ptp(points, axis=0).max()
    return np.array([x, y, STEPS / extent if 1.0 / WIDE < extent < WIDE else 0.0])


def _wider(column: NDArray, wide: int, wider: int) -> NDArray:
    grown = aligned.empty((len(LEVELS), wider), column.dtype)
    grown[:, :wide] = column.reshape(len(LEVELS), wide)
    return grown.reshape(-1)
