"""Paint-Sparse: tiles for the subscriptions that exist, at most twice the fewest possible ([Range top-k] III-B, Theorem
4).

Every strip shrinks to the bounding box of its subscriptions; empty strips are dropped. From west to east, a box is
joined with the one before while the box around both holds no subscription outside the strips of the object. The sweep
looks for exposed objects only between l* and r*, the ends of the subscriptions still inside the shrinking region. If
few subscriptions are near they are fetched once and scanned (`shortlist`); the recipients are the same.
"""

from __future__ import annotations

from indexes.boards.kernels.batch_interactions import (
    ALL,
    NONE,
    BatchInteractions,
    drop_non_recipients,
    recipient_strips,
    recipients_of,
)
from indexes.boards.kernels.forest import exists, glimpse, snap
from indexes.boards.kernels.object_index import ObjectArrays
from indexes.boards.kernels.region import enter, exposed, gain_strips, region_strips, take_prefix
from indexes.boards.kernels.scratch import EXPOSED, MERGE, MIN_Y, REFRESH, SNAP, PaintContext, Scratch
from indexes.boards.kernels.shortlist import count_better, count_entry, cover, ends, fetch, mark_strips, shrink
from indexes.boards.kernels.sketch import is_sketched, sketched_exists, sketched_snap
from indexes.boards.kernels.tiles import put_box, sign
from indexes.compiled.floats import above, below
from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import INF, int64

PROMOTION, DEMOTION = 512, 1024
"""At most so many subscriptions of the square are fetched for a promotion, and for a demotion, which exposes others."""

EVERY = 4
"""Exposed objects between two checks whether the square has become small."""


@inlined
def class_k_and_runs(context: PaintContext, k_class: int) -> tuple[int, int]:
    """The k of a class, and how many runs of strips it is painted with, 0 for exactly."""
    k = context.ks[k_class]
    return k, context.runs if context.runs < k else int64(0)


# Nine arguments: those of `paint_near`, and the class.
@inlined
def paint_sparse(
    objects: ObjectArrays,
    context: PaintContext,
    k_class: int,
    slot: int,
    y_new: float,
    a: int,
    b: int,
    own: bool,
    interactions: BatchInteractions | None,
) -> bool:
    """Paint-Sparse for one class; otherwise as `paint_near`. False when `tiles` is too small.

    If the square holds few subscriptions they are fetched once, else searched strip by strip. A large square becomes
    small as the sweep proceeds.
    """
    forest, scratch, tiles = context.forest, context.scratch, context.tiles
    k, runs = class_k_and_runs(context, k_class)
    a, b = min(a, k), min(b, k)
    shortlist = scratch.short
    y, c = objects.y[slot], objects.c[slot]
    gone = y_new == INF
    lowers = y_new > y
    take_prefix(scratch, k)
    start, x = tiles.n[0], scratch.west[0]
    n = int64(-1)
    in_hand = runs == 0 and not is_sketched(forest, k_class, scratch.level)
    counting = scratch.counting[0] != 0 and in_hand
    if in_hand:
        most = int64(DEMOTION if lowers else PROMOTION)
        n = fetch(forest, k_class, scratch.west[k], x, x, scratch.east[k], most, shortlist)
    if n < 0:
        strips = region_strips(scratch, k, a, b, runs)
        if counting:
            ok, l_first, r_last = count_tiles(context, k_class, strips, False)
        else:
            ok, l_first, r_last = greedy(context, k_class, strips, False)
        if runs > 0 and lowers:
            l_first, r_last = first_left(context, k_class, k, a, False), last_right(context, k_class, k, b, False)
    else:
        n = count_better(shortlist, n, scratch, k, a, b)
        ok, l_first, r_last = cover(shortlist, n, int64(0), k - 1, k, tiles)
    if own:
        sign(tiles, start, k_class, objects.row[slot], objects.x[slot], y if gone else y_new, gone, c, True)
    else:
        tiles.n[0] = start
    scratch.stats[MIN_Y] += lowers
    more = lowers and l_first <= r_last
    entered = 0
    while more and ok:
        found, complete = exposed(objects, slot, k, y, c, y_new, l_first, r_last, scratch)
        for e in range(found):
            hit_slot = scratch.hit[e] >> 1
            east = scratch.hit[e] & 1 == 1
            x_h = objects.x[hit_slot]
            y, c = objects.y[hit_slot], objects.c[hit_slot]
            if ok and l_first <= x_h <= r_last:
                scratch.stats[MIN_Y] += 1
                entered += 1
                if entered % EVERY == 0 and in_hand:
                    if n >= 0:
                        n = shrink(shortlist, n, k, l_first, r_last)
                    else:
                        n = fetch(forest, k_class, below(l_first), x, x, above(r_last), int64(DEMOTION), shortlist)
                        if n >= 0:
                            n = count_better(shortlist, n, scratch, k, a, b)
                            if counting:
                                l_first, r_last = ends(shortlist, n, k)
                start = tiles.n[0]
                recipients = ALL
                if interactions is not None:
                    recipients = recipients_of(interactions, scratch, k, objects.row[hit_slot], y, c)
                l, r = INF, -INF
                if n < 0:
                    if interactions is None:
                        strips = gain_strips(scratch, k, a, b, x_h, runs)
                        if runs > 0:
                            clip(scratch, strips, l_first, r_last)
                    else:
                        strips = recipient_strips(interactions, scratch, k, a, b, x_h, y, c, recipients)
                    if counting:
                        ok, l, r = count_tiles(context, k_class, strips, True)
                    else:
                        ok, l, r = greedy(context, k_class, strips, True)
                elif count_entry(shortlist, n, k, x_h, east):
                    if interactions is not None:
                        drop_non_recipients(interactions, scratch, k, y, c, shortlist, n, recipients)
                    if recipients != NONE:
                        ok, l, r = cover(shortlist, n, k, k, k, tiles)
                scratch.stats[EXPOSED] += l <= r
                if recipients != ALL:
                    # Those that gain it and do not receive it have left the region too.
                    l, r = -INF, INF
                sign(tiles, start, k_class, objects.row[hit_slot], x_h, y, y == INF, c, False)
                if east:
                    b = enter(scratch.east, k, b, x_h, True)
                else:
                    a = enter(scratch.west, k, a, x_h, False)
                if l <= l_first or r >= r_last:
                    if n < 0:
                        l_first = first_left(context, k_class, k, a, counting) if l <= l_first else l_first
                        r_last = last_right(context, k_class, k, b, counting) if r >= r_last else r_last
                    else:
                        l_first, r_last = ends(shortlist, n, k)
        more = l_first <= r_last and not complete
    return ok


@internal
def cover_strips(context: PaintContext, k_class: int, n: int, chain: bool) -> tuple[bool, float, float]:
    """As `greedy`, for strips whose lower and upper sides do not descend from west to east; on a shortlist if the
    subscriptions are few."""
    forest, scratch = context.forest, context.scratch
    shortlist, strip = scratch.short, scratch.strip
    held = int64(-1)
    if n > 0 and not is_sketched(forest, k_class, scratch.level):
        l_inner, r_outer = strip[n - 1, 1], strip[n - 1, 3]
        held = fetch(forest, k_class, strip[0, 0], l_inner, strip[0, 2], r_outer, int64(DEMOTION), shortlist)
    if held < 0:
        ok, l_first, r_last = greedy(context, k_class, n, chain)
    else:
        shortlist.gone[0] = 0
        mark_strips(shortlist, held, scratch, n)
        ok, l_first, r_last = cover(shortlist, held, int64(1), int64(1), n, context.tiles)
        scratch.stats[SNAP] += n
    return ok, l_first, r_last


@internal
def greedy(context: PaintContext, k_class: int, n: int, chain: bool) -> tuple[bool, float, float]:
    """Append the tiles that cover exactly the subscriptions of the n strips.

    Strips of a region have their lower sides on one line; those of a `chain` touch at corners. Returns whether the
    tiles fit, and the least l and greatest r of the subscriptions (inf and -inf if there are none). O(n sqrt m).
    """
    forest, scratch, tiles = context.forest, context.scratch, context.tiles
    strip, level = scratch.strip, scratch.level
    ok = True
    l_first, r_last = INF, -INF
    w0, e0, s0, n0 = INF, -INF, INF, -INF
    for t in range(n):
        w1, e1, s1, n1 = sketched_snap(forest, k_class, level, strip[t, 0], strip[t, 1], strip[t, 2], strip[t, 3])
        if w1 <= e1:
            l_first, r_last = min(l_first, w1), max(r_last, n1)
            join = w0 <= e0
            if join and n1 > n0:
                scratch.stats[MERGE] += 1
                join = not sketched_exists(forest, k_class, level, below(w0), strip[t, 0], above(n0), above(n1))
            if join and chain:
                scratch.stats[MERGE] += 1
                join = not sketched_exists(forest, k_class, level, e0, e1, s0, s1)
            if join:
                e0, s0, n0 = e1, min(s0, s1), max(n0, n1)
            else:
                ok = ok and put_box(w0, e0, s0, n0, tiles)
                w0, e0, s0, n0 = w1, e1, s1, n1
    scratch.stats[SNAP] += n
    ok = ok and put_box(w0, e0, s0, n0, tiles)
    return ok, l_first, r_last


@internal
def count_tiles(context: PaintContext, k_class: int, n: int, chain: bool) -> tuple[bool, float, float]:
    """As `greedy`, where tiles are only counted, so that their sides do not matter. The ends returned are bounds of the
    subscriptions'.

    A strip begins another tile if the box around both holds a subscription above the strips of the last one. Most often
    the box around some subscriptions of both, those found first, holds one. Boxes are found only where it does not.
    """
    forest, scratch, tiles = context.forest, context.scratch, context.tiles
    strip = scratch.strip
    l_first, r_last = INF, -INF
    # Of the last tile: an l in it, where its strips end, its box if that was found, and its last strip.
    west, top, boxed = INF, -INF, False
    w0, e0, s0, n0 = INF, -INF, INF, -INF
    made, last = 0, 0
    for t in range(n):
        l_outer, l_inner, r_inner, r_outer = strip[t, 0], strip[t, 1], strip[t, 2], strip[t, 3]
        l, r = glimpse(forest, k_class, l_outer, l_inner, max(r_inner, top), r_outer)
        if l == INF and r_inner < top:
            l, r = glimpse(forest, k_class, l_outer, l_inner, r_inner, top)
        if l < INF:
            l_first, r_last = min(l_first, above(l_outer)), max(r_last, below(r_outer))
            join = False
            if made > 0 and not (r >= top and exists(forest, k_class, below(west), l_outer, top, above(r))):
                if not boxed:
                    w0, e0, s0, n0 = snap(
                        forest, k_class, strip[last, 0], strip[last, 1], strip[last, 2], strip[last, 3]
                    )
                w1, e1, s1, n1 = snap(forest, k_class, l_outer, l_inner, r_inner, r_outer)
                join = n1 <= n0 or not exists(forest, k_class, below(w0), l_outer, above(n0), above(n1))
                if join and chain:
                    join = not exists(forest, k_class, e0, e1, s0, s1)
                if join:
                    e0, s0, n0 = e1, min(s0, s1), max(n0, n1)
                else:
                    w0, e0, s0, n0 = w1, e1, s1, n1
                west, boxed = w0, True
            else:
                west, boxed = l, False
            made += not join
            last, top = t, r_outer
    ok = tiles.n[0] + made <= len(tiles.row)
    tiles.n[0] += made * ok
    scratch.stats[SNAP] += n
    return ok, l_first, r_last


@internal
def clip(scratch: Scratch, n: int, l_first: float, r_last: float) -> None:
    """Cut the boxes of runs to the quadrant of the remaining subscriptions: beyond it objects were skipped, so the
    lists are incomplete there and the bound of [Range top-k] Theorem 7 would not hold."""
    for t in range(n):
        scratch.strip[t, 0] = max(scratch.strip[t, 0], below(l_first))
        scratch.strip[t, 3] = min(scratch.strip[t, 3], above(r_last))


@internal
def first_left(context: PaintContext, k_class: int, k: int, a: int, counting: bool) -> float:
    """l*: the least l of the subscriptions in the region, inf if there are none; a bound below it with `counting`."""
    scratch, found = context.scratch, INF
    west, east = scratch.west, scratch.east
    z = min(a + 1, k)
    while z > 0 and found == INF:
        scratch.stats[REFRESH] += 1
        l_outer, r_outer = west[z], east[k - z + 1]
        if not counting:
            found = sketched_snap(context.forest, k_class, scratch.level, l_outer, west[z - 1], west[0], r_outer)[0]
        elif exists(context.forest, k_class, l_outer, west[z - 1], west[0], r_outer):
            found = above(l_outer)
        z -= 1
    return found


@internal
def last_right(context: PaintContext, k_class: int, k: int, b: int, counting: bool) -> float:
    """r*: the greatest r of the subscriptions in the region, -inf if there are none; a bound above it with
    `counting`."""
    scratch, found = context.scratch, -INF
    west, east = scratch.west, scratch.east
    z = min(b + 1, k)
    while z > 0 and found == -INF:
        scratch.stats[REFRESH] += 1
        l_outer, r_outer = west[k - z + 1], east[z]
        if not counting:
            found = sketched_snap(context.forest, k_class, scratch.level, l_outer, west[0], east[z - 1], r_outer)[3]
        elif exists(context.forest, k_class, l_outer, west[0], east[z - 1], r_outer):
            found = below(r_outer)
        z -= 1
    return found
