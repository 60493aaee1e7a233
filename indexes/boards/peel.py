"""A batch that changes much of its board: both moments are peeled, from the worst object to the best.

All places of both moments stand in one row in order of x, under a bit set for each moment. Going through all ranks from
the worst on, each leaves the set of its moment, so what is in a set is what is better, and the nearest k better ones on
a side are the next k bits: no walk in an index, and both moments at hand together. An object that the batch left alone
is looked at once and asked for what it gained, however many falls exposed it; where none of its k nearest better ones
is falling past it there is nothing to ask.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.forest import NODE
from indexes.boards.net import ITEMS, MISSING, Net
from indexes.boards.objects import ObjectIndex, delete, insert, look_ahead, set_y
from indexes.boards.paint import greatest, paint_near
from indexes.boards.radix import DIGITS, MOVES, are_alike, order_by_upper, place_of
from indexes.boards.stairs import turn
from indexes.boards.step import DONE, FULL_TILES
from indexes.boards.told import lists, send, tell
from indexes.jit import inline_kernel
from indexes.lanes import bit_count, high_bit, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

INF = np.inf

LEFT, FELL, ROSE = range(3)
"""What the batch did to the object of a place; what moved in x fell at one and rose at another."""

BEFORE, SAME, AFTER = range(3)
"""Whose rank a step takes out: that before the batch, that of an object which was left alone, or that after it."""

NEXT, MADE, SPENT = range(3)
"""Entries of `progress`: the next step, tiles made, and what the steps are taken to have cost."""

PAINTED = 16
"""What painting an object is taken to cost, in steps that paint nothing."""


class Peel(NamedTuple):
    """Places in order of x. `y0` and `y1` are the rank values there before and after the batch, inf for none. `kind`
    says what happened, to item `item` of the fallen or the risen.

    The bit sets have 32 places a word: of `before` and `after` those whose rank in O0 and O1 is better than the last
    step's, of `falling` those that have fallen past it. A bit of `old_words` and `new_words` stands for a word of the
    first two that is not 0. A step is 4 * place + whose rank it is, the worst first."""

    x: NDArray[np.float64]
    y0: NDArray[np.float64]
    y1: NDArray[np.float64]
    c: NDArray[np.int64]
    row: NDArray[np.int32]
    kind: NDArray[np.uint8]
    item: NDArray[np.int32]
    before: NDArray[np.uint32]
    after: NDArray[np.uint32]
    falling: NDArray[np.uint32]
    old_words: NDArray[np.uint32]
    new_words: NDArray[np.uint32]
    step: NDArray[np.int64]


def make_peel(objects: ObjectIndex, net: Net) -> Peel:
    """All places of both moments, for an index that is still as before the batch. O(n log n) for n objects."""
    columns = objects.in_order()
    n = len(objects) + int(net.risen.size[MISSING])
    steps = n + int(net.fallen.size[ITEMS] + net.risen.size[ITEMS])
    words, blocks = (n >> 5) + 1, (n >> 10) + 1
    peel = Peel(
        np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int32),
        np.zeros(n, np.uint8), np.empty(n, np.int32),
        np.zeros(words, np.uint32), np.zeros(words, np.uint32), np.zeros(words, np.uint32),
        np.zeros(blocks, np.uint32), np.zeros(blocks, np.uint32), np.empty(steps, np.int64),
    )  # fmt: skip
    values = np.empty(steps)
    some = lay_places(*columns, net, peel, np.empty(len(objects.arrays.pos), np.int32), values)
    return peel._replace(step=worst_first(peel, values[:some]))


def worst_first(peel: Peel, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The steps by value and `created`. Of an object that moved and is as good as before, the new place goes first: it
    is not better than itself."""
    n = len(values)
    step, words, spare = np.empty(n, np.int64), np.empty(n, np.uint64), np.empty(n, np.uint64)
    if not put_worst_first(values + 0.0, words, spare, np.empty((DIGITS, 256), np.int32), peel, step):
        whose = peel.step[:n] & 3
        step = peel.step[np.lexsort((whose, peel.c[peel.step[:n] >> 2], values))[::-1]]
    return step


@lean_kernel
def put_worst_first(values, words, spare, heads, peel, out):  # type: ignore[no-untyped-def]
    """Write the steps by the upper half of their values, the worst first, and put those in order that it does not tell
    apart. Returns whether that was worth it: where very many are alike, another way is better."""
    n = len(values)
    order_by_upper(values, n, words, spare, heads)
    moves = np.int64(0)
    i = 0
    while i < n and moves <= MOVES * n:
        step = peel.step[place_of(words[i])]
        at = n - 1 - i
        behind = i - 1
        while behind >= 0 and are_alike(words[behind], words[i]) and _is_before(peel, step, out[at + 1]):
            out[at] = out[at + 1]
            at += 1
            behind -= 1
            moves += 1
        out[at] = step
        i += 1
    return moves <= MOVES * n


@inner_kernel
def _is_before(peel, a, b):  # type: ignore[no-untyped-def]
    """Is step a of a better rank than step b?"""
    p, q = a >> 2, b >> 2
    y = peel.y1[p] if a & 3 == AFTER else peel.y0[p]
    than = peel.y1[q] if b & 3 == AFTER else peel.y0[q]
    less = y < than
    if y == than:
        less = peel.c[p] < peel.c[q] or (peel.c[p] == peel.c[q] and a & 3 < b & 3)
    return less


@lean_kernel
def lay_places(x, y, c, row, net, peel, place, values):  # type: ignore[no-untyped-def]
    """Lay the objects of O0, given in order of x, and what came; and write the value and the code of each step.
    `place` is scratch, by row. Returns how many steps there are. O(n)."""
    n = _merge(x, y, c, row, net.risen, peel, place)
    for i in range(net.fallen.size[ITEMS]):
        p = place[net.fallen.row[i]]
        peel.kind[p], peel.item[p], peel.y1[p] = FELL, i, net.fallen.y1[i]
    for i in range(net.risen.size[ITEMS]):
        if net.risen.y0[i] < INF:
            p = place[net.risen.row[i]]
            peel.kind[p], peel.item[p], peel.y1[p] = ROSE, i, net.risen.y1[i]
    _lay_sets(peel, n)
    return _lay_steps(peel, n, values)


@inner_kernel
def _merge(x, y, c, row, risen, peel, place):  # type: ignore[no-untyped-def]
    """Write the places in order of x, as they were before the batch and if it left them alone; returns how many.

    Rows of nobody may lie between the objects, out of that order."""
    p = i = j = 0
    came = risen.size[ITEMS]
    while i < len(x) or j < came:
        if i < len(x) and y[i] == INF:
            i += 1
        elif j < came and risen.y0[j] < INF:
            j += 1
        elif j == came or (i < len(x) and x[i] <= risen.x[j]):
            peel.x[p], peel.y0[p], peel.y1[p], peel.c[p], peel.row[p] = x[i], y[i], y[i], c[i], row[i]
            place[row[i]] = p
            p += 1
            i += 1
        else:
            peel.x[p], peel.y0[p], peel.y1[p], peel.c[p] = risen.x[j], INF, risen.y1[j], risen.c[j]
            peel.row[p], peel.kind[p], peel.item[p] = risen.row[j], ROSE, j
            p += 1
            j += 1
    return p


@inner_kernel
def _lay_sets(peel, n):  # type: ignore[no-untyped-def]
    for w in range((n + 31) >> 5):
        before = after = np.int64(0)
        for p in range(w << 5, min(n, (w + 1) << 5)):
            before |= np.int64(peel.y0[p] < INF) << (p & 31)
            after |= np.int64(peel.y1[p] < INF) << (p & 31)
        peel.before[w], peel.after[w], peel.falling[w] = before, after, before & ~after
        peel.old_words[w >> 5] |= np.uint32((before != 0) << (w & 31))
        peel.new_words[w >> 5] |= np.uint32((after != 0) << (w & 31))


@pasted_kernel
def _lay_steps(peel, n, values):  # type: ignore[no-untyped-def]
    t = 0
    for p in range(n):
        if peel.kind[p] == LEFT:
            peel.step[t], values[t] = 4 * p + SAME, peel.y0[p]
            t += 1
        else:
            peel.step[t], values[t] = 4 * p + BEFORE, peel.y0[p]
            t += peel.y0[p] < INF
            peel.step[t], values[t] = 4 * p + AFTER, peel.y1[p]
            t += peel.y1[p] < INF
    return t


@inline_kernel
def _bit(p):  # type: ignore[no-untyped-def]
    return np.uint32(1 << (p & 31))


@inline_kernel
def _west_of(words, p):  # type: ignore[no-untyped-def]
    """The bits of the word of place p that stand west of it."""
    return np.int64(words[p >> 5]) & ((1 << (p & 31)) - 1)


@inline_kernel
def _east_of(words, p):  # type: ignore[no-untyped-def]
    return np.int64(words[p >> 5]) & (-2 << (p & 31))


@inline_kernel
def _word_west(some, or_some, w):  # type: ignore[no-untyped-def]
    """The nearest word west of word w that is not 0 in one of two sets, -1 if there is none."""
    bits = _west_of(some, w) | _west_of(or_some, w)
    v = w >> 5
    while bits == 0 and v > 0:
        v -= 1
        bits = np.int64(some[v] | or_some[v])
    return (v << 5) + high_bit(bits) if bits != 0 else np.int64(-1)


@inline_kernel
def _word_east(some, or_some, w):  # type: ignore[no-untyped-def]
    bits = _east_of(some, w) | _east_of(or_some, w)
    v = w >> 5
    while bits == 0 and v + 1 < len(some):
        v += 1
        bits = np.int64(some[v] | or_some[v])
    return (v << 5) + low_bit(bits) if bits != 0 else np.int64(-1)


@lean_kernel
def change(o, net, lo, hi):  # type: ignore[no-untyped-def]
    """Make the changes lo..hi of a batch in an object index: what fell, then what rose."""
    rose, fell = net.risen.size[ITEMS], net.fallen.size[ITEMS]
    for i in range(lo, min(hi, fell)):
        look_ahead(o, net.fallen.row, i, fell)
        row, y = int(net.fallen.row[i]), net.fallen.y1[i]
        if y < INF:
            set_y(o, int(o.pos[row]), y)
        else:
            delete(o, row)
    for i in range(max(lo, fell) - fell, hi - fell):
        look_ahead(o, net.risen.row, i, rose)
        row, y = int(net.risen.row[i]), net.risen.y1[i]
        if o.pos[row] < 0:
            insert(o, row, net.risen.x[i], y, net.risen.c[i])
        elif y != o.y[o.pos[row]]:
            set_y(o, int(o.pos[row]), y)


@lean_kernel
def paint_peeled(o, f, ks, dense, w, tiles, m, net, peel, progress, effort, keep):  # type: ignore[no-untyped-def]
    """Go on from step `progress[NEXT]` for about as long as `effort` steps that paint nothing take.

    `o` is O1. With `keep` tiles gather in `tiles`, else each step's overwrite the last one's. Returns DONE, or
    FULL_TILES when the buffer has to grow before the next step. O(1) for a step that nothing meets, else O(k) and O(k)
    for each tile, O(k log n) where an object fell among others that did, plus searches of `f` if not dense.
    """
    kmax = greatest(f, ks, dense)
    why = DONE
    at = progress[NEXT]
    spent = np.int64(0)
    while at < len(peel.step) and spent < effort and why == DONE:
        if not keep:
            tiles.n[0] = 0
        start = tiles.n[0]
        p, whose = peel.step[at] >> 2, peel.step[at] & 3
        ok = True
        painted = kmax > 0
        if painted:
            if whose == SAME:
                painted = _is_met(peel, p, kmax)
                if painted:
                    ok = _expose(f, ks, kmax, dense, w, m, tiles, peel, p)
            elif whose == AFTER:
                painted = peel.kind[p] == ROSE
                if painted:
                    ok = _rise(o, f, ks, kmax, dense, w, tiles, peel, p)
                    net.risen.first[peel.item[p]], net.risen.end[peel.item[p]] = start, tiles.n[0]
            else:
                painted = peel.kind[p] == FELL
                if painted:
                    ok = _fall(o, f, ks, kmax, dense, w, m, tiles, net, peel, p)
                    net.fallen.first[peel.item[p]], net.fallen.end[peel.item[p]] = start, tiles.n[0]
        if ok:
            _take_out(peel, p, whose)
            progress[MADE] += tiles.n[0] - start
            spent += PAINTED if painted else 1
            at += 1
        else:
            tiles.n[0] = start
            why = FULL_TILES
    progress[NEXT] = at
    progress[SPENT] += spent
    return why


@pasted_kernel
def _take_out(peel, p, whose):  # type: ignore[no-untyped-def]
    """Take a rank out of its moment's set: that of the place before the batch, after it, or both."""
    word, bit = p >> 5, _bit(p)
    if whose != AFTER:
        peel.before[word] &= ~bit
        peel.falling[word] &= ~bit
        if peel.before[word] == 0:
            peel.old_words[p >> 10] &= ~_bit(word)
    if whose != BEFORE:
        peel.after[word] &= ~bit
        if peel.after[word] == 0:
            peel.new_words[p >> 10] &= ~_bit(word)
        if whose == AFTER and peel.kind[p] == FELL:
            peel.falling[word] |= bit


@pasted_kernel
def _is_met(peel, p, k):  # type: ignore[no-untyped-def]
    """Does any of the nearest k on a side, that were better before the batch, fall past place p?"""
    return _is_met_west(peel, p, k) or _is_met_east(peel, p, k)


@pasted_kernel
def _is_met_west(peel, p, k):  # type: ignore[no-untyped-def]
    met = False
    w = p >> 5
    bits, falling = _west_of(peel.before, p), _west_of(peel.falling, p)
    while k > 0 and w >= 0:
        if falling != 0:
            met = bit_count(bits >> high_bit(falling)) <= k
            k = 0
        else:
            k -= bit_count(bits)
            if k > 0:
                w = _word_west(peel.old_words, peel.old_words, w)
                bits, falling = np.int64(peel.before[w]), np.int64(peel.falling[w])
    return met


@pasted_kernel
def _is_met_east(peel, p, k):  # type: ignore[no-untyped-def]
    met = False
    w = p >> 5
    bits, falling = _east_of(peel.before, p), _east_of(peel.falling, p)
    while k > 0 and w >= 0:
        if falling != 0:
            met = bit_count(bits & ((2 << low_bit(falling)) - 1)) <= k
            k = 0
        else:
            k -= bit_count(bits)
            if k > 0:
                w = _word_east(peel.old_words, peel.old_words, w)
                bits, falling = np.int64(peel.before[w]), np.int64(peel.falling[w])
    return met


@inner_kernel
def _look(x, words, some, p, k, west, east):  # type: ignore[no-untyped-def]
    """Write the lists of place p among those in a set; returns how long they are."""
    west[0] = east[0] = x[p]
    a, w, bits = 0, p >> 5, _west_of(words, p)
    while a < k and w >= 0:
        while a < k and bits != 0:
            at = high_bit(bits)
            bits ^= 1 << at
            a += 1
            west[a] = x[(w << 5) + at]
        if a < k:
            w = _word_west(some, some, w)
            bits = np.int64(words[w])
    b, w, bits = 0, p >> 5, _east_of(words, p)
    while b < k and w >= 0:
        while b < k and bits != 0:
            at = low_bit(bits)
            bits &= bits - 1
            b += 1
            east[b] = x[(w << 5) + at]
        if b < k:
            w = _word_east(some, some, w)
            bits = np.int64(words[w])
    west[a + 1 : k + 1] = -INF
    east[b + 1 : k + 1] = INF
    return a, b


@pasted_kernel
def _expose(f, ks, kmax, dense, w, m, tiles, peel, p):  # type: ignore[no-untyped-def]
    """Step 2 for one object. False when `tiles` is too small."""
    sets = (peel.x, peel.before, peel.after, peel.old_words, peel.new_words)
    _look_east(*sets, p, kmax, m.old_east, m.new_east)
    ok = True
    for q in range(len(ks)):
        k = ks[q]
        if ok and k > 0 and (dense or f.cnt[f.head[q, NODE] + 1] > 0):
            n = _gain(*sets, p, k, m.old_east, m.new_east, w.strip)
            turn(w, n)
            ok = send(f, q, dense, w, n, True, peel.row[p], peel.x[p], peel.y0[p], False, peel.c[p], False, tiles)
    return ok


@inner_kernel
def _look_east(x, before, after, old_words, new_words, p, k, old_east, new_east):  # type: ignore[no-untyped-def]
    """Write the east lists of place p in both moments, the old one as far as the new one reaches. What is behind its
    end goes to row k + 1."""
    old_east[0] = new_east[0] = x[p]
    a = b = np.int64(0)
    w = p >> 5
    old, new = _east_of(before, p), _east_of(after, p)
    while w >= 0 and b < k:
        bits = old | new
        while bits != 0:
            at = low_bit(bits)
            bits &= bits - 1
            # No step knows of which moment the next bit is: branches here would be guessed wrong every other time.
            was, is_now = (old >> at) & 1, (new >> at) & 1
            a += was
            b += is_now
            old_east[a if was == 1 and a <= k else k + 1] = x[(w << 5) + at]
            new_east[b if is_now == 1 and b <= k else k + 1] = x[(w << 5) + at]
        w = _word_east(old_words if a < k else new_words, new_words, w)
        old, new = np.int64(before[w]) if a < k else np.int64(0), np.int64(after[w])
    old_east[min(a, k) + 1 : k + 1] = INF
    new_east[min(b, k) + 1 : k + 1] = INF


@inner_kernel
def _gain(x, before, after, old_words, new_words, p, k, old_east, new_east, strip):  # type: ignore[no-untyped-def]
    """Write R1 minus R0 of place p to `strip`, from east to west; returns how many strips. Only the east lists are
    needed: each step to the next better one in the west, of either moment, ends a strip."""
    here = hi = hi_first = x[p]
    last_lo = last_bottom = last_top = INF
    a = b = n = np.int64(0)
    spare = len(strip) - 1
    w = p >> 5
    old, new = _west_of(before, p), _west_of(after, p)
    while hi > -INF and b < k:
        while old | new == 0 and w >= 0:
            w = _word_west(old_words if a < k else new_words, new_words, w)
            if w >= 0:
                old, new = np.int64(before[w]) if a < k else np.int64(0), np.int64(after[w])
        at = high_bit(old | new) if w >= 0 else np.int64(0)
        lo = x[(w << 5) + at] if w >= 0 else -INF
        bottom, top = max(here, old_east[max(k - a, 0)]), new_east[k - b]
        told = (lo < hi) & (bottom < top)
        fresh = told & ((last_lo != hi) | (last_bottom != bottom) | (last_top != top))
        n += fresh
        hi_first = hi if fresh else hi_first
        t = n - 1 if told else spare
        strip[t, 0], strip[t, 1], strip[t, 2], strip[t, 3] = lo, hi_first, bottom, top
        last_lo = lo if told else last_lo
        last_bottom = bottom if told else last_bottom
        last_top = top if told else last_top
        a += (old >> at) & 1
        b += (new >> at) & 1
        old &= ~(1 << at)
        new &= ~(1 << at)
        hi = lo
    return n


@pasted_kernel
def _rise(o, f, ks, kmax, dense, w, tiles, peel, p):  # type: ignore[no-untyped-def]
    """Step 3 for one object. False when `tiles` is too small."""
    a, b = _look(peel.x, peel.after, peel.new_words, p, kmax, w.all_west, w.all_east)
    s = np.int64(o.pos[peel.row[p]])
    return paint_near(o, f, ks, dense, np.int64(0), s, o.y[s], a, b, w, tiles, True, None)


@pasted_kernel
def _fall(o, f, ks, kmax, dense, w, m, tiles, net, peel, p):  # type: ignore[no-untyped-def]
    """Step 1 for one object. False when `tiles` is too small."""
    item = peel.item[p]
    met = _is_met(peel, p, kmax)
    if met:
        _look(peel.x, peel.before, peel.old_words, p, kmax, m.old_west, m.old_east)
    _look(peel.x, peel.after, peel.new_words, p, kmax, m.kept_west, m.kept_east)
    if met and peel.y1[p] < INF:
        lists(o, np.int64(o.pos[peel.row[p]]), peel.y1[p], kmax, w, m.new_west, m.new_east)
    return tell(f, ks, dense, w, m, tiles, net.fallen, item, met)
