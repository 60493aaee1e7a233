"""Lanes of float32: which of 64 points reach a coordinate, as the bits of one integer, and whether one point reaches
another in every coordinate.

A mask is a signed integer of 64 bits. Compiled, each primitive is a few vector instructions; uncompiled
(``NUMBA_DISABLE_JIT=1``) it is the function written here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.jit import kernel  # noqa: F401  (sets the cache folder before numba is imported)
from indexes.lanes import low_bit

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.extending import intrinsic, overload  # isort: skip

BLOCK = 64
"""Points in a block, a column of which is read at once."""

ROW = 16
"""Coordinates of a point are read so many at once; a row of a table has a multiple of it, filled up with zeros."""

CODES = 8
"""Numbers of 16 bits that are compared at once."""

LINE = 8
"""Words of 64 bits in a line of the cache."""

_intrinsic: Any = intrinsic
_PASTED: dict[str, Any] = {"jit_options": {"nogil": True, "forceinline": True}, "strict": False}


def _load(context: Any, builder: Any, array_type: Any, array: Any, base: Any, lanes: int) -> Any:
    data = context.make_array(array_type)(context, builder, value=array).data
    kind = ir.VectorType(ir.FloatType(), lanes)
    return builder.load(builder.bitcast(builder.gep(data, [base]), kind.as_pointer()), align=4)


def _compared(order: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _load(context, builder, signature.args[0], args[0], args[1], BLOCK)
        undefined = ir.Constant(block.type, ir.Undefined)
        one = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        nowhere = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)
        every = builder.shuffle_vector(one, undefined, nowhere)
        return builder.bitcast(builder.fcmp_ordered(order, block, every), ir.IntType(64))

    return codegen


@_intrinsic
def _lanes_from(typing: Any, a: Any, base: Any, q: Any) -> Any:
    return types.int64(a, types.int64, types.float32), _compared(">=")


@_intrinsic
def _lanes_above(typing: Any, a: Any, base: Any, q: Any) -> Any:
    return types.int64(a, types.int64, types.float32), _compared(">")


@_intrinsic
def _row_reaches(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mine = _load(context, builder, signature.args[0], args[0], args[1], ROW)
        theirs = _load(context, builder, signature.args[2], args[2], args[3], ROW)
        return _all(builder, builder.fcmp_ordered(">=", mine, theirs), ROW)

    return types.boolean(a, types.int64, b, types.int64), codegen


def _all(builder: Any, met: Any, lanes: int) -> Any:
    mask = builder.bitcast(met, ir.IntType(lanes))
    return builder.icmp_unsigned("==", mask, ir.Constant(mask.type, (1 << lanes) - 1))


def _codes_compared(order: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(16), CODES)
        rows = []
        for of, array, at in zip(signature.args[::2], args[::2], args[1::2], strict=True):
            data = context.make_array(of)(context, builder, value=array).data
            rows.append(builder.load(builder.bitcast(builder.gep(data, [at]), kind.as_pointer()), align=2))
        return _all(builder, builder.icmp_unsigned(order, *rows), CODES)

    return codegen


@_intrinsic
def _codes_reach(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    return types.boolean(a, types.int64, b, types.int64), _codes_compared(">=")


@_intrinsic
def _codes_exceed(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    return types.boolean(a, types.int64, b, types.int64), _codes_compared(">")


def _line(context: Any, builder: Any, array_type: Any, array: Any, base: Any) -> tuple[Any, Any]:
    """Where the line of words begins, and the line."""
    data = context.make_array(array_type)(context, builder, value=array).data
    at = builder.bitcast(builder.gep(data, [base]), ir.VectorType(ir.IntType(64), LINE).as_pointer())
    return at, builder.load(at, align=8)


def _joined(join: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = ir.Constant(ir.IntType(64), 0)
        at, ours = _line(context, builder, signature.args[0], args[0], start)
        _, theirs = _line(context, builder, signature.args[1], args[1], args[2])
        joined = getattr(builder, join)(ours, theirs)
        builder.store(joined, at, align=8)
        some = builder.icmp_signed("!=", joined, ir.Constant(joined.type, [0] * LINE))
        return builder.icmp_unsigned("!=", builder.bitcast(some, ir.IntType(LINE)), ir.Constant(ir.IntType(LINE), 0))

    return codegen


@_intrinsic
def _line_and(typing: Any, line: Any, bits: Any, base: Any) -> Any:
    return types.boolean(line, bits, types.int64), _joined("and_")


@_intrinsic
def _line_or(typing: Any, line: Any, bits: Any, base: Any) -> Any:
    return types.boolean(line, bits, types.int64), _joined("or_")


def _signed(mask: int) -> int:
    mask = int(mask) & (1 << 64) - 1
    return mask - (1 << 64) if mask >> 63 else mask


def _packed(met: Any) -> int:
    return _signed(int.from_bytes(np.packbits(met, bitorder="little").tobytes(), "little"))


def lanes_from(a: Any, base: int, q: float) -> int:
    """The mask of the lanes i < 64 with a[base + i] >= q."""
    return _packed(a[base : base + BLOCK] >= q)


def lanes_above(a: Any, base: int, q: float) -> int:
    """The mask of the lanes i < 64 with a[base + i] > q."""
    return _packed(a[base : base + BLOCK] > q)


def row_reaches(a: Any, base: int, b: Any, other: int) -> bool:
    """Whether a[base + j] >= b[other + j] for all j < 16."""
    return bool((a[base : base + ROW] >= b[other : other + ROW]).all())


def codes_reach(a: Any, base: int, b: Any, other: int) -> bool:
    """Whether a[base + j] >= b[other + j] for all j < 8, of columns of uint16."""
    return bool((a[base : base + CODES] >= b[other : other + CODES]).all())


def codes_exceed(a: Any, base: int, b: Any, other: int) -> bool:
    """Whether a[base + j] > b[other + j] for all j < 8, of columns of uint16."""
    return bool((a[base : base + CODES] > b[other : other + CODES]).all())


def line_and(line: Any, bits: Any, base: int) -> bool:
    """Keep of line[:8] the bits that bits[base : base + 8] has too; returns whether there are any."""
    line[:LINE] &= bits[base : base + LINE]
    return bool(line[:LINE].any())


def line_or(line: Any, bits: Any, base: int) -> bool:
    """Add to line[:8] the bits of bits[base : base + 8]; returns whether there are any."""
    line[:LINE] |= bits[base : base + LINE]
    return bool(line[:LINE].any())


def first_lane(mask: int) -> int:
    """The number of the lowest lane; the mask is not 0."""
    return low_bit(int(mask) & (1 << 64) - 1)


def without_first(mask: int) -> int:
    """The mask without its lowest lane; it is not 0."""
    return _signed(int(mask) & (int(mask) - 1))


def first_lanes(n: int) -> int:
    """The mask of the lanes below n, which is at least 0; all of them from n = 64 on."""
    return -1 if n >= BLOCK else (1 << int(n)) - 1


@overload(lanes_from, **_PASTED)
def _compiled_lanes_from(a: Any, base: int, q: float) -> Any:
    return lambda a, base, q: _lanes_from(a, base, q)


@overload(lanes_above, **_PASTED)
def _compiled_lanes_above(a: Any, base: int, q: float) -> Any:
    return lambda a, base, q: _lanes_above(a, base, q)


@overload(row_reaches, **_PASTED)
def _compiled_row_reaches(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _row_reaches(a, base, b, other)


@overload(codes_reach, **_PASTED)
def _compiled_codes_reach(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _codes_reach(a, base, b, other)


@overload(codes_exceed, **_PASTED)
def _compiled_codes_exceed(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _codes_exceed(a, base, b, other)


@overload(line_and, **_PASTED)
def _compiled_line_and(line: Any, bits: Any, base: int) -> Any:
    return lambda line, bits, base: _line_and(line, bits, base)


@overload(line_or, **_PASTED)
def _compiled_line_or(line: Any, bits: Any, base: int) -> Any:
    return lambda line, bits, base: _line_or(line, bits, base)


@overload(first_lane, **_PASTED)
def _compiled_first_lane(mask: int) -> Any:
    return lambda mask: low_bit(mask)


@overload(without_first, **_PASTED)
def _compiled_without_first(mask: int) -> Any:
    return lambda mask: mask & (mask - 1)


@overload(first_lanes, **_PASTED)
def _compiled_first_lanes(n: int) -> Any:
    return lambda n: -1 if n >= 64 else (1 << n) - 1
