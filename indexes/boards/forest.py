"""Subscriptions as points (l, r): a forest of packed k-d trees, one per k-class, that change in place.

Layout. All classes share the arrays of one `Forest`; a kernel is given the forest and the number q of a class. A tree
of depth d has 2^d leaves of equal capacity. Its nodes are numbered as in a heap (root 1, children 2i and 2i + 1, leaves
from 2^d), and leaf j keeps its points packed to the left in the slots from first + j * capacity. The numbers alone are
the tree: it is walked without a stack and stored without pointers. A node knows its count and the bounding box of its
points, an inner node also the cut that sends a new point left or right.

Invariants. Counts and boxes are exact after every call. Left of a cut lie values <= cut, right of it values >= cut. The
layout follows from the sequence of calls alone, that of a fresh tree from its points. A full leaf makes the smallest
subtree with room lay its points anew, halved at medians; the densities allowed fall from leaf to root, as in a
packed-memory array, so that this stays cheap.

Unbounded ends are stored as -MAX and MAX, finite numbers beyond every object: an infinite outer side of a tile takes
them in, a finite one never does.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", III-B (the index behind `snap`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.tiles import below
from indexes.jit import inline_kernel
from indexes.lanes import LANES, bit_count, lanes_max, lanes_min, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel, vector_kernel

INF = np.inf
MAX = float(np.finfo(np.float64).max)

SLOT, NODE, DEPTH, CAP = range(4)
"""Columns of `Forest.head`: first slot, first node, depth of the tree, slots in a leaf."""


class Forest(NamedTuple):
    """The arrays of all classes; see the module's docstring for the layout."""

    l: NDArray[np.float64]
    r: NDArray[np.float64]
    sid: NDArray[np.int32]
    west: NDArray[np.float64]
    east: NDArray[np.float64]
    south: NDArray[np.float64]
    north: NDArray[np.float64]
    cut: NDArray[np.float64]
    axis: NDArray[np.uint8]
    cnt: NDArray[np.int32]
    head: NDArray[np.int64]
    pos: NDArray[np.int32]


# Walking a class. The descendants of a node four levels down are sixteen nodes in a row, whose boxes are compared at
# once: a walk goes from block to block of sixteen, the first step being as short as the depth asks for. The way back
# is arithmetic too.

ALL = (1 << LANES) - 1
STEP = 4


@inline_kernel
def overlapping(f, i, l_outer, l_inner, r_below, r_last):  # type: ignore[no-untyped-def]
    """The mask of the 16 boxes from `i` on that the tile with r_below < r <= r_last may reach into."""
    return (
        lanes_upto(f.west, i, l_inner)
        & ~lanes_upto(f.east, i, l_outer)
        & lanes_upto(f.south, i, r_last)
        & ~lanes_upto(f.north, i, r_below)
    )


@inline_kernel
def reached(f, p, end, l_outer, l_inner, r_below, r_last):  # type: ignore[no-untyped-def]
    """The mask of the up to 16 points in slots p..end - 1 that the tile reaches."""
    return (
        lanes_upto(f.l, p, l_inner)
        & ~lanes_upto(f.l, p, l_outer)
        & lanes_upto(f.r, p, r_last)
        & ~lanes_upto(f.r, p, r_below)
        & (ALL >> max(p + LANES - end, 0))
    )


@inline_kernel
def inside(f, i, l_outer, l_inner, r_inner, r_outer):  # type: ignore[no-untyped-def]
    return (f.west[i] > l_outer) & (f.east[i] <= l_inner) & (f.south[i] >= r_inner) & (f.north[i] < r_outer)


@inline_kernel
def next_block(block, down, top):  # type: ignore[no-untyped-def]
    """Where a walk goes on from a block: to the descendants of node `down`, or (0) back up, behind what was seen.

    Returns the block, 0 at the end, and the lanes to be looked at in it.
    """
    parent = block >> STEP
    above = top if parent < 2 * top else parent & ~(LANES - 1)
    lanes = (ALL << max(parent - above + 1, 0)) & ((1 << top) - 1 if above == top else ALL)
    if down:
        above, lanes = down << STEP, ALL
    elif block == top:
        above = 0
    return above, lanes


@lean_kernel
def snap(
    f: Forest, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> tuple[float, float, float, float]:
    """The bounding box (lmin, lmax, rmin, rmax) of the subscriptions of class q that a tile reaches (paper, III-B).

    (inf, -inf, inf, -inf) when there are none. A subtree whose box lies inside the result so far is skipped. O(sqrt m).
    """
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves, top = 1 << depth, 1 << (depth % STEP)
    r_below, r_last = below(r_inner), below(r_outer)
    a, b, c, d = INF, -INF, INF, -INF
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << top) - 1
    while block:
        i = base + block
        new = lanes_upto(f.west, i, below(a)) | ~lanes_upto(f.east, i, b)
        new |= lanes_upto(f.south, i, below(c)) | ~lanes_upto(f.north, i, d)
        mask = overlapping(f, i, l_outer, l_inner, r_below, r_last) & new & lanes & ALL
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            i = base + node
            w, e, s, n = f.west[i], f.east[i], f.south[i], f.north[i]
            if (w < a) | (e > b) | (s < c) | (n > d):
                if inside(f, i, l_outer, l_inner, r_inner, r_outer):
                    a, b, c, d = min(a, w), max(b, e), min(c, s), max(d, n)
                elif node < leaves:
                    down = node
                else:
                    p = first + (node - leaves) * cap
                    end = p + f.cnt[i]
                    while p < end:
                        found = reached(f, p, end, l_outer, l_inner, r_below, r_last)
                        if found:
                            outside = lanes_upto(f.l, p, below(a)) | ~lanes_upto(f.l, p, b)
                            outside |= lanes_upto(f.r, p, below(c)) | ~lanes_upto(f.r, p, d)
                            found &= outside
                        if found:
                            a, b = min(a, lanes_min(f.l, p, found)), max(b, lanes_max(f.l, p, found))
                            c, d = min(c, lanes_min(f.r, p, found)), max(d, lanes_max(f.r, p, found))
                        p += LANES
        block, lanes = next_block(block, down, top)
    return a, b, c, d


@lean_kernel
def exists(f: Forest, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> bool:
    """Does the tile reach any subscription of class q? Stops at the first found."""
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves, top = 1 << depth, 1 << (depth % STEP)
    r_below, r_last = below(r_inner), below(r_outer)
    found = 0
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << top) - 1
    while block and not found:
        mask = overlapping(f, base + block, l_outer, l_inner, r_below, r_last) & lanes & ALL
        down = 0
        while mask and not down and not found:
            node = block + low_bit(mask)
            mask &= mask - 1
            if inside(f, base + node, l_outer, l_inner, r_inner, r_outer):
                found = 1
            elif node < leaves:
                down = node
            else:
                p = first + (node - leaves) * cap
                end = p + f.cnt[base + node]
                while p < end and not found:
                    found = reached(f, p, end, l_outer, l_inner, r_below, r_last)
                    p += LANES
        block, lanes = next_block(block, down, top)
    return found != 0


@lean_kernel
def count(f: Forest, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """The number of subscriptions of class q that the tile reaches. O(sqrt m)."""
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves, top = 1 << depth, 1 << (depth % STEP)
    r_below, r_last = below(r_inner), below(r_outer)
    total = 0
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << top) - 1
    while block:
        mask = overlapping(f, base + block, l_outer, l_inner, r_below, r_last) & lanes & ALL
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if inside(f, base + node, l_outer, l_inner, r_inner, r_outer):
                total += f.cnt[base + node]
            elif node < leaves:
                down = node
            else:
                p = first + (node - leaves) * cap
                end = p + f.cnt[base + node]
                while p < end:
                    total += bit_count(reached(f, p, end, l_outer, l_inner, r_below, r_last))
                    p += LANES
        block, lanes = next_block(block, down, top)
    return total


@lean_kernel
def report(
    f: Forest,
    q: int,
    l_outer: float,
    l_inner: float,
    r_inner: float,
    r_outer: float,
    out: NDArray[np.int32],
) -> int:
    """Write the sids of class q that the tile reaches to `out`, in slot order.

    Returns how many, or -1 as soon as `out` is too small (its contents are then void). O(sqrt m + answer).
    """
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves, top = 1 << depth, 1 << (depth % STEP)
    r_below, r_last = below(r_inner), below(r_outer)
    size = len(out)
    total = 0
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << top) - 1
    while block and total <= size:
        mask = overlapping(f, base + block, l_outer, l_inner, r_below, r_last) & lanes & ALL
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                p = first + (node - leaves) * cap
                end = p + f.cnt[base + node]
                while p < end:
                    found = reached(f, p, end, l_outer, l_inner, r_below, r_last)
                    while found:
                        if total < size:
                            out[total] = f.sid[p + low_bit(found)]
                        total += 1
                        found &= found - 1
                    p += LANES
        block, lanes = next_block(block, down, top)
    return total if total <= size else -1


# Changing a class.


@inline_kernel
def limit(height: int, depth: int, cap: int) -> int:
    """How many points a subtree of that height may hold after it was laid anew: 95% at the bottom, 80% at the root."""
    slots = cap << height
    return slots if depth == 0 else slots - slots * (5 * depth + 15 * height) // (100 * depth)


@lean_kernel
def insert(f: Forest, q: int, sid: int, l: float, r: float) -> bool:
    """Add a subscription. False, with nothing changed, if class q is full: `reserve` first. Amortised O(log^2 m).

    The sid must be absent and below len(f.pos); ends are finite or infinite, never NaN.
    """
    l, r = min(max(l, -MAX), MAX), min(max(r, -MAX), MAX)
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves = 1 << depth
    node = 1
    while node < leaves:
        v = r if f.axis[base + node] else l
        cut = f.cut[base + node]
        node *= 2
        node += (v > cut) | ((v == cut) & (f.cnt[base + node + 1] < f.cnt[base + node]))
    height = 0
    if f.cnt[base + node] == cap:
        while node and (height == 0 or f.cnt[base + node] >= limit(height, depth, cap)):
            node >>= 1
            height += 1
    if node:
        n = f.cnt[base + node]
        at = first + ((node << height) - leaves) * cap
        if height:
            n = _pack(f, base, at, node << height, 1 << height, cap)
        f.l[at + n], f.r[at + n], f.sid[at + n] = l, r, sid
        if height:
            lay(f, q, node, n + 1, 0, 0)
            node >>= 1
        else:
            f.pos[sid] = at + n
        while node:
            f.cnt[base + node] += 1
            f.west[base + node] = min(f.west[base + node], l)
            f.east[base + node] = max(f.east[base + node], l)
            f.south[base + node] = min(f.south[base + node], r)
            f.north[base + node] = max(f.north[base + node], r)
            node >>= 1
    return height <= depth


@inner_kernel
def _pack(f: Forest, base: int, at: int, leaf: int, leaves: int, cap: int) -> int:
    """Move the points of so many leaves from `leaf` on together at slot `at`; returns their number."""
    n = 0
    for j in range(leaves):
        start = at + j * cap
        for p in range(start, start + f.cnt[base + leaf + j]):
            f.l[at + n], f.r[at + n], f.sid[at + n] = f.l[p], f.r[p], f.sid[p]
            n += 1
    return n


@vector_kernel
def delete(f: Forest, q: int, sid: int) -> None:
    """Remove a subscription that is in class q. O(log m)."""
    base, cap, first = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT]
    leaves = 1 << f.head[q, DEPTH]
    p = f.pos[sid]
    node = leaves + (p - first) // cap
    l, r = f.l[p], f.r[p]
    start = first + (node - leaves) * cap
    f.cnt[base + node] -= 1
    end = start + f.cnt[base + node]
    f.l[p], f.r[p], f.sid[p] = f.l[end], f.r[end], f.sid[end]
    f.pos[f.sid[p]] = p
    f.sid[end] = -1
    f.pos[sid] = -1
    loose = _touches(f, base + node, l, r)
    if loose:
        a, b, c, d = INF, -INF, INF, -INF
        for p in range(start, end):
            a, b, c, d = min(a, f.l[p]), max(b, f.l[p]), min(c, f.r[p]), max(d, f.r[p])
        f.west[base + node], f.east[base + node], f.south[base + node], f.north[base + node] = a, b, c, d
    node >>= 1
    while node:
        f.cnt[base + node] -= 1
        loose = loose and _touches(f, base + node, l, r)
        if loose:
            _join(f, base + node, base + 2 * node)
        node >>= 1


@inline_kernel
def _touches(f: Forest, at: int, l: float, r: float) -> bool:
    return (l == f.west[at]) | (l == f.east[at]) | (r == f.south[at]) | (r == f.north[at])


@inline_kernel
def _join(f: Forest, at: int, pair: int) -> None:
    f.west[at] = min(f.west[pair], f.west[pair + 1])
    f.east[at] = max(f.east[pair], f.east[pair + 1])
    f.south[at] = min(f.south[pair], f.south[pair + 1])
    f.north[at] = max(f.north[pair], f.north[pair + 1])


@vector_kernel
def lay(f: Forest, q: int, top: int, whole: int, above: int, cell: int) -> None:
    """Lay the points packed at the first slots of the subtree `top` over its leaves, halving at medians of the wider
    side.

    They are all of `whole` points (above = cell = 0), or that cell of them of the 2^above into which they have been
    halved already: a tree can be laid in parts, in different places. Equal values are in order of sid, in a leaf all
    points are: the layout depends on the points alone. O(n log n).
    """
    base, cap, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, DEPTH]
    height = depth
    node = top
    while node > 1:
        height -= 1
        node >>= 1
    leaves = 1 << height
    zero = f.head[q, SLOT] + ((top << height) - (1 << depth)) * cap
    at = zero - share(whole, above, cell)
    node = 1
    level = 0
    while node:
        if level < height:
            j = (cell << level) + node - (1 << level)
            start = at + share(whole, above + level, j)
            end = at + share(whole, above + level, j + 1)
            middle = at + share(whole, above + level + 1, 2 * j + 1)
            a, b, c, d = INF, -INF, INF, -INF
            for p in range(start, end):
                a, b, c, d = min(a, f.l[p]), max(b, f.l[p]), min(c, f.r[p]), max(d, f.r[p])
            here = base + (top << level) + node - (1 << level)
            f.axis[here] = b - a < d - c
            f.cut[here] = 0.0
            if start < end:
                if f.axis[here]:
                    _select(f.r, f.l, f.sid, start, end, middle)
                    f.cut[here] = f.r[middle]
                else:
                    _select(f.l, f.r, f.sid, start, end, middle)
                    f.cut[here] = f.l[middle]
            node *= 2
            level += 1
        else:
            while node & 1:
                node >>= 1
                level -= 1
            node += node > 0
    for j in range(leaves - 1, -1, -1):
        start = at + share(whole, above + height, (cell << height) + j)
        size = at + share(whole, above + height, (cell << height) + j + 1) - start
        to = zero + j * cap
        here = base + (top << height) + j
        a, b, c, d = INF, -INF, INF, -INF
        for i in range(size - 1, -1, -1):
            l, r, sid = f.l[start + i], f.r[start + i], f.sid[start + i]
            a, b, c, d = min(a, l), max(b, l), min(c, r), max(d, r)
            p = to + i
            while p + 1 < to + size and f.sid[p + 1] < sid:
                f.l[p], f.r[p], f.sid[p] = f.l[p + 1], f.r[p + 1], f.sid[p + 1]
                p += 1
            f.l[p], f.r[p], f.sid[p] = l, r, sid
        for p in range(to, to + size):
            f.pos[f.sid[p]] = p
        for p in range(to + size, to + cap):
            f.sid[p] = -1
        f.cnt[here] = size
        f.west[here], f.east[here], f.south[here], f.north[here] = a, b, c, d
    for level in range(height - 1, -1, -1):
        for node in range(top << level, (top + 1) << level):
            f.cnt[base + node] = f.cnt[base + 2 * node] + f.cnt[base + 2 * node + 1]
            _join(f, base + node, base + 2 * node)


@inline_kernel
def share(whole: int, level: int, j: int) -> int:
    """How many of `whole` points come before cell j of the 2^level into which they are halved."""
    return (j * whole) >> level


@inner_kernel
def _select(
    key: NDArray[np.float64], other: NDArray[np.float64], sid: NDArray[np.int32], start: int, end: int, middle: int
) -> None:
    """Quickselect: order [start, end) so that (key, sid)[middle] is in its sorted place; the other column follows."""
    end -= 1
    while start < end:
        less, p = start, (start + end) >> 1
        if _before(key, sid, p, less):
            less, p = p, less
        if _before(key, sid, end, p):
            p = end if _before(key, sid, less, end) else less
        pivot, pivot_sid = key[p], sid[p]
        i, j = start, end
        while i <= j:
            while key[i] < pivot or (key[i] == pivot and sid[i] < pivot_sid):
                i += 1
            while key[j] > pivot or (key[j] == pivot and sid[j] > pivot_sid):
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                other[i], other[j] = other[j], other[i]
                sid[i], sid[j] = sid[j], sid[i]
                i += 1
                j -= 1
        if middle <= j:
            end = j
        elif middle >= i:
            start = i
        else:
            start = end


@inline_kernel
def _before(key: NDArray[np.float64], sid: NDArray[np.int32], i: int, j: int) -> bool:
    return key[i] < key[j] or (key[i] == key[j] and sid[i] < sid[j])


@lean_kernel
def insert_many(f: Forest, q: int, sids: NDArray[np.int32], l: NDArray[np.float64], r: NDArray[np.float64]) -> int:
    done = 0
    for j in range(len(sids)):
        done += insert(f, q, sids[j], l[j], r[j])
    return done


@lean_kernel
def delete_many(f: Forest, q: int, sids: NDArray[np.int32]) -> None:
    for j in range(len(sids)):
        delete(f, q, sids[j])
