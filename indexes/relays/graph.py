"""The relation graph G_k: for every subscription up to k edges from some that cover it (the paper, III-B and III-C).

Edge ``child * k + i`` is the i-th into `child`. The edges out of a subscription are a doubly linked list through
``after`` and ``before``, which begins at ``head``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.lean import inner_kernel
from indexes.relays.points import Int32


class Graph(NamedTuple):
    """The arrays of a graph; see the module's text."""

    parent: Int32  # by edge, as the next two
    after: Int32
    before: Int32
    degree: Int32  # by slot: edges in
    head: Int32  # by slot


def empty_graph(slots: int, k: int) -> Graph:
    """A graph of so many slots without edges."""
    parent, after, before = (np.zeros(slots * k, np.int32) for _ in range(3))
    return Graph(parent, after, before, np.zeros(slots, np.int32), np.full(slots, -1, np.int32))


def grown(graph: Graph, slots: int, k: int) -> Graph:
    """The graph with room for at least so many slots. O(slots)."""
    have = len(graph.head)
    if slots <= have:
        return graph
    bigger = empty_graph(max(slots, have + have // 2, 64), k)
    for old, new in zip(graph, bigger, strict=True):
        new[: len(old)] = old
    return bigger


@inner_kernel
def link(graph, k, child, parent):  # type: ignore[no-untyped-def]
    """Add an edge; there are fewer than k into the child."""
    e = child * k + graph.degree[child]
    graph.degree[child] += 1
    _hang(graph, e, parent)


@inner_kernel
def _hang(graph, e, parent):  # type: ignore[no-untyped-def]
    first = graph.head[parent]
    graph.parent[e] = parent
    graph.after[e] = first
    graph.before[e] = -1
    if first >= 0:
        graph.before[first] = e
    graph.head[parent] = e


@inner_kernel
def _unhang(graph, e):  # type: ignore[no-untyped-def]
    before, after = graph.before[e], graph.after[e]
    if before >= 0:
        graph.after[before] = after
    else:
        graph.head[graph.parent[e]] = after
    if after >= 0:
        graph.before[after] = before


@inner_kernel
def remove(graph, k, s, orphans):  # type: ignore[no-untyped-def]
    """Take out s with its edges; what is left without an edge into it goes to `orphans`. Returns how many."""
    for i in range(graph.degree[s]):
        _unhang(graph, s * k + i)
    graph.degree[s] = 0
    n = 0
    e = np.int64(graph.head[s])
    while e >= 0:
        _unhang(graph, e)
        child = e // k
        last = child * k + graph.degree[child] - 1
        if last != e:  # the child's last edge takes the number that is free
            parent = graph.parent[last]
            _unhang(graph, last)
            _hang(graph, e, parent)
        graph.degree[child] -= 1
        if graph.degree[child] == 0:
            orphans[n] = child
            n += 1
        e = np.int64(graph.head[s])
    return n
