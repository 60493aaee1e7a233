"""Which subscriptions are near enough to a post to be scored: a test of sixteen keys at once, and one of eight rows.

A key has a bound, the least similarity with which its subscription may reach theta by the words of a list's level, and
a code for the place: its coordinates in steps of a frame, 256 along each side, rounded down and clipped to it. Clipping
both a place and a post to a frame moves them no further apart, so what is known of the place says how near it is at
most, and keys that need more are dropped before their rows are read.

A bound also gives the weights of a subscription, (1 - alpha) l <= (theta - alpha bound) / level, unless it was clipped
from below. From these and the length of the post's weights follows how near it has to be, and squares of distances say
whether it is, without a root or a division.

As those of `indexes.compiled.simd`, the primitives are a few vector instructions when compiled, and uncompiled the
loops written here, which are also their definitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.simd import LANES, load, mask_of, primitive, replace, splat
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, THETA, X, Y

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

EIGHT = 8
"""Rows that are tested together."""

SLACK = 1e-9
"""More than rounding can add to a score."""

SCALE = 1 << 14
"""Steps of a bound from 0 to 1."""

LOWEST = -2 * SCALE
"""The least bound; that of a lower one is this too."""

STEPS = 1 << 8
"""Steps of a frame, along each side."""

BOUND = 48
"""The bit of a key from which on it is the bound."""

BESIDE = 1e-3
"""More than rounding can add to a distance, in steps of a frame."""

FARTHEST = 1e15
"""More steps of a frame than its diagonal has, times the steps of a bound."""

WIDE = 1e100
"""A diagonal with whose square, and that of its inverse, one can compute."""

LEFT = 2
"""Bits of a key for how many words its subscription has from its own on, in order of rarity, less one: 3 for more."""

WORD_RATIOS = 2 << LEFT
"""Ratios of a word of a post: for each number of words left, in lists of its level, and then in those of the last."""

SLOTS = 1 << 32 - LEFT
"""All slots are less."""

_X_FROM, _Y_FROM = 8, 0
"""Bits of the upper half of a key from which on it has the steps of its place."""

_FIELDS = 4
"""Fields of a row that are read: X, Y, ALPHA and THETA, in this order, are the first."""


def _fields(context: Any, builder: Any, rows_type: Any, rows: Any, keys: Any) -> list[Any]:
    """The first fields of the rows of eight keys, each as a vector."""

    def shuffled(one: Any, other: Any, *lanes: int) -> Any:
        return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    whole, loaded = ir.IntType(64), []
    for j in range(EIGHT):
        key = builder.extract_element(keys, ir.IntType(32)(j))
        slot = builder.and_(builder.lshr(key, whole(LEFT)), whole(SLOTS - 1))
        loaded.append(load(context, builder, rows_type, rows, builder.mul(slot, whole(ROW)), _FIELDS))
    # Rows j and j + 4 side by side: what follows moves within halves of the widest registers, but for its end.
    halves = [shuffled(loaded[j], loaded[j + 4], *range(EIGHT)) for j in range(4)]
    found = []
    for field in range(_FIELDS):
        of_two = field, EIGHT + field, _FIELDS + field, EIGHT + _FIELDS + field
        even, odd = (shuffled(halves[j], halves[j + 1], *of_two) for j in (0, 2))
        found.append(shuffled(even, odd, 0, 1, 4, 5, 2, 3, 6, 7))
    return found


def _ratios(context: Any, builder: Any, ratio_type: Any, ratio: Any, keys: Any, begin: Any) -> Any:
    """The ratios of eight keys, as a vector, where those of their lists begin there."""
    own = builder.and_(keys, ir.Constant(keys.type, [(1 << LEFT) - 1] * EIGHT))
    at = builder.add(begin, own)
    data = context.make_array(ratio_type)(context, builder, value=ratio).data
    found = ir.Constant(ir.VectorType(ir.DoubleType(), EIGHT), ir.Undefined)
    for j in range(EIGHT):
        lane = ir.IntType(32)(j)
        one = builder.load(builder.gep(data, [builder.extract_element(at, lane)]))
        found = builder.insert_element(found, one, lane)
    return found


@primitive
def _lanes_near(
    typing: Any, row: Any, ratio: Any, key: Any, ratios: Any, at: Any, x: Any, y: Any, diagonal: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row_type, ratio_type, key_type, ratios_type = signature.args[:4]
        keys = load(context, builder, key_type, args[2], args[4], EIGHT)
        fields = _fields(context, builder, row_type, args[0], keys)
        begin = load(context, builder, ratios_type, args[3], args[4], EIGHT)
        rests = _ratios(context, builder, ratio_type, args[1], keys, begin)
        kind, integers = rests.type, ir.VectorType(ir.IntType(32), EIGHT)
        times, plus, minus = builder.fmul, builder.fadd, builder.fsub

        def every(value: float) -> Any:
            return ir.Constant(kind, [value] * EIGHT)

        bound = builder.trunc(builder.ashr(keys, ir.Constant(keys.type, [BOUND] * EIGHT)), integers)
        theta, alpha = minus(fields[THETA], every(SLACK)), fields[ALPHA]
        least = times(times(alpha, builder.sitofp(bound, kind)), every(1.0 / SCALE))
        lacks = minus(theta, times(rests, minus(theta, least)))
        dx, dy = (minus(fields[i], splat(builder, kind, args[5 + i])) for i in (X, Y))
        reach = times(splat(builder, kind, args[7]), minus(alpha, lacks))
        away = times(times(alpha, alpha), plus(times(dx, dx), times(dy, dy)))
        beyond = builder.fcmp_ordered(">", away, times(reach, reach))
        far = builder.or_(builder.fcmp_ordered("<", reach, every(0.0)), beyond)
        far = builder.and_(far, builder.fcmp_ordered(">", lacks, every(0.0)))
        far = builder.and_(far, builder.icmp_signed(">", bound, ir.Constant(integers, [LOWEST] * EIGHT)))
        return mask_of(builder, builder.not_(far))

    real = types.float64
    return types.int64(row, ratio, key, ratios, types.int64, real, real, real), codegen


# Eight arguments: four columns and a place in two of them, and what is known of the post.
def lanes_near(row: Any, ratio: Any, key: Any, ratios: Any, at: int, x: float, y: float, diagonal: float) -> int:
    """The bit mask of the keys j < 8 of key[at : at + 8] whose subscriptions may reach theta. The ratios of its list,
    of the greatest length that words of the post may have to the length of the level, begin at ratios[at + j]."""
    near = 0
    for j in range(EIGHT):
        own = int(key[at + j])
        slot, bound = own >> LEFT & SLOTS - 1, own >> BOUND
        theta, alpha = row[slot * ROW + THETA] - SLACK, row[slot * ROW + ALPHA]
        lacks = theta - ratio[ratios[at + j] + own % (1 << LEFT)] * (theta - alpha * bound * (1.0 / SCALE))
        dx, dy, reach = row[slot * ROW + X] - x, row[slot * ROW + Y] - y, diagonal * (alpha - lacks)
        far = reach < 0.0 or alpha * alpha * (dx * dx + dy * dy) > reach * reach
        near |= 0 if far and lacks > 0.0 and bound > LOWEST else 1 << j
    return near


@primitive
def _lanes_around(typing: Any, key: Any, at: Any, x: Any, y: Any, reach: Any, most: Any) -> Any:
    integers, kind = ir.VectorType(ir.IntType(32), LANES), ir.VectorType(ir.FloatType(), LANES)

    def every(value: float) -> Any:
        return ir.Constant(integers if isinstance(value, int) else kind, [value] * LANES)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        plus, minus, times, above = builder.fadd, builder.fsub, builder.fmul, builder.fcmp_ordered
        keys = load(context, builder, signature.args[0], args[0], args[1])
        high = builder.trunc(builder.lshr(keys, ir.Constant(keys.type, [32] * LANES)), integers)
        bound = builder.ashr(high, every(BOUND - 32))
        x, y, reach = (splat(builder, kind, builder.fptrunc(value, ir.FloatType())) for value in args[2:5])

        def away(place: Any, shift: int) -> Any:
            step = builder.sitofp(builder.and_(builder.lshr(high, every(shift)), every(STEPS - 1)), kind)
            behind, before = minus(minus(place, step), every(1.0 + BESIDE)), minus(step, plus(place, every(BESIDE)))
            more = builder.select(above(">", behind, before), behind, before)
            more = builder.select(above(">", more, every(0.0)), more, every(0.0))
            return times(more, more)

        # Whole numbers first: a difference of two long distances would be rounded more than a short one may be.
        left = builder.sitofp(builder.sub(every(SCALE), bound), kind)
        reach = times(left, times(reach, every(1.0 / SCALE)))
        far = above(">", plus(away(x, _X_FROM), away(y, _Y_FROM)), times(reach, reach))
        far = builder.and_(far, builder.icmp_signed(">", bound, every(0)))
        most = splat(builder, integers, builder.trunc(args[5], ir.IntType(32)))
        return mask_of(builder, builder.and_(builder.not_(far), builder.icmp_signed("<=", bound, most)))

    real = types.float64
    return types.int64(key, types.int64, real, real, real, types.int64), codegen


def lanes_around(key: Any, at: int, x: float, y: float, reach: float, most: int) -> int:
    """The bit mask of the keys j < 16 of key[at : at + 16] whose bound is at most `most`, and at most the similarity to
    (x, y) that their place may have. Coordinates, and the distance `reach` at which similarity becomes 0, but at most
    `FARTHEST`, are in steps of the frame."""
    keys, single = key[at : at + LANES], np.float32
    bound, place, far = keys >> BOUND, (single(x), single(y)), single(0.0)
    for i, shift in enumerate((32 + _X_FROM, 32 + _Y_FROM)):
        step = (keys >> shift & STEPS - 1).astype(single)
        away = np.maximum(place[i] - step - single(1.0 + BESIDE), step - (place[i] + single(BESIDE)))
        far = far + np.maximum(away, single(0.0)) ** 2
    near = (SCALE - bound).astype(single) * (single(reach) * single(1.0 / SCALE))
    kept = ~((far > near * near) & (bound > 0)) & (bound <= most)
    return sum(1 << j for j in range(LANES) if kept[j])


replace(lanes_near, _lanes_near)
replace(lanes_around, _lanes_around)
