"""Paint-Sparse on a shortlist: fetch the subscriptions that a change may affect once, then scan them for each strip
instead of searching the forest.

An influence region lies in the square west[k] < l <= x_i, x_i <= r < east[k], and so does all that an exposed object
can gain. Most squares hold some dozens of subscriptions, in a few leaves of the forest. For each the shortlist counts
the better objects in its range: it is in the region while these are fewer than k, and an object that enters the lists
gains those that held k - 1 before.

The recipients are those of `paint_sparse`, and so is the rule that joins tiles, taken literally: the box around both
holds no subscription but those that gain the object.

Source: [Range top-k] III-B.
"""

from __future__ import annotations

from indexes.boards.kernels.forest import (
    CAP,
    DEPTH,
    NODE,
    SLOT,
    STEP,
    Forest,
    expect_blocks,
    expect_leaves,
    next_block,
    overlapping,
    reached,
    top_of,
    within,
)
from indexes.boards.kernels.scratch import Scratch, Shortlist
from indexes.boards.kernels.tiles import Tiles, put_box
from indexes.compiled.blocks import pack_lanes
from indexes.compiled.bounds import count_from, count_upto, ends_below
from indexes.compiled.floats import above, below
from indexes.compiled.jit import internal, vectorized
from indexes.compiled.simd import ALL, LANES, lanes_reached, lanes_within, low_bit, prefetch_line
from indexes.core.arrays import INF, uint64


@internal
def fetch(
    forest: Forest,
    k_class: int,
    l_outer: float,
    l_inner: float,
    r_inner: float,
    r_outer: float,
    most: int,
    shortlist: Shortlist,
) -> int:
    """Copy the subscriptions of a class that a tile reaches to the shortlist; returns how many.

    -1 as soon as they are known to be more than `most`. O(sqrt m + answer).
    """
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves, top = 1 << depth, top_of(depth)
    most = min(most, len(shortlist.l) - 2 * LANES)
    # The blocks of leaves to be read, and the masks of their leaves, in columns that are filled later.
    group, chosen = shortlist.west, shortlist.better
    n = 0
    block, lanes = top, (1 << min(top, LANES)) - 1
    leaf_lanes = (1 << min(leaves, LANES)) - 1
    while block and n <= most:
        groups, known = 0, n
        while block and known <= most and groups + LANES <= len(group):
            down = 0
            if block < leaves:
                i = base + block
                mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & lanes
                whole = mask & within(forest, i, l_outer, l_inner, r_inner, r_outer)
                held = known
                while whole:
                    held += forest.cnt[i + low_bit(whole)]
                    whole &= whole - 1
                if held > most:
                    known = held
                expect_blocks(forest, base, block, mask)
                if block << STEP < leaves:
                    if mask:
                        down = block + low_bit(mask)
                else:
                    while mask:
                        group[groups] = (block + low_bit(mask)) << STEP
                        mask &= mask - 1
                        groups += 1
            else:
                group[groups] = block
                groups += 1
            block, lanes = next_block(block, down, top)
        for g in range(groups):
            if known <= most:
                i = base + group[g]
                mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & leaf_lanes
                chosen[g] = mask
                whole = mask & within(forest, i, l_outer, l_inner, r_inner, r_outer)
                prefetch_line(forest.cnt, i)
                expect_leaves(forest, first + (group[g] - leaves) * cap, cap, mask)
                while whole:
                    known += forest.cnt[i + low_bit(whole)]
                    whole &= whole - 1
        if known > most:
            n = most + 1
        for g in range(groups):
            mask = chosen[g] if n <= most else 0
            p0 = first + (group[g] - leaves) * cap
            while mask and n <= most:
                p = p0 + low_bit(mask) * cap
                end = p + forest.cnt[base + group[g] + low_bit(mask)]
                mask &= mask - 1
                while p < end and n <= most:
                    found = reached(forest, p, end, l_outer, l_inner, r_inner, r_outer)
                    pack_lanes(shortlist.l, n, forest.l, p, found)
                    n += pack_lanes(shortlist.r, n, forest.r, p, found)
                    p += LANES
    return n if n <= most else -1


@internal
def count_better(shortlist: Shortlist, n: int, scratch: Scratch, k: int, a: int, b: int) -> int:
    """Count the objects of the lists, of lengths a and b, in each of the n ranges, and set aside in `gone` those that
    hold k or more; returns how many are left, which are in the region. O((a + b) n)."""
    for i in range(n):
        shortlist.west[i] = 0
    count_from(shortlist.west, shortlist.l, n, scratch.west, 1, a + 1)
    for i in range(n):
        shortlist.better[i] = shortlist.west[i]
    count_upto(shortlist.better, shortlist.r, n, scratch.east, 1, b + 1)
    shortlist.gone[0] = 0
    return shrink(shortlist, n, k, -INF, INF)


@vectorized
def mark_strips(shortlist: Shortlist, n: int, scratch: Scratch, strips: int) -> None:
    """Set `better` to 1 for the subscriptions in one of the strips, else 0, and `west` to the number of the strip,
    counted from the east. O(n strips)."""
    for i in range(n):
        shortlist.west[i] = 0
        shortlist.better[i] = 0
    for t in range(strips):
        l_outer, l_inner = scratch.strip[t, 0], scratch.strip[t, 1]
        r_inner, r_outer = scratch.strip[t, 2], scratch.strip[t, 3]
        z = strips - 1 - t
        for i in range(n):
            l, r = shortlist.l[i], shortlist.r[i]
            inside = (l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)
            shortlist.better[i] += inside
            shortlist.west[i] += z * inside


@vectorized
def count_entry(shortlist: Shortlist, n: int, k: int, x_h: float, east: bool) -> int:
    """Let the object at `x_h` enter a list; returns how many subscriptions gain it: those whose count is k now. Those
    that left before have greater counts. O(n)."""
    gained = 0
    if east:
        for i in range(n):
            before = shortlist.better[i]
            better = before + ((shortlist.r[i] >= x_h) | (before >= k))
            gained += better == k
            shortlist.better[i] = better
    else:
        for i in range(n):
            before = shortlist.better[i]
            holds = shortlist.l[i] <= x_h
            better = before + (holds | (before >= k))
            gained += better == k
            shortlist.better[i] = better
            shortlist.west[i] += holds & (better < k)
    return gained


@internal
def ends(shortlist: Shortlist, n: int, k: int) -> tuple[float, float]:
    """l* and r*: the least l and the greatest r of the subscriptions in the region; (inf, -inf) if there are none.
    O(n)."""
    return ends_below(shortlist.l, shortlist.r, shortlist.better, n, k)


@internal
def shrink(shortlist: Shortlist, n: int, k: int, l_first: float, r_last: float) -> int:
    """Drop the subscriptions beyond l* or r*, which no further tile can reach, and set aside in `gone` those that have
    left the region; returns how many are left. O(n)."""
    l_below, r_above = below(l_first), above(r_last)
    gone_l, gone_r = shortlist.gone_l, shortlist.gone_r
    gone, left = 0, 0
    for p in range(0, shortlist.gone[0], LANES):
        near = lanes_reached(gone_l, gone_l, gone_r, gone_r, p, l_below, INF, -INF, r_above)
        near &= ALL >> max(p + LANES - shortlist.gone[0], 0)
        pack_lanes(gone_l, gone, gone_l, p, near)
        gone += pack_lanes(gone_r, gone, gone_r, p, near)
    for p in range(0, n, LANES):
        near = lanes_reached(shortlist.l, shortlist.l, shortlist.r, shortlist.r, p, l_below, INF, -INF, r_above)
        near &= ALL >> max(p + LANES - n, 0)
        inside = near & lanes_within(shortlist.better, p, 0, k - 1)
        pack_lanes(gone_l, gone, shortlist.l, p, near ^ inside)
        gone += pack_lanes(gone_r, gone, shortlist.r, p, near ^ inside)
        pack_lanes(shortlist.l, left, shortlist.l, p, inside)
        pack_lanes(shortlist.r, left, shortlist.r, p, inside)
        pack_lanes(shortlist.west, left, shortlist.west, p, inside)
        left += pack_lanes(shortlist.better, left, shortlist.better, p, inside)
    shortlist.gone[0] = gone
    return left


@internal
def cover(shortlist: Shortlist, n: int, least: int, most: int, k: int, tiles: Tiles) -> tuple[bool, float, float]:
    """Append the tiles that cover exactly the subscriptions with `least` to `most` better objects, from west to east.

    Returns whether the tiles fit, and the least l and the greatest r of these subscriptions (inf and -inf if there are
    none). O(n k) at worst, O(n) for each tile.
    """
    box = shortlist.box
    for z in range(k):
        box[z, 0], box[z, 1], box[z, 2], box[z, 3] = -INF, -INF, -INF, -INF
    for p in range(0, n, LANES):
        found = lanes_within(shortlist.better, p, least, most) & (ALL >> max(p + LANES - n, 0))
        while found:
            i = uint64(p + low_bit(found))
            found &= found - 1
            z, l, r = uint64(shortlist.west[i]), shortlist.l[i], shortlist.r[i]
            # All four are read before one is written, which makes them one vector.
            west, east, south, north = max(box[z, 0], -l), max(box[z, 1], l), max(box[z, 2], -r), max(box[z, 3], r)
            box[z, 0], box[z, 1], box[z, 2], box[z, 3] = west, east, south, north
    ok = True
    l_first, r_last = INF, -INF
    w0, e0, s0, n0 = INF, -INF, INF, -INF
    for z in range(k - 1, -1, -1):
        w1, e1, s1, n1 = -box[z, 0], box[z, 1], -box[z, 2], box[z, 3]
        if w1 <= e1:
            l_first, r_last = min(l_first, w1), max(r_last, n1)
            if w0 <= e0 and not foreign(shortlist, n, w0, e1, min(s0, s1), max(n0, n1), least, most):
                e0, s0, n0 = e1, min(s0, s1), max(n0, n1)
            else:
                ok = ok and put_box(w0, e0, s0, n0, tiles)
                w0, e0, s0, n0 = w1, e1, s1, n1
    ok = ok and put_box(w0, e0, s0, n0, tiles)
    return ok, l_first, r_last


@internal
def foreign(
    shortlist: Shortlist, n: int, west: float, east: float, south: float, north: float, least: int, most: int
) -> bool:
    """Whether the closed box holds a subscription with fewer than `least` or more than `most` better objects. Those
    that were set aside have more."""
    west, north = below(west), above(north)
    gone_l, gone_r, gone = shortlist.gone_l, shortlist.gone_r, shortlist.gone[0]
    found = 0
    p = 0
    while p < gone and found == 0:
        found = lanes_reached(gone_l, gone_l, gone_r, gone_r, p, west, east, south, north)
        found &= ALL >> max(p + LANES - gone, 0)
        p += LANES
    p = n if least == 0 else 0
    while p < n and found == 0:
        found = lanes_reached(shortlist.l, shortlist.l, shortlist.r, shortlist.r, p, west, east, south, north)
        if found:
            found &= ~lanes_within(shortlist.better, p, least, most) & (ALL >> max(p + LANES - n, 0))
        p += LANES
    return found != 0
