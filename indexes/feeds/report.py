"""The lists that a step or a batch of posts changed, collected from the reports of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints, run_lengths, run_places
from indexes.feeds.kernels.scratch import LINES_USED, ROWS_USED, Scratch


class ChangedLists(NamedTuple):
    """Followed lists that changed, in order of step, then slot, and their new entries: rows end[i - 1] to end[i]."""

    step: Ints  # the number in the batch; 0 where there is only one
    slot: Ints
    end: Ints
    post: Ints  # by row
    score: Floats


_NO_NUMBERS = np.empty(0, np.int64)
NONE_CHANGED = ChangedLists(_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, np.empty(0))


class _Lines(NamedTuple):
    """Changed lists in any order, and their entries, one list's behind the other's."""

    step: Ints
    slot: Ints
    rows: Ints  # how many entries it has
    post: Ints  # by row
    score: Floats


class Report:
    """Collects changed lists from the reports of kernels."""

    def __init__(self) -> None:
        self._parts: list[_Lines] = []

    def take(self, scratch: Scratch, first: int) -> None:
        """Move the lines out of the scratch; its steps count from `first`."""
        lines = int(scratch.size[LINES_USED])
        if not lines:
            return
        rows = int(scratch.size[ROWS_USED])
        at, slot = scratch.line_step[:lines].astype(np.int64) + first, scratch.line_slot[:lines].astype(np.int64)
        count, post, score = run_lengths(scratch.line_end[:lines]), scratch.row_post[:rows], scratch.row_score[:rows]
        self._parts.append(_Lines(at, slot, count, post.copy(), score.copy()))
        scratch.size[LINES_USED] = scratch.size[ROWS_USED] = 0

    def join(self, others: Iterable[Report]) -> None:
        """Append the lines of other reports, whose slots are others in each step."""
        for other in others:
            self._parts += other._parts

    def end(self) -> ChangedLists:
        """All lines in order; of two for one list in one step, the later."""
        if not self._parts:
            return NONE_CHANGED
        at, slot, count, post, score = map(np.concatenate, zip(*self._parts, strict=True))
        order = np.argsort((at << 32) | slot, kind="stable")
        at, slot = at[order], slot[order]
        last = np.append((at[1:] != at[:-1]) | (slot[1:] != slot[:-1]), True)[: len(at)]
        kept = order[last]
        begin, n = (np.cumsum(count) - count)[kept], count[kept]
        rows = run_places(begin, n)
        return ChangedLists(at[last], slot[last], np.cumsum(n), post[rows], score[rows])
