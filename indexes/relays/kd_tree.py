"""The default index: an adaptive, bucketed k-d tree that is searched from its largest corner (the paper, IV-C).

Layout: nodes come from a pool with a free list; node 0 is the root. An inner node cuts its points by (coordinate,
slot) in dimension ``dim``: what is at most (``cut``, ``cut_slot``) is on the left. Slots break ties, so any points can
be cut, however many are equal. ``corner`` is the least point that no point below the node exceeds, and ``total`` their
number. A leaf holds its points in a bucket, column by column, so that a coordinate of all of them is compared at once.

Balance: a leaf has at most `full` points (the overflow limit); an inner node has more than half as many (the underflow
limit, past which its leaves are merged), and each of its children at most three quarters of them. So leaves have more
than an eighth of `full`, and the depth is at most log(n) / log(4/3), in whatever order points come. A change goes down
its path and then rebuilds, cut at medians, the highest node that breaks the rule: O(log^2 n), amortised.

A search goes to the right first, where coordinates are large, and leaves out each node whose corner does not dominate.
All comparisons here are of coarse coordinates (`points.py`); only what passes them is looked up exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel, lean_kernel
from indexes.relays.masks import BLOCK, first_lane, first_lanes, lanes_above, lanes_from, without_first
from indexes.relays.points import Int32, Points, covers, longer, reaches, width_of
from indexes.relays.search import COMPARISONS, NODES, QUERIES, CoverIndex, implement

STACK = 512
"""Nodes on the way down and their siblings: twice the depth of a tree of 2^31 points, and more."""

POINTS, NODES_USED, FREE_NODE, BUCKETS_USED, FREE_BUCKET, FULL, COORDINATES, WIDTH = range(8)
"""Places in `size`; free nodes are chained by `left`, free buckets by the first of `held`."""


BY_NODE = ("cut", "cut_slot", "dim", "left", "right", "up", "total", "bucket")
"""The arrays with a number for each node."""


class KdTree(NamedTuple):
    """The arrays of a tree; see the module's text."""

    corner: NDArray[np.float32]  # flat, `width` a node
    cut: NDArray[np.float32]  # by node, as all up to bucket
    cut_slot: Int32
    dim: NDArray[np.int16]
    left: Int32  # -1: a leaf
    right: Int32
    up: Int32
    total: Int32
    bucket: Int32
    column: NDArray[np.float32]  # flat: bucket, coordinate, lane
    held: Int32  # flat: bucket, lane
    at: Int32  # by slot: its leaf, or -1
    order: Int32  # slots while a node is rebuilt
    stack: Int32
    size: NDArray[np.int64]


@inner_kernel
def _take_node(o, up):  # type: ignore[no-untyped-def]
    """A new leaf without points and without a bucket."""
    size = o.size
    v = size[FREE_NODE]
    if v >= 0:
        size[FREE_NODE] = o.left[v]
    else:
        v = size[NODES_USED]
        size[NODES_USED] += 1
    o.left[v] = -1
    o.up[v] = up
    o.total[v] = 0
    o.bucket[v] = -1
    width = size[WIDTH]
    for j in range(width):
        o.corner[v * width + j] = -np.inf if j < size[COORDINATES] else 0.0
    return v


@inner_kernel
def _take_bucket(o):  # type: ignore[no-untyped-def]
    b = o.size[FREE_BUCKET]
    if b >= 0:
        o.size[FREE_BUCKET] = o.held[b * BLOCK]
    else:
        b = o.size[BUCKETS_USED]
        o.size[BUCKETS_USED] += 1
    return b


@inner_kernel
def _put(o, points, v, lane, t):  # type: ignore[no-untyped-def]
    """Make t the point of leaf v in this lane."""
    b = np.int64(o.bucket[v])
    D, width = o.size[COORDINATES], o.size[WIDTH]
    for j in range(D):
        o.column[(b * D + j) * BLOCK + lane] = points.coarse[t * width + j]
    o.held[b * BLOCK + lane] = t
    o.at[t] = v


@inner_kernel
def _raise_corner(o, v, a, base):  # type: ignore[no-untyped-def]
    width = o.size[WIDTH]
    for j in range(width):
        o.corner[v * width + j] = max(o.corner[v * width + j], a[base + j])


@inner_kernel
def _is_left(coarse, width, dim, s, cut, cut_slot):  # type: ignore[no-untyped-def]
    x = coarse[s * width + dim]
    return x < cut or (x == cut and s <= cut_slot)


@inner_kernel
def _broken(o, v):  # type: ignore[no-untyped-def]
    """Whether an inner node has to be rebuilt."""
    most = max(o.total[o.left[v]], o.total[o.right[v]])
    return 4 * most > 3 * o.total[v] or 2 * o.total[v] <= o.size[FULL]


@inner_kernel
def _dismantle(o, v):  # type: ignore[no-untyped-def]
    """Collect the slots below v in `order`, free all nodes below it and every bucket; returns how many slots."""
    size, stack = o.size, o.stack
    n = 0
    stack[0] = v
    sp = 1
    while sp > 0:
        sp -= 1
        w = stack[sp]
        if o.left[w] >= 0:
            stack[sp] = o.left[w]
            stack[sp + 1] = o.right[w]
            sp += 2
        elif o.bucket[w] >= 0:
            b = np.int64(o.bucket[w])
            for i in range(min(o.total[w], size[FULL])):
                o.order[n] = o.held[b * BLOCK + i]
                n += 1
            o.held[b * BLOCK] = size[FREE_BUCKET]
            size[FREE_BUCKET] = b
        if w != v:
            o.left[w] = size[FREE_NODE]
            size[FREE_NODE] = w
    o.left[v] = -1
    o.bucket[v] = -1
    return n


@inner_kernel
def _median(coarse, width, dim, a, lo, hi, m):  # type: ignore[no-untyped-def]
    """Arrange a[lo:hi] so that a[m] is where it would be if sorted by (coordinate, slot), the smaller before it."""
    hi -= 1
    while lo < hi:
        pivot = a[(lo + hi) >> 1]
        x = coarse[pivot * width + dim]
        i, j = lo, hi
        while i <= j:
            while a[i] != pivot and _is_left(coarse, width, dim, a[i], x, pivot):
                i += 1
            while a[j] != pivot and not _is_left(coarse, width, dim, a[j], x, pivot):
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if m <= j:
            hi = j
        elif m >= i:
            lo = i
        else:
            lo = hi


@inner_kernel
def _dimension(o, points, lo, hi, depth):  # type: ignore[no-untyped-def]
    """The next dimension in turn in which order[lo:hi] differ; any if they are all equal."""
    D, width = o.size[COORDINATES], o.size[WIDTH]
    dim = depth % D
    tried = 0
    while tried < D:
        x = points.coarse[o.order[lo] * width + dim]
        i = lo + 1
        while i < hi and points.coarse[o.order[i] * width + dim] == x:
            i += 1
        if i < hi:
            tried = D
        else:
            tried += 1
            dim = (dim + 1) % D
    return dim


@inner_kernel
def _fill(o, points, v, lo, hi, root):  # type: ignore[no-untyped-def]
    """Make v a leaf with order[lo:hi], and raise the corners from there up to `root`."""
    width = o.size[WIDTH]
    o.bucket[v] = _take_bucket(o)
    for i in range(lo, hi):
        t = np.int64(o.order[i])
        _put(o, points, v, i - lo, t)
        _raise_corner(o, v, points.coarse, t * width)
    w = v
    while w != root:
        w = o.up[w]
        _raise_corner(o, w, o.corner, v * width)


@inner_kernel
def _rebuild(o, points, v, n):  # type: ignore[no-untyped-def]
    """Lay out order[:n] below v, a leaf without a bucket: cut at medians down to leaves of at most 3/4 of `full`."""
    size, stack = o.size, o.stack
    width = size[WIDTH]
    depth = 0
    w = v
    while w > 0:
        w = o.up[w]
        depth += 1
    for j in range(size[COORDINATES]):
        o.corner[v * width + j] = -np.inf
    stack[0], stack[1], stack[2], stack[3] = v, 0, n, depth
    sp = 4
    while sp > 0:
        sp -= 4
        w, lo, hi, depth = np.int64(stack[sp]), stack[sp + 1], stack[sp + 2], stack[sp + 3]
        o.total[w] = hi - lo
        if 4 * (hi - lo) <= 3 * size[FULL]:
            _fill(o, points, w, lo, hi, v)
        else:
            m = (lo + hi - 1) >> 1
            dim = _dimension(o, points, lo, hi, depth)
            _median(points.coarse, width, dim, o.order, lo, hi, m)
            o.dim[w] = dim
            o.cut_slot[w] = o.order[m]
            o.cut[w] = points.coarse[o.order[m] * width + dim]
            l = _take_node(o, w)
            r = _take_node(o, w)
            o.left[w] = l
            o.right[w] = r
            stack[sp], stack[sp + 1], stack[sp + 2], stack[sp + 3] = r, m + 1, hi, depth + 1
            stack[sp + 4], stack[sp + 5], stack[sp + 6], stack[sp + 7] = l, lo, m + 1, depth + 1
            sp += 8


@inner_kernel
def _insert(o, points, t):  # type: ignore[no-untyped-def]
    width = o.size[WIDTH]
    t = np.int64(t)
    broken = np.int64(-1)
    v = np.int64(0)
    o.size[POINTS] += 1
    while o.left[v] >= 0:
        _raise_corner(o, v, points.coarse, t * width)
        o.total[v] += 1
        west = _is_left(points.coarse, width, o.dim[v], t, o.cut[v], o.cut_slot[v])
        child = o.left[v] if west else o.right[v]
        if broken < 0 and 4 * (o.total[child] + 1) > 3 * o.total[v]:
            broken = v
        v = np.int64(child)
    lane = o.total[v]
    o.total[v] += 1
    overflow = lane == o.size[FULL]
    if not overflow:
        if o.bucket[v] < 0:
            o.bucket[v] = _take_bucket(o)
        _put(o, points, v, lane, t)
        _raise_corner(o, v, points.coarse, t * width)
    elif broken < 0:
        broken = v
    if broken >= 0:
        n = _dismantle(o, broken)
        if overflow:
            o.order[n] = t
            n += 1
        _rebuild(o, points, broken, n)


@inner_kernel
def _leaf_corner(o, v):  # type: ignore[no-untyped-def]
    """Find the corner of a leaf anew."""
    D, width = o.size[COORDINATES], o.size[WIDTH]
    b = np.int64(o.bucket[v])
    for j in range(D):
        most = np.float32(-np.inf)
        for i in range(o.total[v]):
            most = max(most, o.column[(b * D + j) * BLOCK + i])
        o.corner[v * width + j] = most


@inner_kernel
def _delete(o, points, t):  # type: ignore[no-untyped-def]
    D, width = o.size[COORDINATES], o.size[WIDTH]
    t = np.int64(t)
    v = np.int64(o.at[t])
    b = np.int64(o.bucket[v])
    lane = 0
    while o.held[b * BLOCK + lane] != t:
        lane += 1
    last = o.total[v] - 1
    o.at[t] = -1
    for j in range(D):
        o.column[(b * D + j) * BLOCK + lane] = o.column[(b * D + j) * BLOCK + last]
    o.held[b * BLOCK + lane] = o.held[b * BLOCK + last]
    o.total[v] = last
    o.size[POINTS] -= 1
    loose = True
    for j in range(D):
        loose = loose and points.coarse[t * width + j] < o.corner[v * width + j]
    changed = not loose
    if changed:
        _leaf_corner(o, v)
    broken = np.int64(-1)
    while v > 0:
        v = np.int64(o.up[v])
        o.total[v] -= 1
        if changed:
            changed = False
            l, r = np.int64(o.left[v]), np.int64(o.right[v])
            for j in range(D):
                most = max(o.corner[l * width + j], o.corner[r * width + j])
                changed |= most != o.corner[v * width + j]
                o.corner[v * width + j] = most
        if _broken(o, v):
            broken = v
    if broken >= 0:
        _rebuild(o, points, broken, _dismantle(o, broken))


@inner_kernel
def _cover(o, points, t, k, out, first, seen, u):  # type: ignore[no-untyped-def]
    coarse, stack = points.coarse, o.stack
    D, width = o.size[COORDINATES], o.size[WIDTH]
    row = np.int64(t) * width
    found = 0
    nodes = 0
    compared = 0
    stack[0] = 0
    sp = 1
    while sp > 0 and found < k:
        sp -= 1
        v = np.int64(stack[sp])
        nodes += 1
        if reaches(o.corner, v * width, coarse, row, width):
            if o.left[v] >= 0:
                stack[sp] = o.left[v]
                stack[sp + 1] = o.right[v]
                sp += 2
            else:
                b = np.int64(o.bucket[v])
                compared += o.total[v]
                mask = first_lanes(o.total[v])
                j = 0
                while mask != 0 and j < D:
                    mask &= lanes_from(o.column, (b * D + j) * BLOCK, coarse[row + j])
                    j += 1
                while mask != 0 and found < k:
                    x = o.held[b * BLOCK + first_lane(mask)]
                    mask = without_first(mask)
                    if covers(points, x, t):
                        out[first + found] = x
                        found += 1
    seen[u, NODES] += nodes
    seen[u, COMPARISONS] += compared
    seen[u, QUERIES] += 1
    return found


@inner_kernel
def _above(o, b, q, row, mask):  # type: ignore[no-untyped-def]
    """The lanes of a mask that are greater than q in every coarse coordinate: there is nothing exact to ask."""
    D = o.size[COORDINATES]
    j = 0
    while mask != 0 and j < D:
        mask &= lanes_above(o.column, (b * D + j) * BLOCK, q[row + j])
        j += 1
    return mask


@lean_kernel
def _lay_out(o, points, n):  # type: ignore[no-untyped-def]
    """Make the slots order[:n] all that there are, in a tree without points."""
    o.size[POINTS] = n
    _rebuild(o, points, 0, n)


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
            column=np.empty(0, np.float32),
            held=none,
            at=none,
            order=none,
            stack=np.zeros(STACK, np.int32),
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
                column=longer(o.column, leaves * coordinates * BLOCK),
                held=longer(o.held, leaves * BLOCK),
                order=np.empty(n, np.int32),
                **{name: longer(getattr(o, name), 2 * leaves) for name in BY_NODE},
            )
        self.arrays = o

    def load(self, points: Points, slots: Int32) -> None:
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
            column=o.column[: buckets * coordinates * BLOCK],
            held=o.held[: buckets * BLOCK],
            order=np.empty(0, np.int32),
            **{name: getattr(o, name)[:nodes] for name in BY_NODE},
        )

    def slots(self) -> Int32:
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
                for i, t in enumerate(below[v]):
                    assert (o.column[base * coordinates + i :: BLOCK][:coordinates] == coarse[t]).all()
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
