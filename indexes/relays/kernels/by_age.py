"""Slots of each of many lists in order of age, in time linear in their number.

An age, less the least of the list, and its slot share a 64-bit word, of which only the digits are sorted that the ages
of the list differ in.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Ints, Ints32, UInt64s, int64, run_lengths, uint64

BITS = 11
"""Bits of a digit."""

DIGITS = 1 << BITS

HALF = uint64(32)

SLOT = uint64((1 << 32) - 1)

FEW = 32
"""Slots up to which a list is sorted by insertion."""

WIDEST = 1 << 31
"""Ages of a list that differ by less leave room for a slot in their word."""


def sort_by_age(slots: Ints32, upto: Ints, age: Ints) -> None:
    """Bring the slots of each list, which ends at `upto`, into order of age, which is by slot. Ages differ."""
    longest = int(run_lengths(upto).max(initial=0))
    words, spare = np.empty((2, longest), np.uint64)
    begin = int(_sort(slots, upto, age, words, spare, np.empty(DIGITS, np.int32), 0))
    while begin < len(upto):
        # Ages that differ by `WIDEST` or more.
        mine = slots[upto[begin - 1] if begin else 0 : upto[begin]]
        mine[:] = mine[np.argsort(age[mine])]
        begin = int(_sort(slots, upto, age, words, spare, np.empty(DIGITS, np.int32), begin + 1))


@kernel
def _sort(slots: Ints32, upto: Ints, age: Ints, words: UInt64s, spare: UInt64s, heads: Ints32, first: int) -> int:
    """Sort the lists from the `first` on, up to one whose ages are too far apart, which is returned."""
    e, begin = int64(first), int64(0)
    if e > 0:
        begin = upto[e - 1]
    narrow = True
    while e < len(upto) and narrow:
        n = upto[e] - begin
        if n > 1:
            narrow = _sort_one(slots[begin : begin + n], age, words, spare, heads)
        if narrow:
            begin += n
            e += 1
    return e


@internal
def _sort_one(slots: Ints32, age: Ints, words: UInt64s, spare: UInt64s, heads: Ints32) -> bool:
    n = len(slots)
    least = age[slots[0]]
    most = least
    for i in range(1, n):
        one = age[slots[uint64(i)]]
        least, most = min(least, one), max(most, one)
    if most - least >= WIDEST:
        return False
    for i in range(n):
        slot = slots[uint64(i)]
        words[uint64(i)] = (uint64(age[slot] - least) << HALF) | uint64(slot)
    a, b = words, spare
    if n <= FEW:
        for i in range(1, n):
            word, at = a[i], i
            while at > 0 and a[at - 1] > word:
                a[at] = a[at - 1]
                at -= 1
            a[at] = word
    else:
        shift, rest = HALF, most - least
        while rest > 0:
            _distribute(shift, a, n, b, heads)
            a, b = b, a
            shift += uint64(BITS)
            rest >>= BITS
    for i in range(n):
        slots[uint64(i)] = a[uint64(i)] & SLOT
    return True


@internal
def _distribute(shift: int, a: UInt64s, n: int, b: UInt64s, heads: Ints32) -> None:
    """Write the n words of `a` to `b`, stably ordered by the digit at `shift`."""
    heads[:] = 0
    for i in range(n):
        heads[(a[uint64(i)] >> shift) & uint64(DIGITS - 1)] += 1
    at = 0
    for digit in range(DIGITS):
        here = heads[digit]
        heads[digit] = at
        at += here
    for i in range(n):
        word = a[uint64(i)]
        digit = (word >> shift) & uint64(DIGITS - 1)
        b[uint64(heads[digit])] = word
        heads[digit] += 1
