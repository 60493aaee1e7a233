"""The order of numbers, digit by digit, in time linear in them: within a kernel, between two passes over a batch."""

from __future__ import annotations

import numpy as np

from indexes.lean import inner_kernel

DIGITS = 8
"""Digits of a key, of eight bits each."""

SIGN = np.uint64(1 << 63)


@inner_kernel
def order_of(values, n, least, keys, order, spare, heads):  # type: ignore[no-untyped-def]
    """Write the order of values[:n], the least first, to order[:n], those as they lie whose digits from `least` on are
    equal; are any?

    `keys`, `order` and `spare` have room for n, `heads` is DIGITS by 256. None is nan, and -0.0 is less than 0.0. A
    digit that all share costs nothing. O(n).
    """
    bits = values.view(np.uint64)
    heads[:] = 0
    for i in range(n):
        # As unsigned numbers floats are in order but for their sign: the negative ones are last, and turned round.
        keys[i] = ~bits[i] if bits[i] & SIGN else bits[i] | SIGN
        for d in range(least, DIGITS):
            heads[d, (keys[i] >> np.uint64(8 * d)) & np.uint64(255)] += 1
        order[i] = i
    a, b = order, spare
    for d in range(least, DIGITS):
        shift = np.uint64(8 * d)
        if n > 0 and heads[d, (keys[0] >> shift) & np.uint64(255)] < n:
            _distribute(keys, shift, a[:n], b, heads[d])
            a, b = b, a
    tied = False
    for t in range(n):
        order[t] = a[t]
        tied |= t > 0 and (keys[order[t]] ^ keys[order[t - 1]]) >> np.uint64(8 * least) == 0
    return tied


@inner_kernel
def _distribute(keys, shift, a, b, head):  # type: ignore[no-untyped-def]
    """Write `a` to `b` in order of one digit, of which `head` says how often each is there."""
    at = 0
    for digit in range(256):
        here = head[digit]
        head[digit] = at
        at += here
    for i in a:
        digit = (keys[i] >> shift) & np.uint64(255)
        b[head[digit]] = i
        head[digit] += 1
