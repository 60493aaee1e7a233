"""What a top-k and its zone are found in: one set of arrays for one thread, used again by the next search.

Objects are numbered as in `places.View`: those of the base, and behind them those of the delta.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.lanes import LANES
from indexes.maps.places import BLOCK, View
from indexes.maps.rectangles import Boxes, empty_boxes

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

NODES, CIRCLES, FOUND, HELD = range(4)
"""Places in `counted`: nodes opened and irrelevant circles worked out, counted up; objects in the list of the best, and
circles known, of the last search."""


class Room(NamedTuple):
    """The arrays; K is the k + m best, of which the first k are members."""

    key: Float64  # a heap of nodes, by what scores below them are at least
    node: Int64
    late_key: Float64  # nodes that the search of the best need not open
    late_node: Int64
    bound: Float64  # the bounds of a node's children
    score: Float64  # the scores of all objects that were looked at, run by run, each filled up to a block with NaN
    run_at: Int64  # by run: where it begins in `score`, and its first object
    run_first: Int64
    next_key: Float64  # a heap of objects that may have small circles, by score
    next_object: Int64
    best_score: Float64  # (K,) in order of score, then age
    best: Int64
    x: Float64  # by member and, behind them, of the object whose circle is asked for: its place relative to q
    y: Float64
    far: Float64
    total: Float64  # see `scores.static_parts`
    product: Float64
    statics: Float64  # value j of member i is statics[j * x.size + i]
    circle: Float64  # (m,) the smallest circles in order, and whose they are
    owner: Int64
    counted: Int64
    boxes: Boxes


def room_for(v: View, k: int, m: int) -> Room:
    """Room for searches of the k best and m circles in this index. O(n), most of it never touched."""
    blocks = len(v.delta_x) // BLOCK
    wide = max(int((v.end - v.first).max(initial=0)), blocks)
    d = len(v.statics) // max(1, len(v.x))
    return _room(len(v.slot) + len(v.delta_x), len(v.first) + blocks, wide, d, k, m)


def member_room(k: int, d: int) -> Room:
    """Room for k members with d static values and the circle of one object beside them, without a search. O(k d)."""
    return _room(0, 0, 0, d, k, 1)


def _room(objects: int, nodes: int, wide: int, d: int, k: int, m: int) -> Room:
    heap, late = aligned.empty((2, nodes + 1)), np.empty((2, nodes + 1), np.int64)
    runs = np.empty((2, nodes + 1), np.int64)
    members = np.zeros((5, k + 1))
    return Room(
        key=heap[0],
        node=late[0],
        late_key=heap[1],
        late_node=late[1],
        bound=aligned.empty(wide + LANES),
        score=aligned.empty(objects + LANES * (nodes + 2)),
        run_at=runs[0],
        run_first=runs[1],
        next_key=np.empty(objects + 1),
        next_object=np.empty(objects + 1, np.int64),
        best_score=np.empty(k + m),
        best=np.empty(k + m, np.int64),
        x=members[0],
        y=members[1],
        far=members[2],
        total=members[3],
        product=members[4],
        statics=np.zeros(d * (k + 1)),
        circle=np.empty(m),
        owner=np.empty(m, np.int64),
        counted=np.zeros(4, np.int64),
        boxes=empty_boxes(),
    )
