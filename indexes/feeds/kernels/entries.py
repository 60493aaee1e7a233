"""Entries of a buffer that move: a line of each of its two columns at once.

As those of `indexes.compiled.simd`, the primitive is a few vector instructions when compiled, and uncompiled the loop
written here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import address_of, load, primitive, replace, splat
from indexes.feeds.theta import LINE

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip


@primitive
def _lanes_inserted(
    typing: Any, scores: Any, tags: Any, base: Any, at: Any, end: Any, score: Any, tag: Any, more: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.IntType(64)
        numbers = ir.VectorType(whole, LINE)
        lane = ir.Constant(numbers, list(range(LINE)))
        # The entry before the line, if it moves into it; another buffer may end there otherwise.
        before = builder.sub(args[2], builder.zext(builder.icmp_signed("<", args[3], whole(0)), whole))
        at, end = (splat(builder, numbers, value) for value in args[3:5])
        new, below = builder.icmp_signed("==", lane, at), builder.icmp_signed(">", lane, at)
        moves = builder.and_(below, builder.icmp_signed("<=", lane, end))
        for column, value in ((0, args[5]), (1, args[6])):
            kind, array = signature.args[column], args[column]
            old = load(context, builder, kind, array, args[2], LINE)
            data = context.make_array(kind)(context, builder, value=array).data
            last = builder.load(builder.gep(data, [before]))
            turned = builder.shuffle_vector(old, old, ir.Constant(ir.VectorType(ir.IntType(32), LINE), _MOVED))
            moved = builder.select(moves, builder.insert_element(turned, last, ir.IntType(32)(0)), old)
            if column:
                dominated = builder.select(below, splat(builder, numbers, args[7]), ir.Constant(numbers, [0] * LINE))
                moved = builder.add(moved, dominated)
            moved = builder.select(new, splat(builder, old.type, value), moved)
            address = address_of(context, builder, kind, array, args[2], LINE)
            builder.store(moved, address, align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    number = types.int64
    return types.void(scores, tags, number, number, number, types.float64, number, number), codegen


_MOVED = [0, *range(LINE - 1)]


# Eight arguments: the columns, the line and two places in it, and the entry.
def insert_lanes(scores: Any, tags: Any, base: int, at: int, end: int, score: float, tag: int, more: int) -> None:
    """Of the line that begins at `base`: insert an entry at place `at`, where those before `end` move on by one, over
    the one there, and add `more` to the tags of all behind it. Places are counted from the begin of the line, which
    either may lie before, or behind its end."""
    for j in range(LINE - 1, -1, -1):
        if at < j <= end:
            scores[base + j], tags[base + j] = scores[base + j - 1], tags[base + j - 1]
        if j > at:
            tags[base + j] += more
        if j == at:
            scores[base + j], tags[base + j] = score, tag


replace(
    insert_lanes,
    lambda scores, tags, base, at, end, score, tag, more: _lanes_inserted(
        scores, tags, base, at, end, score, tag, more
    ),
)
