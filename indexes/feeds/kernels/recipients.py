"""The recipients of a post: the subscriptions that it reaches with theta or more, found by threshold-ordered postings.

A post reads the lists of its words (see `postings`), drops keys whose places are too far away, then rows that are, and
scores the subscriptions that are left. `post_ordered` is the whole life of a batch of posts: recipients are found here,
what follows for each is in `step`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.blocks import fill_lanes, pack_lanes
from indexes.compiled.jit import internal, kernel
from indexes.compiled.kept import Words, declare, unpacked
from indexes.compiled.simd import LANES, prefetch_block, prefetch_line
from indexes.core.arrays import Floats, Ints, int64
from indexes.feeds.kernels.buffers import score_of
from indexes.feeds.kernels.cells import Cells, build_cells, nearest
from indexes.feeds.kernels.nearness import (
    BOUND,
    EIGHT,
    FARTHEST,
    SCALE,
    SLOTS,
    WIDE,
    WORD_RATIOS,
    lanes_around,
    lanes_near,
)
from indexes.feeds.kernels.postings import (
    LEVELS,
    SINGLE,
    Postings,
    block_of,
    empty_postings,
    move,
    slot_of,
    steps_along,
)
from indexes.feeds.kernels.refill import take_again
from indexes.feeds.kernels.scratch import (
    AT,
    BLOCKS,
    CELL,
    CELLS_END,
    HITS,
    NEXT_SHORT,
    OPENED,
    PHASE,
    SCORED,
    SEEN,
    VISITED,
    Scratch,
)
from indexes.feeds.kernels.step import (
    DONE,
    ENTER,
    EVALUATE,
    FIND,
    REPORT,
    StepState,
    begin_post,
    begin_search,
    empty_state,
    end_post,
    evaluate_short,
    room_for_hits,
    slide,
    take_in,
)
from indexes.feeds.kernels.subscriptions import (
    ALPHA,
    LARGEST,
    MOST_WORDS,
    ROW,
    SMALL,
    TERM,
    TERMS,
    THETA,
    Subscribers,
    X,
    Y,
    prefetch_terms,
)
from indexes.feeds.kernels.window import NEXT, Batch, OnePost, Window

_LEVELS = np.array(LEVELS)

INDEX = 4 * SEEN - 1
"""`i & INDEX` is i for a place among the keys seen, and not negative."""

AHEAD = 12
"""Lists, and terms of subscriptions, that are prefetched."""

ROWS_AHEAD = 96
"""Postings whose rows are prefetched."""


class KeptPostings(NamedTuple):
    """The postings, the cells, the state of a step and the batch of one post, as kernels keep them."""

    words: Words


declare(KeptPostings, lambda: (empty_postings(), build_cells(np.empty((0, 2)), 1)[0], empty_state(), OnePost().batch))


@kernel
def post_kept(kept: Any, batch: Batch, window_posts: int, most_entries: int) -> int:
    """As `post_ordered`, with what is kept."""
    postings, cells, state, _ = unpacked(kept)
    return post_ordered(postings, cells, state, batch, window_posts, most_entries)


@kernel
def post_one(kept: Any, window_posts: int, most_entries: int) -> int:
    """As `post_ordered`, with the batch of one post that is kept too."""
    postings, cells, state, batch = unpacked(kept)
    return post_ordered(postings, cells, state, batch, window_posts, most_entries)


@internal
def post_ordered(
    postings: Postings, cells: Cells, state: StepState, batch: Batch, window_posts: int, most_entries: int
) -> int:
    """Publish the posts of a batch from number size[AT] on. `window_posts` is the size of the window, `most_entries`
    the room of the largest buffer. Returns DONE, or what there is no room for. O(postings read + entries) a post, and
    the evaluations."""
    window, table, owners, scratch = state.window, state.table, state.owners, state.scratch
    status = DONE
    while status == DONE and scratch.size[AT] < batch.end.size:
        if scratch.size[PHASE] == ENTER:
            begin_post(window, table, scratch, batch)
        if scratch.size[PHASE] == FIND:
            hits = find_ordered(postings, cells, window, table, scratch, window.size[NEXT] - 1, state.diagonal)
            status = room_for_hits(owners, scratch, hits)
            if status == DONE:
                raised = take_in(window, table, state.limits, owners, scratch, hits)
                move_hits(postings, table, scratch, raised)
                slide(window, table, owners, scratch, window_posts)
        if scratch.size[PHASE] == EVALUATE:
            first = scratch.size[NEXT_SHORT]
            status = evaluate_short(state, most_entries)
            for i in range(first, scratch.size[NEXT_SHORT]):
                move(postings, table, int64(scratch.short[i]), scratch.hit_score[i])
        if scratch.size[PHASE] == REPORT:
            status = end_post(table, scratch, batch)
    return status


@internal
def move_hits(postings: Postings, table: Subscribers, scratch: Scratch, raised: int) -> None:
    """`move` for the recipients of a post whose thetas it has raised."""
    for i in range(raised):
        move(postings, table, int64(scratch.hit[i]), scratch.hit_score[i])


@internal
def find_ordered(
    postings: Postings, cells: Cells, window: Window, table: Subscribers, scratch: Scratch, post: int, diagonal: float
) -> int:
    """Write the subscriptions that a post of the window reaches, with theta or more, to `hit` and `hit_score`. Returns
    their number."""
    place, terms = post & (window.x.size - 1), window.word.size - 1
    x, y, begin, n = window.x[place], window.y[place], window.term[place], int64(window.terms[place])
    m = _open_blocks(postings, cells, window, scratch, post, diagonal)
    scratch.counted[OPENED] += m
    for i in range(begin, begin + n):
        word = int64(window.word[i & terms])
        scratch.vector[word + 1] = window.weight[i & terms]
        scratch.has[word >> 6] |= 1 << (word & 63)
    found, seen, steps = 0, 0, postings.frame[2]
    reach = min(diagonal * steps, FARTHEST)
    across, up = steps_along(x, postings.frame[0], steps), steps_along(y, postings.frame[1], steps)
    for b in range(min(AHEAD, m)):
        prefetch_block(postings.key, scratch.block[b])
    for b in range(m):
        if b + AHEAD < m:
            prefetch_block(postings.key, scratch.block[b + AHEAD])
            prefetch_line(postings.key, scratch.block[b + AHEAD] + LANES - 1)
        at, end = scratch.block[b] & LARGEST, scratch.end[b & LARGEST]
        most, ratios = scratch.bound[b & LARGEST], scratch.ratios[b & LARGEST]
        reading = at < end
        while reading:
            prefetch_block(postings.key, at + 2 * LANES)
            read = min(LANES, end - at)
            near = lanes_around(postings.key, at, across, up, reach, most) & ((1 << read) - 1)
            fill_lanes(scratch.seen_ratios, seen, ratios)
            seen += pack_lanes(scratch.seen, seen, postings.key, at, near)
            scratch.counted[VISITED] += read
            at += LANES
            reading = at < end and postings.key[at & LARGEST] >> BOUND <= most
            if seen >= SEEN:
                found = _try(table, scratch, seen, found, x, y, diagonal)
                seen = 0
    found = _try(table, scratch, seen, found, x, y, diagonal)
    for i in range(begin, begin + n):
        word = int64(window.word[i & terms])
        scratch.vector[word + 1], scratch.has[word >> 6] = 0.0, 0
    for i in range(found):
        scratch.marked[scratch.hit[i] >> 3] = 0
    scratch.counted[HITS] += found
    return found


@internal
def _try(table: Subscribers, scratch: Scratch, seen: int, found: int, x: float, y: float, diagonal: float) -> int:
    """Append the subscriptions of the keys seen that score theta or more to the hits, of which there are `found`.
    Returns their number. Only those near enough are scored: see `nearness`."""
    # Between other bounds squares of distances may be no numbers that can be compared.
    left, always = 0, 0 if 1.0 / WIDE < diagonal < WIDE else (1 << EIGHT) - 1
    fill_lanes(scratch.seen, seen, 0)
    fill_lanes(scratch.seen_ratios, seen, 0)
    for i in range(min(ROWS_AHEAD, seen)):
        prefetch_line(table.row, slot_of(scratch.seen[i]) * ROW)
    for i in range(0, seen, EIGHT):
        ahead = min(i + ROWS_AHEAD, seen)
        for j in range(ahead, ahead + EIGHT):
            prefetch_line(table.row, slot_of(scratch.seen[j & INDEX]) * ROW)
        near = lanes_near(table.row, scratch.ratio, scratch.seen, scratch.seen_ratios, i, x, y, diagonal) | always
        near &= (1 << min(EIGHT, seen - i)) - 1
        for j in range(EIGHT):
            scratch.seen[left & INDEX] = slot_of(scratch.seen[(i + j) & INDEX])
            left += (near >> j) & 1
    scratch.counted[SCORED] += left
    for i in range(min(AHEAD, left)):
        prefetch_terms(table, scratch.seen[i])
    for i in range(left):
        if i + AHEAD < left:
            prefetch_terms(table, scratch.seen[(i + AHEAD) & INDEX])
        slot = scratch.seen[i] & (SLOTS - 1)
        row = slot * ROW
        text, begin = 0.0, table.note[row + TERM] & LARGEST
        end = begin + (table.note[row + SMALL] & MOST_WORDS)
        # Few have more, and whether they have less is not worth a jump: others' terms may follow, which do not count.
        for t in range(begin, end, TERMS):
            first, own = 2 * (t & LARGEST), end - t
            for u in range(TERMS):
                # A post lacks most words, which is read from bits, since the weights do not fit into the cache.
                word = int64(table.term[first + 2 * u]) & LARGEST
                shared = (scratch.has[word >> 6] >> (word & 63)) & (1 if u < own else 0)
                text += table.term[first + 2 * u + 1] * scratch.vector[(word + 1) & -shared]
        score = score_of(table.row[row + X], table.row[row + Y], table.row[row + ALPHA], x, y, diagonal, text)
        scratch.hit[found], scratch.hit_score[found] = slot, score
        # It may have been seen by another word.
        marks, bit = int64(scratch.marked[slot >> 3]), int64(1) << (slot & 7)
        hit = (score >= table.row[row + THETA]) & (marks & bit == 0)
        scratch.marked[slot >> 3] = marks | (bit if hit else 0)
        found += 1 if hit else 0
    return found


@internal
def words_by_rarity(order: Ints, window: Window, scratch: Scratch, place: int) -> int:
    """Write the words of a post, rarer ones first, to `word` and `weight`. Returns their number."""
    begin, n, terms = window.term[place], int64(window.terms[place]), window.word.size - 1
    for i in range(n):
        word, j = int64(window.word[(begin + i) & terms]), i
        while j > 0 and order[scratch.word[j - 1]] > order[word]:
            scratch.word[j], scratch.weight[j] = scratch.word[j - 1], scratch.weight[j - 1]
            j -= 1
        scratch.word[j], scratch.weight[j] = word, window.weight[(begin + i) & terms]
    return n


@internal
def _measure(scratch: Scratch, n: int) -> None:
    """Write the levels of the words of a post, and their ratios: the greatest length that weights of one, two, three or
    any number of words may have, its own and others from it on, over that of the level, or of the last level, 1."""
    total = greatest = second = 0.0
    for i in range(n - 1, -1, -1):
        own, at = scratch.weight[i] * scratch.weight[i], WORD_RATIOS * i
        total += own
        level = 0
        while level < _LEVELS.size - 1 and _LEVELS[level] * _LEVELS[level] < total:
            level += 1
        scratch.level[i] = level
        per_level = 1.0 / _LEVELS[level]
        for j in range(WORD_RATIOS // 2):
            length = math.sqrt(total if j == 3 else own + (greatest if j > 0 else 0.0) + (second if j > 1 else 0.0))
            scratch.ratio[(at + j) & LARGEST] = length * per_level
            scratch.ratio[(at + j + WORD_RATIOS // 2) & LARGEST] = length
        second = max(second, min(own, greatest))
        greatest = max(own, greatest)


@internal
def _open_blocks(postings: Postings, cells: Cells, window: Window, scratch: Scratch, post: int, diagonal: float) -> int:
    """Write where the lists begin that a post has to read, and the keys at which reading ends, to `block` and `bound`.
    Returns their number."""
    place = post & (window.x.size - 1)
    first_cell, end_cell = scratch.size[CELL], min(scratch.size[CELLS_END], cells.box.size // 4)
    for cell in range(max(0, first_cell), end_cell):
        scratch.limit[cell] = int64(nearest(cells, cell, window.x[place], window.y[place], diagonal) * SCALE)
    directory, m = postings.head.size // _LEVELS.size, 0
    n = words_by_rarity(postings.order, window, scratch, place)
    # What is read of all words is asked for before that of the first is.
    for i in range(n):
        at = int64(postings.at[scratch.word[i]])
        prefetch_line(postings.cell, at)
        prefetch_line(postings.begin, at)
        prefetch_line(postings.filled, at)
        prefetch_line(postings.fits, at)
        prefetch_line(postings.blocks, scratch.word[i])
    _measure(scratch, n)
    for i in range(n):
        prefetch_block(postings.head, scratch.level[i] * directory + int64(postings.at[scratch.word[i]]))
    for i in range(n - 1, -1, -1):
        word, heads = scratch.word[i] & LARGEST, scratch.level[i] * directory
        begin, end = int64(postings.at[word]), int64(postings.at[word] + postings.blocks[word])
        begin = block_of(postings, word, first_cell) if first_cell > 0 else begin
        end = block_of(postings, word, end_cell) if end_cell < cells.box.size // 4 else end
        opened = m
        for b in range(begin, end):
            limit = scratch.limit[int64(postings.cell[b & LARGEST]) & LARGEST]
            scratch.block[m & LARGEST], scratch.bound[m & LARGEST] = b, limit
            m += 1 if postings.head[(heads + b) & LARGEST] <= limit else 0
        for o in range(opened, m):
            b = scratch.block[o & LARGEST] & LARGEST
            # The bound of the last level is the least, so the limit is above that of a single posting, too.
            fits, at = int64(postings.fits[b]), int64(postings.begin[b])
            several = 1 if fits > SINGLE else 0
            at += scratch.level[i] * fits * several
            scratch.block[o & LARGEST], scratch.end[o & LARGEST] = at, at + postings.filled[b]
            scratch.ratios[o & LARGEST] = WORD_RATIOS * i + (WORD_RATIOS // 2) * (1 - several)
        scratch.counted[BLOCKS] += end - begin
    return m


@kernel
def find_many(postings: Postings, cells: Cells, state: StepState, first: int, end: int) -> int:
    """Find the recipients of posts of the window, and change nothing. Returns their number in all."""
    found = 0
    for post in range(first, end):
        begin_search(state.scratch)
        found += find_ordered(postings, cells, state.window, state.table, state.scratch, post, state.diagonal)
    return found


@kernel
def refill_ordered(postings: Postings, cells: Cells, state: StepState, bounds: Floats, first: int, end: int) -> None:
    """Insert posts of the window, from the newest on, into the buffers of their recipients: see `refill`. O(postings
    read + entries) each."""
    window, table, scratch = state.window, state.table, state.scratch
    for post in range(end - 1, first - 1, -1):
        if window.gone[post & (window.x.size - 1)] == 0:
            begin_search(scratch)
            hits = find_ordered(postings, cells, window, table, scratch, post, state.diagonal)
            take_again(table, state.limits, scratch, bounds, hits, post)
