"""The k-d tree as [Covering] IV-C describes it, to count what Tables I and II there count.

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

from bench.relays.workload import Commands
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Bytes, Floats, Ints, Ints32, int64
from indexes.relays.kernels.forward import SUBSCRIBE
from indexes.relays.kernels.graph import Graph, empty_graph, link, remove
from indexes.relays.kernels.points import Points, covers

FULL = 36
"""Points of a bucket at most. [Covering] does not say how many."""

INNER, WAY, BUCKETS, COMPARED, SEARCHES = range(5)
"""What is counted, by column: inner nodes looked at, those on the way to the rightmost bucket, buckets looked at,
points compared, and searches."""


class Counts(NamedTuple):
    """What commands cost: `seen` by subscribing and by unsubscribing, of shape (2, 5), and seconds of thread time. How
    many subscriptions were forwarded in all."""

    seen: Ints
    forwarded: int
    seconds: float


class PrintedTree(NamedTuple):
    """The arrays of the tree; node 0 is the root."""

    dim: Ints  # by node; -1: a bucket
    cut: Floats  # by node: what is at most this is on the left
    child: Ints  # (nodes, 2); of a free node the next one
    up: Ints
    total: Ints  # by node: points of a bucket
    held: Ints32  # (nodes, full): their slots
    corner: Floats  # (nodes, D)
    at: Ints  # by slot: its bucket
    stack: Ints
    sorted: Floats  # room for the coordinates of a bucket and one more
    size: Ints  # nodes used, and the first free one or -1


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


@internal
def _take_bucket(tree: PrintedTree, parent: int) -> int:
    v = tree.size[1]
    if v >= 0:
        tree.size[1] = tree.child[v, 0]
    else:
        v = tree.size[0]
        tree.size[0] += 1
    tree.dim[v] = -1
    tree.up[v] = parent
    tree.total[v] = 0
    for j in range(tree.corner.shape[1]):
        tree.corner[v, j] = -np.inf
    return v


@internal
def _put(tree: PrintedTree, exact: Floats, node: int, slot: int) -> None:
    tree.held[node, tree.total[node]] = slot
    tree.total[node] += 1
    tree.at[slot] = node
    for j in range(tree.corner.shape[1]):
        tree.corner[node, j] = max(tree.corner[node, j], exact[slot, j])


@internal
def _split(tree: PrintedTree, exact: Floats, node: int, slot: int, depth: int) -> None:
    """Make a full bucket an inner node, with t."""
    full, coordinates = tree.held.shape[1], tree.corner.shape[1]
    dim = depth % coordinates
    differ = False
    while not differ:
        for i in range(full):
            differ |= exact[tree.held[node, i], dim] != exact[slot, dim]
        if not differ:
            dim = (dim + 1) % coordinates
    for i in range(full + 1):
        x = exact[tree.held[node, i] if i < full else slot, dim]
        j = i
        while j > 0 and tree.sorted[j - 1] > x:
            tree.sorted[j] = tree.sorted[j - 1]
            j -= 1
        tree.sorted[j] = x
    m = full // 2
    while tree.sorted[m] == tree.sorted[full]:
        m -= 1
    tree.dim[node], tree.cut[node] = dim, tree.sorted[m]
    for side in range(2):
        tree.child[node, side] = _take_bucket(tree, node)
    for i in range(full + 1):
        s = tree.held[node, i] if i < full else slot
        _put(tree, exact, tree.child[node, int64(exact[s, dim] > tree.cut[node])], s)


@internal
def _insert(tree: PrintedTree, exact: Floats, slot: int) -> None:
    v = int64(0)
    depth = 0
    while tree.dim[v] >= 0:
        for j in range(tree.corner.shape[1]):
            tree.corner[v, j] = max(tree.corner[v, j], exact[slot, j])
        v = tree.child[v, int64(exact[slot, tree.dim[v]] > tree.cut[v])]
        depth += 1
    if tree.total[v] < tree.held.shape[1]:
        _put(tree, exact, v, slot)
    else:
        for j in range(tree.corner.shape[1]):
            tree.corner[v, j] = max(tree.corner[v, j], exact[slot, j])
        _split(tree, exact, v, slot, depth)


@internal
def _merge(tree: PrintedTree, exact: Floats, node: int) -> None:
    """Make the parent of two buckets, of which v is one, a bucket with what they have."""
    parent = tree.up[node]
    tree.dim[parent] = -1
    tree.total[parent] = 0
    for side in range(2):
        w = tree.child[parent, side]
        for i in range(tree.total[w]):
            _put(tree, exact, parent, tree.held[w, i])
    for side in range(2):
        w = tree.child[parent, side]
        tree.child[w, 0] = tree.size[1]
        tree.size[1] = w


@internal
def _delete(tree: PrintedTree, exact: Floats, slot: int) -> None:
    full = tree.held.shape[1]
    v = tree.at[slot]
    i = 0
    while tree.held[v, i] != slot:
        i += 1
    tree.total[v] -= 1
    tree.held[v, i] = tree.held[v, tree.total[v]]
    merging = True
    while merging:
        merging = False
        if 2 * tree.total[v] < full and tree.up[v] >= 0:
            a, b = tree.child[tree.up[v], 0], tree.child[tree.up[v], 1]
            if tree.dim[a] < 0 and tree.dim[b] < 0 and tree.total[a] + tree.total[b] <= full:
                w = tree.up[v]
                _merge(tree, exact, v)
                v = w
                merging = True


@internal
def _search(
    tree: PrintedTree, points: Points, slot: int, k: int, corners: bool, out: Ints32, seen: Ints, seen_row: int
) -> int:
    """Write up to k points that cover a slot to `out`; returns how many."""
    exact, stack = points.exact, tree.stack
    found = 0
    v = int64(0)
    while tree.dim[v] >= 0:
        v = tree.child[v, 1]
        seen[seen_row, WAY] += 1
    stack[0] = 0
    sp = 1
    while sp > 0 and found < k:
        sp -= 1
        v = stack[sp]
        bucket = tree.dim[v] < 0
        seen[seen_row, BUCKETS if bucket else INNER] += 1
        j = 0 if corners else exact.shape[1]
        while j < exact.shape[1] and tree.corner[v, j] >= exact[slot, j]:
            j += 1
        if j == exact.shape[1] and bucket:
            i = 0
            while i < tree.total[v] and found < k:
                x = int64(tree.held[v, i])
                if covers(points, x, slot):
                    out[found] = x
                    found += 1
                i += 1
            seen[seen_row, COMPARED] += i
        elif j == exact.shape[1]:
            if exact[slot, tree.dim[v]] <= tree.cut[v]:
                stack[sp] = tree.child[v, 0]
                sp += 1
            stack[sp] = tree.child[v, 1]
            sp += 1
    seen[seen_row, SEARCHES] += 1
    return found


@kernel  # more than eight arguments: called from one place, with arrays of its own
def _run(
    tree: PrintedTree,
    points: Points,
    graph: Graph,
    k: int,
    corners: bool,
    op: Bytes,
    slots: Ints32,
    out: Ints32,
    orphans: Ints32,
    seen: Ints,
) -> int:
    """Carry out commands under G_k; row 0 of `seen` counts for subscribing, row 1 for unsubscribing. Returns how many
    subscriptions were found to be covered by nothing."""
    uncovered = 0
    for i in range(op.size):
        s = slots[i]
        n = 1
        if op[i] == SUBSCRIBE:
            orphans[0] = s
        else:
            _delete(tree, points.exact, s)
            n = remove(graph, k, s, orphans)
        for z in range(n):
            t = orphans[z]
            found = _search(tree, points, t, k, corners, out, seen, int64(op[i]))
            for y in range(found):
                link(graph, k, t, out[y])
            uncovered += found == 0
        if op[i] == SUBSCRIBE:
            _insert(tree, points.exact, s)
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
