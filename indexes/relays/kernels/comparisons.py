"""Comparisons of rows of coarse coordinates, rows of codes and lines of bits: several numbers at once.

As in `indexes/compiled/simd.py`, each primitive is a few vector instructions when compiled, and the function written
here uncompiled.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import INLINED, address_of, load, primitive

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.extending import overload  # isort: skip

ROW = 16
"""Coordinates of a point are read so many at once; a row of a table has a multiple of it, filled up with zeros."""

CODES = 8
"""Numbers of 16 bits that are compared at once."""

LINE = 8
"""Words of 64 bits in a line of the cache."""


@primitive
def _row_reaches(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mine = load(context, builder, signature.args[0], args[0], args[1], ROW)
        theirs = load(context, builder, signature.args[2], args[2], args[3], ROW)
        return _all(builder, builder.fcmp_ordered(">=", mine, theirs), ROW)

    return types.boolean(a, types.int64, b, types.int64), codegen


def _all(builder: Any, met: Any, lanes: int) -> Any:
    mask = builder.bitcast(met, ir.IntType(lanes))
    return builder.icmp_unsigned("==", mask, ir.Constant(mask.type, (1 << lanes) - 1))


def _codes_compared(order: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        columns = zip(signature.args[::2], args[::2], args[1::2], strict=True)
        rows = [load(context, builder, of, array, at, CODES) for of, array, at in columns]
        return _all(builder, builder.icmp_unsigned(order, *rows), CODES)

    return codegen


@primitive
def _codes_reach(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    return types.boolean(a, types.int64, b, types.int64), _codes_compared(">=")


@primitive
def _codes_exceed(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    return types.boolean(a, types.int64, b, types.int64), _codes_compared(">")


def _joined(join: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = ir.Constant(ir.IntType(64), 0)
        at = address_of(context, builder, signature.args[0], args[0], start, LINE)
        ours = builder.load(at, align=8)
        theirs = load(context, builder, signature.args[1], args[1], args[2], LINE)
        joined = getattr(builder, join)(ours, theirs)
        builder.store(joined, at, align=8)
        some = builder.icmp_signed("!=", joined, ir.Constant(joined.type, [0] * LINE))
        return builder.icmp_unsigned("!=", builder.bitcast(some, ir.IntType(LINE)), ir.Constant(ir.IntType(LINE), 0))

    return codegen


@primitive
def _line_and(typing: Any, line: Any, bits: Any, base: Any) -> Any:
    return types.boolean(line, bits, types.int64), _joined("and_")


@primitive
def _line_or(typing: Any, line: Any, bits: Any, base: Any) -> Any:
    return types.boolean(line, bits, types.int64), _joined("or_")


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


@overload(row_reaches, **INLINED)
def _compiled_row_reaches(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _row_reaches(a, base, b, other)


@overload(codes_reach, **INLINED)
def _compiled_codes_reach(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _codes_reach(a, base, b, other)


@overload(codes_exceed, **INLINED)
def _compiled_codes_exceed(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _codes_exceed(a, base, b, other)


@overload(line_and, **INLINED)
def _compiled_line_and(line: Any, bits: Any, base: int) -> Any:
    return lambda line, bits, base: _line_and(line, bits, base)


@overload(line_or, **INLINED)
def _compiled_line_or(line: Any, bits: Any, base: int) -> Any:
    return lambda line, bits, base: _line_or(line, bits, base)
