"""The two references of [Ranked matching] 2: indexes that report everything an event meets, in no order of score.

A query goes through all of it and keeps the k best, so its time depends on what is met, not on k. Events are
points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.matchers.alternatives.lists import LIST, NODES, PER_SEPARATOR, ROOT, ListIndex, number_lists
from indexes.matchers.kernels.answers import keep
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.runs import Runs, fill_run, next_in_run
from indexes.matchers.kernels.table import record

SCORED = 2
"""The column of the score in the table of one dimension."""


class UnscoredRTree:
    """An R-tree packed in order of left ends."""

    def __init__(self, lo: Floats, hi: Floats, score: Floats) -> None:
        self._rec = record(lo[:, None], hi[:, None], score[:, None])
        rows = np.argsort(lo, kind="stable").astype(np.int32)
        self._index = RunIndex.build(self._rec, rows, 1, False, False)
        fill_run(self._index.arrays, self._rec, 0, 0, SCORED, rows)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes

    def top_many(self, events: Floats, k: int) -> tuple[Ints32, Ints]:
        """The k best of each event, as the scored indexes answer."""
        out, count = np.full((len(events), k), -1, np.int32), np.zeros(len(events), np.int64)
        _top_of_run(self._index.arrays, self._rec, events, k, np.empty(k), out, count)
        return out, count


class Centred(NamedTuple):
    """An interval tree: list v holds left[start[v] : start[v + 1]] by left end, and right[...] by right end, the
    furthest first. Separators and numbers of lists are those of `lists.py`."""

    sep: Floats
    head: Ints
    start: Ints
    left: Ints32
    right: Ints32


class UnscoredIntervalTree:
    """The interval tree as it is in textbooks: a node's intervals by left end, and again by right end."""

    def __init__(self, lo: Floats, hi: Floats, score: Floats) -> None:
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

    def top_many(self, events: Floats, k: int) -> tuple[Ints32, Ints]:
        """The k best of each event, as the scored indexes answer."""
        out, count = np.full((len(events), k), -1, np.int32), np.zeros(len(events), np.int64)
        _top_of_tree(self._index, self._rec, events, k, np.empty(k), out, count)
        return out, count


UNSCORED = {"unscored interval tree": UnscoredIntervalTree, "unscored R-tree": UnscoredRTree}
"""By the name that the tables give them."""


@internal
def _offer(table: Floats, row: int, k: int, scores: Floats, out: Ints32, event: int, n: int) -> int:
    """Keep a row if it is among the n best so far; returns how many there are now."""
    score = table[row, SCORED]
    if n < k or score > scores[k - 1] or (score == scores[k - 1] and row < out[event, k - 1]):
        n = keep(out, event, scores, n, k, score, row)
    return n


@kernel
def _top_of_run(index: Runs, table: Floats, events: Floats, k: int, scores: Floats, out: Ints32, count: Ints) -> None:
    for t in range(events.shape[0]):
        n = 0
        i, _ = next_in_run(index, 0, int64(0), events[t, 0], events[t, 1])
        while i >= 0:
            n = _offer(table, index.row[index.first[0, 0] + i], k, scores, out, t, n)
            i, _ = next_in_run(index, 0, i + 1, events[t, 0], events[t, 1])
        count[t] = n


@kernel
def _top_of_tree(
    index: Centred, table: Floats, events: Floats, k: int, scores: Floats, out: Ints32, count: Ints
) -> None:
    first, m = index.head[0, LIST], index.head[0, NODES]
    for t in range(events.shape[0]):
        q = events[t, 0]
        n = 0
        node = index.head[0, ROOT]
        step = node >> 1
        last = int64(0)
        while node > 0:
            right = False
            stop = step == 0
            if node <= m:
                right = q > index.sep[node]
                stop |= q == index.sep[node]
                i = index.start[first + node]
                end = index.start[first + node + 1]
                while i < end:
                    row = index.right[i] if right else index.left[i]
                    if table[row, 0] <= q and q <= table[row, 1]:
                        n = _offer(table, row, k, scores, out, t, n)
                        i += 1
                    else:  # what follows does not reach so far
                        i = end
                if right:
                    last = node
            node = int64(0) if stop else node + step if right else node - step
            step >>= 1
        for i in range(index.start[first + m + 1 + last], index.start[first + m + 2 + last]):
            row = index.left[i]
            if table[row, 0] <= q and q <= table[row, 1]:
                n = _offer(table, row, k, scores, out, t, n)
        count[t] = n
