"""Cells: the places of subscriptions in a quadtree's leaves, each with the box of those that are in it.

A box only grows until the tree is built anew, so that whoever was put into a cell is within its box.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel, lean_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

DEPTH = 14
"""Levels at most: many may share a place."""


class Cells(NamedTuple):
    """The tree, by inner node, and the boxes of its leaves."""

    x: Float64  # where a node is cut; what lies there goes right, and up
    y: Float64
    child: Int32  # four of a node: another node, or -1 - cell; the root's parent stands first, with the root four times
    box: Float64  # by cell, four each: x0, y0, x1, y1; an empty one holds no place


def build_cells(points: Float64, capacity: int) -> tuple[Cells, Int64]:
    """The cells of so many points each, and which cell each point is in. O(n depth)."""
    x, y, child = [0.0], [0.0], [[-1] * 4]
    boxes: list[Float64] = []
    cell = np.empty(len(points), np.int64)

    def descend(which: Int64, low: Float64, high: Float64, depth: int) -> int:
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


@lean_kernel
def put_into(c, points, cell):  # type: ignore[no-untyped-def]
    """Write in which cell each of the `points` (n, 2) is; boxes are made to hold them. O(n depth)."""
    for i in range(cell.size):
        cell[i] = cell_at(c, points[i, 0], points[i, 1])


@inner_kernel
def cell_at(c, x, y):  # type: ignore[no-untyped-def]
    """The cell where a place belongs; its box is made to hold it. O(depth)."""
    node = np.int64(c.child[0])
    while node >= 0:
        node = np.int64(c.child[4 * node + (1 if x >= c.x[node] else 0) + (2 if y >= c.y[node] else 0)])
    box = 4 * (-1 - node)
    c.box[box], c.box[box + 1] = min(c.box[box], x), min(c.box[box + 1], y)
    c.box[box + 2], c.box[box + 3] = max(c.box[box + 2], x), max(c.box[box + 3], y)
    return -1 - node


@inner_kernel
def nearest(c, cell, x, y, diagonal):  # type: ignore[no-untyped-def]
    """The greatest spatial similarity to a place that anyone of a cell has."""
    box = 4 * cell
    dx = max(c.box[box] - x, x - c.box[box + 2], 0.0)
    dy = max(c.box[box + 1] - y, y - c.box[box + 3], 0.0)
    near = 1.0 - math.sqrt(dx * dx + dy * dy) / diagonal
    return near if near > 0.0 else 0.0
