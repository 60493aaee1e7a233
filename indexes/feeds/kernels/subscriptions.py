"""Subscriptions by slot: their queries and buffers, in as few cache lines as possible.

All that a post needs to score a subscription is a row of one line and the terms, which lie one after the other in
code-point order of the words, four to a line, from the begin of a line or the middle of one. The row also has what
changes when a post enters or leaves the buffer: `words`, `held`, `k` and `kind` are 16-bit columns within the rows. A
buffer is a run of two columns that begins with a line: scores, and tags, each the number of a post and by how many
others it is dominated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, kernel
from indexes.compiled.simd import prefetch_line
from indexes.core import aligned
from indexes.core.arrays import Bytes, Floats, Int16s, Ints, Ints32, run_lengths, run_places
from indexes.feeds.kernels.arena import Arena, grown
from indexes.feeds.kernels.weights import weigh
from indexes.feeds.theta import Buffering
from indexes.feeds.words import Documents

ROW = 8
"""Fields of a row."""

X, Y, ALPHA, THETA = range(4)
"""Fields of `Subscribers.row`; those that follow are read through `Subscribers.note`."""

TERM, SMALL, ENTRY, OLDEST = range(4, 8)
"""Where its terms begin, the four 16-bit columns, where its buffer begins, and a lower bound of the numbers of the
posts in the buffer."""

POSTS = 1 << 12
"""A tag is the number of a post times this, plus the number of posts that dominate it: fewer than k, which is less."""

MOST_WORDS = (1 << 15) - 1
"""Words of a subscription, at most."""

TERMS = 4
"""Terms that are read together. There are so many behind the last one."""

LARGEST = (1 << 48) - 1
"""No place in a column is greater. `x & LARGEST` is x for one of these; compiled code need not ask then whether it is
negative, which for an index means a place from the end."""


class Subscribers(NamedTuple):
    """The arrays."""

    row: Floats  # by slot, ROW each
    note: Ints  # the same memory
    words: Int16s  # the same memory, as the next three; by slot: how many terms
    held: Int16s  # entries of its buffer
    k: Int16s
    kind: Int16s  # its row of `theta.Limits`
    complete: Bytes  # by slot, as all up to `cell`: its last evaluation put all posts that share a word into the buffer
    there: Bytes
    followed: Bytes
    noted: Bytes  # whether it is noted in this step as changed, if it is followed, and as short
    cell: Ints32
    term: Floats  # by term: word, unit weight
    raw: Floats  # by term: weight as given, length of the weights from it on in order of rarity
    score: Floats  # by entry of a buffer
    tag: Ints


WITHIN = ("note", "words", "held", "k", "kind")
"""Columns within the memory of `row`."""

BY_SLOT = ("complete", "there", "followed", "noted", "cell")


def within(row: Floats) -> dict[str, Any]:
    """The columns `WITHIN` of rows, of which there are two at least: numba has another type for a column of one."""
    note: Ints = row.view(np.int64)
    small: Int16s = row.view(np.int16).reshape(-1, 4 * ROW)[:, 4 * SMALL : 4 * SMALL + 4]
    return {"note": note} | {name: small[:, i] for i, name in enumerate(WITHIN[1:])}


@inlined
def buffer_of(table: Subscribers, slot: int) -> int:
    """Where the buffer of a subscription begins."""
    return table.note[slot * ROW + ENTRY] & LARGEST


@inlined
def held_by(table: Subscribers, slot: int) -> int:
    """As `table.held[slot]`, from the line of the row that is read anyway."""
    return (table.note[slot * ROW + SMALL] >> 16) & 0xFFFF


@inlined
def prefetch_terms(table: Subscribers, slot: int) -> None:
    """Prefetch the terms of a subscription, or the first of them."""
    begin = 2 * (table.note[(slot & LARGEST) * ROW + TERM] & LARGEST)
    prefetch_line(table.term, begin)
    prefetch_line(table.term, begin + 2 * TERMS - 1)


class Table:
    """The subscriptions, and the allocation of their slots, terms and buffers."""

    def __init__(self, buffering: Buffering) -> None:
        none, i32, u8 = np.empty(0), np.empty(0, np.int32), np.empty(0, np.uint8)
        i64, row = none.view(np.int64), aligned.zeros(2 * ROW)
        self.arrays = Subscribers(
            row=row, **within(row), complete=u8, there=u8, followed=u8, noted=u8,
            cell=i32, term=none, raw=none, score=none, tag=i64,
        )  # fmt: skip
        self._buffering = buffering
        self._slots, self._terms, self._entries = Arena(), Arena(), Arena()
        self.count = 0
        self.terms = 0

    def __len__(self) -> int:
        return self.count

    @property
    def end(self) -> int:
        """All slots are less."""
        return self._slots.end

    def slots(self) -> Ints:
        """The slots of all subscriptions, ascending. O(slots)."""
        return np.flatnonzero(self.arrays.there[: self.end])

    def put(self, documents: Documents, points: Floats, k: Ints, alpha: Floats) -> Ints:
        """Add subscriptions, with empty buffers and without unit weights. Returns their slots. O(words + k) each."""
        slots = self._slots.take(np.ones(len(documents), np.int64))
        self._fill(slots, documents, points, k, alpha)
        return slots

    def expect(self, words: Ints, k: Ints) -> None:
        """Make room, and no more, for new subscriptions with so many words and these k. O(n)."""
        terms, entries = int(_room_of(words).sum()), int(self._buffering.room(k).sum())
        self._reserve(len(k), terms, entries)

    def change(self, slots: Ints, documents: Documents, points: Floats, k: Ints, alpha: Floats) -> None:
        """Replace these subscriptions by others."""
        followed = self.arrays.followed[slots].copy()
        self._empty(slots)
        self._fill(slots, documents, points, k, alpha)
        self.arrays.followed[slots] = followed

    def remove(self, slots: Ints) -> None:
        """Remove subscriptions."""
        self._empty(slots)
        self._slots.give_back(slots, np.ones(len(slots), np.int64))

    def _fill(self, slots: Ints, documents: Documents, points: Floats, k: Ints, alpha: Floats) -> None:
        words = run_lengths(documents.end)
        term, entry = self._terms.take(_room_of(words)), self._entries.take(self._buffering.room(k))
        self._reserve()
        table = self.arrays
        row, note = table.row.reshape(-1, ROW), table.note.reshape(-1, ROW)
        row[slots, X], row[slots, Y] = points.T + 0.0
        row[slots, ALPHA], row[slots, THETA] = alpha, 0.0
        note[slots, TERM], note[slots, ENTRY], note[slots, OLDEST] = term, entry, 0
        table.words[slots], table.held[slots] = words, 0
        table.k[slots], table.kind[slots] = k, self._buffering.kinds(k)
        table.complete[slots], table.there[slots], table.followed[slots] = 1, 1, 0
        table.noted[slots], table.cell[slots] = 0, -1
        at = run_places(term, words)
        table.term[2 * at], table.raw[2 * at] = documents.word, documents.weight
        self.count += len(slots)
        self.terms += len(documents.word)

    def _empty(self, slots: Ints) -> None:
        table = self.arrays
        note, words = table.note.reshape(-1, ROW), table.words[slots].astype(np.int64)
        self._terms.give_back(note[slots, TERM], _room_of(words))
        self._entries.give_back(note[slots, ENTRY], self._buffering.room(table.k[slots].astype(np.int64)))
        table.there[slots] = table.held[slots] = 0
        self.count -= len(slots)
        self.terms -= int(words.sum())

    def _reserve(self, slots: int = 0, terms: int = 0, entries: int = 0) -> None:
        """Make room for what is allocated, and for so much more: at once half as much again."""
        table = self.arrays
        slots, terms, entries = self._slots.end + slots, self._terms.end + terms + TERMS, self._entries.end + entries
        if slots > len(table.there):
            room = max(slots, 3 * len(table.there) // 2, 64)
            row = grown(table.row, room * ROW)
            more = {name: grown(getattr(table, name), room) for name in BY_SLOT}
            table = table._replace(row=row, **within(row), **more)
        if 2 * terms > len(table.term):
            room = max(terms, 3 * len(table.term) // 4, 64)
            table = table._replace(term=grown(table.term, 2 * room), raw=grown(table.raw, 2 * room))
        if entries > len(table.score):
            room = max(entries, 3 * len(table.score) // 2, 64)
            table = table._replace(score=grown(table.score, room), tag=grown(table.tag, room))
        self.arrays = table


def _room_of(words: Ints) -> Ints:
    """Room for terms: half lines of two, or from eight on a power of two, so that runs have few different lengths."""
    return np.where(words < 8, words + 1 & ~1, 1 << np.ceil(np.log2(np.maximum(1, words))).astype(np.int64))


def terms_of(row: Floats) -> tuple[Ints, Ints]:
    """The places of the terms of these rows (n, ROW), row by row, and how many each row has. O(terms)."""
    flat = np.ascontiguousarray(row).reshape(-1)
    words = flat.view(np.int16)[4 * SMALL :: 4 * ROW].astype(np.int64)
    return run_places(flat.view(np.int64)[TERM::ROW], words), words


@kernel
def weigh_subscriptions(table: Subscribers, idf: Floats, slots: Ints) -> None:
    """Compute the unit weights of the terms of these subscriptions. O(words)."""
    for i in range(slots.size):
        begin = table.note[slots[i] * ROW + TERM]
        weigh(table.term, table.raw, idf, begin, begin + table.words[slots[i]], -1, table.term, 2)
