"""The arrays of the k-d tree of `kd_tree.py`, whose text says what they mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal
from indexes.compiled.masks import BLOCK, first_lane, without_first
from indexes.core.arrays import Int8s, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import ROW, row_codes
from indexes.relays.kernels.points import Float32s

MOST_CODE = 255
"""The greatest code."""

POINTS, NODES_USED, FREE_NODE, BUCKETS_USED, FREE_BUCKET, FULL, COORDINATES, WIDTH, LAST_LEAF = range(9)
"""Places in `size`; free nodes are chained by `left`, free buckets by the first of `held`."""

BY_NODE = ("cut", "cut_slot", "dim", "left", "right", "up", "total", "bucket", "place")
"""The arrays with a number for each node."""


class KdTree(NamedTuple):
    """The arrays of a tree; see the module's text."""

    corner: Float32s  # flat, `width` a node
    cut: Float32s  # by node, as all up to place
    cut_slot: Ints32
    dim: NDArray[np.int16]
    left: Ints32  # -1: a leaf
    right: Ints32
    up: Ints32
    total: Ints32
    bucket: Ints32  # of a leaf, and of the root of a group; else -1
    place: Ints32  # of a leaf: the bucket of its group, and its lane, as one number; or -1
    code: Int8s  # flat: bucket, coordinate, lane; less 128
    low: Float32s  # flat, `width` a bucket: what has code 0
    steps: Float32s  # flat, `width` a bucket: codes by unit, above 0
    held: Ints32  # flat, by bucket and lane: slots, or in that of a group leaves
    taken: Ints  # by bucket of a group: the mask of the lanes that are leaves
    at: Ints32  # by slot: its leaf, or -1
    order: Ints32  # slots while a node is rebuilt
    stack: Ints32
    asked: Int8s  # codes of one point
    size: Ints


@internal
def take_bucket(tree: KdTree) -> int:
    """A bucket that is free."""
    b = tree.size[FREE_BUCKET]
    if b >= 0:
        tree.size[FREE_BUCKET] = tree.held[b * BLOCK]
    else:
        b = tree.size[BUCKETS_USED]
        tree.size[BUCKETS_USED] += 1
    return b


@internal
def free_bucket(tree: KdTree, node: int) -> None:
    """Take its bucket from a node."""
    b = int64(tree.bucket[node])
    tree.held[b * BLOCK] = tree.size[FREE_BUCKET]
    tree.size[FREE_BUCKET] = b
    tree.bucket[node] = -1


@internal
def write_codes(tree: KdTree, bucket: int, at: int, coordinates: Float32s, base: int) -> None:
    """Write the codes of a row of coordinates into a lane of a bucket."""
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    for first in range(0, D, ROW):
        row_codes(coordinates, base + first, tree.low, tree.steps, bucket * width + first, tree.asked)
        for j in range(first, min(first + ROW, D)):
            tree.code[(bucket * D + j) * BLOCK + at] = tree.asked[j - first]


@internal
def spread_codes(tree: KdTree, bucket: int, lanes: int, coordinates: Float32s) -> None:
    """Spread the codes over the coordinates that what is in these lanes of a bucket has, and write those of all of it:
    number i in `held` has the row i of `coordinates`. O(64 coordinates)."""
    D, width = tree.size[COORDINATES], tree.size[WIDTH]
    for j in range(D):
        low, high = np.float32(np.inf), np.float32(-np.inf)
        rest = lanes
        while rest != 0:
            x = coordinates[int64(tree.held[bucket * BLOCK + first_lane(rest)]) * width + j]
            rest = without_first(rest)
            if np.isfinite(x):
                low, high = min(low, x), max(high, x)
        steps = np.float32(MOST_CODE) / (high - low) if high > low else np.float32(1.0)
        tree.low[bucket * width + j] = low if np.isfinite(low) else 0.0
        tree.steps[bucket * width + j] = steps if 0 < steps < np.inf else 1.0
    while lanes != 0:
        at = int64(first_lane(lanes))
        lanes = without_first(lanes)
        write_codes(tree, bucket, at, coordinates, int64(tree.held[bucket * BLOCK + at]) * width)
