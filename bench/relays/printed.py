"""The paper's k-d tree as its Section IV-C has it, to count what its Tables I and II count.

An inner node cuts at the median of what it had when it was split, dimension after dimension in turn; points are in
buckets. One of more than `full` points is split, one of less than half of that merged with its sibling if that is a
bucket as well and both fit into one. A search goes down to the rightmost bucket, compares point after point until it
has enough, and comes back; it leaves out what lies below a cut, and, with `corners`, every node whose points' largest
coordinates do not reach the query's; these are not lowered when a point goes. Points must differ from each other.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.relays.workload import Commands
from indexes.lean import inner_kernel, lean_kernel
from indexes.relays.forward import SUBSCRIBE
from indexes.relays.graph import empty_graph, link, remove
from indexes.relays.points import covers

FULL = 36
"""Points of a bucket at most. The paper does not say how many."""

INNER, WAY, BUCKETS, COMPARED, SEARCHES = range(5)
"""What is counted, by column: inner nodes looked at, those on the way to the rightmost bucket, buckets looked at,
points compared, and searches."""


class Counts(NamedTuple):
    """What commands cost: `seen` by subscribing and by unsubscribing, of shape (2, 5), and seconds of thread time. How
    many subscriptions were forwarded in all."""

    seen: NDArray[np.int64]
    forwarded: int
    seconds: float


class PrintedTree(NamedTuple):
    """The arrays of the tree; node 0 is the root."""

    dim: NDArray[np.int64]  # by node; -1: a bucket
    cut: NDArray[np.float64]  # by node: what is at most this is on the left
    child: NDArray[np.int64]  # (nodes, 2); of a free node the next one
    up: NDArray[np.int64]
    total: NDArray[np.int64]  # by node: points of a bucket
    held: NDArray[np.int32]  # (nodes, full): their slots
    corner: NDArray[np.float64]  # (nodes, D)
    at: NDArray[np.int64]  # by slot: its bucket
    stack: NDArray[np.int64]
    sorted: NDArray[np.float64]  # room for the coordinates of a bucket and one more
    size: NDArray[np.int64]  # nodes used, and the first free one or -1


def empty_tree(slots: int, coordinates: int, full: int) -> PrintedTree:
    """A tree without points, and room for so many."""
    nodes = 2 * slots + 1
    tree = PrintedTree(
        dim=np.empty(nodes, np.int64),
        cut=np.empty(nodes),
        child=np.empty((nodes, 2), np.int64),
        up=np.empty(nodes, np.int64),
        total=np.empty(nodes, np.int64),
        held=np.empty((nodes, full), np.int32),
        corner=np.empty((nodes, coordinates)),
        at=np.empty(slots, np.int64),
        stack=np.empty(nodes, np.int64),
        sorted=np.empty(full + 1),
        size=np.array([1, -1]),
    )
    tree.dim[0] = tree.up[0] = -1
    tree.total[0] = 0
    tree.corner[0] = -np.inf
    return tree


@inner_kernel
def _take_bucket(o, up):  # type: ignore[no-untyped-def]
    v = o.size[1]
    if v >= 0:
        o.size[1] = o.child[v, 0]
    else:
        v = o.size[0]
        o.size[0] += 1
    o.dim[v] = -1
    o.up[v] = up
    o.total[v] = 0
    for j in range(o.corner.shape[1]):
        o.corner[v, j] = -np.inf
    return v


@inner_kernel
def _put(o, exact, v, t):  # type: ignore[no-untyped-def]
    o.held[v, o.total[v]] = t
    o.total[v] += 1
    o.at[t] = v
    for j in range(o.corner.shape[1]):
        o.corner[v, j] = max(o.corner[v, j], exact[t, j])


@inner_kernel
def _split(o, exact, v, t, depth):  # type: ignore[no-untyped-def]
    """Make a full bucket an inner node, with t."""
    full, coordinates = o.held.shape[1], o.corner.shape[1]
    dim = depth % coordinates
    differ = False
    while not differ:
        for i in range(full):
            differ |= exact[o.held[v, i], dim] != exact[t, dim]
        if not differ:
            dim = (dim + 1) % coordinates
    for i in range(full + 1):
        x = exact[o.held[v, i] if i < full else t, dim]
        j = i
        while j > 0 and o.sorted[j - 1] > x:
            o.sorted[j] = o.sorted[j - 1]
            j -= 1
        o.sorted[j] = x
    m = full // 2
    while o.sorted[m] == o.sorted[full]:
        m -= 1
    o.dim[v], o.cut[v] = dim, o.sorted[m]
    for side in range(2):
        o.child[v, side] = _take_bucket(o, v)
    for i in range(full + 1):
        s = o.held[v, i] if i < full else t
        _put(o, exact, o.child[v, np.int64(exact[s, dim] > o.cut[v])], s)


@inner_kernel
def _insert(o, exact, t):  # type: ignore[no-untyped-def]
    v = np.int64(0)
    depth = 0
    while o.dim[v] >= 0:
        for j in range(o.corner.shape[1]):
            o.corner[v, j] = max(o.corner[v, j], exact[t, j])
        v = o.child[v, np.int64(exact[t, o.dim[v]] > o.cut[v])]
        depth += 1
    if o.total[v] < o.held.shape[1]:
        _put(o, exact, v, t)
    else:
        for j in range(o.corner.shape[1]):
            o.corner[v, j] = max(o.corner[v, j], exact[t, j])
        _split(o, exact, v, t, depth)


@inner_kernel
def _merge(o, exact, v):  # type: ignore[no-untyped-def]
    """Make the parent of two buckets, of which v is one, a bucket with what they have."""
    parent = o.up[v]
    o.dim[parent] = -1
    o.total[parent] = 0
    for side in range(2):
        w = o.child[parent, side]
        for i in range(o.total[w]):
            _put(o, exact, parent, o.held[w, i])
    for side in range(2):
        w = o.child[parent, side]
        o.child[w, 0] = o.size[1]
        o.size[1] = w


@inner_kernel
def _delete(o, exact, t):  # type: ignore[no-untyped-def]
    full = o.held.shape[1]
    v = o.at[t]
    i = 0
    while o.held[v, i] != t:
        i += 1
    o.total[v] -= 1
    o.held[v, i] = o.held[v, o.total[v]]
    merging = True
    while merging:
        merging = False
        if 2 * o.total[v] < full and o.up[v] >= 0:
            a, b = o.child[o.up[v], 0], o.child[o.up[v], 1]
            if o.dim[a] < 0 and o.dim[b] < 0 and o.total[a] + o.total[b] <= full:
                w = o.up[v]
                _merge(o, exact, v)
                v = w
                merging = True


@inner_kernel
def _search(o, points, t, k, corners, out, seen, u):  # type: ignore[no-untyped-def]
    """Up to k points that cover t, to `out`; returns how many."""
    exact, stack = points.exact, o.stack
    found = 0
    v = np.int64(0)
    while o.dim[v] >= 0:
        v = o.child[v, 1]
        seen[u, WAY] += 1
    stack[0] = 0
    sp = 1
    while sp > 0 and found < k:
        sp -= 1
        v = stack[sp]
        bucket = o.dim[v] < 0
        seen[u, BUCKETS if bucket else INNER] += 1
        j = 0 if corners else exact.shape[1]
        while j < exact.shape[1] and o.corner[v, j] >= exact[t, j]:
            j += 1
        if j == exact.shape[1] and bucket:
            i = 0
            while i < o.total[v] and found < k:
                x = np.int64(o.held[v, i])
                if covers(points, x, t):
                    out[found] = x
                    found += 1
                i += 1
            seen[u, COMPARED] += i
        elif j == exact.shape[1]:
            if exact[t, o.dim[v]] <= o.cut[v]:
                stack[sp] = o.child[v, 0]
                sp += 1
            stack[sp] = o.child[v, 1]
            sp += 1
    seen[u, SEARCHES] += 1
    return found


@lean_kernel
def _run(o, points, graph, k, corners, op, slot, out, orphans, seen):  # type: ignore[no-untyped-def]
    """Carry out commands under G_k; row 0 of `seen` counts for subscribing, row 1 for unsubscribing. Returns how many
    subscriptions were found to be covered by nothing."""
    uncovered = 0
    for i in range(op.size):
        s = slot[i]
        n = 1
        if op[i] == SUBSCRIBE:
            orphans[0] = s
        else:
            _delete(o, points.exact, s)
            n = remove(graph, k, s, orphans)
        for z in range(n):
            t = orphans[z]
            found = _search(o, points, t, k, corners, out, seen, np.int64(op[i]))
            for y in range(found):
                link(graph, k, t, out[y])
            uncovered += found == 0
        if op[i] == SUBSCRIBE:
            _insert(o, points.exact, s)
    return uncovered


def count(commands: Commands, k: int, full: int = FULL, corners: bool = True) -> Counts:
    """Carry out commands under G_k."""
    points = commands.table()
    n, coordinates = points.exact.shape
    seen = np.zeros((2, 5), np.int64)
    o, graph, orphans = empty_tree(n, coordinates, full), empty_graph(n, k), np.empty(n, np.int32)
    began = time.thread_time()
    forwarded = _run(o, points, graph, k, corners, commands.op, commands.slot, np.empty(k, np.int32), orphans, seen)
    return Counts(seen, int(forwarded), time.thread_time() - began)
