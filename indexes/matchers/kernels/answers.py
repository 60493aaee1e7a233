"""The winners of a batch of events, as kernels write them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import allocating_kernel, internal, kernel
from indexes.core.arrays import Floats, Ints, Ints32

ENTRIES, LEAVES, HOLES = range(3)
"""Columns of `Answers.seen`: slots compared, leaves opened, leaves opened without a slot that the event meets."""


class Answers(NamedTuple):
    """For k winners of each event t: ``rows[t, :found[t]]``, best first, with their `scores`. ``seen[t]`` is the work
    done, by `ENTRIES`, `LEAVES` and `HOLES`; kernels add to it."""

    rows: Ints32
    scores: Floats
    found: Ints
    seen: Ints

    def first(self, events: int) -> Answers:
        """Those of the first so many events, over the same memory."""
        return Answers(self.rows[:events], self.scores[:events], self.found[:events], self.seen[:events])


def new_answers(events: int, k: int) -> Answers:
    """Answers of so many events, of no winners yet."""
    rows, scores = np.full((events, k), -1, np.int32), np.zeros((events, k))
    return Answers(rows, scores, np.zeros(events, np.int64), np.zeros((events, 3), np.int64))


@kernel
def look_up_scores(answers: Answers, table: Floats, scored: int) -> None:
    """Take the scores of all winners from a column of the table."""
    for t in range(answers.found.size):
        for i in range(answers.found[t]):
            answers.scores[t, i] = table[answers.rows[t, i], scored]


@allocating_kernel
def joined(answers: Answers) -> tuple[Ints, Ints32, Floats, Ints]:
    """How many winners each event has, their rows and scores, one event behind the other, and the slots compared for
    each."""
    n = answers.found.size
    sizes = np.empty(n, np.int64)
    entries = np.empty(n, np.int64)
    size = 0
    for t in range(n):
        sizes[t] = answers.found[t]
        entries[t] = answers.seen[t, ENTRIES]
        size += sizes[t]
    rows = np.empty(size, np.int32)
    scores = np.empty(size)
    at = 0
    for t in range(n):
        for i in range(sizes[t]):
            rows[at] = answers.rows[t, i]
            scores[at] = answers.scores[t, i]
            at += 1
    return sizes, rows, scores, entries


@internal
def keep(rows: Ints32, event: int, scores: Floats, n: int, k: int, score: float, row: int) -> int:
    """Insert a row in order among the n <= k best in rows[event], where the caller has found that it belongs there.
    Returns how many there are now."""
    z = min(n, k - 1)
    while z > 0 and (scores[z - 1] < score or (scores[z - 1] == score and rows[event, z - 1] > row)):
        scores[z] = scores[z - 1]
        rows[event, z] = rows[event, z - 1]
        z -= 1
    scores[z] = score
    rows[event, z] = row
    return min(n + 1, k)
