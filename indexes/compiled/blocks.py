"""Blocks of sixteen lanes that are written: copied from another column, or filled with a value.

As those of `indexes.compiled.simd`, each primitive is a few vector instructions when compiled, and uncompiled what is
written here.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled import targets
from indexes.compiled.simd import LANES, load, primitive, replace, splat, store

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core.cgutils import get_or_insert_function, global_constant  # isort: skip

FOUR, EIGHT = 4, 8
"""Numbers in a vector of AVX2, and in one of the widest registers."""

COMPRESSES = targets.has("avx512f")
PACKED = EIGHT if COMPRESSES else FOUR if targets.has("avx2") else 1
"""Numbers that are packed together."""


@primitive
def _lanes_copied(typing: Any, into: Any, at: Any, source: Any, base: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = load(context, builder, signature.args[2], args[2], args[3])
        store(context, builder, signature.args[0], args[0], args[1], block)
        return context.get_dummy_value()

    return types.void(into, types.int64, source, types.int64), codegen


@primitive
def _lanes_filled(typing: Any, into: Any, at: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(context.get_value_type(signature.args[0].dtype), LANES)
        store(context, builder, signature.args[0], args[0], args[1], splat(builder, kind, args[2]))
        return context.get_dummy_value()

    return types.void(into, types.int64, into.dtype), codegen


def _compressed(builder: Any, block: Any, mask: Any) -> Any:
    """The lanes of a vector that are in the mask, one behind the other, by an instruction of AVX-512."""
    chosen = ir.VectorType(ir.IntType(1), EIGHT)
    mask = builder.bitcast(builder.trunc(mask, ir.IntType(EIGHT)), chosen)
    kind = ir.FunctionType(block.type, [block.type, block.type, chosen])
    number = "f64" if block.type.element == ir.DoubleType() else "i64"
    compress = get_or_insert_function(builder.module, kind, f"llvm.x86.avx512.mask.compress.v{EIGHT}{number}")
    return builder.call(compress, [block, ir.Constant(block.type, None), mask])


def _shuffled(builder: Any, block: Any, mask: Any) -> Any:
    """The same by AVX2, from a table of the order of the halves of four lanes for each mask."""
    halves, word = ir.VectorType(ir.IntType(32), 2 * FOUR), ir.IntType(64)
    orders = ir.ArrayType(halves, 1 << FOUR)
    table = global_constant(
        builder.module, "rankcast.halves", ir.Constant(orders, [_order(halves, mask) for mask in range(1 << FOUR)])
    )
    order = builder.load(builder.gep(table, [ir.Constant(word, 0), mask]), align=4)
    permute = builder.module.declare_intrinsic("llvm.x86.avx2.permd", (), ir.FunctionType(halves, [halves, halves]))
    return builder.bitcast(builder.call(permute, [builder.bitcast(block, halves), order]), block.type)


def _order(kind: Any, mask: int) -> Any:
    """The halves of the lanes of a mask of four, from the first on."""
    halves = [2 * lane + half for lane in range(FOUR) if mask >> lane & 1 for half in range(2)]
    return ir.Constant(kind, halves + [0] * (2 * FOUR - len(halves)))


@primitive
def _lanes_packed(typing: Any, into: Any, at: Any, source: Any, base: Any, mask: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (into_type, _, source_type), whole, at = signature.args[:3], ir.IntType(64), args[1]
        # All are read before one is written: both columns may be the same.
        places = [builder.add(args[3], whole(lane)) for lane in range(0, LANES, PACKED)]
        blocks = [load(context, builder, source_type, args[2], place, PACKED) for place in places]
        for i, block in enumerate(blocks):
            own = builder.and_(builder.lshr(args[4], whole(i * PACKED)), whole((1 << PACKED) - 1))
            if PACKED > 1:
                block = _compressed(builder, block, own) if COMPRESSES else _shuffled(builder, block, own)
            store(context, builder, into_type, args[0], at, block)
            at = builder.add(at, builder.ctpop(own))
        return builder.sub(at, args[1])

    return types.int64(into, types.int64, source, types.int64, types.int64), codegen


def copy_lanes(into: Any, at: int, source: Any, base: int) -> None:
    """Copy source[base : base + 16] to into[at : at + 16], of another column of the same type."""
    into[at : at + LANES] = source[base : base + LANES]


def fill_lanes(into: Any, at: int, value: float) -> None:
    """Write a value to into[at : at + 16]."""
    into[at : at + LANES] = value


def pack_lanes(into: Any, at: int, source: Any, base: int, mask: int) -> int:
    """Copy the lanes of source[base : base + 16] that are in the mask, one behind the other, to into[at:], of a column
    of 64-bit numbers. What is behind them up to at + 16 may be anything then. Returns how many they are."""
    chosen = [source[base + j] for j in range(LANES) if mask >> j & 1]
    into[at : at + len(chosen)] = chosen
    return len(chosen)


replace(pack_lanes, _lanes_packed)
replace(copy_lanes, _lanes_copied)
replace(fill_lanes, _lanes_filled)
