"""Slots of each of many lists in order of age, in time linear in their number.

Where the ages of a list lie near each other, each slot is put at its age less the least of the list, and a bit is set
there; then the bits are read in order. Elsewhere that age and the slot share a 64-bit word, of which only the digits
are sorted that the ages of the list differ in.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.compiled.masks import BLOCK, SHIFT, first_lane, lane, without_first
from indexes.compiled.simd import bit_count
from indexes.core.arrays import Ints, Ints32, UInt64s, int64, run_lengths, uint64
from indexes.relays.kernels.comparisons import PACKS, block_pack

BITS = 11
"""Bits of a digit."""

DIGITS = 1 << BITS

HALF = uint64(32)

SLOT = uint64((1 << 32) - 1)

FEW = 32
"""Slots up to which a list is sorted by insertion."""

WIDEST = 1 << 31
"""Ages of a list that differ by less leave room for a slot in their word."""

NEAR = 1 << 17
"""Ages of a list that differ by less have a place each. To look through so many, 64 at a time, takes as long as to
count digits."""


class Scratch(NamedTuple):
    """Memory of a thread: slots by age less the least one, and which of them are there, a bit each; no bit is set
    between two lists."""

    slot: Ints32
    there: Ints


class _Space(threading.local):
    def __init__(self) -> None:
        self.scratch = Scratch(np.empty(NEAR, np.int32), np.zeros(NEAR // BLOCK, np.int64))


_space = _Space()

_NO_WORDS = np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int32)


def sort_by_age(slots: Ints32, upto: Ints, age: Ints) -> None:
    """Bring the slots of each list, which ends at `upto`, into order of age, which is by slot. Ages differ."""
    begin = int(_sort(slots, upto, age, _space.scratch, *_NO_WORDS, 0))
    if begin == len(upto):
        return
    longest = int(run_lengths(upto).max(initial=0))
    words, spare = np.empty((2, longest), np.uint64)
    heads = np.empty(DIGITS, np.int32)
    begin = int(_sort(slots, upto, age, _space.scratch, words, spare, heads, begin))
    while begin < len(upto):
        # Ages that differ by `WIDEST` or more.
        mine = slots[upto[begin - 1] if begin else 0 : upto[begin]]
        mine[:] = mine[np.argsort(age[mine])]
        begin = int(_sort(slots, upto, age, _space.scratch, words, spare, heads, begin + 1))


@kernel
def _sort(
    slots: Ints32, upto: Ints, age: Ints, scratch: Scratch, words: UInt64s, spare: UInt64s, heads: Ints32, first: int
) -> int:
    """Sort the lists from the `first` on, up to one whose ages are too far apart, or for which there is no room in
    `words`, which is returned."""
    e, begin = int64(first), int64(0)
    if e > 0:
        begin = upto[e - 1]
    sorted_ = True
    while e < len(upto) and sorted_:
        n = upto[e] - begin
        if n > 1:
            sorted_ = _sort_one(slots[begin : begin + n], age, scratch, words, spare, heads)
        if sorted_:
            begin += n
            e += 1
    return e


@internal
def _sort_one(slots: Ints32, age: Ints, scratch: Scratch, words: UInt64s, spare: UInt64s, heads: Ints32) -> bool:
    n = len(slots)
    if n <= FEW:
        _insert(slots, age)
        return True
    least = age[slots[0]]
    most = least
    for i in range(1, n):
        one = age[slots[uint64(i)]]
        least, most = min(least, one), max(most, one)
    if most - least < NEAR:
        _place(slots, age, least, most, scratch)
        return True
    if most - least >= WIDEST or n > len(words):
        return False
    for i in range(n):
        slot = slots[uint64(i)]
        words[uint64(i)] = (uint64(age[slot] - least) << HALF) | uint64(slot)
    a, b = words, spare
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
def _insert(slots: Ints32, age: Ints) -> None:
    """Sort a few slots."""
    for i in range(1, len(slots)):
        slot, at = slots[i], i
        mine = age[slot]
        while at > 0 and age[slots[at - 1]] > mine:
            slots[at] = slots[at - 1]
            at -= 1
        slots[at] = slot


@internal
def _place(slots: Ints32, age: Ints, least: int, most: int, scratch: Scratch) -> None:
    """Sort slots whose ages, less the least one, have a place each."""
    slot, there = scratch
    for i in range(len(slots)):
        one = slots[uint64(i)]
        place = age[one] - least
        slot[uint64(place)] = one
        there[uint64(place >> SHIFT)] |= lane(place & BLOCK - 1)
    i = int64(0)
    for block in range((most - least >> SHIFT) + 1):
        mask = there[uint64(block)]
        there[uint64(block)] = 0
        if PACKS and i + BLOCK <= len(slots):
            # How many there are of a block is not foreseen, and these are packed without a jump.
            block_pack(slot, block << SHIFT, mask, slots, i)
            i += bit_count(mask)
            mask = 0
        while mask != 0:
            slots[uint64(i)] = slot[uint64(block << SHIFT | first_lane(mask))]
            mask = without_first(mask)
            i += 1


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
