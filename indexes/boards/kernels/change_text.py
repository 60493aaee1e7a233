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

TEXT, MIDDLE_SIZE, HEAD_BYTES = 0x81, 126, 4
"""How the frame of a text message begins whose size takes two bytes, and how many bytes there are before the text."""


class ChangeTexts(NamedTuple):
    """What changes say, by column: the records of each are those up to the one in `ends`.

    A row of `numbers` has x and y; `text` has those that are not written as whole numbers as JSON, a COMMA behind each,
    and from `names` on the id of each object, a NUL behind each. `prefixes` has what comes before each change in its
    frame, a NUL behind each; where it is empty, changes are not in frames.
    """

    ends: Ints
    seq: Ints
    old_rank: Rows
    new_rank: Rows
    created: Ints
    numbers: Floats
    text: Bytes
    names: int
    prefixes: Bytes


def most_bytes(pieces: Pieces, changes: ChangeTexts) -> int:
    """At least as many bytes as `write_changes` writes."""
    each = len(pieces.text) + 7 * (DIGITS + 1)
    return (each + HEAD_BYTES) * len(changes.seq) + len(changes.text) + len(changes.prefixes)


@kernel
def write_changes(out: Bytes, begins: Ints, ends: Ints, pieces: Pieces, changes: ChangeTexts) -> int:
    """Write changes one behind the other, with where each begins and ends. Returns the number of bytes, for which `out`
    has room if it has `most_bytes`. O(bytes).

    Before a change in a frame are its head and its prefix. The head is that of a text of 126 to 65,535 bytes, whatever
    the size is.
    """
    at, number, name, record, prefix = int64(0), int64(0), changes.names, int64(0), int64(0)
    framed = len(changes.prefixes) > 0
    for c in range(len(changes.ends)):
        frame = at
        if framed:
            begin = at = frame + HEAD_BYTES
            at = put_until(out, at, changes.prefixes, prefix, NUL)
            prefix += at - begin + 1
        begins[uint64(c)] = at
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
        ends[uint64(c)] = at
        if framed:
            size = at - frame - HEAD_BYTES
            out[uint64(frame)], out[uint64(frame + 1)] = TEXT, MIDDLE_SIZE
            out[uint64(frame + 2)], out[uint64(frame + 3)] = (size >> 8) & 0xFF, size & 0xFF
    return at
