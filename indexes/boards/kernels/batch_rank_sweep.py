"""A batch that changes much of its board: one sweep over all ranks of O0 and O1, from the worst object to the best.

All places of both moments lie in one row in order of x, under a bit set for each moment. The sweep takes each rank,
from the worst on, out of the set of its moment; so a set holds what is better, and the nearest k better ones on a side
are the next k bits: no search in an index, and both moments at hand together. An unchanged object is visited once, for
what it gained, however many demotions exposed it; if none of its k nearest better ones is demoted past it, it gained
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.batch_demotions import lists_at, paint_demotion_lists, put_tiles
from indexes.boards.kernels.batch_diff import DEMOTED, ITEMS, MISSING, PROMOTED, BatchDiff, DiffItems
from indexes.boards.kernels.object_index import ObjectArrays, ObjectIndex
from indexes.boards.kernels.paint import greatest, is_painted, paint_near
from indexes.boards.kernels.radix import DIGITS, MOVES, are_alike, order_by_upper, place_of
from indexes.boards.kernels.scratch import PaintContext
from indexes.boards.kernels.staircase import Moments, reverse_strips
from indexes.boards.kernels.step import DONE, FULL_TILES
from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.simd import bit_count, high_bit, low_bit
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32, UInt32s, UInt64s, int64, uint32

UNCHANGED = 0
"""Next to DEMOTED and PROMOTED: what the batch did to the object of a place. One that moved in x has two places."""

BEFORE, SAME, AFTER = range(3)
"""Which rank a step removes: that before the batch, that of an unchanged object, or that after the batch."""

NEXT, MADE, SPENT = range(3)
"""Entries of `progress`: the next step, tiles made, and the estimated cost of the steps."""

PAINTED = 16
"""The estimated cost of painting an object, in steps that paint nothing."""


class RankSweep(NamedTuple):
    """Places in order of x. `y0` and `y1` are the rank values there before and after the batch, inf for none. `kind` is
    UNCHANGED, DEMOTED or PROMOTED; `item` is the item of that kind.

    The bit sets have 32 places a word: in `before` and `after` are the places whose rank in O0 and O1 is better than
    the last step's, in `demoted` those demoted past it. A bit of `old_words` and `new_words` stands for a word of the
    first two that is not 0. A step is 4 * place + BEFORE, SAME or AFTER, the worst first.
    """

    x: Floats
    y0: Floats
    y1: Floats
    c: Ints
    row: Ints32
    kind: Bytes
    item: Ints32
    before: UInt32s
    after: UInt32s
    demoted: UInt32s
    old_words: UInt32s
    new_words: UInt32s
    step: Ints


class PlaceSets(NamedTuple):
    """The columns of a `RankSweep` that say what is better in each moment: a call passes every array of a tuple."""

    x: Floats
    before: UInt32s
    after: UInt32s
    old_words: UInt32s
    new_words: UInt32s


def make_rank_sweep(objects: ObjectIndex, diff: BatchDiff) -> RankSweep:
    """All places of both moments, for an index in the state before the batch. O(n log n) for n objects."""
    columns = objects.in_order()
    n = len(objects) + int(diff.promoted.size[MISSING])
    steps = n + int(diff.demoted.size[ITEMS] + diff.promoted.size[ITEMS])
    words, blocks = (n >> 5) + 1, (n >> 10) + 1
    sweep = RankSweep(
        np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int32),
        np.zeros(n, np.uint8), np.empty(n, np.int32),
        np.zeros(words, np.uint32), np.zeros(words, np.uint32), np.zeros(words, np.uint32),
        np.zeros(blocks, np.uint32), np.zeros(blocks, np.uint32), np.empty(steps, np.int64),
    )  # fmt: skip
    values = np.empty(steps)
    some = lay_places(*columns, diff, sweep, np.empty(len(objects.arrays.pos), np.int32), values)
    return sweep._replace(step=worst_first(sweep, values[:some]))


def worst_first(sweep: RankSweep, values: Floats) -> Ints:
    """The steps by value and `created`, the worst first. Of an object that moved and is as good as before, the new
    place goes first: it is not better than itself."""
    n = len(values)
    step, words, spare = np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    if not sort_worst_first(values + 0.0, words, spare, np.empty((DIGITS, 256), np.int32), sweep, step):
        whose = sweep.step[:n] & 3
        step = sweep.step[np.lexsort((whose, sweep.c[sweep.step[:n] >> 2], values))[::-1]]
    return step


@kernel
def sort_worst_first(
    values: Floats, words: UInt64s, spare: UInt64s, heads: Ints32, sweep: RankSweep, out: Ints
) -> bool:
    """Write the steps by the upper half of their values, the worst first, and order those that agree in it one by one.
    False if too many agree: then another sort is faster."""
    n = len(values)
    order_by_upper(values, n, words, spare, heads)
    moves = int64(0)
    i = 0
    while i < n and moves <= MOVES * n:
        step = sweep.step[place_of(words[i])]
        at = n - 1 - i
        behind = i - 1
        while behind >= 0 and are_alike(words[behind], words[i]) and _is_before(sweep, step, out[at + 1]):
            out[at] = out[at + 1]
            at += 1
            behind -= 1
            moves += 1
        out[at] = step
        i += 1
    return moves <= MOVES * n


@internal
def _is_before(sweep: RankSweep, a: int, b: int) -> bool:
    """Whether step a has a better rank than step b."""
    place_a, place_b = a >> 2, b >> 2
    y = sweep.y1[place_a] if a & 3 == AFTER else sweep.y0[place_a]
    than = sweep.y1[place_b] if b & 3 == AFTER else sweep.y0[place_b]
    less = y < than
    if y == than:
        less = sweep.c[place_a] < sweep.c[place_b] or (sweep.c[place_a] == sweep.c[place_b] and a & 3 < b & 3)
    return less


@kernel
def lay_places(
    x: Floats, y: Floats, c: Ints, row: Ints32, diff: BatchDiff, sweep: RankSweep, place_of_row: Ints32, values: Floats
) -> int:
    """Lay out the objects of O0, given in order of x, and the inserted ones; and write the value and the code of each
    step. `place_of_row` is scratch, by row. Returns how many steps there are. O(n)."""
    n = _merge(x, y, c, row, diff.promoted, sweep, place_of_row)
    for i in range(diff.demoted.size[ITEMS]):
        place = place_of_row[diff.demoted.row[i]]
        sweep.kind[place], sweep.item[place], sweep.y1[place] = DEMOTED, i, diff.demoted.y1[i]
    for i in range(diff.promoted.size[ITEMS]):
        if diff.promoted.y0[i] < INF:
            place = place_of_row[diff.promoted.row[i]]
            sweep.kind[place], sweep.item[place], sweep.y1[place] = PROMOTED, i, diff.promoted.y1[i]
    _lay_sets(sweep, n)
    return _lay_steps(sweep, n, values)


@internal
def _merge(
    x: Floats, y: Floats, c: Ints, row: Ints32, promoted: DiffItems, sweep: RankSweep, place_of_row: Ints32
) -> int:
    """Write the places in order of x as they were before the batch, all unchanged; returns how many.

    Rows of no object may lie between the objects, out of that order.
    """
    place = i = j = 0
    inserted = promoted.size[ITEMS]
    while i < len(x) or j < inserted:
        if i < len(x) and y[i] == INF:
            i += 1
        elif j < inserted and promoted.y0[j] < INF:
            j += 1
        elif j == inserted or (i < len(x) and x[i] <= promoted.x[j]):
            sweep.x[place], sweep.y0[place], sweep.y1[place], sweep.c[place] = x[i], y[i], y[i], c[i]
            sweep.row[place] = row[i]
            place_of_row[row[i]] = place
            place += 1
            i += 1
        else:
            sweep.x[place], sweep.y0[place] = promoted.x[j], INF
            sweep.y1[place], sweep.c[place] = promoted.y1[j], promoted.c[j]
            sweep.row[place], sweep.kind[place], sweep.item[place] = promoted.row[j], PROMOTED, j
            place += 1
            j += 1
    return place


@internal
def _lay_sets(sweep: RankSweep, n: int) -> None:
    """Set the bits of the n places."""
    for word in range((n + 31) >> 5):
        before = after = int64(0)
        for place in range(word << 5, min(n, (word + 1) << 5)):
            before |= int64(sweep.y0[place] < INF) << (place & 31)
            after |= int64(sweep.y1[place] < INF) << (place & 31)
        sweep.before[word], sweep.after[word], sweep.demoted[word] = before, after, before & ~after
        sweep.old_words[word >> 5] |= uint32((before != 0) << (word & 31))
        sweep.new_words[word >> 5] |= uint32((after != 0) << (word & 31))


@inlined
def _lay_steps(sweep: RankSweep, n: int, values: Floats) -> int:
    """Write the steps of the n places with their values; returns how many."""
    t = 0
    for place in range(n):
        if sweep.kind[place] == UNCHANGED:
            sweep.step[t], values[t] = 4 * place + SAME, sweep.y0[place]
            t += 1
        else:
            sweep.step[t], values[t] = 4 * place + BEFORE, sweep.y0[place]
            t += sweep.y0[place] < INF
            sweep.step[t], values[t] = 4 * place + AFTER, sweep.y1[place]
            t += sweep.y1[place] < INF
    return t


@expanded
def _bit(place: int) -> int:
    """The bit of a place in its word."""
    return uint32(1 << (place & 31))


@expanded
def _beyond(words: UInt32s, place: int, east: bool) -> int:
    """The bits of the word of a place that are east, or west, of it."""
    return int64(words[place >> 5]) & ((-2 << (place & 31)) if east else (1 << (place & 31)) - 1)


@expanded
def _nearest(bits: int, east: bool) -> int:
    """The first of these bits on the way east, or west; there is one."""
    return low_bit(bits) if east else high_bit(bits)


@expanded
def _next_word(some: UInt32s, or_some: UInt32s, word: int, east: bool) -> int:
    """The nearest word east, or west, of `word` that is not 0 in one of two sets, -1 if there is none."""
    bits = _beyond(some, word, east) | _beyond(or_some, word, east)
    block = word >> 5
    while bits == 0 and (block + 1 < len(some) if east else block > 0):
        block += 1 if east else -1
        bits = int64(some[block] | or_some[block])
    return (block << 5) + _nearest(bits, east) if bits != 0 else int64(-1)


@kernel
def paint_rank_sweep(
    objects: ObjectArrays,
    context: PaintContext,
    moments: Moments,
    diff: BatchDiff,
    sweep: RankSweep,
    progress: Ints,
    effort: int,
    keep: bool,
) -> int:
    """Continue the sweep from step `progress[NEXT]` for about as long as `effort` steps that paint nothing take.

    `objects` is O1. With `keep` tiles are collected in `tiles`, else each step's overwrite the last one's. Returns
    DONE, or FULL_TILES when the buffer has to grow before the next step. O(1) for a step without a crossing, else O(k)
    and O(k) for each tile, O(k log n) for a demotion that others cross, plus searches of the forest if not dense.
    """
    tiles = context.tiles
    kmax = greatest(context)
    status = DONE
    at = progress[NEXT]
    spent = int64(0)
    while at < len(sweep.step) and spent < effort and status == DONE:
        if not keep:
            tiles.n[0] = 0
        start = tiles.n[0]
        place, whose = sweep.step[at] >> 2, sweep.step[at] & 3
        ok = True
        painted = kmax > 0
        if painted:
            if whose == SAME:
                painted = _is_passed(sweep, place, kmax)
                if painted:
                    ok = _expose(context, kmax, moments, sweep, place)
            elif whose == AFTER:
                painted = sweep.kind[place] == PROMOTED
                if painted:
                    ok = _promote(objects, context, kmax, sweep, place)
                    diff.promoted.first[sweep.item[place]], diff.promoted.end[sweep.item[place]] = start, tiles.n[0]
            else:
                painted = sweep.kind[place] == DEMOTED
                if painted:
                    ok = _demote(objects, context, kmax, moments, diff, sweep, place)
                    diff.demoted.first[sweep.item[place]], diff.demoted.end[sweep.item[place]] = start, tiles.n[0]
        if ok:
            _remove_rank(sweep, place, whose)
            progress[MADE] += tiles.n[0] - start
            spent += PAINTED if painted else 1
            at += 1
        else:
            tiles.n[0] = start
            status = FULL_TILES
    progress[NEXT] = at
    progress[SPENT] += spent
    return status


@inlined
def _remove_rank(sweep: RankSweep, place: int, whose: int) -> None:
    """Remove a rank from its moment's set: that of the place before the batch, after it, or both."""
    word, bit = place >> 5, _bit(place)
    if whose != AFTER:
        sweep.before[word] &= ~bit
        sweep.demoted[word] &= ~bit
        if sweep.before[word] == 0:
            sweep.old_words[place >> 10] &= ~_bit(word)
    if whose != BEFORE:
        sweep.after[word] &= ~bit
        if sweep.after[word] == 0:
            sweep.new_words[place >> 10] &= ~_bit(word)
        if whose == AFTER and sweep.kind[place] == DEMOTED:
            sweep.demoted[word] |= bit


@inlined
def _is_passed(sweep: RankSweep, place: int, k: int) -> bool:
    """Whether any of the nearest k on a side that were better before the batch is demoted past the place."""
    return _is_passed_on(sweep, place, k, False) or _is_passed_on(sweep, place, k, True)


@expanded
def _is_passed_on(sweep: RankSweep, place: int, k: int, east: bool) -> bool:
    """`_is_passed` for one side."""
    passed = False
    word = place >> 5
    bits, demoted = _beyond(sweep.before, place, east), _beyond(sweep.demoted, place, east)
    while k > 0 and word >= 0:
        if demoted != 0:
            first = _nearest(demoted, east)
            passed = bit_count(bits & ((2 << first) - 1) if east else bits >> first) <= k
            k = 0
        else:
            k -= bit_count(bits)
            if k > 0:
                word = _next_word(sweep.old_words, sweep.old_words, word, east)
                bits, demoted = int64(sweep.before[word]), int64(sweep.demoted[word])
    return passed


@internal
def _lists_in(
    x: Floats, words: UInt32s, some: UInt32s, place: int, k: int, west: Floats, east: Floats
) -> tuple[int, int]:
    """Write the lists of a place among those in a set; returns their lengths."""
    return _list_in(x, words, some, place, k, west, False), _list_in(x, words, some, place, k, east, True)


@expanded
def _list_in(x: Floats, words: UInt32s, some: UInt32s, place: int, k: int, side: Floats, east: bool) -> int:
    """`_lists_in` for one side."""
    side[0] = x[place]
    n, word, bits = 0, place >> 5, _beyond(words, place, east)
    while n < k and word >= 0:
        while n < k and bits != 0:
            at = _nearest(bits, east)
            bits ^= 1 << at
            n += 1
            side[n] = x[(word << 5) + at]
        if n < k:
            word = _next_word(some, some, word, east)
            bits = int64(words[word])
    side[n + 1 : k + 1] = INF if east else -INF
    return n


@inlined
def _expose(context: PaintContext, kmax: int, moments: Moments, sweep: RankSweep, place: int) -> bool:
    """Step 2 for one object. False when `tiles` is too small."""
    sets = PlaceSets(sweep.x, sweep.before, sweep.after, sweep.old_words, sweep.new_words)
    _east_lists(sets, place, kmax, moments.old_east, moments.new_east)
    ok = True
    for k_class in range(len(context.ks)):
        if ok and is_painted(context, k_class):
            k, strip = context.ks[k_class], context.scratch.strip
            n = _gained_strips(sets, place, k, moments.old_east, moments.new_east, strip)
            reverse_strips(context.scratch, n)
            row, x, y, c = sweep.row[place], sweep.x[place], sweep.y0[place], sweep.c[place]
            ok = put_tiles(context, n, k_class, row, x, y, False, c, False)
    return ok


@internal
def _east_lists(sets: PlaceSets, place: int, k: int, old_east: Floats, new_east: Floats) -> None:
    """Write the east lists of a place in both moments, the old one as far as the new one extends. Entries beyond the
    end go to index k + 1."""
    x, before, after, old_words, new_words = sets
    old_east[0] = new_east[0] = x[place]
    a = b = int64(0)
    word = place >> 5
    old, new = _beyond(before, place, True), _beyond(after, place, True)
    while word >= 0 and b < k:
        bits = old | new
        while bits != 0:
            at = low_bit(bits)
            bits &= bits - 1
            # The next bit is of either moment at random: branches here would be mispredicted every other time.
            was, is_now = (old >> at) & 1, (new >> at) & 1
            a += was
            b += is_now
            old_east[a if was == 1 and a <= k else k + 1] = x[(word << 5) + at]
            new_east[b if is_now == 1 and b <= k else k + 1] = x[(word << 5) + at]
        word = _next_word(old_words if a < k else new_words, new_words, word, True)
        old, new = int64(before[word]) if a < k else int64(0), int64(after[word])
    old_east[min(a, k) + 1 : k + 1] = INF
    new_east[min(b, k) + 1 : k + 1] = INF


@internal
def _gained_strips(sets: PlaceSets, place: int, k: int, old_east: Floats, new_east: Floats, strip: Floats) -> int:
    """Write R1 minus R0 of a place to `strip`, from east to west; returns how many strips. Only the east lists are
    needed: each step to the next better object in the west, of either moment, ends a strip."""
    x, before, after, old_words, new_words = sets
    here = hi = hi_first = x[place]
    last_lo = last_bottom = last_top = INF
    a = b = n = int64(0)
    spare = len(strip) - 1
    word = place >> 5
    old, new = _beyond(before, place, False), _beyond(after, place, False)
    while hi > -INF and b < k:
        while old | new == 0 and word >= 0:
            word = _next_word(old_words if a < k else new_words, new_words, word, False)
            if word >= 0:
                old, new = int64(before[word]) if a < k else int64(0), int64(after[word])
        at = high_bit(old | new) if word >= 0 else int64(0)
        lo = x[(word << 5) + at] if word >= 0 else -INF
        bottom, top = max(here, old_east[max(k - a, 0)]), new_east[k - b]
        gained = (lo < hi) & (bottom < top)
        fresh = gained & ((last_lo != hi) | (last_bottom != bottom) | (last_top != top))
        n += fresh
        hi_first = hi if fresh else hi_first
        t = n - 1 if gained else spare
        strip[t, 0], strip[t, 1], strip[t, 2], strip[t, 3] = lo, hi_first, bottom, top
        last_lo = lo if gained else last_lo
        last_bottom = bottom if gained else last_bottom
        last_top = top if gained else last_top
        a += (old >> at) & 1
        b += (new >> at) & 1
        old &= ~(1 << at)
        new &= ~(1 << at)
        hi = lo
    return n


@inlined
def _promote(objects: ObjectArrays, context: PaintContext, kmax: int, sweep: RankSweep, place: int) -> bool:
    """Step 3 for one object. False when `tiles` is too small."""
    west, east = context.scratch.all_west, context.scratch.all_east
    a, b = _lists_in(sweep.x, sweep.after, sweep.new_words, place, kmax, west, east)
    slot = int64(objects.pos[sweep.row[place]])
    return paint_near(objects, context, slot, objects.y[slot], a, b, True, None)


@inlined
def _demote(
    objects: ObjectArrays,
    context: PaintContext,
    kmax: int,
    moments: Moments,
    diff: BatchDiff,
    sweep: RankSweep,
    place: int,
) -> bool:
    """Step 1 for one object. False when `tiles` is too small."""
    item = sweep.item[place]
    crossed = _is_passed(sweep, place, kmax)
    if crossed:
        _lists_in(sweep.x, sweep.before, sweep.old_words, place, kmax, moments.old_west, moments.old_east)
    _lists_in(sweep.x, sweep.after, sweep.new_words, place, kmax, moments.kept_west, moments.kept_east)
    if crossed and sweep.y1[place] < INF:
        slot = int64(objects.pos[sweep.row[place]])
        lists_at(objects, slot, sweep.y1[place], kmax, context.scratch, moments.new_west, moments.new_east)
    return paint_demotion_lists(context, moments, diff.demoted, item, crossed)
