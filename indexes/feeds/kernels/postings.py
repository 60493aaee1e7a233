"""Threshold-ordered postings: the subscriptions that a post may reach, read off sorted lists.

Take a word that a post and a subscription share. The words from it on in order of rarity add at most l t to the text
part of the score, where l is the length of the subscription's weights from it on, and t that of the post's. If it is
the first word that they share, the score reaches theta only if the spatial similarity is at least

    (theta - (1 - alpha) t l) / alpha.

So the subscriptions that contain a word lie in blocks, one a cell, and each block has a list for each of a few levels
of t, sorted by that bound. A post reads the list of the least level that is not below its own t, as long as the bound
is at most the similarity to the cell's box; a block whose first bound is greater is not opened at all. A block with
room for a single posting, as most have, has one list, of the last level; its first bounds are kept for each level.

A key is the bound in fixed point, rounded down, and below it a code for the place, the slot, and how many words the
subscription has from this one on: keys are distinct, and a posting is found by its key when theta changes. The place
says how near the subscription is at most: if not as near as the bound asks for, its row is not read. The number says
how many of the post's weights may add to the text part, of which the greatest have a length less than t.

How a post reads the lists is in `recipients`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.simd import LANES
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.feeds.kernels.cells import Cells, cell_at
from indexes.feeds.kernels.nearness import (
    BOUND,
    LEFT,
    SCALE,
    SLACK,
    SLOTS,
    STEPS,
)
from indexes.feeds.kernels.subscriptions import (
    ALPHA,
    ROW,
    TERM,
    THETA,
    Subscribers,
    X,
    Y,
)

LEVELS = (0.1, 0.15, 0.2, 0.26, 0.34, 0.45, 0.6, 1.0)
"""Lengths t for which there are lists; none is longer than the last, up to rounding."""

_LEVELS = np.array(LEVELS)

EMPTY = (1 << 31) - 1
"""The head of a list without keys: greater than any bound."""

SINGLE = 1
"""Places of a block that is opened for one subscription; it has the list of the last level alone."""

DIRECTORY_END, KEYS_END = range(2)
"""Places in `Postings.size`: how far the columns of blocks and of keys are in use."""


class Postings(NamedTuple):
    """The arrays. List i of a block begins at begin + i * fits, or at begin where it fits a `SINGLE` posting, and its
    head is at i * (length / levels) + block."""

    frame: Floats  # where the frame of places begins, x and y, and the steps to a unit of length
    order: Ints  # by word: rarer ones first, then by number
    at: Ints32  # by word: where its blocks begin, how many there are, and for how many there is room
    blocks: Ints32
    room: Ints32
    cell: Ints32  # by block, ascending within a word
    begin: Ints32
    filled: Ints32
    fits: Ints32  # places of each of its lists
    head: Ints32  # the bound of the first key, or `EMPTY`
    key: Ints
    size: Ints


def empty_postings() -> Postings:
    """Postings of no words."""
    none, none64 = np.empty(0, np.int32), np.empty(0, np.int64)
    return Postings(np.zeros(3), none64, none, none, none, none, none, none, none, none, none64, np.zeros(2, np.int64))


@inlined
def steps_along(value: float, begin: float, steps: float) -> float:
    """A coordinate in steps of the frame, clipped to it."""
    along = (value - begin) * steps
    along = along if along > 0.0 else 0.0
    return along if along < STEPS else float(STEPS)


@kernel
def tag_of(frame: Floats, x: float, y: float, slot: int, left: int) -> int:
    """What a key has below its bound, for a subscription at (x, y) that has so many words from the posting's on."""
    across = min(int64(steps_along(x, frame[0], frame[2])), STEPS - 1)
    up = min(int64(steps_along(y, frame[1], frame[2])), STEPS - 1)
    return ((across * STEPS + up) << 32) + (slot << LEFT) + min(left, 1 << LEFT) - 1


@internal
def _tag(frame: Floats, table: Subscribers, slot: int, left: int) -> int:
    """`tag_of` for a subscription of the table."""
    return tag_of(frame, table.row[slot * ROW + X], table.row[slot * ROW + Y], slot, left)


@kernel
def key_of(theta: float, alpha: float, level: float, length: float, tag: int) -> int:
    """The key of a posting in the list of a level. The bound is from -2 to 3/2; similarities are from 0 to 1."""
    wanted = theta - SLACK - (1.0 - alpha) * level * length
    if wanted <= -2.0 * alpha:
        bound = -2.0
    elif wanted >= 1.5 * alpha:
        bound = 1.5
    else:
        bound = wanted / alpha
    return int64(math.floor(bound * SCALE)) * int64(1 << BOUND) + tag


@inlined
def slot_of(key: int) -> int:
    """The slot of a key's subscription."""
    return key >> LEFT & SLOTS - 1


@inlined
def _list(postings: Postings, block: int, level: int) -> int:
    """Where the list of a block begins that serves a level."""
    fits = int64(postings.fits[block])
    return int64(postings.begin[block]) + (level * fits if fits > SINGLE else int64(0))


@inlined
def keys_of(fits: int) -> int:
    """How many keys the lists of a block with so many places have room for."""
    return fits * _LEVELS.size if fits > SINGLE else int64(SINGLE)


@inlined
def _note_head(postings: Postings, block: int, level: int) -> None:
    """Write the bound of the first key of the list of a level, in a block with one for each or without postings."""
    directory = postings.head.size // _LEVELS.size
    head = postings.key[_list(postings, block, level)] >> BOUND if postings.filled[block] > 0 else int64(EMPTY)
    postings.head[level * directory + block] = head


@internal
def _left(order: Ints, table: Subscribers, slot: int, term: int) -> int:
    """How many words of a subscription are not rarer than that of a term."""
    begin, left = table.note[slot * ROW + TERM], 0
    for j in range(begin, begin + table.words[slot]):
        left += 1 if order[int64(table.term[2 * j])] >= order[int64(table.term[2 * term])] else 0
    return left


@internal
def _lengths(order: Ints, table: Subscribers, slot: int) -> None:
    """Compute for each term the length of the weights from it on in order of rarity."""
    begin = table.note[slot * ROW + TERM]
    end = begin + table.words[slot]
    for i in range(begin, end):
        own, total = order[int64(table.term[2 * i])], 0.0
        for j in range(begin, end):
            if order[int64(table.term[2 * j])] >= own:
                total += table.term[2 * j + 1] * table.term[2 * j + 1]
        table.raw[2 * i + 1] = math.sqrt(total)


@kernel
def fill(
    postings: Postings, table: Subscribers, slots: Ints, which: Ints, at: Ints, first_cell: int, end_cell: int
) -> None:
    """Put the postings of some cells into their blocks and sort the lists; in any thread, other cells in others. In
    order of subscriptions, posting n is of term `at[n]` and in block `which[n]`."""
    directory, n = postings.head.size // _LEVELS.size, 0
    for i in range(slots.size):
        slot = slots[i]
        if first_cell <= table.cell[slot] < end_cell:
            _lengths(postings.order, table, slot)
            theta, alpha = table.row[slot * ROW + THETA], table.row[slot * ROW + ALPHA]
            for t in range(n, n + table.words[slot]):
                b = which[t]
                tag = _tag(postings.frame, table, slot, _left(postings.order, table, slot, at[t]))
                for level in range(_LEVELS.size):
                    key = key_of(theta, alpha, _LEVELS[level], table.raw[2 * at[t] + 1], tag)
                    postings.key[_list(postings, b, level) + postings.filled[b]] = key
                    postings.head[level * directory + b] = key >> BOUND
                postings.filled[b] += 1
        n += table.words[slot]
    for level in range(_LEVELS.size):
        for b in range(postings.size[DIRECTORY_END]):
            if first_cell <= postings.cell[b] < end_cell and postings.fits[b] > SINGLE:
                _sort(postings.key, _list(postings, b, level), postings.filled[b])
                _note_head(postings, b, level)


@internal
def _sort(key: Ints, begin: int, n: int) -> None:
    """Shellsort, with gaps after Ciura."""
    gap = 1
    while gap * 9 // 4 + 1 < n:
        gap = gap * 9 // 4 + 1
    while gap > 0:
        for i in range(begin + gap, begin + n):
            value, j = key[i], i
            while j >= begin + gap and key[j - gap] > value:
                key[j] = key[j - gap]
                j -= gap
            key[j] = value
        gap = 0 if gap == 1 else max(1, (gap - 1) * 4 // 9)


@internal
def block_of(postings: Postings, word: int, cell: int) -> int:
    """The first block of a word whose cell is not less than this. O(log blocks)."""
    low, high = int64(postings.at[word]), int64(postings.at[word] + postings.blocks[word])
    while low < high:
        middle = (low + high) >> 1
        if postings.cell[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def add(postings: Postings, cells: Cells, table: Subscribers, slots: Ints, at: int) -> int:
    """Add subscriptions from number `at` on, as long as there is room. Returns the number of the next."""
    going = True
    while going and at < slots.size:
        slot = slots[at]
        row = slot * ROW
        cell, begin = cell_at(cells, table.row[row + X], table.row[row + Y]), table.note[row + TERM]
        words = table.words[slot]
        table.cell[slot] = cell
        directory, keys = postings.size[DIRECTORY_END], postings.size[KEYS_END]
        for i in range(begin, begin + words):
            word = int64(table.term[2 * i])
            b = block_of(postings, word, cell)
            if b == postings.at[word] + postings.blocks[word] or postings.cell[b] != cell:
                keys += SINGLE
                directory += 2 * postings.blocks[word] + 2 if postings.blocks[word] == postings.room[word] else 0
            elif postings.filled[b] == postings.fits[b]:
                keys += keys_of(2 * int64(postings.fits[b]))
        if directory <= postings.cell.size and keys + LANES <= postings.key.size:
            _lengths(postings.order, table, slot)
            for i in range(begin, begin + words):
                tag = _tag(postings.frame, table, slot, _left(postings.order, table, slot, i))
                _add_one(postings, table, slot, int64(table.term[2 * i]), table.raw[2 * i + 1], tag)
            at += 1
        else:
            going = False
    return at


@internal
def _add_one(postings: Postings, table: Subscribers, slot: int, word: int, length: float, tag: int) -> None:
    """Add a posting; there is room."""
    cell = table.cell[slot]
    b = block_of(postings, word, cell)
    if b == postings.at[word] + postings.blocks[word] or postings.cell[b] != cell:
        b = _open(postings, word, cell, b)
    elif postings.filled[b] == postings.fits[b]:
        _widen(postings, b)
    theta, alpha = table.row[slot * ROW + THETA], table.row[slot * ROW + ALPHA]
    for level in range(_LEVELS.size):
        key, begin = key_of(theta, alpha, _LEVELS[level], length, tag), _list(postings, b, level)
        i = begin + postings.filled[b]
        while i > begin and postings.key[i - 1] > key:
            postings.key[i] = postings.key[i - 1]
            i -= 1
        postings.key[i] = key
        postings.head[level * (postings.head.size // _LEVELS.size) + b] = postings.key[begin] >> BOUND
    postings.filled[b] += 1


@internal
def _widen(postings: Postings, block: int) -> None:
    """Move a full block to where each of its lists has room for twice as many."""
    directory, begin, fits = postings.head.size // _LEVELS.size, postings.size[KEYS_END], int64(postings.fits[block])
    for level in range(_LEVELS.size):
        old, new = _list(postings, block, level), begin + level * 2 * fits
        for i in range(postings.filled[block]):
            postings.key[new + i] = postings.key[old + i]
        if fits == SINGLE:
            tag = postings.key[old] & ((1 << BOUND) - 1)
            postings.key[new] = int64(postings.head[level * directory + block]) * int64(1 << BOUND) + tag
    postings.begin[block], postings.fits[block] = begin, 2 * fits
    postings.size[KEYS_END] += keys_of(2 * fits)


@internal
def _open(postings: Postings, word: int, cell: int, block: int) -> int:
    """Insert an empty block of a word before a block. Returns its place."""
    directory, n = postings.head.size // _LEVELS.size, int64(postings.blocks[word])
    if n == postings.room[word]:
        old, new = int64(postings.at[word]), postings.size[DIRECTORY_END]
        for i in range(n):
            _copy_block(postings, directory, old + i, new + i)
        postings.at[word], postings.room[word] = new, 2 * n + 2
        postings.size[DIRECTORY_END] += 2 * n + 2
        block += new - old
    for i in range(postings.at[word] + n, block, -1):
        _copy_block(postings, directory, i - 1, i)
    postings.blocks[word] += 1
    postings.cell[block], postings.begin[block] = cell, postings.size[KEYS_END]
    postings.filled[block], postings.fits[block] = 0, SINGLE
    postings.size[KEYS_END] += SINGLE
    return block


@internal
def _copy_block(postings: Postings, directory: int, old: int, new: int) -> None:
    postings.cell[new], postings.begin[new] = postings.cell[old], postings.begin[old]
    postings.filled[new], postings.fits[new] = postings.filled[old], postings.fits[old]
    for level in range(_LEVELS.size):
        postings.head[level * directory + new] = postings.head[level * directory + old]


@internal
def _find_key(key: Ints, begin: int, n: int, wanted: int) -> int:
    """The place of a key among n sorted ones. O(log n)."""
    low, high = begin, begin + n
    while low < high:
        middle = (low + high) >> 1
        if key[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def remove(postings: Postings, table: Subscribers, slots: Ints) -> None:
    """Remove subscriptions."""
    for at in range(slots.size):
        slot = slots[at]
        row = slot * ROW
        begin = table.note[row + TERM]
        for i in range(begin, begin + table.words[slot]):
            b = block_of(postings, int64(table.term[2 * i]), table.cell[slot])
            left, tag = int64(postings.filled[b]) - 1, _tag(postings.frame, table, slot, 1)
            for level in range(_LEVELS.size):
                key = key_of(table.row[row + THETA], table.row[row + ALPHA], _LEVELS[level], table.raw[2 * i + 1], tag)
                first = _list(postings, b, level)
                for j in range(_find_key(postings.key, first, left + 1, key), first + left):
                    postings.key[j] = postings.key[j + 1]
            postings.filled[b] = left
            for level in range(_LEVELS.size):
                _note_head(postings, b, level)


@internal
def move(postings: Postings, table: Subscribers, slot: int, old: float) -> None:
    """Move the postings of a subscription whose theta was `old`. O(words (log block + places passed))."""
    directory, row = postings.head.size // _LEVELS.size, slot * ROW
    begin, theta, alpha = table.note[row + TERM], table.row[row + THETA], table.row[row + ALPHA]
    tag = _tag(postings.frame, table, slot, 1)
    for i in range(begin, begin + table.words[slot]):
        b, length = block_of(postings, int64(table.term[2 * i]), table.cell[slot]), table.raw[2 * i + 1]
        for level in range(_LEVELS.size):
            was = key_of(old, alpha, _LEVELS[level], length, tag)
            first = _list(postings, b, level)
            last = first + postings.filled[b] - 1
            j = _find_key(postings.key, first, postings.filled[b], was) if first < last else first
            key = key_of(theta, alpha, _LEVELS[level], length, tag) + (postings.key[j] & ((1 << LEFT) - 1))
            while j < last and postings.key[j + 1] < key:
                postings.key[j] = postings.key[j + 1]
                j += 1
            while j > first and postings.key[j - 1] > key:
                postings.key[j] = postings.key[j - 1]
                j -= 1
            postings.key[j] = key
            postings.head[level * directory + b] = postings.key[first] >> BOUND


@kernel
def move_all(postings: Postings, table: Subscribers, slots: Ints, old: Floats) -> None:
    """`move` for many subscriptions."""
    for i in range(slots.size):
        if table.row[slots[i] * ROW + THETA] != old[i]:
            move(postings, table, slots[i], old[i])
