"""Subscriptions that are boxes with scores, and the k best of them for an event.

State is the table of `table.py`, the ids, and the indexes that the configuration needs. The same calls in the same
order give the same results; no clock or random source is read.

| mode, dimensions | `index` "auto" | another `index` |
| --- | --- | --- |
| one dimension | the best intervals by cell, else the SOPT-R-tree and its deltas | that index |
| exact | blocks, or along a selective dimension, whichever costs less for the event | along one, or intersection |
| relaxed | blocks | the Threshold Algorithm |

For events that are ranges in some dimension the indexes by dimension have no order; without blocks they are matched by
a scan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from indexes.compiled.kept import Keeper
from indexes.core import aligned
from indexes.core.arrays import INF, Bools, Floats, Ints, Ints32
from indexes.core.ids import Packed
from indexes.core.names import Names
from indexes.matchers.alternatives.lists import top_of_lists
from indexes.matchers.config import MatcherConfig, Row, Subscriptions
from indexes.matchers.forms import nothing
from indexes.matchers.kernels import blocks, run_index, strategies
from indexes.matchers.kernels.answers import ENTRIES, Answers, joined, look_up_scores, new_answers
from indexes.matchers.kernels.blocks import top_exact, top_relaxed
from indexes.matchers.kernels.cells import most_lists, top_of_cells
from indexes.matchers.kernels.combine import NUMBERS
from indexes.matchers.kernels.line import DONE, FULL, LET_GO, LET_GO_AFTER, SHORT, KeptLine, rewrite_row
from indexes.matchers.kernels.positions import new_positions
from indexes.matchers.kernels.runs import new_walk, top_of_runs
from indexes.matchers.kernels.sorted_access import SortedAccess, new_sorted_access
from indexes.matchers.kernels.strategies import (
    ALONG,
    BLOCKS,
    SCAN,
    Plan,
    match_along,
    match_by_scan,
    match_by_threshold,
    match_together,
    plan_exact,
)
from indexes.matchers.layout import Indexes, build_indexes


class Matches(NamedTuple):
    """The winners of a batch of events: rows[t, :found[t]] with their `scores`, best first; `looked_at` counts index
    entries. The arrays are the matcher's own and hold until the next match."""

    rows: Ints32
    scores: Floats
    found: Ints
    looked_at: Ints


class Found(NamedTuple):
    """The same one event behind the other: `sizes[t]` of the rows are event t's. The arrays are the caller's."""

    sizes: Ints
    rows: Ints32
    scores: Floats
    looked_at: Ints


class Places(NamedTuple):
    """The rows that some ids have in a table of `names`."""

    names: Names
    row: dict[str, int]


class LaidOut(NamedTuple):
    """Indexes made by `Matcher.lay_out`, and the new rows in them."""

    rows: Ints32
    indexes: Indexes


class Matcher:
    """Subscriptions, and the events that are matched against them.

    Rows number subscriptions in order of creation; ids are those of clients.
    """

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.names = Names()
        self.high = 0
        self._d = len(config.dimensions)
        self._how = NUMBERS[config.combine]
        self._rec = np.empty((0, 2 * self._d + config.scores))
        self._alive = np.empty(0, np.bool_)
        self._stale = np.empty(0, np.uint8)
        self._journal: deque[Ints32] | None = None
        self._added = self._edits = 0
        self._added_at_most = self._room(0)
        self.indexes = build_indexes(config, self._rec, np.empty(0, np.int32))
        self._access: SortedAccess | None = None
        self._buffers = _Buffers(0, 0, self._d)
        self._line = Keeper(KeptLine)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes and the table, without ids."""
        return self.high * self._rec.itemsize * self._rec.shape[1] + self.indexes.nbytes

    @property
    def churn(self) -> float:
        """How much there is to gain by rebuilding: holes and rows in deltas, or rows of the table that are gone, for
        each subscription. O(1)."""
        return max(self._edits, self.high - len(self)) / max(1, len(self))

    def columns(self, rows: Ints32) -> Subscriptions:
        """The subscriptions of rows, copied."""
        d = self._d
        rec = self._rec[rows]
        return Subscriptions(rec[:, 0 : 2 * d : 2], rec[:, 1 : 2 * d : 2], rec[:, 2 * d :])

    def records(self, rows: Sequence[int]) -> list[Row]:
        """The same one by one."""
        if len(rows) == 1:
            return [self._rec[rows[0]].tolist()]
        found: list[Row] = self._rec[rows].tolist() if rows else []
        return found

    def places(self, keys: Sequence[str]) -> Places:
        """The rows of those of these ids that there are."""
        if len(keys) == 1:
            row = self.names.find(keys[0])
            return Places(self.names, {keys[0]: row} if row >= 0 else {})
        found = zip(keys, self.names.find_all(keys).tolist(), strict=True)
        return Places(self.names, {key: row for key, row in found if row >= 0})

    def rows_of(self, keys: Sequence[str], places: Places) -> list[int]:
        """The row of each of these ids, or -1. Those that have `places` were not deleted since, so they have not moved,
        unless this is another matcher, which was rebuilt."""
        known = places.row if places.names is self.names else {}
        others = [key for key in keys if key not in known]
        if others:
            known = known | dict(zip(others, self.names.find_all(others).tolist(), strict=True))
        return [known[key] for key in keys]

    # Changes of rows. Their ids are added by the caller, when they become visible.

    def hold(self, subscriptions: Subscriptions, afresh: bool = False) -> Ints32:
        """Add subscriptions without ids; returns their rows. O(log^2 n) each, or with all indexes rebuilt (`afresh`),
        O(n log n)."""
        if afresh:
            rows = self._write_behind(subscriptions)
            self.take_up(LaidOut(rows, self._indexes(rows)))
        else:
            rows = np.arange(self.high, self.high + len(subscriptions.lo), dtype=np.int32)
            self.put(rows, subscriptions)
        return rows

    def put(self, rows: Ints32, subscriptions: Subscriptions) -> None:
        """Add subscriptions as these rows, ascending, which are not in use. Amortised O(log^2 n) each."""
        high = max(self.high, int(rows[-1]) + 1 if len(rows) else 0)
        self._reserve(high)
        self._clear(slice(self.high, high))
        self.high = high
        self._write(rows, subscriptions)
        self._alive[rows] = True
        self._add(rows)

    def withdraw(self, rows: Ints32) -> None:
        """Remove rows. Amortised O(log^2 n) each."""
        self._remove(rows)
        self._clear(rows)
        self._alive[rows] = False

    def rewrite(self, rows: Ints32, subscriptions: Subscriptions) -> None:
        """Replace rows. Amortised O(log^2 n) each."""
        if len(rows) == 1 and self.indexes.on_a_line:
            self._rewrite_one(rows, subscriptions)
            return
        self.indexes.remove(self._rec, rows)
        self._write(rows, subscriptions)
        self._edits += len(rows)
        self._add(rows)

    def _rewrite_one(self, rows: Ints32, subscriptions: Subscriptions) -> None:
        """As `rewrite`, of one row of one dimension: mostly by one call of a kernel."""
        runs, cells, rec = self.indexes.runs, self.indexes.cells, self._rec
        assert runs is not None and cells is not None
        runs.make_room(rec)
        kept = self._line.kept(
            (runs.arrays, cells.arrays, rec, self._stale),
            lambda: (runs.arrays, cells.arrays, rec, self._stale, np.zeros(1, np.int32)),
        )
        lo, hi, scores = subscriptions
        far = rewrite_row(kept, rows.item(0), lo.item(0), hi.item(0), scores.item(0), most_lists(1))
        if far == SHORT:
            cells.refill(rec, runs)
        elif far in (LET_GO, LET_GO_AFTER):
            cells.let_go()
        if far < FULL:
            self._write(rows, subscriptions)
        self._edits += 1
        if far < DONE:
            self._add(rows)
            return
        self._added += 1
        self._edits += 1
        self._note_changed(rows)

    def crowded(self, more: int) -> bool:
        """Whether so many changes may be too many: an index would have to be rebuilt, or the table be moved. `lay_out`
        makes room."""
        room = self._added_at_most
        return self._added + more > room or self.high + more > max(len(self._rec), room)

    def tight(self, more: int) -> bool:
        """Whether so many changes may include a long step of one of the indexes, such as a merge. O(d), mostly."""
        tight = False
        for part in (self.indexes.blocks, self.indexes.runs, self.indexes.lists):
            tight = tight or (part is not None and part.crowded(more))
        return tight

    def relieved(self, more: int) -> list[Callable[[], None]]:
        """Short steps after which so many changes include no long one. In any thread, while nothing changes before the
        steps and others read."""
        parts = [part for part in self.indexes.parts() if part.crowded(more)]
        return [step for part in parts for step in part.relieved(self._rec, more)]

    def take(self, step: Callable[[], None]) -> None:
        """Take one of these steps. It changes no result."""
        step()
        self._access = None

    def _room(self, n: int) -> int:
        """Changes that the deltas over a base of n rows can always hold."""
        return max(2 * run_index.GROWTH * run_index.TAIL, int(run_index.LARGE_DELTA * n))

    def lay_out(self, more: Subscriptions | None = None) -> LaidOut:
        """Indexes of all rows and of `more`, for `take_up`, ready for changes. Until then `more` lies behind the last
        row, where it is not visible. O(d n log n); in any thread, while nothing changes and others read."""
        rows = self._write_behind(nothing(self.config, 0) if more is None else more)
        indexes = self._indexes(rows)
        indexes.open(self._rec)
        return LaidOut(rows, indexes)

    def _indexes(self, more: Ints32) -> Indexes:
        return build_indexes(self.config, self._rec, np.concatenate([self.rows(), more]))

    def _write_behind(self, subscriptions: Subscriptions) -> Ints32:
        n = self.high + len(subscriptions.lo)
        rows = np.arange(self.high, n, dtype=np.int32)
        self._reserve(n + self._room(n))
        self._write(rows, subscriptions)
        return rows

    def take_up(self, laid_out: LaidOut) -> None:
        """Use indexes that were laid out. O(1) but for the new rows."""
        self.high += len(laid_out.rows)
        self._alive[laid_out.rows] = True
        self._use(laid_out.indexes)
        self._stale = aligned.apart(len(self._stale), np.uint8)
        self._journal = None

    def _use(self, indexes: Indexes) -> None:
        self.indexes = indexes
        self._line.clear()
        self._added = self._edits = 0
        self._added_at_most = self._room(int(np.count_nonzero(self._alive)))
        self._access = None

    def _reserve(self, rows: int) -> None:
        """Make room for so many rows, and for half as many again; untouched memory costs nothing."""
        have = len(self._rec)
        if rows > have:
            size = rows + rows // 2 + 64
            rec = aligned.apart((size, self._rec.shape[1]))
            rec[: self.high] = self._rec[: self.high]
            alive, stale = aligned.apart(size, np.bool_), aligned.apart(size, np.uint8)
            alive[: self.high], stale[: self.high] = self._alive[: self.high], self._stale[: self.high]
            self._rec, self._alive, self._stale = rec, alive, stale
            self._access = None

    def _clear(self, rows: Ints32 | slice) -> None:
        """Clear rows, so that no event meets them."""
        self._rec[rows, 0 : 2 * self._d : 2] = INF
        self._rec[rows, 1 : 2 * self._d : 2] = -INF

    def _write(self, rows: Ints32, subscriptions: Subscriptions) -> None:
        d = self._d
        self._rec[rows, 0 : 2 * d : 2] = subscriptions.lo
        self._rec[rows, 1 : 2 * d : 2] = subscriptions.hi
        self._rec[rows, 2 * d :] = subscriptions.scores

    def _remove(self, rows: Ints32) -> None:
        self.indexes.remove(self._rec, rows)
        self._edits += len(rows)
        self._note(rows)

    def _add(self, rows: Ints32) -> None:
        self.indexes.add(self._rec, rows)
        self._added += len(rows)
        self._edits += len(rows)
        self._note(rows)

    def _note(self, rows: Ints32) -> None:
        self._stale[rows] = 1
        self._note_changed(rows)

    def _note_changed(self, rows: Ints32) -> None:
        self._access = None
        if self._journal is not None:
            self._journal.append(rows)

    # Rebuilding.

    def rebuild(self) -> None:
        """Rebuild everything, at once. O(d n log n)."""
        rows = np.empty(0, np.int32)
        self.take_up(LaidOut(rows, self._indexes(rows)))

    def rows(self) -> Ints32:
        """The rows of all subscriptions, ascending: in order of creation. O(n)."""
        return np.flatnonzero(self._alive[: self.high]).astype(np.int32)

    def table(self) -> Floats:
        """A copy of the table, rows that are gone included."""
        return self._rec[: self.high].copy()

    def has(self, rows: Ints32) -> Bools:
        """Which of these are rows of subscriptions."""
        there = np.zeros(len(rows), np.bool_)
        inside = rows < self.high
        there[inside] = self._alive[rows[inside]]
        return there

    def begin_journal(self) -> None:
        """Record from now on which rows change; a rebuild ends it."""
        self._journal = deque()

    def end_journal(self) -> None:
        self._journal = None

    def take_journal(self, most: int) -> Ints32 | None:
        """The rows recorded first, about `most` of them, each once, removed from the journal; None where nothing is
        recorded."""
        # It may end meanwhile, in another thread.
        journal = self._journal
        if journal is None:
            return None
        found = [np.empty(0, np.int32)]
        while journal and most > 0:
            found.append(journal[0][:most])
            journal[0] = journal[0][most:]
            most -= len(found[-1])
            if not len(journal[0]):
                journal.popleft()
        return np.unique(np.concatenate(found))

    @property
    def journal_is_empty(self) -> bool:
        return not self._journal

    @classmethod
    def of(
        cls,
        config: MatcherConfig,
        ids: Packed,
        subscriptions: Subscriptions,
        indexes: Indexes | None = None,
        to_change: bool = True,
    ) -> Matcher:
        """The matcher of subscriptions in order of creation, `ids.row` being their places, over these indexes, which
        become part of it. O(d n); without indexes they are built, O(d n log n). Unless `to_change`, the indexes are not
        copied before the first change."""
        matcher = cls(config)
        rows = matcher._write_behind(subscriptions)
        matcher.names.load(ids)
        matcher.take_up(LaidOut(rows, indexes or matcher._indexes(rows)))
        if to_change:
            matcher.indexes.open(matcher._rec)
        return matcher

    def frozen(self) -> Matcher:
        """A copy without ids, which does not change with this one. O(d n)."""
        copy = Matcher(self.config)
        copy.high = self.high
        copy._rec = self.table()
        copy._alive, copy._stale = self._alive[: self.high].copy(), self._stale[: self.high].copy()
        copy.indexes = deepcopy(self.indexes)
        return copy

    # Events.

    def match(self, events: Floats, k: int = 20) -> Matches:
        """The k best subscriptions for each event, in a few calls of kernels however many events there are."""
        answers = self._matched(events, k)
        return Matches(answers.rows, answers.scores, answers.found, answers.seen[:, ENTRIES])

    def winners(self, events: Floats, k: int) -> Found:
        """The same one event behind the other."""
        return Found(*joined(self._matched(events, k)))

    def _matched(self, events: Floats, k: int) -> Answers:
        n, buffers = len(events), self._buffers
        if len(buffers.answers.found) < n or buffers.k != k:
            self._buffers = buffers = _Buffers(max(n, len(buffers.answers.found)), k, self._d)
        answers = buffers.answers.first(n)
        answers.found[:] = 0
        answers.seen[:] = 0
        if k > 0 and n > 0 and self.high > 0:
            match = self._match_line if self._d == 1 else self._match_boxes
            match(events, buffers, answers)
        return answers

    def _match_line(self, events: Floats, buffers: _Buffers, answers: Answers) -> None:
        i = self.indexes
        if i.segments is not None:
            self._match_by_dimension(events, buffers, answers)
            return
        # What the cells do not answer is left to the runs.
        left = top_of_cells(i.cells.arrays, self._rec, events, answers) if i.cells is not None else len(events)
        if i.runs is not None and left:
            top_of_runs(i.runs.arrays, self._rec, 0, 2, events, buffers.walk, answers)
        elif i.lists is not None:
            top_of_lists(i.lists.arrays, self._rec, 0, 2, events, buffers.positions, buffers.scratch.scores, answers)
        look_up_scores(answers, self._rec, 2)

    def _match_boxes(self, events: Floats, buffers: _Buffers, answers: Answers) -> None:
        i, d = self.indexes, self._d
        if i.blocks is None:
            self._match_by_dimension(events, buffers, answers)
            return
        plan = Plan(buffers.way[: len(events)], buffers.along[: len(events)])
        plan.way[:] = BLOCKS
        scratch = buffers.block_scratch
        if self.config.relaxed:
            top_relaxed(i.blocks.arrays, d, self._how, events, plan.way, scratch, answers)
            return
        if i.runs is not None:
            plan_exact(i.sample, d, events, buffers.k, True, plan)
        top_exact(i.blocks.arrays, d, events, plan.way, scratch, answers)
        if i.runs is not None:
            match_along(self._open(), self._rec, d, False, events, plan, answers)

    def _match_by_dimension(self, events: Floats, buffers: _Buffers, answers: Answers) -> None:
        d, rec, relaxed, scratch = self._d, self._rec, self.config.relaxed, buffers.scratch
        plan = Plan(buffers.way[: len(events)], buffers.along[: len(events)])
        if relaxed or d == 1:
            ranged = (events[:, 0::2] < events[:, 1::2]).any(axis=1)
            plan.way[:] = np.where(ranged, SCAN, ALONG)
            plan.along[:] = 0
        else:
            plan_exact(self.indexes.sample, d, events, buffers.k, False, plan)
        if (plan.way == SCAN).any():
            match_by_scan(rec[: self.high], d, relaxed, self._how, events, plan, scratch, answers)
        access = self._open()
        if relaxed and d > 1:
            match_by_threshold(access, rec, d, self._how, events, plan, scratch, answers)
        else:
            match_along(access, rec, d, relaxed, events, plan, answers)
            if d > 1:
                match_together(access, rec, d, events, plan, scratch, answers)

    def _open(self) -> SortedAccess:
        if self._access is None:
            i = self.indexes
            self._access = new_sorted_access(self._d, i.runs, i.lists, i.segments, self._stale)
        return self._access

    def matched(self, rows: Ints32, events: Floats) -> tuple[Bools, Floats | None]:
        """For each row and its event: which dimensions match, shape (n, d), and what each would add: its weight; None
        in exact mode. O(n d)."""
        columns = self.columns(rows)
        met = (columns.lo <= events[:, 1::2]) & (columns.hi >= events[:, 0::2])
        return met, columns.scores if self.config.relaxed else None

    def check(self) -> None:
        """Raise AssertionError unless table, ids and indexes agree. O(d n log n)."""
        rows = self.rows()
        assert len(self.names) == len(rows)
        assert sorted(row for _, row in self.names.after(None)) == rows.tolist()
        assert all(self.names.find(self.names.name(row)) == row for row in rows.tolist())
        i = self.indexes
        for part in i.parts():
            stale = self._stale[rows] == 1
            part.check(self._rec, rows[stale] if i.segments is not None else rows)
        if i.cells is not None:
            i.cells.check(self._rec, rows)


class _Buffers:
    """Arrays that matching writes to, kept from one batch to the next."""

    def __init__(self, events: int, k: int, d: int) -> None:
        self.k = k
        self.answers = new_answers(events, k)
        self.way = np.zeros(events, np.uint8)
        self.along = np.zeros(events, np.int64)
        self.block_scratch = blocks.new_scratch(k)
        self.scratch = strategies.new_scratch(d, k)
        self.walk = new_walk(k)
        self.positions = new_positions(d)
