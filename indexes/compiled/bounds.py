"""What many points come to, a block of lanes at a time: bounding boxes, ends, counts.

As those of `indexes.compiled.simd`, each primitive is the function written here, which is also its definition. Compiled
it is a loop without a branch for a point, whose results are kept as vectors, a number for each lane, and compared with
each other at the end. Written as plain loops, a minimum of chosen points and a sum of several comparisons took three to
five times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from indexes.compiled.simd import LANES, TOGETHER, extreme, load, low_bit, primitive, replace, splat, store

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core import cgutils  # isort: skip

INF = float("inf")

SIDES = (("<", 0), (">", 0), ("<", 1), (">", 1))
"""How a coordinate (0: x, 1: y) is compared with each side of a box to extend it."""


def points_bounds(
    x: Any, y: Any, count: Any, group: int, p: int, apart: int, groups: int,
    tile: tuple[float, float, float, float], box: tuple[float, float, float, float],
) -> tuple[float, float, float, float]:  # fmt: skip
    """A box (least x, greatest x, least y, greatest y) extended by the points that meet a < x <= b and c <= y < d.

    The points are those of the groups in the mask `groups`, of up to 64: the first of group j is point
    p + j * apart, and there are count[group + j] of them. A column has room for a block behind its last point.
    """
    a, b, c, d = tile
    least_x, greatest_x, least_y, greatest_y = box
    while groups:
        j = low_bit(groups)
        groups &= groups - 1
        first = p + j * apart
        for at in range(first, first + count[group + j]):
            if a < x[at] <= b and c <= y[at] < d:
                least_x, greatest_x = min(least_x, x[at]), max(greatest_x, x[at])
                least_y, greatest_y = min(least_y, y[at]), max(greatest_y, y[at])
    return least_x, greatest_x, least_y, greatest_y


# Nine arguments, as of `points_bounds`.
@primitive
def _points_bounds(
    typing: Any, x: Any, y: Any, count: Any, group: Any, p: Any, apart: Any, groups: Any, tile: Any, box: Any
) -> Any:
    number, four = types.int64, types.UniTuple(types.float64, 4)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, word, block = signature.args, ir.IntType(64), ir.VectorType(ir.DoubleType(), TOGETHER)
        tile = [splat(builder, block, side) for side in cgutils.unpack_tuple(builder, args[7])]
        box = [
            cgutils.alloca_once_value(builder, splat(builder, block, side))
            for side in cgutils.unpack_tuple(builder, args[8])
        ]
        counts = context.make_array(kinds[2])(context, builder, value=args[2]).data
        left = cgutils.alloca_once_value(builder, args[6])
        head, body, end = (builder.append_basic_block(name) for name in ("groups", "group", "end"))
        builder.branch(head)
        builder.position_at_end(head)
        mask = builder.load(left)
        builder.cbranch(builder.icmp_signed("==", mask, ir.Constant(word, 0)), end, body)

        builder.position_at_end(body)
        j = builder.cttz(mask, ir.Constant(ir.IntType(1), 1))
        builder.store(builder.and_(mask, builder.sub(mask, ir.Constant(word, 1))), left)
        first = builder.add(args[4], builder.mul(j, args[5]))
        many = builder.sext(builder.load(builder.gep(counts, [builder.add(args[3], j)])), word)
        with _blocks(builder, many) as (at, met):
            points = [load(context, builder, kinds[i], args[i], builder.add(first, at), TOGETHER) for i in range(2)]
            for order, i, side in ((">", 0, 0), ("<=", 0, 1), (">=", 1, 2), ("<", 1, 3)):
                met = builder.and_(met, builder.fcmp_ordered(order, points[i], tile[side]))
            for (order, i), kept in zip(SIDES, box, strict=True):
                _extend(builder, kept, order, points[i], met)
        builder.branch(head)

        builder.position_at_end(end)
        sides = [extreme(builder, builder.load(kept), order) for (order, _), kept in zip(SIDES, box, strict=True)]
        return context.make_tuple(builder, signature.return_type, sides)

    return four(x, y, count, number, number, number, number, four, four), codegen


def ends_below(x: Any, y: Any, key: Any, n: int, bound: int) -> tuple[float, float]:
    """The least x and the greatest y of those of the first n points whose key is below a bound; (inf, -inf) if there
    are none. Columns have room for a block behind the last point."""
    below = [i for i in range(n) if key[i] < bound]
    return min((x[i] for i in below), default=INF), max((y[i] for i in below), default=-INF)


@primitive
def _ends_below(typing: Any, x: Any, y: Any, key: Any, n: Any, bound: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, block = signature.args, ir.VectorType(ir.DoubleType(), TOGETHER)
        none = [ir.Constant(ir.DoubleType(), end) for end in (INF, -INF)]
        ends = [cgutils.alloca_once_value(builder, splat(builder, block, end)) for end in none]
        with _blocks(builder, args[3]) as (at, within):
            keys = load(context, builder, kinds[2], args[2], at, TOGETHER)
            met = builder.and_(within, builder.icmp_signed("<", keys, splat(builder, keys.type, args[4])))
            for order, i in (("<", 0), (">", 1)):
                _extend(builder, ends[i], order, load(context, builder, kinds[i], args[i], at, TOGETHER), met)
        found = [extreme(builder, builder.load(ends[i]), order) for i, order in enumerate("<>")]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.float64, 2)(x, y, key, types.int64, types.int64), codegen


def count_from(into: Any, column: Any, n: int, values: Any, begin: int, end: int) -> None:
    """Add to each of the first n of `into` how many of values[begin:end] are at least the number in the column. Columns
    have room for LANES behind the last one, which are undefined in `into` afterwards."""
    for i in range(n):
        into[i] += sum(1 for value in values[begin:end] if value >= column[i])


def count_upto(into: Any, column: Any, n: int, values: Any, begin: int, end: int) -> None:
    """As `count_from`, how many are at most that number."""
    for i in range(n):
        into[i] += sum(1 for value in values[begin:end] if value <= column[i])


def _counting(order: str) -> Any:
    """Generate the count of the values that compare so with a number."""

    @primitive
    def counting(typing: Any, into: Any, column: Any, n: Any, values: Any, begin: Any, end: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds, one = signature.args, ir.Constant(args[4].type, 1)
            data = context.make_array(kinds[3])(context, builder, value=args[3]).data
            with cgutils.for_range_slice(builder, one.type(0), args[2], one.type(LANES)) as (at, _):
                places = [builder.add(at, one.type(lane)) for lane in range(0, LANES, TOGETHER)]
                numbers = [load(context, builder, kinds[1], args[1], place, TOGETHER) for place in places]
                counts = [
                    cgutils.alloca_once_value(builder, load(context, builder, kinds[0], args[0], place, TOGETHER))
                    for place in places
                ]
                with cgutils.for_range_slice(builder, args[4], args[5], one) as (z, _):
                    value = splat(builder, numbers[0].type, builder.load(builder.gep(data, [z])))
                    for block, count in zip(numbers, counts, strict=True):
                        met, before = builder.fcmp_ordered(order, value, block), builder.load(count)
                        builder.store(builder.add(before, builder.zext(met, before.type)), count)
                for place, count in zip(places, counts, strict=True):
                    store(context, builder, kinds[0], args[0], place, builder.load(count))
            return context.get_dummy_value()

        number = types.int64
        return types.void(into, column, number, values, number, number), codegen

    return counting


_count_from, _count_upto = _counting(">="), _counting("<=")


@contextmanager
def _blocks(builder: Any, n: Any) -> Iterator[tuple[Any, Any]]:
    """Generate a loop over the blocks of n points: where one begins, and which of its lanes are of the n."""
    numbers = ir.Constant(ir.VectorType(n.type, TOGETHER), list(range(TOGETHER)))
    step = ir.Constant(n.type, TOGETHER)
    with cgutils.for_range_slice(builder, ir.Constant(n.type, 0), n, step) as (at, _):
        yield at, builder.icmp_signed("<", numbers, splat(builder, numbers.type, builder.sub(n, at)))


def _extend(builder: Any, kept: Any, order: str, numbers: Any, met: Any) -> None:
    """Generate the comparison of the lanes that are met with what is kept of each."""
    before = builder.load(kept)
    extends = builder.and_(met, builder.fcmp_ordered(order, numbers, before))
    builder.store(builder.select(extends, numbers, before), kept)


# Nine arguments, as of `points_bounds`.
replace(points_bounds, _points_bounds)
replace(ends_below, _ends_below)
replace(count_from, _count_from)
replace(count_upto, _count_upto)
