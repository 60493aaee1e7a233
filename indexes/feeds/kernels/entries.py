"""Entries of a buffer that move: a line of each of its two columns at once.

As those of `indexes.compiled.simd`, the primitive is a few vector instructions when compiled, and uncompiled the loop
written here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

from indexes.compiled.simd import load, primitive, replace, splat, store
from indexes.feeds.theta import LINE

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

_NUMBERS = ir.VectorType(ir.IntType(64), LINE)
_PLACES = list(range(LINE))


def _moved(context: Any, builder: Any, kind: Any, column: Any, base: Any, other: Any, places: Any, lane: int) -> Any:
    """A line, and the same with the entries at these places in the order of places and the one at `other` in a lane."""
    old = load(context, builder, kind, column, base, LINE)
    data = context.make_array(kind)(context, builder, value=column).data
    turned = builder.shuffle_vector(old, old, ir.Constant(ir.VectorType(ir.IntType(32), LINE), places))
    return old, builder.insert_element(turned, builder.load(builder.gep(data, [other])), ir.IntType(32)(lane))


@primitive
def _lanes_inserted(
    typing: Any, scores: Any, tags: Any, base: Any, at: Any, end: Any, score: Any, tag: Any, more: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole, lane = ir.IntType(64), ir.Constant(_NUMBERS, _PLACES)
        # The entry before the line, if it moves into it; another buffer may end there otherwise.
        before = builder.sub(args[2], builder.zext(builder.icmp_signed("<", args[3], whole(0)), whole))
        at, end = (splat(builder, _NUMBERS, value) for value in args[3:5])
        new, below = builder.icmp_signed("==", lane, at), builder.icmp_signed(">", lane, at)
        moves = builder.and_(below, builder.icmp_signed("<=", lane, end))
        for column, value in ((0, args[5]), (1, args[6])):
            kind, array = signature.args[column], args[column]
            old, moved = _moved(context, builder, kind, array, args[2], before, [0, *_PLACES[:-1]], 0)
            line = builder.select(moves, moved, old)
            if column:
                more = builder.select(below, splat(builder, _NUMBERS, args[7]), ir.Constant(_NUMBERS, [0] * LINE))
                line = builder.add(line, more)
            line = builder.select(new, splat(builder, old.type, value), line)
            store(context, builder, kind, array, args[2], line)
        return context.get_dummy_value()

    number = types.int64
    return types.void(scores, tags, number, number, number, types.float64, number, number), codegen


@primitive
def _lanes_removed(typing: Any, scores: Any, tags: Any, base: Any, at: Any, following: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        moves = builder.icmp_signed(">=", ir.Constant(_NUMBERS, _PLACES), splat(builder, _NUMBERS, args[3]))
        for kind, column in zip(signature.args[:2], args[:2], strict=True):
            order = [*_PLACES[1:], LINE - 1]
            old, moved = _moved(context, builder, kind, column, args[2], args[4], order, LINE - 1)
            store(context, builder, kind, column, args[2], builder.select(moves, moved, old))
        return context.get_dummy_value()

    number = types.int64
    return types.void(scores, tags, number, number, number), codegen


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


def remove_lanes(scores: Any, tags: Any, base: int, at: int, following: int) -> None:
    """Of the line that begins at `base`: move the entries behind place `at` back by one, over the one there, and the
    entry `following` to its end. The place is counted from the begin of the line, before which it may lie."""
    for column in (scores, tags):
        last = column[following]
        for j in range(max(at, 0), LINE - 1):
            column[base + j] = column[base + j + 1]
        column[base + LINE - 1] = last


replace(remove_lanes, _lanes_removed)
replace(insert_lanes, _lanes_inserted)
