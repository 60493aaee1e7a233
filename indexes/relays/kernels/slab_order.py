"""The order of boxes in a slab index (`slabs.py`): those that are alike lie near each other.

They are halved as in a k-d tree, each time by the end where points meet the fewest halves, by the slabs of their ends.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Ints, Ints32
from indexes.relays.kernels.comparisons import BLOCK
from indexes.relays.kernels.slab_codes import GROUP, LAST

SAMPLE = 2048
"""The end by which boxes are halved is chosen by so many of them at most."""


@internal
def _slab_in(rows: Ints, row: int, end: int) -> int:
    """One slab of a row of which eight are a number."""
    return rows[row, end // 8] >> end % 8 * 8 & LAST


@internal
def _halving_end(rows: Ints, begin: int, upto: int, half: int, ends: int, count: Ints) -> int:
    """The end by which rows[begin:upto] are halved so that points meet the fewest of them: those below the middle of an
    end reach less far. By a sample; a point is as likely in each slab."""
    n = upto - begin
    step = max(1, n // SAMPLE)
    best, least = 0, np.inf
    count[:] = 0
    sampled = 0
    for i in range(begin, upto, step):
        sampled += 1
        for end in range(ends):
            count[end, _slab_in(rows, i, end)] += 1
    for end in range(ends):
        most = middle = other = LAST
        while count[end, most] == 0:
            most -= 1
        while count[end ^ 1, other] == 0:
            other -= 1
        left = sampled - sampled * half // n
        while left > count[end, middle]:
            left -= count[end, middle]
            middle -= 1
        whole = max(most + other - LAST, 0) + 0.5
        part = max(middle + other - LAST, 0) + 0.5
        met = (half * part + (n - half) * whole) / whole
        if met < least:
            best, least = end, met
    return best


@kernel
def halve(rows: Ints, slots: Ints32, ends: int, space: Ints, spare: Ints32, count: Ints, stack: Ints) -> None:
    """Put boxes in order: halves, of halves, down to blocks. Rows of eight slabs a number and slots move together;
    where slabs are equal they stay as they were. O(n log n)."""
    stack[0, 0], stack[0, 1] = 0, slots.size
    top = 1
    while top > 0:
        top -= 1
        begin, upto = stack[top]
        n = upto - begin
        if n > BLOCK:
            unit = GROUP if n >= 2 * GROUP else BLOCK
            half = (n // 2 + unit - 1) // unit * unit
            end = _halving_end(rows, begin, upto, half, ends, count)
            of = count[end]
            of[:] = 0
            for i in range(begin, upto):
                of[_slab_in(rows, i, end)] += 1
            middle = 0
            equal = half  # so many that are equal to the middle go to the first half
            while equal > of[middle]:
                equal -= of[middle]
                middle += 1
            a, b = begin, begin + half
            for i in range(begin, upto):
                slab = _slab_in(rows, i, end)
                first = slab < middle or (slab == middle and equal > 0)
                equal -= int(slab == middle and equal > 0)
                to = a if first else b
                for word in range(rows.shape[1]):
                    space[to, word] = rows[i, word]
                spare[to] = slots[i]
                a += int(first)
                b += int(not first)
            for i in range(begin, upto):
                for word in range(rows.shape[1]):
                    rows[i, word] = space[i, word]
                slots[i] = spare[i]
            stack[top, 0], stack[top, 1] = begin, begin + half
            stack[top + 1, 0], stack[top + 1, 1] = begin + half, upto
            top += 2
