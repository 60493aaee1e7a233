"""Neighbours of floats in a few instructions: compiled, `numpy.nextafter` is a call of the C library."""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.simd import primitive, replace

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip


@primitive
def _below(typing: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, real = ir.IntType(64), ir.DoubleType()
        bits = builder.bitcast(args[0], wide)
        # The bits of a float without its sign count up with its distance from zero.
        step = builder.select(
            builder.fcmp_ordered(">", args[0], ir.Constant(real, 0.0)), ir.Constant(wide, -1), ir.Constant(wide, 1)
        )
        step = builder.select(
            builder.fcmp_ordered("==", args[0], ir.Constant(real, float("-inf"))), ir.Constant(wide, 0), step
        )
        found = builder.bitcast(builder.add(bits, step), real)
        zero = builder.fcmp_ordered("==", args[0], ir.Constant(real, 0.0))
        return builder.select(zero, ir.Constant(real, -5e-324), found)

    return types.float64(types.float64), codegen


def below(value: float) -> float:
    """The greatest float below one that is not NaN; -inf for -inf."""
    return float(np.nextafter(value, -np.inf))


def above(value: float) -> float:
    """The least float above one that is not NaN; inf for inf."""
    return float(np.nextafter(value, np.inf))


replace(below, _below)
replace(above, lambda value: -_below(-value))
