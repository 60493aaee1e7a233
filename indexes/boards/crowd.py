"""A batch that changes much of its board: regions meet everywhere, and an object is exposed by many changes together.

So all changes are made first. Each object that fell is told then, and its sweep only finds what may be exposed. What
was found is asked once for its lists after the batch; those before it follow from the changes near by. Its new places
are those of R1 that are not in R0, however many falls brought them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.forest import NODE
from indexes.boards.net import Net, any_passing
from indexes.boards.objects import delete, insert, set_y
from indexes.boards.paint import greatest, paint
from indexes.boards.region import exposed
from indexes.boards.stairs import gained_strips
from indexes.boards.step import DONE, FULL_TILES
from indexes.boards.told import leave, lists, old_lists, send, stand, tell_fallen
from indexes.boards.work import MIN_Y
from indexes.lean import lean_kernel, pasted_kernel

INF = np.inf

UNCHANGED, CHANGED, FOUND = range(3)
"""Marks of rows: left alone by the batch, changed by it, left alone and met as perhaps exposed."""


class Found(NamedTuple):
    """Objects that a batch may expose: their rows, `n[0]` of them, and the mark of every row."""

    row: NDArray[np.int32]
    n: NDArray[np.int64]
    mark: NDArray[np.uint8]


def make_found(net: Net, rows: int) -> Found:
    """Nothing found yet, of so many rows."""
    found = Found(np.empty(rows, np.int32), np.zeros(1, np.int64), np.zeros(rows, np.uint8))
    found.mark[net.fallen.row] = CHANGED
    found.mark[net.risen.row] = CHANGED
    return found


@lean_kernel
def change(o, net, lo, hi):  # type: ignore[no-untyped-def]
    """Make the changes lo..hi of a batch in the object index: what fell, then what rose."""
    fell = len(net.fallen.x)
    for i in range(lo, min(hi, fell)):
        row, y = int(net.fallen.row[i]), net.fallen.y1[i]
        if y < INF:
            set_y(o, int(o.pos[row]), y)
        else:
            delete(o, row)
    for i in range(max(lo, fell) - fell, hi - fell):
        row, y = int(net.risen.row[i]), net.risen.y1[i]
        if o.pos[row] < 0:
            insert(o, row, net.risen.x[i], y, net.risen.c[i])
        elif y != o.y[o.pos[row]]:
            set_y(o, int(o.pos[row]), y)


@lean_kernel
def paint_crowd(o, f, ks, dense, w, tiles, m, net, found, progress, stop, keep):  # type: ignore[no-untyped-def]
    """Paint from item `progress[0]` on, to `stop` at most: what fell, what that was found to expose, what rose.

    `o` is O1. With `keep` tiles gather in `tiles`, else each item's overwrite the last one's; progress[1] counts them.
    Returns DONE, or FULL_TILES when the buffer has to grow before the next item. For each item O(k log n) and O(k) for
    each tile, plus searches of `f` if not dense.
    """
    kmax = greatest(f, ks, dense)
    why = DONE
    item = progress[0]
    fell, rose = len(net.fallen.x), len(net.risen.x)
    while item < min(stop, fell + found.n[0] + rose) and why == DONE:
        if not keep:
            tiles.n[0] = 0
        start = tiles.n[0]
        ok = True
        behind = item - fell - found.n[0]
        if kmax > 0:
            if item < fell:
                ok = _fall(o, f, ks, kmax, dense, w, m, tiles, net, item, found)
                net.fallen.first[item], net.fallen.end[item] = start, tiles.n[0]
            elif behind < 0:
                ok = _expose(o, f, ks, kmax, dense, w, m, tiles, net, found.row[item - fell])
            else:
                s = np.int64(o.pos[net.risen.row[behind]])
                ok = paint(o, f, ks, dense, np.int64(0), s, o.y[s], w, tiles) == 1
                net.risen.first[behind], net.risen.end[behind] = start, tiles.n[0]
        if ok:
            progress[1] += tiles.n[0] - start
            item += 1
        else:
            tiles.n[0] = start
            why = FULL_TILES
    progress[0] = item
    return why


@pasted_kernel
def _fall(o, f, ks, kmax, dense, w, m, tiles, net, item, found):  # type: ignore[no-untyped-def]
    """Step 1 for one object, and find what it may expose. False when `tiles` is too small."""
    g = net.fallen
    s = stand(o, g, item)
    ok, l_first, r_last = tell_fallen(o, s, f, ks, kmax, dense, w, m, tiles, net, item)
    y, c = g.y0[item], g.c[item]
    complete = not ok or l_first > r_last
    while not complete:
        n, complete = exposed(o, s, kmax, y, c, g.y1[item], l_first, r_last, w)
        w.stats[MIN_Y] += n
        for e in range(n):
            h = w.hit[e] >> 1
            y, c = o.y[h], o.c[h]
            row = o.row[h]
            if found.mark[row] == UNCHANGED:
                found.mark[row] = FOUND
                found.row[found.n[0]] = row
                found.n[0] += 1
    leave(o, g, item)
    return ok


@pasted_kernel
def _expose(o, f, ks, kmax, dense, w, m, tiles, net, row):  # type: ignore[no-untyped-def]
    """Step 2 for one object. False when `tiles` is too small."""
    s = np.int64(o.pos[row])
    x, y, c = o.x[s], o.y[s], o.c[s]
    lists(o, s, y, kmax, w, m.new_west, m.new_east)
    fall = np.searchsorted(net.fallen.x, x)
    ok = True
    if any_passing(net.fallen, fall - 1, fall, y, c, m.new_west[kmax], m.new_east[kmax]):
        old_lists(net, np.searchsorted(net.risen.x, x), fall, y, c, kmax, m.new_west, m.new_east, m)
        for q in range(len(ks)):
            k = ks[q]
            if ok and k > 0 and (dense or f.cnt[f.head[q, NODE] + 1] > 0):
                n = gained_strips(w, m, k)
                ok = send(f, q, dense, w, n, True, row, x, y, False, c, False, tiles)[0]
    return ok
