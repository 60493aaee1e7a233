"""Sixteen boxes at once: combine the weights of those that an event meets in one dimension into their totals.

As in `indexes/compiled/simd.py`, each primitive is a few vector instructions when compiled, and the function written
here uncompiled. Each takes nine arguments, three columns and two results with a place in them, and becomes part of its
caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.simd import INLINED, LANES, address_of, load, primitive, splat

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core import cgutils  # isort: skip
from numba.extending import overload  # isort: skip


def _codegen(how: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.DoubleType(), LANES)

        def constant(value: float) -> Any:
            return ir.Constant(kind, [value] * LANES)

        lo, hi, weight = (load(context, builder, signature.args[i], args[i], args[3]) for i in range(3))
        begun = builder.fcmp_ordered("<=", lo, splat(builder, kind, args[5]))
        met = builder.and_(begun, builder.fcmp_ordered(">=", hi, splat(builder, kind, args[4])))
        total_at, top_at = (address_of(context, builder, signature.args[i], args[i], args[8], LANES) for i in (6, 7))
        top = builder.load(top_at, align=8)
        higher = builder.and_(met, builder.fcmp_ordered(">", weight, top))
        builder.store(builder.select(higher, weight, top), top_at, align=8)
        if how != "max":
            if how == "bound":
                met = builder.and_(met, builder.fcmp_ordered(">", weight, constant(1.0)))
            total = builder.load(total_at, align=8)
            builder.store(builder.fmul(total, builder.select(met, weight, constant(1.0))), total_at, align=8)
        return context.get_dummy_value()

    return codegen


@primitive
def _multiply(typing: Any, lo: Any, hi: Any, w: Any, at: Any, a: Any, b: Any, total: Any, top: Any, i: Any) -> Any:
    kinds = (lo, hi, w, types.int64, types.float64, types.float64, total, top, types.int64)
    return types.void(*kinds), _codegen("multiply")


@primitive
def _bound(typing: Any, lo: Any, hi: Any, w: Any, at: Any, a: Any, b: Any, total: Any, top: Any, i: Any) -> Any:
    kinds = (lo, hi, w, types.int64, types.float64, types.float64, total, top, types.int64)
    return types.void(*kinds), _codegen("bound")


@primitive
def _raise(typing: Any, lo: Any, hi: Any, w: Any, at: Any, a: Any, b: Any, total: Any, top: Any, i: Any) -> Any:
    kinds = (lo, hi, w, types.int64, types.float64, types.float64, total, top, types.int64)
    return types.void(*kinds), _codegen("max")


@primitive
def _sum(
    typing: Any,
    lo: Any,
    hi: Any,
    w: Any,
    stride: Any,
    at: Any,
    events: Any,
    event: Any,
    dimensions: Any,
    out: Any,
    i: Any,
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.DoubleType(), LANES)
        flags = ir.VectorType(ir.IntType(1), LANES)
        # By lane: the sum, and whether the event meets it in any dimension.
        total, some = cgutils.alloca_once(builder, kind), cgutils.alloca_once(builder, flags)
        builder.store(ir.Constant(kind, [0.0] * LANES), total)
        builder.store(ir.Constant(flags, [0] * LANES), some)
        pairs = context.make_array(signature.args[5])(context, builder, value=args[5])
        width = builder.extract_value(pairs.shape, 1)
        begin = builder.mul(args[6], width)
        with cgutils.for_range(builder, args[7]) as loop:
            base = builder.add(args[4], builder.mul(args[3], loop.index))
            first, second, weight = (load(context, builder, signature.args[k], args[k], base) for k in range(3))
            pair = builder.add(begin, builder.shl(loop.index, ir.Constant(loop.index.type, 1)))
            a, b = (
                splat(
                    builder, kind, builder.load(builder.gep(pairs.data, [builder.add(pair, ir.Constant(pair.type, k))]))
                )
                for k in (0, 1)
            )
            met = builder.and_(builder.fcmp_ordered("<=", first, b), builder.fcmp_ordered(">=", second, a))
            added = builder.select(met, weight, ir.Constant(kind, [0.0] * LANES))
            builder.store(builder.fadd(builder.load(total), added), total)
            builder.store(builder.or_(builder.load(some), met), some)
        none = ir.Constant(kind, [-1.0] * LANES)
        target = address_of(context, builder, signature.args[8], args[8], args[9], LANES)
        builder.store(builder.select(builder.load(some), builder.load(total), none), target, align=8)
        return context.get_dummy_value()

    number = types.int64
    return types.void(lo, hi, w, number, number, events, number, number, out, number), codegen


def _met(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, top: Any, i: int) -> tuple[Any, Any]:
    mine = slice(at, at + LANES)
    met = (lo[mine] <= b) & (hi[mine] >= a)
    seen = top[i : i + LANES]
    np.copyto(seen, w[mine], where=met & (w[mine] > seen))
    return met, w[mine]


def raise_lanes(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> None:
    """top[i + z] = max(top[i + z], w[at + z]) for the z < 16 with lo[at + z] <= b and hi[at + z] >= a."""
    _met(lo, hi, w, at, a, b, top, i)


def sum_lanes(
    lo: Any, hi: Any, w: Any, stride: int, at: int, events: Any, event: int, dimensions: int, out: Any, i: int
) -> None:
    """out[i + z] = the sum over dimensions j, from the first on, of the w[j * stride + at + z] where the pair a, b of
    event and j has lo[j * stride + at + z] <= b and hi[j * stride + at + z] >= a, z < 16; -1 where there is none.
    `events` is contiguous."""
    total, some = np.zeros(LANES), np.zeros(LANES, np.bool_)
    for j in range(dimensions):
        mine = slice(j * stride + at, j * stride + at + LANES)
        met = (lo[mine] <= events[event, 2 * j + 1]) & (hi[mine] >= events[event, 2 * j])
        total += np.where(met, w[mine], 0.0)
        some |= met
    out[i : i + LANES] = np.where(some, total, -1.0)


def multiply_lanes(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> None:
    """As `raise_lanes`, and total[i + z] *= w[at + z] for the same z."""
    met, weight = _met(lo, hi, w, at, a, b, top, i)
    total[i : i + LANES] *= np.where(met, weight, 1.0)


def bound_lanes(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> None:
    """As `multiply_lanes`, but by weights above 1 only."""
    met, weight = _met(lo, hi, w, at, a, b, top, i)
    total[i : i + LANES] *= np.where(met & (weight > 1.0), weight, 1.0)


@overload(raise_lanes, **INLINED)
def _compiled_raise(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> Any:
    return lambda lo, hi, w, at, a, b, total, top, i: _raise(lo, hi, w, at, a, b, total, top, i)


@overload(sum_lanes, **INLINED)
def _compiled_sum(
    lo: Any, hi: Any, w: Any, stride: int, at: int, events: Any, event: int, dimensions: int, out: Any, i: int
) -> Any:
    return lambda lo, hi, w, stride, at, events, event, dimensions, out, i: _sum(
        lo, hi, w, stride, at, events, event, dimensions, out, i
    )


@overload(multiply_lanes, **INLINED)
def _compiled_multiply(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> Any:
    return lambda lo, hi, w, at, a, b, total, top, i: _multiply(lo, hi, w, at, a, b, total, top, i)


@overload(bound_lanes, **INLINED)
def _compiled_bound(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> Any:
    return lambda lo, hi, w, at, a, b, total, top, i: _bound(lo, hi, w, at, a, b, total, top, i)
