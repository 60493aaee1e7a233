"""Tiles as JSON text: the texts of all numbers and names of many tiles are laid out between constant pieces.

Numbers are written beforehand, in one call of a JSON writer, and copied to where they belong. So no kernel has to find
the shortest decimal of a float, and no string is made for a number or a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, kernel
from indexes.core.arrays import Bools, Bytes, Floats, Ints, int64, uint64

EXACT = float(1 << 53)
"""Whole numbers up to this size are written without a point."""

NUL, COMMA, POINT, ZERO = 0, 44, 46, 48
"""Characters."""

SIDES, NUMBERS = 4, 6
"""How many numbers a tile has: its sides, and those with x and y."""

DIGITS = 20
"""Characters of the longest integer."""

NO_EVENT = -1
"""The event of a tile that belongs to no single one."""

EVENT, NULL, K, NUMBER, OBJECT, CREATED, IS_THERE, IS_GONE = 0, 1, 2, 3, 9, 10, 11, 12
"""Constant pieces: what stands before the event, in place of it, before k, before the six numbers from NUMBER on,
before the id and before `created`, and the two ends of a tile."""


class Pieces(NamedTuple):
    """The constant pieces one after the other; piece p is ``text[begin[p] : begin[p + 1]]``."""

    text: Bytes
    begin: Ints


class TileTexts(NamedTuple):
    """What tiles say, by column.

    A row of `numbers` has the sides, x and y, an infinite one for an unbounded side; `text` has all of them as JSON, a
    COMMA behind each, and from `names` on the id of each object, a NUL behind each; where the tiles are `varied`, the
    id is the second of three texts, after what stands before the object and before what stands behind `created`.
    """

    event: Ints
    k: Ints
    numbers: Floats
    text: Bytes
    names: int
    varied: bool
    created: Ints
    gone: Bools


def pieces_of(texts: Sequence[str]) -> Pieces:
    """Constant pieces in their order."""
    encoded = [text.encode() for text in texts]
    begin = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return Pieces(np.frombuffer(b"".join(encoded), np.uint8), begin)


def most_bytes(pieces: Pieces, tiles: TileTexts) -> int:
    """At least as many bytes as `write_tiles` writes."""
    each = len(pieces.text) + 3 * DIGITS
    return each * len(tiles.k) + len(tiles.text)


@inlined
def _put(out: Bytes, at: int, source: Bytes, begin: int, length: int) -> int:
    """Copy some bytes to `at`; returns the place behind them."""
    for i in range(length):
        out[uint64(at + i)] = source[uint64(begin + i)]
    return at + length


@inlined
def _put_until(out: Bytes, at: int, source: Bytes, begin: int, end: int) -> int:
    """As `_put`, up to the next byte `end`."""
    i = begin
    byte = source[uint64(i)]
    while byte != end:
        out[uint64(at)] = byte
        at += 1
        i += 1
        byte = source[uint64(i)]
    return at


@inlined
def _put_piece(out: Bytes, at: int, pieces: Pieces, piece: int) -> int:
    begin = pieces.begin[piece]
    return _put(out, at, pieces.text, begin, pieces.begin[piece + 1] - begin)


@inlined
def _put_integer(out: Bytes, at: int, value: int) -> int:
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
def _without_point(out: Bytes, begin: int, at: int, value: float) -> int:
    """Take the point from a whole number that ends at `at`, and the sign from zero; returns where it ends then."""
    if at - begin > 2 and out[uint64(at - 1)] == ZERO and out[uint64(at - 2)] == POINT:
        if value == 0.0:
            out[uint64(begin)] = ZERO
            at = begin + 1
        elif abs(value) <= EXACT:
            at -= 2
    return at


@kernel
def write_tiles(out: Bytes, ends: Ints, pieces: Pieces, tiles: TileTexts) -> int:
    """Write tiles as JSON objects, each behind a comma; `ends[t]` becomes the place behind tile t. Returns the number
    of bytes, for which `out` has room if it has `most_bytes`. O(bytes)."""
    at, number, name = int64(0), int64(0), tiles.names
    for t in range(len(tiles.k)):
        at = _put_piece(out, at, pieces, EVENT)
        if tiles.event[t] == NO_EVENT:
            at = _put_piece(out, at, pieces, NULL)
        else:
            at = _put_integer(out, at, tiles.event[t])
        at = _put_piece(out, at, pieces, K)
        at = _put_integer(out, at, tiles.k[t])
        for column in range(NUMBERS):
            if column == SIDES:
                for text in range(int64(tiles.varied) + 1):
                    if text == int64(tiles.varied):
                        at = _put_piece(out, at, pieces, OBJECT)
                    begin = at
                    at = _put_until(out, at, tiles.text, name, NUL)
                    name += at - begin + 1
            at = _put_piece(out, at, pieces, NUMBER + column)
            begin = at
            at = _put_until(out, at, tiles.text, number, COMMA)
            number += at - begin + 1
            at = _without_point(out, begin, at, tiles.numbers[t, column])
        at = _put_piece(out, at, pieces, CREATED)
        at = _put_integer(out, at, tiles.created[t])
        if tiles.varied:
            begin = at
            at = _put_until(out, at, tiles.text, name, NUL)
            name += at - begin + 1
        at = _put_piece(out, at, pieces, IS_GONE if tiles.gone[t] else IS_THERE)
        ends[t] = at
    return at
