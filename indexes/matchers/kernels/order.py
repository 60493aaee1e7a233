"""Orders in which equals have their place, too, so that what is laid out in them is the same on every machine: that of
answers, score descending and of equal scores the older row first, and that of numbers alone.

Both sort by the fastest sort there is, which is not a stable one: where it leaves equals depends on the processor's
vector instructions. They are set right after it.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import allocating_kernel
from indexes.core.arrays import Floats, Ints, Ints32, int64


def rank_order(score: Floats, row: Ints32) -> Ints:
    """The positions of `score` from best to worst; equal scores by `row`, whose values are distinct.

    O(n log n).
    """
    order = np.argsort(-score)
    _ties_by_row(order, score, row)
    return order


def ascending(values: Floats) -> Ints:
    """The positions of the values of each row, shape (rows, n) or (n,), from least to greatest; equal ones in the order
    in which they come, as in a stable sort. Values are not NaN. O(n log n) each."""
    order = np.argsort(values, axis=-1)
    _ties_by_place(np.atleast_2d(order), np.atleast_2d(values))
    return order


@allocating_kernel
def _ties_by_place(order: Ints, values: Floats) -> None:
    n = order.shape[1]
    for r in range(order.shape[0]):
        i = 0
        while i < n:
            j = i + 1
            while j < n and values[r, order[r, j]] == values[r, order[r, i]]:
                j += 1
            if j > i + 1:
                order[r, i:j].sort()
            i = j


@allocating_kernel
def _ties_by_row(order: Ints, score: Floats, row: Ints32) -> None:
    n = order.size
    i = 0
    while i < n:
        j = i + 1
        while j < n and score[order[j]] == score[order[i]]:
            j += 1
        if j > i + 1:
            keys = np.empty(j - i, np.int64)
            for z in range(i, j):
                keys[z - i] = (int64(row[order[z]]) << 32) | order[z]
            keys.sort()
            for z in range(i, j):
                order[z] = keys[z - i] & 0xFFFFFFFF
        i = j
