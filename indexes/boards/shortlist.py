"""Paint-Sparse with the subscriptions in hand: fetch those that an event may concern, and go over that short list in
place of searching the forest again for every strip.

A region lies in the square west[k] < l <= x_i, x_i <= r < east[k], and so does all that an object exposed by the event
can gain. Most squares hold some dozens of subscriptions, in a few leaves of the forest. Of each we keep how many better
objects its range holds: it is in the region while these are fewer than k, and an object that enters the lists gains
those that held k - 1 before.

Who hears is as in `sparse.py`, and the rule that joins tiles is the same, read literally: the box around both holds
no subscription but those that gain the object.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", III-B.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.forest import ALL, CAP, DEPTH, NODE, SLOT, STEP, inside, next_block, overlapping, reached
from indexes.boards.tiles import below, put_box
from indexes.lanes import LANES, bit_count, lanes_pack, lanes_upto, lanes_within, low_bit
from indexes.lean import inner_kernel, vector_kernel

INF = np.inf


@inner_kernel
def fetch(f, q, l_outer, l_inner, r_inner, r_outer, most, h):  # type: ignore[no-untyped-def]
    """Copy the subscriptions of class q that a tile reaches to the short list; returns how many.

    -1 as soon as they are seen to be more than `most`. O(sqrt m + answer).
    """
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves, top = 1 << depth, 1 << (depth % STEP)
    most = min(most, len(h.l) - 2 * LANES)
    r_below, r_last = below(r_inner), below(r_outer)
    n = 0
    block, lanes = top, (1 << top) - 1
    while block and n <= most:
        mask = overlapping(f, base + block, l_outer, l_inner, r_below, r_last) & lanes & ALL
        down = 0
        while mask and not down and n <= most:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
                if inside(f, base + node, l_outer, l_inner, r_inner, r_outer) and n + f.cnt[base + node] > most:
                    n = most + 1
            else:
                p = first + (node - leaves) * cap
                end = p + f.cnt[base + node]
                while p < end and n <= most:
                    found = reached(f, p, end, l_outer, l_inner, r_below, r_last)
                    lanes_pack(f.l, p, found, h.l, n)
                    lanes_pack(f.r, p, found, h.r, n)
                    n += bit_count(found)
                    p += LANES
        block, lanes = next_block(block, down, top)
    return n if n <= most else -1


@vector_kernel
def count_better(h, n, w, a, b):  # type: ignore[no-untyped-def]
    """Count the objects of the lists, of lengths a and b, in each range."""
    for i in range(n):
        h.west[i] = 0
    for z in range(1, a + 1):
        x = w.west[z]
        for i in range(n):
            h.west[i] += h.l[i] <= x
    for i in range(n):
        h.better[i] = h.west[i]
    for z in range(1, b + 1):
        x = w.east[z]
        for i in range(n):
            h.better[i] += h.r[i] >= x


@vector_kernel
def place(h, n, w, strips):  # type: ignore[no-untyped-def]
    """Mark with 1, in place of counts, who lies in one of the strips, in `west` in which one, from the east."""
    for i in range(n):
        h.west[i] = 0
        h.better[i] = 0
    for t in range(strips):
        l_outer, l_inner, r_inner, r_outer = w.strip[t, 0], w.strip[t, 1], w.strip[t, 2], w.strip[t, 3]
        z = strips - 1 - t
        for i in range(n):
            inside = (h.l[i] > l_outer) & (h.l[i] <= l_inner) & (h.r[i] >= r_inner) & (h.r[i] < r_outer)
            h.better[i] += inside
            h.west[i] += z * inside


@vector_kernel
def enter(h, n, k, xh, east):  # type: ignore[no-untyped-def]
    """Let the object at `xh` enter a list; returns how many gain it. Those stand at k now, who left before above."""
    gained = 0
    if east:
        for i in range(n):
            before = h.better[i]
            better = before + ((h.r[i] >= xh) | (before >= k))
            gained += better == k
            h.better[i] = better
    else:
        for i in range(n):
            before = h.better[i]
            holds = h.l[i] <= xh
            better = before + (holds | (before >= k))
            gained += better == k
            h.better[i] = better
            h.west[i] += holds & (better < k)
    return gained


@vector_kernel
def ends(h, n, k):  # type: ignore[no-untyped-def]
    """l* and r*: the least l and the greatest r of those in the region; (inf, -inf) if there are none."""
    l_first, r_last = INF, -INF
    for i in range(n):
        l_first = min(l_first, h.l[i] if h.better[i] < k else INF)
        r_last = max(r_last, h.r[i] if h.better[i] < k else -INF)
    return l_first, r_last


@inner_kernel
def shrink(h, n, l_first, r_last):  # type: ignore[no-untyped-def]
    """Forget the subscriptions that no tile can come near any more; returns how many are left."""
    left = 0
    l_below = below(l_first)
    for p in range(0, n, LANES):
        near = lanes_upto(h.r, p, r_last) & ~lanes_upto(h.l, p, l_below) & (ALL >> max(p + LANES - n, 0))
        lanes_pack(h.l, p, near, h.l, left)
        lanes_pack(h.r, p, near, h.r, left)
        lanes_pack(h.west, p, near, h.west, left)
        lanes_pack(h.better, p, near, h.better, left)
        left += bit_count(near)
    return left


@inner_kernel
def cover(h, n, least, most, k, tiles):  # type: ignore[no-untyped-def]
    """Append the tiles that cover those with `least` to `most` better objects, who gain the object at hand, and no
    others; from west to east.

    Returns whether the tiles fit, and the least l and the greatest r of those who gain (inf and -inf without any).
    """
    for z in range(k):
        h.box[z, 0], h.box[z, 1], h.box[z, 2], h.box[z, 3] = INF, -INF, INF, -INF
    for p in range(0, n, LANES):
        if lanes_within(h.better, p, least, most):
            for i in range(p, min(p + LANES, n)):
                if least <= h.better[i] <= most:
                    z, l, r = h.west[i], h.l[i], h.r[i]
                    h.box[z, 0] = min(h.box[z, 0], l)
                    h.box[z, 1] = max(h.box[z, 1], l)
                    h.box[z, 2] = min(h.box[z, 2], r)
                    h.box[z, 3] = max(h.box[z, 3], r)
    ok = True
    l_first, r_last = INF, -INF
    w0, e0, s0, n0 = INF, -INF, INF, -INF
    for z in range(k - 1, -1, -1):
        w1, e1, s1, n1 = h.box[z, 0], h.box[z, 1], h.box[z, 2], h.box[z, 3]
        if w1 <= e1:
            l_first, r_last = min(l_first, w1), max(r_last, n1)
            if w0 <= e0 and not foreign(h, n, w0, e1, min(s0, s1), max(n0, n1), least, most):
                e0, s0, n0 = e1, min(s0, s1), max(n0, n1)
            else:
                ok = ok and put_box(w0, e0, s0, n0, tiles)
                w0, e0, s0, n0 = w1, e1, s1, n1
    ok = ok and put_box(w0, e0, s0, n0, tiles)
    return ok, l_first, r_last


@inner_kernel
def foreign(h, n, west, east, south, north, least, most):  # type: ignore[no-untyped-def]
    """Does the closed box hold a subscription that does not gain the object?"""
    west, south = below(west), below(south)
    found = 0
    p = 0
    while p < n and found == 0:
        found = lanes_upto(h.l, p, east) & ~lanes_upto(h.l, p, west) & ~lanes_within(h.better, p, least, most)
        if found:
            found &= lanes_upto(h.r, p, north) & ~lanes_upto(h.r, p, south) & (ALL >> max(p + LANES - n, 0))
        p += LANES
    return found != 0
