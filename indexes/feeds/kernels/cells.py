"""Cells: the places of subscriptions in a quadtree's leaves, each with the box of those that are in it.

A box only grows until the tree is rebuilt, so every subscription that was put into a cell lies in its box.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Floats, Ints, Ints32, int64

DEPTH = 14
"""Levels at most: many subscriptions may share a place."""


class Cells(NamedTuple):
    """The tree, by inner node, and the boxes of its leaves."""

    x: Floats  # where a node is cut; what lies there goes right, and up
    y: Floats
    child: Ints32  # four of a node: a node, or -1 - cell; the root's parent comes first, with the root four times
    box: Floats  # by cell, four each: x0, y0, x1, y1; an empty cell has none


def build_cells(points: Floats, capacity: int) -> tuple[Cells, Ints]:
    """Cells of at most `capacity` points, unless they are at the last level, and the cell of each point. O(n depth)."""
    x, y, child = [0.0], [0.0], [[-1] * 4]
    boxes: list[Floats] = []
    cell = np.empty(len(points), np.int64)

    def descend(which: Ints, low: Floats, high: Floats, depth: int) -> int:
        inside = points[which]
        if len(which) <= capacity or depth == DEPTH:
            cell[which] = len(boxes)
            empty = np.array([math.inf, math.inf, -math.inf, -math.inf])
            boxes.append(np.concatenate([inside.min(axis=0), inside.max(axis=0)]) if len(which) else empty)
            return -len(boxes)
        node, middle = len(x), low + (high - low) / 2
        x.append(float(middle[0]))
        y.append(float(middle[1]))
        child.append([-1] * 4)
        quarter = (inside[:, 0] >= middle[0]) + 2 * (inside[:, 1] >= middle[1])
        for q in range(4):
            right, up = bool(q & 1), bool(q & 2)
            ends = np.array([middle[0] if right else low[0], middle[1] if up else low[1]])
            others = np.array([high[0] if right else middle[0], high[1] if up else middle[1]])
            child[node][q] = descend(which[quarter == q], ends, others, depth + 1)
        return node

    low, high = (points.min(axis=0), points.max(axis=0)) if len(points) else (np.zeros(2), np.zeros(2))
    child[0] = [descend(np.arange(len(points)), low, high, 0)] * 4
    return Cells(np.array(x), np.array(y), np.array(child, np.int32).reshape(-1), np.concatenate(boxes)), cell


@kernel
def put_into(cells: Cells, points: Floats, cell: Ints) -> None:
    """Write the cell of each of the `points` (n, 2), and extend the boxes to hold them. O(n depth)."""
    for i in range(cell.size):
        cell[i] = cell_at(cells, points[i, 0], points[i, 1])


@internal
def cell_at(cells: Cells, x: float, y: float) -> int:
    """The cell of a place, whose box is extended to hold it. O(depth)."""
    node = int64(cells.child[0])
    while node >= 0:
        node = int64(cells.child[4 * node + (1 if x >= cells.x[node] else 0) + (2 if y >= cells.y[node] else 0)])
    box = 4 * (-1 - node)
    cells.box[box], cells.box[box + 1] = min(cells.box[box], x), min(cells.box[box + 1], y)
    cells.box[box + 2], cells.box[box + 3] = max(cells.box[box + 2], x), max(cells.box[box + 3], y)
    return -1 - node


@internal
def nearest(cells: Cells, cell: int, x: float, y: float, diagonal: float) -> float:
    """The greatest spatial similarity to (x, y) within the box of a cell."""
    box = 4 * cell
    dx = max(cells.box[box] - x, x - cells.box[box + 2], 0.0)
    dy = max(cells.box[box + 1] - y, y - cells.box[box + 3], 0.0)
    near = 1.0 - math.sqrt(dx * dx + dy * dy) / diagonal
    return near if near > 0.0 else 0.0
