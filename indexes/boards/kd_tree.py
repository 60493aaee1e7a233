"""The linear-space alternative: a dynamic k-d tree over the points (x, y), with objects in buckets of up to 15.

Layout: slot = row, so slots never move. Nodes come from a pool with a free list; node 0 is the root. An inner node cuts
its objects by position (x, created) or by rank (y, created), ``dim`` 0 or 1: what lies before the cut is on the left.
Since `created` is unique, any objects can be cut, however many are equal. A node keeps the bounding box of the objects
of finite y below it as (x_lo, x_hi, y_lo, y_hi), empty (inf, -inf, inf, -inf); ``holder``, the slot of the least
(y, created) of these, or -1; their number ``live``; and the number ``total`` of all its objects.

Balance: an inner node has at least 13 objects and each of its children at most three quarters of them, so that a leaf
has 4 to 15 (the root may have fewer), the nodes are at most half as many as the objects and the depth is at most
log(n) / log(4/3). A change repairs boxes up its path and then rebuilds, cut at medians, the highest node that broke the
rule: O(log^2 n) amortised a change, in any order. A new y outside its leaf's cell takes the object to another leaf.
Walks need no stack: nodes know their parents.

The paper names this structure as the way to O(n) space (IV-D); queries may cost O(sqrt n).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.objects import BEFORE_ALL, MAX, ObjectIndex, implement
from indexes.jit import inline_kernel
from indexes.lanes import prefetch_block
from indexes.lean import inner_kernel, lean_kernel

FULL = 16
"""A leaf with so many objects is cut."""

BUCKET = 12
"""A leaf made by a rebuild has at most so many; an inner node has more."""

Index = Any
"""An integer of any width: a slot, a node or a number of them."""

OBJECTS, FREE = 0, 1
"""Places in `size`: objects in the tree, nodes on the free list."""


class KdTree(NamedTuple):
    """The arrays of a k-d tree; see the module's text."""

    x: NDArray[np.float64]  # by row, as the next five
    y: NDArray[np.float64]
    c: NDArray[np.int64]
    row: NDArray[np.int32]
    pos: NDArray[np.int32]
    at: NDArray[np.int32]  # the leaf of each row
    box: NDArray[np.float64]  # by node, as all up to bucket
    holder: NDArray[np.int32]
    live: NDArray[np.int32]
    total: NDArray[np.int32]
    up: NDArray[np.int32]
    left: NDArray[np.int32]  # -1: a leaf
    right: NDArray[np.int32]
    dim: NDArray[np.int8]
    cut: NDArray[np.float64]
    cut_c: NDArray[np.int64]
    bucket: NDArray[np.int32]
    free: NDArray[np.int32]
    size: NDArray[np.int64]
    order: NDArray[np.int32]  # scratch of a rebuild
    stack: NDArray[np.int32]


def _nodes_for(objects: int) -> int:
    return objects // 2 + 4


def _empty(rows: int, nodes: int) -> KdTree:
    o = KdTree(
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
    o.up[0], o.dim[0] = -1, 0
    _build(o, 0, 0)
    return o


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
        o = index.arrays = _empty(int(rows.max(initial=-1)) + 1, _nodes_for(len(rows)))
        o.x[rows], o.y[rows], o.c[rows] = x, y, created
        o.pos[rows] = rows
        o.order[: len(rows)] = rows
        o.size[OBJECTS] = len(rows)
        _build(o, 0, len(rows))
        return index

    def contents(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]:
        """In order of row."""
        o = self.arrays
        s = np.flatnonzero(o.pos >= 0).astype(np.int32)
        return o.x[s], o.y[s], o.c[s], s

    def reserve(self, inserts: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`. O(1) an insertion in all."""
        o = self.arrays
        wanted = max(len(o.up), _nodes_for(len(self) + inserts))
        if rows > len(o.pos) or wanted > len(o.up):
            rows = max(len(o.pos), rows if rows <= len(o.pos) else max(rows, len(o.pos) * 5 // 4))
            nodes = wanted if wanted == len(o.up) else max(wanted, len(o.up) * 5 // 4)
            self.arrays = new = _empty(rows, nodes)
            for field in ("x", "y", "c", "pos", "at"):
                getattr(new, field)[: len(o.pos)] = getattr(o, field)
            for field in ("box", "holder", "live", "total", "up", "left", "right", "dim", "cut", "cut_c", "bucket"):
                getattr(new, field)[: len(o.up)] = getattr(o, field)
            free = int(o.size[FREE])
            new.free[nodes - len(o.up) : nodes - len(o.up) + free] = o.free[:free]
            new.size[:] = o.size[OBJECTS], free + nodes - len(o.up)

    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n)."""
        o = self.arrays
        everywhere = ((-np.inf, BEFORE_ALL), (np.inf, -BEFORE_ALL))
        cells = [(0, -1, everywhere, everywhere)]
        seen, held = [], []
        while cells:
            node, parent, xs, ys = cells.pop()
            seen.append(node)
            l, r, n = int(o.left[node]), int(o.right[node]), int(o.total[node])
            assert o.up[node] == parent, o
            if l < 0:
                rows = o.bucket[node, :n]
                held.extend(rows.tolist())
                assert n < FULL and (parent < 0 or n >= 4), o
                assert (o.at[rows] == node).all() and (o.pos[rows] == rows).all(), o
                for x, y, c in zip(o.x[rows].tolist(), o.y[rows].tolist(), o.c[rows].tolist(), strict=True):
                    assert xs[0] <= (x, c) < xs[1] and ys[0] <= (y, c) < ys[1], o
                rows = rows[np.isfinite(o.y[rows])]
                live, box = len(rows), [f(a[rows], initial=i) for a in (o.x, o.y) for f, i in _SPANS]
                holder = int(rows[np.lexsort((o.c[rows], o.y[rows]))[0]]) if live else -1
            else:
                cut = (float(o.cut[node]), int(o.cut_c[node]))
                assert n > BUCKET and n == o.total[l] + o.total[r] and 4 * max(o.total[l], o.total[r]) <= 3 * n, o
                cells.append((l, node, xs if o.dim[node] else (xs[0], cut), (ys[0], cut) if o.dim[node] else ys))
                cells.append((r, node, xs if o.dim[node] else (cut, xs[1]), (cut, ys[1]) if o.dim[node] else ys))
                live = int(o.live[l] + o.live[r])
                box = [f([o.box[l, j], o.box[r, j]]) for j, f in enumerate((min, max, min, max))]
                holders = [int(h) for h in (o.holder[l], o.holder[r]) if h >= 0]
                holder = min(holders, key=lambda h: (o.y[h], o.c[h]), default=-1)
            assert o.live[node] == live and o.holder[node] == holder and (o.box[node] == box).all(), o
        assert len(held) == len(set(held)) == o.size[OBJECTS] == o.total[0] == (o.pos >= 0).sum(), o
        assert sorted(seen + o.free[: o.size[FREE]].tolist()) == list(range(len(o.up))), o
        assert (o.row == np.arange(len(o.row))).all() and np.isfinite(o.x[held]).all(), o


_SPANS = ((np.min, np.inf), (np.max, -np.inf))


@inline_kernel
def _better(o, s, T, Tc):  # type: ignore[no-untyped-def]
    """Whether slot `s` ranks before (T, Tc)."""
    return o.y[s] < T or (o.y[s] == T and o.c[s] < Tc)


@inline_kernel
def _near(o, node, east):  # type: ignore[no-untyped-def]
    """The child to search first: towards the start of the search, and where objects rank better."""
    return o.left[node] if east or o.dim[node] == 1 else o.right[node]


@inline_kernel
def _scan(o, leaf, s, T, Tc, east, best):  # type: ignore[no-untyped-def]
    """The slot of a leaf beyond `s` that ranks before (T, Tc) and is nearer than `best`, or `best`."""
    for j in range(o.total[leaf]):
        i = np.int64(o.bucket[leaf, j])
        if _better(o, i, T, Tc):
            if east:
                closer = _lesser(o.x, o.c, s, i) and (best < 0 or _lesser(o.x, o.c, i, best))
            else:
                closer = _lesser(o.x, o.c, i, s) and (best < 0 or _lesser(o.x, o.c, best, i))
            if closer:
                best = i
    return best


@inline_kernel
def _next(o, s, T, Tc, east):  # type: ignore[no-untyped-def]
    """Search the slot's own leaf, then on the way to the root each sibling whose box may hold something nearer."""
    near = np.int64(o.at[s])
    best = _scan(o, near, s, T, Tc, east, np.int64(-1))
    while near != 0:
        apex = np.int64(o.up[near])
        node = np.int64(o.left[apex]) + o.right[apex] - near
        last = apex
        while node != apex:
            step = np.int64(o.up[node])
            if last == step:
                hopeful = o.holder[node] >= 0 and _better(o, o.holder[node], T, Tc)
                if east:
                    hopeful = hopeful and o.box[node, 1] >= o.x[s] and (best < 0 or o.box[node, 0] <= o.x[best])
                else:
                    hopeful = hopeful and o.box[node, 0] <= o.x[s] and (best < 0 or o.box[node, 1] >= o.x[best])
                if hopeful and o.left[node] < 0:
                    best = _scan(o, node, s, T, Tc, east, best)
                elif hopeful:
                    step = np.int64(_near(o, node, east))
            elif last == _near(o, node, east):
                step = np.int64(o.left[node]) + o.right[node] - last
            last = node
            node = step
        near = apex
    return best


@lean_kernel
def next_west(o: KdTree, s: Index, T: float, Tc: int) -> Index:
    """O(log n) for objects spread evenly, O(sqrt n) at worst."""
    return _next(o, s, T, Tc, False)


@lean_kernel
def next_east(o: KdTree, s: Index, T: float, Tc: int) -> Index:
    """As `next_west`."""
    return _next(o, s, T, Tc, True)


@inline_kernel
def _collect(o, leaf, s, T, Tc, k, out, n, east):  # type: ignore[no-untyped-def]
    """Put the slots of a leaf beyond `s` that rank before (T, Tc) in their places among the k nearest."""
    for j in range(o.total[leaf]):
        i = np.int64(o.bucket[leaf, j])
        if _better(o, i, T, Tc) and (_lesser(o.x, o.c, s, i) if east else _lesser(o.x, o.c, i, s)):
            z = n
            moving = z > 0
            while moving:
                moving = _lesser(o.x, o.c, i, out[z - 1]) if east else _lesser(o.x, o.c, out[z - 1], i)
                if moving:
                    if z < k:
                        out[z] = out[z - 1]
                    z -= 1
                    moving = z > 0
            if z < k:
                out[z] = i
                n = min(n + 1, k)
    return n


@inline_kernel
def _first(o, s, T, Tc, k, out, east):  # type: ignore[no-untyped-def]
    """As `_next`, with the k-th nearest so far in place of the nearest."""
    near = np.int64(o.at[s])
    n = _collect(o, near, s, T, Tc, k, out, 0, east)
    while near != 0:
        apex = np.int64(o.up[near])
        node = np.int64(o.left[apex]) + o.right[apex] - near
        last = apex
        while node != apex:
            step = np.int64(o.up[node])
            if last == step:
                hopeful = o.holder[node] >= 0 and _better(o, o.holder[node], T, Tc)
                if east:
                    hopeful = hopeful and o.box[node, 1] >= o.x[s] and (n < k or o.box[node, 0] <= o.x[out[k - 1]])
                else:
                    hopeful = hopeful and o.box[node, 0] <= o.x[s] and (n < k or o.box[node, 1] >= o.x[out[k - 1]])
                if hopeful and o.left[node] < 0:
                    n = _collect(o, node, s, T, Tc, k, out, n, east)
                elif hopeful:
                    step = np.int64(_near(o, node, east))
            elif last == _near(o, node, east):
                step = np.int64(o.left[node]) + o.right[node] - last
            last = node
            node = step
        near = apex
    return n


@lean_kernel
def first_west(o: KdTree, s: Index, T: float, Tc: int, k: int, out: NDArray[Any]) -> Index:
    """One search for all: O(k + log n) for objects spread evenly, O(sqrt n + k) at worst."""
    return _first(o, s, T, Tc, k, out, False)


@lean_kernel
def first_east(o: KdTree, s: Index, T: float, Tc: int, k: int, out: NDArray[Any]) -> Index:
    """As `first_west`."""
    return _first(o, s, T, Tc, k, out, True)


@inline_kernel
def _first_child(o, node):  # type: ignore[no-untyped-def]
    """The child with the better least object."""
    l, r = np.int64(o.left[node]), np.int64(o.right[node])
    hl, hr = o.holder[l], o.holder[r]
    return r if hl < 0 or (hr >= 0 and _better(o, hr, o.y[hl], o.c[hl])) else l


@lean_kernel
def min_y(o: KdTree, lo: float, hi: float, y0: float, c0: int) -> Index:
    """Search the better child first; a box inside the range and beyond the bound is its own answer."""
    best = np.int64(-1)
    node = np.int64(0)
    last = np.int64(-1)
    while node >= 0:
        step = np.int64(o.up[node])
        if last == step:
            h = np.int64(o.holder[node])
            if h >= 0 and o.box[node, 1] >= lo and o.box[node, 0] <= hi and o.box[node, 3] >= y0:
                if best < 0 or _better(o, h, o.y[best], o.c[best]):
                    inside = lo <= o.box[node, 0] and o.box[node, 1] <= hi
                    if inside and (o.y[h] > y0 or (o.y[h] == y0 and o.c[h] > c0)):
                        best = h
                    elif o.left[node] >= 0:
                        step = _first_child(o, node)
                    else:
                        for j in range(o.total[node]):
                            i = np.int64(o.bucket[node, j])
                            beyond = o.y[i] > y0 or (o.y[i] == y0 and o.c[i] > c0)
                            if beyond and o.y[i] <= MAX and lo <= o.x[i] <= hi:
                                if best < 0 or _better(o, i, o.y[best], o.c[best]):
                                    best = i
        elif last == _first_child(o, node):
            step = np.int64(o.left[node]) + o.right[node] - last
        last = node
        node = step
    return best


@lean_kernel
def count(o: KdTree, lo: float, hi: float) -> Index:
    """Add up the counts of boxes inside the range; O(sqrt n)."""
    n = 0
    node = np.int64(0)
    last = np.int64(-1)
    while node >= 0:
        step = np.int64(o.up[node])
        if last == step:
            if lo <= o.box[node, 0] and o.box[node, 1] <= hi:
                n += o.live[node]
            elif o.box[node, 1] >= lo and o.box[node, 0] <= hi:
                if o.left[node] >= 0:
                    step = np.int64(o.left[node])
                else:
                    for j in range(o.total[node]):
                        i = o.bucket[node, j]
                        n += o.y[i] <= MAX and lo <= o.x[i] <= hi
        elif last == o.left[node]:
            step = np.int64(o.right[node])
        last = node
        node = step
    return n


@lean_kernel
def top(o: KdTree, lo: float, hi: float, k: int, out: NDArray[Any]) -> Index:
    """Best first, and `out` is the queue: slots, and nodes as their complements, in order of their least objects.

    It starts with the boxes inside the range and the objects of those across its ends. The first entry that is a node
    gives way to its child with the same least object, or to that object; the rest of it is put in its place. What falls
    off the end has k better entries, so k better objects, before it.
    """
    n = 0
    node = np.int64(0 if k > 0 else -1)
    last = np.int64(-1)
    while node >= 0:
        step = np.int64(o.up[node])
        if last == step:
            if lo <= o.box[node, 0] and o.box[node, 1] <= hi:
                n = _enqueue(o, k, out, n, ~node)
            elif o.box[node, 1] >= lo and o.box[node, 0] <= hi:
                if o.left[node] >= 0:
                    step = np.int64(o.left[node])
                else:
                    for j in range(o.total[node]):
                        i = np.int64(o.bucket[node, j])
                        if lo <= o.x[i] <= hi:
                            n = _enqueue(o, k, out, n, i)
        elif last == o.left[node]:
            step = np.int64(o.right[node])
        last = node
        node = step
    place = 0
    while place < n:
        node = ~np.int64(out[place])
        if node < 0:
            place += 1
        elif o.left[node] < 0:
            out[place] = o.holder[node]
            for j in range(o.total[node]):
                if o.bucket[node, j] != o.holder[node]:
                    n = _enqueue(o, k, out, n, np.int64(o.bucket[node, j]))
        else:
            first = _first_child(o, node)
            out[place] = ~first
            n = _enqueue(o, k, out, n, ~(np.int64(o.left[node]) + o.right[node] - first))
    return n


@inner_kernel
def _enqueue(o: KdTree, k: int, out: NDArray[Any], n: Index, entry: Index) -> Index:
    """Put a slot or a node in its place among the best k of the queue; returns the new length."""
    s = entry if entry >= 0 else np.int64(o.holder[~entry])
    if s >= 0 and o.y[s] <= MAX:
        y, c = o.y[s], o.c[s]
        fits = n < k
        if not fits:
            end = np.int64(out[n - 1])
            end = end if end >= 0 else np.int64(o.holder[~end])
            fits = _better(o, s, o.y[end], o.c[end])
        if fits:
            z = min(n, k - 1)
            n = z + 1
            shifting = z > 0
            while shifting:
                before = np.int64(out[z - 1])
                before = before if before >= 0 else np.int64(o.holder[~before])
                shifting = not _better(o, before, y, c)
                if shifting:
                    out[z] = out[z - 1]
                    z -= 1
                    shifting = z > 0
            out[z] = entry
    return n


@lean_kernel
def set_y(o: KdTree, s: Index, y: float) -> None:
    """Repair the boxes above, or take the object to the leaf of its new y; O(log^2 n) amortised."""
    if y != o.y[s]:
        o.y[s] = y
        leaf = np.int64(o.at[s])
        if _leaf_of(o, s) == leaf:
            while leaf >= 0 and _pull(o, leaf):
                leaf = np.int64(o.up[leaf])
        else:
            _take_out(o, s)
            _put_in(o, s)


@lean_kernel
def insert(o: KdTree, row: Index, x: float, y: float, c: int) -> Index:
    """Put the object into the leaf of its cell, which is cut when full; O(log^2 n) amortised."""
    room = row < o.pos.size and (o.size[OBJECTS] + 1) // 2 + 4 <= o.up.size
    if room:
        o.x[row] = x
        o.y[row] = y
        o.c[row] = c
        o.pos[row] = row
        o.size[OBJECTS] += 1
        _put_in(o, row)
    return row if room else -1


@lean_kernel
def delete(o: KdTree, row: Index) -> None:
    """Take the object out of its leaf; O(log^2 n) amortised."""
    _take_out(o, row)
    o.pos[row] = -1
    o.at[row] = -1
    o.size[OBJECTS] -= 1


@inline_kernel
def _child_for(o, node, s):  # type: ignore[no-untyped-def]
    """The child whose side of the cut slot `s` is on."""
    v = o.y[s] if o.dim[node] == 1 else o.x[s]
    before = v < o.cut[node] or (v == o.cut[node] and o.c[s] < o.cut_c[node])
    return np.int64(o.left[node]) if before else np.int64(o.right[node])


@inner_kernel
def _leaf_of(o: KdTree, s: Index) -> Index:
    """The leaf in whose cell slot `s` lies."""
    node = np.int64(0)
    while o.left[node] >= 0:
        node = _child_for(o, node, s)
    return node


@inner_kernel
def _put_in(o: KdTree, s: Index) -> None:
    node = np.int64(0)
    while o.left[node] >= 0:
        o.total[node] += 1
        node = _child_for(o, node, s)
    o.bucket[node, o.total[node]] = s
    o.total[node] += 1
    o.at[s] = node
    _settle(o, node)


@inner_kernel
def _take_out(o: KdTree, s: Index) -> None:
    leaf = np.int64(o.at[s])
    j = 0
    while o.bucket[leaf, j] != s:
        j += 1
    o.bucket[leaf, j] = o.bucket[leaf, o.total[leaf] - 1]
    node = leaf
    while node >= 0:
        o.total[node] -= 1
        node = np.int64(o.up[node])
    _settle(o, leaf)


@inner_kernel
def _settle(o: KdTree, leaf: Index) -> None:
    """Repair the boxes above a leaf that has changed, and rebuild the highest node that is out of balance."""
    sick = np.int64(-1)
    pulling = True
    node = np.int64(leaf)
    while node >= 0:
        pulling = pulling and _pull(o, node)
        n = o.total[node]
        if o.left[node] < 0:
            if n == FULL:
                sick = node
        elif n <= BUCKET or 4 * max(o.total[o.left[node]], o.total[o.right[node]]) > 3 * n:
            sick = node
        node = np.int64(o.up[node])
    if sick >= 0:
        _build(o, sick, _gather(o, sick))


@inner_kernel
def _pull(o: KdTree, node: Index) -> bool:
    """Recompute the box, the least object and the live count of a node from below; whether any has changed."""
    x_lo, x_hi, y_lo, y_hi = np.inf, -np.inf, np.inf, -np.inf
    h = np.int64(-1)
    live: Index = 0
    if o.left[node] < 0:
        for j in range(o.total[node]):
            i = np.int64(o.bucket[node, j])
            if o.y[i] <= MAX:
                live += 1
                x_lo = min(x_lo, o.x[i])
                x_hi = max(x_hi, o.x[i])
                y_hi = max(y_hi, o.y[i])
                if h < 0 or _better(o, i, o.y[h], o.c[h]):
                    h = i
    else:
        l, r = o.left[node], o.right[node]
        live = o.live[l] + o.live[r]
        x_lo = min(o.box[l, 0], o.box[r, 0])
        x_hi = max(o.box[l, 1], o.box[r, 1])
        y_hi = max(o.box[l, 3], o.box[r, 3])
        h = np.int64(o.holder[_first_child(o, node)])
    if h >= 0:
        y_lo = o.y[h]
    changed = o.holder[node] != h or o.live[node] != live or o.box[node, 2] != y_lo or o.box[node, 3] != y_hi
    changed = changed or o.box[node, 0] != x_lo or o.box[node, 1] != x_hi
    o.holder[node] = h
    o.live[node] = live
    o.box[node, 0] = x_lo
    o.box[node, 1] = x_hi
    o.box[node, 2] = y_lo
    o.box[node, 3] = y_hi
    return changed


@inner_kernel
def _gather(o: KdTree, top_node: Index) -> Index:
    """Write the slots below a node to `order` and free the nodes below it; returns how many slots."""
    n = 0
    node = np.int64(top_node)
    down = True
    going = True
    while going:
        if down and o.left[node] >= 0:
            node = np.int64(o.left[node])
        else:
            if down:
                for j in range(o.total[node]):
                    o.order[n] = o.bucket[node, j]
                    n += 1
            going = node != top_node
            if going:
                o.free[o.size[FREE]] = node
                o.size[FREE] += 1
                parent = np.int64(o.up[node])
                down = node == o.left[parent]
                node = np.int64(o.right[parent]) if down else parent
    return n


@lean_kernel
def _build(o: KdTree, top_node: Index, n: Index) -> None:
    """Make a balanced tree of order[:n] below a node, cutting by position and rank in turn."""
    o.stack[0, 0] = top_node
    o.stack[0, 1] = 0
    o.stack[0, 2] = n
    depth = 1
    while depth > 0:
        depth -= 1
        node = np.int64(o.stack[depth, 0])
        lo = np.int64(o.stack[depth, 1])
        hi = np.int64(o.stack[depth, 2])
        if lo < 0:
            _pull(o, node)
        elif hi - lo <= BUCKET:
            o.left[node] = -1
            o.right[node] = -1
            o.total[node] = hi - lo
            for j in range(hi - lo):
                o.bucket[node, j] = o.order[lo + j]
                o.at[o.order[lo + j]] = node
            _pull(o, node)
        else:
            middle = (lo + hi) >> 1
            o.total[node] = hi - lo
            if o.dim[node] == 1:
                _select(o.order, o.y, o.c, lo, hi - 1, middle)
                o.cut[node] = o.y[o.order[middle]]
            else:
                _select(o.order, o.x, o.c, lo, hi - 1, middle)
                o.cut[node] = o.x[o.order[middle]]
            o.cut_c[node] = o.c[o.order[middle]]
            o.size[FREE] -= 2
            l = o.free[o.size[FREE]]
            r = o.free[o.size[FREE] + 1]
            o.left[node] = l
            o.right[node] = r
            o.up[l] = node
            o.up[r] = node
            o.dim[l] = 1 - o.dim[node]
            o.dim[r] = 1 - o.dim[node]
            o.stack[depth, 1] = -1  # and pull it when both children are done
            o.stack[depth + 1, 0] = l
            o.stack[depth + 1, 1] = lo
            o.stack[depth + 1, 2] = middle
            o.stack[depth + 2, 0] = r
            o.stack[depth + 2, 1] = middle
            o.stack[depth + 2, 2] = hi
            depth += 3


@inner_kernel
def _select(
    order: NDArray[np.int32], v: NDArray[np.float64], c: NDArray[np.int64], a: Index, e: Index, kth: Index
) -> None:
    """Put the slots of order[a..e] around the kth by (v, c): lesser ones before it, greater ones after it."""
    while a < e:
        low, middle, high = order[a], order[(a + e) >> 1], order[e]
        if _lesser(v, c, high, low):
            low, high = high, low
        pivot = low if _lesser(v, c, middle, low) else high if _lesser(v, c, high, middle) else middle
        i = a
        j = e
        while i <= j:
            while _lesser(v, c, order[i], pivot):
                i += 1
            while _lesser(v, c, pivot, order[j]):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if kth <= j:
            e = j
        elif kth >= i:
            a = i
        else:
            a = e


@inline_kernel
def _lesser(v, c, i, j):  # type: ignore[no-untyped-def]
    return v[i] < v[j] or (v[i] == v[j] and c[i] < c[j])


@lean_kernel
def expect(o: KdTree, row: int) -> None:
    """O(1)."""
    prefetch_block(o.x, int(row))
    prefetch_block(o.y, int(row))
    if o.pos[row] >= 0:
        prefetch_block(o.bucket, int(o.at[row]) * FULL)


implement(KdTree, next_west, next_east, first_west, first_east, min_y, top, count, set_y, insert, delete, expect)
