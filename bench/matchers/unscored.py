"""The two references of the paper's Section 2: indexes that report everything an event meets, in no order of score.

The k best are kept aside while all are gone through, so their time goes with what is met, not with k. Events are
points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel, lean_kernel
from indexes.matchers.dynamic import RunIndex
from indexes.matchers.lists import LIST, NODES, PER_SEPARATOR, ROOT, ListIndex, number_lists
from indexes.matchers.runs import fill_run, keep, next_in_run
from indexes.matchers.table import record

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

SCORED = 2
"""The column of the score in the table of one dimension."""


class UnscoredRTree:
    """An R-tree packed in order of left ends."""

    def __init__(self, lo: Float64, hi: Float64, score: Float64) -> None:
        self._rec = record(lo[:, None], hi[:, None], score[:, None])
        rows = np.argsort(lo, kind="stable").astype(np.int32)
        self._index = RunIndex.build(self._rec, rows, 1, False, False)
        fill_run(self._index.arrays, self._rec, 0, 0, SCORED, rows)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes

    def top_many(self, events: Float64, k: int) -> tuple[Int32, Int64]:
        """The k best of each event, as the scored indexes answer."""
        out, count = np.full((len(events), k), -1, np.int32), np.zeros(len(events), np.int64)
        _top_of_run(self._index.arrays, self._rec, events, k, np.empty(k), out, count)
        return out, count


class Centred(NamedTuple):
    """An interval tree: list v holds left[start[v] : start[v + 1]] by left end, and right[...] by right end, the
    furthest first. Separators and numbers of lists are those of `lists.py`."""

    sep: Float64
    head: Int64
    start: Int64
    left: Int32
    right: Int32


class UnscoredIntervalTree:
    """The interval tree as it is in textbooks: a node's intervals by left end, and again by right end."""

    def __init__(self, lo: Float64, hi: Float64, score: Float64) -> None:
        self._rec = record(lo[:, None], hi[:, None], score[:, None])
        ends = np.sort(np.concatenate([lo, hi]))
        shell = ListIndex(1, False, separators=[np.unique(ends[PER_SEPARATOR // 2 :: PER_SEPARATOR])]).arrays
        numbers = np.empty(len(lo), np.int32)
        number_lists(shell, self._rec, 0, np.arange(len(lo), dtype=np.int32), numbers)
        left, right = np.lexsort((lo, numbers)), np.lexsort((-hi, numbers))
        start = np.searchsorted(numbers[left], np.arange(len(shell.root) + 1))
        self._index = Centred(shell.sep, shell.head, start, left.astype(np.int32), right.astype(np.int32))

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._index)

    def top_many(self, events: Float64, k: int) -> tuple[Int32, Int64]:
        """The k best of each event, as the scored indexes answer."""
        out, count = np.full((len(events), k), -1, np.int32), np.zeros(len(events), np.int64)
        _top_of_tree(self._index, self._rec, events, k, np.empty(k), out, count)
        return out, count


UNSCORED = {"unscored interval tree": UnscoredIntervalTree, "unscored R-tree": UnscoredRTree}
"""By the name that the tables give them."""


@inner_kernel
def _offer(rec, row, k, scores, out, t, n):  # type: ignore[no-untyped-def]
    """Keep a row if it is among the n best so far; returns how many there are now."""
    score = rec[row, SCORED]
    if n < k or score > scores[k - 1] or (score == scores[k - 1] and row < out[t, k - 1]):
        n = keep(out, t, scores, n, k, score, row)
    return n


@lean_kernel
def _top_of_run(ix, rec, events, k, scores, out, count):  # type: ignore[no-untyped-def]
    for t in range(events.shape[0]):
        n = 0
        i, _ = next_in_run(ix, 0, np.int64(0), events[t, 0], events[t, 1])
        while i >= 0:
            n = _offer(rec, ix.row[ix.first[0, 0] + i], k, scores, out, t, n)
            i, _ = next_in_run(ix, 0, i + 1, events[t, 0], events[t, 1])
        count[t] = n


@lean_kernel
def _top_of_tree(ix, rec, events, k, scores, out, count):  # type: ignore[no-untyped-def]
    first, m = ix.head[0, LIST], ix.head[0, NODES]
    for t in range(events.shape[0]):
        q = events[t, 0]
        n = 0
        node = ix.head[0, ROOT]
        step = node >> 1
        last = np.int64(0)
        while node > 0:
            right = False
            stop = step == 0
            if node <= m:
                right = q > ix.sep[node]
                stop |= q == ix.sep[node]
                i = ix.start[first + node]
                end = ix.start[first + node + 1]
                while i < end:
                    row = ix.right[i] if right else ix.left[i]
                    if rec[row, 0] <= q and q <= rec[row, 1]:
                        n = _offer(rec, row, k, scores, out, t, n)
                        i += 1
                    else:  # what follows does not reach so far
                        i = end
                if right:
                    last = node
            node = np.int64(0) if stop else node + step if right else node - step
            step >>= 1
        for i in range(ix.start[first + m + 1 + last], ix.start[first + m + 2 + last]):
            row = ix.left[i]
            if rec[row, 0] <= q and q <= rec[row, 1]:
                n = _offer(rec, row, k, scores, out, t, n)
        count[t] = n
