"""The engine of a matcher: subscriptions that are boxes with scores, and the k best of them for an event.

State is the table of `table.py`, the ids, and the indexes that the configuration asks for. The same calls in the same
order give the same answers; no clock or random source is read.

| mode, dimensions | `index` "auto" | another `index` |
| --- | --- | --- |
| one dimension | the SOPT-R-tree and its deltas | that index |
| exact | blocks, or along a selective dimension, whichever costs less for the event | along one, or intersection |
| relaxed | blocks | the Threshold Algorithm |

Events that are ranges in some dimension have no order in the indexes of more than one dimension, save in blocks: there
they are matched by a scan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.ids import Packed
from indexes.matchers import dynamic
from indexes.matchers.blocks import new_scratch, top_exact, top_relaxed
from indexes.matchers.combine import NUMBERS
from indexes.matchers.commands import ChangeSubscription
from indexes.matchers.cursors import new_cursors
from indexes.matchers.forms import events_of, merged, nothing
from indexes.matchers.layout import Indexes, build_indexes
from indexes.matchers.lists import top_of_lists
from indexes.matchers.model import MatcherConfig, Subscriptions, Value
from indexes.matchers.runs import ENTRIES, new_walk, top_of_runs
from indexes.matchers.steps import Step
from indexes.matchers.streams import Streams, open_streams
from indexes.matchers.table import INF
from indexes.matchers.ways import (
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
from indexes.names import Names

__all__ = ["Matcher", "MatcherConfig", "Matches", "Subscriptions", "build_indexes"]

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Matches(NamedTuple):
    """The winners of a batch of events: rows[t, :found[t]] with their `scores`, best first; `looked_at` counts index
    entries. The arrays are the matcher's own and hold until the next match."""

    rows: Int32
    scores: Float64
    found: Int64
    looked_at: Int64


class LaidOut(NamedTuple):
    """What `Matcher.lay_out` made: indexes, and the rows in them that are to be."""

    rows: Int32
    indexes: Indexes


class Matcher:
    """Subscriptions and the events that are matched against them.

    Rows are numbers of subscriptions in order of creation; ids are the outside's. `version` counts changes.
    """

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.names = Names()
        self.high = 0
        self.version = 0
        self._d = len(config.dimensions)
        self._how = NUMBERS[config.combine]
        self._rec = np.empty((0, 2 * self._d + config.scores))
        self._alive = np.empty(0, np.bool_)
        self._stale = np.empty(0, np.uint8)
        self._journal: deque[Int32] | None = None
        self._added = self._edits = self._laid_out = 0
        self.indexes = build_indexes(config, self._rec, np.empty(0, np.int32))
        self._streams: Streams | None = None
        self._buffers = _Buffers(0, 0, self._d)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes and the table, without ids."""
        parts = self.indexes.parts()
        return self.high * self._rec.itemsize * self._rec.shape[1] + sum(part.nbytes for part in parts)

    @property
    def worn(self) -> float:
        """How much there is to gain by laying out anew: holes and rows in deltas, or rows of the table that are gone,
        for each subscription. O(1)."""
        return max(self._edits, self.high - len(self)) / max(1, len(self))

    # Changes.

    def insert(self, ids: pa.StringArray, subscriptions: Subscriptions) -> Int32:
        """Add subscriptions; returns their rows. In bulk (an eighth of what is there, or more) the indexes are built
        anew, O(n log n); else O(log^2 n) each.

        Raises ValueError, with nothing changed, for an id that is taken or what `Subscriptions.faults` finds.
        """
        taken = self.names.taken(ids)
        if taken:
            raise ValueError(f"id: {taken[0]!r} is taken")
        _refuse(subscriptions.faults(self.config))
        rows = self.hold(subscriptions, 8 * len(ids) > self.high)
        self.names.insert(ids, rows)
        return rows

    def delete(self, ids: Sequence[str]) -> Int32:
        """Take out subscriptions; returns the rows that they had. Raises KeyError for one that is not there, with
        nothing changed."""
        rows = self._find(ids)
        self.withdraw(rows)
        for key, row in zip(ids, rows.tolist(), strict=True):
            self.names.delete(key, row)
        return rows

    def change(self, ids: Sequence[str], subscriptions: Subscriptions) -> Int32:
        """Make subscriptions that are there these; they keep their age. Raises KeyError and ValueError as above."""
        rows = self._find(ids)
        _refuse(subscriptions.faults(self.config))
        self.rewrite(rows, subscriptions)
        return rows

    def patch(
        self,
        key: str,
        intervals: Mapping[str, tuple[float, float] | None] | None = None,
        weights: Mapping[str, float] | None = None,
        score: float | None = None,
    ) -> None:
        """Change what is named and leave the rest: an interval of None is left out from now on, its weight with it.

        Raises KeyError for an id that is not there, ValueError for an unknown dimension, a weight or a score where
        there can be none, and what `Subscriptions.faults` finds.
        """
        change = ChangeSubscription(key, intervals or {}, weights or {}, score)
        patched, faults = merged(self.config, self.subscription(key), change)
        _refuse([(0, fault.field, fault.reason) for fault in faults])
        self.change([key], patched)

    def subscription(self, key: str) -> Subscriptions:
        """One subscription, as columns of one row. Raises KeyError."""
        return self.columns(self._find([key]))

    def columns(self, rows: Int32) -> Subscriptions:
        """The subscriptions of rows, copied."""
        d = self._d
        rec = self._rec[rows]
        return Subscriptions(rec[:, 0 : 2 * d : 2], rec[:, 1 : 2 * d : 2], rec[:, 2 * d :])

    def _find(self, ids: Sequence[str]) -> Int32:
        rows = np.fromiter((self.names.find(key) for key in ids), np.int32, len(ids))
        for at in np.flatnonzero(rows < 0).tolist():
            raise KeyError(ids[at])
        if len(np.unique(rows)) < len(rows):
            raise ValueError("an id is named twice")
        return rows

    # What changes are made of. Ids are the caller's: he names rows when they are to be seen.

    def hold(self, subscriptions: Subscriptions, afresh: bool = False) -> Int32:
        """Take in subscriptions without ids; returns their rows. O(log^2 n) each, or with all laid out `afresh`,
        O(n log n)."""
        if afresh:
            rows = self._write_behind(subscriptions)
            self.take_up(LaidOut(rows, self._indexes(rows)))
        else:
            rows = np.arange(self.high, self.high + len(subscriptions.lo), dtype=np.int32)
            self.put(rows, subscriptions)
        return rows

    def put(self, rows: Int32, subscriptions: Subscriptions) -> None:
        """Take in subscriptions as these rows, ascending, which nobody has. Amortised O(log^2 n) each."""
        high = max(self.high, int(rows[-1]) + 1 if len(rows) else 0)
        self._reserve(high)
        self._clear(slice(self.high, high))
        self.high = high
        self._write(rows, subscriptions)
        self._alive[rows] = True
        self._add(rows)
        self.version += 1

    def withdraw(self, rows: Int32) -> None:
        """Take out rows that are there. Amortised O(log^2 n) each."""
        self._remove(rows)
        self._clear(rows)
        self._alive[rows] = False
        self.version += 1

    def rewrite(self, rows: Int32, subscriptions: Subscriptions) -> None:
        """Make rows that are there these. Amortised O(log^2 n) each."""
        self._remove(rows)
        self._write(rows, subscriptions)
        self._add(rows)
        self.version += 1

    def crowded(self, more: int) -> bool:
        """Whether so many changes may be too many: an index would have to be laid out at once, or the table be moved.
        `lay_out` makes room."""
        room = self._room(self._laid_out)
        return self._added + more > room or self.high + more > max(len(self._rec), room)

    def tight(self, more: int) -> bool:
        """Whether so many changes may take a step of one of the indexes that is long, as a merge is. O(d), mostly."""
        return any(part.crowded(more) for part in self.indexes.parts())

    def relieved(self, more: int) -> list[Step]:
        """Short steps after which so many changes take no long one. In any thread, while nothing changes before the
        steps and others read."""
        parts = [part for part in self.indexes.parts() if part.crowded(more)]
        return [step for part in parts for step in part.relieved(self._rec, more)]

    def take(self, step: Step) -> None:
        """Make one of these steps. It changes no answer."""
        step()
        self._streams = None

    def _room(self, n: int) -> int:
        """Changes that the deltas over a base of n rows take in any case."""
        return max(2 * dynamic.GROWTH * dynamic.TAIL, int(dynamic.LARGE_DELTA * n))

    def lay_out(self, more: Subscriptions | None = None) -> LaidOut:
        """Indexes of all that is there and of `more`, for `take_up`, ready for changes. What is more lies behind the
        last row until then, where nothing sees it. O(d n log n); in any thread, while nothing changes and others read.
        """
        rows = self._write_behind(nothing(self.config, 0) if more is None else more)
        indexes = self._indexes(rows)
        indexes.open(self._rec)
        return LaidOut(rows, indexes)

    def _indexes(self, more: Int32) -> Indexes:
        return build_indexes(self.config, self._rec, np.concatenate([self.rows(), more]))

    def _write_behind(self, subscriptions: Subscriptions) -> Int32:
        n = self.high + len(subscriptions.lo)
        rows = np.arange(self.high, n, dtype=np.int32)
        self._reserve(n + self._room(n))
        self._write(rows, subscriptions)
        return rows

    def take_up(self, laid_out: LaidOut) -> None:
        """Use what was laid out. O(1) but for the new rows."""
        self.high += len(laid_out.rows)
        self._alive[laid_out.rows] = True
        self._use(laid_out.indexes)
        self._stale[:] = 0
        self._journal = None
        self.version += 1

    def _use(self, indexes: Indexes) -> None:
        self.indexes = indexes
        self._added = self._edits = 0
        self._laid_out = int(np.count_nonzero(self._alive))
        self._streams = None

    def _reserve(self, rows: int) -> None:
        """Make room for so many rows, and for half as many again; what is not written to takes no memory yet."""
        have = len(self._rec)
        if rows > have:
            size = rows + rows // 2 + 64
            rec = np.empty((size, self._rec.shape[1]))
            rec[: self.high] = self._rec[: self.high]
            more = np.zeros(size - have, np.uint8)
            self._alive = np.concatenate([self._alive, more.view(np.bool_)])
            self._stale = np.concatenate([self._stale, more])
            self._rec = rec
            self._streams = None

    def _clear(self, rows: Int32 | slice) -> None:
        """Leave nothing in rows that an event could meet."""
        self._rec[rows, 0 : 2 * self._d : 2] = INF
        self._rec[rows, 1 : 2 * self._d : 2] = -INF

    def _write(self, rows: Int32, subscriptions: Subscriptions) -> None:
        d = self._d
        self._rec[rows, 0 : 2 * d : 2] = subscriptions.lo
        self._rec[rows, 1 : 2 * d : 2] = subscriptions.hi
        self._rec[rows, 2 * d :] = subscriptions.scores

    def _remove(self, rows: Int32) -> None:
        for part in self.indexes.parts():
            part.remove(self._rec, rows)
        self._edits += len(rows)
        self._note(rows)

    def _add(self, rows: Int32) -> None:
        for part in self.indexes.parts():
            part.add(self._rec, rows)
        self._added += len(rows)
        self._edits += len(rows)
        self._note(rows)

    def _note(self, rows: Int32) -> None:
        self._stale[rows] = 1
        self._streams = None
        if self._journal is not None:
            self._journal.append(rows)

    # Laying out anew.

    def rebuild(self) -> None:
        """Lay everything out anew, at once. O(d n log n)."""
        rows = np.empty(0, np.int32)
        self.take_up(LaidOut(rows, self._indexes(rows)))

    def rows(self) -> Int32:
        """The rows of all subscriptions, ascending: in order of creation. O(n)."""
        return np.flatnonzero(self._alive[: self.high]).astype(np.int32)

    def table(self) -> Float64:
        """A copy of the table, rows that are gone included."""
        return self._rec[: self.high].copy()

    def has(self, rows: Int32) -> npt.NDArray[np.bool_]:
        """Which of these are rows of subscriptions."""
        there = np.zeros(len(rows), np.bool_)
        inside = rows < self.high
        there[inside] = self._alive[rows[inside]]
        return there

    def begin_journal(self) -> None:
        """Note from now on which rows change; laying out anew ends it."""
        self._journal = deque()

    def end_journal(self) -> None:
        self._journal = None

    def take_journal(self, most: int) -> Int32 | None:
        """The rows noted first, about as many, each once, to be forgotten; None where none are noted any more."""
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
        become part of it. O(d n); without indexes they are laid out, O(d n log n). One that is not `to_change`, but to
        be asked, copies nothing of its indexes before the first change."""
        matcher = cls(config)
        rows = matcher._write_behind(subscriptions)
        matcher.names.load(ids)
        matcher.take_up(LaidOut(rows, indexes or matcher._indexes(rows)))
        if to_change:
            matcher.indexes.open(matcher._rec)
        return matcher

    def frozen(self) -> Matcher:
        """A copy that answers the same, whatever changes here. It has no ids. O(d n)."""
        copy = Matcher(self.config)
        copy.high = self.high
        copy._rec = self.table()
        copy._alive, copy._stale = self._alive[: self.high].copy(), self._stale[: self.high].copy()
        copy.indexes = deepcopy(self.indexes)
        return copy

    # Events.

    def events(self, values: Sequence[Mapping[str, Value]]) -> Float64:
        """Events by name as the columns that `match` takes, shape (n, 2d): a pair a, b for each dimension.

        Raises ValueError for an unknown dimension, a NaN, or a range the wrong way round.
        """
        events, faults = events_of(self.config, values)
        _refuse([(fault.index or 0, fault.field, fault.reason) for fault in faults], "event")
        return events

    def match(self, events: Float64, k: int = 20) -> Matches:
        """The k best subscriptions for each event, in two or three calls of kernels however many events there are."""
        n, d = len(events), self._d
        buffers = self._buffers
        if len(buffers.count) < n or buffers.k != k:
            self._buffers = buffers = _Buffers(max(n, len(buffers.count)), k, d)
        out, total = buffers.rows[:n], buffers.total[:n]
        count, seen = buffers.count[:n], buffers.seen[:n]
        count[:] = 0
        seen[:] = 0
        if k > 0 and n > 0 and self.high > 0:
            if d == 1:
                self._match_line(events, k, buffers, out, total, count, seen)
            else:
                self._match_boxes(events, k, buffers, out, total, count, seen)
        return Matches(out, total, count, seen[:, ENTRIES])

    def _match_line(
        self, events: Float64, k: int, buffers: _Buffers, out: Int32, total: Float64, count: Int64, seen: Int64
    ) -> None:
        i = self.indexes
        if i.segments is not None:
            self._match_streams(events, k, buffers, out, total, count, seen)
            return
        if i.runs is not None:
            top_of_runs(i.runs.arrays, self._rec, 0, 2, events, 0, k, buffers.walk, out, count, seen)
        elif i.lists is not None:
            cursors, scores = buffers.cursors, buffers.scores
            top_of_lists(i.lists.arrays, self._rec, 0, 2, events, 0, k, cursors, scores, out, count, seen)
        there = np.arange(k) < count[:, None]
        total[there] = self._rec[out[there], 2]

    def _match_boxes(
        self, events: Float64, k: int, buffers: _Buffers, out: Int32, total: Float64, count: Int64, seen: Int64
    ) -> None:
        i, d = self.indexes, self._d
        if i.blocks is None:
            self._match_streams(events, k, buffers, out, total, count, seen)
            return
        plan = Plan(buffers.way[: len(events)], buffers.along[: len(events)])
        plan.way[:] = BLOCKS
        blocks, scratch = i.blocks.arrays, buffers.scratch
        if self.config.relaxed:
            top_relaxed(blocks, d, self._how, events, k, plan.way, scratch, out, total, count, seen)
            return
        if i.runs is not None:
            plan_exact(i.sample, d, events, k, True, plan)
        top_exact(blocks, d, events, k, plan.way, scratch, out, total, count, seen)
        if i.runs is not None:
            match_along(self._open(), self._rec, d, False, events, k, plan, out, total, count, seen)

    def _match_streams(
        self, events: Float64, k: int, buffers: _Buffers, out: Int32, total: Float64, count: Int64, seen: Int64
    ) -> None:
        d, rec, relaxed = self._d, self._rec, self.config.relaxed
        plan = Plan(buffers.way[: len(events)], buffers.along[: len(events)])
        if relaxed or d == 1:
            ranged = (events[:, 0::2] < events[:, 1::2]).any(axis=1)
            plan.way[:] = np.where(ranged, SCAN, ALONG)
            plan.along[:] = 0
        else:
            plan_exact(self.indexes.sample, d, events, k, False, plan)
        if (plan.way == SCAN).any():
            match_by_scan(
                rec, self.high, d, relaxed, self._how, events, k, plan, buffers.scores, out, total, count, seen
            )
        streams = self._open()
        if relaxed and d > 1:
            last, scores = buffers.last, buffers.scores
            match_by_threshold(streams, rec, d, self._how, events, k, plan, last, scores, out, total, count, seen)
        else:
            match_along(streams, rec, d, relaxed, events, k, plan, out, total, count, seen)
            if d > 1:
                match_together(streams, rec, d, events, k, plan, buffers.head, out, total, count, seen)

    def _open(self) -> Streams:
        if self._streams is None:
            i = self.indexes
            self._streams = open_streams(self._d, i.runs, i.lists, i.segments, self._stale)
        return self._streams

    def matched(self, rows: Int32, events: Float64) -> tuple[npt.NDArray[np.bool_], Float64 | None]:
        """Which dimensions of each of these rows its event, the one at the same place, meets, shape (n, d), and what
        each would add: its weight; None in exact mode. O(n d)."""
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


class _Buffers:
    """What matching writes to, kept from one batch to the next."""

    def __init__(self, events: int, k: int, d: int) -> None:
        self.k = k
        self.rows = np.full((events, k), -1, np.int32)
        self.total = np.zeros((events, k))
        self.count = np.zeros(events, np.int64)
        self.seen = np.zeros((events, 3), np.int64)
        self.way = np.zeros(events, np.uint8)
        self.along = np.zeros(events, np.int64)
        self.scratch = new_scratch(k)
        self.walk = new_walk(k)
        self.cursors = new_cursors(d)
        self.scores = np.empty(k)
        self.last = np.empty(d)
        self.head = np.empty(d, np.int64)


def _refuse(faults: list[tuple[int, str, str]], what: str = "subscription") -> None:
    if faults:
        row, field, reason = faults[0]
        raise ValueError(f"{field}: {reason} ({what} {row})")
