"""The scored interval indexes in one dimension: five ways to the k best-scored intervals that an event meets.

| index | space | time for k | changes |
| --- | --- | --- | --- |
| `IntervalTree` | n | linear in what is not met | insert and delete, linear in a list |
| `SegmentTree` | n log n | O((log n + k) log n) | none |
| `ScoredRTree` | n (1 + 2/(b - 1)) | no bound | as the SOPT-R-tree |
| `IRTree` | at most 1 + 2/(b - 1) times the interval tree | O((k + log n) log n) | insert and delete, O(log n) |
| `SoptRTree` | as an R-tree | O(k log n) | holes, and deltas merged behind it |

Each answers in order of score, of equal scores the interval that came first. Intervals are closed; either end may be
infinite. An event is a number, or a range (lo, hi), which meets what it overlaps.

Source: [Ranked matching] 2.2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.matchers.alternatives.lists import PER_SEPARATOR, ListIndex, top_of_lists
from indexes.matchers.alternatives.segments import SegmentIndex, Segments, next_in_segments, open_segments
from indexes.matchers.kernels.answers import Answers, new_answers
from indexes.matchers.kernels.positions import Positions, new_positions
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.runs import new_walk, top_of_runs
from indexes.matchers.kernels.sorted_access import SortedAccess, new_sorted_access, next_row, seek_first
from indexes.matchers.kernels.table import points, ranges, record

Event = float | tuple[float, float]

SCORED = 2
"""The column of the score in the table of one dimension."""


class Stab(Protocol):
    """What an event meets, best first."""

    def getnext(self) -> int | None:
        """The number of the next best interval, or None when there are no more."""

    def __iter__(self) -> Iterator[int]: ...


class _Reading:
    """Sorted access, read some rows ahead."""

    def __init__(self, read: Callable[[], Ints32]) -> None:
        self._read = read
        self._rows: list[int] = []

    def getnext(self) -> int | None:
        if not self._rows:
            self._rows = self._read()[::-1].tolist()
        return self._rows.pop() if self._rows else None

    def __iter__(self) -> Iterator[int]:
        while (row := self.getnext()) is not None:
            yield row


class _OneDimension:
    """What the five have in common: the table, events and their counts."""

    changeable: ClassVar[bool] = False

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike, score: npt.ArrayLike) -> None:
        """Of n intervals [lo, hi] and their scores.

        Raises ValueError for a NaN, an interval whose ends are the wrong way round, an infinite score.
        """
        columns = [np.array(column, np.float64, ndmin=1) for column in (lo, hi, score)]
        if not (columns[0] <= columns[1]).all() or (columns[0] == np.inf).any() or (columns[1] == -np.inf).any():
            raise ValueError("an interval has a NaN or no room between its ends")
        if not np.isfinite(columns[2]).all():
            raise ValueError("a score is not finite")
        self.rec = record(columns[0][:, None], columns[1][:, None], columns[2][:, None])
        self.rows = np.arange(len(self.rec), dtype=np.int32)
        self.seen = np.zeros((1, 3), np.int64)
        """Entries looked at, leaves opened and holes among them in the last `top`, summed over its events."""

    def top(self, q: Event, k: int) -> Ints32:
        event = ranges([q]) if isinstance(q, tuple) else points(q)
        rows, count = self.top_many(event, k)
        return rows[0, : count[0]]

    def top_many(self, events: Floats, k: int) -> tuple[Ints32, Ints]:
        """The k best for each of many events (a, b pairs as `table.points` and `table.ranges` make them): rows of
        shape (n, k), and how many of each are there."""
        answers = new_answers(len(events), k)
        if k > 0:
            self._top(events, k, answers)
        self.seen = answers.seen
        return answers.rows, answers.found

    def stab(self, q: Event) -> _Reading:
        if isinstance(q, tuple):
            return _Reading(self._doubling(q))
        a, b = points(q)[0].tolist()
        access = self._access()
        seen = np.zeros((1, 3), np.int64)
        stab(access, self.rec, 0, SCORED, a, b, seen)
        out = np.empty(16, np.int32)

        def read() -> Ints32:
            return out[: read_on(access, self.rec, 0, SCORED, a, b, out, seen)]

        return _Reading(read)

    def _doubling(self, q: Event) -> Callable[[], Ints32]:
        """Read what a range meets, twice as much each time. All of it takes twice as long as at once."""
        had = 0

        def read() -> Ints32:
            nonlocal had
            rows = self.top(q, 2 * had + 16)[had:]
            had += len(rows)
            return rows

        return read

    def _top(self, events: Floats, k: int, answers: Answers) -> None:
        raise NotImplementedError

    def _access(self) -> SortedAccess:
        raise NotImplementedError


class _Changeable(_OneDimension):
    """An index that changes in place. Numbers are given out once, in order of creation."""

    _index: Any
    changeable = True

    def insert(self, lo: float, hi: float, score: float) -> int:
        """Add an interval; returns its number."""
        row = len(self.rec)
        self.rec = np.concatenate([self.rec, [[lo, hi, score]]])
        self._index.add(self.rec, np.array([row], np.int32))
        return row

    def delete(self, row: int) -> None:
        """Take out an interval that is there."""
        self._index.remove(self.rec, np.array([row], np.int32))

    def change(self, rows: npt.ArrayLike, lo: npt.ArrayLike, hi: npt.ArrayLike, score: npt.ArrayLike) -> None:
        """Give intervals that are there other ends and scores; they keep their age."""
        which = np.asarray(rows, np.int32)
        self._index.remove(self.rec, which)
        self.rec[which] = np.column_stack([lo, hi, score])
        self._index.add(self.rec, which)

    @property
    def nbytes(self) -> int:
        return int(self._index.nbytes)

    def check(self, rows: Ints32) -> None:
        """Raise AssertionError unless the index is sound and holds exactly these intervals."""
        self._index.check(self.rec, rows)


class ScoredRTree(_Changeable):
    """A packed R-tree over the order of scores: small, and without a bound on the holes that a point meets."""

    optimal: ClassVar[bool] = False

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike, score: npt.ArrayLike) -> None:
        super().__init__(lo, hi, score)
        self._index = RunIndex.build(self.rec, self.rows, 1, False, self.optimal)

    def compact(self) -> None:
        """Fold all changes into a new base. O(n log n)."""
        self._index = RunIndex.build(self.rec, self._index.rows_of(0), 1, False, self.optimal)

    def _top(self, events: Floats, k: int, answers: Answers) -> None:
        top_of_runs(self._index.arrays, self.rec, 0, SCORED, events, new_walk(k), answers)

    def _access(self) -> SortedAccess:
        return new_sorted_access(1, runs=self._index)


class SoptRTree(ScoredRTree):
    """A packed R-tree over the arrangement of Algorithm 1: a query for k of a fresh one meets at most k holes among
    the leaves (Theorem 3.2)."""

    optimal = True


class IRTree(_Changeable):
    """An interval tree with an R-tree over the list of each node (Theorem 3.1)."""

    indexed: ClassVar[bool] = True

    def __init__(
        self, lo: npt.ArrayLike, hi: npt.ArrayLike, score: npt.ArrayLike, spacing: int = PER_SEPARATOR
    ) -> None:
        """As any index, with a node for each `spacing` end points."""
        super().__init__(lo, hi, score)
        self._index = ListIndex.build(self.rec, self.rows, 1, False, self.indexed, spacing)

    @property
    def entries(self) -> int:
        """Intervals and extents held: the measure of space of [Ranked matching]."""
        return int(self._index.entries)

    def _top(self, events: Floats, k: int, answers: Answers) -> None:
        top_of_lists(self._index.arrays, self.rec, 0, SCORED, events, new_positions(1), np.empty(k), answers)

    def _access(self) -> SortedAccess:
        return new_sorted_access(1, lists=self._index)


class IntervalTree(IRTree):
    """An interval tree whose lists are scanned from the best on."""

    indexed = False


class SegmentTree(_OneDimension):
    """A segment tree whose lists are in order of score."""

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike, score: npt.ArrayLike) -> None:
        super().__init__(lo, hi, score)
        self._index = SegmentIndex(self.rec, self.rows, 1, False)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes

    def _top(self, events: Floats, k: int, answers: Answers) -> None:
        top_of_segments(self._index.arrays, self.rec, 0, events, new_positions(1), answers)

    def _access(self) -> SortedAccess:
        return new_sorted_access(1, segments=self._index, stale=np.zeros(len(self.rec), np.uint8))


INDEXES: dict[str, type[_OneDimension]] = {
    "sopt-r": SoptRTree,
    "ir": IRTree,
    "segment": SegmentTree,
    "interval": IntervalTree,
    "scored-r": ScoredRTree,
}
"""By the name that a matcher's configuration gives them."""


@kernel
def stab(access: SortedAccess, table: Floats, dimension: int, scored: int, low: float, high: float, seen: Ints) -> None:
    """Set a dimension before the best row that a point meets."""
    seek_first(access, table, dimension, scored, low, high, seen, 0)


@kernel
def read_on(
    access: SortedAccess, table: Floats, dimension: int, scored: int, low: float, high: float, out: Ints32, seen: Ints
) -> int:
    """Write the next rows of a dimension to `out`, as many as fit; returns how many there are."""
    n = 0
    row = int64(0)
    while n < out.size and row >= 0:
        row = next_row(access, table, dimension, scored, low, high, seen, 0)
        if row >= 0:
            out[n] = row
            n += 1
    return n


@kernel
def top_of_segments(
    trees: Segments, table: Floats, dimension: int, events: Floats, positions: Positions, answers: Answers
) -> None:
    """The k best rows of a dimension that each event meets, as `runs.top_of_runs`. O((log n + k) log n) for a point,
    linear in what ranks before the k-th for any other event."""
    out, count, seen, k = answers.rows, answers.found, answers.seen, answers.rows.shape[1]
    for t in range(events.shape[0]):
        a = events[t, 0]
        b = events[t, 1]
        open_segments(trees, dimension, a, b, positions)
        n = 0
        row = next_in_segments(trees, table, dimension, a, b, positions, seen, t)
        while row >= 0:
            out[t, n] = row
            n += 1
            row = next_in_segments(trees, table, dimension, a, b, positions, seen, t) if n < k else int64(-1)
        count[t] = n
