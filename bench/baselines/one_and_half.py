"""1.5-dimensional subscriptions, l <= x1 <= r and x2 <= t ([Range top-k], Appendix D, Algorithms 6 to 11).

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

This is for reproducing the published counts, `MIN` and `SNAP` of `Sweep.stats`. The service serves such subscriptions
as boxes with an open end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from indexes.boards.kernels import region
from indexes.boards.kernels.forest import STEP
from indexes.boards.space.kernels.arrays import SpaceArrays
from indexes.boards.space.kernels.points import (
    BOUND,
    CAP,
    DEPTH,
    NODE,
    VALUE,
    Points,
    block_at,
    first_lanes,
    meeting,
    next_block,
)
from indexes.boards.space.kernels.search import worse
from indexes.boards.space.kernels.shapes import MAX
from indexes.compiled.floats import above, below
from indexes.compiled.jit import internal, kernel
from indexes.compiled.simd import ALL, LANES, lanes_max, lanes_min, low_bit
from indexes.core.arrays import INF, Floats, Ints, int64

MIN, SNAP, REFRESH, BOXES = range(4)
"""Counters: searches for the least x2 or y, boxes drawn in to their subscriptions, searches for the subscriptions that
are left in a slab, boxes made."""

gain_strips = cast("Callable[..., int]", region.gain_strips)
region_strips = cast("Callable[..., int]", region.region_strips)
"""Of a `Sweep`, which has the arrays of a `Scratch` that they use."""

X1, X2, Y = range(3)
NOTHING, UNKNOWN, FIRST = -1, -2, -3
ALWAYS, LATE, LATER = range(3)


class Sweep(NamedTuple):
    """Scratch of the sweep. Slab z has `u[z]`, its lists `slab_west[z]` and `slab_east[z]` of lengths `a[z]`, `b[z]`,
    and the next object between their ends, `h[z]`; `slabs[0]` counts them. `west`, `east` and `strip` are those of the
    slab at hand, as in `indexes.boards.kernels.region`; `open` are the boxes of the slab before,
    `fresh` those of this one.
    """

    west: Floats
    east: Floats
    strip: Floats
    u: Floats
    slab_west: Floats
    slab_east: Floats
    a: Ints
    b: Ints
    h: Ints
    slabs: Ints
    open: Ints
    fresh: Ints
    low: Floats
    high: Floats
    stats: Ints


def make_sweep(k: int, slabs: int = 4096) -> Sweep:
    """Scratch for lists of k and so many slabs."""
    return Sweep(
        np.empty(k + 2), np.empty(k + 2), np.empty((k + 2, 4)), np.empty(slabs + 1), np.empty((slabs, k + 2)),
        np.empty((slabs, k + 2)), np.zeros(slabs, np.int64), np.zeros(slabs, np.int64), np.zeros(slabs, np.int64),
        np.zeros(1, np.int64), np.zeros(k + 2, np.int64), np.zeros(k + 2, np.int64), np.empty(4), np.empty(4),
        np.zeros(4, np.int64),
    )  # fmt: skip


# Searches.


@internal
def _least(objects: SpaceArrays, low: Floats, high: Floats, j: int, v0: float, c0: int, T: float, Tc: int) -> int:
    """The object with the least (column j, created) beyond (v0, c0) in the closed box low..high of (x1, x2, y), among
    those that rank before (T, Tc); NOTHING if there is none."""
    t = objects.tree
    depth, bound, value = t.head[0, DEPTH], t.head[0, BOUND], t.head[0, VALUE]
    leaves = 1 << depth
    found, best, best_c = NOTHING, INF, int64(0)
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = meeting(t.lo, t.hi, bound + 3 * block, 3, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if t.lo[bound + block_at(node, 3) + j * LANES] <= best:
                if node < leaves:
                    down = node
                else:
                    start = (node - leaves) << STEP
                    hits = meeting(t.v, t.v, value + 3 * start, 3, low, high, 0)
                    hits &= (1 << t.cnt[t.head[0, NODE] + node]) - 1
                    while hits:
                        i = low_bit(hits)
                        hits &= hits - 1
                        slot = int64(t.id[start + i])
                        v, c = t.v[value + 3 * start + i + j * LANES], objects.c[slot]
                        beyond = worse(v, c, v0, c0) and (found < 0 or worse(best, best_c, v, c))
                        if beyond and worse(T, Tc, objects.y[slot], c):
                            found, best, best_c = int(slot), v, c
        block, lanes = next_block(block, down, depth)
    return found


@internal
def _nearest_side(
    objects: SpaceArrays, x1: float, x2: float, T: float, Tc: int, k: int, east: bool, sweep: Sweep
) -> int:
    """Fill `east` or `west` with the nearest k objects on that side that rank before (T, Tc) and have at most x2;
    returns how many."""
    t, low, high = objects.tree, sweep.low, sweep.high
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
        mask = meeting(t.lo, t.hi, bound + 3 * block, 3, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                hits = meeting(t.v, t.v, value + 3 * start, 3, low, high, 0) & (
                    (1 << t.cnt[t.head[0, NODE] + node]) - 1
                )
                while hits:
                    i = low_bit(hits)
                    hits &= hits - 1
                    slot = int64(t.id[start + i])
                    if worse(T, Tc, objects.y[slot], objects.c[slot]):
                        v = objects.x[slot, 0]
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


@kernel
def snap(points: Points, k_class: int, low: Floats, high: Floats, out: Floats, width: int) -> bool:
    """Write the bounds of the points of class q in the closed box low..high to `out`: least ones, then greatest ones.
    False where there is none."""
    base, depth = points.head[k_class, NODE], points.head[k_class, DEPTH]
    cap, value, bound = points.head[k_class, CAP], points.head[k_class, VALUE], points.head[k_class, BOUND]
    leaves = 1 << depth
    for j in range(width):
        out[j], out[width + j] = INF, -INF
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = meeting(points.lo, points.hi, bound + block * width, width, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            at = bound + block_at(node, width)
            inside, widens = True, False
            for j in range(width):
                lo, hi = points.lo[at + j * LANES], points.hi[at + j * LANES]
                inside = inside and low[j] <= lo and hi <= high[j]
                widens = widens or lo < out[j] or hi > out[width + j]
            if widens and inside:
                for j in range(width):
                    out[j] = min(out[j], points.lo[at + j * LANES])
                    out[width + j] = max(out[width + j], points.hi[at + j * LANES])
            elif widens and node < leaves:
                down = node
            elif widens:
                start = (node - leaves) * cap
                end = start + points.cnt[base + node]
                for p in range(start, end, LANES):
                    hits = meeting(points.v, points.v, value + p * width, width, low, high, 0) & (
                        ALL >> max(p + LANES - end, 0)
                    )
                    if hits:
                        for j in range(width):
                            i = value + p * width + j * LANES
                            out[j] = min(out[j], lanes_min(points.v, i, hits))
                            out[width + j] = max(out[width + j], lanes_max(points.v, i, hits))
        block, lanes = next_block(block, down, depth)
    return out[0] <= out[width]


# Slabs.


@internal
def _store(sweep: Sweep, slab: int, k: int, a: int, b: int) -> None:
    """Make the lists at hand those of slab z."""
    for i in range(k + 2):
        sweep.slab_west[slab, i], sweep.slab_east[slab, i] = sweep.west[i], sweep.east[i]
    sweep.a[slab], sweep.b[slab] = a, b


@internal
def _take(sweep: Sweep, slab: int, k: int) -> None:
    """Make the lists of slab z those at hand."""
    for i in range(k + 2):
        sweep.west[i], sweep.east[i] = sweep.slab_west[slab, i], sweep.slab_east[slab, i]


@internal
def _shift(sweep: Sweep, slab: int, k: int, by: int) -> None:
    """Move slab z and those after it up by one, or those after it down onto it."""
    n = sweep.slabs[0]
    for step in range(n - slab if by > 0 else n - slab - 1):
        here = n - 1 - step if by > 0 else slab + 1 + step
        there = here + by
        sweep.u[there], sweep.a[there], sweep.b[there] = sweep.u[here], sweep.a[here], sweep.b[here]
        sweep.h[there] = sweep.h[here]
        for i in range(k + 2):
            sweep.slab_west[there, i] = sweep.slab_west[here, i]
            sweep.slab_east[there, i] = sweep.slab_east[here, i]
    sweep.slabs[0] = n + by
    sweep.u[n + by] = INF


@internal
def _enter(side: Floats, n: int, k: int, v: float, east: bool) -> int:
    """Put v in its place in a list and drop the k+1-st; returns the new length."""
    n = min(n + 1, k)
    z = n
    while z > 1 and (side[z - 1] > v if east else side[z - 1] < v):
        side[z] = side[z - 1]
        z -= 1
    side[z] = v
    return n


@internal
def _find_slabs(objects: SpaceArrays, x1: float, x2: float, T: float, Tc: int, k: int, sweep: Sweep) -> bool:
    """Algorithm 7: the slabs of an object at (x1, x2) at the level (T, Tc). False when there are too many."""
    a = _nearest_side(objects, x1, x2, T, Tc, k, False, sweep)
    b = _nearest_side(objects, x1, x2, T, Tc, k, True, sweep)
    _store(sweep, 0, k, a, b)
    sweep.u[0] = x2
    n = 1
    v, c = x2, int64(np.iinfo(np.int64).max)
    more = True
    while more:
        low, high = sweep.low, sweep.high
        low[X1], high[X1] = above(sweep.west[k]), below(sweep.east[k])
        low[X2], high[X2], low[Y], high[Y] = v, MAX, -MAX, T
        sweep.stats[MIN] += 1
        h = _least(objects, low, high, X2, v, c, T, Tc)
        more = h >= 0 and n < len(sweep.a)
        if more:
            v, c = objects.x[h, 1], objects.c[h]
            if objects.x[h, 0] > x1:
                b = _enter(sweep.east, b, k, objects.x[h, 0], True)
            else:
                a = _enter(sweep.west, a, k, objects.x[h, 0], False)
            n += v > sweep.u[n - 1]
            sweep.u[n - 1] = v
            _store(sweep, n - 1, k, a, b)
    sweep.slabs[0] = n
    sweep.u[n] = INF
    return h < 0


# Boxes. Kernels here take more than eight arguments, as `indexes.boards.space.kernels.paint.paint` does, with which
# `paint` is compared.


@internal
def _add_boxes(sweep: Sweep, strips: int, opened: int, t_inner: float, t_outer: float, tiles: Any) -> int:
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


@internal
def _finish(
    points: Points,
    k_class: int,
    dense: bool,
    sweep: Sweep,
    start: int,
    own: bool,
    row: int,
    x: Floats,
    slot: int,
    y: float,
    gone: bool,
    c: int,
    out: Floats,
    tiles: Any,
) -> None:
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
            kept = snap(points, k_class, sweep.low, sweep.high, out, 4)
            for j in range(2):
                side[n, 4 * j], side[n, 4 * j + 1] = below(out[2 * j]), out[4 + 2 * j]
                side[n, 4 * j + 2], side[n, 4 * j + 3] = out[2 * j + 1], above(out[4 + 2 * j + 1])
        if kept:
            tiles.row[n], tiles.y[n], tiles.gone[n], tiles.c[n], tiles.cls[n] = row, y, gone, c, k_class
            tiles.own[n] = own
            tiles.x[n, 0], tiles.x[n, 1] = x[slot, 0], x[slot, 1]
            n += 1
    tiles.n[0] = n


@kernel
def paint(
    objects: SpaceArrays,
    forest: Any,
    k_class: int,
    k: int,
    dense: bool,
    late: int,
    x: Floats,
    slot: int,
    row: int,
    y_old: float,
    y_new: float,
    c: int,
    sweep: Sweep,
    out: Floats,
    tiles: Any,
) -> int:
    """Append the tiles of a class, whose boxes are open below in x2, for an object at x[slot] whose y goes from
    `y_old` to `y_new` (Algorithm 11); as `indexes.boards.space.kernels.paint.paint`. `out` is room for 8 numbers.

    `dense` serves every subscription there could be. If not, `late` says which searches do not look at the
    subscriptions of their slab yet, which Algorithm 11 leaves open (more searches, the same lists): with `ALWAYS` none,
    with `LATE` the first of a slab, with `LATER` that of the piece below a cut as well.

    Returns 1, or 0 when `tiles` or the slabs are too small.
    """
    t = forest.tree
    x1, x2 = x[slot, 0], x[slot, 1]
    gone = y_new == INF
    start = tiles.n[0]
    y, yc = min(y_old, y_new), int64(c)
    ok = _find_slabs(objects, x1, x2, y, yc, k, sweep)
    opened = 0
    for slab in range(sweep.slabs[0]):
        _take(sweep, slab, k)
        if ok:
            strips = region_strips(sweep, k, sweep.a[slab], sweep.b[slab], 0)
            opened = _add_boxes(sweep, strips, opened, sweep.u[slab], sweep.u[slab + 1], tiles)
            ok = opened >= 0
        sweep.h[slab] = FIRST if late >= LATE else UNKNOWN
    if ok:
        _finish(t, k_class, dense, sweep, start, True, row, x, slot, y_old if gone else y_new, gone, c, out, tiles)
    more = y_new > y_old
    while more and ok:
        slab = _next_slab(
            objects, t, k_class, dense, k, x1, y, yc, min(y_new, MAX), c if not gone else int64(0), sweep, out
        )
        more = slab >= 0
        if more:
            exposed = sweep.h[slab]
            y, yc = objects.y[exposed], objects.c[exposed]
            first = tiles.n[0]
            ok = _expose(objects, exposed, slab, k, x1, late, sweep, tiles)
            if ok:
                _finish(
                    t,
                    k_class,
                    dense,
                    sweep,
                    first,
                    False,
                    objects.row[exposed],
                    objects.x,
                    exposed,
                    y,
                    False,
                    yc,
                    out,
                    tiles,
                )
    if not ok:
        tiles.n[0] = start
    return 1 if ok else 0


@internal
def _next_slab(
    objects: SpaceArrays,
    points: Points,
    k_class: int,
    dense: bool,
    k: int,
    x1: float,
    y: float,
    yc: int,
    T: float,
    Tc: int,
    sweep: Sweep,
    out: Floats,
) -> int:
    """The slab with the next object to be exposed after (y, yc) and before (T, Tc), NOTHING if there is none."""
    found = NOTHING
    low, high = sweep.low, sweep.high
    for slab in range(sweep.slabs[0]):
        if sweep.h[slab] <= UNKNOWN:
            west, east = above(sweep.slab_west[slab, k]), below(sweep.slab_east[slab, k])
            anyone = True
            if not dense and sweep.h[slab] == UNKNOWN:
                sweep.stats[REFRESH] += 1
                low[0], high[0], low[1], high[1] = west, x1, x1, east
                low[2], high[2], low[3], high[3] = -MAX, -MAX, sweep.u[slab], MAX
                anyone = snap(points, k_class, low, high, out, 4)
                west, east = max(west, out[0]), min(east, out[5])
            sweep.h[slab] = NOTHING
            if anyone:
                low[X1], high[X1] = west, east
                low[X2], high[X2] = sweep.u[slab] if slab > 0 else -MAX, below(sweep.u[slab + 1])
                low[Y], high[Y] = y, T
                sweep.stats[MIN] += 1
                sweep.h[slab] = _least(objects, low, high, Y, y, yc, T, Tc)
        exposed = sweep.h[slab]
        if exposed >= 0 and (
            found < 0
            or worse(objects.y[sweep.h[found]], objects.c[sweep.h[found]], objects.y[exposed], objects.c[exposed])
        ):
            found = slab
    return found


@internal
def _expose(
    objects: SpaceArrays, exposed: int, slab: int, k: int, x1: float, late: int, sweep: Sweep, tiles: Any
) -> bool:
    """Make the boxes that the object in slot `exposed`, the next one of a slab, gains, and enter it in the lists.
    False when there is no room."""
    xh, x2h = objects.x[exposed, 0], objects.x[exposed, 1]
    ok = sweep.slabs[0] < len(sweep.a)
    sweep.h[slab] = UNKNOWN
    if ok and x2h > sweep.u[slab]:
        _shift(sweep, slab, k, 1)
        if late >= LATER:
            sweep.h[slab] = FIRST
        slab += 1
        sweep.u[slab] = x2h
    first, opened = slab, 0
    while ok and slab < sweep.slabs[0] and sweep.slab_west[slab, k] < xh < sweep.slab_east[slab, k]:
        _take(sweep, slab, k)
        strips = gain_strips(sweep, k, sweep.a[slab], sweep.b[slab], xh, 0)
        opened = _add_boxes(sweep, strips, opened, sweep.u[slab], sweep.u[slab + 1], tiles)
        ok = opened >= 0
        a, b = sweep.a[slab], sweep.b[slab]
        if xh > x1:
            b = _enter(sweep.east, b, k, xh, True)
        else:
            a = _enter(sweep.west, a, k, xh, False)
        _store(sweep, slab, k, a, b)
        old = sweep.h[slab]
        if old >= 0 and not (sweep.west[k] < objects.x[old, 0] < sweep.east[k]):
            sweep.h[slab] = UNKNOWN
        slab += 1
    for here in range(slab, first - 1, -1):
        if ok and 0 < here < sweep.slabs[0] and _same_lists(sweep, here, k):
            one, two = sweep.h[here - 1], sweep.h[here]
            if one <= UNKNOWN or two <= UNKNOWN:
                one = UNKNOWN
            elif one == NOTHING or (two >= 0 and worse(objects.y[one], objects.c[one], objects.y[two], objects.c[two])):
                one = two
            _shift(sweep, here, k, -1)
            sweep.h[here - 1] = one
    return ok


@internal
def _same_lists(sweep: Sweep, slab: int, k: int) -> bool:
    """Has slab z the lists of the one before?"""
    same = sweep.a[slab] == sweep.a[slab - 1] and sweep.b[slab] == sweep.b[slab - 1]
    for i in range(k + 1):
        same = same and sweep.slab_west[slab, i] == sweep.slab_west[slab - 1, i]
        same = same and sweep.slab_east[slab, i] == sweep.slab_east[slab - 1, i]
    return same
