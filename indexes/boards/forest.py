"""Subscriptions as points (l, r): a forest of packed k-d trees, one per k-class, that change in place.

Layout. All classes share the arrays of one `Forest`; a kernel is given the forest and the number q of a class. A tree
of depth d has 2^d leaves of equal capacity. Its nodes are numbered as in a heap (root 1, children 2i and 2i + 1, leaves
from 2^d), and leaf j keeps its points packed to the left in the slots from first + j * capacity. The numbers alone are
the tree: it is walked without a stack and stored without pointers. A node knows its count and the bounding box of its
points, an inner node also the cut that sends a new point left or right.

Invariants. Counts and boxes are exact after every call. Left of a cut lie values <= cut, right of it values >= cut. The
layout follows from the sequence of calls alone. A full leaf makes the smallest subtree with room lay its points anew,
halved at medians; the densities allowed fall from leaf to root, as in a packed-memory array, so that this stays cheap.

Unbounded ends are stored as -MAX and MAX, finite numbers beyond every object: an infinite outer side of a tile takes
them in, a finite one never does.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", III-B (the index behind `snap`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.jit import inline_kernel
from indexes.lean import inner_kernel, lean_kernel, vector_kernel

INF = np.inf
MAX = float(np.finfo(np.float64).max)

SLOT, NODE, DEPTH, CAP = range(4)
"""Columns of `Forest.head`: first slot, first node, depth of the tree, slots in a leaf."""


class Forest(NamedTuple):
    """The arrays of all classes; see the module's docstring for the layout."""

    l: NDArray[np.float64]
    r: NDArray[np.float64]
    sid: NDArray[np.int32]
    box: NDArray[np.float64]
    cut: NDArray[np.float64]
    axis: NDArray[np.uint8]
    cnt: NDArray[np.int32]
    head: NDArray[np.int64]
    pos: NDArray[np.int32]


# Walking a class. `rest` is the node after the subtree of `node` in the order of the walk, 0 at the end.


@inline_kernel
def rest(node: int) -> int:
    while node & 1:
        node >>= 1
    return node + (node > 0)


@vector_kernel
def snap(
    f: Forest, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> tuple[float, float, float, float]:
    """The bounding box (lmin, lmax, rmin, rmax) of the subscriptions of class q that a tile reaches (paper, III-B).

    (inf, -inf, inf, -inf) when there are none. A subtree whose box lies inside the result so far is skipped. O(sqrt m).
    """
    base, cap, first = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT]
    leaves = 1 << f.head[q, DEPTH]
    a, b, c, d = INF, -INF, INF, -INF
    node = 1 if l_outer < l_inner and r_inner < r_outer else 0
    while node:
        w, e, s, n = f.box[base + node, 0], f.box[base + node, 1], f.box[base + node, 2], f.box[base + node, 3]
        apart = (e <= l_outer) | (w > l_inner) | (n < r_inner) | (s >= r_outer)
        known = (w >= a) & (e <= b) & (s >= c) & (n <= d)
        if apart | known:
            node = rest(node)
        elif (w > l_outer) & (e <= l_inner) & (s >= r_inner) & (n < r_outer):
            a, b, c, d = min(a, w), max(b, e), min(c, s), max(d, n)
            node = rest(node)
        elif node < leaves:
            node *= 2
        else:
            start = first + (node - leaves) * cap
            for p in range(start, start + f.cnt[base + node]):
                l, r = f.l[p], f.r[p]
                inside = (l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)
                a = min(a, l if inside else INF)
                b = max(b, l if inside else -INF)
                c = min(c, r if inside else INF)
                d = max(d, r if inside else -INF)
            node = rest(node)
    return a, b, c, d


@vector_kernel
def exists(f: Forest, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> bool:
    """Does the tile reach any subscription of class q? Stops at the first found."""
    base, cap, first = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT]
    leaves = 1 << f.head[q, DEPTH]
    found = False
    node = 1 if l_outer < l_inner and r_inner < r_outer else 0
    while node:
        w, e, s, n = f.box[base + node, 0], f.box[base + node, 1], f.box[base + node, 2], f.box[base + node, 3]
        if (e <= l_outer) | (w > l_inner) | (n < r_inner) | (s >= r_outer):
            node = rest(node)
        elif (w > l_outer) & (e <= l_inner) & (s >= r_inner) & (n < r_outer):
            found = True
            node = 0
        elif node < leaves:
            node *= 2
        else:
            start = first + (node - leaves) * cap
            hits = 0
            for p in range(start, start + f.cnt[base + node]):
                l, r = f.l[p], f.r[p]
                hits += (l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)
            found = hits > 0
            node = 0 if found else rest(node)
    return found


@vector_kernel
def count(f: Forest, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """The number of subscriptions of class q that the tile reaches. O(sqrt m)."""
    base, cap, first = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT]
    leaves = 1 << f.head[q, DEPTH]
    total = 0
    node = 1 if l_outer < l_inner and r_inner < r_outer else 0
    while node:
        w, e, s, n = f.box[base + node, 0], f.box[base + node, 1], f.box[base + node, 2], f.box[base + node, 3]
        if (e <= l_outer) | (w > l_inner) | (n < r_inner) | (s >= r_outer):
            node = rest(node)
        elif (w > l_outer) & (e <= l_inner) & (s >= r_inner) & (n < r_outer):
            total += f.cnt[base + node]
            node = rest(node)
        elif node < leaves:
            node *= 2
        else:
            start = first + (node - leaves) * cap
            for p in range(start, start + f.cnt[base + node]):
                l, r = f.l[p], f.r[p]
                total += (l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)
            node = rest(node)
    return total


@lean_kernel
def report(
    f: Forest,
    q: int,
    l_outer: float,
    l_inner: float,
    r_inner: float,
    r_outer: float,
    out: NDArray[np.int32],
) -> int:
    """Write the sids of class q that the tile reaches to `out`, in slot order.

    Returns how many, or -1 as soon as `out` is too small (its contents are then void). O(sqrt m + answer).
    """
    base, cap, first = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT]
    leaves = 1 << f.head[q, DEPTH]
    size = len(out)
    total = 0
    node = 1 if l_outer < l_inner and r_inner < r_outer else 0
    while node:
        w, e, s, n = f.box[base + node, 0], f.box[base + node, 1], f.box[base + node, 2], f.box[base + node, 3]
        if (e <= l_outer) | (w > l_inner) | (n < r_inner) | (s >= r_outer):
            node = rest(node)
        elif node < leaves:
            node *= 2
        else:
            start = first + (node - leaves) * cap
            for p in range(start, start + f.cnt[base + node]):
                l, r = f.l[p], f.r[p]
                inside = (l > l_outer) & (l <= l_inner) & (r >= r_inner) & (r < r_outer)
                if inside & (total < size):
                    out[total] = f.sid[p]
                total += inside
            node = rest(node) if total <= size else 0
    return total if total <= size else -1


# Changing a class.


@inline_kernel
def limit(height: int, depth: int, cap: int) -> int:
    """How many points a subtree of that height may hold after it was laid anew: 95% at the bottom, 80% at the root."""
    slots = cap << height
    return slots if depth == 0 else slots - slots * (5 * depth + 15 * height) // (100 * depth)


@lean_kernel
def insert(f: Forest, q: int, sid: int, l: float, r: float) -> bool:
    """Add a subscription. False, with nothing changed, if class q is full: `reserve` first. Amortised O(log^2 m).

    The sid must be absent and below len(f.pos); ends are finite or infinite, never NaN.
    """
    l, r = min(max(l, -MAX), MAX), min(max(r, -MAX), MAX)
    base, cap, first, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT], f.head[q, DEPTH]
    leaves = 1 << depth
    node = 1
    while node < leaves:
        v = r if f.axis[base + node] else l
        cut = f.cut[base + node]
        node *= 2
        node += (v > cut) | ((v == cut) & (f.cnt[base + node + 1] < f.cnt[base + node]))
    height = 0
    if f.cnt[base + node] == cap:
        while node and (height == 0 or f.cnt[base + node] >= limit(height, depth, cap)):
            node >>= 1
            height += 1
    if node:
        n = f.cnt[base + node]
        at = first + ((node << height) - leaves) * cap
        if height:
            n = _pack(f, base, at, node << height, 1 << height, cap)
        f.l[at + n], f.r[at + n], f.sid[at + n] = l, r, sid
        if height:
            lay(f, q, node, n + 1)
            node >>= 1
        else:
            f.pos[sid] = at + n
        while node:
            f.cnt[base + node] += 1
            f.box[base + node, 0] = min(f.box[base + node, 0], l)
            f.box[base + node, 1] = max(f.box[base + node, 1], l)
            f.box[base + node, 2] = min(f.box[base + node, 2], r)
            f.box[base + node, 3] = max(f.box[base + node, 3], r)
            node >>= 1
    return height <= depth


@inner_kernel
def _pack(f: Forest, base: int, at: int, leaf: int, leaves: int, cap: int) -> int:
    """Move the points of so many leaves from `leaf` on together at slot `at`; returns their number."""
    n = 0
    for j in range(leaves):
        start = at + j * cap
        for p in range(start, start + f.cnt[base + leaf + j]):
            f.l[at + n], f.r[at + n], f.sid[at + n] = f.l[p], f.r[p], f.sid[p]
            n += 1
    return n


@vector_kernel
def delete(f: Forest, q: int, sid: int) -> None:
    """Remove a subscription that is in class q. O(log m)."""
    base, cap, first = f.head[q, NODE], f.head[q, CAP], f.head[q, SLOT]
    leaves = 1 << f.head[q, DEPTH]
    p = f.pos[sid]
    node = leaves + (p - first) // cap
    l, r = f.l[p], f.r[p]
    start = first + (node - leaves) * cap
    f.cnt[base + node] -= 1
    end = start + f.cnt[base + node]
    f.l[p], f.r[p], f.sid[p] = f.l[end], f.r[end], f.sid[end]
    f.pos[f.sid[p]] = p
    f.sid[end] = -1
    f.pos[sid] = -1
    loose = _touches(f, base + node, l, r)
    if loose:
        a, b, c, d = INF, -INF, INF, -INF
        for p in range(start, end):
            a, b, c, d = min(a, f.l[p]), max(b, f.l[p]), min(c, f.r[p]), max(d, f.r[p])
        f.box[base + node, 0], f.box[base + node, 1], f.box[base + node, 2], f.box[base + node, 3] = a, b, c, d
    node >>= 1
    while node:
        f.cnt[base + node] -= 1
        loose = loose and _touches(f, base + node, l, r)
        if loose:
            _join(f, base + node, base + 2 * node)
        node >>= 1


@inline_kernel
def _touches(f: Forest, at: int, l: float, r: float) -> bool:
    return (l == f.box[at, 0]) | (l == f.box[at, 1]) | (r == f.box[at, 2]) | (r == f.box[at, 3])


@inline_kernel
def _join(f: Forest, at: int, pair: int) -> None:
    f.box[at, 0] = min(f.box[pair, 0], f.box[pair + 1, 0])
    f.box[at, 1] = max(f.box[pair, 1], f.box[pair + 1, 1])
    f.box[at, 2] = min(f.box[pair, 2], f.box[pair + 1, 2])
    f.box[at, 3] = max(f.box[pair, 3], f.box[pair + 1, 3])


@vector_kernel
def lay(f: Forest, q: int, top: int, n: int) -> None:
    """Lay the n points packed at the first slots of the subtree `top` over its leaves, halving at medians of the wider
    side. O(n log n)."""
    base, cap, depth = f.head[q, NODE], f.head[q, CAP], f.head[q, DEPTH]
    height = depth
    node = top
    while node > 1:
        height -= 1
        node >>= 1
    leaves = 1 << height
    at = f.head[q, SLOT] + ((top << height) - (1 << depth)) * cap
    node = 1
    level = 0
    while node:
        if level < height:
            j = node - (1 << level)
            start = at + ((j * n) >> level)
            end = at + (((j + 1) * n) >> level)
            middle = at + (((2 * j + 1) * n) >> (level + 1))
            a, b, c, d = INF, -INF, INF, -INF
            for p in range(start, end):
                a, b, c, d = min(a, f.l[p]), max(b, f.l[p]), min(c, f.r[p]), max(d, f.r[p])
            here = base + (top << level) + j
            f.axis[here] = b - a < d - c
            f.cut[here] = 0.0
            if start < end:
                if f.axis[here]:
                    _select(f.r, f.l, f.sid, start, end, middle)
                    f.cut[here] = f.r[middle]
                else:
                    _select(f.l, f.r, f.sid, start, end, middle)
                    f.cut[here] = f.l[middle]
            node *= 2
            level += 1
        else:
            while node & 1:
                node >>= 1
                level -= 1
            node += node > 0
    for j in range(leaves - 1, -1, -1):
        start = (j * n) >> height
        size = (((j + 1) * n) >> height) - start
        to = at + j * cap
        here = base + (top << height) + j
        a, b, c, d = INF, -INF, INF, -INF
        for i in range(size - 1, -1, -1):
            l, r, sid = f.l[at + start + i], f.r[at + start + i], f.sid[at + start + i]
            a, b, c, d = min(a, l), max(b, l), min(c, r), max(d, r)
            f.l[to + i], f.r[to + i], f.sid[to + i] = l, r, sid
            f.pos[sid] = to + i
        for p in range(to + size, to + cap):
            f.sid[p] = -1
        f.cnt[here] = size
        f.box[here, 0], f.box[here, 1], f.box[here, 2], f.box[here, 3] = a, b, c, d
    for level in range(height - 1, -1, -1):
        for node in range(top << level, (top + 1) << level):
            f.cnt[base + node] = f.cnt[base + 2 * node] + f.cnt[base + 2 * node + 1]
            _join(f, base + node, base + 2 * node)


@inner_kernel
def _select(
    key: NDArray[np.float64], other: NDArray[np.float64], sid: NDArray[np.int32], start: int, end: int, middle: int
) -> None:
    """Quickselect: order [start, end) so that key[middle] is in its sorted place; the other columns follow."""
    end -= 1
    while start < end:
        pivot, u, v = key[(start + end) >> 1], key[start], key[end]
        pivot = max(min(u, v), min(max(u, v), pivot))
        i, j = start, end
        while i <= j:
            while key[i] < pivot:
                i += 1
            while key[j] > pivot:
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


@lean_kernel
def insert_many(f: Forest, q: int, sids: NDArray[np.int32], l: NDArray[np.float64], r: NDArray[np.float64]) -> int:
    done = 0
    for j in range(len(sids)):
        done += insert(f, q, sids[j], l[j], r[j])
    return done


@lean_kernel
def delete_many(f: Forest, q: int, sids: NDArray[np.int32]) -> None:
    for j in range(len(sids)):
        delete(f, q, sids[j])
