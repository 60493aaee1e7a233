"""Sixteen lanes at once: comparisons of a block of 16 numbers, and the bit masks they make.

Each primitive is a few vector instructions when compiled. Uncompiled (``NUMBA_DISABLE_JIT=1``) it is the loop written
here, which is also its definition.
"""

from __future__ import annotations

from typing import Any

from indexes.jit import kernel  # noqa: F401  (sets the cache folder before numba is imported)

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip
from numba.extending import intrinsic, overload  # isort: skip


_intrinsic: Any = intrinsic
_PASTED: dict[str, Any] = {"jit_options": {"nogil": True, "forceinline": True}, "strict": False}


def _block(context: Any, builder: Any, array_type: Any, array: Any, base: Any) -> Any:
    """Load a[base : base + 16]."""
    data = context.make_array(array_type)(context, builder, value=array).data
    lanes = ir.VectorType(ir.DoubleType(), 16).as_pointer()
    return builder.load(builder.bitcast(builder.gep(data, [base]), lanes), align=8)


@_intrinsic
def _lanes_upto(typing: Any, a: Any, base: Any, T: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _block(context, builder, signature.args[0], args[0], args[1])
        undefined = ir.Constant(block.type, ir.Undefined)
        one = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        every = builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16))
        mask = builder.bitcast(builder.fcmp_ordered("<=", block, every), ir.IntType(16))
        return builder.zext(mask, ir.IntType(64))

    return types.int64(a, types.int64, types.float64), codegen


@_intrinsic
def _lanes_least(typing: Any, a: Any, base: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _block(context, builder, signature.args[0], args[0], args[1])
        width = 16
        while width > 1:
            width //= 2
            index = ir.VectorType(ir.IntType(32), width)
            low = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width))))
            high = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width, 2 * width))))
            block = builder.select(builder.fcmp_ordered("<", low, high), low, high)
        return builder.extract_element(block, ir.Constant(ir.IntType(32), 0))

    return types.float64(a, types.int64), codegen


@_intrinsic
def _bits_low(typing: Any, mask: Any) -> Any:
    return types.int64(types.int64), lambda c, b, s, args: b.cttz(args[0], ir.Constant(ir.IntType(1), 1))


@_intrinsic
def _bits_high(typing: Any, mask: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.int64), codegen


@_intrinsic
def _bits_count(typing: Any, mask: Any) -> Any:
    return types.int64(types.int64), lambda c, b, s, args: b.ctpop(args[0])


@_intrinsic
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


def lanes_upto(a: Any, base: int, T: float) -> int:
    """The bit mask of the lanes j < 16 with a[base + j] <= T."""
    return sum(1 << j for j in range(16) if a[base + j] <= T)


def lanes_least(a: Any, base: int) -> float:
    """The least of a[base : base + 16]."""
    return float(a[base : base + 16].min())


def prefetch_block(a: Any, base: int) -> None:
    """Ask for a[base : base + 16] to be brought near; `base` may lie outside the array."""


def low_bit(mask: int) -> int:
    """The number of the lowest bit set; mask is not 0."""
    return int(mask & -mask).bit_length() - 1


def high_bit(mask: int) -> int:
    """The number of the highest bit set; mask is not 0."""
    return int(mask).bit_length() - 1


def bit_count(mask: int) -> int:
    """How many bits are set."""
    return int(mask).bit_count()


@overload(lanes_upto, **_PASTED)
def _compiled_lanes_upto(a: Any, base: int, T: float) -> Any:
    return lambda a, base, T: _lanes_upto(a, base, T)


@overload(lanes_least, **_PASTED)
def _compiled_lanes_least(a: Any, base: int) -> Any:
    return lambda a, base: _lanes_least(a, base)


@overload(prefetch_block, **_PASTED)
def _compiled_prefetch_block(a: Any, base: int) -> Any:
    def both_lines(a: Any, base: int) -> None:
        _touch(a, base)
        _touch(a, base + 8)

    return both_lines


@overload(low_bit, **_PASTED)
def _compiled_low_bit(mask: int) -> Any:
    return lambda mask: _bits_low(mask)


@overload(high_bit, **_PASTED)
def _compiled_high_bit(mask: int) -> Any:
    return lambda mask: _bits_high(mask)


@overload(bit_count, **_PASTED)
def _compiled_bit_count(mask: int) -> Any:
    return lambda mask: _bits_count(mask)
