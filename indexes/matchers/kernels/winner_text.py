"""The winners of events as JSON text, out of columns: see `indexes.compiled.text`."""

from __future__ import annotations

from typing import NamedTuple

from indexes.compiled.jit import kernel
from indexes.compiled.text import (
    COMMA,
    DIGITS,
    Pieces,
    pieces_of,
    put,
    put_integer,
    put_piece,
    put_until,
    without_point,
)
from indexes.core.arrays import Bytes, Floats, Ints, int64

SEQ, OPEN, ID, SCORE, END, CLOSE = range(6)
"""What stands before the seq, before the winners, before an id (the first one without the comma), before and behind a
score, and behind the winners."""

PIECES = pieces_of(['{"seq":', ',"results":[{"winners":[', ',{"id":"', '","score":', "}", "]}]}\n"])


class WinnerTexts(NamedTuple):
    """The winners of several events by column, one event behind the other.

    `sizes[t]` of them are event t's, of which as many as `most[t]` are shown. The id of winner i is
    ``ids[offset[i] : offset[i + 1]]``. `number_text` has all `scores` as JSON, a COMMA behind each.
    """

    sizes: Ints
    most: Ints
    ids: Bytes
    offset: Ints
    scores: Floats
    number_text: Bytes


def most_bytes(winners: WinnerTexts) -> int:
    """At least as many bytes as `write_answers` writes."""
    texts = len(winners.ids) + len(winners.number_text)
    return texts + (len(winners.sizes) + len(winners.scores)) * (len(PIECES.text) + DIGITS)


@kernel
def write_answers(out: Bytes, ends: Ints, pieces: Pieces, seq: int, step: int, winners: WinnerTexts) -> int:
    """Write the answer to each event, which `ends` at these places; the first has this seq, and each following one
    `step` more. Returns the number of bytes, for which `out` has room if it has `most_bytes`. O(bytes)."""
    at, number, i = int64(0), int64(0), int64(0)
    for t in range(len(winners.sizes)):
        at = put_piece(out, at, pieces, SEQ)
        at = put_integer(out, at, seq + t * step)
        at = put_piece(out, at, pieces, OPEN)
        for rank in range(winners.sizes[t]):
            kept = at
            if rank == 0:
                at = put(out, at, pieces.text, pieces.begin[ID] + 1, pieces.begin[ID + 1] - pieces.begin[ID] - 1)
            else:
                at = put_piece(out, at, pieces, ID)
            at = put(out, at, winners.ids, winners.offset[i], winners.offset[i + 1] - winners.offset[i])
            at = put_piece(out, at, pieces, SCORE)
            begin = at
            at = put_until(out, at, winners.number_text, number, COMMA)
            number += at - begin + 1
            at = without_point(out, begin, at, winners.scores[i])
            at = put_piece(out, at, pieces, END)
            if rank >= winners.most[t]:
                # It is passed over.
                at = kept
            i += 1
        at = put_piece(out, at, pieces, CLOSE)
        ends[t] = at
    return at
