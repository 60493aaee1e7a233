"""Scratch of the work on one post, and the changed lists that it reports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import Bytes, Floats, Ints, Ints32
from indexes.feeds.kernels.arena import grown
from indexes.feeds.kernels.nearness import WORD_RATIOS

BLOCKS, OPENED, VISITED, SCORED, HITS, EXPIRED = range(6)
"""Places in `Scratch.counted`: blocks of the words of posts, blocks opened, postings read, scores computed, posts that
entered buffers, and entries of buffers that expired."""

TURN, AT, PHASE, NEXT_SHORT, SHORT, CHANGED, LINES_USED, ROWS_USED, REACHED, CELL, CELLS_END, APART = range(12)
"""Places in `Scratch.size`: the number of the step; the next post of the batch and its phase; the next subscription to
be evaluated and how many there are; the number of followed lists that changed in this step; lines and rows of the
report; the number of lists that hold the newest post; the first cell whose subscriptions are served, and the one after
the last; and whether posts enter and leave the window apart from this, so that the numbers of the window are a copy."""

ALL_CELLS = 1 << 31
"""More than there are cells."""

NO_CELL = -1
"""The cell of a subscription that is not indexed."""

SEEN = 1_024
"""Subscriptions that are scored together."""


class Scratch(NamedTuple):
    """The arrays."""

    turn: Ints  # the number of the step, alone
    vector: Floats  # by word + 1: its weight in the post; 0 comes first
    has: Ints  # by word, 64 each: whether the post has it
    word: Ints  # the post's words in order of rarity, and their weights
    weight: Floats
    level: Ints  # and of the weights from each on: the level, and `WORD_RATIOS` greatest lengths over that of a level
    ratio: Floats
    limit: Ints32  # by cell: the greatest similarity of a place in it
    block: Ints  # where lists that are opened begin and end, and the greatest bound that is read
    end: Ints
    bound: Ints
    ratios: Ints  # and where their ratios begin
    seen: Ints  # keys read from them that are near enough
    seen_ratios: Ints  # and where the ratios of their lists begin
    hit: Ints32  # slots that the post reaches, and its scores
    hit_score: Floats
    marked: Bytes  # by slot, 8 each: whether it is a hit
    sum: Floats  # by slot: the text part so far, for indexes whose postings carry weights
    short: Ints32  # slots to be evaluated
    changed: Ints32  # slots whose lists changed
    line_step: Ints32  # by line of the report: the step of the batch, the slot whose list changed, the end of its rows
    line_slot: Ints32
    line_end: Ints
    row_post: Ints  # by row: an entry of a changed list of a followed subscription
    row_score: Floats
    counted: Ints
    size: Ints


def empty_scratch() -> Scratch:
    """Scratch without room."""
    f64, i32, i64, u8 = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint8)
    return Scratch(
        turn=np.zeros(1, np.int64), vector=f64, has=i64, word=i64, weight=f64, level=i64, ratio=f64, limit=i32,
        block=i64, end=i64, bound=i64, ratios=i64, seen=i64, seen_ratios=np.empty(SEEN + 2 * LANES, np.int64), hit=i32,
        hit_score=f64, marked=u8, sum=f64, short=i32, changed=i32, line_step=i32, line_slot=i32, line_end=i64,
        row_post=i64, row_score=f64, counted=np.zeros(6, np.int64), size=np.array([0] * 9 + [NO_CELL, ALL_CELLS, 0]),
    )  # fmt: skip


class Reads(NamedTuple):
    """What finding the recipients of a post may read, at most."""

    cells: int
    blocks: int
    postings: int
    sums: int = 0
    """Slots whose text parts are summed."""


def with_room(scratch: Scratch, words: int, terms: int, reads: Reads, slots: int) -> Scratch:
    """Scratch for so many words, terms of a post and slots, and an index that reads so much. No step is under way:
    columns that grow lose what is in them, so that their pages take no memory until they are written to."""
    # What may be a hit is written behind the hits before it is tested.
    room = dict.fromkeys(("hit", "hit_score"), slots + 1) | dict.fromkeys(("short", "changed"), slots)
    room |= {"vector": words + 1, "has": words // 64 + 1, "ratio": WORD_RATIOS * terms}
    room |= dict.fromkeys(("word", "weight", "level"), terms)
    room |= {"marked": slots // 8 + 1, "limit": reads.cells, "seen": reads.postings, "sum": reads.sums}
    # A word has one block a cell, and posts may be searched for again.
    blocks = min(reads.blocks, max(terms, len(scratch.word)) * reads.cells)
    room |= dict.fromkeys(("block", "end", "bound", "ratios"), blocks)
    short = _short(scratch, room)
    return scratch._replace(**{name: aligned.apart(n, old.dtype) for name, (old, n) in short.items()})


def with_report(scratch: Scratch, lines: int, rows: int) -> Scratch:
    """Scratch with room for so many lines and rows beyond those in use."""
    lines, rows = lines + int(scratch.size[LINES_USED]), rows + int(scratch.size[ROWS_USED])
    room = dict.fromkeys(("line_step", "line_slot", "line_end"), lines)
    short = _short(scratch, room | {"row_post": rows, "row_score": rows})
    return scratch._replace(**{name: grown(old, n) for name, (old, n) in short.items()})


def _short(scratch: Scratch, room: dict[str, int]) -> dict[str, tuple[NDArray, int]]:
    """The columns that have less room than this, and how long they shall be."""
    columns = {name: (getattr(scratch, name), n) for name, n in room.items()}
    return {name: (old, max(n, 3 * len(old) // 2)) for name, (old, n) in columns.items() if len(old) < n}
