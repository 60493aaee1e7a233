"""Parts of a feed: its subscriptions by cell, in one part, or in two of many subscriptions.

What a post does to a subscription depends on no other one, so parts take the posts of a batch in order, each at its own
pace and in any thread. What is written for a subscription is its own, in the table and in the index, or its part's: the
owners of posts, and scratch. The window is that of all: all posts of a batch enter it before, and leave it after all
parts have had them, and each part counts on a copy of the window's numbers which posts are in the window for it.
"""

from __future__ import annotations

import numpy as np

from indexes.core.arrays import Ints
from indexes.feeds.kernels import owners as own
from indexes.feeds.kernels import step
from indexes.feeds.kernels.buffers import new_evaluation
from indexes.feeds.kernels.scratch import (
    ALL_CELLS,
    APART,
    CELL,
    CELLS_END,
    LINES_USED,
    NO_CELL,
    ROWS_USED,
    Reads,
    empty_scratch,
    with_report,
    with_room,
)
from indexes.feeds.kernels.subscriptions import Subscribers
from indexes.feeds.kernels.window import FIRST, NEXT, NONE, Window
from indexes.feeds.report import Report


class Part:
    """The subscriptions of some cells, all of them at first."""

    def __init__(self) -> None:
        self.owners = own.empty_owners()
        self.evaluation = new_evaluation(64, 1)
        self.scratch = empty_scratch()
        self._reserved: tuple[object, ...] = ()
        self._apart: tuple[Window, Window] | None = None

    @property
    def arrays(self) -> tuple[object, ...]:
        """All that there has to be room in."""
        return *self.owners, *self.evaluation, *self.scratch

    def serve(self, first: int, end: int) -> None:
        """Serve the cells from `first` to `end` - 1 from now on, apart from the window."""
        self.scratch.size[[CELL, CELLS_END, APART]] = first, end, 1

    def serve_all(self) -> None:
        """Serve all cells, with the window, as at first."""
        self.scratch.size[[CELL, CELLS_END, APART]] = NO_CELL, ALL_CELLS, 0

    def window(self, window: Window) -> Window:
        """The window, or its posts with a copy of its numbers, valid until the next call, for a part that counts for
        itself."""
        if not self.scratch.size[APART]:
            return window
        if self._apart is None or self._apart[0] is not window:
            self._apart = window, window._replace(size=window.size.copy())
        _, apart = self._apart
        apart.size[:] = window.size
        return apart

    def forget(self) -> None:
        """Keep no arrays but its own."""
        self._apart = None

    def of(self, table: Subscribers, slots: Ints) -> Ints:
        """Those of these subscriptions that are in this part."""
        if not self.scratch.size[APART]:
            return slots
        cell = table.cell[slots]
        return slots[(cell >= self.scratch.size[CELL]) & (cell < self.scratch.size[CELLS_END])]

    def place(self, window: Window) -> None:
        """Make room for the owners of posts in all places of a window."""
        places = len(window.x)
        if places != len(self.owners.begin):
            old = np.arange(window.size[FIRST], window.size[NEXT]) if len(self.owners.begin) else np.empty(0, np.int64)
            self.owners = own.with_places(self.owners, old, places)

    def reserve(self, window: Window, longest: int, reads: Reads, slots: int, most_k: int, lines: int) -> None:
        """Make room to work on the words and places of a window, posts of so many words, an index that reads so much,
        so many slots, lists of at most `most_k` and so many changed lists. No step is under way."""
        places = len(window.x)
        wanted = places, len(window.df), reads, slots, most_k, lines
        if wanted == self._reserved and longest <= len(self.scratch.word):
            # Nothing has grown, as before most posts, for each of which this would take longer than the rest here.
            return
        self._reserved = wanted
        if places != len(self.evaluation.sum) or len(self.evaluation.newest) < most_k:
            self.evaluation = new_evaluation(places, max(most_k, len(self.evaluation.newest)))
        self.scratch = with_room(self.scratch, len(window.df), longest, reads, slots)
        self.scratch = with_report(self.scratch, lines, lines)

    def own_all(self, window: Window, table: Subscribers, slots: Ints) -> None:
        """Lay out the owners of posts, of which these subscriptions have buffers: all there are of this part."""
        self.owners = own.emptied(self.owners, int(table.held[slots].sum()))
        own.own_all(window, table, self.owners, slots)

    def own_late(self, window: Window, table: Subscribers, slots: Ints) -> None:
        """Note subscriptions of this part that were evaluated as owners of the posts in their buffers."""
        self.owners = own.with_cells(self.owners, int(table.held[slots].sum()))
        own.own_many(table, self.owners, len(window.x) - 1, slots)

    def owners_of(self, window: Window, post: int) -> set[int]:
        """The subscriptions that may hold a post of the window, and others. O(their number)."""
        owners, place = self.owners, post & (len(window.x) - 1)
        ring = np.arange(owners.begin[place], owners.begin[place] + owners.number[place]) & (len(owners.ring) - 1)
        found, cell = set(owners.ring[ring].tolist()), int(owners.late[place])
        while cell != NONE:
            found.add(int(owners.cell[cell]))
            cell = int(owners.after[cell])
        return found

    def make_room(self, status: int, hits: int, entries: int, report: Report, at: int) -> None:
        """Make room for what a kernel returned: at least for so many hits, or entries of an evaluation. Step `at` of a
        batch is the first in the report."""
        if status == step.RING:
            self.owners = own.with_ring(self.owners, hits + len(self.owners.ring) // 2)
        elif status == step.CELLS:
            self.owners = own.with_cells(self.owners, entries + len(self.owners.cell) // 2)
        elif status == step.LINES:
            if self.scratch.size[LINES_USED] or self.scratch.size[ROWS_USED]:
                report.take(self.scratch, at)
            else:
                lines, rows = 2 * len(self.scratch.line_slot), 2 * len(self.scratch.row_post)
                self.scratch = with_report(self.scratch, lines, rows)


def divided(parts: list[Part], middle: int) -> list[Part]:
    """Two parts, of the cells before `middle` and of the others, in place of these, one or two. The owners of posts are
    to be laid out then."""
    parts = parts if len(parts) > 1 else [*parts, Part()]
    parts[0].serve(NO_CELL, middle)
    parts[1].serve(middle, ALL_CELLS)
    return parts
