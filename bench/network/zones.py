"""A content-addressable network over subscription space: who owns which zone, and which zones are neighbours.

Space S is the square of all (l, r) between the least and the greatest end. Brokers join one after the other at a
random point of S; the zone there is cut into halves, across l and across r in turn, and the newcomer takes one of them.
So the part of S below the diagonal, where no subscription lies, has its owners too. Zones are closed in the west and
south and open in the east and north; those at the rim of S reach to infinity. Space does not wrap around.

The cuts are a k-d tree. Its nodes are kept in preorder, each with the node that follows its subtree: the overlapping
zones of a rectangle are found without a stack.

Sources: Ratnasamy et al., "A scalable content-addressable network" (joining, greedy routing); Gupta et al., "Meghdoot:
content-based publish/subscribe over P2P networks" (subscriptions as points of it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import INF, Bools, Floats, Ints32


class Zones(NamedTuple):
    """Boxes (west, east, south, north) of the nodes of the tree in preorder; `after` is the node behind a subtree and
    `zone` the zone of a leaf, -1 for an inner node. `node` is the leaf of a zone. The zones next to zone z are
    `near[first[z]:first[z + 1]]`: those that share a piece of a side, in ascending order."""

    west: Floats
    east: Floats
    south: Floats
    north: Floats
    after: Ints32
    zone: Ints32
    node: Ints32
    first: Ints32
    near: Ints32


@dataclass(slots=True)
class _Node:
    west: float
    east: float
    south: float
    north: float
    depth: int = 0
    halves: tuple[_Node, _Node] | None = None

    def half(self, l: float, r: float) -> _Node:
        assert self.halves is not None
        low, high = self.halves
        return high if (l >= high.west if self.depth % 2 == 0 else r >= high.south) else low

    def split(self) -> None:
        w, e, s, n, deeper = self.west, self.east, self.south, self.north, self.depth + 1
        if self.depth % 2 == 0:
            middle = (w + e) / 2
            self.halves = _Node(w, middle, s, n, deeper), _Node(middle, e, s, n, deeper)
        else:
            middle = (s + n) / 2
            self.halves = _Node(w, e, s, middle, deeper), _Node(w, e, middle, n, deeper)


def make_zones(brokers: int, seed: int, least: float = 0.0, greatest: float = 1.0) -> Zones:
    """The zones after so many brokers joined, the same for the same seed; O(brokers^2)."""
    rng = np.random.default_rng(seed)
    root = _Node(least, greatest, least, greatest)
    for l, r in (least + (greatest - least) * rng.random((brokers - 1, 2))).tolist():
        node = root
        while node.halves is not None:
            node = node.half(l, r)
        node.split()
    return _flatten(root, least, greatest)


def _flatten(root: _Node, least: float, greatest: float) -> Zones:
    boxes: list[tuple[float, float, float, float]] = []
    after: list[int] = []
    zone: list[int] = []
    leaves: list[int] = []

    def visit(node: _Node) -> None:
        i = len(boxes)
        boxes.append(
            (
                -INF if node.west == least else node.west,
                INF if node.east == greatest else node.east,
                -INF if node.south == least else node.south,
                INF if node.north == greatest else node.north,
            )
        )
        after.append(0)
        zone.append(-1)
        if node.halves is None:
            zone[i] = len(leaves)
            leaves.append(i)
        else:
            for half in node.halves:
                visit(half)
        after[i] = len(boxes)

    visit(root)
    sides = np.array(boxes)
    node = np.array(leaves, np.int32)
    near = [np.flatnonzero(_touch(sides[node], sides[leaf])) for leaf in leaves]
    first = np.concatenate([[0], np.cumsum([len(some) for some in near])])
    west, east, south, north = (np.ascontiguousarray(column) for column in sides.T)
    return Zones(
        west,
        east,
        south,
        north,
        np.array(after, np.int32),
        np.array(zone, np.int32),
        node,
        first.astype(np.int32),
        np.concatenate(near).astype(np.int32),
    )


def _touch(boxes: Floats, box: Floats) -> Bools:
    """Which boxes share a piece of a side with this one, corners alone not counted."""
    w, e, s, n = boxes.T
    across = ((w == box[1]) | (e == box[0])) & (s < box[3]) & (box[2] < n)
    above = ((s == box[3]) | (n == box[2])) & (w < box[1]) & (box[0] < e)
    return across | above
