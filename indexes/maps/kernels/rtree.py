"""The base: a packed R-tree over places and static values, tiled by sort-tile-recurse over all 2 + d dimensions.

Layout: objects are in leaf order, and nodes level by level, the root first and the leaves last; the children of a node,
and the objects of a leaf, are adjacent, followed by those of the next node. So the tree *is* the order of its columns.
Every value has a column of its own (``statics[j]`` is attribute j of all objects, ``lower[j]`` and ``upper[j]`` are its
bounds in all nodes), so that a kernel reads one value of all children of a node as a few blocks of SIMD lanes; a column
ends with room for one more block, filled with infinity.

Smaller static values are better; those of "high" attributes have been negated. They are never NaN nor -inf; +inf, a
missing value, is worst. The order depends on the objects alone: equal coordinates keep the order of the dimension
before, and finally that of slots. So the tree is the same to the last bit wherever it is packed.

Source: Leutenegger, Lopez and Edgington, STR: a simple and efficient algorithm for R-tree packing, 1997.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from indexes.compiled.jit import internal
from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints, Ints32

PAGE = 4096
"""Bytes of a node, which hold the bounds of its children."""


class Tree(NamedTuple):
    """The arrays of a packed R-tree of n objects and m nodes; see the module's text. A tree without objects is one
    empty leaf, whose rectangle is (inf, inf, -inf, -inf)."""

    x: Floats  # (n + LANES,) by object, as the next three
    y: Floats
    statics: Floats  # (d, n + LANES)
    slot: Ints32  # (n,)
    x0: Floats  # (m + LANES,) by node, as all that follow: the rectangle of places
    y0: Floats
    x1: Floats
    y1: Floats
    lower: Floats  # (d, m + LANES) the best static values below it
    upper: Floats  # (d, m + LANES) the worst
    first: Ints32  # (m,) its first child, or of a leaf its first object
    end: Ints32  # (m,) behind its last
    leaves: Ints  # (1,) the first leaf: nodes from there on have objects


def fanout_of(d: int) -> int:
    """Children that a page has room for: two corners of 2 + d coordinates and a pointer each."""
    return max(2, PAGE // (16 * (2 + d) + 8))


def pack(
    points: ArrayLike,
    statics: ArrayLike,
    slots: ArrayLike | None = None,
    fanout: int | None = None,
    along: int | None = None,
) -> Tree:
    """The tree of objects at `points` (n, 2) with `statics` (n, d), smaller being better. O(d n log n).

    `slots` are their numbers, each once, by default 0 to n - 1; `fanout` is the number of children a node has at most,
    by default what fills a page. Tiles are cut along the first `along` of all 2 + d dimensions, by default along all.

    Raises:
        ValueError: a place is not finite, a static value is NaN or -inf, the shapes do not fit, or fanout is below 2.
    """
    places, values = np.asarray(points, np.float64), np.asarray(statics, np.float64)
    n = len(places)
    numbers = np.arange(n, dtype=np.int32) if slots is None else np.asarray(slots, np.int32)
    if places.shape != (n, 2) or values.shape[:1] != (n,) or values.ndim != 2 or numbers.shape != (n,):
        raise ValueError(f"{places.shape} places, {values.shape} static values and {numbers.shape} slots do not fit")
    refuse(places, values)
    d = values.shape[1]
    fanout = fanout_of(d) if fanout is None else fanout
    if fanout < 2:
        raise ValueError(f"a fanout of {fanout}")
    along = along or 2 + d
    rows = np.concatenate([places, values], axis=1) + 0.0
    order, slab = np.lexsort((numbers, first_key(rows[:, 0]))), slab_of(n, along, fanout)
    slabs = [order[i : i + slab] for i in range(0, n or 1, slab or 1)]
    return join([lay_slab(rows[some], numbers[some], n, fanout, along) for some in slabs], fanout, along)


def refuse(points: Floats, statics: Floats) -> None:
    """Raise ValueError for a place that is not finite, or a static value that is NaN or -inf."""
    if not np.isfinite(points).all():
        raise ValueError("a place is not finite")
    if not (statics > -np.inf).all():
        raise ValueError("a static value is NaN or -inf")


class Slab(NamedTuple):
    """The leaves of some objects: rows (n, 2 + d) of places and static values in the order of leaves, their slots, and
    the corners (t, 2 + d) of leaves. All leaves are full but the last one of the last slab."""

    rows: Floats
    slot: Ints32
    lower: Floats
    upper: Floats


# The same in slabs, to be laid out one by one in any order, also by several processes.


def first_key(x: Floats) -> Floats:
    """The key by which objects are cut into slabs: they are ordered by it, then by slot."""
    return x / 2 + x / 2 + 0.0


def slab_of(n: int, dimensions: int, fanout: int) -> int:
    """How many of n rows are cut off at once along the first of so many dimensions: some whole tiles; all n where
    nothing is left to cut."""
    if dimensions == 1 or n <= fanout:
        return n
    tiles = -(-n // fanout)
    return -(-tiles // int(np.ceil(tiles ** (1.0 / dimensions)))) * fanout


def lay_slab(rows: Floats, slots: Ints32, n: int, fanout: int, along: int) -> Slab:
    """A slab of n objects, see `slab_of`, from its rows (s, 2 + d) in order, without signs of zero. O(d s log s)."""
    if not len(rows):
        none = np.full((1, rows.shape[1]), np.inf)
        return Slab(rows, slots, none, -none)
    order = np.arange(len(rows))
    if along > 1 and n > fanout:
        order = tiled(rows[:, :along] / 2 + rows[:, :along] / 2, fanout, 1)
    laid, first = rows[order], np.arange(0, len(rows), fanout)
    return Slab(laid, slots[order], np.minimum.reduceat(laid, first), np.maximum.reduceat(laid, first))


def join(slabs: Sequence[Slab], fanout: int, along: int) -> Tree:
    """The tree of all slabs, in their order. O(d n)."""
    rows, slot, lower, upper = (np.concatenate(column) for column in zip(*slabs, strict=True))
    fill = np.minimum(fanout, len(rows) - np.arange(0, max(1, len(rows)), fanout))
    order, levels = _levels(_Level(lower, upper, fill), fanout, along)
    return _tree(rows[order], slot[order], levels)


def tiled(keys: Floats, fanout: int, first: int = 0) -> Ints:
    """The order that puts rows with these keys (n, D) into tiles of `fanout`: cut into slabs along dimension `first`,
    each of these along the next, and so on; the tiles of a slab are sorted by the last. Stable. O(D n log n)."""
    D = keys.shape[1]

    def cut(some: Ints, j: int) -> list[Ints]:
        some = some[np.argsort(keys[some, j], kind="stable")]
        slab = slab_of(len(some), D - j, fanout)
        if slab == len(some):
            return [some]
        return [part for i in range(0, len(some), slab) for part in cut(some[i : i + slab], j + 1)]

    return np.concatenate(cut(np.arange(len(keys)), first))


class _Level(NamedTuple):
    """The nodes of one level: their corners (m, 2 + d), and how many children each has."""

    lower: Floats
    upper: Floats
    fill: Ints


def _levels(leaves: _Level, fanout: int, along: int) -> tuple[Ints, list[_Level]]:
    """The order of the contents of leaves that are in the order of their tiles, and all levels, the root's first."""
    lower, upper, _ = leaves
    orders, levels = [np.arange(leaves.fill.sum())], [leaves]
    while len(lower) > 1:
        order = tiled(lower[:, :along] / 2 + upper[:, :along] / 2, fanout)
        first = np.arange(0, len(order), fanout)
        lower = np.minimum.reduceat(lower[order], first)
        upper = np.maximum.reduceat(upper[order], first)
        orders.append(order)
        levels.append(_Level(lower, upper, np.minimum(fanout, len(order) - first)))
    return _from_the_root(orders, levels)


def _from_the_root(orders: list[Ints], levels: list[_Level]) -> tuple[Ints, list[_Level]]:
    """Levels from the leaves up, each with the order that cuts the level below into nodes, put into the order of
    their parents."""
    fanout = int(levels[0].fill[0])
    nodes, sorted_levels = np.zeros(1, np.int64), []
    for order, level in zip(reversed(orders), reversed(levels), strict=True):
        sorted_levels.append(_Level(*(column[nodes] for column in level)))  # type: ignore[arg-type]
        below = nodes[:, None] * fanout + np.arange(fanout)
        nodes = order[below[np.arange(fanout) < level.fill[nodes, None]]]
    return nodes, sorted_levels


def _tree(rows: Floats, slot: Ints32, levels: list[_Level]) -> Tree:
    lower, upper, fill = (np.concatenate(column) for column in zip(*levels, strict=True))
    leaves = len(fill) - len(levels[-1].fill)
    end = np.cumsum(fill)
    end[:leaves] += 1
    end[leaves:] -= end[leaves - 1] - 1 if leaves else 0
    objects, lowest, highest = _columns(rows), _columns(lower), _columns(upper)
    return Tree(
        x=objects[0],
        y=objects[1],
        statics=objects[2:],
        slot=aligned.concatenated([slot]),
        x0=lowest[0],
        y0=lowest[1],
        x1=highest[0],
        y1=highest[1],
        lower=lowest[2:],
        upper=highest[2:],
        first=aligned.concatenated([(end - fill).astype(np.int32)]),
        end=aligned.concatenated([end.astype(np.int32)]),
        leaves=np.array([leaves]),
    )


def _columns(rows: Floats) -> Floats:
    """Rows as columns that begin at cache lines and end with a spare block of lanes."""
    n, D = rows.shape
    line = aligned.LINE_BYTES // 8
    columns = aligned.full((D, -(-(n + LANES) // line) * line), np.inf)
    columns[:, :n] = rows.T
    return columns


def check(tree: Tree, tight: bool = True) -> None:
    """Raise AssertionError unless every object is in one leaf, every node but the root in one parent, and bounds are
    tight; those of leaves need only hold unless all are `tight`. O(n d)."""
    t, n, m = tree, len(tree.slot), len(tree.first)
    leaves = int(t.leaves[0])
    assert len(np.unique(t.slot)) == n
    held = [np.arange(t.first[e], t.end[e]) for e in range(m)]
    assert np.array_equal(np.concatenate(held[leaves:]), np.arange(n))
    assert np.array_equal(np.concatenate([np.zeros(1), *held[:leaves]]), np.arange(m))
    for e in range(m):
        own = slice(t.first[e], t.end[e])
        if e >= leaves:
            low, high = (t.x[own], t.y[own], t.statics[:, own]), (t.x[own], t.y[own], t.statics[:, own])
        else:
            low, high = (t.x0[own], t.y0[own], t.lower[:, own]), (t.x1[own], t.y1[own], t.upper[:, own])
        assert n == 0 or t.end[e] > t.first[e]
        if e >= leaves and not tight:
            assert (t.x0[e] <= low[0]).all() and (t.y0[e] <= low[1]).all() and (t.lower[:, [e]] <= low[2]).all()
            assert (t.x1[e] >= high[0]).all() and (t.y1[e] >= high[1]).all() and (t.upper[:, [e]] >= high[2]).all()
            continue
        assert t.x0[e] == low[0].min(initial=np.inf) and t.y0[e] == low[1].min(initial=np.inf)
        assert t.x1[e] == high[0].max(initial=-np.inf) and t.y1[e] == high[1].max(initial=-np.inf)
        assert (t.lower[:, e] == low[2].min(axis=1, initial=np.inf)).all()
        assert (t.upper[:, e] == high[2].max(axis=1, initial=-np.inf)).all()


@internal
def squared_mindist(x: float, y: float, x0: float, y0: float, x1: float, y1: float) -> float:
    """The square of the distance from (x, y) to the nearest point of a rectangle."""
    dx = max(x0 - x, 0.0, x - x1)
    dy = max(y0 - y, 0.0, y - y1)
    return dx * dx + dy * dy
