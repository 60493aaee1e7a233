"""A sketch of the subscriptions: Paint-Sparse on a cover of B rectangles in place of the points ([Range top-k] III-B,
remark).

The boxes of the 2^level nodes at one level of a class's tree cover its subscriptions and are adjacent in memory. A
search scans all of them, sixteen at a time, and no deeper level. Every point of a rectangle counts as a subscription:
no recipient is missed, but a tile may reach nobody, and fewer tiles are joined.
"""

from __future__ import annotations

from indexes.boards.kernels.forest import DEPTH, NODE, Forest, exists, overlapping, snap
from indexes.compiled.floats import above, below
from indexes.compiled.jit import expanded, internal
from indexes.compiled.simd import ALL, LANES, low_bit
from indexes.core.arrays import INF


def level_of(rectangles: int | None) -> int:
    """The level of a tree that has at most so many nodes; -1 for None, which searches the subscriptions themselves.

    >>> level_of(None), level_of(1), level_of(1000)
    (-1, 0, 9)
    """
    return -1 if rectangles is None else rectangles.bit_length() - 1


@expanded
def is_sketched(forest: Forest, k_class: int, level: int) -> bool:
    """Whether searches of the class end above its leaves."""
    return (level >= 0) & (level < forest.head[k_class, DEPTH])


@internal
def sketched_snap(
    forest: Forest, k_class: int, level: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> tuple[float, float, float, float]:
    """`snap` on the sketch. O(2^level)."""
    if is_sketched(forest, k_class, level):
        found = _snap_cover(forest, k_class, level, l_outer, l_inner, r_inner, r_outer)
    else:
        found = snap(forest, k_class, l_outer, l_inner, r_inner, r_outer)
    return found


@internal
def sketched_exists(
    forest: Forest, k_class: int, level: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> bool:
    """`exists` on the sketch. O(2^level)."""
    if is_sketched(forest, k_class, level):
        west, east = _snap_cover(forest, k_class, level, l_outer, l_inner, r_inner, r_outer)[:2]
        found = west <= east
    else:
        found = exists(forest, k_class, l_outer, l_inner, r_inner, r_outer)
    return found


@internal
def _snap_cover(
    forest: Forest, k_class: int, level: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float
) -> tuple[float, float, float, float]:
    """The bounding box of the tile's intersection with all rectangles, (inf, -inf, inf, -inf) if it is empty."""
    first = forest.head[k_class, NODE] + (1 << level)
    end = first + (1 << level)
    r_last = below(r_outer)
    l_first = above(l_outer)
    a, b, c, d = INF, -INF, INF, -INF
    i = first
    while i < end and l_outer < l_inner and r_inner < r_outer:
        mask = overlapping(forest, i, l_outer, l_inner, r_inner, r_outer) & (ALL >> max(i + LANES - end, 0))
        while mask:
            j = i + low_bit(mask)
            mask &= mask - 1
            a, b = min(a, max(forest.west[j], l_first)), max(b, min(forest.east[j], l_inner))
            c, d = min(c, max(forest.south[j], r_inner)), max(d, min(forest.north[j], r_last))
        i += LANES
    return a, b, c, d
