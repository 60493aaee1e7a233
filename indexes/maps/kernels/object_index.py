"""The arrays of an object index and the kernels that change them: a packed base, its tombstones, and a delta in blocks.

`indexes.maps.object_index` describes the structure and has the class over it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Bytes, Floats, Ints, Ints32, int64

BLOCK = 64
"""Objects in a block of the delta."""

ABSENT = -1

LEAVES, DELTA, TOMBSTONES, BLOCKS, CHANGED = range(5)
"""Places in `size`: the first leaf of the base, and the numbers of objects in the delta, of tombstones, of blocks of
the delta, none of which is empty, and of changes in place in the base."""


class ObjectColumns(NamedTuple):
    """Objects by column; value j of object i is statics[j * x.size + i]."""

    x: Floats
    y: Floats
    statics: Floats
    slot: Ints32


class NodeColumns(NamedTuple):
    """The bounds of nodes by column: a rectangle, and the least and greatest static values, laid out as in
    `ObjectColumns`."""

    x0: Floats
    y0: Floats
    x1: Floats
    y1: Floats
    lower: Floats
    upper: Floats


class View(NamedTuple):
    """The arrays of an object index.

    Nodes are numbered from 0, those of the base first and then the blocks of the delta; objects by their places in the
    base, and behind these their places in the delta.
    """

    base: ObjectColumns
    dead: Bytes  # by object of the base; 1: a tombstone
    nodes: NodeColumns  # of the base
    first: Ints32  # by node of the base: its first child or object, and behind its last
    end: Ints32
    delta: ObjectColumns
    blocks: NodeColumns  # of the delta
    block_end: Ints32  # by block: behind its last object; its first is BLOCK times its number
    at: Ints32  # by slot: an object of the base, or ABSENT, or -2 - i for object i of the delta
    created: Ints  # by slot
    size: Ints


def empty_view() -> View:
    """Arrays of length 0, each of its type."""
    floats, ints, ints32 = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int32)
    objects, nodes = ObjectColumns(floats, floats, floats, ints32), NodeColumns(*[floats] * 6)
    dead = np.zeros(0, np.uint8)
    return View(objects, dead, nodes, ints32, ints32, objects, nodes, ints32, ints32, ints, ints)


@kernel
def put_objects(view: View, slots: Ints32, points: Floats, statics: Floats, created: Ints) -> None:
    for r in range(slots.size):
        if view.at[slots[r]] == ABSENT:
            view.created[slots[r]] = created[r]
        _put(view, int64(slots[r]), points, statics, r)


@kernel
def change_objects(view: View, slots: Ints32, signs: Floats, points: Floats, statics: Floats, changed: Ints) -> int:
    """Change objects that are there, each once, to what is given: NaN leaves a value as it is. `statics` are given with
    the user's signs. Afterwards `points` and `statics` are those of the index. Writes to `changed` the rows of those
    that differ from before, and returns how many. An object of the base stays there as long as it does not leave its
    leaf."""
    n = 0
    stride, delta_stride = view.base.x.size, view.delta.x.size
    for r in range(slots.size):
        i = int64(view.at[slots[r]])
        based = i >= 0
        i = i if based else -2 - i
        x, y = (view.base.x[i], view.base.y[i]) if based else (view.delta.x[i], view.delta.y[i])
        points[r, 0] = x if points[r, 0] != points[r, 0] else points[r, 0] + 0.0
        points[r, 1] = y if points[r, 1] != points[r, 1] else points[r, 1] + 0.0
        same = points[r, 0] == x and points[r, 1] == y
        for j in range(statics.shape[1]):
            was = view.base.statics[j * stride + i] if based else view.delta.statics[j * delta_stride + i]
            statics[r, j] = was if statics[r, j] != statics[r, j] else statics[r, j] * signs[j] + 0.0
            same = same and statics[r, j] == was
        if not same:
            changed[n] = r
            n += 1
            if based and _stays(view, i, points, statics, r):
                view.base.x[i], view.base.y[i] = points[r, 0], points[r, 1]
                for j in range(statics.shape[1]):
                    view.base.statics[j * stride + i] = statics[r, j]
                view.size[CHANGED] += 1
            else:
                _put(view, int64(slots[r]), points, statics, r)
    return n


@internal
def _stays(view: View, i: int, points: Floats, statics: Floats, r: int) -> bool:
    """Whether what is in row r is within the bounds of the leaf that has object i of the base."""
    e, end = view.size[LEAVES], int64(view.first.size)
    while end - e > 1:
        middle = (e + end) // 2
        if view.first[middle] <= i:
            e = middle
        else:
            end = middle
    nodes, line = view.nodes, view.nodes.x0.size
    stays = nodes.x0[e] <= points[r, 0] <= nodes.x1[e] and nodes.y0[e] <= points[r, 1] <= nodes.y1[e]
    for j in range(statics.shape[1]):
        stays = stays and nodes.lower[j * line + e] <= statics[r, j] <= nodes.upper[j * line + e]
    return stays


@internal
def _put(view: View, t: int, points: Floats, statics: Floats, r: int) -> None:
    """Put what is in row r into slot t."""
    x, y = points[r, 0], points[r, 1]
    if view.at[t] >= 0:
        view.dead[view.at[t]] = 1
        view.size[TOMBSTONES] += 1
        view.at[t] = ABSENT
    elif view.at[t] < ABSENT:
        b = (-2 - view.at[t]) // BLOCK
        if not (view.blocks.x0[b] <= x <= view.blocks.x1[b] and view.blocks.y0[b] <= y <= view.blocks.y1[b]):
            _close(view, int64(-2 - view.at[t]))
            view.at[t] = ABSENT
    if view.at[t] == ABSENT:
        b = _block_for(view, x, y)
        if view.block_end[b] == (b + 1) * BLOCK:
            b = _split(view, b, x, y)
        i = int64(view.block_end[b])
        view.block_end[b] += 1
        view.size[DELTA] += 1
        view.delta.slot[i] = t
        view.at[t] = -2 - i
    i = int64(-2 - view.at[t])
    view.delta.x[i] = x
    view.delta.y[i] = y
    for j in range(statics.shape[1]):
        view.delta.statics[j * view.delta.x.size + i] = statics[r, j]
    _bound(view, i // BLOCK)


@internal
def _block_for(view: View, x: float, y: float) -> int:
    """The block whose rectangle grows least by a place, of several the smallest."""
    best: Any = int64(-1)
    growth = extent = np.inf
    for b in range(view.size[BLOCKS]):
        x0, y0, x1, y1 = view.blocks.x0[b], view.blocks.y0[b], view.blocks.x1[b], view.blocks.y1[b]
        grown = max(x0 - x, 0.0) + max(x - x1, 0.0) + max(y0 - y, 0.0) + max(y - y1, 0.0)
        if grown <= growth:
            size = (x1 - x0) + (y1 - y0)
            if grown < growth or size < extent:
                best, growth, extent = b, grown, size
    return best if best >= 0 else _new_block(view)


@internal
def _new_block(view: View) -> int:
    view.size[BLOCKS] += 1
    return view.size[BLOCKS] - 1


@internal
def _split(view: View, b: int, x: float, y: float) -> int:
    """Move the upper half of a full block, along its longer side, to another one; returns the block for an object at
    (x, y)."""
    other = _new_block(view)
    first, middle, end = b * BLOCK, b * BLOCK + BLOCK // 2, (b + 1) * BLOCK
    wide = view.blocks.x1[b] - view.blocks.x0[b] >= view.blocks.y1[b] - view.blocks.y0[b]
    _halve(view, view.delta.x if wide else view.delta.y, first, middle, end)
    for i in range(middle, end):
        _move(view, i, other * BLOCK + i - middle)
    view.block_end[b], view.block_end[other] = middle, other * BLOCK + end - middle
    _bound(view, b)
    _bound(view, other)
    edge, at = (view.blocks.x0[other], x) if wide else (view.blocks.y0[other], y)
    return other if at >= edge else b


@internal
def _halve(view: View, along: Floats, first: int, middle: int, end: int) -> None:
    """Order the objects between `first` and `end` so that none before `middle` is greater than one after it
    (quickselect)."""
    lo, hi = first, end - 1
    while lo < hi:
        pivot = along[(lo + hi) // 2]
        i, j = lo, hi
        while i <= j:
            while along[i] < pivot:
                i += 1
            while along[j] > pivot:
                j -= 1
            if i <= j:
                _swap(view, i, j)
                i += 1
                j -= 1
        if middle <= j:
            hi = j
        elif middle >= i:
            lo = i
        else:
            lo = hi


@internal
def _swap(view: View, i: int, j: int) -> None:
    stride = view.delta.x.size
    view.delta.x[i], view.delta.x[j] = view.delta.x[j], view.delta.x[i]
    view.delta.y[i], view.delta.y[j] = view.delta.y[j], view.delta.y[i]
    view.delta.slot[i], view.delta.slot[j] = view.delta.slot[j], view.delta.slot[i]
    for a in range(0, view.delta.statics.size, stride):
        view.delta.statics[a + i], view.delta.statics[a + j] = view.delta.statics[a + j], view.delta.statics[a + i]
    view.at[view.delta.slot[i]], view.at[view.delta.slot[j]] = -2 - i, -2 - j


@internal
def _move(view: View, i: int, j: int) -> None:
    """Move the object at place i to place j, and leave a hole."""
    stride = view.delta.x.size
    view.delta.x[j], view.delta.y[j], view.delta.slot[j] = view.delta.x[i], view.delta.y[i], view.delta.slot[i]
    view.delta.x[i] = view.delta.y[i] = np.inf
    view.delta.slot[i] = ABSENT
    for a in range(0, view.delta.statics.size, stride):
        view.delta.statics[a + j] = view.delta.statics[a + i]
        view.delta.statics[a + i] = np.inf
    view.at[view.delta.slot[j]] = -2 - j


@kernel
def read_objects(view: View, slots: Ints, points: Floats, statics: Floats) -> None:
    for r in range(slots.size):
        i = int64(view.at[slots[r]])
        if i >= 0:
            points[r, 0], points[r, 1] = view.base.x[i], view.base.y[i]
            for j in range(statics.shape[1]):
                statics[r, j] = view.base.statics[j * view.base.x.size + i]
        else:
            i = -2 - i
            points[r, 0], points[r, 1] = view.delta.x[i], view.delta.y[i]
            for j in range(statics.shape[1]):
                statics[r, j] = view.delta.statics[j * view.delta.x.size + i]


@kernel
def delete_objects(view: View, slots: Ints32) -> None:
    for r in range(slots.size):
        t = int64(slots[r])
        if view.at[t] >= 0:
            view.dead[view.at[t]] = 1
            view.size[TOMBSTONES] += 1
        elif view.at[t] < ABSENT:
            _close(view, int64(-2 - view.at[t]))
        view.at[t] = ABSENT


@internal
def _close(view: View, i: int) -> None:
    """Remove the object at place i of the delta: the last of its block moves there. A block that becomes empty is
    replaced by the last one."""
    b = i // BLOCK
    last = int64(view.block_end[b]) - 1
    if i < last:
        _swap(view, i, last)
    view.delta.x[last] = view.delta.y[last] = np.inf
    view.delta.slot[last] = ABSENT
    for a in range(0, view.delta.statics.size, view.delta.x.size):
        view.delta.statics[a + last] = np.inf
    view.block_end[b] = last
    view.size[DELTA] -= 1
    if last == b * BLOCK:
        view.size[BLOCKS] -= 1
        moved = view.size[BLOCKS]
        if b < moved:
            for i in range(moved * BLOCK, view.block_end[moved]):
                _move(view, i, i + (b - moved) * BLOCK)
            view.block_end[b] = view.block_end[moved] + (b - moved) * BLOCK
            view.block_end[moved] = moved * BLOCK
            _bound(view, moved)
    _bound(view, b)


@kernel
def bound_blocks(view: View) -> None:
    for b in range(view.block_end.size):
        _bound(view, b)


@internal
def _bound(view: View, b: int) -> None:
    """Make the bounds of block b tight."""
    first, end = b * BLOCK, int64(view.block_end[b])
    _bound_column(view.delta.x, first, end, view.blocks.x0, view.blocks.x1, b)
    _bound_column(view.delta.y, first, end, view.blocks.y0, view.blocks.y1, b)
    stride, line = view.delta.x.size, view.blocks.x0.size
    for j in range(view.delta.statics.size // stride):
        _bound_column(
            view.delta.statics, j * stride + first, j * stride + end, view.blocks.lower, view.blocks.upper, j * line + b
        )


@internal
def _bound_column(column: Floats, first: int, end: int, lowest: Floats, highest: Floats, b: int) -> None:
    least, most = np.inf, -np.inf
    for i in range(first, end):
        least = min(least, column[i])
        most = max(most, column[i])
    lowest[b] = least
    highest[b] = most
