"""The rows of ids that were looked up of late, in one line of memory each.

To find an id in a large dict waits for its slot, its entry, the text and the number, which lie in four places, and the
text that is looked for has to be hashed. Where a thousand ids come at once, one behind the other, a kernel looks them
up here instead; the dict is asked for those that are not here, and holds the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from indexes.compiled.jit import inlined, internal, short_kernel
from indexes.compiled.simd import bit_count, prefetch_line
from indexes.compiled.text import EIGHT, eight_bytes
from indexes.core import aligned
from indexes.core.arrays import Bytes, Rows, UInt64s, int64, uint64
from indexes.core.cutting import SPACE

MOST = 1 << 17
"""Ids that a dict may have: of more, too few would be here."""

LONGEST = 24
"""Bytes of an id that can be here. None has a zero in it."""

WORDS = 4
"""Words of a slot: the bytes of the id, with zeros behind them, and a number that has its row and says whether the slot
is in use."""

PROBES = 8
"""Slots in which an id may be."""

WRAPPED = 1 << 32
"""Generations that a slot can tell apart."""


class KnownIds:
    """Some of the ids of a dict from ids to rows. Whoever takes one out of the dict has to `forget`. Kernels read
    `slots`, of which those of this `generation` are in use."""

    def __init__(self) -> None:
        self.slots: UInt64s = np.zeros((0, WORDS), np.uint64)
        self.generation = 1

    def forget(self) -> None:
        """Know none any more. O(1)."""
        self.generation += 1
        if self.generation == WRAPPED:
            self.slots, self.generation = self.slots[:0], 1

    def make_room(self, known: int) -> bool:
        """Make room for so many ids. Returns whether there was too little: none is known then."""
        slots = 2 * max(1, known)
        if len(self.slots) >= slots:
            return False
        self.slots = aligned.zeros((1 << (slots - 1).bit_length(), WORDS), np.uint64)
        return True

    def rows(self, texts: Bytes, count: int) -> Rows:
        """The row of each of so many ids, given as bytes, a SPACE behind each, and EIGHT bytes behind the last; below 0
        where it is not known here: -1 less the place of its first byte. There is to be room for some. O(ids)."""
        rows = np.empty(count, np.int32)
        look_up(self.slots, self.generation, texts, rows)
        return rows

    def learn(self, texts: Bytes, rows: Rows) -> None:
        """Know ids, given as for `rows`, as far as they are not too long and there is room. O(ids)."""
        remember(self.slots, self.generation, texts, rows)

    def find(self, texts: Bytes, ids: Sequence[str], among: Mapping[str, int]) -> Rows | None:
        """The row of each of the ids, which are also given as for `rows`; None where one is not in the dict, or that is
        empty or too large. O(ids)."""
        if not 0 < len(among) <= MOST:
            return None
        self.make_room(len(among))
        rows = self.rows(texts, len(ids))
        at = np.flatnonzero(rows < 0)
        if len(at):
            found: list[Any] = [among.get(ids[i]) for i in at.tolist()]
            if None in found:
                return None
            rows[at] = found
            self.learn(texts, rows)
        return rows


@short_kernel
def look_up(slots: UInt64s, generation: int, texts: Bytes, rows: Rows) -> None:
    """Write the row of each id, or -1 less the place of its first byte."""
    look_up_from(slots, generation, texts, 0, rows, len(rows))


@internal
def look_up_from(slots: UInt64s, generation: int, texts: Bytes, begin: int, rows: Rows, count: int) -> int:
    """As `look_up`, for so many ids, the first of which begins at a place. Returns how many are not known."""
    at, missing = int64(begin), 0
    for _ in range(count):
        a, b, c, length = _words(texts, at)
        at += length + 1
        # All of them are on their way before the first is read.
        prefetch_line(slots, WORDS * _home(slots, a, b, c))
    at = int64(begin)
    for i in range(count):
        a, b, c, length = _words(texts, at)
        row = int64(-1) - at
        if length <= LONGEST:
            slot = _slot_of(slots, generation, a, b, c)
            if slot >= 0:
                row = int64(slots[uint64(slot), 3] & uint64(0xFFFFFFFF))
        rows[uint64(i)] = row
        missing += 1 if row < 0 else 0
        at += length + 1
    return missing


@short_kernel
def remember(slots: UInt64s, generation: int, texts: Bytes, rows: Rows) -> None:
    """Note the row of each id that is not too long, in place of others where there is no room."""
    remember_from(slots, generation, texts, 0, rows, len(rows))


@internal
def remember_from(slots: UInt64s, generation: int, texts: Bytes, begin: int, rows: Rows, count: int) -> None:
    """As `remember`, for so many ids, the first of which begins at a place."""
    at = int64(begin)
    for i in range(count):
        a, b, c, length = _words(texts, at)
        at += length + 1
        if length <= LONGEST and _slot_of(slots, generation, a, b, c) < 0:
            home = _home(slots, a, b, c)
            slot, probe = home, 0
            while probe < PROBES and slots[uint64(slot), 3] >> uint64(32) == uint64(generation):
                probe += 1
                slot = (home + probe) & (len(slots) - 1)
            free = uint64(slot if probe < PROBES else home)
            slots[free, 0], slots[free, 1], slots[free, 2] = a, b, c
            slots[free, 3] = (uint64(generation) << uint64(32)) | uint64(rows[uint64(i)])


@inlined
def _words(texts: Bytes, at: int) -> tuple[int, int, int, int]:
    """The bytes of an id as three words, the first byte lowest, and how many they are. Those of one that is too long
    are not in them."""
    b = c = uint64(0)
    a, length = _word(texts, at)
    if length == EIGHT:
        b, more = _word(texts, at + EIGHT)
        length += more
    if length == 2 * EIGHT:
        c, more = _word(texts, at + 2 * EIGHT)
        length += more
        while texts[uint64(at + length)] != SPACE:
            length += 1
    return a, b, c, length


@inlined
def _word(texts: Bytes, at: int) -> tuple[int, int]:
    """The next eight bytes of an id, with zeros from the first SPACE on, and how many there are before that."""
    word = eight_bytes(texts, at)
    other = word ^ uint64(0x2020202020202020)
    # The lowest bit of this is the highest one of the first byte that is a SPACE.
    spaces = (other - uint64(0x0101010101010101)) & ~other & uint64(0x8080808080808080)
    before = ((spaces & (~spaces + uint64(1))) >> uint64(7)) - uint64(1)
    return word & before, bit_count(int64(before)) >> 3


@inlined
def _home(slots: UInt64s, a: int, b: int, c: int) -> int:
    """The first slot in which an id may be. Whoever makes up ids for one slot has them looked up in the dict."""
    mixed = (a ^ (b << uint64(1)) ^ (c << uint64(2))) * uint64(0x9E3779B97F4A7C15)
    mixed ^= (b + uint64(1)) * uint64(0xC2B2AE3D27D4EB4F) ^ (c + uint64(1)) * uint64(0x165667B19E3779F9)
    mixed ^= mixed >> uint64(32)
    mixed *= uint64(0x9E3779B97F4A7C15)
    return int64((mixed >> uint64(32)) & uint64(len(slots) - 1))


@inlined
def _slot_of(slots: UInt64s, generation: int, a: int, b: int, c: int) -> int:
    """The slot of an id, -1 where it has none."""
    home, found, probe = _home(slots, a, b, c), int64(-1), 0
    while found < 0 and probe < PROBES:
        slot = uint64((home + probe) & (len(slots) - 1))
        probe += 1
        if slots[slot, 3] >> uint64(32) != uint64(generation):
            # It would be here, as none is taken out alone.
            probe = PROBES
        elif (slots[slot, 0] == a) & (slots[slot, 1] == b) & (slots[slot, 2] == c):
            found = int64(slot)
    return found
