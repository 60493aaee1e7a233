"""Points with any number of columns: packed k-d trees, one per class, updated in place.

As `indexes.boards.kernels.forest`, with columns for the two ends of a range. All classes share the arrays of one
`Points`. A tree of depth h has 2^h leaves of equal capacity, a multiple of 16; nodes are numbered as in a heap (root
1), and leaf j keeps its points packed to the left in the slots from first + j * capacity. A node stores its count and
the bounds of every column, an inner node also the cut that sends a new point left or right.

Numbers lie in blocks of 16: block after block, and in a block column after column, so that 16 points, or the bounds of
the 16 nodes that are four levels below a node, are adjacent in memory and are compared at once. `block_at` is where the
first column of a point or node is; the next ones follow 16 numbers apart.

The first AXES columns are cut; the others only have bounds. The column that is cut is the one of greatest spread,
relative to the frame of the class: the finite range of its points when it was last laid out as a whole.

Invariants. Counts and bounds are exact after every call. Left of a cut lie values <= cut, right of it values >= cut.
The layout is a function of the sequence of calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.forest import STEP, limit, share
from indexes.boards.space.kernels.shapes import MAX
from indexes.compiled.jit import expanded, internal, kernel
from indexes.compiled.simd import ALL, LANES, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32

SAMPLE = 64
"""The width of a node is estimated from about so many points when a whole class is laid out."""

SLOT, NODE, DEPTH, CAP, VALUE, BOUND, WIDTH, AXES = range(8)
"""Columns of `Points.head`: first slot, first node, depth, slots in a leaf, where the class begins in `v` and in `lo`
and `hi`, its columns, and those that are cut."""

WIDEST = 8
"""The most columns that a class may have."""


class Points(NamedTuple):
    """The arrays of all classes; see the module's docstring.

    By slot: the columns `v` and `id`, -1 in an empty slot. By node: the bounds `lo` and `hi` of each column, `cut`,
    `axis` and the count `cnt`. By class: `head`, and `frame` (column, 2). By id: `pos`, its slot.
    """

    v: Floats
    id: Ints32
    lo: Floats
    hi: Floats
    cut: Floats
    axis: Bytes
    cnt: Ints32
    head: Ints
    frame: Floats
    pos: Ints32


@expanded
def block_at(i: int, width: int) -> int:
    """The index of column 0 of point or node `i` of a class with `width` columns."""
    return (i >> STEP) * (LANES * width) + (i & (LANES - 1))


# Traversal: from block to block of sixteen nodes. Block b holds the nodes b..b + 15, the descendants of node b >> 4,
# four levels down; the first step is shorter where the depth is no multiple of four, and its nodes are in block 0.


@expanded
def first_lanes(depth: int) -> int:
    """The mask of block 0 with which a traversal of a tree of that depth begins."""
    top = 1 << (depth % STEP)
    return ((1 << top) - 1) << top


@expanded
def next_block(block: int, down: int, depth: int) -> tuple[int, int]:
    """The block that a traversal visits after `block`: the descendants of node `down`, or, where that is 0, the next
    unvisited block above.

    Returns the block, -1 at the end, and the mask of its nodes to be visited.
    """
    parent = block >> STEP
    above = (parent & ~(LANES - 1)) if block else -1
    lanes = (ALL << ((parent & (LANES - 1)) + 1)) & (first_lanes(depth) if above == 0 else ALL)
    if down:
        above, lanes = down << STEP, ALL
    return above, lanes


@internal
def meeting(lo: Floats, hi: Floats, at: int, width: int, low: Floats, high: Floats, offset: int) -> int:
    """The mask of the 16 nodes from `at`, with bounds `lo` and `hi`, that meet the closed box low[offset +
    j]..high[offset + j]. Points are their own bounds."""
    mask = ALL
    for j in range(width):
        i = at + j * LANES
        mask &= lanes_upto(lo, i, high[offset + j]) & lanes_from(hi, i, low[offset + j])
    return mask


@internal
def count_within(points: Points, cls: int, low: Floats, high: Floats, offset: int, enough: int) -> tuple[int, int]:
    """How many points of a class lie in the closed box low[offset:]..high[offset:], and the slot of the last one seen
    (-1: none).

    Stops at `enough`. O(m^(1 - 1 / width) + answer).
    """
    first, base, depth = points.head[cls, SLOT], points.head[cls, NODE], points.head[cls, DEPTH]
    cap, value = points.head[cls, CAP], points.head[cls, VALUE]
    bound, width = points.head[cls, BOUND], points.head[cls, WIDTH]
    leaves = 1 << depth
    total, slot = 0, -1
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and total < enough:
        mask = meeting(points.lo, points.hi, bound + block * width, width, low, high, offset) & lanes
        down = 0
        while mask and not down and total < enough:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) * cap
                end = start + points.cnt[base + node]
                for p in range(start, end, LANES):
                    found = meeting(points.v, points.v, value + p * width, width, low, high, offset)
                    found &= ALL >> max(p + LANES - end, 0)
                    while found:
                        slot = first + p + low_bit(found)
                        total += 1
                        found &= found - 1
        block, lanes = next_block(block, down, depth)
    return total, slot


# Updates.


@kernel
def put(points: Points, cls: int, id: int, x: Floats, offset: int) -> bool:
    """Add the point x[offset:] under an absent id. False, with nothing changed, if the class is full. Amortised O(log^2
    m)."""
    first, base, depth = points.head[cls, SLOT], points.head[cls, NODE], points.head[cls, DEPTH]
    cap, value = points.head[cls, CAP], points.head[cls, VALUE]
    bound, width = points.head[cls, BOUND], points.head[cls, WIDTH]
    leaves = 1 << depth
    node = 1
    while node < leaves:
        coordinate = x[offset + points.axis[base + node]]
        cut = points.cut[base + node]
        node *= 2
        node += (coordinate > cut) | ((coordinate == cut) & (points.cnt[base + node + 1] < points.cnt[base + node]))
    height = 0
    if points.cnt[base + node] == cap:
        while node and (height == 0 or points.cnt[base + node] >= limit(height, depth, cap)):
            node >>= 1
            height += 1
    if node:
        n = points.cnt[base + node]
        at = ((node << height) - leaves) * cap
        if height:
            n = _pack(points, cls, node << height, 1 << height)
        p = value + block_at(at + n, width)
        for j in range(width):
            points.v[p + j * LANES] = x[offset + j]
        points.id[first + at + n] = id
        if height:
            lay(points, cls, node, n + 1)
            node >>= 1
        else:
            points.pos[id] = first + at + n
        while node:
            points.cnt[base + node] += 1
            p = bound + block_at(node, width)
            for j in range(width):
                points.lo[p + j * LANES] = min(points.lo[p + j * LANES], x[offset + j])
                points.hi[p + j * LANES] = max(points.hi[p + j * LANES], x[offset + j])
            node >>= 1
    return height <= depth


@internal
def _pack(points: Points, cls: int, leaf: int, leaves: int) -> int:
    """Compact the points of `leaves` leaves from `leaf` on at the first slot; returns their number."""
    cap = points.head[cls, CAP]
    at = (leaf - (1 << points.head[cls, DEPTH])) * cap
    n = 0
    for j in range(leaves):
        start = at + j * cap
        for p in range(start, start + points.cnt[points.head[cls, NODE] + leaf + j]):
            _copy(points, cls, p, at + n)
            n += 1
    return n


@expanded
def _copy(points: Points, cls: int, here: int, there: int) -> None:
    """Copy one point of a class to another slot, both counted from its first."""
    if here != there:
        width = points.head[cls, WIDTH]
        a = points.head[cls, VALUE] + block_at(here, width)
        b = points.head[cls, VALUE] + block_at(there, width)
        for j in range(width):
            points.v[b + j * LANES] = points.v[a + j * LANES]
        points.id[points.head[cls, SLOT] + there] = points.id[points.head[cls, SLOT] + here]


@kernel
def take(points: Points, cls: int, id: int) -> None:
    """Remove a point that is in the class. O(log m)."""
    first, base, depth = points.head[cls, SLOT], points.head[cls, NODE], points.head[cls, DEPTH]
    cap, value = points.head[cls, CAP], points.head[cls, VALUE]
    bound, width = points.head[cls, BOUND], points.head[cls, WIDTH]
    slot = points.pos[id] - first
    node = (1 << depth) + slot // cap
    loose = False
    p, a = bound + block_at(node, width), value + block_at(slot, width)
    for j in range(width):
        v = points.v[a + j * LANES]
        loose |= (v == points.lo[p + j * LANES]) | (v == points.hi[p + j * LANES])
    points.cnt[base + node] -= 1
    end = (slot // cap) * cap + points.cnt[base + node]
    _copy(points, cls, end, slot)
    points.pos[points.id[first + slot]] = first + slot
    points.id[first + end] = -1
    points.pos[id] = -1
    if loose:
        _bound_leaf(points, cls, node)
    node >>= 1
    while node:
        points.cnt[base + node] -= 1
        if loose:
            _join(points, bound, width, node)
        node >>= 1


@internal
def put_value(points: Points, cls: int, id: int, column: int, value: float) -> None:
    """Give a point of a class another value in a column that is not cut. O(log m)."""
    first, depth, cap = points.head[cls, SLOT], points.head[cls, DEPTH], points.head[cls, CAP]
    bound, width = points.head[cls, BOUND], points.head[cls, WIDTH]
    slot = points.pos[id] - first
    node = (1 << depth) + slot // cap
    at = points.head[cls, VALUE] + block_at(slot, width) + column * LANES
    old = points.v[at]
    points.v[at] = value
    p = bound + block_at(node, width) + column * LANES
    loose = (old == points.lo[p]) | (old == points.hi[p])
    if loose:
        _bound_leaf(points, cls, node)
    while node:
        p = bound + block_at(node, width) + column * LANES
        if loose and node < (1 << depth):
            loose = (old == points.lo[p]) | (old == points.hi[p])
            c = bound + block_at(2 * node, width) + column * LANES
            e = bound + block_at(2 * node + 1, width) + column * LANES
            points.lo[p], points.hi[p] = min(points.lo[c], points.lo[e]), max(points.hi[c], points.hi[e])
        else:
            points.lo[p], points.hi[p] = min(points.lo[p], value), max(points.hi[p], value)
        node >>= 1


@internal
def _bound_leaf(points: Points, cls: int, node: int) -> None:
    """Recompute the bounds of a leaf from its points."""
    cap, width = points.head[cls, CAP], points.head[cls, WIDTH]
    start = (node - (1 << points.head[cls, DEPTH])) * cap
    end = start + points.cnt[points.head[cls, NODE] + node]
    for j in range(width):
        least, most = INF, -INF
        for p in range(start, end):
            v = points.v[points.head[cls, VALUE] + block_at(p, width) + j * LANES]
            least, most = min(least, v), max(most, v)
        at = points.head[cls, BOUND] + block_at(node, width) + j * LANES
        points.lo[at], points.hi[at] = least, most


@internal
def _join(points: Points, bound: int, width: int, node: int) -> None:
    """Compute the bounds of an inner node from those of its children."""
    p, a, b = bound + block_at(node, width), bound + block_at(2 * node, width), bound + block_at(2 * node + 1, width)
    for j in range(width):
        points.lo[p + j * LANES] = min(points.lo[a + j * LANES], points.lo[b + j * LANES])
        points.hi[p + j * LANES] = max(points.hi[a + j * LANES], points.hi[b + j * LANES])


@kernel
def lay(points: Points, cls: int, top: int, n: int) -> None:
    """Distribute the n points packed at the first slots of the subtree `top` over its leaves, halving at medians of the
    column that is widest in the frame of the class. Equal values are ordered by id. O(n log n)."""
    base, depth = points.head[cls, NODE], points.head[cls, DEPTH]
    cap, value, width = points.head[cls, CAP], points.head[cls, VALUE], points.head[cls, WIDTH]
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
            for j in range(points.head[cls, AXES]):
                least, most = INF, -INF
                for p in range(start, end):
                    v = points.v[value + block_at(p, width) + j * LANES]
                    least, most = min(least, v), max(most, v)
                spread = _spread(points, cls, j, least, most)
                if spread > widest:
                    axis, widest = j, spread
            points.axis[here] = axis
            points.cut[here] = 0.0
            if start < end:
                _select(points, cls, axis, start, end, middle)
                points.cut[here] = points.v[value + block_at(middle, width) + axis * LANES]
    for k in range(leaves - 1, -1, -1):
        start = zero + share(n, height, k)
        size = zero + share(n, height, k + 1) - start
        to = zero + k * cap
        for i in range(size - 1, -1, -1):
            _copy(points, cls, start + i, to + i)
        _finish_leaf(points, cls, (top << height) + k, size)
    _finish_nodes(points, cls, top, height)


@kernel
def lay_out(
    points: Points, cls: int, ids: Ints32, x: Floats, order: Ints, key: Floats, least: Floats, most: Floats
) -> None:
    """As `lay`, for a whole class whose points are the rows of x: all places are computed before any point is moved.
    Cut is the widest column of a sample, and equal values are ordered by row. O(n log n).

    `order` (0, 1, ... on entry), `key`, `least` and `most` are scratch.
    """
    base, depth = points.head[cls, NODE], points.head[cls, DEPTH]
    cap, value = points.head[cls, CAP], points.head[cls, VALUE]
    width, axes = points.head[cls, WIDTH], points.head[cls, AXES]
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
                spread = _spread(points, cls, j, least[j], most[j])
                if spread > widest:
                    axis, widest = j, spread
            points.axis[here] = axis
            points.cut[here] = 0.0
            if start < end:
                for i in range(start, end):
                    key[i] = x[order[i], axis]
                middle = min(share(n, level + 1, 2 * k + 1), end - 1)
                _select_row(key, order, start, end, middle)
                points.cut[here] = key[middle]
    for k in range(leaves):
        start, end = share(n, depth, k), share(n, depth, k + 1)
        for i in range(start, end):
            here = k * cap + i - start
            at = value + block_at(here, width)
            for j in range(width):
                points.v[at + j * LANES] = x[order[i], j]
            points.id[points.head[cls, SLOT] + here] = ids[order[i]]
        _finish_leaf(points, cls, leaves + k, end - start)
    _finish_nodes(points, cls, 1, depth)


@expanded
def _spread(points: Points, cls: int, column: int, least: float, most: float) -> float:
    """The width of a column relative to the frame of the class. One that the frame does not resolve is cut when all
    others are even."""
    west, east = points.frame[cls, column, 0], points.frame[cls, column, 1]
    spread = (min(most, east) - max(least, west)) / (east - west) if least <= most else 0.0
    return max(spread, 0.0) + (1e-9 if least < most else 0.0)


@internal
def _finish_leaf(points: Points, cls: int, node: int, size: int) -> None:
    """Update what depends on the `size` points at the first slots of a leaf; its other slots are empty."""
    first, cap = points.head[cls, SLOT], points.head[cls, CAP]
    start = first + (node - (1 << points.head[cls, DEPTH])) * cap
    for p in range(start, start + size):
        points.pos[points.id[p]] = p
    for p in range(start + size, start + cap):
        points.id[p] = -1
    points.cnt[points.head[cls, NODE] + node] = size
    _bound_leaf(points, cls, node)


@internal
def _finish_nodes(points: Points, cls: int, top: int, height: int) -> None:
    """Compute the counts and bounds of the inner nodes of a subtree."""
    base, bound, width = points.head[cls, NODE], points.head[cls, BOUND], points.head[cls, WIDTH]
    for level in range(height - 1, -1, -1):
        for node in range(top << level, (top + 1) << level):
            points.cnt[base + node] = points.cnt[base + 2 * node] + points.cnt[base + 2 * node + 1]
            _join(points, bound, width, node)


@internal
def _select(points: Points, cls: int, axis: int, start: int, end: int, middle: int) -> None:
    """Quickselect: order the slots [start, end) so that the (value, id) of `middle` is in its sorted place."""
    first, width = points.head[cls, SLOT], points.head[cls, WIDTH]
    column = points.head[cls, VALUE] + axis * LANES
    end -= 1
    while start < end:
        less, p = start, (start + end) >> 1
        if _before(points, column, width, first, p, less):
            less, p = p, less
        if _before(points, column, width, first, end, p):
            p = end if _before(points, column, width, first, less, end) else less
        pivot, pivot_id = points.v[column + block_at(p, width)], points.id[first + p]
        i, j = start, end
        while i <= j:
            a = points.v[column + block_at(i, width)]
            while a < pivot or (a == pivot and points.id[first + i] < pivot_id):
                i += 1
                a = points.v[column + block_at(i, width)]
            a = points.v[column + block_at(j, width)]
            while a > pivot or (a == pivot and points.id[first + j] > pivot_id):
                j -= 1
                a = points.v[column + block_at(j, width)]
            if i <= j:
                _swap(points, cls, i, j)
                i += 1
                j -= 1
        if middle <= j:
            end = j
        elif middle >= i:
            start = i
        else:
            start = end


@expanded
def _before(points: Points, column: int, width: int, first: int, i: int, j: int) -> bool:
    """Whether point i comes before point j by (value, id); `column` is the index of the values."""
    a, b = points.v[column + block_at(i, width)], points.v[column + block_at(j, width)]
    return a < b or (a == b and points.id[first + i] < points.id[first + j])


@internal
def _swap(points: Points, cls: int, i: int, j: int) -> None:
    """Swap two points of a class, by slots counted from its first."""
    width, first = points.head[cls, WIDTH], points.head[cls, SLOT]
    a, b = points.head[cls, VALUE] + block_at(i, width), points.head[cls, VALUE] + block_at(j, width)
    for c in range(width):
        points.v[a + c * LANES], points.v[b + c * LANES] = points.v[b + c * LANES], points.v[a + c * LANES]
    points.id[first + i], points.id[first + j] = points.id[first + j], points.id[first + i]


@internal
def _select_row(key: Floats, order: Ints, start: int, end: int, middle: int) -> None:
    """Quickselect by (value, row), for rows in `order` with their values in `key`.

    Values below the pivot move to the left by arithmetic: a branch would be mispredicted every other time.
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
"""A tree has the least depth at which leaves hold at most so many points on average, fewer than `limit` allows."""


def shape_of(size: int) -> tuple[int, int]:
    """Depth and leaf capacity of a tree that is laid out for `size` points."""
    depth = 0
    while size > MEAN_LEAF * 2.0**depth:
        depth += 1
    return depth, LANES


def room(points: Points, cls: int) -> int:
    """How many points the class may hold without growing."""
    return int(limit(points.head[cls, DEPTH], points.head[cls, DEPTH], points.head[cls, CAP]))


def empty_points(sizes: list[tuple[int, int]], widths: list[tuple[int, int]], ids: int) -> Points:
    """Arrays for classes of (depth, capacity) and (columns, axes), without a point."""
    head = np.zeros((len(sizes), 8), np.int64)
    slots = nodes = values = bounds = 0
    for cls, ((depth, cap), (width, axes)) in enumerate(zip(sizes, widths, strict=True)):
        numbers = max(LANES, 2 << depth)
        head[cls] = slots, nodes, depth, cap, values, bounds, width, axes
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


def copied(points: Points) -> Points:
    """A copy of the arrays. O(m)."""
    return Points._make(column.copy() for column in points)


def values_of(points: Points, cls: int) -> Floats:
    """A view of the slots of a class as (block, column, lane)."""
    _, _, depth, cap, value, _, width, _ = points.head[cls].tolist()
    return points.v[value : value + (cap << depth) * width].reshape(-1, width, LANES)


def points_of(points: Points, cls: int) -> tuple[Ints32, Floats]:
    """Copies of the ids of a class in order of slots, and their points (n, columns)."""
    first, _, depth, cap, _, _, width, _ = points.head[cls].tolist()
    ids = points.id[first : first + (cap << depth)]
    used = np.flatnonzero(ids >= 0)
    return ids[used], values_of(points, cls)[used // LANES, :, used % LANES].reshape(-1, width)


def fill(points: Points, cls: int, ids: Ints32, x: Floats) -> None:
    """Lay these points out as a class that has room for them, in place of those it held."""
    n = len(ids)
    for j in range(int(points.head[cls, AXES])):
        finite = x[np.abs(x[:, j]) < MAX, j]
        if len(finite):
            points.frame[cls, j] = finite.min(), finite.max()
        if points.frame[cls, j, 0] == points.frame[cls, j, 1]:
            points.frame[cls, j, 1] = points.frame[cls, j, 0] + max(1.0, abs(points.frame[cls, j, 0]))
    lay_out(
        points, cls, np.ascontiguousarray(ids, np.int32), np.ascontiguousarray(x, np.float64), np.arange(n),
        np.empty(n), np.empty(WIDEST), np.empty(WIDEST),
    )  # fmt: skip


def resized(points: Points, sizes: dict[int, int], widths: list[tuple[int, int]]) -> Points:
    """New arrays for classes of these (columns, axes): those in `sizes` are laid out again with room for so many, the
    others copied. Classes past those of `points` are new."""
    shapes = [
        shape_of(sizes.get(cls, 0))
        if cls in sizes or cls >= len(points.head)
        else (int(points.head[cls, DEPTH]), int(points.head[cls, CAP]))
        for cls in range(len(widths))
    ]
    new = empty_points(shapes, widths, 0)._replace(pos=points.pos)
    for cls in range(len(widths)):
        if cls >= len(points.head):
            lay(new, cls, 1, 0)
        elif cls in sizes:
            fill(new, cls, *points_of(points, cls))
        else:
            _copy_class(points, new, cls)
    return new


def _copy_class(old: Points, new: Points, cls: int) -> None:
    """Copy a class to arrays in which it has the same depth and capacity."""
    a, b = old.head[cls], new.head[cls]
    slots, nodes, width = int(a[CAP] << a[DEPTH]), max(LANES, int(2 << a[DEPTH])), int(a[WIDTH])
    new.frame[cls] = old.frame[cls]
    for name, column, size in (
        ("id", SLOT, slots), ("v", VALUE, slots * width), ("lo", BOUND, nodes * width), ("hi", BOUND, nodes * width),
        ("cut", NODE, nodes), ("axis", NODE, nodes), ("cnt", NODE, nodes),
    ):  # fmt: skip
        getattr(new, name)[b[column] : b[column] + size] = getattr(old, name)[a[column] : a[column] + size]
    used = int(b[SLOT]) + np.flatnonzero(new.id[b[SLOT] : b[SLOT] + slots] >= 0)
    new.pos[new.id[used]] = used


def check_points(points: Points, cls: int) -> None:
    """Verify every invariant of a class; AssertionError names the node. O(m)."""
    first, base, depth, cap, _, bound, width, axes = points.head[cls].tolist()
    leaves, values = 1 << depth, values_of(points, cls)
    for node in range((2 << depth) - 1, 0, -1):
        at = bound + (node >> STEP) * LANES * width + (node & (LANES - 1))
        lo, hi = points.lo[at : at + LANES * width : LANES], points.hi[at : at + LANES * width : LANES]
        if node >= leaves:
            start = (node - leaves) * cap
            n = int(points.cnt[base + node])
            assert 0 <= n <= cap, (cls, node, n)
            ids = points.id[first + start : first + start + cap]
            assert (ids[n:] == -1).all(), (cls, node)
            assert (points.pos[ids[:n]] == np.arange(first + start, first + start + n)).all(), (cls, node)
            used = np.arange(start, start + n)
            x = values[used // LANES, :, used % LANES].reshape(n, width)
            least, most = x.min(0, initial=INF), x.max(0, initial=-INF)
        else:
            assert points.cnt[base + node] == points.cnt[base + 2 * node] + points.cnt[base + 2 * node + 1], (cls, node)
            pair = [bound + (i >> STEP) * LANES * width + (i & (LANES - 1)) for i in (2 * node, 2 * node + 1)]
            a, b = (np.arange(i, i + LANES * width, LANES) for i in pair)
            least, most = np.minimum(points.lo[a], points.lo[b]), np.maximum(points.hi[a], points.hi[b])
            axis = int(points.axis[base + node])
            assert axis < max(axes, 1), (cls, node)
            assert (
                points.hi[a[axis]] <= points.cut[base + node] <= points.lo[b[axis]] or points.cnt[base + node] == 0
            ), (cls, node)
        assert (lo == least).all() and (hi == most).all(), (cls, node, lo, hi, least, most)
