"""Sixty-four lanes at once: which intervals of a block an event meets, as the bits of one integer.

A mask is a signed integer of 64 bits. Compiled, each primitive is a few vector instructions; uncompiled
(``NUMBA_DISABLE_JIT=1``) it is the function written here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.jit import kernel  # noqa: F401  (sets the cache folder before numba is imported)
from indexes.lanes import bit_count, low_bit

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.extending import intrinsic, overload  # isort: skip

__all__ = [
    "BLOCK",
    "SHIFT",
    "bit_count",
    "first_lane",
    "first_lanes",
    "lane",
    "lanes_behind",
    "overlapping",
    "without_first",
]

SHIFT = 6
BLOCK = 1 << SHIFT
"""Intervals in a block. A column that is read by blocks has room for one more behind its last number."""

_intrinsic: Any = intrinsic
_PASTED: dict[str, Any] = {"jit_options": {"nogil": True, "forceinline": True}, "strict": False}


@_intrinsic
def _overlapping(typing: Any, lo: Any, hi: Any, base: Any, a: Any, b: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.DoubleType(), BLOCK)
        undefined = ir.Constant(kind, ir.Undefined)
        nowhere = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)

        def load(column: int) -> Any:
            data = context.make_array(signature.args[column])(context, builder, value=args[column]).data
            return builder.load(builder.bitcast(builder.gep(data, [args[2]]), kind.as_pointer()), align=8)

        def every(value: Any) -> Any:
            one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, undefined, nowhere)

        begun = builder.fcmp_ordered("<=", load(0), every(args[4]))
        open_yet = builder.fcmp_ordered(">=", load(1), every(args[3]))
        return builder.bitcast(builder.and_(begun, open_yet), ir.IntType(64))

    return types.int64(lo, hi, types.int64, types.float64, types.float64), codegen


def _signed(mask: int) -> int:
    mask = int(mask) & (1 << 64) - 1
    return mask - (1 << 64) if mask >> 63 else mask


def overlapping(lo: Any, hi: Any, base: int, a: float, b: float) -> int:
    """The mask of the lanes i < 64 with lo[base + i] <= b and hi[base + i] >= a."""
    met = (lo[base : base + BLOCK] <= b) & (hi[base : base + BLOCK] >= a)
    return _signed(int.from_bytes(np.packbits(met, bitorder="little").tobytes(), "little"))


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


@overload(overlapping, **_PASTED)
def _compiled_overlapping(lo: Any, hi: Any, base: int, a: float, b: float) -> Any:
    return lambda lo, hi, base, a, b: _overlapping(lo, hi, base, a, b)


@overload(first_lane, **_PASTED)
def _compiled_first_lane(mask: int) -> Any:
    return lambda mask: low_bit(mask)


@overload(without_first, **_PASTED)
def _compiled_without_first(mask: int) -> Any:
    return lambda mask: mask & (mask - 1)


@overload(lane, **_PASTED)
def _compiled_lane(n: int) -> Any:
    return lambda n: 1 << n


@overload(first_lanes, **_PASTED)
def _compiled_first_lanes(n: int) -> Any:
    return lambda n: -1 if n >= 64 else (1 << n) - 1


@overload(lanes_behind, **_PASTED)
def _compiled_lanes_behind(n: int) -> Any:
    return lambda n: -1 << n
