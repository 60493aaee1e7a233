"""The relation graph G_k: for every subscription up to k edges from some that cover it ([Covering], III-B and III-C).

Edge ``child * k + i`` is the i-th into `child`. The edges out of a subscription are a doubly linked list through
``after`` and ``before``, which begins at ``head``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal
from indexes.core.arrays import Ints32, int64


class Graph(NamedTuple):
    """The arrays of a graph; see the module's docstring."""

    parent: Ints32  # by edge, as the next two
    after: Ints32
    before: Ints32
    degree: Ints32  # by slot: edges in
    head: Ints32  # by slot


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


@internal
def link(graph: Graph, k: int, child: int, parent: int) -> None:
    """Add an edge; there are fewer than k into the child."""
    e = child * k + graph.degree[child]
    graph.degree[child] += 1
    _hang(graph, e, parent)


@internal
def _hang(graph: Graph, edge: int, parent: int) -> None:
    first = graph.head[parent]
    graph.parent[edge] = parent
    graph.after[edge] = first
    graph.before[edge] = -1
    if first >= 0:
        graph.before[first] = edge
    graph.head[parent] = edge


@internal
def _unhang(graph: Graph, edge: int) -> None:
    before, after = graph.before[edge], graph.after[edge]
    if before >= 0:
        graph.after[before] = after
    else:
        graph.head[graph.parent[edge]] = after
    if after >= 0:
        graph.before[after] = before


@internal
def remove(graph: Graph, k: int, slot: int, orphans: Ints32) -> int:
    """Take out s with its edges; what is left without an edge into it goes to `orphans`. Returns how many."""
    for i in range(graph.degree[slot]):
        _unhang(graph, slot * k + i)
    graph.degree[slot] = 0
    n = 0
    e = int64(graph.head[slot])
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
        e = int64(graph.head[slot])
    return n
