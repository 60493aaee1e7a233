"""Freshly packed indexes of a board as plain columns: the content of an image on disk.

The layout depends on the points alone, so that it is the same bit for bit whether it is made here at once or elsewhere
in parts. A class of subscriptions is cut into 2^above *cells* by halving at medians, level by level (along the side
that `widest` chooses); `pack_cell` packs one cell as a subtree, and `join_cells` joins the subtrees. Objects are spread
evenly over the leaves of the range tree (`place`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.forest import CAP, DEPTH, MAX, NODE, SLOT, Forest, lay, share
from indexes.boards.kernels.range_tree import NOBODY, leaves_for
from indexes.boards.subscription_index import empty_forest, shape
from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import Bytes, Floats, Ints, Rows

NODES = ("west", "east", "south", "north", "cut", "axis", "cnt")

AXIS_L, AXIS_R = 0, 1


class Slots(NamedTuple):
    """The points of a tree or a cell in its leaves, `Forest.l`, `r` and `sid` of it."""

    l: Floats
    r: Floats
    sid: Rows


class Nodes(NamedTuple):
    """The nodes of a tree or a cell in heap order, from node 0 (unused); the columns of a `Forest`."""

    west: Floats
    east: Floats
    south: Floats
    north: Floats
    cut: Floats
    axis: Bytes
    cnt: Rows


class Box(NamedTuple):
    """The bounding box of a cell's points."""

    west: float
    east: float
    south: float
    north: float


class PackedForest(NamedTuple):
    """All classes in one arena, with `head` as in `Forest`, and `LANES` more rows that kernels may read."""

    ks: tuple[int, ...]
    head: Ints
    slots: Slots
    nodes: Nodes


class PackedObjects(NamedTuple):
    """The slots of a range tree, holes included (row -1). `y` is as ranked: smaller is better."""

    x: Floats
    y: Floats
    c: Ints
    row: Rows


class PackedBoard(NamedTuple):
    """Both indexes of a board."""

    forest: PackedForest
    objects: PackedObjects


def ends(values: Floats) -> Floats:
    """Ends of ranges as the tree stores them: finite, and zero without a sign."""
    return np.clip(values, -MAX, MAX) + 0.0


def widest(box: Box) -> int:
    """The side along which a cell is halved."""
    return AXIS_R if box.east - box.west < box.north - box.south else AXIS_L


def cell_start(whole: int, above: int, cell: int) -> int:
    """The number of a class's points before a cell."""
    return int(share(whole, above, cell))


def pack_cell(sid: Rows, l: Floats, r: Floats, whole: int, above: int = 0, cell: int = 0) -> tuple[Slots, Nodes]:
    """Lay out one cell of a class of `whole` points as a tree of its own; nodes count from its root.

    O(n log n). Raises ValueError if the number of points is not that of the cell.
    """
    depth, cap = shape(whole)
    n = len(sid)
    if n != cell_start(whole, above, cell + 1) - cell_start(whole, above, cell) or above > depth:
        raise ValueError(f"cell {cell} of {1 << above} of {whole} points cannot have {n}")
    order = np.argsort(sid, kind="stable")
    f = empty_forest(cap << (depth - above), 2 << (depth - above), 1, n)
    f.head[0] = 0, 0, depth - above, cap
    # Numbers within the cell are ordered as the sids, and need no column as long as the largest sid.
    f.l[:n], f.r[:n], f.sid[:n] = l[order], r[order], np.arange(n, dtype=np.int32)
    lay(f, 0, 1, whole, above, cell)
    used = f.sid >= 0
    f.sid[used] = sid[order][f.sid[used]]
    f.l[:-LANES][~used] = f.r[:-LANES][~used] = 0.0
    slots = Slots(f.l[:-LANES], f.r[:-LANES], f.sid)
    return slots, Nodes(*(getattr(f, name)[: 2 << (depth - above)] for name in NODES))


def join_cells(whole: int, above: int, cells: Iterable[Nodes], cuts: Sequence[tuple[int, float]]) -> Nodes:
    """The nodes of a class from those of its cells, in order; `cuts` are (axis, cut) of the nodes above, from the root
    in heap order. O(nodes)."""
    depth, _ = shape(whole)
    f = empty_forest(0, 2 << depth, 1, 0)
    for cell, nodes in enumerate(cells):
        for level in range(depth - above + 1):
            first = ((1 << above) + cell) << level
            for name in NODES:
                getattr(f, name)[first : first + (1 << level)] = getattr(nodes, name)[1 << level : 2 << level]
    for node in range((1 << above) - 1, 0, -1):
        pair = slice(2 * node, 2 * node + 2)
        f.axis[node], f.cut[node] = cuts[node - 1]
        f.cnt[node] = f.cnt[pair].sum()
        f.west[node], f.east[node] = f.west[pair].min(), f.east[pair].max()
        f.south[node], f.north[node] = f.south[pair].min(), f.north[pair].max()
    return Nodes(*(getattr(f, name)[: 2 << depth] for name in NODES))


def heads(counts: Sequence[int]) -> Ints:
    """`Forest.head` of classes of these sizes, one after another."""
    head = np.zeros((len(counts), 4), np.int64)
    slot = node = 0
    for q, n in enumerate(counts):
        depth, cap = shape(n)
        head[q, [SLOT, NODE, DEPTH, CAP]] = slot, node, depth, cap
        slot += cap << depth
        node += 2 << depth
    return head


def pack_forest(ks: Sequence[int], k: Rows, sid: Rows, l: Floats, r: Floats) -> PackedForest:
    """All classes of a board; the columns are of its subscriptions in any order. O(m log m)."""
    counts, slots, nodes = [], [], []
    for one in ks:
        mine = k == one
        counts.append(int(np.count_nonzero(mine)))
        packed = pack_cell(sid[mine], ends(l[mine]), ends(r[mine]), counts[-1])
        slots.append(packed[0])
        nodes.append(packed[1])
    return join_classes(ks, counts, slots, nodes)


def join_classes(
    ks: Sequence[int], counts: Sequence[int], slots: Sequence[Slots], nodes: Sequence[Nodes]
) -> PackedForest:
    """The arena of all classes. Their slots may come in pieces, class by class."""
    spare = empty_forest(0, 0, 0, 0)
    last_slots = Slots(spare.l, spare.r, np.full(LANES, -1, np.int32))
    boxes = spare.west, spare.east, spare.south, spare.north
    last_nodes = Nodes(*boxes, np.zeros(LANES), np.zeros(LANES, np.uint8), np.zeros(LANES, np.int32))
    return PackedForest(
        tuple(ks),
        heads(counts),
        Slots(*(aligned.concatenated(parts) for parts in zip(*slots, last_slots, strict=True))),
        Nodes(*(aligned.concatenated(parts) for parts in zip(*nodes, last_nodes, strict=True))),
    )


def place(n: int, leaves: int, lo: int, hi: int) -> Ints:
    """The slots of objects lo..hi - 1 of n in position order, spread evenly over the leaves. O(leaves + hi - lo)."""
    starts = n * np.arange(leaves + 1, dtype=np.int64) // leaves
    at = np.arange(lo, hi, dtype=np.int64)
    leaf = np.searchsorted(starts, at, side="right") - 1
    return (leaf << 4) + at - starts[leaf]


def object_slots(n: int) -> int:
    """The number of slots that n objects are spread over."""
    return 16 * leaves_for(n)


def lay_objects(x: Floats, y: Floats, c: Ints, row: Rows, n: int, lo: int, first: int, last: int) -> PackedObjects:
    """Slots first..last - 1 of the tree of n objects; the columns are the objects of these slots, from number `lo` on
    in position order."""
    size = last - first
    out = PackedObjects(
        np.full(size, np.inf), np.full(size, np.inf), np.full(size, NOBODY), np.full(size, -1, np.int32)
    )
    at = place(n, leaves_for(n), lo, lo + len(x)) - first
    out.x[at], out.y[at], out.c[at], out.row[at] = x, y, c, row
    return out


def pack_objects(x: Floats, y: Floats, c: Ints, row: Rows) -> PackedObjects:
    """The objects of a board, in any order, as slots of a range tree. O(n log n)."""
    order = np.lexsort((c, x))
    return lay_objects(x[order], y[order], c[order], row[order], len(x), 0, 0, object_slots(len(x)))


def to_forest(packed: PackedForest, sids: int) -> Forest:
    """The arrays that kernels take, for sids below `sids`, over the packed columns. O(m)."""
    pos = np.full(sids, -1, np.int32)
    used = np.flatnonzero(packed.slots.sid >= 0)
    pos[packed.slots.sid[used]] = used
    s, n = packed.slots, packed.nodes
    return Forest(s.l, s.r, s.sid, n.west, n.east, n.south, n.north, n.cut, n.axis, n.cnt, packed.head, pos)
