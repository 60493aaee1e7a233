"""Comparisons of rows of coarse coordinates, and of blocks of codes: several numbers at once.

As in `indexes/compiled/simd.py`, each primitive is a few vector instructions when compiled, and the function written
here uncompiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.masks import packed
from indexes.compiled.simd import INLINED, LANES, address_of, load, mask_of, primitive, replace, splat
from indexes.compiled.targets import has

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core import cgutils  # isort: skip
from numba.extending import overload  # isort: skip

COMPRESSES = has("avx512f")
PACKS = COMPRESSES or has("avx2")
"""Whether lanes are packed by instructions for it. Elsewhere it is faster to go from lane to lane."""

ROW = 16
"""Coordinates of a point are read so many at once; a row of a table has a multiple of it, filled up with zeros."""

RAISED = 8 if has("avx") and not COMPRESSES else ROW
"""Coordinates that are raised by one instruction. As a selection of what is stored, x86 without masks as registers has
a store under a mask of it, which is slow on some processors."""

CODES = 8
"""Codes of 16 bits that are read at once."""

BIAS = 128
"""What is taken off numbers from 0 to 255, since bytes are compared as signed ones."""

BLOCK = 64
"""Numbers of a column of bytes that are compared at once."""


@primitive
def _row_reaches(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mine = load(context, builder, signature.args[0], args[0], args[1], ROW)
        theirs = load(context, builder, signature.args[2], args[2], args[3], ROW)
        return _all(builder, builder.fcmp_ordered(">=", mine, theirs), ROW)

    return types.boolean(a, types.int64, b, types.int64), codegen


@primitive
def _row_raise(typing: Any, a: Any, base: Any, b: Any, other: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for part in range(0, ROW, RAISED):
            begin, other = (builder.add(base, ir.Constant(base.type, part)) for base in (args[1], args[3]))
            at = address_of(context, builder, signature.args[0], args[0], begin, RAISED)
            mine = builder.load(at, align=4)
            theirs = load(context, builder, signature.args[2], args[2], other, RAISED)
            builder.store(_greater(builder, theirs, mine), at, align=4)
        return context.get_dummy_value()

    return types.void(a, types.int64, b, types.int64), codegen


def _greater(builder: Any, one: Any, other: Any) -> Any:
    """By lane, the greater number, and the other one where they are equal."""
    if RAISED == ROW:
        return builder.select(builder.fcmp_ordered(">", one, other), one, other)
    kind = ir.FunctionType(one.type, [one.type, one.type])
    return builder.call(builder.module.declare_intrinsic("llvm.x86.avx.max.ps.256", (), kind), [one, other])


@primitive
def _row_codes(typing: Any, a: Any, base: Any, low: Any, steps: Any, other: Any, out: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = load(context, builder, signature.args[0], args[0], args[1], ROW)
        least, by_unit = (load(context, builder, signature.args[k], args[k], args[4], ROW) for k in (2, 3))
        step = builder.fmul(builder.fsub(row, least), by_unit)
        for order, bound in ((">", 0.0), ("<", 255.0)):
            limit = ir.Constant(step.type, [bound] * ROW)
            step = builder.select(builder.fcmp_ordered(order, step, limit), step, limit)
        wide, kind = (ir.VectorType(ir.IntType(bits), ROW) for bits in (32, 8))
        codes = builder.xor(builder.trunc(builder.fptosi(step, wide), kind), ir.Constant(kind, [BIAS] * ROW))
        zero = ir.Constant(ir.IntType(64), 0)
        builder.store(codes, address_of(context, builder, signature.args[5], args[5], zero, ROW), align=1)
        return context.get_dummy_value()

    return types.void(a, types.int64, low, steps, types.int64, out), codegen


def _all(builder: Any, met: Any, lanes: int) -> Any:
    mask = builder.bitcast(met, ir.IntType(lanes))
    return builder.icmp_unsigned("==", mask, ir.Constant(mask.type, (1 << lanes) - 1))


@primitive
def _code_steps(typing: Any, a: Any, base: Any, low: Any, scale: Any, other: Any, out: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = load(context, builder, signature.args[0], args[0], args[1], CODES)
        least, by = (load(context, builder, signature.args[k], args[k], args[4], CODES) for k in (2, 3))
        wide, kind = ir.VectorType(ir.IntType(32), CODES), row.type
        product = builder.mul(*(builder.zext(x, wide) for x in (builder.sub(row, least), by)))
        step = builder.trunc(builder.lshr(product, ir.Constant(wide, [16] * CODES)), kind)
        step = builder.add(step, ir.Constant(kind, [1] * CODES))
        step = builder.call(_saturating(builder, "umin", kind), [step, ir.Constant(kind, [255] * CODES)])
        step = builder.select(builder.icmp_unsigned(">=", row, least), step, ir.Constant(kind, [0] * CODES))
        narrow = ir.VectorType(ir.IntType(8), CODES)
        steps = builder.xor(builder.trunc(step, narrow), ir.Constant(narrow, [BIAS] * CODES))
        builder.store(steps, address_of(context, builder, signature.args[5], args[5], args[6], CODES), align=1)
        return context.get_dummy_value()

    return types.void(a, types.int64, low, scale, types.int64, out, types.int64), codegen


def _saturating(builder: Any, name: str, kind: Any) -> Any:
    """A binary instruction on vectors of this type."""
    count = f"v{kind.count}i{kind.element.width}"
    return builder.module.declare_intrinsic(f"llvm.{name}.{count}", (), ir.FunctionType(kind, [kind, kind]))


@primitive
def _block_holds(typing: Any, a: Any, base: Any, point: Any, at: Any, columns: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(8), BLOCK)
        # By lane: how far the column that is nearest to its number is below it, or above where that is negative. A
        # difference that is cut off keeps its sign.
        none = ir.Constant(kind, [0] * BLOCK)
        lack = cgutils.alloca_once(builder, kind)
        builder.store(ir.Constant(kind, [-BIAS] * BLOCK), lack)
        less, most = _saturating(builder, "ssub.sat", kind), _saturating(builder, "smax", kind)
        numbers = context.make_array(signature.args[2])(context, builder, value=args[2]).data
        with cgutils.for_range(builder, args[4]) as loop:
            begin = builder.add(args[1], builder.mul(loop.index, ir.Constant(loop.index.type, BLOCK)))
            column = load(context, builder, signature.args[0], args[0], begin, BLOCK)
            bound = splat(builder, kind, builder.load(builder.gep(numbers, [builder.add(args[3], loop.index)])))
            builder.store(builder.call(most, [builder.load(lack), builder.call(less, [bound, column])]), lack)
        found = builder.load(lack)
        reach, exceed = (mask_of(builder, builder.icmp_signed(order, found, none)) for order in ("<=", "<"))
        return context.make_tuple(builder, signature.return_type, (reach, exceed))

    return types.UniTuple(types.int64, 2)(a, types.int64, point, types.int64, types.int64), codegen


def _shuffled(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Pack eight lanes at a time by a table of their order for each mask."""
    word, byte, eight = ir.IntType(64), ir.IntType(8), ir.VectorType(ir.IntType(32), 8)
    orders = ir.ArrayType(word, 256)
    table = cgutils.global_constant(
        builder.module, "rankcast.orders", ir.Constant(orders, [ir.Constant(word, _order(mask)) for mask in range(256)])
    )
    permute = builder.module.declare_intrinsic("llvm.x86.avx2.permd", (), ir.FunctionType(eight, [eight, eight]))
    target, zero = args[4], ir.Constant(word, 0)
    for part in range(0, BLOCK, 8):
        begin = builder.add(args[1], ir.Constant(word, part))
        block = load(context, builder, signature.args[0], args[0], begin, 8)
        lanes = builder.and_(builder.lshr(args[2], ir.Constant(word, part)), ir.Constant(word, 255))
        order = builder.load(builder.gep(table, [zero, lanes]))
        wide = builder.zext(builder.bitcast(order, ir.VectorType(byte, 8)), eight)
        at = address_of(context, builder, signature.args[3], args[3], target, 8)
        builder.store(builder.call(permute, [block, wide]), at, align=4)
        target = builder.add(target, builder.ctpop(lanes))
    return context.get_dummy_value()


def _order(mask: int) -> int:
    """The lanes of a mask of eight, from the first on, a byte each."""
    lanes = [lane for lane in range(8) if mask >> lane & 1]
    return sum(lane << 8 * i for i, lane in enumerate(lanes))


@primitive
def _block_pack(typing: Any, a: Any, base: Any, mask: Any, out: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if PACKS and not COMPRESSES:
            return _shuffled(context, builder, signature, args)
        target, word = args[4], ir.IntType(64)
        # To a register and then to memory: compressing into memory is microcode on some processors.
        for part in range(0, BLOCK, LANES):
            begin = builder.add(args[1], ir.Constant(word, part))
            block = load(context, builder, signature.args[0], args[0], begin, LANES)
            lanes = builder.trunc(builder.lshr(args[2], ir.Constant(word, part)), ir.IntType(LANES))
            chosen = ir.VectorType(ir.IntType(1), LANES)
            kind = ir.FunctionType(block.type, [block.type, chosen, block.type])
            compress = builder.module.declare_intrinsic(f"llvm.experimental.vector.compress.v{LANES}i32", (), kind)
            found = builder.call(
                compress, [block, builder.bitcast(lanes, chosen), ir.Constant(block.type, ir.Undefined)]
            )
            builder.store(found, address_of(context, builder, signature.args[3], args[3], target, LANES), align=4)
            target = builder.add(target, builder.zext(builder.ctpop(lanes), word))
        return context.get_dummy_value()

    return types.void(a, types.int64, types.int64, out, types.int64), codegen


def row_reaches(a: Any, base: int, b: Any, other: int) -> bool:
    """Whether a[base + j] >= b[other + j] for all j < 16."""
    return bool((a[base : base + ROW] >= b[other : other + ROW]).all())


def row_raise(a: Any, base: int, b: Any, other: int) -> None:
    """Raise a[base + j] to b[other + j], where that is greater, for all j < 16, of columns of float32."""
    a[base : base + ROW] = np.maximum(a[base : base + ROW], b[other : other + ROW])


def row_codes(a: Any, base: int, low: Any, steps: Any, other: int, out: Any) -> None:
    """Write (a[base + j] - low[other + j]) * steps[other + j] for j < 16 to out[:16], of int8, cut off at 0 and 255,
    rounded down, and less 128. None of it is NaN."""
    with np.errstate(over="ignore"):
        step = (a[base : base + ROW] - low[other : other + ROW]) * steps[other : other + ROW]
    out[:ROW] = np.clip(step, 0, 255).astype(np.int64) - BIAS


def code_steps(a: Any, base: int, low: Any, scale: Any, other: int, out: Any, at: int) -> None:
    """Write the steps of the codes a[base + j] for j < 8, of uint16, to out[at:], of int8: 1 from low[other + j] on,
    and one more for every 2^16 / scale[other + j] codes, up to 255; 0 below; all of it less 128."""
    code, least = (column[first : first + CODES].astype(np.int64) for column, first in ((a, base), (low, other)))
    step = np.minimum(1 + ((code - least) * scale[other : other + CODES] >> 16), 255)
    out[at : at + CODES] = np.where(code >= least, step, 0) - BIAS


def block_holds(a: Any, base: int, point: Any, at: int, columns: int) -> tuple[int, int]:
    """The masks of the lanes i < 64 of so many columns of int8, one after the other from `base` on, in which all are
    at least the numbers point[at:] of their column, and in which all are greater. `point` is contiguous."""
    block = a[base : base + columns * BLOCK].reshape(columns, BLOCK)
    bound = point.reshape(-1)[at : at + columns, None]
    return packed((block >= bound).all(axis=0)), packed((block > bound).all(axis=0))


def block_pack(a: Any, base: int, mask: int, out: Any, at: int) -> None:
    """Copy the lanes of a[base : base + 64] in the mask to out[at:], one after the other, both of int32; what lies
    behind them up to out[at + 64] is left undefined."""
    chosen = [a[base + lane] for lane in range(BLOCK) if int(mask) >> lane & 1]
    out[at : at + len(chosen)] = chosen


@overload(row_reaches, **INLINED)
def _compiled_row_reaches(a: Any, base: int, b: Any, other: int) -> Any:
    return lambda a, base, b, other: _row_reaches(a, base, b, other)


replace(row_raise, _row_raise)
replace(row_codes, _row_codes)
replace(code_steps, _code_steps)
replace(block_holds, _block_holds)
replace(block_pack, _block_pack)
