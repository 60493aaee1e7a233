"""The linear-space alternative: a dynamic k-d tree over the points (x, y), with objects in buckets of up to 15.

Layout: slot = row, so slots never change. Nodes come from a pool with a free list; node 0 is the root. An inner node
cuts its objects by position (x, created) or by rank (y, created), ``dim`` 0 or 1: what lies before the cut is on the
left. Since `created` is unique, any objects can be cut, however many are equal. A node stores the bounding box of the
objects of finite y below it as (x_lo, x_hi, y_lo, y_hi), empty (inf, -inf, inf, -inf); ``holder``, the slot of the
least (y, created) of these, or -1; their number ``live``; and the number ``total`` of all its objects.

Balance: an inner node has at least 13 objects and each of its children at most three quarters of them, so that a leaf
has 4 to 15 (the root may have fewer), the nodes are at most half as many as the objects and the depth is at most log(n)
/ log(4/3). A change updates boxes up its path and then rebuilds, cut at medians, the highest node that violates the
rule: O(log^2 n) amortised a change, in any order. A new y outside its leaf's cell moves the object to another leaf.
Traversals need no stack: nodes store their parents.

Source: [Range top-k] IV-D names this structure as the way to O(n) space; queries may cost O(sqrt n).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.kernels.object_index import BEFORE_ALL, MAX, ObjectIndex, implement
from indexes.compiled.jit import expanded, internal, kernel
from indexes.compiled.simd import prefetch_block
from indexes.core.arrays import INF, Floats, Int8s, Ints, Ints32, int64

FULL = 16
"""A leaf with so many objects is cut."""

BUCKET = 12
"""A leaf made by a rebuild has at most so many; an inner node has more."""

OBJECTS, FREE = 0, 1
"""Places in `size`: objects in the tree, nodes on the free list."""


class KdTree(NamedTuple):
    """The arrays of a k-d tree; see the module's docstring."""

    x: Floats  # by row, as the next five
    y: Floats
    c: Ints
    row: Ints32
    pos: Ints32
    at: Ints32  # the leaf of each row
    box: Floats  # by node, as all up to bucket
    holder: Ints32
    live: Ints32
    total: Ints32
    up: Ints32
    left: Ints32  # -1: a leaf
    right: Ints32
    dim: Int8s
    cut: Floats
    cut_c: Ints
    bucket: Ints32
    free: Ints32
    size: Ints
    order: Ints32  # scratch of rebuilds and searches
    stack: Ints32


def _nodes_for(objects: int) -> int:
    """The most nodes that a tree of so many objects may have."""
    return objects // 2 + 4


def _empty(rows: int, nodes: int) -> KdTree:
    """Arrays for rows and nodes, without any object."""
    tree = KdTree(
        x=np.empty(rows),
        y=np.empty(rows),
        c=np.empty(rows, np.int64),
        row=np.arange(rows, dtype=np.int32),
        pos=np.full(rows, -1, np.int32),
        at=np.full(rows, -1, np.int32),
        box=np.empty((nodes, 4)),
        holder=np.empty(nodes, np.int32),
        live=np.empty(nodes, np.int32),
        total=np.empty(nodes, np.int32),
        up=np.empty(nodes, np.int32),
        left=np.empty(nodes, np.int32),
        right=np.empty(nodes, np.int32),
        dim=np.empty(nodes, np.int8),
        cut=np.empty(nodes),
        cut_c=np.empty(nodes, np.int64),
        bucket=np.empty((nodes, FULL), np.int32),
        free=np.arange(nodes - 1, -1, -1, dtype=np.int32),
        size=np.array([0, nodes - 1]),
        order=np.empty(rows, np.int32),
        stack=np.empty((128, 3), np.int32),
    )
    tree.up[0], tree.dim[0] = -1, 0
    _build(tree, 0, 0)
    return tree


class KdTreeIndex(ObjectIndex):
    """The object index as a k-d tree: O(n) space, about 110 bytes an object, half of them in reserve for nodes.

    Updates O(log^2 n) amortised. Queries O(log n) for each object they find where objects are spread evenly, O(sqrt n)
    at worst.
    """

    def __init__(self) -> None:
        self.arrays = _empty(0, _nodes_for(0))

    @classmethod
    def build(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, rows: ArrayLike) -> Self:
        """The index of objects given by column; O(n log n)."""
        rows = np.asarray(rows, np.int32)
        index = cls()
        tree = index.arrays = _empty(int(rows.max(initial=-1)) + 1, _nodes_for(len(rows)))
        tree.x[rows], tree.y[rows], tree.c[rows] = x, y, created
        tree.pos[rows] = rows
        tree.order[: len(rows)] = rows
        tree.size[OBJECTS] = len(rows)
        _build(tree, 0, len(rows))
        return index

    def contents(self) -> tuple[Floats, Floats, Ints, Ints32]:
        """In order of row."""
        tree = self.arrays
        slots = np.flatnonzero(tree.pos >= 0).astype(np.int32)
        return tree.x[slots], tree.y[slots], tree.c[slots], slots

    def reserve(self, inserts: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`. O(1) an insertion in all."""
        tree = self.arrays
        wanted = max(len(tree.up), _nodes_for(len(self) + inserts))
        if rows > len(tree.pos) or wanted > len(tree.up):
            rows = max(len(tree.pos), rows if rows <= len(tree.pos) else max(rows, len(tree.pos) * 5 // 4))
            nodes = wanted if wanted == len(tree.up) else max(wanted, len(tree.up) * 5 // 4)
            self.arrays = new = _empty(rows, nodes)
            for field in ("x", "y", "c", "pos", "at"):
                getattr(new, field)[: len(tree.pos)] = getattr(tree, field)
            for field in ("box", "holder", "live", "total", "up", "left", "right", "dim", "cut", "cut_c", "bucket"):
                getattr(new, field)[: len(tree.up)] = getattr(tree, field)
            free = int(tree.size[FREE])
            new.free[nodes - len(tree.up) : nodes - len(tree.up) + free] = tree.free[:free]
            new.size[:] = tree.size[OBJECTS], free + nodes - len(tree.up)

    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n)."""
        tree = self.arrays
        everywhere = ((-np.inf, BEFORE_ALL), (np.inf, -BEFORE_ALL))
        cells = [(0, -1, everywhere, everywhere)]
        seen, held = [], []
        while cells:
            node, parent, xs, ys = cells.pop()
            seen.append(node)
            l, r, n = int(tree.left[node]), int(tree.right[node]), int(tree.total[node])
            assert tree.up[node] == parent, tree
            if l < 0:
                rows = tree.bucket[node, :n]
                held.extend(rows.tolist())
                assert n < FULL and (parent < 0 or n >= 4), tree
                assert (tree.at[rows] == node).all() and (tree.pos[rows] == rows).all(), tree
                for x, y, c in zip(tree.x[rows].tolist(), tree.y[rows].tolist(), tree.c[rows].tolist(), strict=True):
                    assert xs[0] <= (x, c) < xs[1] and ys[0] <= (y, c) < ys[1], tree
                rows = rows[np.isfinite(tree.y[rows])]
                live, box = len(rows), [f(a[rows], initial=i) for a in (tree.x, tree.y) for f, i in _SPANS]
                holder = int(rows[np.lexsort((tree.c[rows], tree.y[rows]))[0]]) if live else -1
            else:
                cut = (float(tree.cut[node]), int(tree.cut_c[node]))
                assert (
                    n > BUCKET and n == tree.total[l] + tree.total[r] and 4 * max(tree.total[l], tree.total[r]) <= 3 * n
                ), tree
                cells.append((l, node, xs if tree.dim[node] else (xs[0], cut), (ys[0], cut) if tree.dim[node] else ys))
                cells.append((r, node, xs if tree.dim[node] else (cut, xs[1]), (cut, ys[1]) if tree.dim[node] else ys))
                live = int(tree.live[l] + tree.live[r])
                box = [f([tree.box[l, j], tree.box[r, j]]) for j, f in enumerate((min, max, min, max))]
                holders = [int(h) for h in (tree.holder[l], tree.holder[r]) if h >= 0]
                holder = min(holders, key=lambda h: (tree.y[h], tree.c[h]), default=-1)
            assert tree.live[node] == live and tree.holder[node] == holder and (tree.box[node] == box).all(), tree
        assert len(held) == len(set(held)) == tree.size[OBJECTS] == tree.total[0] == (tree.pos >= 0).sum(), tree
        assert sorted(seen + tree.free[: tree.size[FREE]].tolist()) == list(range(len(tree.up))), tree
        assert (tree.row == np.arange(len(tree.row))).all() and np.isfinite(tree.x[held]).all(), tree


_SPANS = ((np.min, np.inf), (np.max, -np.inf))


@expanded
def _better(tree: KdTree, slot: int, y_limit: float, c_limit: int) -> bool:
    """Whether a slot ranks before (y_limit, c_limit)."""
    return tree.y[slot] < y_limit or (tree.y[slot] == y_limit and tree.c[slot] < c_limit)


@expanded
def _near(tree: KdTree, node: int, east: bool) -> int:
    """The child to search first: the one towards the start of the search, or where objects rank better."""
    return tree.left[node] if east or tree.dim[node] == 1 else tree.right[node]


@expanded
def _is_promising(tree: KdTree, node: int, slot: int, y_limit: float, c_limit: int, end: float, east: bool) -> bool:
    """Whether a node may hold an object beyond `slot`, up to x = `end`, that ranks before (y_limit, c_limit)."""
    promising = tree.holder[node] >= 0 and _better(tree, tree.holder[node], y_limit, c_limit)
    if east:
        promising = promising and tree.box[node, 1] >= tree.x[slot] and tree.box[node, 0] <= end
    else:
        promising = promising and tree.box[node, 0] <= tree.x[slot] and tree.box[node, 1] >= end
    return promising


# Nine arguments: those of `_first`, a leaf and the length so far.
@expanded
def _collect(
    tree: KdTree, leaf: int, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any], n: int, east: bool
) -> int:
    """Insert the slots of a leaf beyond `slot` that rank before (y_limit, c_limit) among the k nearest; returns how
    many there are."""
    for j in range(tree.total[leaf]):
        i = int64(tree.bucket[leaf, j])
        if _better(tree, i, y_limit, c_limit) and (
            _lesser(tree.x, tree.c, slot, i) if east else _lesser(tree.x, tree.c, i, slot)
        ):
            z = n
            moving = z > 0
            while moving:
                moving = _lesser(tree.x, tree.c, i, out[z - 1]) if east else _lesser(tree.x, tree.c, out[z - 1], i)
                if moving:
                    if z < k:
                        out[z] = out[z - 1]
                    z -= 1
                    moving = z > 0
            if z < k:
                out[z] = i
                n = min(n + 1, k)
    return n


@expanded
def _first(tree: KdTree, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any], east: bool) -> int:
    """Search the slot's own leaf, then on the way to the root each sibling that may hold something nearer than the k-th
    found so far."""
    near = int64(tree.at[slot])
    n = _collect(tree, near, slot, y_limit, c_limit, k, out, 0, east)
    while near != 0:
        apex = int64(tree.up[near])
        node = int64(tree.left[apex]) + tree.right[apex] - near
        last = apex
        while node != apex:
            step = int64(tree.up[node])
            if last == step:
                end = tree.x[out[k - 1]] if n == k else INF if east else -INF
                promising = _is_promising(tree, node, slot, y_limit, c_limit, end, east)
                if promising and tree.left[node] < 0:
                    n = _collect(tree, node, slot, y_limit, c_limit, k, out, n, east)
                elif promising:
                    step = int64(_near(tree, node, east))
            elif last == _near(tree, node, east):
                step = int64(tree.left[node]) + tree.right[node] - last
            last = node
            node = step
        near = apex
    return n


@kernel
def next_west(tree: KdTree, slot: int, y_limit: float, c_limit: int) -> int:
    """O(log n) for objects spread evenly, O(sqrt n) at worst."""
    return int64(tree.order[0]) if _first(tree, slot, y_limit, c_limit, 1, tree.order, False) else int64(-1)


@kernel
def next_east(tree: KdTree, slot: int, y_limit: float, c_limit: int) -> int:
    """As `next_west`."""
    return int64(tree.order[0]) if _first(tree, slot, y_limit, c_limit, 1, tree.order, True) else int64(-1)


@kernel
def first_west(tree: KdTree, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any]) -> int:
    """One search for all: O(k + log n) for objects spread evenly, O(sqrt n + k) at worst."""
    return _first(tree, slot, y_limit, c_limit, k, out, False)


@kernel
def first_east(tree: KdTree, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any]) -> int:
    """As `first_west`."""
    return _first(tree, slot, y_limit, c_limit, k, out, True)


@expanded
def _first_child(tree: KdTree, node: int) -> int:
    """The child with the better least object."""
    l, r = int64(tree.left[node]), int64(tree.right[node])
    hl, hr = tree.holder[l], tree.holder[r]
    return r if hl < 0 or (hr >= 0 and _better(tree, hr, tree.y[hl], tree.c[hl])) else l


@kernel
def min_y(tree: KdTree, lo: float, hi: float, y0: float, c0: int) -> int:
    """Search the better child first; a box inside the range and beyond the bound is its own answer."""
    best = int64(-1)
    node = int64(0)
    last = int64(-1)
    while node >= 0:
        step = int64(tree.up[node])
        if last == step:
            h = int64(tree.holder[node])
            if h >= 0 and tree.box[node, 1] >= lo and tree.box[node, 0] <= hi and tree.box[node, 3] >= y0:
                if best < 0 or _better(tree, h, tree.y[best], tree.c[best]):
                    inside = lo <= tree.box[node, 0] and tree.box[node, 1] <= hi
                    if inside and (tree.y[h] > y0 or (tree.y[h] == y0 and tree.c[h] > c0)):
                        best = h
                    elif tree.left[node] >= 0:
                        step = _first_child(tree, node)
                    else:
                        for j in range(tree.total[node]):
                            i = int64(tree.bucket[node, j])
                            beyond = tree.y[i] > y0 or (tree.y[i] == y0 and tree.c[i] > c0)
                            if beyond and tree.y[i] <= MAX and lo <= tree.x[i] <= hi:
                                if best < 0 or _better(tree, i, tree.y[best], tree.c[best]):
                                    best = i
        elif last == _first_child(tree, node):
            step = int64(tree.left[node]) + tree.right[node] - last
        last = node
        node = step
    return best


@kernel
def count(tree: KdTree, lo: float, hi: float) -> int:
    """Add up the counts of boxes inside the range; O(sqrt n)."""
    n = 0
    node = int64(0)
    last = int64(-1)
    while node >= 0:
        step = int64(tree.up[node])
        if last == step:
            if lo <= tree.box[node, 0] and tree.box[node, 1] <= hi:
                n += tree.live[node]
            elif tree.box[node, 1] >= lo and tree.box[node, 0] <= hi:
                if tree.left[node] >= 0:
                    step = int64(tree.left[node])
                else:
                    for j in range(tree.total[node]):
                        i = tree.bucket[node, j]
                        n += tree.y[i] <= MAX and lo <= tree.x[i] <= hi
        elif last == tree.left[node]:
            step = int64(tree.right[node])
        last = node
        node = step
    return n


@kernel
def top(tree: KdTree, lo: float, hi: float, k: int, out: NDArray[Any]) -> int:
    """Best-first search with `out` as the queue: slots, and nodes as their complements, in order of their least
    objects.

    It starts with the boxes inside the range and the objects of those across its ends. The first entry that is a node
    is replaced by its child with the same least object, or by that object; the rest of it is inserted in order. What
    falls off the end has k better entries, so k better objects, before it.
    """
    n = 0
    node = int64(0 if k > 0 else -1)
    last = int64(-1)
    while node >= 0:
        step = int64(tree.up[node])
        if last == step:
            if lo <= tree.box[node, 0] and tree.box[node, 1] <= hi:
                n = _enqueue(tree, k, out, n, ~node)
            elif tree.box[node, 1] >= lo and tree.box[node, 0] <= hi:
                if tree.left[node] >= 0:
                    step = int64(tree.left[node])
                else:
                    for j in range(tree.total[node]):
                        i = int64(tree.bucket[node, j])
                        if lo <= tree.x[i] <= hi:
                            n = _enqueue(tree, k, out, n, i)
        elif last == tree.left[node]:
            step = int64(tree.right[node])
        last = node
        node = step
    place = 0
    while place < n:
        node = ~int64(out[place])
        if node < 0:
            place += 1
        elif tree.left[node] < 0:
            out[place] = tree.holder[node]
            for j in range(tree.total[node]):
                if tree.bucket[node, j] != tree.holder[node]:
                    n = _enqueue(tree, k, out, n, int64(tree.bucket[node, j]))
        else:
            first = _first_child(tree, node)
            out[place] = ~first
            n = _enqueue(tree, k, out, n, ~(int64(tree.left[node]) + tree.right[node] - first))
    return n


@internal
def _enqueue(tree: KdTree, k: int, out: NDArray[Any], n: int, entry: int) -> int:
    """Insert a slot or a node among the best k of the queue; returns the new length."""
    slot = entry if entry >= 0 else int64(tree.holder[~entry])
    if slot >= 0 and tree.y[slot] <= MAX:
        y, c = tree.y[slot], tree.c[slot]
        fits = n < k
        if not fits:
            end = int64(out[n - 1])
            end = end if end >= 0 else int64(tree.holder[~end])
            fits = _better(tree, slot, tree.y[end], tree.c[end])
        if fits:
            z = min(n, k - 1)
            n = z + 1
            shifting = z > 0
            while shifting:
                before = int64(out[z - 1])
                before = before if before >= 0 else int64(tree.holder[~before])
                shifting = not _better(tree, before, y, c)
                if shifting:
                    out[z] = out[z - 1]
                    z -= 1
                    shifting = z > 0
            out[z] = entry
    return n


@kernel
def set_y(tree: KdTree, slot: int, y: float) -> None:
    """Update the boxes above, or move the object to the leaf of its new y; O(log^2 n) amortised."""
    if y != tree.y[slot]:
        tree.y[slot] = y
        leaf = int64(tree.at[slot])
        if _leaf_of(tree, slot) == leaf:
            while leaf >= 0 and _pull(tree, leaf):
                leaf = int64(tree.up[leaf])
        else:
            _take_out(tree, slot)
            _put_in(tree, slot)


@kernel
def insert(tree: KdTree, row: int, x: float, y: float, c: int) -> int:
    """Add the object to the leaf of its cell, which is cut when full; O(log^2 n) amortised."""
    room = row < tree.pos.size and (tree.size[OBJECTS] + 1) // 2 + 4 <= tree.up.size
    if room:
        tree.x[row] = x
        tree.y[row] = y
        tree.c[row] = c
        tree.pos[row] = row
        tree.size[OBJECTS] += 1
        _put_in(tree, row)
    return row if room else -1


@kernel
def delete(tree: KdTree, row: int) -> None:
    """Remove the object from its leaf; O(log^2 n) amortised."""
    _take_out(tree, row)
    tree.pos[row] = -1
    tree.at[row] = -1
    tree.size[OBJECTS] -= 1


@expanded
def _child_for(tree: KdTree, node: int, slot: int) -> int:
    """The child on whose side of the cut a slot is."""
    value = tree.y[slot] if tree.dim[node] == 1 else tree.x[slot]
    before = value < tree.cut[node] or (value == tree.cut[node] and tree.c[slot] < tree.cut_c[node])
    return int64(tree.left[node]) if before else int64(tree.right[node])


@internal
def _leaf_of(tree: KdTree, slot: int) -> int:
    """The leaf in whose cell slot `slot` lies."""
    node = int64(0)
    while tree.left[node] >= 0:
        node = _child_for(tree, node, slot)
    return node


@internal
def _put_in(tree: KdTree, slot: int) -> None:
    """Add a slot to the leaf of its cell."""
    node = int64(0)
    while tree.left[node] >= 0:
        tree.total[node] += 1
        node = _child_for(tree, node, slot)
    tree.bucket[node, tree.total[node]] = slot
    tree.total[node] += 1
    tree.at[slot] = node
    _settle(tree, node)


@internal
def _take_out(tree: KdTree, slot: int) -> None:
    """Remove a slot from its leaf."""
    leaf = int64(tree.at[slot])
    j = 0
    while tree.bucket[leaf, j] != slot:
        j += 1
    tree.bucket[leaf, j] = tree.bucket[leaf, tree.total[leaf] - 1]
    node = leaf
    while node >= 0:
        tree.total[node] -= 1
        node = int64(tree.up[node])
    _settle(tree, leaf)


@internal
def _settle(tree: KdTree, leaf: int) -> None:
    """Update the boxes above a leaf that has changed, and rebuild the highest node that is out of balance."""
    sick = int64(-1)
    pulling = True
    node = int64(leaf)
    while node >= 0:
        pulling = pulling and _pull(tree, node)
        n = tree.total[node]
        if tree.left[node] < 0:
            if n == FULL:
                sick = node
        elif n <= BUCKET or 4 * max(tree.total[tree.left[node]], tree.total[tree.right[node]]) > 3 * n:
            sick = node
        node = int64(tree.up[node])
    if sick >= 0:
        _build(tree, sick, _collect_slots(tree, sick))


@internal
def _pull(tree: KdTree, node: int) -> bool:
    """Recompute the box, the least object and the live count of a node from below; returns whether any has changed."""
    x_lo, x_hi, y_lo, y_hi = np.inf, -np.inf, np.inf, -np.inf
    h = int64(-1)
    live: int = 0
    if tree.left[node] < 0:
        for j in range(tree.total[node]):
            i = int64(tree.bucket[node, j])
            if tree.y[i] <= MAX:
                live += 1
                x_lo = min(x_lo, tree.x[i])
                x_hi = max(x_hi, tree.x[i])
                y_hi = max(y_hi, tree.y[i])
                if h < 0 or _better(tree, i, tree.y[h], tree.c[h]):
                    h = i
    else:
        l, r = tree.left[node], tree.right[node]
        live = tree.live[l] + tree.live[r]
        x_lo = min(tree.box[l, 0], tree.box[r, 0])
        x_hi = max(tree.box[l, 1], tree.box[r, 1])
        y_hi = max(tree.box[l, 3], tree.box[r, 3])
        h = int64(tree.holder[_first_child(tree, node)])
    if h >= 0:
        y_lo = tree.y[h]
    changed = (
        tree.holder[node] != h or tree.live[node] != live or tree.box[node, 2] != y_lo or tree.box[node, 3] != y_hi
    )
    changed = changed or tree.box[node, 0] != x_lo or tree.box[node, 1] != x_hi
    tree.holder[node] = h
    tree.live[node] = live
    tree.box[node, 0] = x_lo
    tree.box[node, 1] = x_hi
    tree.box[node, 2] = y_lo
    tree.box[node, 3] = y_hi
    return changed


@internal
def _collect_slots(tree: KdTree, top_node: int) -> int:
    """Write the slots below a node to `order` and free the nodes below it; returns how many slots."""
    n = 0
    node = int64(top_node)
    down = True
    going = True
    while going:
        if down and tree.left[node] >= 0:
            node = int64(tree.left[node])
        else:
            if down:
                for j in range(tree.total[node]):
                    tree.order[n] = tree.bucket[node, j]
                    n += 1
            going = node != top_node
            if going:
                tree.free[tree.size[FREE]] = node
                tree.size[FREE] += 1
                parent = int64(tree.up[node])
                down = node == tree.left[parent]
                node = int64(tree.right[parent]) if down else parent
    return n


@kernel
def _build(tree: KdTree, top_node: int, n: int) -> None:
    """Build a balanced tree of order[:n] below a node, cutting by position and rank in turn. O(n log n)."""
    tree.stack[0, 0] = top_node
    tree.stack[0, 1] = 0
    tree.stack[0, 2] = n
    depth = 1
    while depth > 0:
        depth -= 1
        node = int64(tree.stack[depth, 0])
        lo = int64(tree.stack[depth, 1])
        hi = int64(tree.stack[depth, 2])
        if lo < 0:
            _pull(tree, node)
        elif hi - lo <= BUCKET:
            tree.left[node] = -1
            tree.right[node] = -1
            tree.total[node] = hi - lo
            for j in range(hi - lo):
                tree.bucket[node, j] = tree.order[lo + j]
                tree.at[tree.order[lo + j]] = node
            _pull(tree, node)
        else:
            middle = (lo + hi) >> 1
            tree.total[node] = hi - lo
            if tree.dim[node] == 1:
                _select(tree.order, tree.y, tree.c, lo, hi - 1, middle)
                tree.cut[node] = tree.y[tree.order[middle]]
            else:
                _select(tree.order, tree.x, tree.c, lo, hi - 1, middle)
                tree.cut[node] = tree.x[tree.order[middle]]
            tree.cut_c[node] = tree.c[tree.order[middle]]
            tree.size[FREE] -= 2
            l = tree.free[tree.size[FREE]]
            r = tree.free[tree.size[FREE] + 1]
            tree.left[node] = l
            tree.right[node] = r
            tree.up[l] = node
            tree.up[r] = node
            tree.dim[l] = 1 - tree.dim[node]
            tree.dim[r] = 1 - tree.dim[node]
            tree.stack[depth, 1] = -1  # and pull it when both children are done
            tree.stack[depth + 1, 0] = l
            tree.stack[depth + 1, 1] = lo
            tree.stack[depth + 1, 2] = middle
            tree.stack[depth + 2, 0] = r
            tree.stack[depth + 2, 1] = middle
            tree.stack[depth + 2, 2] = hi
            depth += 3


@internal
def _select(order: Ints32, values: Floats, c: Ints, first: int, last: int, kth: int) -> None:
    """Partition order[first..last] around the kth slot by (value, c): lesser ones before it, greater ones after it."""
    while first < last:
        low, middle, high = order[first], order[(first + last) >> 1], order[last]
        if _lesser(values, c, high, low):
            low, high = high, low
        pivot = low if _lesser(values, c, middle, low) else high if _lesser(values, c, high, middle) else middle
        i = first
        j = last
        while i <= j:
            while _lesser(values, c, order[i], pivot):
                i += 1
            while _lesser(values, c, pivot, order[j]):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if kth <= j:
            last = j
        elif kth >= i:
            first = i
        else:
            first = last


@expanded
def _lesser(values: Floats, c: Ints, i: int, j: int) -> bool:
    """Whether slot i comes before slot j by (value, c)."""
    return values[i] < values[j] or (values[i] == values[j] and c[i] < c[j])


@kernel
def expect(tree: KdTree, row: int) -> None:
    """O(1)."""
    prefetch_block(tree.x, int(row))
    prefetch_block(tree.y, int(row))
    if tree.pos[row] >= 0:
        prefetch_block(tree.bucket, int(tree.at[row]) * FULL)


@kernel
def expect_applied(tree: KdTree, row: int) -> None:
    """As `expect`."""
    expect(tree, row)


@kernel
def expect_walk(tree: KdTree, row: int, y: float) -> None:
    """Nothing: the nodes that a search reads are known one by one."""


implement(
    KdTree,
    *(next_west, next_east, first_west, first_east, min_y, top, count, set_y, insert, delete),
    *(expect, expect_applied, expect_walk),
)
