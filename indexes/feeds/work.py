"""Room for the work that one post makes, and what it says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

BLOCKS, OPENED, VISITED, SCORED, HITS, EXPIRED = range(6)
"""Places in `Work.counted`: blocks of the words of posts, those that were opened, postings read, scores worked out,
posts that came into buffers, and entries of buffers that expired."""

TURN, AT, PHASE, NEXT_SHORT, SHORT, CHANGED, TOLD, ROWS = range(8)
"""Places in `Work.size`: the number of the step; the post of the batch that is next and how far that is; the next
subscription to be evaluated and how many there are; how many lists changed in this step; and how many lines and rows
have been told."""


class Work(NamedTuple):
    """The arrays."""

    turn: Int64  # the number of the step, alone
    vector: Float64  # by word: its weight in the post
    word: Int64  # the post's words in order of rarity, and their weights
    length: Float64
    limit: Int32  # by cell: how similar a place in it can be
    block: Int64  # lists that are opened, and up to which key
    bound: Int64
    seen: Int32  # slots in them
    hit: Int32  # slots that are reached, and with which score
    hit_score: Float64
    sum: Float64  # by slot: what words give so far, where postings carry weights
    short: Int32  # slots to be evaluated
    changed: Int32  # slots whose lists changed
    told_step: Int32  # by line: in which step of the batch whose list changed, and where its rows end
    told_slot: Int32
    told_end: Int64
    row_post: Int64  # the lists of those that are followed
    row_score: Float64
    counted: Int64
    size: Int64


def empty_work() -> Work:
    """Without room."""
    f64, i32, i64 = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64)
    return Work(
        np.zeros(1, np.int64), f64, i64, f64, i32, i64, i64, i32, i32, f64, f64, i32, i32, i32, i32, i64, i64, f64,
        np.zeros(6, np.int64), np.zeros(8, np.int64),
    )  # fmt: skip


def with_work(
    z: Work, words: int, terms: int, cells: int, blocks: int, postings: int, slots: int, lines: int, rows: int
) -> Work:
    """With room for so many words, terms of a post, cells, blocks, postings of the words of a post, and slots; and
    for so many lines and rows more than have been told."""
    lines, rows = lines + int(z.size[TOLD]), rows + int(z.size[ROWS])
    room = {
        "vector": words,
        "word": terms,
        "length": terms,
        "limit": cells,
        "block": blocks,
        "bound": blocks,
        "seen": postings,
        "hit": slots,
        "hit_score": slots,
        "sum": slots,
        "short": slots,
        "changed": slots,
        "told_step": lines,
        "told_slot": lines,
        "told_end": lines,
        "row_post": rows,
        "row_score": rows,
    }
    short = {name: n for name, n in room.items() if len(getattr(z, name)) < n}
    if short:
        z = z._replace(**{name: _longer(getattr(z, name), n) for name, n in short.items()})
    return z


def _longer(column: NDArray, room: int) -> NDArray:
    longer = aligned.zeros(max(room, 3 * len(column) // 2), column.dtype)
    longer[: len(column)] = column
    return longer
