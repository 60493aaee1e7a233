"""Blocks of SIMD lanes of places and static values: how far each lane is, and which lanes an object dominates.

Uncompiled each primitive is the function written here, which is also its definition (`indexes.compiled.simd`).
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import LANES, address_of, load, mask_of, primitive, replace, splat

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip


@primitive
def _block_distances(typing: Any, out: Any, x0: Any, y0: Any, x1: Any, y1: Any, i: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def gap(low: int, high: int, place: int) -> Any:
            """How far the lanes' intervals are from a coordinate, or 0 within them."""
            begins = load(context, builder, signature.args[low], args[low], args[5])
            ends = load(context, builder, signature.args[high], args[high], args[5])
            at = splat(builder, begins.type, args[place])
            below, above = builder.fsub(begins, at), builder.fsub(at, ends)
            widest = builder.select(builder.fcmp_ordered(">", below, above), below, above)
            zero = splat(builder, begins.type, ir.Constant(ir.DoubleType(), 0.0))
            return builder.select(builder.fcmp_ordered(">", widest, zero), widest, zero)

        dx, dy = gap(1, 3, 6), gap(2, 4, 7)
        far = builder.fadd(builder.fmul(dx, dx), builder.fmul(dy, dy))
        zero = ir.Constant(ir.IntType(64), 0)
        builder.store(far, address_of(context, builder, signature.args[0], args[0], zero, LANES), align=8)
        return context.get_dummy_value()

    return types.void(out, x0, y0, x1, y1, types.int64, types.float64, types.float64), codegen


@primitive
def _lanes_cutting(
    typing: Any, x: Any, y: Any, far: Any, b: Any, px: Any, py: Any, own: Any, reach: Any, share: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        xs, ys, others = (load(context, builder, signature.args[i], args[i], args[3]) for i in range(3))
        kind = xs.type
        at_x, at_y, mine, radius, part = (splat(builder, kind, one) for one in args[4:])
        half, two, zero = (ir.Constant(kind, [one] * LANES) for one in (0.5, 2.0, 0.0))
        ax, ay = builder.fsub(at_x, xs), builder.fsub(at_y, ys)
        error = builder.fmul(part, builder.fadd(builder.fadd(others, mine), builder.fmul(two, radius)))
        c = builder.fsub(builder.fmul(builder.fsub(mine, others), half), error)
        length = builder.fadd(builder.fmul(ax, ax), builder.fmul(ay, ay))
        beyond = builder.fcmp_ordered(">", builder.fmul(c, c), builder.fmul(radius, length))
        passes = builder.and_(builder.fcmp_ordered(">", c, zero), beyond)
        return mask_of(builder, builder.not_(passes))

    number = types.float64
    return types.int64(x, y, far, types.int64, number, number, number, number, number), codegen


def _all_compare(order: str) -> Any:
    """Generate the mask of the lanes of which a first number, and each of d values, compare so with those of one
    object: first[at:] with a bound, and value j, columns[j * stride + i :], with single[j * width + k]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, at, bound, _, stride, i, single, width, k, d = args
        number = ir.IntType(64)
        zero, one = ir.Constant(number, 0), ir.Constant(number, 1)
        # As whole vectors: a vector of bits would be packed and unpacked for each value.
        kind = ir.VectorType(number, LANES)
        lanes = load(context, builder, signature.args[0], args[0], at)
        met = builder.sext(builder.fcmp_ordered(order, lanes, splat(builder, lanes.type, bound)), kind)
        data = context.make_array(signature.args[6])(context, builder, value=single).data
        before = builder.block
        loop, after = builder.append_basic_block("values"), builder.append_basic_block("compared")
        builder.cbranch(builder.icmp_signed(">", d, zero), loop, after)
        builder.position_at_end(loop)
        j, so_far = builder.phi(number), builder.phi(kind)
        j.add_incoming(zero, before)
        so_far.add_incoming(met, before)
        value = builder.load(builder.gep(data, [builder.add(builder.mul(j, width), k)]))
        block = load(context, builder, signature.args[3], args[3], builder.add(builder.mul(j, stride), i))
        compared = builder.fcmp_ordered(order, block, splat(builder, block.type, value))
        both, following = builder.and_(so_far, builder.sext(compared, kind)), builder.add(j, one)
        j.add_incoming(following, loop)
        so_far.add_incoming(both, loop)
        builder.cbranch(builder.icmp_signed("<", following, d), loop, after)
        builder.position_at_end(after)
        found = builder.phi(kind)
        found.add_incoming(met, before)
        found.add_incoming(both, loop)
        return mask_of(builder, builder.icmp_signed("<", found, ir.Constant(kind, [0] * LANES)))

    return codegen


def _compared(first: Any, columns: Any, single: Any) -> Any:
    number = types.int64
    return number(first, number, types.float64, columns, number, number, single, number, number, number)


@primitive
def _all_from(
    typing: Any,
    first: Any,
    at: Any,
    bound: Any,
    columns: Any,
    stride: Any,
    i: Any,
    single: Any,
    width: Any,
    k: Any,
    d: Any,
) -> Any:
    return _compared(first, columns, single), _all_compare(">=")


@primitive
def _all_upto(
    typing: Any,
    first: Any,
    at: Any,
    bound: Any,
    columns: Any,
    stride: Any,
    i: Any,
    single: Any,
    width: Any,
    k: Any,
    d: Any,
) -> Any:
    return _compared(first, columns, single), _all_compare("<=")


def block_distances(out: Any, x0: Any, y0: Any, x1: Any, y1: Any, i: int, x: float, y: float) -> None:
    """Write to out[:16] the squared distances from (x, y) to the rectangles of a block of lanes, from i on."""
    for k in range(LANES):
        dx = max(x0[i + k] - x, x - x1[i + k], 0.0)
        dy = max(y0[i + k] - y, y - y1[i + k], 0.0)
        out[k] = dx * dx + dy * dy


def lanes_dominated(
    far: Any, above: float, values: Any, stride: int, i: int, best: Any, width: int, b: int, d: int
) -> int:
    """The bit mask of the lanes of a block from i on that are no better than object b of `best` in any of d values, and
    whose squared distances, far[:16], are at least `above`. Value j of an object i is values[j * stride + i], of an
    object b it is best[j * width + b]."""
    # Nine arguments: a kernel that took them as a structure would load each field for each call.
    mask = 0
    for k in range(LANES):
        met = far[k] >= above
        for j in range(d):
            met &= values[j * stride + i + k] >= best[j * width + b]
        mask |= int(met) << k
    return mask


def lanes_dominating(
    above: Any, far: float, values: Any, stride: int, i: int, best: Any, width: int, b: int, d: int
) -> int:
    """As `lanes_dominated`, of one object i at the squared distance `far`: the mask of the block of `best` from b on
    whose objects are no worse in any value, and have above[b : b + 16] at most `far`."""
    mask = 0
    for k in range(LANES):
        met = above[b + k] <= far
        for j in range(d):
            met &= best[j * width + b + k] <= values[j * stride + i]
        mask |= int(met) << k
    return mask


def lanes_cutting(
    x: Any, y: Any, far: Any, b: int, px: float, py: float, own: float, reach: float, share: float
) -> int:
    """The bit mask of the objects at x[b : b + 16] and y whose bisector with an object at (px, py) may cut what lies
    within `reach` of (0, 0), where they are nearer. `far`, `own` and `reach` are squared distances from there; a
    bisector gives way by a `share` of them, see `cuts.blur`."""
    # Nine arguments, as of `lanes_dominated`.
    mask = 0
    for k in range(LANES):
        ax, ay = px - x[b + k], py - y[b + k]
        c = (own - far[b + k]) * 0.5 - share * (far[b + k] + own + 2.0 * reach)
        mask |= int(not (c > 0.0 and c * c > reach * (ax * ax + ay * ay))) << k
    return mask


replace(block_distances, _block_distances)
replace(lanes_cutting, _lanes_cutting)
replace(
    lanes_dominated,
    lambda far, above, values, stride, i, best, width, b, d: _all_from(
        far, 0, above, values, stride, i, best, width, b, d
    ),
)
replace(
    lanes_dominating,
    lambda above, far, values, stride, i, best, width, b, d: _all_upto(
        above, b, far, best, width, b, values, stride, i, d
    ),
)
