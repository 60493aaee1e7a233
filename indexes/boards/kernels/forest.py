"""Subscriptions as points (l, r): a forest of packed k-d trees, one per k-class, updated in place.

Layout. All classes share the arrays of one `Forest`; a kernel takes the forest and the number of a class. A tree of
depth d has 2^d leaves of equal capacity. Its nodes are numbered as in a heap (root 1, children 2i and 2i + 1, leaves
from 2^d), and leaf j keeps its points packed to the left in the slots from first + j * capacity. The numbers alone are
the tree: it is traversed without a stack and stored without pointers. A node stores its count and the bounding box of
its points, an inner node also the cut that sends a new point left or right.

Invariants. Counts and boxes are exact after every call. Left of a cut lie values <= cut, right of it values >= cut. The
layout is a function of the sequence of calls, that of a fresh tree of its points. A full leaf makes the smallest
subtree with room distribute its points evenly, halved at medians; the densities allowed fall from leaf to root, as in a
packed-memory array, so that insertions stay cheap.

Unbounded ends are stored as -MAX and MAX, finite numbers beyond every object: an infinite outer side of a tile includes
them, a finite one never does.

Source: [Range top-k] III-B (the index behind `snap`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.bounds import points_bounds
from indexes.compiled.jit import expanded, internal, kernel, vectorized
from indexes.compiled.simd import (
    ALL,
    LANES,
    bit_count,
    lanes_beyond,
    lanes_inside,
    lanes_max,
    lanes_min,
    lanes_reached,
    low_bit,
    prefetch_block,
    prefetch_line,
)
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32

MAX = float(np.finfo(np.float64).max)

SLOT, NODE, DEPTH, CAP = range(4)
"""Columns of `Forest.head`: first slot, first node, depth of the tree, slots in a leaf."""


class Forest(NamedTuple):
    """The arrays of all classes; see the module's docstring.

    By slot: `l`, `r` and `sid` (-1 in an empty slot). By node: the bounding box `west` <= l <= `east`, `south` <= r <=
    `north`, the `cut`, its `axis` (0: l, 1: r) and the count `cnt`. By class: `head` (SLOT, NODE, DEPTH, CAP). By sid:
    `pos`, its slot.
    """

    l: Floats
    r: Floats
    sid: Ints32
    west: Floats
    east: Floats
    south: Floats
    north: Floats
    cut: Floats
    axis: Bytes
    cnt: Ints32
    head: Ints
    pos: Ints32


# Traversal. The descendants of a node four levels down are sixteen adjacent nodes, whose boxes are compared at once: a
# traversal goes from block to block of sixteen. It begins with one block, which may be smaller, or with two (`top_of`).
# The way back up is arithmetic on block numbers.

STEP = 4


@expanded
def overlapping(forest: Forest, i: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """The mask of the 16 boxes from `i` on that the tile may reach into."""
    return lanes_reached(forest.west, forest.east, forest.south, forest.north, i, l_outer, l_inner, r_inner, r_outer)


@expanded
def reached(forest: Forest, p: int, end: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """The mask of the up to 16 points in slots p..end - 1 that the tile reaches."""
    found = lanes_reached(forest.l, forest.l, forest.r, forest.r, p, l_outer, l_inner, r_inner, r_outer)
    return found & (ALL >> max(p + LANES - end, 0))


@expanded
def within(forest: Forest, i: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """The mask of the 16 boxes from `i` on that lie inside the tile."""
    return lanes_inside(forest.west, forest.east, forest.south, forest.north, i, l_outer, l_inner, r_inner, r_outer)


@expanded
def beyond(forest: Forest, i: int, a: float, b: float, c: float, d: float) -> int:
    """The mask of the 16 boxes from `i` on that do not lie inside [a, b] x [c, d]."""
    return lanes_beyond(forest.west, forest.east, forest.south, forest.north, i, a, b, c, d)


@expanded
def expect_blocks(forest: Forest, base: int, block: int, mask: int) -> None:
    """Prefetch the boxes below the nodes in the mask of a block."""
    while mask:
        i = base + ((block + low_bit(mask)) << STEP)
        mask &= mask - 1
        prefetch_block(forest.west, i)
        prefetch_block(forest.east, i)
        prefetch_block(forest.south, i)
        prefetch_block(forest.north, i)


@expanded
def expect_leaves(forest: Forest, p: int, cap: int, mask: int) -> None:
    """Prefetch the points of the leaves in the mask of a block whose first one begins at slot `p`."""
    while mask:
        at = p + low_bit(mask) * cap
        mask &= mask - 1
        prefetch_block(forest.l, at)
        prefetch_block(forest.r, at)


@expanded
def inside(forest: Forest, i: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> bool:
    """Whether the box of node `i` lies inside the tile."""
    return (
        (forest.west[i] > l_outer)
        & (forest.east[i] <= l_inner)
        & (forest.south[i] >= r_inner)
        & (forest.north[i] < r_outer)
    )


@expanded
def top_of(depth: int) -> int:
    """The first node of the level where a traversal begins, which is also how many nodes that level has: 16 or 32 where
    steps of four would begin with one or two inner nodes, else 1 to 8."""
    top = 1 << (depth % STEP)
    return top << STEP if depth >= STEP and top <= 2 else top


@expanded
def next_block(block: int, down: int, top: int) -> tuple[int, int]:
    """The block that a traversal visits after `block`: the descendants of node `down`, or, where that is 0, the next
    unvisited block above. The level where it begins, at node `top`, may have two blocks.

    Returns the block, 0 at the end, and the mask of its nodes to be visited.
    """
    parent = block >> STEP
    above = max(parent & ~(LANES - 1), top)
    lanes = (ALL << max(parent - above + 1, 0)) & ((1 << min(top, LANES)) - 1 if above == top else ALL)
    if down:
        above, lanes = down << STEP, ALL
    elif block < 2 * top:
        above = block + LANES if block + LANES < 2 * top else 0
        lanes = ALL
    return above, lanes


@kernel
def snap(
    forest: Forest, k_class: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> tuple[float, float, float, float]:
    """The bounding box (lmin, lmax, rmin, rmax) of the subscriptions of a class that a tile reaches ([Range top-k]
    III-B).

    (inf, -inf, inf, -inf) if there are none. A subtree whose box lies inside the result so far is skipped. O(sqrt m).
    """
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves, top = 1 << depth, top_of(depth)
    leaf_lanes = (1 << min(leaves, LANES)) - 1
    a, b, c, d = INF, -INF, INF, -INF
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << min(top, LANES)) - 1
    waiting, waiting_at, waiting_p = 0, 0, 0
    while block or waiting:
        # The blocks of leaves below a block are searched at once: going back up to it for each would test it each time.
        down, group, groups = 0, block, int(block >= leaves)
        if 0 < block < leaves:
            i = base + block
            mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & lanes & beyond(forest, i, a, b, c, d)
            if mask:
                whole = mask & within(forest, i, l_outer, l_inner, r_inner, r_outer)
                mask ^= whole
                while whole:
                    j = i + low_bit(whole)
                    whole &= whole - 1
                    a, b = min(a, forest.west[j]), max(b, forest.east[j])
                    c, d = min(c, forest.south[j]), max(d, forest.north[j])
                mask &= beyond(forest, i, a, b, c, d)
                expect_blocks(forest, base, block, mask)
                if block << STEP >= leaves:
                    group, groups = block << STEP, mask
                elif mask:
                    down = block + low_bit(mask)
        going = True
        while going:
            mask, i, p0 = 0, 0, 0
            if groups:
                leaf = group + (low_bit(groups) << STEP)
                groups &= groups - 1
                i, p0 = base + leaf, first + (leaf - leaves) * cap
                mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & leaf_lanes
                mask &= beyond(forest, i, a, b, c, d)
                if mask:
                    whole = mask & within(forest, i, l_outer, l_inner, r_inner, r_outer)
                    mask ^= whole
                    prefetch_line(forest.cnt, i)
                    expect_leaves(forest, p0, cap, mask)
                    while whole:
                        j = i + low_bit(whole)
                        whole &= whole - 1
                        a, b = min(a, forest.west[j]), max(b, forest.east[j])
                        c, d = min(c, forest.south[j]), max(d, forest.north[j])
            # Leaves are read while those of the next block are on their way.
            if waiting:
                tile, box = (l_outer, l_inner, r_inner, r_outer), (a, b, c, d)
                a, b, c, d = points_bounds(
                    forest.l, forest.r, forest.cnt, waiting_at, waiting_p, cap, waiting, tile, box
                )
            waiting, waiting_at, waiting_p = mask, i, p0
            going = groups != 0
        if block:
            block, lanes = next_block(block, down, top)
    return a, b, c, d


@kernel
def exists(forest: Forest, k_class: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> bool:
    """Whether the tile reaches any subscription of a class. Stops at the first. O(sqrt m)."""
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves, top = 1 << depth, top_of(depth)
    found = 0
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << min(top, LANES)) - 1
    while block and not found:
        i = base + block
        mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & lanes
        down = 0
        if mask and block < leaves:
            down = block + low_bit(mask)
        elif mask:
            found = mask & within(forest, i, l_outer, l_inner, r_inner, r_outer)
            while mask and not found:
                node = block + low_bit(mask)
                mask &= mask - 1
                p = first + (node - leaves) * cap
                end = p + forest.cnt[base + node]
                while p < end and not found:
                    found = reached(forest, p, end, l_outer, l_inner, r_inner, r_outer)
                    p += LANES
        block, lanes = next_block(block, down, top)
    return found != 0


@internal
def glimpse(
    forest: Forest, k_class: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> tuple[float, float]:
    """The l of a subscription of a class that the tile reaches, and the r of one, the least l and the greatest r of
    those that are found first; (inf, -inf) if there are none. O(sqrt m)."""
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves, top = 1 << depth, top_of(depth)
    west, north = INF, -INF
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << min(top, LANES)) - 1
    while block and west == INF:
        i = base + block
        mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & lanes
        down = 0
        if mask and block < leaves:
            down = block + low_bit(mask)
        elif mask:
            whole = mask & within(forest, i, l_outer, l_inner, r_inner, r_outer)
            if whole:
                west, north = lanes_min(forest.west, i, whole), lanes_max(forest.north, i, whole)
            while mask and west == INF:
                node = block + low_bit(mask)
                mask &= mask - 1
                p = first + (node - leaves) * cap
                end = p + forest.cnt[base + node]
                while p < end:
                    found = reached(forest, p, end, l_outer, l_inner, r_inner, r_outer)
                    if found:
                        west = min(west, lanes_min(forest.l, p, found))
                        north = max(north, lanes_max(forest.r, p, found))
                    p += LANES
        block, lanes = next_block(block, down, top)
    return west, north


@kernel
def count(forest: Forest, k_class: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """The number of subscriptions of a class that the tile reaches. O(sqrt m)."""
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves, top = 1 << depth, top_of(depth)
    total = 0
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << min(top, LANES)) - 1
    while block:
        mask = overlapping(forest, base + block, l_outer, l_inner, r_inner, r_outer) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if inside(forest, base + node, l_outer, l_inner, r_inner, r_outer):
                total += forest.cnt[base + node]
            elif node < leaves:
                down = node
            else:
                p = first + (node - leaves) * cap
                end = p + forest.cnt[base + node]
                while p < end:
                    total += bit_count(reached(forest, p, end, l_outer, l_inner, r_inner, r_outer))
                    p += LANES
        block, lanes = next_block(block, down, top)
    return total


@kernel
def report(
    forest: Forest, k_class: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float, out: Ints32
) -> int:
    """Write the sids of a class that the tile reaches to `out`, in slot order.

    Returns how many, or -1 as soon as `out` is too small (its contents are then void). O(sqrt m + answer).
    """
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves, top = 1 << depth, top_of(depth)
    size = len(out)
    total = 0
    block = top if l_outer < l_inner and r_inner < r_outer else 0
    lanes = (1 << min(top, LANES)) - 1
    while block and total <= size:
        mask = overlapping(forest, base + block, l_outer, l_inner, r_inner, r_outer) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                p = first + (node - leaves) * cap
                end = p + forest.cnt[base + node]
                while p < end:
                    found = reached(forest, p, end, l_outer, l_inner, r_inner, r_outer)
                    while found:
                        if total < size:
                            out[total] = forest.sid[p + low_bit(found)]
                        total += 1
                        found &= found - 1
                    p += LANES
        block, lanes = next_block(block, down, top)
    return total if total <= size else -1


# Updates.


@expanded
def limit(height: int, depth: int, cap: int) -> int:
    """How many points a subtree of that height may hold after a redistribution: 95% of its slots at the leaves, 80% at
    the root."""
    slots = cap << height
    return slots if depth == 0 else slots - slots * (5 * depth + 15 * height) // (100 * depth)


@kernel
def insert(forest: Forest, k_class: int, sid: int, l: float, r: float) -> bool:
    """Add a subscription. False, with nothing changed, if the class is full: `reserve` first. Amortised O(log^2 m).

    The sid must be absent and below len(forest.pos); ends are finite or infinite, never NaN.
    """
    l, r = min(max(l, -MAX), MAX), min(max(r, -MAX), MAX)
    base, cap = forest.head[k_class, NODE], forest.head[k_class, CAP]
    first, depth = forest.head[k_class, SLOT], forest.head[k_class, DEPTH]
    leaves = 1 << depth
    node = 1
    while node < leaves:
        value = r if forest.axis[base + node] else l
        cut = forest.cut[base + node]
        node *= 2
        node += (value > cut) | ((value == cut) & (forest.cnt[base + node + 1] < forest.cnt[base + node]))
    height = 0
    if forest.cnt[base + node] == cap:
        while node and (height == 0 or forest.cnt[base + node] >= limit(height, depth, cap)):
            node >>= 1
            height += 1
    if node:
        n = forest.cnt[base + node]
        at = first + ((node << height) - leaves) * cap
        if height:
            n = _pack(forest, base, at, node << height, 1 << height, cap)
        forest.l[at + n], forest.r[at + n], forest.sid[at + n] = l, r, sid
        if height:
            lay(forest, k_class, node, n + 1, 0, 0)
            node >>= 1
        else:
            forest.pos[sid] = at + n
        while node:
            forest.cnt[base + node] += 1
            forest.west[base + node] = min(forest.west[base + node], l)
            forest.east[base + node] = max(forest.east[base + node], l)
            forest.south[base + node] = min(forest.south[base + node], r)
            forest.north[base + node] = max(forest.north[base + node], r)
            node >>= 1
    return height <= depth


@internal
def _pack(forest: Forest, base: int, at: int, leaf: int, leaves: int, cap: int) -> int:
    """Compact the points of `leaves` leaves from `leaf` on at slot `at`; returns their number."""
    n = 0
    for j in range(leaves):
        start = at + j * cap
        for p in range(start, start + forest.cnt[base + leaf + j]):
            forest.l[at + n], forest.r[at + n], forest.sid[at + n] = forest.l[p], forest.r[p], forest.sid[p]
            n += 1
    return n


@vectorized
def delete(forest: Forest, k_class: int, sid: int) -> None:
    """Remove a subscription that is in the class. O(log m)."""
    base, cap, first = forest.head[k_class, NODE], forest.head[k_class, CAP], forest.head[k_class, SLOT]
    leaves = 1 << forest.head[k_class, DEPTH]
    p = forest.pos[sid]
    node = leaves + (p - first) // cap
    l, r = forest.l[p], forest.r[p]
    start = first + (node - leaves) * cap
    forest.cnt[base + node] -= 1
    end = start + forest.cnt[base + node]
    forest.l[p], forest.r[p], forest.sid[p] = forest.l[end], forest.r[end], forest.sid[end]
    forest.pos[forest.sid[p]] = p
    forest.sid[end] = -1
    forest.pos[sid] = -1
    loose = _touches(forest, base + node, l, r)
    if loose:
        a, b, c, d = INF, -INF, INF, -INF
        for p in range(start, end):
            a, b, c, d = min(a, forest.l[p]), max(b, forest.l[p]), min(c, forest.r[p]), max(d, forest.r[p])
        forest.west[base + node], forest.east[base + node] = a, b
        forest.south[base + node], forest.north[base + node] = c, d
    node >>= 1
    while node:
        forest.cnt[base + node] -= 1
        loose = loose and _touches(forest, base + node, l, r)
        if loose:
            _join(forest, base + node, base + 2 * node)
        node >>= 1


@expanded
def _touches(forest: Forest, at: int, l: float, r: float) -> bool:
    """Whether (l, r) lies on the boundary of the box of node `at`, so that its removal may shrink the box."""
    return (l == forest.west[at]) | (l == forest.east[at]) | (r == forest.south[at]) | (r == forest.north[at])


@expanded
def _join(forest: Forest, at: int, pair: int) -> None:
    """Set the box of node `at` to that of its children `pair` and pair + 1."""
    forest.west[at] = min(forest.west[pair], forest.west[pair + 1])
    forest.east[at] = max(forest.east[pair], forest.east[pair + 1])
    forest.south[at] = min(forest.south[pair], forest.south[pair + 1])
    forest.north[at] = max(forest.north[pair], forest.north[pair + 1])


@vectorized
def lay(forest: Forest, k_class: int, top: int, whole: int, above: int, cell: int) -> None:
    """Distribute the points packed at the first slots of the subtree `top` over its leaves, halving at medians of the
    wider side. O(n log n).

    They are all `whole` points (above = cell = 0), or cell `cell` of the 2^above cells into which these were halved
    before: a tree can be built in parts, in different places. Equal values are ordered by sid, and so are the points of
    a leaf: the layout depends on the points alone.
    """
    base, cap, depth = forest.head[k_class, NODE], forest.head[k_class, CAP], forest.head[k_class, DEPTH]
    height = depth
    node = top
    while node > 1:
        height -= 1
        node >>= 1
    leaves = 1 << height
    zero = forest.head[k_class, SLOT] + ((top << height) - (1 << depth)) * cap
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
                a, b, c, d = min(a, forest.l[p]), max(b, forest.l[p]), min(c, forest.r[p]), max(d, forest.r[p])
            here = base + (top << level) + node - (1 << level)
            forest.axis[here] = b - a < d - c
            forest.cut[here] = 0.0
            if start < end:
                if forest.axis[here]:
                    _select(forest.r, forest.l, forest.sid, start, end, middle)
                    forest.cut[here] = forest.r[middle]
                else:
                    _select(forest.l, forest.r, forest.sid, start, end, middle)
                    forest.cut[here] = forest.l[middle]
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
            l, r, sid = forest.l[start + i], forest.r[start + i], forest.sid[start + i]
            a, b, c, d = min(a, l), max(b, l), min(c, r), max(d, r)
            p = to + i
            while p + 1 < to + size and forest.sid[p + 1] < sid:
                forest.l[p], forest.r[p], forest.sid[p] = forest.l[p + 1], forest.r[p + 1], forest.sid[p + 1]
                p += 1
            forest.l[p], forest.r[p], forest.sid[p] = l, r, sid
        for p in range(to, to + size):
            forest.pos[forest.sid[p]] = p
        for p in range(to + size, to + cap):
            forest.sid[p] = -1
        forest.cnt[here] = size
        forest.west[here], forest.east[here], forest.south[here], forest.north[here] = a, b, c, d
    for level in range(height - 1, -1, -1):
        for node in range(top << level, (top + 1) << level):
            forest.cnt[base + node] = forest.cnt[base + 2 * node] + forest.cnt[base + 2 * node + 1]
            _join(forest, base + node, base + 2 * node)


@expanded
def share(whole: int, level: int, j: int) -> int:
    """How many of `whole` points come before cell j of the 2^level into which they are halved."""
    return (j * whole) >> level


@internal
def _select(key: Floats, other: Floats, sid: Ints32, start: int, end: int, middle: int) -> None:
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


@expanded
def _before(key: Floats, sid: Ints32, i: int, j: int) -> bool:
    """Whether entry i comes before entry j by (key, sid)."""
    return key[i] < key[j] or (key[i] == key[j] and sid[i] < sid[j])


@kernel
def insert_many(forest: Forest, k_class: int, sids: Ints32, l: Floats, r: Floats) -> int:
    """`insert` for many; returns how many fitted."""
    done = 0
    for j in range(len(sids)):
        done += insert(forest, k_class, sids[j], l[j], r[j])
    return done


@kernel
def delete_many(forest: Forest, k_class: int, sids: Ints32) -> None:
    """`delete` for many."""
    for j in range(len(sids)):
        delete(forest, k_class, sids[j])
