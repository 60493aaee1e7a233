"""The order in which a SOPT-R-tree packs its intervals ([Ranked matching] 3.2): Algorithms 2 and 1, O(n log n).

Both work on *slabs*. The 2n end points are sorted, left ends before right ends where they are equal, because closed
intervals that share only an end point do intersect. Slab s is the gap before the s-th end point; an interval whose ends
are the l-th and the r-th covers exactly the slabs l + 1 to r. So intervals intersect when they share a slab, whatever
ends they have in common, and an interval of one point covers a slab too.

An interval is named by its rank, 0 the best: ties are already broken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import allocating_kernel
from indexes.core.arrays import Bytes, Floats, Ints32, int64
from indexes.matchers.kernels.bitset import delete, empty_set, following, insert, preceding
from indexes.matchers.kernels.order import ascending


class Slabs(NamedTuple):
    """End points in order. `left[i]` and `right[i]` are the places of the ends of interval i, `by_left` lists the
    intervals by left end; `ends` and `is_right` are the end points themselves."""

    left: Ints32
    right: Ints32
    by_left: Ints32
    ends: Floats
    is_right: Bytes


class Graph(NamedTuple):
    """The constraint graph: from interval i there are edges to to[start[i] : start[i + 1]]; `into` counts the edges
    that lead into each."""

    start: Ints32
    to: Ints32
    into: Ints32

    @property
    def edges(self) -> int:
        return len(self.to)


def slabs_of(lo: Floats, hi: Floats) -> Slabs:
    """The slabs of intervals in order of rank; of equal left ends, and of equal right ends, the better interval's comes
    first. O(n log n)."""
    by_left = ascending(lo).astype(np.int32)
    by_right = ascending(hi).astype(np.int32)
    ends, is_right, left, right = _merge(lo, hi, by_left, by_right)
    return Slabs(left, right, by_left, ends, is_right)


def constraint_graph(slabs: Slabs) -> Graph:
    """Algorithm 2: an edge from the owner of every visible block to the interval that hides it.

    At most 3n edges (Lemma 3.4). O(n log n), with the visible end points in a bitset.
    """
    return Graph(*_graph(slabs.left, slabs.right))


def arrangement(slabs: Slabs, graph: Graph) -> Ints32:
    """Algorithm 1: of the intervals that nothing unplaced must precede, always the one with the least left end.

    Returns ranks in the order of the leaves. `graph.into` is used up. O(n log n).
    """
    place = np.empty(len(slabs.by_left), np.int32)
    place[slabs.by_left] = np.arange(len(place), dtype=np.int32)
    return _arrange(graph.start, graph.to, graph.into, place, slabs.by_left)


def score_optimal(lo: Floats, hi: Floats) -> Ints32:
    """The arrangement of intervals that are given in order of rank."""
    slabs = slabs_of(lo, hi)
    return arrangement(slabs, constraint_graph(slabs))


@allocating_kernel
def _merge(lo: Floats, hi: Floats, by_left: Ints32, by_right: Ints32) -> tuple[Floats, Bytes, Ints32, Ints32]:
    n = lo.size
    ends = np.empty(2 * n)
    is_right = np.empty(2 * n, np.uint8)
    left = np.empty(n, np.int32)
    right = np.empty(n, np.int32)
    i = 0
    j = 0
    for e in range(2 * n):
        if i < n and lo[by_left[i]] <= hi[by_right[j]]:
            ends[e] = lo[by_left[i]]
            is_right[e] = 0
            left[by_left[i]] = e
            i += 1
        else:
            ends[e] = hi[by_right[j]]
            is_right[e] = 1
            right[by_right[j]] = e
            j += 1
    return ends, is_right, left, right


@allocating_kernel
def _graph(left: Ints32, right: Ints32) -> tuple[Ints32, Ints32, Ints32]:
    n = left.size
    m = 2 * n + 1
    visible, at = empty_set(m)  # where visible blocks begin
    owner = np.full(m, -1, np.int32)
    insert(visible, at, 0)
    source = np.empty(3 * n + 1, np.int32)  # of the edges into 0, then of those into 1, ...
    into = np.zeros(n, np.int32)
    start = np.zeros(n + 1, np.int32)
    edges = 0
    for i in range(n):
        a = int64(left[i]) + 1
        b = int64(right[i])
        block = preceding(visible, at, a)
        last = owner[block]
        while block >= 0 and block <= b:
            last = owner[block]
            if last >= 0:
                source[edges] = last
                edges += 1
                start[last + 1] += 1
                into[i] += 1
            behind = following(visible, at, block + 1, m)
            if block > a:
                delete(visible, at, block)
            block = behind
        if b + 1 < m and block != b + 1:  # the last block goes on behind the interval
            insert(visible, at, b + 1)
            owner[b + 1] = last
        insert(visible, at, a)
        owner[a] = i
    for i in range(n):
        start[i + 1] += start[i]
    to = np.empty(edges, np.int32)
    filled = start[:-1].copy()
    e = 0
    for i in range(n):
        for _ in range(into[i]):
            to[filled[source[e]]] = i
            filled[source[e]] += 1
            e += 1
    return start, to, into


@allocating_kernel
def _arrange(start: Ints32, to: Ints32, into: Ints32, place: Ints32, by_left: Ints32) -> Ints32:
    n = into.size
    free, at = empty_set(max(n, 1))  # places, by left end, of the intervals that may come next
    for i in range(n):
        if into[i] == 0:
            insert(free, at, int64(place[i]))
    order = np.empty(n, np.int32)
    for t in range(n):
        p = following(free, at, 0, n)
        delete(free, at, p)
        i = by_left[p]
        order[t] = i
        for e in range(start[i], start[i + 1]):
            j = to[e]
            into[j] -= 1
            if into[j] == 0:
                insert(free, at, int64(place[j]))
    return order
