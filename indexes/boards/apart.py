"""A batch that is small beside its board: each change is painted where it stands, as it would be by itself.

First what rose takes its new value, then what fell, both in order of x, each painted just before. Most of them are
*alone*: nothing else in the batch meets their region, and painting is that of a single change. A rise that later ones
pass counts them in. A fall beside others exposes for those who gain the object by the batch (`beside.py`). Where
another object falls past the one at hand, who must hear of it shows only when all is done; that is *late*.

Tiles come in this order and are put in that of the messages at the end (`in_order`).
"""

from __future__ import annotations

import numpy as np

from indexes.boards.beside import meet_fall
from indexes.boards.net import ITEMS, any_passing, crossing, enter_list, passing
from indexes.boards.objects import delete, insert, look_ahead, set_y
from indexes.boards.paint import greatest, paint, paint_near
from indexes.boards.region import nearest
from indexes.boards.step import DONE, FULL_TILES
from indexes.boards.told import leave, stand, tell_fallen
from indexes.lean import lean_kernel, pasted_kernel

INF = np.inf

NEXT, MADE, LATE = range(3)
"""Entries of `progress`: the next item, tiles made, and how many items are late."""


@lean_kernel
def paint_apart(o, f, ks, dense, w, tiles, m, beside, late, progress, stop, keep):  # type: ignore[no-untyped-def]
    """Paint from item `progress[NEXT]` on, to `stop` at most: what rose, what fell, what is late.

    `o` is O0 at first, O1 when all have fallen. `late` has room for all items. With `keep` tiles gather in `tiles`,
    else each item's overwrite the last one's. Returns DONE, or FULL_TILES when the buffer has to grow before the next
    item. An item that nothing else meets costs what `paint` and the change of the index cost, and O(log m).
    """
    net = beside.net
    rose, fell = net.risen.size[ITEMS], net.fallen.size[ITEMS]
    kmax = greatest(f, ks, dense)
    why = DONE
    item = progress[NEXT]
    while item < min(stop, rose + fell + progress[LATE]) and why == DONE:
        if not keep:
            tiles.n[0] = 0
        start = tiles.n[0]
        if item < rose:
            look_ahead(o, net.risen.row, item, rose)
            ok, sure = _rise(o, f, ks, kmax, dense, w, tiles, net, item)
            code = item
        elif item < rose + fell:
            look_ahead(o, net.fallen.row, item - rose, fell)
            ok, sure = _fall(o, f, ks, kmax, dense, w, tiles, beside, item - rose)
            code = item
        else:
            code = late[item - rose - fell]
            ok, sure = _late(o, f, ks, kmax, dense, w, m, tiles, net, code), True
        if ok:
            g, at = (net.risen, code) if code < rose else (net.fallen, code - rose)
            g.first[at], g.end[at] = start, tiles.n[0]
            if not sure:
                late[progress[LATE]] = code
                progress[LATE] += 1
            progress[MADE] += tiles.n[0] - start
            item += 1
        else:
            tiles.n[0] = start
            why = FULL_TILES
    progress[NEXT] = item
    return why


@pasted_kernel
def _rise(o, f, ks, kmax, dense, w, tiles, net, item):  # type: ignore[no-untyped-def]
    """Step 3 for one object, and its new value. Returns whether the tiles fit, and whether they are sure."""
    g = net.risen
    row, y, c = int(g.row[item]), g.y1[item], g.c[item]
    _arrive(o, g, item)
    s = np.int64(o.pos[row])
    ok = sure = True
    if kmax > 0:
        a, b = nearest(o, s, y, kmax, w)
        p = passing(g, item + 1, True, y, c, w.all_east[kmax])
        while p >= 0:
            b = enter_list(w.all_east, kmax, b, g.x[p], True)
            p = passing(g, p + 1, True, y, c, w.all_east[kmax])
        fall = g.other[item]
        sure = not any_passing(net.fallen, fall - 1, fall, y, c, w.all_west[kmax], w.all_east[kmax])
        if sure:
            ok = paint_near(o, f, ks, dense, np.int64(0), s, y, a, b, w, tiles, True, None)
    if ok and y != o.y[s]:
        set_y(o, int(s), y)
    return ok, sure


@pasted_kernel
def _arrive(o, g, item):  # type: ignore[no-untyped-def]
    """Let an object that came stand in its place, unseen yet. What moved in x stays at its old one in a spare row."""
    row, spare = int(g.row[item]), int(g.spare[item])
    if spare >= 0 and o.pos[spare] < 0:
        s = o.pos[row]
        x, y, c = o.x[s], o.y[s], o.c[s]
        delete(o, row)
        insert(o, spare, x, y, c)
    if o.pos[row] < 0:
        insert(o, row, g.x[item], INF, g.c[item])


@pasted_kernel
def _fall(o, f, ks, kmax, dense, w, tiles, beside, item):  # type: ignore[no-untyped-def]
    """Steps 1 and 2 for one object, and its new value. Returns whether the tiles fit, and whether its own are sure."""
    g = beside.net.fallen
    row = int(g.row[item] if g.spare[item] < 0 else g.spare[item])
    y, y_new, c = g.y0[item], g.y1[item], g.c[item]
    s = np.int64(o.pos[row])
    ok = sure = True
    if kmax > 0:
        start = tiles.n[0]
        a, b = nearest(o, s, y, kmax, w)
        l, r = w.all_west[kmax], w.all_east[kmax]
        meet_fall(beside, item, l, r)
        falls = beside.at[2] != 0 or crossing(g, item + 1, True, y_new, y, r) >= 0
        if beside.at[1] == 0 and not falls:
            ok = paint_near(o, f, ks, dense, np.int64(0), s, y_new, a, b, w, tiles, True, None)
        else:
            sure = not falls or not any_passing(g, item - 1, item + 1, y, c, l, r)
            twin = o.pos[g.row[item]]
            if g.spare[item] >= 0 and o.y[twin] == y:
                # It moved and is as good as before: no better than itself, but better than all that it exposes.
                sure = False
                if o.x[twin] > g.x[item]:
                    b = enter_list(w.all_east, kmax, b, o.x[twin], True)
                else:
                    a = enter_list(w.all_west, kmax, a, o.x[twin], False)
            ok = paint_near(o, f, ks, dense, np.int64(0), s, y_new, a, b, w, tiles, sure, beside)
        if g.spare[item] >= 0:
            for t in range(start, tiles.n[0]):
                tiles.row[t] = g.row[item] if tiles.row[t] == row else tiles.row[t]
    if ok:
        if y_new == INF:
            delete(o, row)
        else:
            set_y(o, int(s), y_new)
    return ok, sure


@pasted_kernel
def _late(o, f, ks, kmax, dense, w, m, tiles, net, code):  # type: ignore[no-untyped-def]
    """Step 1 or 3 for one object that was not sure before. False when `tiles` is too small."""
    rose = net.risen.size[ITEMS]
    if code < rose:
        s = np.int64(o.pos[net.risen.row[code]])
        ok = paint(o, f, ks, dense, np.int64(0), s, o.y[s], w, tiles) == 1
    else:
        s = stand(o, net.fallen, code - rose)
        ok = tell_fallen(o, s, f, ks, kmax, dense, w, m, tiles, net, code - rose)
        leave(o, net.fallen, code - rose)
    return ok
