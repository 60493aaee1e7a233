"""Threshold-ordered postings: who may be reached by a post, read off sorted lists (design 4.1).

Of a word that a post and a subscription share, the words from there on in order of rarity add at most l t to the
score's text part, where l is the length of the subscription's weights from there on, and t that of the post's. If that
word is the first that they share, the score reaches theta only if the spatial similarity is at least

    (theta - (1 - alpha) t l) / alpha.

So the subscriptions that have a word lie in blocks, one a cell, and each block has a list for each of a few t, sorted
by that bound. A post reads the list of the least t that is not below its own, as long as the bound is no more than the
similarity to the cell's box; a block whose first bound is above it is not opened at all.

A key is the bound in fixed point, rounded down, times 2^32, and the slot: so keys are distinct, and a posting is found
by its key when theta changes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.feeds.buffers import score_of
from indexes.feeds.cells import Cells, build_cells, cell_at, nearest, put_into
from indexes.feeds.refill import take_again
from indexes.feeds.step import (
    DONE,
    ENTER,
    EVALUATE,
    FIND,
    TELL,
    begin_post,
    end_post,
    evaluate_short,
    room_for_hits,
    slide,
    take_in,
)
from indexes.feeds.subscribers import ALPHA, ROW, STAMP, TERM, THETA, WORDS, Subscribers, Table, X, Y
from indexes.feeds.window import NEXT
from indexes.feeds.work import AT, BLOCKS, HITS, NEXT_SHORT, OPENED, PHASE, SCORED, TURN, VISITED
from indexes.lanes import prefetch_block
from indexes.lean import inner_kernel, lean_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
"""Lengths t for which there are lists; none is longer than the last, up to rounding."""

_LEVELS = np.array(LEVELS)

CAPACITY = 2_000
"""Subscriptions of a cell."""

SLACK = 1e-9
"""What rounding may add to a score, and more."""

SCALE = 1 << 28
"""Steps of a bound from 0 to 1."""

LAST = np.int64(2**63 - 1)
"""Behind each list."""

AHEAD = 12
"""Postings that are asked for ahead."""

DIRECTORY_END, KEYS_END = range(2)
"""Places in `Ordered.size`: how far columns are in use."""


class Ordered(NamedTuple):
    """The arrays. List number i of a block begins at i * (length / levels) + begin; so do heads."""

    order: Int64  # by word: rarer ones first, then by number
    at: Int32  # by word: where its blocks begin, how many there are, and for how many there is room
    blocks: Int32
    room: Int32
    cell: Int32  # by block, ascending within a word
    begin: Int32
    filled: Int32
    fits: Int32  # places of its lists, one of which is for `LAST`
    head: Int32  # the bound of the first key
    key: Int64
    size: Int64


class OrderedIndex:
    """The postings of a table of subscriptions."""

    finds = True

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._built = 0
        self.cells, _ = build_cells(np.empty((0, 2)), capacity)
        none = np.empty(0, np.int32)
        none64 = none.astype(np.int64)
        self.arrays = Ordered(none64, none, none, none, none, none, none, none, none, none64, np.zeros(2, np.int64))

    def build(self, table: Table, order: Int64, tree: Cells | None = None) -> None:
        """Lay all out, for words in this order, in the cells of a tree or in new ones. O(n log n) for n postings."""
        s, slots = table.arrays, table.slots()
        points = s.row.reshape(-1, ROW)[slots][:, [X, Y]]
        if tree is None:
            self.cells, cell = build_cells(points, self._capacity)
        else:
            # A copy: boxes grow.
            cell = np.empty(len(slots), np.int64)
            self.cells = Cells(tree.x.copy(), tree.y.copy(), tree.child.copy(), tree.box.copy())
            put_into(self.cells, points, cell)
        s.cell[slots] = cell
        words = s.note.reshape(-1, ROW)[slots, WORDS]
        term = s.note.reshape(-1, ROW)[slots, TERM]
        at = np.repeat(term - np.cumsum(words) + words, words) + np.arange(int(words.sum()))
        word, owner = s.term[2 * at].astype(np.int64), np.repeat(np.arange(len(slots)), words)
        block, which = np.unique(word * len(self.cells.box) + cell[owner], return_inverse=True)
        count = np.bincount(which, minlength=len(block)).astype(np.int32)
        fits = count + count // 4 + 2
        begin = np.cumsum(fits) - fits
        of_word = block // len(self.cells.box)
        blocks = np.bincount(of_word, minlength=len(order)).astype(np.int32)
        keys, directory = int(fits.sum()), len(block)
        free, more = keys // 4 + 1024, directory // 4 + 1024
        filler = np.zeros(more, np.int32)
        self.arrays = a = Ordered(
            np.array(order, np.int64),
            (np.cumsum(blocks) - blocks).astype(np.int32),
            blocks,
            blocks.copy(),
            np.append((block % len(self.cells.box)).astype(np.int32), filler),
            np.append(begin.astype(np.int32), filler),
            np.append(np.zeros(directory, np.int32), filler),
            np.append(fits.astype(np.int32), filler),
            aligned.empty(len(LEVELS) * (directory + more), np.int32),
            aligned.empty(len(LEVELS) * (keys + free), np.int64),
            np.array([directory, keys]),
        )
        _fill(a, s, slots, which, at)
        self._built = len(slots)

    def add(self, table: Table, slots: Int64) -> None:
        """Subscriptions with a theta are found from now on. O(words (log n + block)) each, but when there are twice as
        many as were laid out, O(n log n)."""
        if len(table) > 2 * self._built + 256:
            self.build(table, self.arrays.order)
            return
        at = 0
        while (at := _add(self.arrays, self.cells, table.arrays, slots, at)) < len(slots):
            self._grow()

    def remove(self, table: Table, slots: Int64) -> None:
        """Subscriptions are not found any more. O(words (log n + block)) each."""
        _remove(self.arrays, table.arrays, slots)

    def move(self, s: Subscribers, slots: Int64, old: Float64) -> None:
        """These have had another theta, the `old` one, until now."""
        move_all(self.arrays, s, slots, old)

    def with_words(self, words: int) -> None:
        """Words below this may come; new ones are the rarest."""
        a, had = self.arrays, len(self.arrays.order)
        if words > had:
            more = max(words, 2 * had) - had
            none = np.zeros(more, np.int32)
            self.arrays = a._replace(
                order=np.append(a.order, np.arange(had, had + more)),
                at=np.append(a.at, none),
                blocks=np.append(a.blocks, none),
                room=np.append(a.room, none),
            )

    def room(self, table: Table) -> tuple[int, int, int]:
        """How many cells there are, and how many blocks and postings a post may have to read."""
        return len(self.cells.box) // 4, int(self.arrays.size[DIRECTORY_END]), table.terms

    def post(self, *what: Any) -> int:
        """Posts come: see `post_ordered`."""
        return int(post_ordered(self.arrays, self.cells, *what))

    def find(self, *what: Any) -> int:
        """Whom posts may matter to is found, and nothing changes: see `find_many`."""
        return int(find_many(self.arrays, self.cells, *what))

    def refill(self, *what: Any) -> None:
        """Posts of the window come into buffers once more: see `refill_ordered`."""
        refill_ordered(self.arrays, self.cells, *what)

    def _grow(self) -> None:
        a = self.arrays
        keys, directory = len(a.key) // len(LEVELS), len(a.cell)
        self.arrays = a._replace(
            **{
                name: np.append(getattr(a, name), np.zeros(directory, np.int32)) for name in ("cell", "begin", "filled")
            },
            fits=np.append(a.fits, np.zeros(directory, np.int32)),
            head=_wider(a.head, directory, 2 * directory),
            key=_wider(a.key, keys, 2 * keys),
        )

    def check(self, table: Table) -> None:
        """Every posting is in all its lists, which are sorted, and nothing else is. O(n)."""
        a, s = self.arrays, table.arrays
        keys, directory = len(a.key) // len(LEVELS), len(a.cell)
        found = set()
        for word in range(len(a.order)):
            blocks = range(a.at[word], a.at[word] + a.blocks[word])
            cells = [int(a.cell[b]) for b in blocks]
            assert cells == sorted(set(cells)) and len(cells) <= a.room[word]
            for level, t in enumerate(LEVELS):
                for b in blocks:
                    begin = level * keys + a.begin[b]
                    run = a.key[begin : begin + a.filled[b]].tolist()
                    assert run == sorted(run) and a.key[begin + a.filled[b]] == LAST and a.filled[b] < a.fits[b]
                    assert a.head[level * directory + b] == int(a.key[begin]) >> 32
                    for key in run:
                        slot = key & 0xFFFFFFFF
                        row = s.row[slot * ROW : slot * ROW + ROW]
                        lengths = {
                            int(s.term[2 * i]): float(s.raw[2 * i + 1])
                            for i in range(
                                s.note[slot * ROW + TERM], s.note[slot * ROW + TERM] + s.note[slot * ROW + WORDS]
                            )
                        }
                        assert s.there[slot] and s.cell[slot] == a.cell[b]
                        assert key == key_of(row[THETA], row[ALPHA], t, lengths[word], slot)
                        found.add((word, slot, level))
        terms = sum(int(s.note[slot * ROW + WORDS]) for slot in table.slots().tolist())
        assert len(found) == terms * len(LEVELS)


def _wider(column: NDArray, wide: int, wider: int) -> NDArray:
    grown = aligned.empty((len(LEVELS), wider), column.dtype)
    grown[:, :wide] = column.reshape(len(LEVELS), wide)
    return grown.reshape(-1)


@lean_kernel
def key_of(theta, alpha, t, length, slot):  # type: ignore[no-untyped-def]
    """The key of a posting in the list for t. The bound is between -1/2 and 3/2: similarities are from 0 to 1."""
    wanted = theta - SLACK - (1.0 - alpha) * t * length
    if wanted <= -0.5 * alpha:
        bound = -0.5
    elif wanted >= 1.5 * alpha:
        bound = 1.5
    else:
        bound = wanted / alpha
    return np.int64(math.floor(bound * SCALE)) * np.int64(1 << 32) + slot


@inner_kernel
def _lengths(order, s, slot):  # type: ignore[no-untyped-def]
    """For each term, the length of the weights from there on in order of rarity."""
    begin = s.note[slot * ROW + TERM]
    end = begin + s.note[slot * ROW + WORDS]
    for i in range(begin, end):
        own, total = order[np.int64(s.term[2 * i])], 0.0
        for j in range(begin, end):
            if order[np.int64(s.term[2 * j])] >= own:
                total += s.term[2 * j + 1] * s.term[2 * j + 1]
        s.raw[2 * i + 1] = math.sqrt(total)


@lean_kernel
def _fill(o, s, slots, which, at):  # type: ignore[no-untyped-def]
    """Put the postings into their blocks and sort the lists; `which` block has the posting at term `at`, in order of
    subscriptions."""
    keys, directory, n = o.key.size // _LEVELS.size, o.head.size // _LEVELS.size, 0
    for i in range(slots.size):
        slot = slots[i]
        _lengths(o.order, s, slot)
        theta, alpha = s.row[slot * ROW + THETA], s.row[slot * ROW + ALPHA]
        for _ in range(s.note[slot * ROW + WORDS]):
            b = which[n]
            for level in range(_LEVELS.size):
                key = key_of(theta, alpha, _LEVELS[level], s.raw[2 * at[n] + 1], slot)
                o.key[level * keys + o.begin[b] + o.filled[b]] = key
            o.filled[b] += 1
            n += 1
    for level in range(_LEVELS.size):
        for b in range(o.size[DIRECTORY_END]):
            begin = level * keys + o.begin[b]
            _sort(o.key, begin, o.filled[b])
            o.key[begin + o.filled[b]] = LAST
            o.head[level * directory + b] = o.key[begin] >> 32


@inner_kernel
def _sort(key, begin, n):  # type: ignore[no-untyped-def]
    """Shell's sort, with gaps by Ciura."""
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


@inner_kernel
def _block(o, word, cell):  # type: ignore[no-untyped-def]
    """The first block of a word whose cell is not below this. O(log blocks)."""
    low, high = np.int64(o.at[word]), np.int64(o.at[word] + o.blocks[word])
    while low < high:
        middle = (low + high) >> 1
        if o.cell[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return low


@lean_kernel
def _add(o, c, s, slots, at):  # type: ignore[no-untyped-def]
    """Subscriptions from number `at` on come in, until there is no room. Returns how far it came."""
    going = True
    while going and at < slots.size:
        slot = slots[at]
        row = slot * ROW
        cell, begin, words = cell_at(c, s.row[row + X], s.row[row + Y]), s.note[row + TERM], s.note[row + WORDS]
        s.cell[slot] = cell
        directory, keys = o.size[DIRECTORY_END], o.size[KEYS_END]
        for i in range(begin, begin + words):
            word = np.int64(s.term[2 * i])
            b = _block(o, word, cell)
            if b == o.at[word] + o.blocks[word] or o.cell[b] != cell:
                keys += 4
                directory += 2 * o.blocks[word] + 2 if o.blocks[word] == o.room[word] else 0
            elif o.filled[b] + 1 == o.fits[b]:
                keys += 2 * o.fits[b]
        if directory <= o.cell.size and keys <= o.key.size // _LEVELS.size:
            _lengths(o.order, s, slot)
            for i in range(begin, begin + words):
                _add_one(o, s, slot, np.int64(s.term[2 * i]), s.raw[2 * i + 1])
            at += 1
        else:
            going = False
    return at


@inner_kernel
def _add_one(o, s, slot, word, length):  # type: ignore[no-untyped-def]
    """A posting comes in; there is room."""
    keys, directory, cell = o.key.size // _LEVELS.size, o.head.size // _LEVELS.size, s.cell[slot]
    b = _block(o, word, cell)
    if b == o.at[word] + o.blocks[word] or o.cell[b] != cell:
        b = _open(o, word, cell, b)
    elif o.filled[b] + 1 == o.fits[b]:
        begin = o.size[KEYS_END]
        for level in range(_LEVELS.size):
            for i in range(level * keys, level * keys + o.filled[b]):
                o.key[begin + i] = o.key[o.begin[b] + i]
        o.begin[b] = begin
        o.fits[b] *= 2
        o.size[KEYS_END] += o.fits[b]
    theta, alpha = s.row[slot * ROW + THETA], s.row[slot * ROW + ALPHA]
    for level in range(_LEVELS.size):
        key, begin = key_of(theta, alpha, _LEVELS[level], length, slot), level * keys + o.begin[b]
        i = begin + o.filled[b]
        o.key[i + 1] = LAST
        while i > begin and o.key[i - 1] > key:
            o.key[i] = o.key[i - 1]
            i -= 1
        o.key[i] = key
        o.head[level * directory + b] = o.key[begin] >> 32
    o.filled[b] += 1


@inner_kernel
def _open(o, word, cell, b):  # type: ignore[no-untyped-def]
    """A word gets an empty block before block b. Returns where it is."""
    directory, n = o.head.size // _LEVELS.size, np.int64(o.blocks[word])
    if n == o.room[word]:
        old, new = np.int64(o.at[word]), o.size[DIRECTORY_END]
        for i in range(n):
            _copy_block(o, directory, old + i, new + i)
        o.at[word], o.room[word] = new, 2 * n + 2
        o.size[DIRECTORY_END] += 2 * n + 2
        b += new - old
    for i in range(o.at[word] + n, b, -1):
        _copy_block(o, directory, i - 1, i)
    o.blocks[word] += 1
    o.cell[b], o.begin[b], o.filled[b], o.fits[b] = cell, o.size[KEYS_END], 0, 4
    o.size[KEYS_END] += 4
    return b


@inner_kernel
def _copy_block(o, directory, old, new):  # type: ignore[no-untyped-def]
    o.cell[new], o.begin[new], o.filled[new], o.fits[new] = o.cell[old], o.begin[old], o.filled[old], o.fits[old]
    for level in range(_LEVELS.size):
        o.head[level * directory + new] = o.head[level * directory + old]


@inner_kernel
def _find_key(key, begin, n, wanted):  # type: ignore[no-untyped-def]
    """Where a key is among n sorted ones. O(log n)."""
    low, high = begin, begin + n
    while low < high:
        middle = (low + high) >> 1
        if key[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@lean_kernel
def _remove(o, s, slots):  # type: ignore[no-untyped-def]
    """Subscriptions go."""
    keys, directory = o.key.size // _LEVELS.size, o.head.size // _LEVELS.size
    for at in range(slots.size):
        slot = slots[at]
        row = slot * ROW
        begin = s.note[row + TERM]
        for i in range(begin, begin + s.note[row + WORDS]):
            b = _block(o, np.int64(s.term[2 * i]), s.cell[slot])
            for level in range(_LEVELS.size):
                key = key_of(s.row[row + THETA], s.row[row + ALPHA], _LEVELS[level], s.raw[2 * i + 1], slot)
                first = level * keys + o.begin[b]
                for j in range(_find_key(o.key, first, o.filled[b], key), first + o.filled[b]):
                    o.key[j] = o.key[j + 1]
                o.head[level * directory + b] = o.key[first] >> 32
            o.filled[b] -= 1


@inner_kernel
def move(o, s, slot, old):  # type: ignore[no-untyped-def]
    """The theta of a subscription has been `old` until now. O(words (log block + places passed))."""
    keys, directory, row = o.key.size // _LEVELS.size, o.head.size // _LEVELS.size, slot * ROW
    begin, theta, alpha = s.note[row + TERM], s.row[row + THETA], s.row[row + ALPHA]
    for i in range(begin, begin + s.note[row + WORDS]):
        b, length = _block(o, np.int64(s.term[2 * i]), s.cell[slot]), s.raw[2 * i + 1]
        for level in range(_LEVELS.size):
            was = key_of(old, alpha, _LEVELS[level], length, slot)
            key = key_of(theta, alpha, _LEVELS[level], length, slot)
            first = level * keys + o.begin[b]
            j = _find_key(o.key, first, o.filled[b], was)
            while o.key[j + 1] < key:
                o.key[j] = o.key[j + 1]
                j += 1
            while j > first and o.key[j - 1] > key:
                o.key[j] = o.key[j - 1]
                j -= 1
            o.key[j] = key
            o.head[level * directory + b] = o.key[first] >> 32


@lean_kernel
def move_all(o, s, slots, old):  # type: ignore[no-untyped-def]
    """As `move`, for many."""
    for i in range(slots.size):
        if s.row[slots[i] * ROW + THETA] != old[i]:
            move(o, s, slots[i], old[i])


@lean_kernel
def post_ordered(o, c, v, s, limits, owners, f, z, batch, window, diagonal, most):  # type: ignore[no-untyped-def]
    """Posts come, those of the batch from number z.size[AT] on. `window` is how many posts stay, and `most` how many
    entries a buffer may have. O(postings read + entries) a post, and its evaluations."""
    status = DONE
    while status == DONE and z.size[AT] < batch.end.size:
        if z.size[PHASE] == ENTER:
            begin_post(v, z, batch)
        if z.size[PHASE] == FIND:
            hits = find_ordered(o, c, v, s, z, v.size[NEXT] - 1, diagonal)
            status = room_for_hits(owners, z, hits)
            if status == DONE:
                take_in(v, s, limits, owners, z, hits)
                for i in range(hits):
                    slot = np.int64(z.hit[i])
                    if z.hit_score[i] != s.row[slot * ROW + THETA]:
                        move(o, s, slot, z.hit_score[i])
                slide(v, s, owners, z, window)
        if z.size[PHASE] == EVALUATE:
            first = z.size[NEXT_SHORT]
            status = evaluate_short(v, s, limits, owners, f, z, diagonal, most)
            for i in range(first, z.size[NEXT_SHORT]):
                slot = np.int64(z.short[i])
                move(o, s, slot, z.hit_score[i])
        if z.size[PHASE] == TELL:
            status = end_post(v, s, z, batch)
    return status


@inner_kernel
def find_ordered(o, c, v, s, z, post, diagonal):  # type: ignore[no-untyped-def]
    """Write to z.hit and z.hit_score whom a post of the window reaches with theta or more; returns how many."""
    place, terms = post & (v.x.size - 1), v.word.size - 1
    x, y, begin, n = v.x[place], v.y[place], v.term[place], np.int64(v.terms[place])
    m = _open_blocks(o, c, v, z, begin, n, x, y, diagonal)
    z.counted[OPENED] += m
    visited = 0
    for b in range(m):
        if b + AHEAD < m:
            prefetch_block(o.key, z.block[b + AHEAD])
        i, bound = z.block[b], z.bound[b]
        while o.key[i] < bound:
            z.seen[visited] = o.key[i] & 0xFFFFFFFF
            visited += 1
            i += 1
    z.counted[VISITED] += visited
    for i in range(begin, begin + n):
        z.vector[v.word[i & terms]] = v.weight[i & terms]
    found, scored, turn = 0, 0, z.turn[0]
    for i in range(visited):
        if i + 2 * AHEAD < visited:
            prefetch_block(s.row, int(z.seen[i + 2 * AHEAD]) * ROW)
        if i + AHEAD < visited:
            prefetch_block(s.term, 2 * int(s.note[int(z.seen[i + AHEAD]) * ROW + TERM]))
        row = np.int64(z.seen[i]) * ROW
        if s.note[row + STAMP] != turn:
            s.note[row + STAMP] = turn
            scored += 1
            text, first = 0.0, s.note[row + TERM]
            for t in range(first, first + s.note[row + WORDS]):
                text += s.term[2 * t + 1] * z.vector[np.int64(s.term[2 * t])]
            score = score_of(s.row[row + X], s.row[row + Y], s.row[row + ALPHA], x, y, diagonal, text)
            if score >= s.row[row + THETA]:
                z.hit[found], z.hit_score[found] = z.seen[i], score
                found += 1
    for i in range(begin, begin + n):
        z.vector[v.word[i & terms]] = 0.0
    z.counted[SCORED] += scored
    z.counted[HITS] += found
    return found


@inner_kernel
def _open_blocks(o, c, v, z, begin, n, x, y, diagonal):  # type: ignore[no-untyped-def]
    """Write to z.block where the lists begin that a post has to read, and up to which key. Returns how many."""
    cells, terms = c.box.size // 4, v.word.size - 1
    for cell in range(cells):
        z.limit[cell] = np.int64(nearest(c, cell, x, y, diagonal) * SCALE)
    for i in range(n):
        word, j = v.word[(begin + i) & terms], i
        while j > 0 and o.order[z.word[j - 1]] > o.order[word]:
            z.word[j], z.length[j] = z.word[j - 1], z.length[j - 1]
            j -= 1
        z.word[j], z.length[j] = word, v.weight[(begin + i) & terms]
    keys, directory, m, total = o.key.size // _LEVELS.size, o.head.size // _LEVELS.size, 0, 0.0
    for i in range(n - 1, -1, -1):
        word = z.word[i]
        total += z.length[i] * z.length[i]
        level, t = 0, math.sqrt(total)
        while level < _LEVELS.size - 1 and _LEVELS[level] < t:
            level += 1
        first = np.int64(o.at[word])
        z.counted[BLOCKS] += o.blocks[word]
        for b in range(first, first + o.blocks[word]):
            limit = np.int64(z.limit[o.cell[b]])
            if o.head[level * directory + b] <= limit:
                z.block[m], z.bound[m] = level * keys + o.begin[b], (limit + 1) << 32
                m += 1
    return m


@lean_kernel
def find_many(o, c, v, s, z, first, end, diagonal):  # type: ignore[no-untyped-def]
    """Find whom these posts of the window may matter to, and change nothing. Returns how many in all."""
    found = 0
    for post in range(first, end):
        z.size[TURN] += 1
        z.turn[0] = z.size[TURN]
        found += find_ordered(o, c, v, s, z, post, diagonal)
    return found


@lean_kernel
def refill_ordered(o, c, v, s, limits, z, first, end, diagonal):  # type: ignore[no-untyped-def]
    """These posts of the window come into the buffers of those that they reach: see `refill`. O(postings read +
    entries) each."""
    for post in range(first, end):
        if v.gone[post & (v.x.size - 1)] == 0:
            z.size[TURN] += 1
            z.turn[0] = z.size[TURN]
            hits = find_ordered(o, c, v, s, z, post, diagonal)
            take_again(s, limits, z, hits, post)
            for i in range(hits):
                slot = int(z.hit[i])
                if z.hit_score[i] != s.row[slot * ROW + THETA]:
                    move(o, s, slot, z.hit_score[i])
