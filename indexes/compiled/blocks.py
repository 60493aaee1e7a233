"""Blocks of sixteen lanes that are written: copied from another column, or filled with a value.

As those of `indexes.compiled.simd`, each primitive is a few vector instructions when compiled, and uncompiled what is
written here.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import LANES, load, primitive, replace, splat, store

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip


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


def copy_lanes(into: Any, at: int, source: Any, base: int) -> None:
    """Copy source[base : base + 16] to into[at : at + 16], of another column of the same type."""
    into[at : at + LANES] = source[base : base + LANES]


def fill_lanes(into: Any, at: int, value: float) -> None:
    """Write a value to into[at : at + 16]."""
    into[at : at + LANES] = value


replace(copy_lanes, _lanes_copied)
replace(fill_lanes, _lanes_filled)
