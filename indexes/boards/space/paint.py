"""Painting with several range attributes: from a change of one object to the tiles of everyone it concerns.

A better y concerns the subscriptions whose region holds the object and fewer than k objects that rank before it: they
get it. A worse y concerns those that had the object; they get its new y, and where the k-th best of the others is now
better, they get that one too.

The tree of a class is walked from above. Of a node the bounds of its subscriptions' parameters are known, so the region
that all of those that hold the object have in common: where it holds k better objects, none is concerned. A few hundred
better objects, all in a box around x, decide nearly always; they are fetched once an event and counted 16 at a time,
the nearest first. What is left are single subscriptions. Those whose region reaches beyond that box have their better
objects counted in the tree of objects.

The next best one for a worse y is looked for in the same way: among all objects of a box around x that rank between the
old and the new y, in order of rank. For a region that reaches beyond the box what is found is a bound, with which a
search in the tree of objects looks at little.

Tiles. Those of a leaf that get the same object are put together as long as no other one of the leaf lies in their box;
where all of a leaf get it, the leaf's bounds are the tile, and where all of two siblings do, their parent's. The boxes
of different leaves are disjoint unless equal values lie on both sides of a cut: then a box is used only if the tree
confirms that it holds no one else (paper, IV-C).
"""

from __future__ import annotations

import numpy as np

from indexes.boards.space.points import (
    ALL,
    BOUND,
    DEPTH,
    NODE,
    STEP,
    VALUE,
    WIDEST,
    WIDTH,
    block_at,
    count_within,
    first_lanes,
    next_block,
    within,
)
from indexes.boards.space.search import (
    best,
    best_first,
    bounding_box,
    count_before,
    covers,
    look_around,
    near_in_box,
    near_in_region,
    nearest_first,
    worse,
)
from indexes.boards.space.shapes import BOX, MAX, every, holds, some
from indexes.boards.space.tiles import write_sides
from indexes.boards.space.work import CHECKS, COUNTS, FETCHES, FIRST_LOOK, NEAR, NODES, SEARCHES, WANTED
from indexes.jit import inline_kernel
from indexes.lanes import LANES, bit_count, high_bit, lanes_from, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

INF = np.inf

OWN, GAINED = range(2)
MERGED = -2


@lean_kernel
def paint(o, f, ks, x, s, row, y_old, y_new, c, w, tiles):  # type: ignore[no-untyped-def]
    """Append the tiles for an object at x[s] whose y goes from `y_old` to `y_new`; either may be +inf.

    The index of objects holds it at `y_old`, or, where that is +inf, not at all or hidden. A `y_new` that is the old
    one makes the tiles of its present region. Class after class: the tiles of the object, then those of exposed
    objects in (y, created) order. Returns 1, or 0 when `tiles` or the drafts are too small; then it is as before.
    """
    first = tiles.n[0]
    y = min(y_old, y_new)
    kmax = np.int64(0)
    for q in range(len(ks)):
        if f.total[q] > 0:
            kmax = max(kmax, ks[q])
    ok = True
    if kmax > 0 and y < INF:
        look_around(o, x, s, -INF, np.int64(-1), y, c, max(4 * kmax, w.ahead.size[WANTED]), w.ahead, w.box)
        nearest_first(o, x, s, w.ahead, w.box)
        w.stats[FETCHES] += 1
        w.behind.size[NEAR] = -1
        for q in range(len(ks)):
            if ok and ks[q] > 0 and f.total[q] > 0:
                w.drafts.n[0] = 0
                w.drafts.node[:, :] = 0
                ok = _walk(o, f, q, ks[q], x, s, row, y_old, y_new, c, w)
                ok = ok and _write(o, f, q, x, s, row, y_old, y_new, c, w, tiles)
    if not ok:
        tiles.n[0] = first
    return 1 if ok else 0


@inline_kernel
def _walk(o, f, q, k, x, s, row, y_old, y_new, c, w):  # type: ignore[no-untyped-def]
    """Draft the tiles of one class. False when there is no room."""
    t, d = f.tree, o.x.shape[1]
    depth, bound, p, shape = t.head[q, DEPTH], t.head[q, BOUND], t.head[q, WIDTH], f.shape[q]
    leaves = 1 << depth
    ok = True
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and ok:
        mask = _nodes_around(t, q, shape, block, x, s, d) & lanes
        down = 0
        while mask and not down and ok:
            node = block + low_bit(mask)
            mask &= mask - 1
            w.stats[NODES] += 1
            if node >= leaves:
                at = t.head[q, VALUE] + ((node - leaves) << STEP) * p
                doubtful = _doubtful(o, t, at, t.cnt[t.head[q, NODE] + node], shape, k, x, s, d, w)
                if doubtful:
                    ok = _leaf(o, f, q, k, node, at, doubtful, x, s, row, y_old, y_new, c, w)
            else:
                if not _filled(o, t, bound + block_at(node, p), shape, k, x, s, d, w):
                    down = node
        block, lanes = next_block(block, down, depth)
    return ok


@inline_kernel
def _nodes_around(t, q, shape, block, x, s, d):  # type: ignore[no-untyped-def]
    """The mask of the 16 nodes of a block that may have a region which holds x[s]."""
    p = t.head[q, WIDTH]
    at = t.head[q, BOUND] + block * p
    mask = ALL
    if shape == BOX:
        for j in range(d):
            mask &= lanes_upto(t.lo, at + 2 * j * LANES, x[s, j])
            mask &= lanes_from(t.hi, at + (2 * j + 1) * LANES, x[s, j])
    else:
        last = min(LANES, (2 << t.head[q, DEPTH]) - block)
        for i in range(LANES):
            if (
                i >= last
                or t.cnt[t.head[q, NODE] + block + i] == 0
                or not some(shape, d, t.lo, t.hi, at + i, LANES, x, s)
            ):
                mask &= ~(1 << i)
    return mask


@inline_kernel
def _filled(o, t, at, shape, k, x, s, d, w):  # type: ignore[no-untyped-def]
    """Do all regions of the node at `at` that hold x[s] hold k of the near objects too?"""
    if shape == BOX:
        for j in range(d):
            w.box[2 * j] = min(t.hi[at + 2 * j * LANES], x[s, j])
            w.box[2 * j + 1] = max(t.lo[at + (2 * j + 1) * LANES], x[s, j])
        total = near_in_box(w.ahead, FIRST_LOOK, d, w.box, k)
    else:
        total = 0
        i = 0
        while i < min(FIRST_LOOK, w.ahead.size[NEAR]) and total < k:
            total += every(shape, d, t.lo, t.hi, at, LANES, o.x, w.ahead.slot[i])
            i += 1
    return total >= k


@inline_kernel
def _doubtful(o, t, at, n, shape, k, x, s, d, w):  # type: ignore[no-untyped-def]
    """The mask of the n regions of a leaf that hold the object at hand and fewer than k near ones that rank before it;
    `w.before` is how many."""
    found = (1 << n) - 1
    if shape == BOX:
        for j in range(d):
            found &= lanes_upto(t.v, at + 2 * j * LANES, x[s, j])
            found &= lanes_from(t.v, at + (2 * j + 1) * LANES, x[s, j])
    else:
        for i in range(n):
            if not holds(shape, d, t.v, at + i, LANES, x, s):
                found &= ~(1 << i)
    doubtful = 0
    while found:
        i = low_bit(found)
        found &= found - 1
        bounding_box(shape, d, t.v, at + i, LANES, w.box)
        if shape == BOX:
            total = near_in_box(w.ahead, w.ahead.size[NEAR], d, w.box, k)
        else:
            total, _ = near_in_region(o, w.ahead, shape, t.v, at + i, LANES, w.box, k)
        if total < k:
            w.before[i] = total
            doubtful |= 1 << i
    return doubtful


@inner_kernel
def _leaf(o, f, q, k, node, at, doubtful, x, s, row, y_old, y_new, c, w):  # type: ignore[no-untyped-def]
    """Draft the tiles of a leaf's subscriptions, whose parameters begin at `at`. False when there is no room."""
    t, d = f.tree, o.x.shape[1]
    shape = f.shape[q]
    everyone = (1 << t.cnt[t.head[q, NODE] + node]) - 1
    concerned = 0
    while doubtful:
        i = low_bit(doubtful)
        doubtful &= doubtful - 1
        bounding_box(shape, d, t.v, at + i, LANES, w.box)
        if not covers(w.ahead, d, w.box):
            w.stats[COUNTS] += 1
            w.before[i] = count_before(o, shape, t.v, at + i, LANES, min(y_old, y_new), c, k, w.box)
        if w.before[i] < k:
            concerned |= 1 << i
    ok = True
    if concerned:
        ok = _draft(t, q, node, at, concerned, everyone, OWN, -1, w)
        if y_new > y_old:
            ok = ok and _expose(o, t, q, k, node, at, shape, concerned, everyone, x, s, row, y_old, y_new, c, w)
    return ok


@inline_kernel
def _expose(o, t, q, k, node, at, shape, concerned, everyone, x, s, row, y_old, y_new, c, w):  # type: ignore[no-untyped-def]
    """Draft the tiles of the objects that a leaf's subscriptions gain."""
    d = o.x.shape[1]
    T, Tc = (y_new, c) if y_new < INF else (MAX, np.int64(0))
    if w.behind.size[NEAR] < 0:
        look_around(o, x, s, y_old, c, T, Tc, max(4 * k, w.behind.size[WANTED]), w.behind, w.box)
        best_first(o, w.behind)
        w.stats[FETCHES] += 1
    gains = 0
    left = concerned
    while left:
        i = low_bit(left)
        left &= left - 1
        need = k - w.before[i]
        bounding_box(shape, d, t.v, at + i, LANES, w.box)
        n, h = near_in_region(o, w.behind, shape, t.v, at + i, LANES, w.box, need)
        gained = n == need
        if not covers(w.behind, d, w.box):
            # What is near is only a bound: no worse object is gained.
            Y, Yc = (o.y[h], o.c[h]) if gained else (T, Tc)
            w.stats[SEARCHES] += 1
            n = best(o, shape, t.v, at + i, LANES, Y, Yc, o.pos[row], k, w.best, w.box)
            if n == k:
                h = w.best[k - 1]
                gained = True
        if gained:
            gains |= 1 << i
            w.gain[i] = h
    ok = True
    while gains and ok:
        h = w.gain[low_bit(gains)]
        same = 0
        left = gains
        while left:
            i = low_bit(left)
            left &= left - 1
            if w.gain[i] == h:
                same |= 1 << i
        gains &= ~same
        ok = _draft(t, q, node, at, same, everyone, GAINED, h, w)
    return ok


# Drafts of tiles.


@pasted_kernel
def _draft(t, q, node, at, members, everyone, kind, slot, w):  # type: ignore[no-untyped-def]
    """Draft tiles for the members of a leaf, which get the object in `slot`. False when there is no room."""
    g, p = w.drafts, t.head[q, WIDTH]
    ok = True
    apart = members == members & -members or _apart(t, q, node, w)
    if members == everyone and apart:
        ok = _open_draft(g, slot)
        if ok:
            _bounds(t, t.head[q, BOUND] + block_at(node, p), p, g, g.n[0] - 1)
            _join_siblings(t, q, node, kind, slot, w)
    left = 0 if members == everyone and apart else members
    while left and ok:
        i = low_bit(left)
        left &= left - 1
        ok = _open_draft(g, slot)
        if ok:
            b = (g.n[0] - 1) * WIDEST
            for j in range(p):
                g.low[b + j] = g.high[b + j] = t.v[at + i + j * LANES]
            mine = 1 << i
            rest = left
            while rest:
                i = low_bit(rest)
                rest &= rest - 1
                for j in range(p):
                    v = t.v[at + i + j * LANES]
                    w.low[j], w.high[j] = min(g.low[b + j], v), max(g.high[b + j], v)
                inside = within(t, at, p, w.low, w.high, 0) & everyone
                if inside & ~(mine | left) == 0 and (apart or _alone(t, q, bit_count(inside), w)):
                    mine |= inside
                    left &= ~inside
                    rest &= ~inside
                    for j in range(p):
                        g.low[b + j], g.high[b + j] = w.low[j], w.high[j]
    return ok


@pasted_kernel
def _open_draft(g, slot):  # type: ignore[no-untyped-def]
    ok = g.n[0] < len(g.slot)
    if ok:
        g.slot[g.n[0]] = slot
        g.n[0] += 1
    return ok


@pasted_kernel
def _bounds(t, at, p, g, draft):  # type: ignore[no-untyped-def]
    """Make the bounds of the node at `at` the box of a draft."""
    for j in range(p):
        g.low[draft * WIDEST + j], g.high[draft * WIDEST + j] = t.lo[at + j * LANES], t.hi[at + j * LANES]


@inline_kernel
def _join_siblings(t, q, node, kind, slot, w):  # type: ignore[no-untyped-def]
    """The last draft covers all of `node`: put it together with that of its sibling, and so on upwards."""
    base, bound, p = t.head[q, NODE], t.head[q, BOUND], t.head[q, WIDTH]
    g = w.drafts
    draft = g.n[0] - 1
    level = high_bit(node)
    more = node > 1
    while more:
        sibling = node ^ 1
        more = t.cnt[base + sibling] == 0
        if not more and node & 1 and g.node[kind, level] == sibling:
            other = g.draft[kind, level]
            more = g.slot[other] == slot and _apart(t, q, node >> 1, w)
            if more:
                _bounds(t, bound + block_at(node >> 1, p), p, g, other)
                g.slot[draft] = MERGED
                draft = other
        if more:
            node >>= 1
            level -= 1
            more = node > 1
    g.node[kind, level], g.draft[kind, level] = node, draft


@pasted_kernel
def _apart(t, q, node, w):  # type: ignore[no-untyped-def]
    """Does no point outside `node` lie within its bounds?"""
    base, bound, p = t.head[q, NODE], t.head[q, BOUND], t.head[q, WIDTH]
    at = bound + block_at(node, p)
    tied = False
    above = node
    while above > 1:
        j = t.axis[base + (above >> 1)] * LANES
        beside = bound + block_at(above ^ 1, p) + j
        tied |= (t.lo[beside] <= t.hi[at + j]) if above & 1 == 0 else (t.lo[at + j] <= t.hi[beside])
        above >>= 1
    apart = not tied
    if tied:
        apart = _alone_node(t, q, at, p, t.cnt[base + node], w)
    return apart


@pasted_kernel
def _alone(t, q, n, w):  # type: ignore[no-untyped-def]
    """Does the box w.low..w.high hold no more than n points of the class?"""
    w.stats[CHECKS] += 1
    total, _ = count_within(t, q, w.low, w.high, 0, n + 1)
    return total == n


@pasted_kernel
def _alone_node(t, q, at, p, n, w):  # type: ignore[no-untyped-def]
    """Do the bounds at `at` hold no more than the n points of their node?"""
    for j in range(p):
        w.low[j], w.high[j] = t.lo[at + j * LANES], t.hi[at + j * LANES]
    return _alone(t, q, n, w)


# Writing.


@inner_kernel
def _write(o, f, q, x, s, row, y_old, y_new, c, w, tiles):  # type: ignore[no-untyped-def]
    """Append the drafts of class q to `tiles`: the object's own, then those of exposed objects by rank. False when they
    do not fit."""
    g, d = w.drafts, o.x.shape[1]
    gone = y_new == INF
    y = y_old if gone else y_new
    n = tiles.n[0]
    gained = 0
    ok = True
    for i in range(g.n[0]):
        if g.slot[i] == -1 and ok:
            ok = n < len(tiles.row)
            if ok:
                write_sides(f.shape[q], d, g.low, g.high, i * WIDEST, 1, tiles.side, n)
                tiles.row[n], tiles.y[n], tiles.gone[n], tiles.c[n], tiles.cls[n] = row, y, gone, c, q
                tiles.own[n] = True
                for j in range(d):
                    tiles.x[n, j] = x[s, j]
                n += 1
        elif g.slot[i] >= 0:
            g.order[gained] = i
            gained += 1
    ok = ok and n + gained <= len(tiles.row)
    if ok:
        _sort(o, g, gained)
        for r in range(gained):
            i = g.order[r]
            h = g.slot[i]
            write_sides(f.shape[q], d, g.low, g.high, i * WIDEST, 1, tiles.side, n)
            tiles.row[n], tiles.y[n], tiles.gone[n], tiles.c[n], tiles.cls[n] = o.row[h], o.y[h], False, o.c[h], q
            tiles.own[n] = False
            for j in range(d):
                tiles.x[n, j] = o.x[h, j]
            n += 1
        tiles.n[0] = n
    return ok


@inner_kernel
def _sort(o, g, n):  # type: ignore[no-untyped-def]
    """Order the drafts g.order[:n] by the rank of their objects, then as they were found (Shell's method)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            i = g.order[r]
            y, c = o.y[g.slot[i]], o.c[g.slot[i]]
            to = r
            while to >= gap and _later(o, g, g.order[to - gap], y, c, i):
                g.order[to] = g.order[to - gap]
                to -= gap
            g.order[to] = i
        gap //= 3


@pasted_kernel
def _later(o, g, j, y, c, i):  # type: ignore[no-untyped-def]
    h = g.slot[j]
    return worse(o.y[h], o.c[h], y, c) or (o.c[h] == c and j > i)
