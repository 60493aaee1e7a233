"""Decimal numbers as the floats nearest to them, in a few instructions.

As D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 51 (2021), section 5: the
digits are multiplied by a power of five of 128 bits, whose upper bits say which float is nearest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.jit import inlined
from indexes.compiled.simd import high_bit, primitive, replace
from indexes.core.arrays import UInt64s, int64, uint64

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

MOST_DIGITS = 19
"""Digits that fit into 64 bits."""

LEAST_POWER, MOST_POWER = -64, 22
"""The powers of ten that digits can be multiplied by here: no result is subnormal, and none is infinite."""

_WORD = (1 << 64) - 1


def _power_of_five(q: int) -> int:
    """The upper 128 bits of a power of five; of one below 1 the next greater number of 128 bits."""
    if q >= 0:
        power = 5**q
        return power << (128 - power.bit_length())
    power = 5**-q
    bits = (power - 1).bit_length()
    found = (1 << (bits + 127 if q >= -27 else 2 * bits + 128)) // power + 1
    return found >> max(0, found.bit_length() - 128)


POWERS: UInt64s = np.array(
    [[part >> 64, part & _WORD] for part in map(_power_of_five, range(LEAST_POWER, MOST_POWER + 1))], np.uint64
)
"""The powers of five in two words, the upper one first."""


@primitive
def _upper(typing: Any, a: Any, b: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


def upper_word(a: int, b: int) -> int:
    """The upper 64 bits of the product of two unsigned numbers of 64 bits."""
    return uint64((int(a) * int(b)) >> 64)


replace(upper_word, _upper)


@inlined
def nearest_float(powers: UInt64s, digits: int, power: int) -> int:
    """The bits of the float nearest to digits * 10**power, the even one of two; the digits are unsigned, and the power
    is one of the POWERS."""
    if digits == 0:
        return uint64(0)
    at = uint64(power - LEAST_POWER)
    zeros = 63 - high_bit(int64(digits)) if int64(digits) > 0 else int64(0)
    shifted = uint64(digits) << uint64(zeros)
    high, low = upper_word(shifted, powers[at, 0]), shifted * powers[at, 0]
    if high & uint64(0x1FF) == uint64(0x1FF):
        more = upper_word(shifted, powers[at, 1])
        low += more
        high += uint64(low < more)
    top = high >> uint64(63)
    mantissa = high >> (top + uint64(9))
    exponent = ((217706 * power) >> 16) + 63 + int64(top) - zeros + 1023
    # Halfway between two floats, where the product is exact.
    if (
        low <= uint64(1)
        and -4 <= power <= 23
        and mantissa & uint64(3) == uint64(1)
        and mantissa << (top + uint64(9)) == high
    ):
        mantissa &= ~uint64(1)
    mantissa = (mantissa + (mantissa & uint64(1))) >> uint64(1)
    # Where rounding up carries into the exponent the mantissa is 1 << 53, and the sum right all the same.
    return (uint64(exponent - 1) << uint64(52)) + mantissa
