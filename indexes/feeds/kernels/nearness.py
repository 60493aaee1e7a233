"""Which subscriptions are near enough to a post to be scored: a test of eight rows at once.

A bound gives the weights of a subscription, (1 - alpha) l <= (theta - alpha bound) / level, unless it was clipped from
below. From these and the length of the post's weights follows how near it has to be, and squares of distances say
whether it is, without a root or a division.

As those of `indexes.compiled.simd`, the primitive is a few vector instructions when compiled, and uncompiled the loop
written here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import load, mask_of, primitive, replace, splat
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, THETA, X, Y

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

EIGHT = 8
"""Rows that are tested together."""

SLACK = 1e-9
"""More than rounding can add to a score."""

SCALE = 1 << 28
"""Steps of a bound from 0 to 1."""

LOWEST = -SCALE // 2
"""The least bound; that of a lower one is this too."""

_FIELDS = 4
"""Fields of a row that are read: X, Y, ALPHA and THETA, in this order, are the first."""


def _fields(context: Any, builder: Any, rows_type: Any, rows: Any, keys: Any) -> list[Any]:
    """The first fields of the rows of eight keys, each as a vector."""

    def shuffled(one: Any, other: Any, *lanes: int) -> Any:
        return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    whole, loaded = ir.IntType(64), []
    for j in range(EIGHT):
        slot = builder.and_(builder.extract_element(keys, ir.IntType(32)(j)), whole(0xFFFFFFFF))
        loaded.append(load(context, builder, rows_type, rows, builder.mul(slot, whole(ROW)), _FIELDS))
    # Rows j and j + 4 side by side: what follows moves within halves of the widest registers, but for its end.
    halves = [shuffled(loaded[j], loaded[j + 4], *range(EIGHT)) for j in range(4)]
    found = []
    for field in range(_FIELDS):
        of_two = field, EIGHT + field, _FIELDS + field, EIGHT + _FIELDS + field
        even, odd = (shuffled(halves[j], halves[j + 1], *of_two) for j in (0, 2))
        found.append(shuffled(even, odd, 0, 1, 4, 5, 2, 3, 6, 7))
    return found


@primitive
def _lanes_near(typing: Any, row: Any, key: Any, rest: Any, at: Any, x: Any, y: Any, diagonal: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        key_type, rest_type = signature.args[1:3]
        keys = load(context, builder, key_type, args[1], args[3], EIGHT)
        fields = _fields(context, builder, signature.args[0], args[0], keys)
        rests = load(context, builder, rest_type, args[2], args[3], EIGHT)
        kind, integers = rests.type, ir.VectorType(ir.IntType(32), EIGHT)
        times, plus, minus = builder.fmul, builder.fadd, builder.fsub

        def every(value: float) -> Any:
            return ir.Constant(kind, [value] * EIGHT)

        bound = builder.trunc(builder.ashr(keys, ir.Constant(keys.type, [32] * EIGHT)), integers)
        theta, alpha = minus(fields[THETA], every(SLACK)), fields[ALPHA]
        least = times(times(alpha, builder.sitofp(bound, kind)), every(1.0 / SCALE))
        lacks = minus(theta, times(rests, minus(theta, least)))
        dx, dy = (minus(fields[i], splat(builder, kind, args[4 + i])) for i in (X, Y))
        reach = times(splat(builder, kind, args[6]), minus(alpha, lacks))
        away = times(times(alpha, alpha), plus(times(dx, dx), times(dy, dy)))
        beyond = builder.fcmp_ordered(">", away, times(reach, reach))
        far = builder.or_(builder.fcmp_ordered("<", reach, every(0.0)), beyond)
        far = builder.and_(far, builder.fcmp_ordered(">", lacks, every(0.0)))
        far = builder.and_(far, builder.icmp_signed(">", bound, ir.Constant(integers, [LOWEST] * EIGHT)))
        return mask_of(builder, builder.not_(far))

    real = types.float64
    return types.int64(row, key, rest, types.int64, real, real, real), codegen


# Seven arguments: three columns and a place in two of them, and what is known of the post.
def lanes_near(row: Any, key: Any, rest: Any, at: int, x: float, y: float, diagonal: float) -> int:
    """The bit mask of the keys j < 8 of key[at : at + 8] whose subscriptions may reach theta. `rest` has the length of
    the post's weights over that of the level."""
    near = 0
    for j in range(EIGHT):
        slot, bound = int(key[at + j]) & 0xFFFFFFFF, int(key[at + j]) >> 32
        theta, alpha = row[slot * ROW + THETA] - SLACK, row[slot * ROW + ALPHA]
        lacks = theta - rest[at + j] * (theta - alpha * bound * (1.0 / SCALE))
        dx, dy, reach = row[slot * ROW + X] - x, row[slot * ROW + Y] - y, diagonal * (alpha - lacks)
        far = reach < 0.0 or alpha * alpha * (dx * dx + dy * dy) > reach * reach
        near |= 0 if far and lacks > 0.0 and bound > LOWEST else 1 << j
    return near


replace(lanes_near, _lanes_near)
