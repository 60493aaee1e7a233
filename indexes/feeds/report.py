"""The lists that a step or a batch of posts changed, collected from the reports of kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints, Ints32, run_lengths, run_places
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


class Report:
    """Collects changed lists from the reports of kernels."""

    def __init__(self) -> None:
        self._step: list[Ints] = []
        self._slot: list[Ints32] = []
        self._count: list[Ints] = []
        self._post: list[Ints] = []
        self._score: list[Floats] = []

    def take(self, scratch: Scratch, first: int) -> None:
        """Move the lines out of the scratch; its steps count from `first`."""
        lines = int(scratch.size[LINES_USED])
        if not lines:
            return
        rows = int(scratch.size[ROWS_USED])
        self._step.append(scratch.line_step[:lines].astype(np.int64) + first)
        self._slot.append(scratch.line_slot[:lines].copy())
        self._count.append(run_lengths(scratch.line_end[:lines]))
        self._post.append(scratch.row_post[:rows].copy())
        self._score.append(scratch.row_score[:rows].copy())
        scratch.size[LINES_USED] = scratch.size[ROWS_USED] = 0

    def join(self, others: Iterable[Report]) -> None:
        """Append the lines of other reports, whose slots are others in each step."""
        for other in others:
            if not other._step:
                continue
            for mine, lines in zip(self._columns, other._columns, strict=True):
                mine += lines

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return self._step, self._slot, self._count, self._post, self._score

    def end(self) -> ChangedLists:
        """All lines in order; of two for one list in one step, the later."""
        if not self._step:
            return NONE_CHANGED
        none = _NO_NUMBERS
        at, count = np.concatenate([none, *self._step]), np.concatenate([none, *self._count])
        slot = np.concatenate([none, *self._slot]).astype(np.int64)
        order = np.argsort((at << 32) | slot, kind="stable")
        at, slot = at[order], slot[order]
        last = np.append((at[1:] != at[:-1]) | (slot[1:] != slot[:-1]), True)[: len(at)]
        kept = order[last]
        begin, n = (np.cumsum(count) - count)[kept], count[kept]
        rows = run_places(begin, n)
        post, score = np.concatenate([none, *self._post]), np.concatenate([np.empty(0), *self._score])
        return ChangedLists(at[last], slot[last], np.cumsum(n), post[rows], score[rows])
