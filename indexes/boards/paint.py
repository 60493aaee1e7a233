"""Painting: from a change of one object to the tiles of everyone it concerns (Algorithm 3 of the paper).

A change is a new y of the object in a slot, seen before the object index knows it: an insertion is a better y from
+inf, a deletion a worse one to +inf. A better y is one object on its new region. A worse y is the object on its old
region, then every object that becomes exposed, in (y, created) order, on what it gains. Each class of subscriptions is
painted on its own; all share the lists of the largest k.

Paint-Dense, here, sends the least number of tiles when every range may be subscribed to (Theorem 2). Paint-Sparse, in
`sparse.py`, knows the subscriptions.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", III.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.beside import news_of, told_of
from indexes.boards.forest import NODE
from indexes.boards.region import enter_east, enter_west, exposed, gain_strips, nearest, region_strips, take_prefix
from indexes.boards.sparse import paint_sparse
from indexes.boards.tiles import sign
from indexes.boards.work import EXPOSED, MIN_Y, SNAP, Work, make_work
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

__all__ = ["Work", "make_work", "paint"]

INF = np.inf


@lean_kernel
def paint(o, f, ks, dense, runs, s, y_new, w, tiles):  # type: ignore[no-untyped-def]
    """Append the tiles for slot `s` of object index `o` taking `y_new`; the index still holds the old y and is not
    changed.

    Either y may be +inf. A `y_new` that is the old y makes the tiles of the object's present region, for a change that
    leaves its rank alone. Class q of forest `f` has k = ks[q]; a class with k = 0 is left out. `dense` paints for every
    possible subscription, otherwise only those in `f` are told, each of an object at most once. `runs` = j > 0 paints
    with epsilon = 1/j: at most j tiles an object, which may reach ranges where it ranks behind k, up to (1 + 1/j) k
    (IV-B); 0 is exact. Class after class: the tiles of the object from west to east, then those of exposed objects in
    (y, created) order. Returns 1, or 0 when `tiles` is too small; then it is as before. O(k log n) and O(k) for each
    tile, plus searches of `f` if not dense.
    """
    kmax = greatest(f, ks, dense)
    better = min(o.y[s], y_new)
    ok = True
    if kmax > 0 and better < INF:
        a, b = nearest(o, s, better, kmax, w)
        ok = paint_near(o, f, ks, dense, runs, s, y_new, a, b, w, tiles, True, None)
    return 1 if ok else 0


@pasted_kernel
def greatest(f, ks, dense):  # type: ignore[no-untyped-def]
    """The greatest k of the classes that are painted, 0 if there are none."""
    kmax = np.int64(0)
    for q in range(len(ks)):
        if dense or f.cnt[f.head[q, NODE] + 1] > 0:
            kmax = max(kmax, ks[q])
    return kmax


@pasted_kernel
def paint_near(o, f, ks, dense, runs, s, y_new, a, b, w, tiles, own, beside):  # type: ignore[no-untyped-def]
    """As `paint`, with the lists of the better y at hand in `all_west` and `all_east`, of lengths a and b.

    Without `own` the tiles of the object itself are left out. `beside` is None, or the other changes of a batch
    (`beside.py`): then what they let hear otherwise is left out too.
    """
    start = tiles.n[0]
    ok = True
    for q in range(len(ks)):
        k = ks[q]
        j = runs if runs < k else np.int64(0)
        if ok and k > 0:
            if dense:
                ok = _paint_dense(o, q, k, j, s, y_new, min(a, k), min(b, k), w, tiles, own, beside)
            elif f.cnt[f.head[q, NODE] + 1] > 0:
                ok = paint_sparse(o, f, q, k, j, s, y_new, min(a, k), min(b, k), w, tiles, own, beside)
    if not ok:
        tiles.n[0] = start
    return ok


@inner_kernel
def _paint_dense(o, q, k, runs, s, y_new, a, b, w, tiles, own, beside):  # type: ignore[no-untyped-def]
    """Paint-Dense for one class with the lists' lengths a and b. False when `tiles` is too small."""
    start = tiles.n[0]
    y, c = o.y[s], o.c[s]
    gone = y_new == INF
    take_prefix(w, k)
    ok = put_strips(w, region_strips(w, k, a, b, runs), q, o.row[s], o.x[s], y if gone else y_new, gone, c, True, tiles)
    if not own:
        tiles.n[0] = start
    w.stats[MIN_Y] += y_new > y
    more = y_new > y
    while more and ok:
        n, complete = exposed(o, s, k, y, c, y_new, -INF, INF, w)
        for e in range(n):
            h = w.hit[e] >> 1
            xh = o.x[h]
            y, c = o.y[h], o.c[h]
            if ok and w.west[k] < xh < w.east[k]:
                w.stats[MIN_Y] += 1
                strips = gain_strips(w, k, a, b, xh, runs)
                if beside is not None:
                    news = news_of(beside, w, k, o.row[h], y, c)
                    strips = told_of(beside, w, k, xh, y, c, strips, news)
                w.stats[EXPOSED] += strips > 0
                ok = put_strips(w, strips, q, o.row[h], xh, y, y == INF, c, False, tiles)
                if w.hit[e] & 1:
                    b = enter_east(w, k, b, xh)
                else:
                    a = enter_west(w, k, a, xh)
        more = not complete
    return ok


@pasted_kernel
def put_strips(w, n, q, row, x, y, gone, c, own, tiles):  # type: ignore[no-untyped-def]
    """Append the n strips as tiles of one object."""
    start = tiles.n[0]
    ok = start + n <= len(tiles.row)
    if ok:
        for t in range(n):
            for side in range(4):
                tiles.side[start + t, side] = w.strip[t, side]
        tiles.n[0] = start + n
        sign(tiles, start, q, row, x, y, gone, c, own)
        w.stats[SNAP] += n
    return ok
