"""The default index: an adaptive, bucketed k-d tree that is searched from its largest corner ([Covering] IV-C).

Layout: nodes come from a pool with a free list; node 0 is the root. An inner node cuts its points by (coordinate,
slot) in dimension ``dim``: what is at most (``cut``, ``cut_slot``) is on the left. Slots break ties, so any points can
be cut, however many are equal. ``corner`` is the least point that no point below the node exceeds, and ``total`` their
number. A leaf holds its points in a bucket, column by column, so that a coordinate of all of them is compared at once:
as codes of 8 bits, steps from the bucket's `low` on. A greater coordinate has no lesser code, so what lacks a code
lacks the coordinate, and what lacks none is looked up. Codes are made again whenever the points of a leaf have doubled.

Balance: a leaf has at most `full` points (the overflow limit); an inner node has more than half as many (the underflow
limit, past which its leaves are merged), and each of its children at most three quarters of them. So leaves have more
than an eighth of `full`, and the depth is at most log(n) / log(4/3), in whatever order points come. A change goes down
its path and then rebuilds, cut at medians, the highest node that breaks the rule: O(log^2 n), amortised.

A search goes to the right first, where coordinates are large, and leaves out each node whose corner does not dominate.
All comparisons but those of codes are of coarse coordinates (`points.py`); only what passes them is looked up exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal, kernel
from indexes.compiled.masks import BLOCK, first_lane, first_lanes, without_first
from indexes.core.arrays import Int8s, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import BIAS, ROW, block_holds, row_codes, row_raise
from indexes.relays.kernels.covering_index import COMPARISONS, NODES, QUERIES, CoverIndex, implement
from indexes.relays.kernels.points import Float32s, Points, covers, longer, reaches, width_of

STACK = 512
"""Nodes on the way down and their siblings: twice the depth of a tree of 2^31 points, and more."""

MOST = 255
"""The greatest code."""

SOME = 8
"""Columns of codes that are compared before it is seen whether any point is left."""

POINTS, NODES_USED, FREE_NODE, BUCKETS_USED, FREE_BUCKET, FULL, COORDINATES, WIDTH = range(8)
"""Places in `size`; free nodes are chained by `left`, free buckets by the first of `held`."""


BY_NODE = ("cut", "cut_slot", "dim", "left", "right", "up", "total", "bucket")
"""The arrays with a number for each node."""


class KdTree(NamedTuple):
    """The arrays of a tree; see the module's text."""

    corner: Float32s  # flat, `width` a node
    cut: Float32s  # by node, as all up to bucket
    cut_slot: Ints32
    dim: NDArray[np.int16]
    left: Ints32  # -1: a leaf
    right: Ints32
    up: Ints32
    total: Ints32
    bucket: Ints32
    code: Int8s  # flat: bucket, coordinate, lane; less 128
    low: Float32s  # flat, `width` a bucket: what has code 0
    steps: Float32s  # flat, `width` a bucket: codes by unit, above 0
    held: Ints32  # flat: bucket, lane
    at: Ints32  # by slot: its leaf, or -1
    order: Ints32  # slots while a node is rebuilt
    stack: Ints32
    asked: Int8s  # codes of one point
    size: Ints


@internal
def _take_node(tree: KdTree, parent: int) -> int:
    """A new leaf without points and without a bucket."""
    size = tree.size
    v = size[FREE_NODE]
    if v >= 0:
        size[FREE_NODE] = tree.left[v]
    else:
        v = size[NODES_USED]
        size[NODES_USED] += 1
    tree.left[v] = -1
    tree.up[v] = parent
    tree.total[v] = 0
    tree.bucket[v] = -1
    width = size[WIDTH]
    for j in range(width):
        tree.corner[v * width + j] = -np.inf if j < size[COORDINATES] else 0.0
    return v


@internal
def _take_bucket(tree: KdTree) -> int:
    b = tree.size[FREE_BUCKET]
    if b >= 0:
        tree.size[FREE_BUCKET] = tree.held[b * BLOCK]
    else:
        b = tree.size[BUCKETS_USED]
        tree.size[BUCKETS_USED] += 1
    return b


@internal
def _encode(tree: KdTree, bucket: int, lane: int, coarse: Float32s, row: int) -> None:
    """Write the codes of a point into a lane of a bucket."""
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    for first in range(0, D, ROW):
        row_codes(coarse, row + first, tree.low, tree.steps, bucket * width + first, tree.asked)
        for j in range(first, min(first + ROW, D)):
            tree.code[(bucket * D + j) * BLOCK + lane] = tree.asked[j - first]


@internal
def _encode_bucket(tree: KdTree, points: Points, bucket: int, total: int) -> None:
    """Spread the codes over the coordinates that a bucket has, and write those of its points."""
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    for j in range(D):
        low, high = np.float32(np.inf), np.float32(-np.inf)
        for lane in range(total):
            x = points.coarse[int64(tree.held[bucket * BLOCK + lane]) * width + j]
            if np.isfinite(x):
                low, high = min(low, x), max(high, x)
        steps = np.float32(MOST) / (high - low) if high > low else np.float32(1.0)
        tree.low[bucket * width + j] = low if np.isfinite(low) else 0.0
        tree.steps[bucket * width + j] = steps if 0 < steps < np.inf else 1.0
    for lane in range(total):
        row = int64(tree.held[bucket * BLOCK + lane]) * width
        _encode(tree, bucket, lane, points.coarse, row)


@internal
def _put(tree: KdTree, points: Points, node: int, lane: int, slot: int) -> None:
    """Write a slot into the next lane of a leaf."""
    b = int64(tree.bucket[node])
    tree.held[b * BLOCK + lane] = slot
    tree.at[slot] = node
    if lane & (lane + 1) == 0:
        _encode_bucket(tree, points, b, lane + 1)
    else:
        _encode(tree, b, lane, points.coarse, int64(slot) * tree.size[WIDTH])


@internal
def _raise_corner(tree: KdTree, node: int, coordinates: Float32s, base: int) -> None:
    width = tree.size[WIDTH]
    for j in range(0, width, ROW):
        row_raise(tree.corner, node * width + j, coordinates, base + j)


@internal
def _is_left(coarse: Float32s, width: int, dim: int, slot: int, cut: float, cut_slot: int) -> bool:
    x = coarse[slot * width + dim]
    return x < cut or (x == cut and slot <= cut_slot)


@internal
def _broken(tree: KdTree, node: int) -> bool:
    """Whether an inner node has to be rebuilt."""
    most = max(tree.total[tree.left[node]], tree.total[tree.right[node]])
    return 4 * most > 3 * tree.total[node] or 2 * tree.total[node] <= tree.size[FULL]


@internal
def _dismantle(tree: KdTree, node: int) -> int:
    """Collect the slots below a node in `order`, free all nodes below it and every bucket; returns how many slots."""
    size, stack = tree.size, tree.stack
    n = 0
    stack[0] = node
    sp = 1
    while sp > 0:
        sp -= 1
        w = stack[sp]
        if tree.left[w] >= 0:
            stack[sp] = tree.left[w]
            stack[sp + 1] = tree.right[w]
            sp += 2
        elif tree.bucket[w] >= 0:
            b = int64(tree.bucket[w])
            for i in range(min(tree.total[w], size[FULL])):
                tree.order[n] = tree.held[b * BLOCK + i]
                n += 1
            tree.held[b * BLOCK] = size[FREE_BUCKET]
            size[FREE_BUCKET] = b
        if w != node:
            tree.left[w] = size[FREE_NODE]
            size[FREE_NODE] = w
    tree.left[node] = -1
    tree.bucket[node] = -1
    return n


@internal
def _median(coarse: Float32s, width: int, dim: int, slots: Ints32, lo: int, hi: int, middle: int) -> None:
    """Partition slots[lo:hi] so that slots[middle] is as if sorted by (coordinate, slot), smaller ones before it."""
    hi -= 1
    while lo < hi:
        pivot = slots[(lo + hi) >> 1]
        x = coarse[pivot * width + dim]
        i, j = lo, hi
        while i <= j:
            while slots[i] != pivot and _is_left(coarse, width, dim, slots[i], x, pivot):
                i += 1
            while slots[j] != pivot and not _is_left(coarse, width, dim, slots[j], x, pivot):
                j -= 1
            if i <= j:
                slots[i], slots[j] = slots[j], slots[i]
                i += 1
                j -= 1
        if middle <= j:
            hi = j
        elif middle >= i:
            lo = i
        else:
            lo = hi


@internal
def _dimension(tree: KdTree, points: Points, lo: int, hi: int, depth: int) -> int:
    """The next dimension in turn in which order[lo:hi] differ; any if they are all equal."""
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    dim = depth % D
    tried = 0
    while tried < D:
        x = points.coarse[tree.order[lo] * width + dim]
        i = lo + 1
        while i < hi and points.coarse[tree.order[i] * width + dim] == x:
            i += 1
        if i < hi:
            tried = D
        else:
            tried += 1
            dim = (dim + 1) % D
    return dim


@internal
def _fill(tree: KdTree, points: Points, node: int, lo: int, hi: int, root: int) -> None:
    """Make a node a leaf with order[lo:hi], and raise the corners from there up to `root`."""
    width = tree.size[WIDTH]
    tree.bucket[node] = _take_bucket(tree)
    b = int64(tree.bucket[node])
    for i in range(lo, hi):
        t = int64(tree.order[i])
        tree.held[b * BLOCK + i - lo] = t
        tree.at[t] = node
        _raise_corner(tree, node, points.coarse, t * width)
    _encode_bucket(tree, points, b, hi - lo)
    w = node
    while w != root:
        w = tree.up[w]
        _raise_corner(tree, w, tree.corner, node * width)


@internal
def _rebuild(tree: KdTree, points: Points, node: int, count: int) -> None:
    """Lay out order[:count] below a leaf without a bucket: cut at medians down to leaves of at most 3/4 of `full`."""
    size, stack = tree.size, tree.stack
    width = size[WIDTH]
    depth = 0
    w = node
    while w > 0:
        w = tree.up[w]
        depth += 1
    for j in range(size[COORDINATES]):
        tree.corner[node * width + j] = -np.inf
    stack[0], stack[1], stack[2], stack[3] = node, 0, count, depth
    sp = 4
    while sp > 0:
        sp -= 4
        w, lo, hi, depth = int64(stack[sp]), stack[sp + 1], stack[sp + 2], stack[sp + 3]
        tree.total[w] = hi - lo
        if 4 * (hi - lo) <= 3 * size[FULL]:
            _fill(tree, points, w, lo, hi, node)
        else:
            m = (lo + hi - 1) >> 1
            dim = _dimension(tree, points, lo, hi, depth)
            _median(points.coarse, width, dim, tree.order, lo, hi, m)
            tree.dim[w] = dim
            tree.cut_slot[w] = tree.order[m]
            tree.cut[w] = points.coarse[tree.order[m] * width + dim]
            l = _take_node(tree, w)
            r = _take_node(tree, w)
            tree.left[w] = l
            tree.right[w] = r
            stack[sp], stack[sp + 1], stack[sp + 2], stack[sp + 3] = r, m + 1, hi, depth + 1
            stack[sp + 4], stack[sp + 5], stack[sp + 6], stack[sp + 7] = l, lo, m + 1, depth + 1
            sp += 8


@internal
def _insert(tree: KdTree, points: Points, slot: int) -> None:
    width = tree.size[WIDTH]
    slot = int64(slot)
    broken = int64(-1)
    node = int64(0)
    tree.size[POINTS] += 1
    while tree.left[node] >= 0:
        _raise_corner(tree, node, points.coarse, slot * width)
        tree.total[node] += 1
        west = _is_left(points.coarse, width, tree.dim[node], slot, tree.cut[node], tree.cut_slot[node])
        child = tree.left[node] if west else tree.right[node]
        if broken < 0 and 4 * (tree.total[child] + 1) > 3 * tree.total[node]:
            broken = node
        node = int64(child)
    lane = tree.total[node]
    tree.total[node] += 1
    overflow = lane == tree.size[FULL]
    if not overflow:
        if tree.bucket[node] < 0:
            tree.bucket[node] = _take_bucket(tree)
        _put(tree, points, node, lane, slot)
        _raise_corner(tree, node, points.coarse, slot * width)
    elif broken < 0:
        broken = node
    if broken >= 0:
        n = _dismantle(tree, broken)
        if overflow:
            tree.order[n] = slot
            n += 1
        _rebuild(tree, points, broken, n)


@internal
def _leaf_corner(tree: KdTree, points: Points, node: int) -> None:
    """Recompute the corner of a leaf."""
    width = tree.size[WIDTH]
    for j in range(tree.size[COORDINATES]):
        tree.corner[node * width + j] = -np.inf
    for i in range(tree.total[node]):
        t = int64(tree.held[int64(tree.bucket[node]) * BLOCK + i])
        _raise_corner(tree, node, points.coarse, t * width)


@internal
def _delete(tree: KdTree, points: Points, slot: int) -> None:
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    slot = int64(slot)
    node = int64(tree.at[slot])
    b = int64(tree.bucket[node])
    lane = 0
    while tree.held[b * BLOCK + lane] != slot:
        lane += 1
    last = tree.total[node] - 1
    tree.at[slot] = -1
    for j in range(D):
        tree.code[(b * D + j) * BLOCK + lane] = tree.code[(b * D + j) * BLOCK + last]
    tree.held[b * BLOCK + lane] = tree.held[b * BLOCK + last]
    tree.total[node] = last
    tree.size[POINTS] -= 1
    loose = True
    for j in range(D):
        loose = loose and points.coarse[slot * width + j] < tree.corner[node * width + j]
    changed = not loose
    if changed:
        _leaf_corner(tree, points, node)
    broken = int64(-1)
    while node > 0:
        node = int64(tree.up[node])
        tree.total[node] -= 1
        if changed:
            changed = False
            l, r = int64(tree.left[node]), int64(tree.right[node])
            for j in range(D):
                most = max(tree.corner[l * width + j], tree.corner[r * width + j])
                changed |= most != tree.corner[node * width + j]
                tree.corner[node * width + j] = most
        if _broken(tree, node):
            broken = node
    if broken >= 0:
        _rebuild(tree, points, broken, _dismantle(tree, broken))


@internal
def _cover(tree: KdTree, points: Points, slot: int, k: int, out: Ints32, first: int, seen: Ints, seen_row: int) -> int:
    coarse, stack = points.coarse, tree.stack
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    row = int64(slot) * width
    found = 0
    nodes = 0
    compared = 0
    stack[0] = 0
    sp = 1
    while sp > 0 and found < k:
        sp -= 1
        node = int64(stack[sp])
        nodes += 1
        if reaches(tree.corner, node * width, coarse, row, width):
            if tree.left[node] >= 0:
                stack[sp] = tree.left[node]
                stack[sp + 1] = tree.right[node]
                sp += 2
            else:
                b = int64(tree.bucket[node])
                compared += tree.total[node]
                mask = first_lanes(tree.total[node])
                j = 0
                while mask != 0 and j < D:
                    if j % ROW == 0:
                        row_codes(coarse, row + j, tree.low, tree.steps, b * width + j, tree.asked)
                    holds, _ = block_holds(tree.code, (b * D + j) * BLOCK, tree.asked, j % ROW, min(SOME, D - j))
                    mask &= holds
                    j += SOME
                while mask != 0 and found < k:
                    x = int64(tree.held[b * BLOCK + first_lane(mask)])
                    mask = without_first(mask)
                    if reaches(coarse, x * width, coarse, row, width) and covers(points, x, slot):
                        out[first + found] = x
                        found += 1
    seen[seen_row, NODES] += nodes
    seen[seen_row, COMPARISONS] += compared
    seen[seen_row, QUERIES] += 1
    return found


@kernel
def _lay_out(tree: KdTree, points: Points, count: int) -> None:
    """Lay out the slots order[:count] in a tree without points."""
    tree.size[POINTS] = count
    _rebuild(tree, points, 0, count)


implement(KdTree, cover=_cover, insert=_insert, delete=_delete)


class KdIndex(CoverIndex):
    """The k-d tree as an index; `full` is the overflow limit of its buckets, at least 8 and at most 64."""

    arrays: KdTree

    def __init__(self, coordinates: int, full: int = BLOCK) -> None:
        if not 8 <= full <= BLOCK:
            raise ValueError(f"a bucket holds 8 to {BLOCK} points, not {full}")
        width = width_of(coordinates)
        none = np.empty(0, np.int32)
        corner = np.zeros(width, np.float32)
        corner[:coordinates] = -np.inf
        self.arrays = KdTree(
            corner=corner,
            cut=np.zeros(1, np.float32),
            cut_slot=np.zeros(1, np.int32),
            dim=np.zeros(1, np.int16),
            left=np.full(1, -1, np.int32),
            right=np.zeros(1, np.int32),
            up=np.full(1, -1, np.int32),
            total=np.zeros(1, np.int32),
            bucket=np.full(1, -1, np.int32),
            code=np.empty(0, np.int8),
            low=np.empty(0, np.float32),
            steps=np.empty(0, np.float32),
            held=none,
            at=none,
            order=none,
            stack=np.zeros(STACK, np.int32),
            asked=np.zeros(ROW, np.int8),
            size=np.array([0, 1, -1, 0, -1, full, coordinates, width]),
        )

    def __len__(self) -> int:
        return int(self.arrays.size[POINTS])

    def reserve(self, inserts: int, slots: int) -> None:
        o, n = self.arrays, len(self) + inserts
        coordinates, full, width = (int(o.size[i]) for i in (COORDINATES, FULL, WIDTH))
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), -1, np.int32)
            at[: len(o.at)] = o.at
            o = o._replace(at=at)
        if n > len(o.order):
            # Memory that is never touched is never there, so there is room for the emptiest leaves of the rule.
            n = max(n, len(o.order) * 3 // 2)
            leaves = 8 * n // full + 2
            o = o._replace(
                corner=longer(o.corner, 2 * leaves * width),
                code=longer(o.code, leaves * coordinates * BLOCK),
                low=longer(o.low, leaves * width),
                steps=longer(o.steps, leaves * width),
                held=longer(o.held, leaves * BLOCK),
                order=np.empty(n, np.int32),
                **{name: longer(getattr(o, name), 2 * leaves) for name in BY_NODE},
            )
        self.arrays = o

    def load(self, points: Points, slots: Ints32) -> None:
        """O(n log n): cut at medians, all leaves about as full."""
        self.reserve(len(slots), len(points.age))
        self.arrays.order[: len(slots)] = slots
        if len(slots):
            _lay_out(self.arrays, points, len(slots))

    def trimmed(self) -> KdTree:
        o = self.arrays
        coordinates, width = int(o.size[COORDINATES]), int(o.size[WIDTH])
        nodes, buckets = int(o.size[NODES_USED]), int(o.size[BUCKETS_USED])
        return o._replace(
            corner=o.corner[: nodes * width],
            code=o.code[: buckets * coordinates * BLOCK],
            low=o.low[: buckets * width],
            steps=o.steps[: buckets * width],
            held=o.held[: buckets * BLOCK],
            order=np.empty(0, np.int32),
            **{name: getattr(o, name)[:nodes] for name in BY_NODE},
        )

    def slots(self) -> Ints32:
        return np.flatnonzero(self.arrays.at >= 0).astype(np.int32)

    def check(self, points: Points) -> None:
        o = self.arrays
        coordinates, width, full = (int(o.size[i]) for i in (COORDINATES, WIDTH, FULL))
        coarse = points.coarse.reshape(-1, width)[:, :coordinates]
        leaves: list[int] = []
        nodes = [0]
        below: dict[int, list[int]] = {}
        while nodes:
            v = nodes.pop()
            if o.left[v] >= 0:
                below[v] = []
                nodes += [int(o.left[v]), int(o.right[v])]
                assert o.up[o.left[v]] == o.up[o.right[v]] == v
                total, most = int(o.total[v]), int(max(o.total[o.left[v]], o.total[o.right[v]]))
                assert 4 * most <= 3 * total and 2 * total > full, (v, total, most)
            else:
                leaves.append(v)
                base = int(o.bucket[v]) * BLOCK
                below[v] = o.held[base : base + o.total[v]].tolist()
                assert o.total[v] <= full and all(o.at[t] == v for t in below[v])
                if below[v]:
                    row = slice(int(o.bucket[v]) * width, int(o.bucket[v]) * width + coordinates)
                    with np.errstate(over="ignore"):
                        codes = np.clip((coarse[below[v]] - o.low[row]) * o.steps[row], 0, MOST).astype(np.int64) - BIAS
                    mine = o.code[base * coordinates :][: coordinates * BLOCK].reshape(coordinates, BLOCK)
                    assert (codes == mine[:, : o.total[v]].T).all()
        for v in leaves:
            w = v
            while w > 0:
                parent = int(o.up[w])
                cut = o.cut[parent], o.cut_slot[parent]
                assert all(((coarse[t, o.dim[parent]], t) <= cut) == (o.left[parent] == w) for t in below[v])
                below[parent] += below[v]
                w = parent
        for v, held in below.items():
            assert o.total[v] == len(held), (v, o.total[v], len(held))
            corner = o.corner[v * width : v * width + coordinates]
            assert (corner == coarse[held].max(axis=0, initial=-np.inf)).all(), (v, corner)
        assert sorted(below[0]) == self.slots().tolist() and len(below[0]) == len(self) <= len(o.order)
