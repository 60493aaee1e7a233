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

Source: Machanavajjhala, Vee, Garofalakis and Shanmugasundaram, "Scalable ranked publish/subscribe", 2.2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from indexes.matchers.cursors import new_cursors
from indexes.matchers.dynamic import RunIndex
from indexes.matchers.lists import PER_SEPARATOR, ListIndex, top_of_lists
from indexes.matchers.runs import new_walk, top_of_runs
from indexes.matchers.segments import SegmentIndex, top_of_segments
from indexes.matchers.streams import Streams, open_streams, read_on, stab
from indexes.matchers.table import points, ranges, record

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

Event = float | tuple[float, float]

SCORED = 2
"""The column of the score in the table of one dimension."""


class Stab(Protocol):
    """What an event meets, best first."""

    def getnext(self) -> int | None:
        """The number of the next best interval, or None when there are no more."""

    def __iter__(self) -> Iterator[int]: ...


class ScoredIndex(Protocol):
    """A scored interval index over numbered intervals 0, 1, ... in order of creation."""

    def stab(self, q: Event) -> Stab:
        """What the event meets, one at a time."""

    def top(self, q: Event, k: int) -> Int32:
        """The numbers of the k best that the event meets, best first; fewer when there are not so many."""

    @property
    def nbytes(self) -> int:
        """Bytes of the index, beside the intervals and scores themselves."""


class _Reading:
    """A stream that is read some rows ahead."""

    def __init__(self, read: Callable[[], Int32]) -> None:
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

    def top(self, q: Event, k: int) -> Int32:
        event = ranges([q]) if isinstance(q, tuple) else points(q)
        rows, count = self.top_many(event, k)
        return rows[0, : count[0]]

    def top_many(self, events: Float64, k: int) -> tuple[Int32, Int64]:
        """The k best for each of many events (a, b pairs as `table.points` and `table.ranges` make them): rows of
        shape (n, k), and how many of each are there."""
        out = np.full((len(events), k), -1, np.int32)
        count = np.zeros(len(events), np.int64)
        seen = np.zeros((len(events), 3), np.int64)
        if k > 0:
            self._top(events, k, out, count, seen)
        self.seen = seen
        return out, count

    def stab(self, q: Event) -> _Reading:
        if isinstance(q, tuple):
            return _Reading(self._doubling(q))
        a, b = points(q)[0].tolist()
        streams = self._streams()
        seen = np.zeros((1, 3), np.int64)
        stab(streams, self.rec, 0, SCORED, a, b, seen)
        out = np.empty(16, np.int32)

        def read() -> Int32:
            return out[: read_on(streams, self.rec, 0, SCORED, a, b, out, seen)]

        return _Reading(read)

    def _doubling(self, q: Event) -> Callable[[], Int32]:
        """Read what a range meets, twice as much each time. All of it takes twice as long as at once."""
        had = 0

        def read() -> Int32:
            nonlocal had
            rows = self.top(q, 2 * had + 16)[had:]
            had += len(rows)
            return rows

        return read

    def _top(self, events: Float64, k: int, out: Int32, count: Int64, seen: Int64) -> None:
        raise NotImplementedError

    def _streams(self) -> Streams:
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

    def check(self, rows: Int32) -> None:
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

    def _top(self, events: Float64, k: int, out: Int32, count: Int64, seen: Int64) -> None:
        top_of_runs(self._index.arrays, self.rec, 0, SCORED, events, 0, k, new_walk(k), out, count, seen)

    def _streams(self) -> Streams:
        return open_streams(1, runs=self._index)


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
        """Intervals and extents held: the paper's measure of space."""
        return int(self._index.entries)

    def _top(self, events: Float64, k: int, out: Int32, count: Int64, seen: Int64) -> None:
        cursors, scores = new_cursors(1), np.empty(k)
        top_of_lists(self._index.arrays, self.rec, 0, SCORED, events, 0, k, cursors, scores, out, count, seen)

    def _streams(self) -> Streams:
        return open_streams(1, lists=self._index)


class IntervalTree(IRTree):
    """An interval tree whose lists are gone through from the best on."""

    indexed = False


class SegmentTree(_OneDimension):
    """A segment tree whose lists are in order of score."""

    def __init__(self, lo: npt.ArrayLike, hi: npt.ArrayLike, score: npt.ArrayLike) -> None:
        super().__init__(lo, hi, score)
        self._index = SegmentIndex(self.rec, self.rows, 1, False)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes

    def _top(self, events: Float64, k: int, out: Int32, count: Int64, seen: Int64) -> None:
        top_of_segments(self._index.arrays, self.rec, 0, events, 0, k, new_cursors(1), out, count, seen)

    def _streams(self) -> Streams:
        return open_streams(1, segments=self._index, stale=np.zeros(len(self.rec), np.uint8))


INDEXES: dict[str, type[_OneDimension]] = {
    "sopt-r": SoptRTree,
    "ir": IRTree,
    "segment": SegmentTree,
    "interval": IntervalTree,
    "scored-r": ScoredRTree,
}
"""By the name that a matcher's configuration gives them."""
