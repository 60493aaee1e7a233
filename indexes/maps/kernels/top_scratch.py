"""The arrays in which a top-k and its zone are searched for, reused from search to search; for one thread.

Objects are numbered as in `object_index.View`: those of the base, then those of the delta.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.object_index import BLOCK, View
from indexes.maps.kernels.rectangles import Boxes, empty_boxes

NODES, CIRCLES, FOUND, HELD = range(4)
"""Places in `counted`: nodes opened and irrelevant circles computed, over all searches; objects in the list of the
best, and circles known, of the last search."""


class Runs(NamedTuple):
    """The scores of all objects that were visited, run by run, each filled up to a block with NaN."""

    score: Floats
    at: Ints  # by run: where it begins in `score`, and its first object
    first: Ints


class Heap(NamedTuple):
    """Entries by key; how many there are is kept elsewhere."""

    key: Floats
    entry: Ints


class Members(NamedTuple):
    """The k members, then the object whose circle is computed."""

    x: Floats  # relative to q
    y: Floats
    far: Floats
    total: Floats  # see `scores.static_parts`
    product: Floats
    statics: Floats  # value j of member i is statics[j * x.size + i]


class TopScratch(NamedTuple):
    """The arrays; K is the k + m best, of which the first k are members."""

    key: Floats  # a heap of nodes, by what scores below them are at least
    node: Ints
    late_key: Floats  # nodes that the search of the best need not open
    late_node: Ints
    bound: Floats  # the bounds of a node's children
    runs: Runs
    objects: Heap  # objects that may have small circles, by score
    best_score: Floats  # (K,) in order of score, then age
    best: Ints
    members: Members
    circle: Floats  # (m,) the smallest circles in order, and whose they are
    owner: Ints
    counted: Ints
    boxes: Boxes


def scratch_for(view: View, k: int, m: int) -> TopScratch:
    """Scratch for searches of the k best and m circles in this index. O(n), most of it never touched."""
    blocks = len(view.delta.x) // BLOCK
    wide = max(int((view.end - view.first).max(initial=0)), blocks)
    d = len(view.base.statics) // max(1, len(view.base.x))
    return _scratch(len(view.base.slot) + len(view.delta.x), len(view.first) + blocks, wide, d, k, m)


def member_scratch(k: int, d: int) -> TopScratch:
    """Scratch for k members with d static values and the circle of one other object, without a search. O(k d)."""
    return _scratch(0, 0, 0, d, k, 1)


def _scratch(objects: int, nodes: int, wide: int, d: int, k: int, m: int) -> TopScratch:
    heap, late = aligned.empty((2, nodes + 1)), np.empty((2, nodes + 1), np.int64)
    runs = np.empty((2, nodes + 1), np.int64)
    members = np.zeros((5, k + 1))
    return TopScratch(
        key=heap[0],
        node=late[0],
        late_key=heap[1],
        late_node=late[1],
        bound=aligned.empty(wide + LANES),
        runs=Runs(aligned.empty(objects + LANES * (nodes + 2)), runs[0], runs[1]),
        objects=Heap(np.empty(objects + 1), np.empty(objects + 1, np.int64)),
        best_score=np.empty(k + m),
        best=np.empty(k + m, np.int64),
        members=Members(members[0], members[1], members[2], members[3], members[4], np.zeros(d * (k + 1))),
        circle=np.empty(m),
        owner=np.empty(m, np.int64),
        counted=np.zeros(4, np.int64),
        boxes=empty_boxes(),
    )
