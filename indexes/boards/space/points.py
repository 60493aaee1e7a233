"""Points with any number of columns: packed k-d trees, one per class, that change in place.

As `indexes.boards.forest`, with columns for the two ends of a range. All classes share the arrays of one `Points`. A
tree of depth h has 2^h leaves of equal capacity, a multiple of 16; nodes are numbered as in a heap (root 1), and leaf j
keeps its points packed to the left in the slots from first + j * capacity. A node knows its count and the bounds of
every column, an inner node also the cut that sends a new point left or right.

Numbers lie in blocks of 16: block after block, and in a block column after column, so that 16 points, or the bounds of
the 16 nodes that are four levels below a node, are neighbours in memory and are compared at once. `block_at` is where
the first column of a point or node is; the next ones follow 16 numbers apart.

The first AXES columns take part in the cuts; the others are carried along with their bounds. Which column is cut is
chosen by spread, in the frame of the class: the finite range that its points had when it was last laid out whole.

Invariants. Counts and bounds are exact after every call. Left of a cut lie values <= cut, right of it values >= cut.
The layout follows from the sequence of calls alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.space.shapes import MAX
from indexes.jit import inline_kernel
from indexes.lanes import LANES, lanes_from, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel

INF = np.inf
ALL = (1 << LANES) - 1
STEP = 4

SAMPLE = 64
"""About so many points tell how wide a node is when a class is laid out whole."""

SLOT, NODE, DEPTH, CAP, VALUE, BOUND, WIDTH, AXES = range(8)
"""Columns of `Points.head`: first slot, first node, depth, slots in a leaf, where the class begins in `v` and in `lo`
and `hi`, its columns, and those that are cut."""

WIDEST = 8
"""The most columns that a class may have."""


class Points(NamedTuple):
    """The arrays of all classes; see the module's docstring. `id` is -1 in an empty slot, `pos` the slot of an id."""

    v: NDArray[np.float64]
    id: NDArray[np.int32]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    cut: NDArray[np.float64]
    axis: NDArray[np.uint8]
    cnt: NDArray[np.int32]
    head: NDArray[np.int64]
    frame: NDArray[np.float64]
    pos: NDArray[np.int32]


@inline_kernel
def block_at(i, width):  # type: ignore[no-untyped-def]
    """Where column 0 of point or node `i` of a class is."""
    return (i >> STEP) * (LANES * width) + (i & (LANES - 1))


# Walking a class: from block to block of sixteen nodes. Block b holds the nodes b..b + 15, the descendants of node
# b >> 4 four levels down; the first step is as short as the depth asks for, and its nodes are lanes of block 0.


@inline_kernel
def first_lanes(depth):  # type: ignore[no-untyped-def]
    """The lanes of block 0 with which a walk begins."""
    top = 1 << (depth % STEP)
    return ((1 << top) - 1) << top


@inline_kernel
def next_block(block, down, depth):  # type: ignore[no-untyped-def]
    """Where a walk goes on from a block: to the descendants of node `down`, or (0) back up, behind what was seen.

    Returns the block, -1 at the end, and the lanes to be looked at in it.
    """
    parent = block >> STEP
    above = (parent & ~(LANES - 1)) if block else -1
    lanes = (ALL << ((parent & (LANES - 1)) + 1)) & (first_lanes(depth) if above == 0 else ALL)
    if down:
        above, lanes = down << STEP, ALL
    return above, lanes


@inner_kernel
def crossing(t, at, width, low, high, b):  # type: ignore[no-untyped-def]
    """The mask of the 16 nodes whose bounds at t.lo[at], t.hi[at] meet the closed box low[b + j]..high[b + j]."""
    mask = ALL
    for j in range(width):
        i = at + j * LANES
        mask &= lanes_upto(t.lo, i, high[b + j]) & lanes_from(t.hi, i, low[b + j])
    return mask


@inner_kernel
def within(t, at, width, low, high, b):  # type: ignore[no-untyped-def]
    """The mask of the 16 points at t.v[at] that lie in the closed box low[b + j]..high[b + j]."""
    mask = ALL
    for j in range(width):
        i = at + j * LANES
        mask &= lanes_upto(t.v, i, high[b + j]) & lanes_from(t.v, i, low[b + j])
    return mask


@lean_kernel
def count_within(
    t: Points, q: int, low: NDArray[np.float64], high: NDArray[np.float64], b: int, enough: int
) -> tuple[int, int]:
    """How many points of class q lie in the closed box low[b:]..high[b:], and the last slot seen of them (-1: none).

    Stops at `enough`. O(m^(1 - 1 / width) + answer).
    """
    first, base, depth = t.head[q, SLOT], t.head[q, NODE], t.head[q, DEPTH]
    cap, value, bound, width = t.head[q, CAP], t.head[q, VALUE], t.head[q, BOUND], t.head[q, WIDTH]
    leaves = 1 << depth
    total, slot = 0, -1
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and total < enough:
        mask = crossing(t, bound + block * width, width, low, high, b) & lanes
        down = 0
        while mask and not down and total < enough:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) * cap
                end = start + t.cnt[base + node]
                for p in range(start, end, LANES):
                    found = within(t, value + p * width, width, low, high, b) & (ALL >> max(p + LANES - end, 0))
                    while found:
                        slot = first + p + low_bit(found)
                        total += 1
                        found &= found - 1
        block, lanes = next_block(block, down, depth)
    return total, slot


# Changing a class.


@inline_kernel
def limit(height: int, depth: int, cap: int) -> int:
    """How many points a subtree of that height may hold after it was laid anew: 95% at the bottom, 80% at the root."""
    slots = cap << height
    return slots if depth == 0 else slots - slots * (5 * depth + 15 * height) // (100 * depth)


@lean_kernel
def put(t: Points, q: int, id: int, x: NDArray[np.float64], b: int) -> bool:
    """Add the point x[b:] under an absent id. False, with nothing changed, if class q is full. Amortised O(log^2 m)."""
    first, base, depth = t.head[q, SLOT], t.head[q, NODE], t.head[q, DEPTH]
    cap, value, bound, width = t.head[q, CAP], t.head[q, VALUE], t.head[q, BOUND], t.head[q, WIDTH]
    leaves = 1 << depth
    node = 1
    while node < leaves:
        v = x[b + t.axis[base + node]]
        cut = t.cut[base + node]
        node *= 2
        node += (v > cut) | ((v == cut) & (t.cnt[base + node + 1] < t.cnt[base + node]))
    height = 0
    if t.cnt[base + node] == cap:
        while node and (height == 0 or t.cnt[base + node] >= limit(height, depth, cap)):
            node >>= 1
            height += 1
    if node:
        n = t.cnt[base + node]
        at = ((node << height) - leaves) * cap
        if height:
            n = _pack(t, q, node << height, 1 << height)
        p = value + block_at(at + n, width)
        for j in range(width):
            t.v[p + j * LANES] = x[b + j]
        t.id[first + at + n] = id
        if height:
            lay(t, q, node, n + 1)
            node >>= 1
        else:
            t.pos[id] = first + at + n
        while node:
            t.cnt[base + node] += 1
            p = bound + block_at(node, width)
            for j in range(width):
                t.lo[p + j * LANES] = min(t.lo[p + j * LANES], x[b + j])
                t.hi[p + j * LANES] = max(t.hi[p + j * LANES], x[b + j])
            node >>= 1
    return height <= depth


@inner_kernel
def _pack(t: Points, q: int, leaf: int, leaves: int) -> int:
    """Move the points of so many leaves from `leaf` on together at the first slot; returns their number."""
    cap = t.head[q, CAP]
    at = (leaf - (1 << t.head[q, DEPTH])) * cap
    n = 0
    for j in range(leaves):
        start = at + j * cap
        for p in range(start, start + t.cnt[t.head[q, NODE] + leaf + j]):
            _copy(t, q, p, at + n)
            n += 1
    return n


@inline_kernel
def _copy(t, q, here, there):  # type: ignore[no-untyped-def]
    """Copy one point of class q to another slot, both counted from its first."""
    if here != there:
        width = t.head[q, WIDTH]
        a = t.head[q, VALUE] + block_at(here, width)
        b = t.head[q, VALUE] + block_at(there, width)
        for j in range(width):
            t.v[b + j * LANES] = t.v[a + j * LANES]
        t.id[t.head[q, SLOT] + there] = t.id[t.head[q, SLOT] + here]


@lean_kernel
def take(t: Points, q: int, id: int) -> None:
    """Remove a point that is in class q. O(log m)."""
    first, base, depth = t.head[q, SLOT], t.head[q, NODE], t.head[q, DEPTH]
    cap, value, bound, width = t.head[q, CAP], t.head[q, VALUE], t.head[q, BOUND], t.head[q, WIDTH]
    slot = t.pos[id] - first
    node = (1 << depth) + slot // cap
    loose = False
    p, a = bound + block_at(node, width), value + block_at(slot, width)
    for j in range(width):
        loose |= (t.v[a + j * LANES] == t.lo[p + j * LANES]) | (t.v[a + j * LANES] == t.hi[p + j * LANES])
    t.cnt[base + node] -= 1
    end = (slot // cap) * cap + t.cnt[base + node]
    _copy(t, q, end, slot)
    t.pos[t.id[first + slot]] = first + slot
    t.id[first + end] = -1
    t.pos[id] = -1
    if loose:
        _bound_leaf(t, q, node)
    node >>= 1
    while node:
        t.cnt[base + node] -= 1
        if loose:
            _join(t, bound, width, node)
        node >>= 1


@lean_kernel
def put_value(t: Points, q: int, id: int, j: int, value: float) -> None:
    """Give a point of class q another value in column j, which is no axis. O(log m)."""
    first, depth, cap, bound, width = (
        t.head[q, SLOT], t.head[q, DEPTH], t.head[q, CAP], t.head[q, BOUND], t.head[q, WIDTH],
    )  # fmt: skip
    slot = t.pos[id] - first
    node = (1 << depth) + slot // cap
    at = t.head[q, VALUE] + block_at(slot, width) + j * LANES
    old = t.v[at]
    t.v[at] = value
    p = bound + block_at(node, width) + j * LANES
    loose = (old == t.lo[p]) | (old == t.hi[p])
    if loose:
        _bound_leaf(t, q, node)
    while node:
        p = bound + block_at(node, width) + j * LANES
        if loose and node < (1 << depth):
            loose = (old == t.lo[p]) | (old == t.hi[p])
            c, e = bound + block_at(2 * node, width) + j * LANES, bound + block_at(2 * node + 1, width) + j * LANES
            t.lo[p], t.hi[p] = min(t.lo[c], t.lo[e]), max(t.hi[c], t.hi[e])
        else:
            t.lo[p], t.hi[p] = min(t.lo[p], value), max(t.hi[p], value)
        node >>= 1


@inner_kernel
def _bound_leaf(t: Points, q: int, node: int) -> None:
    cap, width = t.head[q, CAP], t.head[q, WIDTH]
    start = (node - (1 << t.head[q, DEPTH])) * cap
    end = start + t.cnt[t.head[q, NODE] + node]
    for j in range(width):
        least, most = INF, -INF
        for p in range(start, end):
            v = t.v[t.head[q, VALUE] + block_at(p, width) + j * LANES]
            least, most = min(least, v), max(most, v)
        at = t.head[q, BOUND] + block_at(node, width) + j * LANES
        t.lo[at], t.hi[at] = least, most


@inner_kernel
def _join(t: Points, bound: int, width: int, node: int) -> None:
    """The bounds of an inner node from those of its children."""
    p, a, b = bound + block_at(node, width), bound + block_at(2 * node, width), bound + block_at(2 * node + 1, width)
    for j in range(width):
        t.lo[p + j * LANES] = min(t.lo[a + j * LANES], t.lo[b + j * LANES])
        t.hi[p + j * LANES] = max(t.hi[a + j * LANES], t.hi[b + j * LANES])


@lean_kernel
def lay(t: Points, q: int, top: int, n: int) -> None:
    """Lay the n points packed at the first slots of the subtree `top` over its leaves, halving at medians of the column
    that is widest in the frame of the class. Equal values are in order of id. O(n log n)."""
    base, depth = t.head[q, NODE], t.head[q, DEPTH]
    cap, value, width = t.head[q, CAP], t.head[q, VALUE], t.head[q, WIDTH]
    height = depth
    node = top
    while node > 1:
        height -= 1
        node >>= 1
    leaves = 1 << height
    zero = ((top << height) - (1 << depth)) * cap
    for level in range(height):
        for k in range(1 << level):
            start, end = zero + share(n, level, k), zero + share(n, level, k + 1)
            # In a tree with more leaves than points a cell may end where its right half begins.
            middle = min(zero + share(n, level + 1, 2 * k + 1), end - 1)
            here = base + (top << level) + k
            axis, widest = 0, -1.0
            for j in range(t.head[q, AXES]):
                least, most = INF, -INF
                for p in range(start, end):
                    v = t.v[value + block_at(p, width) + j * LANES]
                    least, most = min(least, v), max(most, v)
                spread = _spread(t, q, j, least, most)
                if spread > widest:
                    axis, widest = j, spread
            t.axis[here] = axis
            t.cut[here] = 0.0
            if start < end:
                _select(t, q, axis, start, end, middle)
                t.cut[here] = t.v[value + block_at(middle, width) + axis * LANES]
    for k in range(leaves - 1, -1, -1):
        start = zero + share(n, height, k)
        size = zero + share(n, height, k + 1) - start
        to = zero + k * cap
        for i in range(size - 1, -1, -1):
            _copy(t, q, start + i, to + i)
        _finish_leaf(t, q, (top << height) + k, size)
    _finish_nodes(t, q, top, height)


@lean_kernel
def lay_out(
    t: Points,
    q: int,
    ids: NDArray[np.int32],
    x: NDArray[np.float64],
    order: NDArray[np.int64],
    key: NDArray[np.float64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> None:
    """As `lay`, for a whole class whose points are the rows of x: where each belongs is found before any is moved. What
    is cut is the widest column of a sample, and equal values are in order of rows.

    `order`, 0, 1, ... to begin with, `key`, `least` and `most` are scratch. O(n log n).
    """
    base, depth = t.head[q, NODE], t.head[q, DEPTH]
    cap, value, width, axes = t.head[q, CAP], t.head[q, VALUE], t.head[q, WIDTH], t.head[q, AXES]
    n, leaves = len(ids), 1 << depth
    for level in range(depth):
        for k in range(1 << level):
            start, end = share(n, level, k), share(n, level, k + 1)
            here = base + (1 << level) + k
            least[:axes] = INF
            most[:axes] = -INF
            for i in range(start, end, max(1, (end - start) // SAMPLE)):
                for j in range(axes):
                    v = x[order[i], j]
                    least[j], most[j] = min(least[j], v), max(most[j], v)
            axis, widest = 0, -1.0
            for j in range(axes):
                spread = _spread(t, q, j, least[j], most[j])
                if spread > widest:
                    axis, widest = j, spread
            t.axis[here] = axis
            t.cut[here] = 0.0
            if start < end:
                for i in range(start, end):
                    key[i] = x[order[i], axis]
                middle = min(share(n, level + 1, 2 * k + 1), end - 1)
                _select_row(key, order, start, end, middle)
                t.cut[here] = key[middle]
    for k in range(leaves):
        start, end = share(n, depth, k), share(n, depth, k + 1)
        for i in range(start, end):
            here = k * cap + i - start
            at = value + block_at(here, width)
            for j in range(width):
                t.v[at + j * LANES] = x[order[i], j]
            t.id[t.head[q, SLOT] + here] = ids[order[i]]
        _finish_leaf(t, q, leaves + k, end - start)
    _finish_nodes(t, q, 1, depth)


@inline_kernel
def _spread(t, q, j, least, most):  # type: ignore[no-untyped-def]
    """How wide a column is in the frame of the class. One that the frame does not tell apart is cut when all others are
    even."""
    west, east = t.frame[q, j, 0], t.frame[q, j, 1]
    spread = (min(most, east) - max(least, west)) / (east - west) if least <= most else 0.0
    return max(spread, 0.0) + (1e-9 if least < most else 0.0)


@inner_kernel
def _finish_leaf(t, q, node, size):  # type: ignore[no-untyped-def]
    """Make the points at the first slots of a leaf known; the others are empty."""
    first, cap = t.head[q, SLOT], t.head[q, CAP]
    start = first + (node - (1 << t.head[q, DEPTH])) * cap
    for p in range(start, start + size):
        t.pos[t.id[p]] = p
    for p in range(start + size, start + cap):
        t.id[p] = -1
    t.cnt[t.head[q, NODE] + node] = size
    _bound_leaf(t, q, node)


@inner_kernel
def _finish_nodes(t, q, top, height):  # type: ignore[no-untyped-def]
    """The counts and bounds of the inner nodes of a subtree."""
    base, bound, width = t.head[q, NODE], t.head[q, BOUND], t.head[q, WIDTH]
    for level in range(height - 1, -1, -1):
        for node in range(top << level, (top + 1) << level):
            t.cnt[base + node] = t.cnt[base + 2 * node] + t.cnt[base + 2 * node + 1]
            _join(t, bound, width, node)


@inline_kernel
def share(whole: int, level: int, j: int) -> int:
    """How many of `whole` points come before cell j of the 2^level into which they are halved."""
    return (j * whole) >> level


@inner_kernel
def _select(t, q, axis, start, end, middle):  # type: ignore[no-untyped-def]
    """Quickselect: order the slots [start, end) so that (value, id) of `middle` is in its sorted place."""
    first, width = t.head[q, SLOT], t.head[q, WIDTH]
    column = t.head[q, VALUE] + axis * LANES
    end -= 1
    while start < end:
        less, p = start, (start + end) >> 1
        if _before(t, column, width, first, p, less):
            less, p = p, less
        if _before(t, column, width, first, end, p):
            p = end if _before(t, column, width, first, less, end) else less
        pivot, pivot_id = t.v[column + block_at(p, width)], t.id[first + p]
        i, j = start, end
        while i <= j:
            a = t.v[column + block_at(i, width)]
            while a < pivot or (a == pivot and t.id[first + i] < pivot_id):
                i += 1
                a = t.v[column + block_at(i, width)]
            a = t.v[column + block_at(j, width)]
            while a > pivot or (a == pivot and t.id[first + j] > pivot_id):
                j -= 1
                a = t.v[column + block_at(j, width)]
            if i <= j:
                _swap(t, q, i, j)
                i += 1
                j -= 1
        if middle <= j:
            end = j
        elif middle >= i:
            start = i
        else:
            start = end


@inline_kernel
def _before(t, column, width, first, i, j):  # type: ignore[no-untyped-def]
    a, b = t.v[column + block_at(i, width)], t.v[column + block_at(j, width)]
    return a < b or (a == b and t.id[first + i] < t.id[first + j])


@inner_kernel
def _swap(t, q, i, j):  # type: ignore[no-untyped-def]
    width, first = t.head[q, WIDTH], t.head[q, SLOT]
    a, b = t.head[q, VALUE] + block_at(i, width), t.head[q, VALUE] + block_at(j, width)
    for c in range(width):
        t.v[a + c * LANES], t.v[b + c * LANES] = t.v[b + c * LANES], t.v[a + c * LANES]
    t.id[first + i], t.id[first + j] = t.id[first + j], t.id[first + i]


@inner_kernel
def _select_row(key, order, start, end, middle):  # type: ignore[no-untyped-def]
    """As `_select`, by (value, row), for rows in `order` with their values in `key`.

    What is less than the pivot comes to the left by arithmetic: a branch would be guessed wrong every other time.
    """
    end -= 1
    while start < end:
        least, p, most = start, (start + end) >> 1, end
        if key[most] < key[least]:
            least, most = most, least
        p = least if key[p] < key[least] else most if key[most] < key[p] else p
        pivot, row = key[p], order[p]
        key[p], order[p] = key[end], order[end]
        to = start
        for i in range(start, end):
            v, r = key[i], order[i]
            key[i], order[i] = key[to], order[to]
            key[to], order[to] = v, r
            to += (v < pivot) | ((v == pivot) & (r < row))
        key[end], order[end] = key[to], order[to]
        key[to], order[to] = pivot, row
        if middle < to:
            end = to - 1
        elif middle > to:
            start = to + 1
        else:
            start = end


# Making and growing the arrays.

MEAN_LEAF = 12.5
"""A tree is as deep as keeps the mean number of points in a leaf at or below this; less than `limit` leaves it."""


def shape_of(size: int) -> tuple[int, int]:
    """Depth and leaf capacity of a tree that is laid out for `size` points."""
    depth = 0
    while size > MEAN_LEAF * 2.0**depth:
        depth += 1
    return depth, LANES


def room(t: Points, q: int) -> int:
    """How many points class q may hold as it is."""
    return int(limit(t.head[q, DEPTH], t.head[q, DEPTH], t.head[q, CAP]))


def empty_points(sizes: list[tuple[int, int]], widths: list[tuple[int, int]], ids: int) -> Points:
    """Arrays for classes of (depth, capacity) and (columns, axes), without a point."""
    head = np.zeros((len(sizes), 8), np.int64)
    slots = nodes = values = bounds = 0
    for q, ((depth, cap), (width, axes)) in enumerate(zip(sizes, widths, strict=True)):
        numbers = max(LANES, 2 << depth)
        head[q] = slots, nodes, depth, cap, values, bounds, width, axes
        slots += cap << depth
        nodes += numbers
        values += (cap << depth) * width
        bounds += numbers * width
    frame = np.zeros((len(sizes), WIDEST, 2))
    frame[:, :, 1] = 1.0
    return Points(
        np.zeros(values), np.full(slots, -1, np.int32), np.full(bounds, INF), np.full(bounds, -INF), np.zeros(nodes),
        np.zeros(nodes, np.uint8), np.zeros(nodes, np.int32), head, frame, np.full(ids, -1, np.int32),
    )  # fmt: skip


def copied(t: Points) -> Points:
    """A copy of the arrays. O(m)."""
    return Points(
        t.v.copy(), t.id.copy(), t.lo.copy(), t.hi.copy(), t.cut.copy(), t.axis.copy(), t.cnt.copy(), t.head.copy(),
        t.frame.copy(), t.pos.copy(),
    )  # fmt: skip


def values_of(t: Points, q: int) -> NDArray[np.float64]:
    """A view of the slots of class q as (block, column, lane)."""
    _, _, depth, cap, value, _, width, _ = t.head[q].tolist()
    return t.v[value : value + (cap << depth) * width].reshape(-1, width, LANES)


def points_of(t: Points, q: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Copies of the ids of class q in order of slots, and their points (n, columns)."""
    first, _, depth, cap, _, _, width, _ = t.head[q].tolist()
    ids = t.id[first : first + (cap << depth)]
    used = np.flatnonzero(ids >= 0)
    return ids[used], values_of(t, q)[used // LANES, :, used % LANES].reshape(-1, width)


def fill(t: Points, q: int, ids: NDArray[np.int32], x: NDArray[np.float64]) -> None:
    """Lay these points out as class q, which has room for them; what it held is forgotten."""
    n = len(ids)
    for j in range(int(t.head[q, AXES])):
        finite = x[np.abs(x[:, j]) < MAX, j]
        if len(finite):
            t.frame[q, j] = finite.min(), finite.max()
        if t.frame[q, j, 0] == t.frame[q, j, 1]:
            t.frame[q, j, 1] = t.frame[q, j, 0] + max(1.0, abs(t.frame[q, j, 0]))
    lay_out(
        t, q, np.ascontiguousarray(ids, np.int32), np.ascontiguousarray(x, np.float64), np.arange(n), np.empty(n),
        np.empty(WIDEST), np.empty(WIDEST),
    )  # fmt: skip


def resized(t: Points, sizes: dict[int, int], widths: list[tuple[int, int]]) -> Points:
    """New arrays for classes of these widths: those in `sizes` are laid out afresh with room for so many, the others
    copied. Classes past those of `t` are new."""
    shapes = [
        shape_of(sizes.get(q, 0)) if q in sizes or q >= len(t.head) else (int(t.head[q, DEPTH]), int(t.head[q, CAP]))
        for q in range(len(widths))
    ]
    new = empty_points(shapes, widths, 0)._replace(pos=t.pos)
    for q in range(len(widths)):
        if q >= len(t.head):
            lay(new, q, 1, 0)
        elif q in sizes:
            fill(new, q, *points_of(t, q))
        else:
            _copy_class(t, new, q)
    return new


def _copy_class(old: Points, new: Points, q: int) -> None:
    a, b = old.head[q], new.head[q]
    slots, nodes, width = int(a[CAP] << a[DEPTH]), max(LANES, int(2 << a[DEPTH])), int(a[WIDTH])
    new.frame[q] = old.frame[q]
    for name, column, size in (
        ("id", SLOT, slots), ("v", VALUE, slots * width), ("lo", BOUND, nodes * width), ("hi", BOUND, nodes * width),
        ("cut", NODE, nodes), ("axis", NODE, nodes), ("cnt", NODE, nodes),
    ):  # fmt: skip
        getattr(new, name)[b[column] : b[column] + size] = getattr(old, name)[a[column] : a[column] + size]
    used = int(b[SLOT]) + np.flatnonzero(new.id[b[SLOT] : b[SLOT] + slots] >= 0)
    new.pos[new.id[used]] = used


def check_points(t: Points, q: int) -> None:
    """Verify every invariant of class q; AssertionError names the node. O(m)."""
    first, base, depth, cap, _, bound, width, axes = t.head[q].tolist()
    leaves, values = 1 << depth, values_of(t, q)
    for node in range((2 << depth) - 1, 0, -1):
        at = bound + (node >> STEP) * LANES * width + (node & (LANES - 1))
        lo, hi = t.lo[at : at + LANES * width : LANES], t.hi[at : at + LANES * width : LANES]
        if node >= leaves:
            start = (node - leaves) * cap
            n = int(t.cnt[base + node])
            assert 0 <= n <= cap, (q, node, n)
            ids = t.id[first + start : first + start + cap]
            assert (ids[n:] == -1).all(), (q, node)
            assert (t.pos[ids[:n]] == np.arange(first + start, first + start + n)).all(), (q, node)
            used = np.arange(start, start + n)
            x = values[used // LANES, :, used % LANES].reshape(n, width)
            least, most = x.min(0, initial=INF), x.max(0, initial=-INF)
        else:
            assert t.cnt[base + node] == t.cnt[base + 2 * node] + t.cnt[base + 2 * node + 1], (q, node)
            pair = [bound + (i >> STEP) * LANES * width + (i & (LANES - 1)) for i in (2 * node, 2 * node + 1)]
            a, b = (np.arange(i, i + LANES * width, LANES) for i in pair)
            least, most = np.minimum(t.lo[a], t.lo[b]), np.maximum(t.hi[a], t.hi[b])
            axis = int(t.axis[base + node])
            assert axis < max(axes, 1), (q, node)
            assert t.hi[a[axis]] <= t.cut[base + node] <= t.lo[b[axis]] or t.cnt[base + node] == 0, (q, node)
        assert (lo == least).all() and (hi == most).all(), (q, node, lo, hi, least, most)
