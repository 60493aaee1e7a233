"""Numbers as decimal text, in kernels: the fewest digits that only this number has, as JSON writers give them.

A double stands for all reals that round to it; of the shortest decimals among these the closest to it is written.
`shortest` finds its digits with three multiplications by a tabulated power of ten. The notation is that of `to_json`,
but whole numbers up to 10^16 have no point: ``12``, ``0.25``, ``1e+17``, ``1.5e-7``; what is not finite is ``null``.

Source: Giulietti, The Schubfach way to render doubles, 2020.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from indexes.compiled.jit import internal
from indexes.compiled.simd import primitive, replace
from indexes.core.arrays import Bytes, int64, uint64

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

ROOM = 25
"""Bytes that the text of a number needs at most."""

_HALF = 10**13
"""From here on the digits of a number are counted upwards: most fractions have more."""

_TEN, _CUT = np.uint64(10), np.uint64(10**8)

_LEAST, _MOST = -292, 324
"""Powers of ten that scale some double to an integer of 17 digits."""


def _scaled_powers() -> tuple[Any, Any]:
    """10^k for each k, scaled by a power of two to 128 bits and rounded up: the upper halves, and the lower ones."""
    high, low = [], []
    for k in range(_LEAST, _MOST + 1):
        over, under = 10 ** max(k, 0), 10 ** max(-k, 0)
        # floor(log2(10^k)) - 127, by which it is shifted.
        shift = (k * 1741647 >> 19) - 127
        over, under = over << max(-shift, 0), under << max(shift, 0)
        power = -(-over // under)
        high.append(power >> 64)
        low.append(power & (1 << 64) - 1)
    return np.array(high, np.uint64), np.array(low, np.uint64)


_HIGH, _LOW = _scaled_powers()


@primitive
def _scaled(typing: Any, high: Any, low: Any, c: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, number = ir.IntType(128), ir.IntType(64)
        over, under, factor = (builder.zext(part, wide) for part in args)
        half = ir.Constant(wide, 64)
        total = builder.add(builder.mul(over, factor), builder.lshr(builder.mul(under, factor), half))
        sticky = builder.icmp_unsigned(">", builder.trunc(total, number), ir.Constant(number, 1))
        return builder.or_(builder.trunc(builder.lshr(total, half), number), builder.zext(sticky, number))

    return types.int64(types.uint64, types.uint64, types.int64), codegen


@primitive
def _bits(typing: Any, value: Any) -> Any:
    return types.int64(types.float64), lambda c, b, s, args: b.bitcast(args[0], ir.IntType(64))


def scaled(high: int, low: int, c: int) -> int:
    """A power of ten, of these halves, times c, without its lower 128 bits; the last bit is set where these are not
    nearly 0."""
    total = int(high) * int(c) + (int(low) * int(c) >> 64)
    return total >> 64 | int((total & ((1 << 64) - 1)) > 1)


def bits_of(value: float) -> int:
    """The bits of a double as a signed integer."""
    return int(np.float64(value).view(np.int64))


replace(scaled, lambda high, low, c: _scaled(high, low, c))
replace(bits_of, lambda value: _bits(value))


@internal
def shortest(bits: int) -> tuple[int, int]:
    """Integers s and k with s * 10^k the shortest decimal of a positive, finite double of these bits. O(1)."""
    fraction, exponent = bits & ((1 << 52) - 1), bits >> 52
    c, q = (fraction | (1 << 52), exponent - 1075) if exponent != 0 else (fraction, int64(-1074))
    if 0 <= -q < 53 and c & ((1 << -q) - 1) == 0:
        s, k = c >> -q, int64(0)
    else:
        closer = 1 if fraction == 0 and exponent > 1 else 0
        odd = c & 1
        k = (q * 1262611 - closer * 524031) >> 22
        h = q + ((-k * 1741647) >> 19) + 1
        i = -k - _LEAST
        high, low = _HIGH[i], _LOW[i]
        middle = scaled(high, low, (4 * c) << h)
        least = scaled(high, low, (4 * c - 2 + closer) << h) + odd
        most = scaled(high, low, (4 * c + 2) << h) - odd
        s = middle >> 2
        tens = int64(uint64(s) // _TEN)
        under, over = least <= 40 * tens, 40 * tens + 40 <= most
        if s >= 10 and under != over:
            s = tens + 1 if over else tens
            k += 1
        else:
            under, over = least <= 4 * s, 4 * s + 4 <= most
            if under != over:
                s = s + 1 if over else s
            elif middle > 4 * s + 2 or (middle == 4 * s + 2 and s & 1 == 1):
                s += 1
    return s, k


@internal
def write_integer(out: Bytes, at: int, value: int) -> int:
    """Write an integer from 0 on at out[at:]; returns where it ends."""
    digits, more = (1, int64(10)) if value < _HALF else (14, 10 * _HALF)
    while digits < 19 and value >= more:
        digits += 1
        more *= 10
    end = at + digits
    # Unsigned: a signed quotient would be rounded down. Two chains of divisions run beside each other.
    high, low = uint64(value) // _CUT, uint64(value) % _CUT
    middle = end - min(digits, 8)
    for i in range(1, 9):
        upper_left, left = high // _TEN, low // _TEN
        if middle - i >= at:
            out[middle - i] = 48 + int64(high - _TEN * upper_left)
        if end - i >= middle:
            out[end - i] = 48 + int64(low - _TEN * left)
        high, low = upper_left, left
    for i in range(middle - 9, at - 1, -1):
        out[i] = 48 + int64(high % _TEN)
        high //= _TEN
    return end


@internal
def write_number(out: Bytes, at: int, value: float) -> int:
    """Write a number at out[at:], which has `ROOM`; returns where it ends."""
    if not isfinite(value):
        for i, letter in enumerate((110, 117, 108, 108)):
            out[at + i] = letter
        end = at + 4
    elif value == 0.0:
        out[at] = 48
        end = at + 1
    else:
        if value < 0.0:
            out[at] = 45
            at += 1
        end = _write_positive(out, at, bits_of(abs(value)))
    return end


@internal
def _write_positive(out: Bytes, at: int, bits: int) -> int:
    s, k = shortest(bits)
    if k != 0 or s >= 10_000_000_000_000_000:
        shorter = uint64(s) // _TEN
        while s == int64(shorter) * 10:
            s = int64(shorter)
            shorter //= _TEN
            k += 1
    # Digits first; where they need a point or zeros before them, they are moved.
    end = write_integer(out, at, s)
    point = end - at + k
    if k >= 0 and point <= 16:
        for i in range(end, at + point):
            out[i] = 48
        end = at + point
    elif 0 < point <= 16:
        _insert(out, at + point, end, 1)
        out[at + point] = 46
        end += 1
    elif -5 < point <= 0:
        _insert(out, at, end, 2 - point)
        for i in range(at, at + 2 - point):
            out[i] = 48
        out[at + 1] = 46
        end += 2 - point
    else:
        if end - at > 1:
            _insert(out, at + 1, end, 1)
            out[at + 1] = 46
            end += 1
        out[end], out[end + 1] = 101, 45 if point < 1 else 43
        end = write_integer(out, end + 2, abs(point - 1))
    return end


@internal
def _insert(out: Bytes, begin: int, end: int, room: int) -> None:
    """Move out[begin:end] by so many bytes."""
    for i in range(end - 1, begin - 1, -1):
        out[i + room] = out[i]
