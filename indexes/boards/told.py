"""Painting in O1, when all changes of a batch are in the object index: what an object that fell lets hear."""

from __future__ import annotations

import numpy as np

from indexes.boards.forest import NODE
from indexes.boards.net import ITEMS, any_passing, turn_back
from indexes.boards.objects import delete, insert
from indexes.boards.paint import put_strips
from indexes.boards.region import nearest, region_strips
from indexes.boards.sparse import cover_strips
from indexes.boards.stairs import told_strips
from indexes.boards.tiles import sign
from indexes.boards.work import MIN_Y
from indexes.lean import inner_kernel, pasted_kernel

INF = np.inf


@pasted_kernel
def stand(o, g, item):  # type: ignore[no-untyped-def]
    """The slot of a fallen object, to walk from. Where one was that went there is none in O1: it comes back unseen, in
    the last row, until `leave`."""
    row = int(g.row[item])
    if g.y1[item] == INF:
        row = len(o.pos) - 1
        insert(o, row, g.x[item], INF, g.c[item])
    return np.int64(o.pos[row])


@pasted_kernel
def leave(o, g, item):  # type: ignore[no-untyped-def]
    """What came back for a walk goes again."""
    if g.y1[item] == INF:
        delete(o, len(o.pos) - 1)


@inner_kernel
def lists(o, s, y, k, w, west, east):  # type: ignore[no-untyped-def]
    """The lists of slot `s`, were its y the one given."""
    nearest(o, s, y, k, w)
    for z in range(k + 1):
        west[z] = w.all_west[z]
        east[z] = w.all_east[z]


@pasted_kernel
def old_lists(net, rise, fall, y, c, k, west, east, m):  # type: ignore[no-untyped-def]
    """Write the lists before the batch, as far as these after it reach. Their object lies behind place `rise` of the
    risen and `fall` of the fallen."""
    for z in range(k + 1):
        m.old_west[z] = west[z]
        m.old_east[z] = east[z]
    turn_back(net, rise, fall, net.fallen.size[ITEMS], y, c, k, m.old_west, m.old_east)


@pasted_kernel
def tell_fallen(o, s, f, ks, kmax, dense, w, m, tiles, net, item):  # type: ignore[no-untyped-def]
    """Step 1 for the fallen object that stands in slot `s` of O1. False when `tiles` is too small."""
    g = net.fallen
    y, y_new, c = g.y0[item], g.y1[item], g.c[item]
    lists(o, s, y, kmax, w, m.kept_west, m.kept_east)
    met = any_passing(g, item - 1, item + 1, y, c, m.kept_west[kmax], m.kept_east[kmax])
    if met:
        old_lists(net, g.other[item], item, y, c, kmax, m.kept_west, m.kept_east, m)
        if y_new < INF:
            lists(o, s, y_new, kmax, w, m.new_west, m.new_east)
    return tell(f, ks, dense, w, m, tiles, g, item, met)


@pasted_kernel
def tell(f, ks, dense, w, m, tiles, g, item, met):  # type: ignore[no-untyped-def]
    """Step 1 for a fallen object with its lists at hand. Unless `met` nothing else fell past it: who held it is who
    still would, but for its own fall, and only the `kept` lists are looked at. False when `tiles` is too small."""
    row, x, y_new, c = g.row[item], g.x[item], g.y1[item], g.c[item]
    gone = y_new == INF
    y = g.y0[item] if gone else y_new
    ok = True
    w.stats[MIN_Y] += 1
    for q in range(len(ks)):
        k = ks[q]
        if ok and k > 0 and (dense or f.cnt[f.head[q, NODE] + 1] > 0):
            if met:
                n = told_strips(w, m, k, gone)
            else:
                _take(w, m.kept_west, m.kept_east, k)
                n = region_strips(w, k, k, k, 0)
            ok = send(f, q, dense, w, n, False, row, x, y, gone, c, True, tiles)
    return ok


@pasted_kernel
def _take(w, west, east, k):  # type: ignore[no-untyped-def]
    for z in range(k + 1):
        w.west[z] = west[z]
        w.east[z] = east[z]


@pasted_kernel
def send(f, q, dense, w, n, chain, row, x, y, gone, c, own, tiles):  # type: ignore[no-untyped-def]
    """Append the tiles of one object for the n strips. False when `tiles` is too small."""
    start = tiles.n[0]
    if dense:
        ok = put_strips(w, n, q, row, x, y, gone, c, own, tiles)
    else:
        ok = cover_strips(f, q, w, n, chain, tiles)[0]
        sign(tiles, start, q, row, x, y, gone, c, own)
    return ok
