"""The order of numbers, digit by digit, in time linear in them: within a kernel, between two passes over a batch.

A number's upper half and its place share a word, so that no pass looks anything up. Few numbers are alike in that half;
who sorts puts those in order one by one.
"""

from __future__ import annotations

import numpy as np

from indexes.lean import inner_kernel, pasted_kernel

DIGITS = 4
"""Digits of the upper half of a number, of eight bits each."""

HALF = np.uint64(32)

SIGN = np.uint64(1 << 63)

PLACE = np.uint64((1 << 32) - 1)

MOVES = 8
"""Moves for each number after which those that are alike are too many to be put in order one by one."""


@inner_kernel
def order_by_upper(values, n, words, spare, heads):  # type: ignore[no-untyped-def]
    """Write the order of values[:n] by the upper half of their bits to words[:n], the least first, those that are alike
    as they lie. A word is that half over the number's place: see `place_of` and `are_alike`.

    `words` and `spare` have room for n, `heads` is DIGITS by 256. None is nan, and -0.0 is less than 0.0. A digit that
    all share costs nothing. O(n).
    """
    bits = values.view(np.uint64)
    heads[:] = 0
    for i in range(n):
        # As unsigned numbers floats are in order but for their sign: the negative ones are last, and turned round.
        key = ~bits[i] if bits[i] & SIGN else bits[i] | SIGN
        for d in range(DIGITS):
            heads[d, (key >> (HALF + np.uint64(8 * d))) & np.uint64(255)] += 1
        words[i] = (key & ~PLACE) | np.uint64(i)
    a, b = words, spare
    for d in range(DIGITS):
        shift = HALF + np.uint64(8 * d)
        if n > 0 and heads[d, (words[0] >> shift) & np.uint64(255)] < n:
            _distribute(shift, a, n, b, heads[d])
            a, b = b, a
    for t in range(n):
        words[t] = a[t]


@inner_kernel
def _distribute(shift, a, n, b, head):  # type: ignore[no-untyped-def]
    """Write n words of `a` to `b` in order of one digit, of which `head` says how often each is there."""
    at = 0
    for digit in range(256):
        here = head[digit]
        head[digit] = at
        at += here
    for t in range(n):
        digit = (a[t] >> shift) & np.uint64(255)
        b[head[digit]] = a[t]
        head[digit] += 1


@pasted_kernel
def place_of(word):  # type: ignore[no-untyped-def]
    """Where the number lies whose word this is."""
    return np.int64(word & PLACE)


@pasted_kernel
def are_alike(word, other):  # type: ignore[no-untyped-def]
    """Are the upper halves of both numbers the same?"""
    return (word ^ other) >> HALF == 0


@inner_kernel
def order_of(values, n, words, spare, heads):  # type: ignore[no-untyped-def]
    """As `order_by_upper`, by all of their bits. False, and no order, where some are equal, or too many are alike."""
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
