"""Sixteen lanes at once: comparisons of a block of 16 numbers, and the bit masks they make.

Each primitive is a few vector instructions when compiled. Uncompiled (``NUMBA_DISABLE_JIT=1``) it is the loop written
here, which is also its definition.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import Any

from indexes.compiled import targets
from indexes.compiled.jit import allocating_kernel  # noqa: F401  (sets the cache folder before numba is imported)

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.core.typing.templates import infer_global, make_intrinsic_template  # isort: skip
from numba.core.extending import _Intrinsic  # isort: skip
from numba.extending import intrinsic, overload  # isort: skip


LANES = 16
"""Numbers in a block. A column that is read by blocks has room for one more behind its last number."""

ALL = (1 << LANES) - 1
"""The mask of all lanes."""

TOGETHER = 16 if targets.has("avx512f") or platform.machine() not in targets.X86 else 4
"""Lanes whose comparison becomes a part of a mask by itself. Without masks as registers x86 narrows the comparisons of
more lanes than a vector has before it combines them, which takes longer than all else."""

primitive: Any = intrinsic
INLINED: dict[str, Any] = {
    "jit_options": {"nogil": True, "forceinline": True, "no_cfunc_wrapper": True},
    "strict": False,
}
"""Options of an `overload` whose machine code becomes part of its caller's."""


def replace(plain: Callable[..., Any], compiled: Callable[..., Any]) -> None:
    """Let kernels that call `plain` run `compiled` instead, whose machine code becomes part of theirs. A primitive with
    the same arguments is written into each caller; a function is compiled for each kind of arguments."""
    if isinstance(compiled, _Intrinsic):
        template = make_intrinsic_template(plain, compiled._defn, plain.__name__)
        infer_global(plain, types.Function(template))
    else:
        overload(plain, **INLINED)(lambda *kinds: compiled)


# Instructions, for the primitives of this module and of others.


def address_of(context: Any, builder: Any, array_type: Any, array: Any, base: Any, lanes: int) -> Any:
    """The address of a[base : base + lanes], as that of a vector."""
    data = context.make_array(array_type)(context, builder, value=array).data
    kind = ir.VectorType(context.get_value_type(array_type.dtype), lanes)
    return builder.bitcast(builder.gep(data, [base]), kind.as_pointer())


def load(context: Any, builder: Any, array_type: Any, array: Any, base: Any, lanes: int = LANES) -> Any:
    """The vector a[base : base + lanes], aligned as one element is."""
    address = address_of(context, builder, array_type, array, base, lanes)
    return builder.load(address, align=array_type.dtype.bitwidth // 8)


def store(context: Any, builder: Any, array_type: Any, array: Any, base: Any, block: Any) -> None:
    """Write a vector to a[base : base + its lanes], aligned as one element is."""
    address = address_of(context, builder, array_type, array, base, block.type.count)
    builder.store(block, address, align=array_type.dtype.bitwidth // 8)


def splat(builder: Any, kind: Any, value: Any) -> Any:
    """A vector of this type with the value in every lane."""
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    )


def mask_of(builder: Any, met: Any) -> Any:
    """A vector of booleans as the bits of a 64-bit integer."""
    mask = builder.bitcast(met, ir.IntType(met.type.count))
    return mask if met.type.count == 64 else builder.zext(mask, ir.IntType(64))


def lanes_that(columns: int, test: Callable[..., Any], lanes: int = LANES) -> Any:
    """Generate the mask of the lanes that pass a test, for the arguments (columns..., base, values...).

    `test(builder, blocks, values)` is the vector of booleans for a block of each column and each value as a vector.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = None
        together = min(TOGETHER, lanes)
        for lane in range(0, lanes, together):
            base = builder.add(args[columns], ir.Constant(args[columns].type, lane))
            blocks = [load(context, builder, signature.args[i], args[i], base, together) for i in range(columns)]
            values = [splat(builder, blocks[0].type, value) for value in args[columns + 1 :]]
            part = builder.shl(mask_of(builder, test(builder, blocks, values)), ir.Constant(ir.IntType(64), lane))
            mask = part if mask is None else builder.or_(mask, part)
        return mask

    return codegen


def comparison(order: str, lanes: int = LANES) -> Any:
    """Generate the mask of the lanes of a[base : base + lanes] that compare so with a value."""
    return lanes_that(1, lambda builder, blocks, values: builder.fcmp_ordered(order, *blocks, *values), lanes)


def extreme(builder: Any, block: Any, order: str) -> Any:
    """The number of a block that comes first in the order, "<" or ">": halves are compared until one is left."""
    width = block.type.count
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        low = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width))))
        high = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width, 2 * width))))
        block = builder.select(builder.fcmp_ordered(order, low, high), low, high)
    return builder.extract_element(block, ir.Constant(ir.IntType(32), 0))


@primitive
def _lanes_upto(typing: Any, a: Any, base: Any, bound: Any) -> Any:
    return types.int64(a, types.int64, types.float64), comparison("<=")


@primitive
def _lanes_from(typing: Any, a: Any, base: Any, bound: Any) -> Any:
    return types.int64(a, types.int64, types.float64), comparison(">=")


@primitive
def _lanes_within(typing: Any, a: Any, base: Any, least: Any, most: Any) -> Any:
    def test(builder: Any, blocks: Any, ends: Any) -> Any:
        above = builder.icmp_signed(">=", blocks[0], ends[0])
        return builder.and_(above, builder.icmp_signed("<=", blocks[0], ends[1]))

    return types.int64(a, types.int64, types.int64, types.int64), lanes_that(1, test)


def _boxes_that(tests: tuple[tuple[str, int], ...], join: str) -> Any:
    """Generate the mask of the boxes (columns 0 to 3: west, east, south, north) of which column i compares so with side
    j, for test j = (order, i); "and_" or "or_" joins the tests."""

    def test(builder: Any, boxes: Any, sides: Any) -> Any:
        found = [builder.fcmp_ordered(order, boxes[i], side) for (order, i), side in zip(tests, sides, strict=True)]
        return getattr(builder, join)(getattr(builder, join)(*found[:2]), getattr(builder, join)(*found[2:]))

    return lanes_that(4, test)


def _box_test(w: Any, e: Any, s: Any, n: Any) -> Any:
    side = types.float64
    return types.int64(w, e, s, n, types.int64, side, side, side, side)


# Nine arguments, here and below: the columns of boxes, where they begin, and the sides of one more.
@primitive
def _lanes_reached(typing: Any, w: Any, e: Any, s: Any, n: Any, base: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return _box_test(w, e, s, n), _boxes_that(((">", 1), ("<=", 0), (">=", 3), ("<", 2)), "and_")


@primitive
def _lanes_inside(typing: Any, w: Any, e: Any, s: Any, n: Any, base: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return _box_test(w, e, s, n), _boxes_that(((">", 0), ("<=", 1), (">=", 2), ("<", 3)), "and_")


@primitive
def _lanes_beyond(typing: Any, w: Any, e: Any, s: Any, n: Any, base: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return _box_test(w, e, s, n), _boxes_that((("<", 0), (">", 1), ("<", 2), (">", 3)), "or_")


@primitive
def _lanes_least(typing: Any, a: Any, base: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = load(context, builder, signature.args[0], args[0], args[1])
        return extreme(builder, block, "<")

    return types.float64(a, types.int64), codegen


def _reduced(greatest: bool) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = load(context, builder, signature.args[0], args[0], args[1])
        chosen = builder.bitcast(builder.trunc(args[2], ir.IntType(16)), ir.VectorType(ir.IntType(1), 16))
        neutral = ir.Constant(ir.DoubleType(), float("-inf") if greatest else float("inf"))
        block = builder.select(chosen, block, splat(builder, block.type, neutral))
        return extreme(builder, block, ">" if greatest else "<")

    return codegen


@primitive
def _lanes_min(typing: Any, a: Any, base: Any, mask: Any) -> Any:
    return types.float64(a, types.int64, types.int64), _reduced(False)


@primitive
def _lanes_max(typing: Any, a: Any, base: Any, mask: Any) -> Any:
    return types.float64(a, types.int64, types.int64), _reduced(True)


@primitive
def _bits_low(typing: Any, mask: Any) -> Any:
    return types.int64(types.int64), lambda c, b, s, args: b.cttz(args[0], ir.Constant(ir.IntType(1), 1))


@primitive
def _bits_high(typing: Any, mask: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.int64), codegen


@primitive
def _bits_count(typing: Any, mask: Any) -> Any:
    return types.int64(types.int64), lambda c, b, s, args: b.ctpop(args[0])


@primitive
def _touch(typing: Any, a: Any, i: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        to_read, keep, data_cache = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(prefetch, [address, to_read, keep, data_cache])
        return context.get_dummy_value()

    return types.void(a, types.int64), codegen


def lanes_upto(a: Any, base: int, bound: float) -> int:
    """The bit mask of the lanes j < 16 with a[base + j] <= bound."""
    return sum(1 << j for j in range(16) if a[base + j] <= bound)


def lanes_from(a: Any, base: int, bound: float) -> int:
    """The bit mask of the lanes j < 16 with a[base + j] >= bound."""
    return sum(1 << j for j in range(16) if a[base + j] >= bound)


def lanes_within(a: Any, base: int, least: int, most: int) -> int:
    """The bit mask of the lanes j < 16 with least <= a[base + j] <= most, for a column of int64."""
    return sum(1 << j for j in range(16) if least <= a[base + j] <= most)


def lanes_reached(w: Any, e: Any, s: Any, n: Any, base: int, a: float, b: float, c: float, d: float) -> int:
    """The bit mask of the boxes j < 16 that meet a < x <= b, c <= y < d: w[base + j] <= b and so on."""
    return _packed([e > a, w <= b, n >= c, s < d] for w, e, s, n in _boxes(w, e, s, n, base))


def lanes_inside(w: Any, e: Any, s: Any, n: Any, base: int, a: float, b: float, c: float, d: float) -> int:
    """The bit mask of the boxes j < 16 that lie inside a < x <= b, c <= y < d."""
    return _packed([w > a, e <= b, s >= c, n < d] for w, e, s, n in _boxes(w, e, s, n, base))


def lanes_beyond(w: Any, e: Any, s: Any, n: Any, base: int, a: float, b: float, c: float, d: float) -> int:
    """The bit mask of the boxes j < 16 that do not lie inside a <= x <= b, c <= y <= d."""
    return ALL ^ _packed([w >= a, e <= b, s >= c, n <= d] for w, e, s, n in _boxes(w, e, s, n, base))


def _boxes(w: Any, e: Any, s: Any, n: Any, base: int) -> Iterator[tuple[float, float, float, float]]:
    return zip(*(column[base : base + LANES].tolist() for column in (w, e, s, n)), strict=True)


def _packed(tests: Iterator[list[bool]]) -> int:
    return sum(1 << j for j, passed in enumerate(tests) if all(passed))


def lanes_least(a: Any, base: int) -> float:
    """The least of a[base : base + 16]."""
    return float(a[base : base + 16].min())


def lanes_min(a: Any, base: int, mask: int) -> float:
    """The least of the lanes of a[base : base + 16] in the mask, which is not 0."""
    return float(min(a[base + j] for j in range(16) if mask >> j & 1))


def lanes_max(a: Any, base: int, mask: int) -> float:
    """The greatest of the lanes of a[base : base + 16] in the mask, which is not 0."""
    return float(max(a[base + j] for j in range(16) if mask >> j & 1))


def prefetch_block(a: Any, base: int) -> None:
    """Prefetch a[base : base + 16] into the cache; `base` may lie outside the array."""


def prefetch_line(a: Any, i: int) -> None:
    """Prefetch the line of a[i] into the cache; `i` may lie outside the array."""


def _touch_both_lines(a: Any, base: int) -> None:
    _touch(a, base)
    _touch(a, base + 8)


def low_bit(mask: int) -> int:
    """The number of the lowest bit set; mask is not 0."""
    return int(mask & -mask).bit_length() - 1


def high_bit(mask: int) -> int:
    """The number of the highest bit set; mask is not 0."""
    return int(mask).bit_length() - 1


def bit_count(mask: int) -> int:
    """How many of 64 bits are set, of a signed number."""
    return (int(mask) & (1 << 64) - 1).bit_count()


replace(lanes_upto, _lanes_upto)
replace(lanes_from, _lanes_from)
replace(lanes_within, _lanes_within)
replace(lanes_reached, _lanes_reached)
replace(lanes_inside, _lanes_inside)
replace(lanes_beyond, _lanes_beyond)
replace(lanes_least, _lanes_least)
replace(lanes_min, _lanes_min)
replace(lanes_max, _lanes_max)
replace(prefetch_block, _touch_both_lines)
replace(prefetch_line, _touch)
replace(low_bit, _bits_low)
replace(high_bit, _bits_high)
replace(bit_count, _bits_count)
