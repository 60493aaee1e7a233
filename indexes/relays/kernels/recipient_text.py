"""Ids of recipients as JSON text, without a string for each. Ids have no characters that JSON escapes."""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.compiled.text import COMMA, DIGITS, WIDE, Pieces, pieces_of, put_integer, put_piece
from indexes.core.arrays import Bytes, Ints, Ints32, int64, uint64
from indexes.core.texts import Placed, put_text

QUOTE = 34

SEQ, OPEN, CLOSE = range(3)
"""The constant text before the seq of an answer, before the first id, and behind a tail."""

PIECES = pieces_of(['{"seq":', ',"results":[{"subscriptions":[', "]}\n"])


def quoted(ids: Placed, ends: Ints) -> tuple[Bytes, Ints]:
    """The ids in quotes and separated by commas, between one of the `ends`, of which the first is 0, and the next.
    Where the text of each such list ends. O(bytes)."""
    upto = np.empty(len(ends) - 1, np.int64)
    out = np.empty(_most_bytes(ids), np.uint8)
    _write_lists(out, upto, ids, ends)
    return out, upto


def write_answers(ids: Placed, ends: Ints, seq: int, tails: Pieces, tail: Ints32) -> tuple[Bytes, Ints]:
    """The answers to requests with a notification each, of which the first has this seq: of each the ids up to one of
    the `ends`, and behind them the one of the `tails` with that number in `tail`. Where the text of each ends.
    O(bytes)."""
    upto, each = np.empty(len(ends), np.int64), len(PIECES.text) + DIGITS + len(tails.text)
    out = np.empty(_most_bytes(ids) + len(ends) * each, np.uint8)
    _write_answers(out, upto, ids, ends, PIECES, seq, tails, tail)
    return out, upto


def _most_bytes(ids: Placed) -> int:
    """An upper bound of the bytes of the ids with quotes and commas, and of what `put_over` writes behind them."""
    return ids.size + 3 * len(ids.at) + 2 * WIDE


@internal
def _put_ids(out: Bytes, to: int, ids: Placed, begin: int, end: int) -> int:
    """Write some of the ids; returns the place behind them."""
    (base_text, base), (later_text, later), at, _ = ids
    n = len(base) - 1
    for i in range(begin, end):
        out[uint64(to)] = QUOTE
        to = put_text(out, to + 1, base_text, base, later_text, later, n, int64(at[uint64(i)]))
        out[uint64(to)] = QUOTE
        out[uint64(to + 1)] = COMMA
        to += 2
    return to - int64(end > begin)


@kernel
def _write_lists(out: Bytes, upto: Ints, ids: Placed, ends: Ints) -> None:
    """Write the lists, one behind the other."""
    to = int64(0)
    for e in range(len(upto)):
        to = _put_ids(out, to, ids, ends[e], ends[e + 1])
        upto[e] = to


@kernel
def _write_answers(
    out: Bytes, upto: Ints, ids: Placed, ends: Ints, pieces: Pieces, seq: int, tails: Pieces, tail: Ints32
) -> None:
    """Write the answers, one behind the other."""
    to, begin = int64(0), int64(0)
    for e in range(len(upto)):
        to = put_piece(out, to, pieces, SEQ)
        to = put_integer(out, to, seq + e)
        to = put_piece(out, to, pieces, OPEN)
        to = _put_ids(out, to, ids, begin, ends[e])
        to = put_piece(out, to, tails, int64(tail[e]))
        to = put_piece(out, to, pieces, CLOSE)
        upto[e], begin = to, ends[e]
