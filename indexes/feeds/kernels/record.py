"""A post that came alone, from its request to the window in one piece of memory, its `record`.

Between two commits all that a post touches has left the caches, so that each array that is made of it, and each call
that looks at one, takes several times as long as where posts follow each other. One kernel cuts the record out of a
request, and another one lays it out as the batch that is published.

A record begins with numbers of eight bytes: the place, with 0 for -0, the head (`HEAD_OF`), and the weights of the
words, NaN for those of a list. Behind them are the words, with a SPACE behind each, and the id, which may be missing.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import short_kernel
from indexes.compiled.kept import Keeper, Words, declare, unpacked
from indexes.compiled.text import put
from indexes.core.arrays import int64, uint64
from indexes.core.cutting import NEWLINE
from indexes.core.known_ids import KnownIds, look_up_from, remember_from
from indexes.feeds.kernels.cut_posts import COUNT, IDS, LISTED, NAMES, TABLES, WORDS, cut_posts, room
from indexes.feeds.kernels.window import WORDS_OF_ONE, OnePost, Window, empty_window, has_room
from indexes.feeds.kernels.word_order import in_order

LONGEST = 1 << 11
"""Bytes of a body that becomes a record."""

BEHIND = 64
"""Bytes behind the longest body, and behind a record, which may be read: more than in any name."""

PLACE, HEAD, WEIGHTS = 0, 2, 7
"""Where the numbers of a record begin."""

ROOM = 8 * (WEIGHTS + WORDS_OF_ONE) + LONGEST
"""Bytes of a record, at most."""

NO_ROOM = -1
"""What `lay_out` returns where the window has no room."""

_MINUS_ZERO = uint64(1 << 63)


HEAD_OF = Struct("=16x5q")
"""The head of a record: how many words there are, and how many of these have no weight; whether they are in order, none
of them twice; and the bytes of all of them, with their spaces, and of the id."""


class KeptBody(NamedTuple):
    """A body with its span, what names and numbers are read by, what is cut, and the record, as bytes and as numbers,
    as kernels keep them."""

    words: Words


class Cutter:
    """Makes records of bodies, in memory that is kept: to be used by one thread."""

    def __init__(self) -> None:
        text, record = np.zeros(LONGEST + BEHIND, np.uint8), np.zeros(ROOM, np.uint8)
        self._text, self._record = text.data, record.data
        # The words that are kept count no references.
        self._keeper = Keeper(KeptBody)
        span, out = np.zeros(2, np.int64), room(LONGEST, 1)
        self._kept = self._keeper.kept((text, span, NAMES, TABLES, out, record, record.view(np.uint64)))

    def record(self, body: bytes | bytearray) -> bytearray | None:
        """The record of the one post of a body; None where the body may have another one, has too many words, or may be
        wrong: see `cut_posts`. Only words of ASCII are surely casefolded. O(bytes)."""
        size = len(body)
        if size > LONGEST:
            return None
        self._text[:size] = body
        end = cut_record(self._kept, size)
        return bytearray(self._record[:end]) if end else None


def _cut_example() -> tuple[Any, ...]:
    byte, number = np.zeros(1, np.uint8), np.zeros(1, np.uint64)
    return byte, np.zeros(2, np.int64), NAMES, TABLES, room(1, 1), byte, number


declare(KeptBody, _cut_example)


@short_kernel
def cut_record(kept: Any, size: int) -> int:
    """Make a record of the body, which has so many bytes; returns how many the record has, 0 where it cannot be made.
    O(bytes)."""
    text, span, names, tables, out, record, numbers = unpacked(kept)
    span[0], span[1] = 0, size
    # A character is behind each body, and no digit of the last one.
    text[size] = NEWLINE
    for i in range(len(out.size)):
        out.size[i] = int64(0)
    count = int64(0)
    if cut_posts(text, span, names, tables, out) == 1:
        count = out.size[COUNT]
    if not 0 < count <= WORDS_OF_ONE:
        return int64(0)
    for i in range(2):
        place = out.places[i]
        numbers[PLACE + i] = uint64(0) if place == _MINUS_ZERO else place
    id_size = out.size[IDS] - 1
    numbers[HEAD], numbers[HEAD + 1] = uint64(count), uint64(out.size[LISTED])
    numbers[HEAD + 2] = uint64(1 if in_order(out.words, out.word_end) else 0)
    numbers[HEAD + 3], numbers[HEAD + 4] = uint64(out.size[WORDS]), uint64(id_size)
    for i in range(count):
        numbers[WEIGHTS + i] = out.weights[i]
    at = put(record, 8 * (WEIGHTS + count), out.words, 0, out.size[WORDS])
    return put(record, at, out.ids, 0, id_size)


class KeptRecord(NamedTuple):
    """A record, as bytes and as both kinds of numbers, the batch that it becomes, the numbers of words that are known
    (`KnownIds`), and the window that it enters, as kernels keep them."""

    words: Words


class OneRecord(OnePost):
    """A batch of one post that a record may be laid out to."""

    def __init__(self) -> None:
        super().__init__()
        record = np.zeros(ROOM + BEHIND, np.uint8)
        self._record = record.data
        self._parts = record, record.view(np.uint64), record.view(np.float64), self.batch
        self._keeper = Keeper(KeptRecord)

    def kept(self, record: bytearray, known: KnownIds, window: Window) -> KeptRecord:
        """Take a record, whose batch is for this window. What it returns is for `lay_out`, and for `learn` once the
        batch has the numbers of all words. O(bytes)."""
        self._record[: len(record)] = record
        return self._keeper.kept((*self._parts, known.slots, window))


declare(
    KeptRecord,
    lambda: (
        np.zeros(1, np.uint8), np.zeros(1, np.uint64), np.zeros(1), OnePost().batch, np.zeros((1, 4), np.uint64),
        empty_window(),
    ),
)  # fmt: skip


@short_kernel
def lay_out(kept: Any, time: int, generation: int) -> int:
    """Write the batch of the record. Returns how many of its words are not known, whose numbers in the batch are below
    0, or NO_ROOM where all are and the window has no room for the post. O(bytes)."""
    record, numbers, floats, batch, slots, window = unpacked(kept)
    count = int64(numbers[HEAD])
    batch.points[0, 0], batch.points[0, 1] = floats[PLACE], floats[PLACE + 1]
    batch.time[0], batch.end[0] = time, count
    for i in range(count):
        weight = floats[WEIGHTS + i]
        batch.weight[i] = weight if weight == weight else 1.0
    unknown = look_up_from(slots, generation, record, 8 * (WEIGHTS + count), batch.word, count)
    return unknown if unknown > 0 or has_room(window, batch) else NO_ROOM


@short_kernel
def learn(kept: Any, generation: int) -> None:
    """Know the words of the record from now on, by the numbers that the batch has."""
    record, numbers, _, batch, slots, _ = unpacked(kept)
    count = int64(numbers[HEAD])
    remember_from(slots, generation, record, 8 * (WEIGHTS + count), batch.word, count)
