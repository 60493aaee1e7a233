"""Sixty-four SIMD lanes at once: comparisons of blocks of 64 numbers, and the masks that they make.

A mask is a signed integer of 64 bits, one for each lane. Compiled, each primitive is a few vector instructions;
uncompiled (``NUMBA_DISABLE_JIT=1``) it is the function written here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.simd import load, low_bit, mask_of, primitive, replace, splat

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

SHIFT = 6
BLOCK = 1 << SHIFT
"""Numbers in a block. A column that is read by blocks has room for one more behind its last number."""


@primitive
def _overlapping(typing: Any, lo: Any, hi: Any, base: Any, a: Any, b: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        begins = load(context, builder, signature.args[0], args[0], args[2], BLOCK)
        begun = builder.fcmp_ordered("<=", begins, splat(builder, begins.type, args[4]))
        ends = load(context, builder, signature.args[1], args[1], args[2], BLOCK)
        not_ended = builder.fcmp_ordered(">=", ends, splat(builder, ends.type, args[3]))
        return mask_of(builder, builder.and_(begun, not_ended))

    return types.int64(lo, hi, types.int64, types.float64, types.float64), codegen


@primitive
def _block_around(typing: Any, a: Any, base: Any, part: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        upper = splat(builder, ir.VectorType(byte, BLOCK), builder.trunc(args[2], byte))
        lower = builder.not_(upper)
        behind = builder.add(args[1], ir.Constant(args[1].type, BLOCK))
        first, second = (load(context, builder, signature.args[0], args[0], at, BLOCK) for at in (args[1], behind))
        masks = [
            builder.and_(
                mask_of(builder, builder.icmp_unsigned(order, first, lower)),
                mask_of(builder, builder.icmp_unsigned(order, second, upper)),
            )
            for order in (">=", ">")
        ]
        return context.make_tuple(builder, signature.return_type, masks)

    return types.UniTuple(types.int64, 2)(a, types.int64, types.int64), codegen


def _signed(mask: int) -> int:
    mask = int(mask) & (1 << 64) - 1
    return mask - (1 << 64) if mask >> 63 else mask


def packed(met: Any) -> int:
    """The mask of booleans by lane, uncompiled."""
    return _signed(int.from_bytes(np.packbits(met, bitorder="little").tobytes(), "little"))


def overlapping(lo: Any, hi: Any, base: int, a: float, b: float) -> int:
    """The mask of the lanes i < 64 with lo[base + i] <= b and hi[base + i] >= a, of columns of float64."""
    return packed((lo[base : base + BLOCK] <= b) & (hi[base : base + BLOCK] >= a))


def block_around(a: Any, base: int, part: int) -> tuple[int, int]:
    """The mask of the lanes i < 64 with a[base + i] >= 255 - part and a[base + 64 + i] >= part, of a column of uint8,
    and the mask of those that are greater in both."""
    lower, upper = a[base : base + BLOCK], a[base + BLOCK : base + 2 * BLOCK]
    reach, exceed = (lower >= 255 - part) & (upper >= part), (lower > 255 - part) & (upper > part)
    return packed(reach), packed(exceed)


def first_lane(mask: int) -> int:
    """The number of the lowest lane; the mask is not 0."""
    return low_bit(int(mask))


def without_first(mask: int) -> int:
    """The mask without its lowest lane; it is not 0."""
    return _signed(int(mask) & (int(mask) - 1))


def lane(n: int) -> int:
    """The mask of lane n < 64 alone."""
    return _signed(1 << int(n))


def first_lanes(n: int) -> int:
    """The mask of the lanes below n, which is at least 0; all of them from n = 64 on."""
    return -1 if n >= BLOCK else (1 << int(n)) - 1


def lanes_behind(n: int) -> int:
    """The mask of the lanes from n < 64 on."""
    return _signed(-1 << int(n))


replace(overlapping, _overlapping)
replace(block_around, _block_around)
replace(first_lane, lambda mask: low_bit(mask))
replace(without_first, lambda mask: mask & (mask - 1))
replace(lane, lambda n: 1 << n)
replace(first_lanes, lambda n: -1 if n >= 64 else (1 << n) - 1)
replace(lanes_behind, lambda n: -1 << n)
