"""Paint-Sparse: tiles for the subscriptions there are, at most twice the fewest possible (III-B and Theorem 4 of the
paper).

Every strip shrinks to the bounding box of its subscriptions, an empty one goes. Going west to east, a box is joined
with the one before it while the box around both holds no subscription that is not in a strip of the object. The sweep
looks for exposed objects only between l* and r*, the ends of the subscriptions still inside the shrinking region. Few
subscriptions are fetched once and gone over in hand, see `shortlist.py`; the same subscribers hear.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.beside import ALL, NONE, drop_untold, news_of, told_of
from indexes.boards.region import enter_east, enter_west, exposed, gain_strips, region_strips, take_prefix
from indexes.boards.shortlist import count_better, cover, ends, enter, fetch, place, shrink
from indexes.boards.sketch import exists_seen, is_sketched, snap_seen
from indexes.boards.tiles import above, below, put_box, sign
from indexes.boards.work import EXPOSED, MERGE, MIN_Y, REFRESH, SNAP
from indexes.lean import inner_kernel

INF = np.inf

RAISING, LOWERING = 512, 1024
"""So many subscriptions in the square are fetched when an object rises, and when it falls and exposes others."""

EVERY = 4
"""Exposed objects between two looks at whether the square has become small."""


@inner_kernel
def paint_sparse(o, f, q, k, runs, s, y_new, a, b, w, tiles, own, beside):  # type: ignore[no-untyped-def]
    """Paint-Sparse for class q with the lists' lengths a and b. False when `tiles` is too small. `own` and `beside` are
    as `paint_near` has them.

    Where the square holds few subscriptions they are fetched once, the others are searched for strip by strip. A square
    that begins large becomes small as the sweep goes on.
    """
    h = w.short
    y, c = o.y[s], o.c[s]
    gone = y_new == INF
    lowers = y_new > y
    take_prefix(w, k)
    start = tiles.n[0]
    n = np.int64(-1)
    in_hand = runs == 0 and not is_sketched(f, q, w.level)
    if in_hand:
        n = fetch(f, q, w.west[k], w.west[0], w.west[0], w.east[k], np.int64(LOWERING if lowers else RAISING), h)
    if n < 0:
        ok, l_first, r_last = greedy(f, q, w, region_strips(w, k, a, b, runs), False, tiles)
        if runs > 0 and lowers:
            l_first, r_last = first_left(f, q, w, k, a), last_right(f, q, w, k, b)
    else:
        count_better(h, n, w, a, b)
        ok, l_first, r_last = cover(h, n, np.int64(0), k - 1, k, tiles)
    if own:
        sign(tiles, start, q, o.row[s], o.x[s], y if gone else y_new, gone, c, True)
    else:
        tiles.n[0] = start
    w.stats[MIN_Y] += lowers
    more = lowers and l_first <= r_last
    entered = 0
    while more and ok:
        found, complete = exposed(o, s, k, y, c, y_new, l_first, r_last, w)
        for e in range(found):
            j = w.hit[e] >> 1
            east = w.hit[e] & 1 == 1
            xh = o.x[j]
            y, c = o.y[j], o.c[j]
            if ok and l_first <= xh <= r_last:
                w.stats[MIN_Y] += 1
                entered += 1
                if entered % EVERY == 0 and in_hand:
                    if n >= 0:
                        n = shrink(h, n, l_first, r_last)
                    else:
                        n = fetch(f, q, below(l_first), w.west[0], w.west[0], above(r_last), np.int64(LOWERING), h)
                        count_better(h, n, w, a, b)
                start = tiles.n[0]
                news = ALL
                if beside is not None:
                    news = news_of(beside, w, k, o.row[j], y, c)
                l, r = INF, -INF
                if n < 0:
                    strips = gain_strips(w, k, a, b, xh, runs)
                    if runs > 0:
                        clip(w, strips, l_first, r_last)
                    if beside is not None:
                        strips = told_of(beside, w, k, xh, y, c, strips, news)
                    ok, l, r = greedy(f, q, w, strips, True, tiles)
                elif enter(h, n, k, xh, east):
                    if beside is not None:
                        drop_untold(beside, w, k, y, c, h, n, news)
                    if news != NONE:
                        ok, l, r = cover(h, n, k, k, k, tiles)
                w.stats[EXPOSED] += l <= r
                if news != ALL:
                    # Those who gain it and are not told have left the region too.
                    l, r = -INF, INF
                sign(tiles, start, q, o.row[j], xh, y, y == INF, c, False)
                if east:
                    b = enter_east(w, k, b, xh)
                else:
                    a = enter_west(w, k, a, xh)
                if l <= l_first or r >= r_last:
                    if n < 0:
                        l_first = first_left(f, q, w, k, a) if l <= l_first else l_first
                        r_last = last_right(f, q, w, k, b) if r >= r_last else r_last
                    else:
                        l_first, r_last = ends(h, n, k)
        more = l_first <= r_last and not complete
    return ok


@inner_kernel
def cover_strips(f, q, w, n, chain, tiles):  # type: ignore[no-untyped-def]
    """As `greedy`, for strips whose lower and upper sides do not fall from west to east; with the subscriptions in hand
    where they are few."""
    h = w.short
    held = np.int64(-1)
    if n > 0 and not is_sketched(f, q, w.level):
        held = fetch(f, q, w.strip[0, 0], w.strip[n - 1, 1], w.strip[0, 2], w.strip[n - 1, 3], np.int64(LOWERING), h)
    if held < 0:
        ok, l_first, r_last = greedy(f, q, w, n, chain, tiles)
    else:
        place(h, held, w, n)
        ok, l_first, r_last = cover(h, held, np.int64(1), np.int64(1), n, tiles)
        w.stats[SNAP] += n
    return ok, l_first, r_last


@inner_kernel
def greedy(f, q, w, n, chain, tiles):  # type: ignore[no-untyped-def]
    """Append the tiles that cover the subscriptions of the strips and no others.

    Strips of a region have their lower sides on one line; those of a `chain` touch at corners. Returns whether the
    tiles fit, and the least l and greatest r of the subscriptions (inf and -inf if there are none).
    """
    ok = True
    l_first, r_last = INF, -INF
    w0, e0, s0, n0 = INF, -INF, INF, -INF
    for t in range(n):
        l_inner = w.strip[t, 1]
        w1, e1, s1, n1 = snap_seen(f, q, w.level, w.strip[t, 0], l_inner, w.strip[t, 2], w.strip[t, 3])
        if w1 <= e1:
            l_first, r_last = min(l_first, w1), max(r_last, n1)
            join = w0 <= e0
            if join and n1 > n0:
                w.stats[MERGE] += 1
                join = not exists_seen(f, q, w.level, below(w0), w.strip[t, 0], above(n0), above(n1))
            if join and chain:
                w.stats[MERGE] += 1
                join = not exists_seen(f, q, w.level, e0, e1, s0, s1)
            if join:
                e0, s0, n0 = e1, min(s0, s1), max(n0, n1)
            else:
                ok = ok and put_box(w0, e0, s0, n0, tiles)
                w0, e0, s0, n0 = w1, e1, s1, n1
    w.stats[SNAP] += n
    ok = ok and put_box(w0, e0, s0, n0, tiles)
    return ok, l_first, r_last


@inner_kernel
def clip(w, n, l_first, r_last):  # type: ignore[no-untyped-def]
    """Cut the boxes of runs to the quadrant of the subscriptions that are left: beyond it objects were skipped that the
    lists do not know, and the bound of Theorem 7 would not hold."""
    for t in range(n):
        w.strip[t, 0] = max(w.strip[t, 0], below(l_first))
        w.strip[t, 3] = min(w.strip[t, 3], above(r_last))


@inner_kernel
def first_left(f, q, w, k, a):  # type: ignore[no-untyped-def]
    """l*: the least l of the subscriptions in the region, inf if there are none."""
    found = INF
    z = min(a + 1, k)
    while z > 0 and found == INF:
        w.stats[REFRESH] += 1
        found = snap_seen(f, q, w.level, w.west[z], w.west[z - 1], w.west[0], w.east[k - z + 1])[0]
        z -= 1
    return found


@inner_kernel
def last_right(f, q, w, k, b):  # type: ignore[no-untyped-def]
    """r*: the greatest r of the subscriptions in the region, -inf if there are none."""
    found = -INF
    z = min(b + 1, k)
    while z > 0 and found == -INF:
        w.stats[REFRESH] += 1
        found = snap_seen(f, q, w.level, w.west[k - z + 1], w.west[0], w.east[z - 1], w.east[z])[3]
        z -= 1
    return found
