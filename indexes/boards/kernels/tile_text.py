"""Tiles as JSON text: the texts of all numbers and names of many tiles are laid out between constant pieces.

Numbers are written beforehand, in one call of a JSON writer, and copied to where they belong. So no kernel has to find
the shortest decimal of a float, and no string is made for a number or a tile.
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.compiled.jit import kernel
from indexes.compiled.text import COMMA, DIGITS, NUL, Pieces, put_integer, put_piece, put_until, without_point
from indexes.core.arrays import Bools, Bytes, Floats, Ints, int64

SIDES, NUMBERS = 4, 6
"""How many numbers a tile has: its sides, and those with x and y."""

NO_EVENT = -1
"""The event of a tile that belongs to no single one."""

EVENT, NULL, K, NUMBER, OBJECT, CREATED, IS_THERE, IS_GONE = 0, 1, 2, 3, 9, 10, 11, 12
"""Constant pieces: what stands before the event, in place of it, before k, before the six numbers from NUMBER on,
before the id and before `created`, and the two ends of a tile."""


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


def most_bytes(pieces: Pieces, tiles: TileTexts) -> int:
    """At least as many bytes as `write_tiles` writes."""
    each = len(pieces.text) + 3 * DIGITS
    return each * len(tiles.k) + len(tiles.text)


@kernel
def write_tiles(out: Bytes, ends: Ints, pieces: Pieces, tiles: TileTexts) -> int:
    """Write tiles as JSON objects, each behind a comma; `ends[t]` becomes the place behind tile t. Returns the number
    of bytes, for which `out` has room if it has `most_bytes`. O(bytes)."""
    at, number, name = int64(0), int64(0), tiles.names
    for t in range(len(tiles.k)):
        at = put_piece(out, at, pieces, EVENT)
        if tiles.event[t] == NO_EVENT:
            at = put_piece(out, at, pieces, NULL)
        else:
            at = put_integer(out, at, tiles.event[t])
        at = put_piece(out, at, pieces, K)
        at = put_integer(out, at, tiles.k[t])
        for column in range(NUMBERS):
            if column == SIDES:
                for text in range(int64(tiles.varied) + 1):
                    if text == int64(tiles.varied):
                        at = put_piece(out, at, pieces, OBJECT)
                    begin = at
                    at = put_until(out, at, tiles.text, name, NUL)
                    name += at - begin + 1
            at = put_piece(out, at, pieces, NUMBER + column)
            begin = at
            at = put_until(out, at, tiles.text, number, COMMA)
            number += at - begin + 1
            at = without_point(out, begin, at, tiles.numbers[t, column])
        at = put_piece(out, at, pieces, CREATED)
        at = put_integer(out, at, tiles.created[t])
        if tiles.varied:
            begin = at
            at = put_until(out, at, tiles.text, name, NUL)
            name += at - begin + 1
        at = put_piece(out, at, pieces, IS_GONE if tiles.gone[t] else IS_THERE)
        ends[t] = at
    return at
