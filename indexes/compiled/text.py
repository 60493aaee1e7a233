"""What kernels that write text share: they lay texts that are there, and integers, out one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.blocks import copy_lanes
from indexes.compiled.jit import inlined
from indexes.compiled.simd import LANES, primitive, replace
from indexes.core.arrays import Bytes, Ints, int64, uint64

from llvmlite import ir  # isort: skip
from numba import types  # isort: skip

EXACT = float(1 << 53)
"""Whole numbers up to this size are written without a point."""

NUL, COMMA, POINT, ZERO = 0, 44, 46, 48
"""Characters."""

DIGITS = 20
"""Characters of the longest integer."""

WIDE = LANES
"""Bytes that are copied at once."""


EIGHT = 8
"""Bytes that are read as one number: so many more lie behind a text that is read so."""


@primitive
def _eight_read(typing: Any, text: Any, at: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(address, align=1)

    return types.uint64(text, types.int64), codegen


def eight_bytes(text: Bytes, at: int) -> int:
    """Eight bytes as a number, the first byte lowest."""
    return uint64(int.from_bytes(text[at : at + EIGHT].tobytes(), "little"))


replace(eight_bytes, _eight_read)


class Pieces(NamedTuple):
    """The constant pieces one after the other; piece p is ``text[begin[p] : begin[p + 1]]``."""

    text: Bytes
    begin: Ints


def pieces_of(texts: Sequence[str]) -> Pieces:
    """Constant pieces in their order."""
    encoded = [text.encode() for text in texts]
    begin = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return Pieces(np.frombuffer(b"".join(encoded), np.uint8), begin)


@inlined
def put(out: Bytes, at: int, source: Bytes, begin: int, length: int) -> int:
    """Copy some bytes to `at`; returns the place behind them."""
    for i in range(length):
        out[uint64(at + i)] = source[uint64(begin + i)]
    return at + length


@inlined
def put_over(out: Bytes, at: int, source: Bytes, begin: int, length: int) -> int:
    """As `put`, in a few instructions where the text is short: up to WIDE bytes of `out` behind it are undefined."""
    size = max(int64(length + WIDE - 1) & -WIDE, WIDE)
    if begin + size > len(source) or at + size > len(out):
        return put(out, at, source, begin, length)
    copy_lanes(out, at, source, begin)
    for i in range(WIDE, length, WIDE):
        copy_lanes(out, at + i, source, begin + i)
    return at + length


@inlined
def put_until(out: Bytes, at: int, source: Bytes, begin: int, end: int) -> int:
    """As `put`, up to the next byte `end`."""
    i = begin
    byte = source[uint64(i)]
    while byte != end:
        out[uint64(at)] = byte
        at += 1
        i += 1
        byte = source[uint64(i)]
    return at


@inlined
def put_piece(out: Bytes, at: int, pieces: Pieces, piece: int) -> int:
    """Copy a constant piece."""
    begin = pieces.begin[piece]
    return put(out, at, pieces.text, begin, pieces.begin[piece + 1] - begin)


@inlined
def put_integer(out: Bytes, at: int, value: int) -> int:
    """Write an integer that is not negative; returns the place behind it."""
    length, rest = 1, value // 10
    while rest > 0:
        length += 1
        rest //= 10
    rest = value
    for i in range(length):
        out[uint64(at + length - 1 - i)] = ZERO + rest % 10
        rest //= 10
    return at + length


@inlined
def without_point(out: Bytes, begin: int, at: int, value: float) -> int:
    """Take the point from a whole number that ends at `at`, and the sign from zero; returns where it ends then."""
    if at - begin > 2 and out[uint64(at - 1)] == ZERO and out[uint64(at - 2)] == POINT:
        if value == 0.0:
            out[uint64(begin)] = ZERO
            at = begin + 1
        elif abs(value) <= EXACT:
            at -= 2
    return at
