"""Changes of lists as JSON text: as with tiles (`tile_text`), texts and integers are laid out between constant pieces.

Numbers with a fraction are written beforehand, in one call of a JSON writer, and copied to where they belong.
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.compiled.jit import kernel
from indexes.compiled.text import (
    COMMA,
    DIGITS,
    EXACT,
    NUL,
    Pieces,
    put_integer,
    put_piece,
    put_until,
)
from indexes.core.arrays import Bytes, Floats, Ints, Rows, int64, uint64

HEAD, MIDDLE, FIRST, NEXT, OLD_RANK, NEW_RANK, NULL, X, Y, CREATED, END = range(11)
"""Constant pieces of text: HEAD and MIDDLE come before the first and the second seq of a change, FIRST and NEXT before
the id of its first record and of any other, END behind the change. In a record OLD_RANK, NEW_RANK, X, Y and CREATED
come before these values, and NULL is written for a rank that there is not.
"""

MINUS = 45
"""A character."""


class ChangeTexts(NamedTuple):
    """What changes say, by column: the records of each are those up to the one in `ends`.

    A row of `numbers` has x and y; `text` has those that are not written as whole numbers as JSON, a COMMA behind each,
    and from `names` on the id of each object, a NUL behind each.
    """

    ends: Ints
    seq: Ints
    old_rank: Rows
    new_rank: Rows
    created: Ints
    numbers: Floats
    text: Bytes
    names: int


def most_bytes(pieces: Pieces, changes: ChangeTexts) -> int:
    """At least as many bytes as `write_changes` writes."""
    each = len(pieces.text) + 7 * (DIGITS + 1)
    return each * len(changes.seq) + len(changes.text)


@kernel
def write_changes(out: Bytes, pieces: Pieces, changes: ChangeTexts) -> int:
    """Write changes one behind the other. Returns the number of bytes, for which `out` has room if it has
    `most_bytes`. O(bytes)."""
    at, number, name, record = int64(0), int64(0), changes.names, int64(0)
    for c in range(len(changes.ends)):
        seq, first, end = changes.seq[uint64(record)], record, changes.ends[uint64(c)]
        for piece in range(HEAD, FIRST):
            at = put_piece(out, at, pieces, piece)
            at = put_integer(out, at, seq)
        while record < end:
            at = put_piece(out, at, pieces, FIRST if record == first else NEXT)
            begin = at
            at = put_until(out, at, changes.text, name, NUL)
            name += at - begin + 1
            new_rank = int64(changes.new_rank[uint64(record)])
            rank = int64(changes.old_rank[uint64(record)])
            for piece in range(OLD_RANK, NULL):
                at = put_piece(out, at, pieces, piece)
                if rank > 0:
                    at = put_integer(out, at, rank)
                else:
                    at = put_piece(out, at, pieces, NULL)
                rank = new_rank
            behind = at
            for column in range(2):
                at = put_piece(out, at, pieces, X + column)
                value = changes.numbers[uint64(record), column]
                if abs(value) <= EXACT and value == int64(value):
                    if value < 0.0:
                        out[uint64(at)] = MINUS
                        at += 1
                    at = put_integer(out, at, abs(int64(value)))
                else:
                    begin = at
                    at = put_until(out, at, changes.text, number, COMMA)
                    number += at - begin + 1
            if new_rank > 0:
                at = put_piece(out, at, pieces, CREATED)
                at = put_integer(out, at, changes.created[uint64(record)])
            else:
                # What has left the list has no values any more.
                at = behind
            record += 1
        at = put_piece(out, at, pieces, END)
    return at
