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

A search opens the last leaf, then goes to the right first, where coordinates are large, and leaves out each node whose
corner does not dominate. The lowest nodes are in groups of up to 64 leaves, whose corners are compared all at once
(`leaf_groups.py`). All comparisons but those of codes are of coarse coordinates (`points.py`); only what passes them is
looked up exactly.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.masks import BLOCK, SHIFT, first_lane, first_lanes, lane, without_first
from indexes.compiled.simd import high_bit
from indexes.core.arrays import Int8s, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import BIAS, ROW, block_holds, row_codes, row_raise
from indexes.relays.kernels.covering_index import COMPARISONS, NODES, QUERIES, CoverIndex, implement
from indexes.relays.kernels.kd_arrays import (
    BUCKETS_USED,
    BY_NODE,
    COORDINATES,
    FREE_NODE,
    FULL,
    LAST_LEAF,
    MOST_CODE,
    NODES_USED,
    POINTS,
    WIDTH,
    KdTree,
    free_bucket,
    spread_codes,
    take_bucket,
    write_codes,
)
from indexes.relays.kernels.leaf_groups import (
    LEAST,
    WHOLE,
    add_leaf,
    group_for,
    is_doubled,
    remove_leaf,
    spread_corners,
    take_group,
    write_corner,
)
from indexes.relays.kernels.points import Float32s, Points, covers, longer, reaches, width_of

STACK = 512
"""Nodes on the way down and their siblings: twice the depth of a tree of 2^31 points, and more."""

SOME = 8
"""Columns of codes that are compared before it is seen whether any point is left."""


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
    tree.place[v] = -1
    width = size[WIDTH]
    for j in range(width):
        tree.corner[v * width + j] = -np.inf if j < size[COORDINATES] else 0.0
    return v


@internal
def _put(tree: KdTree, points: Points, node: int, at: int, slot: int) -> None:
    """Write a slot into the next lane of a leaf."""
    b = int64(tree.bucket[node])
    tree.held[b * BLOCK + at] = slot
    tree.at[slot] = node
    if at & (at + 1) == 0:
        spread_codes(tree, b, first_lanes(at + 1), points.coarse)
    else:
        write_codes(tree, b, at, points.coarse, int64(slot) * tree.size[WIDTH])


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
            remove_leaf(tree, w)
        if tree.bucket[w] >= 0:
            free_bucket(tree, w)
        if w != node:
            tree.left[w] = size[FREE_NODE]
            size[FREE_NODE] = w
    tree.left[node] = -1
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
def _fill(tree: KdTree, points: Points, node: int, lo: int, hi: int, root: int, group: int) -> None:
    """Make a node a leaf with order[lo:hi], of a group if that is at least 0, and raise the corners from there up to
    `root`."""
    width = tree.size[WIDTH]
    tree.bucket[node] = take_bucket(tree)
    b = int64(tree.bucket[node])
    for i in range(lo, hi):
        t = int64(tree.order[i])
        tree.held[b * BLOCK + i - lo] = t
        tree.at[t] = node
        _raise_corner(tree, node, points.coarse, t * width)
    spread_codes(tree, b, first_lanes(hi - lo), points.coarse)
    if group >= 0:
        add_leaf(tree, group, node)
    w = node
    while w != root:
        w = tree.up[w]
        _raise_corner(tree, w, tree.corner, node * width)


@internal
def _rebuild(tree: KdTree, points: Points, node: int, count: int) -> None:
    """Lay out order[:count] below a leaf without a bucket: cut at medians down to leaves of at most 3/4 of `full`.
    The codes of a group are spread again when its leaves have doubled, as those of a leaf are."""
    size, stack = tree.size, tree.stack
    width = size[WIDTH]
    depth = 0
    w = node
    while w > 0:
        w = tree.up[w]
        depth += 1
    for j in range(size[COORDINATES]):
        tree.corner[node * width + j] = -np.inf
    group = group_for(tree, node, count)
    inside, most = group >= 0, WHOLE * size[FULL]
    stack[0], stack[1], stack[2], stack[3] = node, 0, count, depth
    sp = 4
    while sp > 0:
        sp -= 4
        w, lo, hi, depth = int64(stack[sp]), stack[sp + 1], stack[sp + 2], stack[sp + 3]
        tree.total[w] = hi - lo
        if 4 * (hi - lo) <= 3 * size[FULL]:
            _fill(tree, points, w, lo, hi, node, group)
            if inside:
                write_corner(tree, w)
        else:
            if not inside and hi - lo <= most and (w == node or tree.total[tree.up[w]] > most):
                if group >= 0:
                    spread_corners(tree, group)
                group = take_group(tree, w)
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
    if group >= 0 and (not inside or is_doubled(tree, group)):
        spread_corners(tree, group)
    w = int64(0)
    while tree.left[w] >= 0:
        w = int64(tree.right[w])
    size[LAST_LEAF] = w


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
    at = tree.total[node]
    tree.total[node] += 1
    overflow = at == tree.size[FULL]
    if not overflow:
        if tree.bucket[node] < 0:
            tree.bucket[node] = take_bucket(tree)
        _put(tree, points, node, at, slot)
        if not reaches(tree.corner, node * width, points.coarse, slot * width, width):
            _raise_corner(tree, node, points.coarse, slot * width)
            write_corner(tree, node)
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
    at = 0
    while tree.held[b * BLOCK + at] != slot:
        at += 1
    last = tree.total[node] - 1
    tree.at[slot] = -1
    for j in range(D):
        tree.code[(b * D + j) * BLOCK + at] = tree.code[(b * D + j) * BLOCK + last]
    tree.held[b * BLOCK + at] = tree.held[b * BLOCK + last]
    tree.total[node] = last
    tree.size[POINTS] -= 1
    loose = True
    for j in range(D):
        loose = loose and points.coarse[slot * width + j] < tree.corner[node * width + j]
    changed = not loose
    if changed:
        _leaf_corner(tree, points, node)
        write_corner(tree, node)
    broken = int64(-1)
    above = False
    while node > 0:
        above |= tree.left[node] >= 0 and tree.bucket[node] >= 0
        node = int64(tree.up[node])
        tree.total[node] -= 1
        if changed:
            changed = False
            l, r = int64(tree.left[node]), int64(tree.right[node])
            for j in range(D):
                most = max(tree.corner[l * width + j], tree.corner[r * width + j])
                changed |= most != tree.corner[node * width + j]
                tree.corner[node * width + j] = most
        if _broken(tree, node) or (above and tree.total[node] <= LEAST * tree.size[FULL]):
            broken = node
    if broken >= 0:
        _rebuild(tree, points, broken, _dismantle(tree, broken))


@inlined
def _lanes_from(tree: KdTree, bucket: int, coarse: Float32s, row: int) -> int:
    """The lanes of a bucket that have at least the codes of a point."""
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    mask = int64(-1)
    j = 0
    while mask != 0 and j < D:
        if j % ROW == 0:
            row_codes(coarse, row + j, tree.low, tree.steps, bucket * width + j, tree.asked)
        holds, _ = block_holds(tree.code, (bucket * D + j) * BLOCK, tree.asked, j % ROW, min(SOME, D - j))
        mask &= holds
        j += SOME
    return mask


@internal
def _cover(tree: KdTree, points: Points, slot: int, k: int, out: Ints32, first: int, seen: Ints, seen_row: int) -> int:
    coarse, stack = points.coarse, tree.stack
    width = tree.size[WIDTH]
    row = int64(slot) * width
    found = 0
    nodes = 0
    compared = 0
    group, leaves = int64(0), int64(0)
    # Where much is covered, the last leaf mostly has a coverer, and it does not depend on a comparison of codes.
    last = int64(tree.size[LAST_LEAF])
    stack[0], stack[1] = 0, last
    sp = 2 if last > 0 else 1
    while (sp > 0 or leaves != 0) and found < k:
        nodes += 1
        if leaves != 0:
            at = high_bit(leaves)
            leaves ^= lane(at)
            node, reached = int64(tree.held[group * BLOCK + at]), True
        else:
            sp -= 1
            node = int64(stack[sp])
            reached = reaches(tree.corner, node * width, coarse, row, width)
        b = int64(tree.bucket[node])
        if reached and tree.left[node] < 0:
            compared += tree.total[node]
            mask = first_lanes(tree.total[node])
            if mask != 0:
                mask &= _lanes_from(tree, b, coarse, row)
            while mask != 0 and found < k:
                x = int64(tree.held[b * BLOCK + first_lane(mask)])
                mask = without_first(mask)
                if reaches(coarse, x * width, coarse, row, width) and covers(points, x, slot):
                    out[first + found] = x
                    found += 1
        elif reached and b >= 0:
            group = b
            leaves = tree.taken[b] & _lanes_from(tree, b, coarse, row)
            if tree.place[last] >> SHIFT == b:
                leaves &= ~lane(tree.place[last] & BLOCK - 1)
        elif reached:
            stack[sp] = tree.left[node]
            stack[sp + 1] = tree.right[node]
            sp += 2
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
            place=np.full(1, -1, np.int32),
            code=np.empty(0, np.int8),
            low=np.empty(0, np.float32),
            steps=np.empty(0, np.float32),
            held=none,
            taken=np.empty(0, np.int64),
            at=none,
            order=none,
            stack=np.zeros(STACK, np.int32),
            asked=np.zeros(ROW, np.int8),
            size=np.array([0, 1, -1, 0, -1, full, coordinates, width, 0]),
        )

    def __len__(self) -> int:
        return int(self.arrays.size[POINTS])

    def reserve(self, inserts: int, slots: int) -> None:
        o, n = self.arrays, len(self) + inserts
        if slots <= len(o.at) and n <= len(o.order):
            return
        coordinates, full, width = (int(o.size[i]) for i in (COORDINATES, FULL, WIDTH))
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), -1, np.int32)
            at[: len(o.at)] = o.at
            o = o._replace(at=at)
        if n > len(o.order):
            # Memory that is never touched is never there, so there is room for the emptiest leaves of the rule.
            n = max(n, len(o.order) * 3 // 2)
            leaves = 8 * n // full + 2
            buckets = leaves + 8 * n // (LEAST * full) + 2
            o = o._replace(
                corner=longer(o.corner, 2 * leaves * width),
                code=longer(o.code, buckets * coordinates * BLOCK),
                low=longer(o.low, buckets * width),
                steps=longer(o.steps, buckets * width),
                held=longer(o.held, buckets * BLOCK),
                taken=longer(o.taken, buckets),
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
            taken=o.taken[:buckets],
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
                    assert (
                        self._codes(int(o.bucket[v]), coarse[below[v]]) == self._written(v)[:, : o.total[v]].T
                    ).all()
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
        self._check_groups(leaves)

    def _check_groups(self, leaves: list[int]) -> None:
        """As `check`: each leaf is in the group of the one node above it that is a root of one."""
        o = self.arrays
        coordinates, width, full = (int(o.size[i]) for i in (COORDINATES, WIDTH, FULL))
        grouped: dict[int, int] = {}
        for v in leaves:
            above, w = [], int(o.up[v])
            while w >= 0:
                above.append(w)
                w = int(o.up[w])
            roots = [w for w in above if o.bucket[w] >= 0]
            assert len(roots) == bool(above), (v, roots)
            if roots:
                group, at = int(o.bucket[roots[0]]), int(o.place[v]) - int(o.bucket[roots[0]]) * BLOCK
                assert 0 <= at < BLOCK and o.held[o.place[v]] == v
                grouped[group] = grouped.get(group, 0) | 1 << at
                corner = o.corner[v * width : v * width + coordinates]
                assert (self._codes(group, corner) == self._written(roots[0])[:, at]).all()
                assert all(o.total[w] > LEAST * full for w in above[above.index(roots[0]) + 1 :])
        assert all(int(o.taken[group]) % (1 << BLOCK) == lanes for group, lanes in grouped.items())
        last = 0
        while o.left[last] >= 0:
            last = int(o.right[last])
        assert o.size[LAST_LEAF] == last

    def _codes(self, bucket: int, coordinates: Float32s) -> Ints:
        """The codes that coordinates have in a bucket."""
        o = self.arrays
        row = bucket * int(o.size[WIDTH]) + np.arange(int(o.size[COORDINATES]))
        with np.errstate(over="ignore"):
            codes: Ints = np.clip((coordinates - o.low[row]) * o.steps[row], 0, MOST_CODE).astype(np.int64) - BIAS
        return codes

    def _written(self, node: int) -> Int8s:
        """The codes in the bucket of a node, of shape (coordinates, lanes)."""
        o = self.arrays
        coordinates = int(o.size[COORDINATES])
        base = int(o.bucket[node]) * coordinates * BLOCK
        return o.code[base : base + coordinates * BLOCK].reshape(coordinates, BLOCK)
