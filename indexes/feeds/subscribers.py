"""Subscriptions by slot: what each asks for, and its buffer, in as few lines of memory as can be.

What every post needs of a subscription that it may reach is a row of one line. Its terms lie behind each other in
code-point order of the words, four to a line, and its buffer is a run of two columns: scores, and tags that say which
post it is and by how many others it is dominated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.feeds.arena import Arena
from indexes.feeds.theta import Buffering
from indexes.feeds.weights import weigh
from indexes.feeds.words import Documents
from indexes.lean import lean_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

ROW = 8
"""Fields of a row."""

X, Y, ALPHA, THETA = range(4)
"""Fields of `Subscribers.row`; what follows is read through `Subscribers.note`."""

TERM, WORDS, ENTRY, STAMP = range(4, 8)
"""Where its terms begin and how many there are, where its buffer begins, and when it was looked at last."""

SLOTS = 1 << 31
"""Slots are below that."""

POSTS = 1 << 12
"""A tag is the number of a post times this, and by how many posts it is dominated: fewer than k, which is below."""


class Subscribers(NamedTuple):
    """The arrays."""

    row: Float64  # by slot, ROW each
    note: Int64  # the same memory
    k: Int32  # by slot, as all up to `short`
    held: Int32  # entries of its buffer
    kind: Int32  # which row of the ranks is its
    complete: NDArray[np.uint8]  # all that is eligible was in the buffer when it was evaluated
    there: NDArray[np.uint8]
    followed: NDArray[np.uint8]
    cell: Int32
    changed: Int64  # when its list changed last, and when it was noted to be evaluated anew
    short: Int64
    term: Float64  # by term: word, unit weight
    raw: Float64  # by term: weight as given, length of the weights from here on in order of rarity
    score: Float64  # by entry of a buffer
    tag: Int64


class Table:
    """The subscriptions, and who has which slot."""

    def __init__(self, buffering: Buffering) -> None:
        none, i32, u8 = np.empty(0), np.empty(0, np.int32), np.empty(0, np.uint8)
        i64 = none.view(np.int64)
        self.arrays = Subscribers(none, i64, i32, i32, i32, u8, u8, u8, i32, i64, i64, none, none, none, i64)
        self._buffering = buffering
        self._slots, self._terms, self._entries = Arena(), Arena(), Arena()
        self.count = 0
        self.terms = 0

    def __len__(self) -> int:
        return self.count

    @property
    def end(self) -> int:
        """All slots are below."""
        return self._slots.end

    def slots(self) -> Int64:
        """Of all subscriptions, ascending. O(slots)."""
        return np.flatnonzero(self.arrays.there[: self.end])

    def put(self, documents: Documents, points: Float64, k: Int64, alpha: Float64) -> Int64:
        """Subscriptions come, with empty buffers and no unit weights yet. Returns their slots. O(words + k) each."""
        slots = self._slots.take(np.ones(len(documents), np.int64))
        self._fill(slots, documents, points, k, alpha)
        return slots

    def change(self, slots: Int64, documents: Documents, points: Float64, k: Int64, alpha: Float64) -> None:
        """Others take the place of these subscriptions."""
        followed = self.arrays.followed[slots].copy()
        self._empty(slots)
        self._fill(slots, documents, points, k, alpha)
        self.arrays.followed[slots] = followed

    def remove(self, slots: Int64) -> None:
        """Subscriptions go."""
        self._empty(slots)
        self._slots.give_back(slots, np.ones(len(slots), np.int64))

    def _fill(self, slots: Int64, documents: Documents, points: Float64, k: Int64, alpha: Float64) -> None:
        words = np.diff(documents.end, prepend=0)
        term, entry = self._terms.take(_room_of(words)), self._entries.take(self._buffering.room(k))
        self._reserve()
        s = self.arrays
        row, note = s.row.reshape(-1, ROW), s.note.reshape(-1, ROW)
        row[slots, X], row[slots, Y] = points.T + 0.0
        row[slots, ALPHA], row[slots, THETA] = alpha, 0.0
        note[slots, TERM], note[slots, WORDS], note[slots, ENTRY], note[slots, STAMP] = term, words, entry, 0
        s.k[slots], s.kind[slots], s.held[slots] = k, self._buffering.kinds(k), 0
        s.complete[slots], s.there[slots], s.followed[slots], s.cell[slots] = 1, 1, 0, -1
        at = _places(term, words)
        s.term[2 * at], s.raw[2 * at] = documents.word, documents.weight
        self.count += len(slots)
        self.terms += len(documents.word)

    def _empty(self, slots: Int64) -> None:
        s = self.arrays
        note = s.note.reshape(-1, ROW)
        self._terms.give_back(note[slots, TERM], _room_of(note[slots, WORDS]))
        self._entries.give_back(note[slots, ENTRY], self._buffering.room(s.k[slots].astype(np.int64)))
        s.there[slots] = s.held[slots] = 0
        self.count -= len(slots)
        self.terms -= int(note[slots, WORDS].sum())

    def _reserve(self) -> None:
        s = self.arrays
        if self._slots.end > len(s.k):
            room = max(self._slots.end, 3 * len(s.k) // 2, 64)
            row = _longer(s.row, room * ROW)
            more = {name: _longer(getattr(s, name), room) for name in Subscribers._fields[2:11]}
            s = s._replace(row=row, note=row.view(np.int64), **more)
        if 2 * self._terms.end > len(s.term):
            room = max(self._terms.end, 3 * len(s.term) // 4, 64)
            s = s._replace(term=_longer(s.term, 2 * room), raw=_longer(s.raw, 2 * room))
        if self._entries.end > len(s.score):
            room = max(self._entries.end, 3 * len(s.score) // 2, 64)
            s = s._replace(score=_longer(s.score, room), tag=_longer(s.tag, room))
        self.arrays = s


def _room_of(words: Int64) -> Int64:
    """Terms lie four to a line; longer runs are powers of two, so that few lengths are there."""
    return np.maximum(4, 1 << np.ceil(np.log2(np.maximum(1, words))).astype(np.int64))


def terms_at(note: Int64) -> Int64:
    """Where the terms of these rows (n, ROW) are, one's behind the other's. O(terms)."""
    return _places(note[:, TERM], note[:, WORDS])


def _places(begin: Int64, length: Int64) -> Int64:
    """The places of runs, one's behind the other's."""
    end = np.cumsum(length)
    return np.repeat(begin - end + length, length) + np.arange(int(end[-1]) if len(end) else 0)


def _longer(column: NDArray, room: int) -> NDArray:
    longer = aligned.zeros(room, column.dtype)
    longer[: len(column)] = column
    return longer


@lean_kernel
def weigh_subscriptions(s, idf, slots):  # type: ignore[no-untyped-def]
    """Give the terms of these subscriptions their unit weights. O(words)."""
    for i in range(slots.size):
        begin = s.note[slots[i] * ROW + TERM]
        weigh(s.term, s.raw, idf, begin, begin + s.note[slots[i] * ROW + WORDS], -1, s.term, 1, 2)
