"""Compiled expressions: programs in postfix order, run for one object, or over intervals for all objects of a node.

A step pushes a number, the distance or a static value on a stack, or replaces the top one or two numbers by a result.
Results are clamped to finite numbers, so steps are monotonic in their operands and nothing becomes infinite. What has
no value (a logarithm of a number that is not positive, a root of a negative number, a division by zero, a negative base
with a fractional exponent, zero with a negative one) is NaN, and so is the result of the program.

Over intervals a step gives the least and greatest possible result, and whether it has a value `SURELY`, `MAYBE` or
`NEVER`. They hold for computed numbers: sums, differences, products, quotients and roots are rounded monotonically;
powers, exponentials and logarithms, which almost are, are widened by `WIDER`.
"""

from __future__ import annotations

from math import exp, floor, log, sqrt
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints, int64
from indexes.maps.kernels.floats import float_inlined_kernel, float_internal, float_kernel

MOST = 1.7976931348623157e308
LEAST = 5e-324
GREATEST_EXPONENT = 709.782712893384
"""The argument at which the exponential function reaches about `MOST`."""

WIDER = 1e-15

(NUMBER, DISTANCE, STATIC, NEGATED_STATIC, NEGATE, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, MIN, MAX, SQRT, LOG, EXP) = (
    range(15)
)

SURELY, MAYBE, NEVER = range(3)

BINARY = frozenset({ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, MIN, MAX})


class Program(NamedTuple):
    """Steps, the operand of each (a number, or which static value), and room for a stack: low ends, high ends."""

    step: Ints
    operand: Floats
    stack: Floats  # (2, depth)


def program(steps: list[tuple[int, float]]) -> Program:
    """A program of (step, operand). O(steps)."""
    depth = deepest = 0
    for step, _ in steps:
        depth += 1 if step <= NEGATED_STATIC else -1 if step in BINARY else 0
        deepest = max(deepest, depth)
    return Program(
        np.array([step for step, _ in steps], np.int64),
        np.array([operand for _, operand in steps], np.float64),
        np.zeros((2, deepest)),
    )


@float_internal
def clamped(x: float) -> float:
    """x, or the finite number nearest to it; NaN stays."""
    y = x
    if x > MOST:
        y = MOST
    elif x < -MOST:
        y = -MOST
    return y


@float_kernel
def power(x: float, e: float) -> float:
    """x to the power of e."""
    if (x < 0.0 and e != floor(e)) or (x == 0.0 and e < 0.0):
        y = np.nan
    elif e == 0.0 or x == 1.0:
        y = 1.0
    elif x != 0.0 and e * log(abs(x)) > GREATEST_EXPONENT:
        y = -MOST if x < 0.0 and e % 2.0 == 1.0 else MOST
    else:
        y = x**e
    return y


@float_kernel
def exponential(x: float) -> float:
    """e to the power of x."""
    return MOST if x > GREATEST_EXPONENT else exp(x)


@float_inlined_kernel
def run(program: Program, far: float, statics: Floats, stride: int, i: int) -> float:
    """The value for object i at distance `far`, or NaN; static value j is statics[j * stride + i]. O(steps)."""
    step, operand, stack = program
    n = 0
    defined = True
    for at in range(step.size):
        op = step[at]
        if op <= NEGATED_STATIC:
            if op == NUMBER:
                x = operand[at]
            elif op == DISTANCE:
                x = clamped(far)
            else:
                x = statics[int64(operand[at]) * stride + i]
                x = clamped(x if op == STATIC else -x)
            stack[0, n] = x
            n += 1
        elif op == NEGATE:
            stack[0, n - 1] = -stack[0, n - 1]
        elif op >= SQRT:
            x = stack[0, n - 1]
            if op == EXP:
                x = exponential(x)
            elif x < 0.0 or (op == LOG and x == 0.0):
                x = 0.0
                defined = False
            else:
                x = sqrt(x) if op == SQRT else log(x)
            stack[0, n - 1] = x
        else:
            n -= 1
            x, y = stack[0, n - 1], stack[0, n]
            if op == ADD:
                x = clamped(x + y)
            elif op == SUBTRACT:
                x = clamped(x - y)
            elif op == MULTIPLY:
                x = clamped(x * y)
            elif op == MIN:
                x = min(x, y)
            elif op == MAX:
                x = max(x, y)
            elif op == DIVIDE and y == 0.0:
                x = 0.0
                defined = False
            elif op == DIVIDE:
                x = clamped(x / y)
            else:
                x = power(x, y)
                if x != x:
                    x = 0.0
                    defined = False
            stack[0, n - 1] = x
    return stack[0, 0] if defined else np.nan


@float_kernel
def wider(lo: float, hi: float) -> tuple[float, float]:
    """An interval with its ends moved out a little, on the same side of zero."""
    return clamped(lo - abs(lo) * WIDER), clamped(hi + abs(hi) * WIDER)


@float_kernel
def product_of(a0: float, a1: float, b0: float, b1: float) -> tuple[float, float]:
    """The interval of all products of two intervals."""
    p, q, r, s = clamped(a0 * b0), clamped(a0 * b1), clamped(a1 * b0), clamped(a1 * b1)
    return min(p, q, r, s), max(p, q, r, s)


@float_kernel
def quotient_of(a0: float, a1: float, b0: float, b1: float) -> tuple[float, float, int]:
    """The interval of all quotients, and whether there are any: by divisors below zero and by those above it."""
    lo, hi = MOST, -MOST
    for side in range(2):
        c0, c1 = (b0, min(b1, -LEAST)) if side == 0 else (max(b0, LEAST), b1)
        if c0 <= c1:
            p, q, r, s = clamped(a0 / c0), clamped(a0 / c1), clamped(a1 / c0), clamped(a1 / c1)
            lo, hi = min(lo, p, q, r, s), max(hi, p, q, r, s)
    if b0 == 0.0 and b1 == 0.0:
        sure = NEVER
    else:
        sure = MAYBE if b0 <= 0.0 and b1 >= 0.0 else SURELY
    return lo, hi, sure


@float_kernel
def power_of(a0: float, a1: float, e0: float, e1: float) -> tuple[float, float, int]:
    """The interval of all powers, and whether there are any. Above zero a power is monotonic in base and in
    exponent, so its extremes are at corners. A negative base has powers for whole exponents only."""
    lo, hi, sure = MOST, -MOST, SURELY
    if a1 > 0.0:
        b0 = max(a0, LEAST)
        p, q, r, s = power(b0, e0), power(b0, e1), power(a1, e0), power(a1, e1)
        lo, hi = min(p, q, r, s), max(p, q, r, s)
    if a0 <= 0.0 and a1 >= 0.0:
        if e1 > 0.0:
            lo, hi = min(lo, 0.0), max(hi, 0.0)
        if e0 <= 0.0 and e1 >= 0.0:
            lo, hi = min(lo, 1.0), max(hi, 1.0)
        if e0 < 0.0:
            sure = MAYBE
    if a0 < 0.0:
        b1 = min(a1, -LEAST)
        if e0 == e1 and e0 == floor(e0):
            p, q = power(a0, e0), power(b1, e0)
            lo, hi = min(lo, p, q), max(hi, p, q)
        else:
            sure = MAYBE
            if floor(e1) >= e0:
                p, q, r, s = power(-a0, e0), power(-a0, e1), power(-b1, e0), power(-b1, e1)
                most = max(p, q, r, s)
                lo, hi = min(lo, -most), max(hi, most)
    if lo > hi:
        sure = NEVER
    lo, hi = wider(lo, hi)
    return lo, hi, sure


@float_kernel
def root_of(a0: float, a1: float) -> tuple[float, float, int]:
    """The interval of all square roots, and whether there are any."""
    sure = SURELY if a0 >= 0.0 else MAYBE if a1 >= 0.0 else NEVER
    return sqrt(max(a0, 0.0)), sqrt(max(a1, 0.0)), sure


@float_kernel
def logarithm_of(a0: float, a1: float) -> tuple[float, float, int]:
    """The interval of all logarithms, and whether there are any."""
    sure = SURELY if a0 > 0.0 else MAYBE if a1 > 0.0 else NEVER
    lo, hi = wider(log(max(a0, LEAST)), log(max(a1, LEAST)))
    return lo, hi, sure


@float_inlined_kernel
def run_over(
    program: Program, near: float, far: float, lower: Floats, upper: Floats, stride: int, i: int
) -> tuple[float, float]:
    """The least and greatest value for static values from those of i in `lower` to those in `upper`, as in `run`,
    and distances from `near` to `far`; infinite where there is no value. O(steps)."""
    step, operand, stack = program
    n = 0
    sure = SURELY
    for at in range(step.size):
        op = step[at]
        if op <= NEGATED_STATIC:
            if op == NUMBER:
                lo = hi = operand[at]
            elif op == DISTANCE:
                lo, hi = clamped(near), clamped(far)
            else:
                j = int64(operand[at])
                lo, hi = clamped(lower[j * stride + i]), clamped(upper[j * stride + i])
                if op == NEGATED_STATIC:
                    lo, hi = -hi, -lo
            n += 1
        elif op == NEGATE:
            lo, hi = -stack[1, n - 1], -stack[0, n - 1]
        elif op >= SQRT:
            lo, hi = stack[0, n - 1], stack[1, n - 1]
            if op == EXP:
                lo, hi = wider(exponential(lo), exponential(hi))
            else:
                lo, hi, known = root_of(lo, hi) if op == SQRT else logarithm_of(lo, hi)
                sure = max(sure, known)
        else:
            n -= 1
            lo, hi, b0, b1 = stack[0, n - 1], stack[1, n - 1], stack[0, n], stack[1, n]
            if op == ADD:
                lo, hi = clamped(lo + b0), clamped(hi + b1)
            elif op == SUBTRACT:
                lo, hi = clamped(lo - b1), clamped(hi - b0)
            elif op == MULTIPLY:
                lo, hi = product_of(lo, hi, b0, b1)
            elif op == MIN:
                lo, hi = min(lo, b0), min(hi, b1)
            elif op == MAX:
                lo, hi = max(lo, b0), max(hi, b1)
            else:
                lo, hi, known = quotient_of(lo, hi, b0, b1) if op == DIVIDE else power_of(lo, hi, b0, b1)
                sure = max(sure, known)
        if sure == NEVER:
            lo = hi = 0.0
        stack[0, n - 1], stack[1, n - 1] = lo, hi
    return np.inf if sure == NEVER else stack[0, 0], stack[1, 0] if sure == SURELY else np.inf
