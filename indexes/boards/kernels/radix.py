"""Radix sort of floats inside a kernel, in time linear in their number.

A number's upper 32 bits and its place share a 64-bit word, so that no pass reads the numbers again. Few numbers agree
in their upper bits; the caller orders those one by one.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import Floats, Ints32, UInt64s, int64, uint64

DIGITS = 4
"""Digits of the upper half of a number, of eight bits each."""

HALF = uint64(32)

SIGN = uint64(1 << 63)

PLACE = uint64((1 << 32) - 1)

MOVES = 8
"""Moves per number after which insertion sort of numbers with equal upper halves is given up."""


@internal
def order_by_upper(values: Floats, n: int, words: UInt64s, spare: UInt64s, heads: Ints32) -> None:
    """Write the stable order of values[:n] by the upper half of their bits, ascending, to words[:n]. A word is that
    half above the number's place: see `place_of` and `are_alike`. O(n).

    `words` and `spare` have room for n, `heads` is DIGITS x 256 scratch. No value is NaN, and -0.0 sorts before 0.0. A
    digit that all share costs nothing.
    """
    bits = values.view(np.uint64)
    heads[:] = 0
    for i in range(n):
        # Read as unsigned numbers, positive floats ascend and negative ones come after them, descending.
        key = ~bits[i] if bits[i] & SIGN else bits[i] | SIGN
        for d in range(DIGITS):
            heads[d, (key >> (HALF + uint64(8 * d))) & uint64(255)] += 1
        words[i] = (key & ~PLACE) | uint64(i)
    a, b = words, spare
    for d in range(DIGITS):
        shift = HALF + uint64(8 * d)
        if n > 0 and heads[d, (words[0] >> shift) & uint64(255)] < n:
            _distribute(shift, a, n, b, heads[d])
            a, b = b, a
    for t in range(n):
        words[t] = a[t]


@internal
def _distribute(shift: int, a: UInt64s, n: int, b: UInt64s, head: Ints32) -> None:
    """One pass: write the n words of `a` to `b`, stably ordered by the digit at `shift`; `head` counts each digit."""
    at = 0
    for digit in range(256):
        here = head[digit]
        head[digit] = at
        at += here
    for t in range(n):
        digit = (a[t] >> shift) & uint64(255)
        b[head[digit]] = a[t]
        head[digit] += 1


@inlined
def place_of(word: int) -> int:
    """The place of the number that the word encodes."""
    return int64(word & PLACE)


@inlined
def are_alike(word: int, other: int) -> bool:
    """Whether the upper halves of both numbers are equal."""
    return (word ^ other) >> HALF == 0


@internal
def order_of(values: Floats, n: int, words: UInt64s, spare: UInt64s, heads: Ints32) -> bool:
    """As `order_by_upper`, by all bits. False, and no order, if some values are equal or too many agree in their upper
    half."""
    order_by_upper(values, n, words, spare, heads)
    moves, t = 0, 0
    decided = True
    while t < n and decided:
        word, at = words[t], t
        value = values[place_of(word)]
        while at > 0 and are_alike(words[at - 1], word) and values[place_of(words[at - 1])] > value:
            words[at] = words[at - 1]
            at -= 1
            moves += 1
        words[at] = word
        decided = moves <= MOVES * n and not (at > 0 and values[place_of(words[at - 1])] == value)
        t += 1
    return decided
