"""The bounding box of points in several groups, a block of lanes at a time.

As those of `indexes.compiled.simd`, the primitive is the function written here, which is also its definition, and
compiled a loop without a branch for a point: the least and the greatest of each lane are kept as vectors, and compared
with each other at the end.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import TOGETHER, load, low_bit, primitive, replace, splat

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core import cgutils  # isort: skip

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
    word, four = types.int64, types.UniTuple(types.float64, 4)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, integer = TOGETHER, ir.IntType(64)
        kinds, one, step = signature.args, ir.Constant(ir.IntType(64), 1), ir.Constant(integer, lanes)
        block = ir.VectorType(ir.DoubleType(), lanes)
        numbers = ir.Constant(ir.VectorType(integer, lanes), list(range(lanes)))
        tile = [splat(builder, block, side) for side in cgutils.unpack_tuple(builder, args[7])]
        box = [
            cgutils.alloca_once_value(builder, splat(builder, block, side))
            for side in cgutils.unpack_tuple(builder, args[8])
        ]
        counts = context.make_array(kinds[2])(context, builder, value=args[2]).data
        left = cgutils.alloca_once_value(builder, args[6])
        groups_head, groups_body, points_head, points_body, end = (
            builder.append_basic_block(name) for name in ("groups", "group", "points", "block", "end")
        )
        builder.branch(groups_head)
        builder.position_at_end(groups_head)
        mask = builder.load(left)
        builder.cbranch(builder.icmp_signed("==", mask, ir.Constant(integer, 0)), end, groups_body)

        builder.position_at_end(groups_body)
        j = builder.cttz(mask, ir.Constant(ir.IntType(1), 1))
        builder.store(builder.and_(mask, builder.sub(mask, one)), left)
        first = builder.add(args[4], builder.mul(j, args[5]))
        many = builder.sext(builder.load(builder.gep(counts, [builder.add(args[3], j)])), integer)
        builder.branch(points_head)

        builder.position_at_end(points_head)
        done = builder.phi(integer)
        done.add_incoming(ir.Constant(integer, 0), groups_body)
        builder.cbranch(builder.icmp_signed("<", done, many), points_body, groups_head)

        builder.position_at_end(points_body)
        at = builder.add(first, done)
        points = [load(context, builder, kinds[i], args[i], at, lanes) for i in range(2)]
        rest = splat(builder, numbers.type, builder.sub(many, done))
        met = builder.icmp_signed("<", numbers, rest)
        for order, i, side in ((">", 0, 0), ("<=", 0, 1), (">=", 1, 2), ("<", 1, 3)):
            met = builder.and_(met, builder.fcmp_ordered(order, points[i], tile[side]))
        for (order, i), kept in zip(SIDES, box, strict=True):
            before = builder.load(kept)
            extends = builder.and_(met, builder.fcmp_ordered(order, points[i], before))
            builder.store(builder.select(extends, points[i], before), kept)
        done.add_incoming(builder.add(done, step), builder.block)
        builder.branch(points_head)

        builder.position_at_end(end)
        sides = [_extreme(builder, builder.load(kept), order) for (order, _), kept in zip(SIDES, box, strict=True)]
        return context.make_tuple(builder, signature.return_type, sides)

    return four(x, y, count, word, word, word, word, four, four), codegen


def _extreme(builder: Any, block: Any, order: str) -> Any:
    """The number of a block that comes first in the order, "<" or ">"."""
    width = block.type.count
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        low = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width))))
        high = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width, 2 * width))))
        block = builder.select(builder.fcmp_ordered(order, low, high), low, high)
    return builder.extract_element(block, ir.Constant(ir.IntType(32), 0))


# Nine arguments, as of `points_bounds`.
replace(
    points_bounds,
    lambda x, y, count, group, p, apart, groups, tile, box: _points_bounds(
        x, y, count, group, p, apart, groups, tile, box
    ),
)
