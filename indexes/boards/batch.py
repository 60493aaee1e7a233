"""Paint-Batch: tiles for subscribers that need only the state after many changes ([Range top-k] IV-A, corrected).

For each object the states before the batch (O0) and after it (O1) count. R0 is its influence region at its old y in O0,
R1 that at its new y in O1, R01 that at its old y in O1: subscribers there that had it would keep the stale values.
The messages are, in this order,

1. the demoted objects, by descending new (y, created), on (R0 and R01) or R1;
2. the unchanged objects on R1 minus R0, where that is not empty: the exposed ones;
3. the promoted objects, on R1.

An inserted object has no R0 and comes in step 3, a deleted one has no R1 and comes in step 1; an object that moved in
x, or was deleted and inserted again, comes in both. No other messages in this order are fewer for any subscriber. The
steps of [Range top-k] also send objects that leave their list again, and leave some lists incomplete.

All changes are known before painting begins (`kernels/batch_diff.py`), and the list of one state becomes that of the
other by the changes that passed its object nearby: no second index of old points is needed. A batch that is small for
its board is painted change by change, at the cost of the changes by themselves (`kernels/batch_incremental.py`), in
order of x, so that consecutive changes use the same parts of the indexes. For a large batch all objects of the board
are processed once, in order of rank (`kernels/batch_rank_sweep.py`). The messages are put in order at the end.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from indexes.boards.kernels.batch_diff import ITEMS, MISSING, BatchDiff, DiffItems, compute_diff, sort_and_lay
from indexes.boards.kernels.batch_incremental import LEFT, MADE, NEXT, START, UNDECIDED, Source, paint_incremental
from indexes.boards.kernels.batch_interactions import make_interactions
from indexes.boards.kernels.batch_rank_sweep import PAINTED, SPENT, RankSweep, make_rank_sweep, paint_rank_sweep
from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.object_index import ObjectArrays, ObjectIndex
from indexes.boards.kernels.step import DONE, FULL_LIVE, FULL_TILES, advance
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.live_lists import Former, Live, deliver, find_receivers
from indexes.boards.painter import Painter
from indexes.boards.parts import AnyObjects
from indexes.compiled.jit import kernel
from indexes.core.arrays import Ints, int64

ADVANCE = 2e-6
"""Estimate of the seconds that one change of an object index takes."""

CROWDED, FURTHER = 0.0019, 1.28
"""A batch is painted by a rank sweep if it demotes more than CROWDED * n ** FURTHER of n objects: 2.5% of ten thousand,
9% of a million. Beyond the caches a sweep costs more for each object."""

NO_ROWS: Ints = np.zeros(0, np.int64)
"""The rows with another payload, where there are none."""

COPIED = 0.1
"""Changes for each object of the board from which on it is cheaper to copy the reading index than to change it."""


class Batch:
    """One batch in execution: call `paint` until it is `done`. From the first call on the painter's object index is
    ahead of the reading index; its tiles and the live lists are complete after the last call.

    `births` of the changes may create objects, `rows` were ever handed out, and `touched` are those whose payload
    differs after the batch. `made` counts the tiles; `view` is a new reading index, if that is cheaper than `advance`.
    """

    def __init__(self, painter: Painter, changes: Changes, births: int, rows: int, touched: list[int]) -> None:
        self.done = False
        self.made = 0
        self.view: ObjectIndex | None = None
        self._painter = painter
        self._changes = changes
        self._births, self._rows = births, rows
        self._touched = np.array(touched, np.int64) if touched else NO_ROWS
        self._applied = 0
        self._progress = np.zeros(4, np.int64)
        self._diff: BatchDiff | None = None
        self._sweep: RankSweep | None = None

    def paint(self, budget: float, keep: bool) -> None:
        """Paint for about `budget` seconds. With `keep` the tiles stay in the painter's buffer."""
        until = time.perf_counter() + budget
        diff = self._diff
        if diff is None:
            diff = self._diff = self._begin()
        if self._sweep is not None and not self._apply(budget):
            return
        keep = keep or self._painter.live.count > 0
        going = True
        while going:
            if self._sweep is None:
                self._pass(diff, until - time.perf_counter(), keep)
            else:
                self._pass_of_sweep(diff, self._sweep, until - time.perf_counter(), keep)
            going = not self.done and time.perf_counter() < until

    def advance(self, view: AnyObjects) -> None:
        """Apply the changes to another index, which has room for new objects. O(m log n)."""
        advance(view.arrays, self._changes, 0, len(self._changes.row))

    def _begin(self) -> BatchDiff:
        """Choose the way to paint the batch: where it may be a rank sweep, by the difference that it makes, which is
        computed by the first pass otherwise."""
        painter, changes = self._painter, self._changes
        painter.clear()
        painter.forget_copies()
        if self._births > 0 or self._rows > len(painter.objects.arrays.pos):
            painter.objects.reserve(self._births, self._rows)
        many = CROWDED * len(painter.objects) ** FURTHER
        diff, draft = painter.room.take(len(changes.row), self._rows)
        self._progress[NEXT] = START
        if len(changes.row) > many:
            compute_diff(painter.objects.arrays, changes, self._touched, draft, diff)
            self._reserve_spares(diff)
            self._progress[NEXT] = -diff.promoted.size[ITEMS]
            if diff.demoted.size[ITEMS] > many:
                self._progress[NEXT] = 0
                self._sweep = make_rank_sweep(painter.objects, diff)
                self._seconds_per_step = painter.seconds_per_event / PAINTED
        if self._sweep is None:
            self._source = Source(changes, self._touched, draft)
            self._interactions = make_interactions(diff, painter.moments)
        return diff

    def _reserve_spares(self, diff: BatchDiff) -> None:
        """Make room for objects that moved in x, which are indexed twice for a while, and for deleted ones, which are
        indexed again for a search: in spare rows."""
        gone = int(diff.demoted.size[MISSING])
        if gone > 0:
            self._painter.objects.reserve(self._births + gone + 1, self._rows + len(self._changes.row) + 1)

    def _apply(self, budget: float) -> bool:
        """Apply more of the changes before a rank sweep; whether all of them are."""
        lo, n = self._applied, len(self._changes.row)
        hi = self._applied = min(n, lo + max(1, int(budget / ADVANCE)))
        advance(self._painter.objects.arrays, self._changes, lo, hi)
        return hi == n

    def _pass(self, diff: BatchDiff, budget: float, keep: bool) -> None:
        """Paint more change by change."""
        painter, progress = self._painter, self._progress
        before, began = int(progress[NEXT]), time.perf_counter()
        why = paint_incremental(
            painter.objects.arrays, painter.context(0), self._interactions, self._source, progress,
            max(1, int(budget / ADVANCE)), max(1, int(budget / painter.seconds_per_event)), keep,
        )  # fmt: skip
        painted = max(int(progress[NEXT]), 0) - max(before, 0)
        if before >= 0 or painted >= diff.promoted.size[ITEMS]:
            # Most of the time was spent on painting.
            painter.seconds_per_event += _drift(painter.seconds_per_event, began, painted)
        if why == UNDECIDED:
            sort_and_lay(self._source.draft, diff)
        if why == FULL_TILES:
            painter.grow_tiles()
        elif why != DONE:
            self._reserve_spares(diff)
        elif progress[LEFT] == 0:
            self._finish(diff, keep)

    def _pass_of_sweep(self, diff: BatchDiff, sweep: RankSweep, budget: float, keep: bool) -> None:
        """Continue the rank sweep."""
        painter, progress = self._painter, self._progress
        state = (painter.objects.arrays, painter.context(0), painter.moments)
        before, began = int(progress[SPENT]), time.perf_counter()
        why = paint_rank_sweep(*state, diff, sweep, progress, max(1, int(budget / self._seconds_per_step)), keep)
        self._seconds_per_step += _drift(self._seconds_per_step, began, int(progress[SPENT]) - before)
        if why == FULL_TILES:
            painter.grow_tiles()
        elif progress[NEXT] == len(sweep.step):
            self._finish(diff, keep)

    def _finish(self, diff: BatchDiff, keep: bool) -> None:
        painter = self._painter
        if keep:
            put_in_order(painter.tiles, diff)
        if painter.live.count:
            self._deliver(diff)
        if len(self._changes.row) > COPIED * len(painter.objects):
            self.view = painter.objects.frozen()
        self.made = int(self._progress[MADE])
        self.done = True

    def _deliver(self, diff: BatchDiff) -> None:
        """Apply the tiles to the live lists. Lists that hold an object which moved in x hold it at its old
        place, from where it is removed."""
        painter = self._painter
        objects, strays = painter.objects.arrays, np.zeros(len(painter.objects.arrays.pos), np.uint8)
        listeners = painter.live.index.arrays
        moved = np.flatnonzero(diff.demoted.spare[: diff.demoted.size[ITEMS]] >= 0)
        strays[diff.demoted.row[moved]] = 1
        why = FULL_LIVE
        while why == FULL_LIVE:
            why = deliver_all(objects, listeners, painter.live.arrays._replace(strays=strays), painter.tiles)
            if why == FULL_LIVE:
                painter.live.grow_buffers()


def _drift(seconds: float, began: float, done: int) -> float:
    """By how much to correct an estimate in seconds, after `done` steps since `began`."""
    return 0.2 * ((time.perf_counter() - began) / done - seconds) if done else 0.0


def put_in_order(tiles: Tiles, diff: BatchDiff) -> None:
    """Bring kept tiles into the order of the messages."""
    n = int(tiles.n[0])
    demoted = diff.demoted
    fell = demoted.size[ITEMS]
    last_first = np.lexsort((-demoted.c[:fell], -demoted.y1[:fell]))
    order = np.empty(n, np.int64)
    sort_tiles(tiles, demoted, last_first, diff.promoted, order)
    for name in Tiles._fields:
        if name != "n":
            column: NDArray[np.generic] = getattr(tiles, name)
            column[:n] = column[:n][order]


@kernel
def sort_tiles(tiles: Tiles, demoted: DiffItems, last_first: Ints, promoted: DiffItems, order: Ints) -> None:
    """Write the order of the kept tiles: of demoted objects, in the order given, of exposed ones, of promoted ones."""
    n = 0
    for i in last_first:
        for t in range(demoted.first[i], demoted.end[i]):
            if tiles.own[t]:
                order[n] = t
                n += 1
    for t in range(len(order)):
        if not tiles.own[t]:
            order[n] = t
            n += 1
    for i in range(promoted.size[ITEMS]):
        for t in range(promoted.first[i], promoted.end[i]):
            order[n] = t
            n += 1


@kernel
def deliver_all(objects: ObjectArrays, listeners: Forest, live: Live, tiles: Tiles) -> int:
    """Apply all tiles to the live lists at once. FULL_LIVE: a buffer has to grow first."""
    why = DONE
    if tiles.n[0] > 0:
        if find_receivers(listeners, live, tiles, 0) == 0:
            why = FULL_LIVE
        else:
            deliver(objects, live, tiles, 0, Former(int64(-1), objects.x, 0.0))
    return why
