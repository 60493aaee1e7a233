"""An internet-like graph by the recipe of Inet-3.0, and its shortest paths.

Degrees first: 30% of the nodes have one link, as Inet's default is; the others draw theirs from P(d) ~ d^-2.2, the
exponent of the Internet's autonomous systems, between 2 and a tenth of all nodes. Then links: the nodes with two and
more join a tree in random order, each choosing among the places still free in it; the nodes with one link choose among
those left; last, the free places are joined from the greatest degree down. A choice among free places prefers nodes by
the degree they still want. Places that find no partner are given up, a percent or so.

Delays are not known: the length of a path is its number of links.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import kernel
from indexes.core.arrays import Ints, Ints32

EXPONENT = 2.2
LEAVES = 0.3
GREATEST = 0.1
"""The greatest degree, as a share of the nodes."""

TRIES = 50


class Graph(NamedTuple):
    """An undirected graph: the neighbours of node v are `other[first[v]:first[v + 1]]`, in ascending order."""

    first: Ints
    other: Ints32


def make_topology(nodes: int, seed: int) -> Graph:
    """A connected graph of that many nodes, at least four, the same for the same seed; O(links)."""
    rng = np.random.default_rng(seed)
    wanted = _degrees(nodes, rng)
    links: list[set[int]] = [set() for _ in range(nodes)]
    places = _Places(rng)

    inner = rng.permutation(np.flatnonzero(wanted > 1))
    for v in inner.tolist():
        if len(places):
            _link(links, v, places.take(set()))
        # A node behind its first link has one place less to offer; the first of all offers every one.
        places.offer(v, int(wanted[v]) - len(links[v]))
    for v in rng.permutation(np.flatnonzero(wanted == 1)).tolist():
        _link(links, v, places.take(set()) if len(places) else int(inner[0]))

    for v in sorted(inner.tolist(), key=lambda v: (-wanted[v], v)):
        for _ in range(places.withdraw(v)):
            partner = places.take({v, *links[v]})
            if partner >= 0:
                _link(links, v, partner)
    sizes = [len(near) for near in links]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Graph(first, np.array([u for near in links for u in sorted(near)], np.int32))


def _degrees(nodes: int, rng: np.random.Generator) -> Ints:
    values = np.arange(2, max(3, int(nodes * GREATEST)) + 1)
    weights = values**-EXPONENT
    degrees = rng.choice(values, nodes, p=weights / weights.sum())
    degrees[rng.permutation(nodes)[: int(nodes * LEAVES)]] = 1
    return degrees


class _Places:
    """The places that nodes still offer, each as often as it is free, so that a uniform choice prefers by degree."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._nodes: list[int] = []
        self._free: dict[int, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def offer(self, v: int, places: int) -> None:
        self._nodes.extend([v] * places)
        self._free[v] = places
        self._total += places

    def withdraw(self, v: int) -> int:
        """Take back what v still offers; returns how much that was."""
        free = self._free[v]
        self._free[v] = 0
        self._total -= free
        return free

    def take(self, but: set[int]) -> int:
        """Take a free place of a node that is none of these; -1 when a few tries found none."""
        for _ in range(TRIES):
            if not self._total:
                return -1
            i = int(self._rng.integers(len(self._nodes)))
            v = self._nodes[i]
            if not self._free[v]:
                self._drop(i)
            elif v not in but:
                self._drop(i)
                self._free[v] -= 1
                self._total -= 1
                return v
        return -1

    def _drop(self, i: int) -> None:
        self._nodes[i] = self._nodes[-1]
        self._nodes.pop()


def _link(links: list[set[int]], v: int, u: int) -> None:
    links[v].add(u)
    links[u].add(v)


def distances(graph: Graph, nodes: Ints) -> NDArray[np.int16]:
    """The number of links of the shortest path between each two of `nodes`; -1 where there is none. O(links) each."""
    out = np.empty((len(nodes), len(nodes)), np.int16)
    everyone = len(graph.first) - 1
    far, queue = np.empty(everyone, np.int16), np.empty(everyone, np.int32)
    for i, source in enumerate(nodes.tolist()):
        walk_breadth_first(graph, source, far, queue)
        out[i] = far[nodes]
    return out


@kernel
def walk_breadth_first(graph: Graph, source: int, far: NDArray[np.int16], queue: Ints32) -> None:
    """Fill `far` with the number of links from `source` to every node, -1 where no path leads."""
    far[:] = -1
    far[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        for i in range(graph.first[v], graph.first[v + 1]):
            u = graph.other[i]
            if far[u] < 0:
                far[u] = far[v] + 1
                queue[tail] = u
                tail += 1
