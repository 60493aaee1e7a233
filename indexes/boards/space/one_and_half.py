"""1.5-dimensional subscriptions after the paper: l <= x1 <= r and x2 <= t (Appendix D, Algorithms 6 to 11).

In the space of (l, r, t) an object concerns, at a level y, a stack of slabs: for u_z <= t < u_(z+1) the k nearest
better objects to the west and to the east of x1 among those with x2 <= u_z bound an influence region as with one
attribute, a staircase of strips. A sweep over x2 from the object's own upwards finds the slabs: the next one begins at
the least x2 of a better object strictly between the outermost of the present lists (Algorithm 7). Strips that are equal
in neighbouring slabs are one box (Algorithm 10).

As y worsens, each slab knows the next object between its outermost ones; the least of these over all slabs is exposed
next. It enters the lists of every slab that begins at its x2 or later and that still reaches it; the slab around its x2
is cut in two there (Algorithm 11).

Dense sends these boxes. Sparse knows the subscriptions: it draws each box in to those within, leaves out those with
none, and looks for exposed objects only between the ends of the subscriptions that are still inside a slab.

This is for reproducing the paper's counts, `MIN` and `SNAP` of `Sweep.stats`. The service serves such subscriptions as
boxes with an open end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.region import gain_strips, region_strips
from indexes.boards.space.points import (
    ALL,
    BOUND,
    CAP,
    DEPTH,
    NODE,
    STEP,
    VALUE,
    Points,
    block_at,
    crossing,
    first_lanes,
    next_block,
    within,
)
from indexes.boards.space.search import worse
from indexes.boards.space.shapes import MAX
from indexes.boards.tiles import above, below
from indexes.lanes import LANES, lanes_max, lanes_min, low_bit
from indexes.lean import inner_kernel, lean_kernel

INF = np.inf

MIN, SNAP, REFRESH, BOXES = range(4)
"""Counters: searches for the least x2 or y, boxes drawn in to their subscriptions, searches for the subscriptions that
are left in a slab, boxes made."""

X1, X2, Y = range(3)
NOTHING, UNKNOWN, FIRST = -1, -2, -3
ALWAYS, LATE, LATER = range(3)


class Sweep(NamedTuple):
    """Scratch of the sweep. Slab z has `u[z]`, its lists `slab_west[z]` and `slab_east[z]` of lengths `a[z]`, `b[z]`,
    and the next object between their ends, `h[z]`; `slabs[0]` counts them. `west`, `east` and `strip` are those of the
    slab at hand, as in `indexes.boards.region`; `open` are the boxes of the slab before, `fresh` those of this one.
    """

    west: NDArray[np.float64]
    east: NDArray[np.float64]
    strip: NDArray[np.float64]
    u: NDArray[np.float64]
    slab_west: NDArray[np.float64]
    slab_east: NDArray[np.float64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    h: NDArray[np.int64]
    slabs: NDArray[np.int64]
    open: NDArray[np.int64]
    fresh: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    stats: NDArray[np.int64]


def make_sweep(k: int, slabs: int = 4096) -> Sweep:
    """Scratch for lists of k and so many slabs."""
    return Sweep(
        np.empty(k + 2), np.empty(k + 2), np.empty((k + 2, 4)), np.empty(slabs + 1), np.empty((slabs, k + 2)),
        np.empty((slabs, k + 2)), np.zeros(slabs, np.int64), np.zeros(slabs, np.int64), np.zeros(slabs, np.int64),
        np.zeros(1, np.int64), np.zeros(k + 2, np.int64), np.zeros(k + 2, np.int64), np.empty(4), np.empty(4),
        np.zeros(4, np.int64),
    )  # fmt: skip


# Searches.


@inner_kernel
def _least(o, low, high, j, v0, c0, T, Tc):  # type: ignore[no-untyped-def]
    """The object with the least (column j, created) beyond (v0, c0) in the closed box low..high of (x1, x2, y), among
    those that rank before (T, Tc); NOTHING if there is none."""
    t = o.tree
    depth, bound, value = t.head[0, DEPTH], t.head[0, BOUND], t.head[0, VALUE]
    leaves = 1 << depth
    found, best, best_c = NOTHING, INF, np.int64(0)
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = crossing(t, bound + 3 * block, 3, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if t.lo[bound + block_at(node, 3) + j * LANES] <= best:
                if node < leaves:
                    down = node
                else:
                    start = (node - leaves) << STEP
                    hits = within(t, value + 3 * start, 3, low, high, 0)
                    hits &= (1 << t.cnt[t.head[0, NODE] + node]) - 1
                    while hits:
                        i = low_bit(hits)
                        hits &= hits - 1
                        slot = np.int64(t.id[start + i])
                        v, c = t.v[value + 3 * start + i + j * LANES], o.c[slot]
                        beyond = worse(v, c, v0, c0) and (found < 0 or worse(best, best_c, v, c))
                        if beyond and worse(T, Tc, o.y[slot], c):
                            found, best, best_c = int(slot), v, c
        block, lanes = next_block(block, down, depth)
    return found


@inner_kernel
def _nearest_side(o, x1, x2, T, Tc, k, east, sweep):  # type: ignore[no-untyped-def]
    """Fill `east` or `west` with the nearest k objects on that side that rank before (T, Tc) and have at most x2;
    returns how many."""
    t, low, high = o.tree, sweep.low, sweep.high
    depth, bound, value = t.head[0, DEPTH], t.head[0, BOUND], t.head[0, VALUE]
    leaves = 1 << depth
    to = sweep.east if east else sweep.west
    to[0] = x1
    for z in range(1, k + 2):
        to[z] = INF if east else -INF
    low[X1], high[X1] = (above(x1), MAX) if east else (-MAX, x1)
    low[X2], high[X2], low[Y], high[Y] = -MAX, x2, -MAX, T
    n = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = crossing(t, bound + 3 * block, 3, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                hits = within(t, value + 3 * start, 3, low, high, 0) & ((1 << t.cnt[t.head[0, NODE] + node]) - 1)
                while hits:
                    i = low_bit(hits)
                    hits &= hits - 1
                    slot = np.int64(t.id[start + i])
                    if worse(T, Tc, o.y[slot], o.c[slot]):
                        v = o.x[slot, 0]
                        z = min(n + 1, k)
                        if n < k or (v < to[k] if east else v > to[k]):
                            while z > 1 and (to[z - 1] > v if east else to[z - 1] < v):
                                to[z] = to[z - 1]
                                z -= 1
                            to[z] = v
                            n = min(n + 1, k)
                        if n == k and east:
                            high[X1] = to[k]
                        if n == k and not east:
                            low[X1] = to[k]
        block, lanes = next_block(block, down, depth)
    return n


@lean_kernel
def snap(
    t: Points, q: int, low: NDArray[np.float64], high: NDArray[np.float64], out: NDArray[np.float64], width: int
) -> bool:
    """Write the bounds of the points of class q in the closed box low..high to `out`: least ones, then greatest ones.
    False where there is none."""
    base, depth = t.head[q, NODE], t.head[q, DEPTH]
    cap, value, bound = t.head[q, CAP], t.head[q, VALUE], t.head[q, BOUND]
    leaves = 1 << depth
    for j in range(width):
        out[j], out[width + j] = INF, -INF
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = crossing(t, bound + block * width, width, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            at = bound + block_at(node, width)
            inside, news = True, False
            for j in range(width):
                lo, hi = t.lo[at + j * LANES], t.hi[at + j * LANES]
                inside = inside and low[j] <= lo and hi <= high[j]
                news = news or lo < out[j] or hi > out[width + j]
            if news and inside:
                for j in range(width):
                    out[j] = min(out[j], t.lo[at + j * LANES])
                    out[width + j] = max(out[width + j], t.hi[at + j * LANES])
            elif news and node < leaves:
                down = node
            elif news:
                start = (node - leaves) * cap
                end = start + t.cnt[base + node]
                for p in range(start, end, LANES):
                    hits = within(t, value + p * width, width, low, high, 0) & (ALL >> max(p + LANES - end, 0))
                    if hits:
                        for j in range(width):
                            i = value + p * width + j * LANES
                            out[j] = min(out[j], lanes_min(t.v, i, hits))
                            out[width + j] = max(out[width + j], lanes_max(t.v, i, hits))
        block, lanes = next_block(block, down, depth)
    return out[0] <= out[width]


# Slabs.


@inner_kernel
def _store(sweep, z, k, a, b):  # type: ignore[no-untyped-def]
    """Make the lists at hand those of slab z."""
    for i in range(k + 2):
        sweep.slab_west[z, i], sweep.slab_east[z, i] = sweep.west[i], sweep.east[i]
    sweep.a[z], sweep.b[z] = a, b


@inner_kernel
def _take(sweep, z, k):  # type: ignore[no-untyped-def]
    """Make the lists of slab z those at hand."""
    for i in range(k + 2):
        sweep.west[i], sweep.east[i] = sweep.slab_west[z, i], sweep.slab_east[z, i]


@inner_kernel
def _shift(sweep, z, k, by):  # type: ignore[no-untyped-def]
    """Move slab z and those after it up by one, or those after it down onto it."""
    n = sweep.slabs[0]
    for step in range(n - z if by > 0 else n - z - 1):
        here = n - 1 - step if by > 0 else z + 1 + step
        there = here + by
        sweep.u[there], sweep.a[there], sweep.b[there] = sweep.u[here], sweep.a[here], sweep.b[here]
        sweep.h[there] = sweep.h[here]
        for i in range(k + 2):
            sweep.slab_west[there, i] = sweep.slab_west[here, i]
            sweep.slab_east[there, i] = sweep.slab_east[here, i]
    sweep.slabs[0] = n + by
    sweep.u[n + by] = INF


@inner_kernel
def _enter(side, n, k, v, east):  # type: ignore[no-untyped-def]
    """Put v in its place in a list and drop the k+1-st; returns the new length."""
    n = min(n + 1, k)
    z = n
    while z > 1 and (side[z - 1] > v if east else side[z - 1] < v):
        side[z] = side[z - 1]
        z -= 1
    side[z] = v
    return n


@inner_kernel
def _find_slabs(o, x1, x2, T, Tc, k, sweep):  # type: ignore[no-untyped-def]
    """Algorithm 7: the slabs of an object at (x1, x2) at the level (T, Tc). False when there are too many."""
    a = _nearest_side(o, x1, x2, T, Tc, k, False, sweep)
    b = _nearest_side(o, x1, x2, T, Tc, k, True, sweep)
    _store(sweep, 0, k, a, b)
    sweep.u[0] = x2
    n = 1
    v, c = x2, np.int64(np.iinfo(np.int64).max)
    more = True
    while more:
        low, high = sweep.low, sweep.high
        low[X1], high[X1] = above(sweep.west[k]), below(sweep.east[k])
        low[X2], high[X2], low[Y], high[Y] = v, MAX, -MAX, T
        sweep.stats[MIN] += 1
        h = _least(o, low, high, X2, v, c, T, Tc)
        more = h >= 0 and n < len(sweep.a)
        if more:
            v, c = o.x[h, 1], o.c[h]
            if o.x[h, 0] > x1:
                b = _enter(sweep.east, b, k, o.x[h, 0], True)
            else:
                a = _enter(sweep.west, a, k, o.x[h, 0], False)
            n += v > sweep.u[n - 1]
            sweep.u[n - 1] = v
            _store(sweep, n - 1, k, a, b)
    sweep.slabs[0] = n
    sweep.u[n] = INF
    return h < 0


# Boxes.


@inner_kernel
def _add_boxes(sweep, strips, opened, t_inner, t_outer, tiles):  # type: ignore[no-untyped-def]
    """Append the strips at hand over t_inner <= t < t_outer, put together with equal ones of the slab before
    (Algorithm 10). Returns how many boxes are open now, or -1 when they do not fit."""
    side = tiles.side
    fits = True
    for i in range(strips):
        at = -1
        for j in range(opened):
            old = sweep.open[j]
            same = side[old, 7] == t_inner
            for e in range(4):
                same = same and side[old, e] == sweep.strip[i, e]
            if same:
                at = old
        if at < 0:
            at = tiles.n[0]
            fits = fits and at < len(tiles.row)
            if fits:
                for e in range(4):
                    side[at, e] = sweep.strip[i, e]
                side[at, 4], side[at, 5], side[at, 6] = -INF, -MAX, t_inner
                tiles.n[0] += 1
        if fits:
            side[at, 7] = t_outer
            sweep.fresh[i] = at
    for i in range(strips):
        sweep.open[i] = sweep.fresh[i]
    return strips if fits else -1


@inner_kernel
def _finish(t, q, dense, sweep, start, own, row, x, s, y, gone, c, out, tiles):  # type: ignore[no-untyped-def]
    """Write the object on the boxes from `start` on; if not dense, draw them in first."""
    n = start
    side = tiles.side
    for i in range(start, tiles.n[0]):
        kept = True
        sweep.stats[BOXES] += 1
        if not dense:
            sweep.stats[SNAP] += 1
            for j in range(2):
                sweep.low[2 * j], sweep.high[2 * j] = above(side[i, 4 * j]), side[i, 4 * j + 1]
                sweep.low[2 * j + 1], sweep.high[2 * j + 1] = side[i, 4 * j + 2], below(side[i, 4 * j + 3])
            kept = snap(t, q, sweep.low, sweep.high, out, 4)
            for j in range(2):
                side[n, 4 * j], side[n, 4 * j + 1] = below(out[2 * j]), out[4 + 2 * j]
                side[n, 4 * j + 2], side[n, 4 * j + 3] = out[2 * j + 1], above(out[4 + 2 * j + 1])
        if kept:
            tiles.row[n], tiles.y[n], tiles.gone[n], tiles.c[n], tiles.cls[n] = row, y, gone, c, q
            tiles.own[n] = own
            tiles.x[n, 0], tiles.x[n, 1] = x[s, 0], x[s, 1]
            n += 1
    tiles.n[0] = n


@lean_kernel
def paint(o, f, q, k, dense, late, x, s, row, y_old, y_new, c, sweep, out, tiles):  # type: ignore[no-untyped-def]
    """Append the tiles of class q, whose boxes are open below in x2, for an object at x[s] whose y goes from `y_old` to
    `y_new` (Algorithm 11); as `indexes.boards.space.paint.paint`. `out` is room for 8 numbers.

    `dense` serves every subscription there could be. If not, `late` says which searches do not look at the
    subscriptions of their slab yet, which the paper leaves open (more searches, the same lists): with `ALWAYS` none,
    with `LATE` the first of a slab, with `LATER` that of the piece below a cut as well.

    Returns 1, or 0 when `tiles` or the slabs are too small.
    """
    t = f.tree
    x1, x2 = x[s, 0], x[s, 1]
    gone = y_new == INF
    start = tiles.n[0]
    y, yc = min(y_old, y_new), np.int64(c)
    ok = _find_slabs(o, x1, x2, y, yc, k, sweep)
    opened = 0
    for z in range(sweep.slabs[0]):
        _take(sweep, z, k)
        if ok:
            strips = region_strips(sweep, k, sweep.a[z], sweep.b[z], 0)
            opened = _add_boxes(sweep, strips, opened, sweep.u[z], sweep.u[z + 1], tiles)
            ok = opened >= 0
        sweep.h[z] = FIRST if late >= LATE else UNKNOWN
    if ok:
        _finish(t, q, dense, sweep, start, True, row, x, s, y_old if gone else y_new, gone, c, out, tiles)
    more = y_new > y_old
    while more and ok:
        z = _next_slab(o, t, q, dense, k, x1, y, yc, min(y_new, MAX), c if not gone else np.int64(0), sweep, out)
        more = z >= 0
        if more:
            h = sweep.h[z]
            y, yc = o.y[h], o.c[h]
            first = tiles.n[0]
            ok = _expose(o, h, z, k, x1, late, sweep, tiles)
            if ok:
                _finish(t, q, dense, sweep, first, False, o.row[h], o.x, h, y, False, yc, out, tiles)
    if not ok:
        tiles.n[0] = start
    return 1 if ok else 0


@inner_kernel
def _next_slab(o, t, q, dense, k, x1, y, yc, T, Tc, sweep, out):  # type: ignore[no-untyped-def]
    """The slab with the next object to be exposed after (y, yc) and before (T, Tc), NOTHING if there is none."""
    found = NOTHING
    low, high = sweep.low, sweep.high
    for z in range(sweep.slabs[0]):
        if sweep.h[z] <= UNKNOWN:
            west, east = above(sweep.slab_west[z, k]), below(sweep.slab_east[z, k])
            anyone = True
            if not dense and sweep.h[z] == UNKNOWN:
                sweep.stats[REFRESH] += 1
                low[0], high[0], low[1], high[1] = west, x1, x1, east
                low[2], high[2], low[3], high[3] = -MAX, -MAX, sweep.u[z], MAX
                anyone = snap(t, q, low, high, out, 4)
                west, east = max(west, out[0]), min(east, out[5])
            sweep.h[z] = NOTHING
            if anyone:
                low[X1], high[X1] = west, east
                low[X2], high[X2] = sweep.u[z] if z > 0 else -MAX, below(sweep.u[z + 1])
                low[Y], high[Y] = y, T
                sweep.stats[MIN] += 1
                sweep.h[z] = _least(o, low, high, Y, y, yc, T, Tc)
        h = sweep.h[z]
        if h >= 0 and (found < 0 or worse(o.y[sweep.h[found]], o.c[sweep.h[found]], o.y[h], o.c[h])):
            found = z
    return found


@inner_kernel
def _expose(o, h, z, k, x1, late, sweep, tiles):  # type: ignore[no-untyped-def]
    """Make the boxes that the object in slot h, the next one of slab z, gains, and let it enter the lists. False when
    there is no room."""
    xh, x2h = o.x[h, 0], o.x[h, 1]
    ok = sweep.slabs[0] < len(sweep.a)
    sweep.h[z] = UNKNOWN
    if ok and x2h > sweep.u[z]:
        _shift(sweep, z, k, 1)
        if late >= LATER:
            sweep.h[z] = FIRST
        z += 1
        sweep.u[z] = x2h
    first, opened = z, 0
    while ok and z < sweep.slabs[0] and sweep.slab_west[z, k] < xh < sweep.slab_east[z, k]:
        _take(sweep, z, k)
        strips = gain_strips(sweep, k, sweep.a[z], sweep.b[z], xh, 0)
        opened = _add_boxes(sweep, strips, opened, sweep.u[z], sweep.u[z + 1], tiles)
        ok = opened >= 0
        a, b = sweep.a[z], sweep.b[z]
        if xh > x1:
            b = _enter(sweep.east, b, k, xh, True)
        else:
            a = _enter(sweep.west, a, k, xh, False)
        _store(sweep, z, k, a, b)
        old = sweep.h[z]
        if old >= 0 and not (sweep.west[k] < o.x[old, 0] < sweep.east[k]):
            sweep.h[z] = UNKNOWN
        z += 1
    for here in range(z, first - 1, -1):
        if ok and 0 < here < sweep.slabs[0] and _same_lists(sweep, here, k):
            one, two = sweep.h[here - 1], sweep.h[here]
            if one <= UNKNOWN or two <= UNKNOWN:
                one = UNKNOWN
            elif one == NOTHING or (two >= 0 and worse(o.y[one], o.c[one], o.y[two], o.c[two])):
                one = two
            _shift(sweep, here, k, -1)
            sweep.h[here - 1] = one
    return ok


@inner_kernel
def _same_lists(sweep, z, k):  # type: ignore[no-untyped-def]
    """Has slab z the lists of the one before?"""
    same = sweep.a[z] == sweep.a[z - 1] and sweep.b[z] == sweep.b[z - 1]
    for i in range(k + 1):
        same = same and sweep.slab_west[z, i] == sweep.slab_west[z - 1, i]
        same = same and sweep.slab_east[z, i] == sweep.slab_east[z - 1, i]
    return same
