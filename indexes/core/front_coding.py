"""Sorted ids in few bytes: each but the first of a block without what it shares with the one before it.

Layout: of an id, how many bytes it shares with its predecessor and how many follow, then these. Both numbers lie in one
byte, the former in its upper half; where they do not fit, the lower half is `LONG` and both follow in groups of seven
bits, the least first. The first id of a block shares nothing, so a look-up is a binary search over blocks and a pass
over one of them. Of numbered ids (`s0`, `s1`, ...) one takes 3 bytes in place of its text and an offset.

Source: Witten, Moffat and Bell, Managing Gigabytes, 4.1 (front coding).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import allocating_kernel, expanded
from indexes.core.arrays import Bytes, Ints, Rows, int64
from indexes.core.ids import AnyIdMap, Packed, common

BLOCK = 32
"""Ids of a block."""

LONG = 15
"""The lower half of the first byte of an id whose numbers do not fit into it."""


class Coded(NamedTuple):
    """Sorted ids, each once: block b begins at `text[start[b]]`; the i-th has the row number `row[i]` (-1: deleted)."""

    text: Bytes
    start: Ints
    row: Rows

    def place(self, key: str) -> int:
        """The place of an id, or -1. About 2 us."""
        at = int(_find(self.text, self.start, self.row.size, np.frombuffer(key.encode(), np.uint8)))
        return at if at >= 0 else -1

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """The ids behind `key` (None: all) in order, with their rows."""
        at = 0
        if key is not None:
            at = int(_find(self.text, self.start, self.row.size, np.frombuffer(key.encode(), np.uint8)))
            at = at + 1 if at >= 0 else -1 - at
        while at < self.row.size:
            first = at // BLOCK
            text, offset = _decoded(self.text, self.start, first, first + 1, self.row.size)
            whole = text.tobytes()
            for i in range(at, min(self.row.size, (first + 1) * BLOCK)):
                if self.row[i] >= 0:
                    yield whole[offset[i % BLOCK] : offset[i % BLOCK + 1]].decode(), int(self.row[i])
            at = (first + 1) * BLOCK

    def packed(self) -> Packed:
        """The same ids with all of their texts. O(bytes), and the GIL is released."""
        return Packed(*_decoded(self.text, self.start, 0, self.start.size, self.row.size), self.row)

    def common(self, others: Packed) -> list[str]:
        """See `ids.common`."""
        return common(self.packed(), others)


def coded(ids: Packed) -> Coded:
    """The same ids, sorted and each once, front-coded. O(bytes), and the GIL is released."""
    return Coded(*_coded(ids.text, ids.offset), ids.row)


class CodedIdMap(AnyIdMap[Coded]):
    """A map whose base is front-coded. Memory: about 7 bytes of a numbered id in the base, with its row, and 150 more
    in the dict; a merge takes about twice as long as that of an `IdMap`."""

    def __init__(self) -> None:
        super().__init__(coded(Packed.empty()))

    def base_of(self, ids: Packed) -> Coded:
        return coded(ids)


@expanded
def _number(text: Bytes, p: int) -> Any:
    """A number in groups of seven bits at p, and where what follows begins."""
    value, shift = int64(0), 0
    while text[p] >= 128:
        value |= (int64(text[p]) & 127) << shift
        shift += 7
        p += 1
    return value | int64(text[p]) << shift, p + 1


@expanded
def _entry(text: Bytes, p: int) -> Any:
    """Of the id at p how many bytes it shares, how many follow, and where these begin."""
    shared, rest = int64(text[p]) >> 4, int64(text[p]) & 15
    p += 1
    if rest == LONG:
        shared, p = _number(text, p)
        rest, p = _number(text, p)
    return shared, rest, p


@expanded
def _put_number(text: Bytes, p: int, value: int) -> Any:
    """Write a number in groups of seven bits; returns where what follows begins."""
    while value >= 128:
        text[p] = value & 127 | 128
        value >>= 7
        p += 1
    text[p] = value
    return p + 1


@allocating_kernel
def _coded(text: Bytes, offset: Ints) -> tuple[Bytes, Ints]:
    """The text and the blocks of packed ids."""
    n = offset.size - 1
    start = np.empty((n + BLOCK - 1) // BLOCK, np.int64)
    out = np.empty(0, np.uint8)
    for writing in range(2):
        p = 0
        for i in range(n):
            shared = 0
            if i % BLOCK == 0:
                start[i // BLOCK] = p
            else:
                most = min(offset[i] - offset[i - 1], offset[i + 1] - offset[i])
                while shared < most and text[offset[i - 1] + shared] == text[offset[i] + shared]:
                    shared += 1
            rest = offset[i + 1] - offset[i] - shared
            if writing == 0:
                p += 1 + rest
                if shared > 15 or rest >= LONG:
                    for value in (shared, rest):
                        p += 1
                        while value >= 128:
                            value >>= 7
                            p += 1
            else:
                if shared > 15 or rest >= LONG:
                    out[p] = LONG
                    p = _put_number(out, p + 1, shared)
                    p = _put_number(out, p, rest)
                else:
                    out[p] = shared << 4 | rest
                    p += 1
                for z in range(rest):
                    out[p + z] = text[offset[i] + shared + z]
                p += rest
        if writing == 0:
            out = np.empty(p, np.uint8)
    return out, start


@allocating_kernel
def _decoded(text: Bytes, start: Ints, first: int, end: int, n: int) -> tuple[Bytes, Ints]:
    """The texts of the blocks from `first` to `end` - 1 of n ids, and their offsets."""
    many = max(0, min(n, end * BLOCK) - first * BLOCK)
    offset = np.zeros(many + 1, np.int64)
    out = np.empty(0, np.uint8)
    for writing in range(2):
        p = start[first] if many > 0 else 0
        at = 0
        before = 0
        for i in range(many):
            shared, rest, p = _entry(text, p)
            if writing == 1:
                for z in range(shared):
                    out[at + z] = out[before + z]
                for z in range(rest):
                    out[at + shared + z] = text[p + z]
            p += rest
            before = at
            at += shared + rest
            offset[i + 1] = at
        if writing == 0:
            out = np.empty(at, np.uint8)
    return out, offset


@allocating_kernel
def _find(text: Bytes, start: Ints, n: int, key: Bytes) -> int:
    """The place of an id, or -1 - the place of the first one behind it."""
    lo = 0
    hi = start.size
    while lo < hi:
        mid = (lo + hi) >> 1
        _, rest, p = _entry(text, start[mid])
        same = 0
        while same < rest and same < key.size and text[p + same] == key[same]:
            same += 1
        if same == rest or (same < key.size and text[p + same] < key[same]):
            lo = mid + 1
        else:
            hi = mid
    found = -1
    if lo > 0:
        i = (lo - 1) * BLOCK
        end = min(n, lo * BLOCK)
        p = start[lo - 1]
        same = 0  # bytes that the key shares with the id before, which sorts before it
        going = True
        while going and i < end:
            shared, rest, p = _entry(text, p)
            if shared == same:
                z = 0
                while z < rest and same < key.size and text[p + z] == key[same]:
                    z += 1
                    same += 1
                if z == rest and same == key.size:
                    found = i
                    going = False
                elif z < rest and (same == key.size or text[p + z] > key[same]):
                    going = False
            elif shared < same:
                going = False
            if going:
                i += 1
                p += rest
        if found < 0:
            found = -1 - i
    return found
