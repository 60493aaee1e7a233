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
            total = builder.load(total_at, align=8)
            if how == "add":
                total = builder.fadd(total, builder.select(met, weight, constant(0.0)))
            else:
                if how == "bound":
                    met = builder.and_(met, builder.fcmp_ordered(">", weight, constant(1.0)))
                total = builder.fmul(total, builder.select(met, weight, constant(1.0)))
            builder.store(total, total_at, align=8)
        return context.get_dummy_value()

    return codegen


@primitive
def _add(typing: Any, lo: Any, hi: Any, w: Any, at: Any, a: Any, b: Any, total: Any, top: Any, i: Any) -> Any:
    return types.void(lo, hi, w, types.int64, types.float64, types.float64, total, top, types.int64), _codegen("add")


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


def _met(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, top: Any, i: int) -> tuple[Any, Any]:
    mine = slice(at, at + LANES)
    met = (lo[mine] <= b) & (hi[mine] >= a)
    seen = top[i : i + LANES]
    np.copyto(seen, w[mine], where=met & (w[mine] > seen))
    return met, w[mine]


def raise_lanes(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> None:
    """top[i + z] = max(top[i + z], w[at + z]) for the z < 16 with lo[at + z] <= b and hi[at + z] >= a."""
    _met(lo, hi, w, at, a, b, top, i)


def add_lanes(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> None:
    """As `raise_lanes`, and total[i + z] += w[at + z] for the same z."""
    met, weight = _met(lo, hi, w, at, a, b, top, i)
    total[i : i + LANES] += np.where(met, weight, 0.0)


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


@overload(add_lanes, **INLINED)
def _compiled_add(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> Any:
    return lambda lo, hi, w, at, a, b, total, top, i: _add(lo, hi, w, at, a, b, total, top, i)


@overload(multiply_lanes, **INLINED)
def _compiled_multiply(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> Any:
    return lambda lo, hi, w, at, a, b, total, top, i: _multiply(lo, hi, w, at, a, b, total, top, i)


@overload(bound_lanes, **INLINED)
def _compiled_bound(lo: Any, hi: Any, w: Any, at: int, a: float, b: float, total: Any, top: Any, i: int) -> Any:
    return lambda lo, hi, w, at, a, b, total, top, i: _bound(lo, hi, w, at, a, b, total, top, i)
