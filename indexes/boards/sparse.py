"""Paint-Sparse: tiles for the subscriptions there are, at most twice the fewest possible (III-B and Theorem 4 of the
paper).

Every strip shrinks to the bounding box of its subscriptions, an empty one goes. Going west to east, a box is joined
with the one before it while the box around both holds no subscription that is not in a strip of the object. The sweep
looks for exposed objects only between l* and r*, the ends of the subscriptions still inside the shrinking region.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.forest import exists, snap
from indexes.boards.region import (
    EXPOSED,
    MERGE,
    MIN_Y,
    REFRESH,
    SNAP,
    enter_east,
    enter_west,
    exposed,
    gain_strips,
    region_strips,
    take_prefix,
)
from indexes.boards.tiles import sign
from indexes.jit import inline_kernel
from indexes.lean import lean_kernel

INF = np.inf


@lean_kernel
def paint_sparse(o, f, q, k, s, y_new, a, b, w, tiles):  # type: ignore[no-untyped-def]
    """Paint-Sparse for class q with the lists' lengths a and b. False when `tiles` is too small."""
    y, c = o.y[s], o.c[s]
    gone = y_new == INF
    take_prefix(w, k)
    start = tiles.n[0]
    ok, l_first, r_last = greedy(f, q, w, region_strips(w, k, a, b), False, tiles)
    sign(tiles, start, q, o.row[s], o.x[s], y if gone else y_new, gone, c)
    alive = l_first <= r_last
    w.stats[MIN_Y] += y_new > y
    more = y_new > y and alive
    while more and ok:
        n, complete = exposed(o, s, k, y, c, y_new, l_first, r_last, w)
        for e in range(n):
            h = w.hit[e] >> 1
            xh = o.x[h]
            y, c = o.y[h], o.c[h]
            if ok and alive and l_first <= xh <= r_last and w.west[k] < xh < w.east[k]:
                w.stats[MIN_Y] += 1
                start = tiles.n[0]
                ok, l, r = greedy(f, q, w, gain_strips(w, k, a, b, xh), True, tiles)
                sign(tiles, start, q, o.row[h], xh, y, False, c)
                if w.hit[e] & 1:
                    b = enter_east(w, k, b, xh)
                else:
                    a = enter_west(w, k, a, xh)
                if l <= r:
                    w.stats[EXPOSED] += 1
                    if l <= l_first:
                        l_first = first_left(f, q, w, k, a)
                    if r >= r_last:
                        r_last = last_right(f, q, w, k, b)
                    alive = l_first <= r_last
        more = alive and not complete
    return ok


@lean_kernel
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
        w1, e1, s1, n1 = snap(f, q, w.strip[t, 0], l_inner, w.strip[t, 2], w.strip[t, 3])
        if w1 <= e1:
            l_first, r_last = min(l_first, w1), max(r_last, n1)
            join = w0 <= e0
            if join and n1 > n0:
                w.stats[MERGE] += 1
                join = not exists(f, q, below(w0), w.strip[t, 0], above(n0), above(n1))
            if join and chain:
                w.stats[MERGE] += 1
                join = not exists(f, q, e0, e1, s0, s1)
            if join:
                e0, s0, n0 = e1, min(s0, s1), max(n0, n1)
            else:
                ok = ok and put_box(w0, e0, s0, n0, tiles)
                w0, e0, s0, n0 = w1, e1, s1, n1
    w.stats[SNAP] += n
    ok = ok and put_box(w0, e0, s0, n0, tiles)
    return ok, l_first, r_last


@inline_kernel
def below(v):  # type: ignore[no-untyped-def]
    return np.nextafter(v, -INF)


@inline_kernel
def above(v):  # type: ignore[no-untyped-def]
    return np.nextafter(v, INF)


@lean_kernel
def put_box(west, east, south, north, tiles):  # type: ignore[no-untyped-def]
    """Append the closed box as a tile, its outer sides opened by the least step; nothing for an empty box."""
    t = tiles.n[0]
    ok = t < len(tiles.row)
    if west <= east and ok:
        tiles.side[t, 0] = below(west)
        tiles.side[t, 1] = east
        tiles.side[t, 2] = south
        tiles.side[t, 3] = above(north)
        tiles.n[0] = t + 1
    return ok or west > east


@lean_kernel
def first_left(f, q, w, k, a):  # type: ignore[no-untyped-def]
    """l*: the least l of the subscriptions in the region, inf if there are none."""
    found = INF
    z = min(a + 1, k)
    while z > 0 and found == INF:
        w.stats[REFRESH] += 1
        found = snap(f, q, w.west[z], w.west[z - 1], w.west[0], w.east[k - z + 1])[0]
        z -= 1
    return found


@lean_kernel
def last_right(f, q, w, k, b):  # type: ignore[no-untyped-def]
    """r*: the greatest r of the subscriptions in the region, -inf if there are none."""
    found = -INF
    z = min(b + 1, k)
    while z > 0 and found == -INF:
        w.stats[REFRESH] += 1
        found = snap(f, q, w.west[k - z + 1], w.west[0], w.east[z - 1], w.east[z])[3]
        z -= 1
    return found
