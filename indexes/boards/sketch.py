"""A sketch of the subscriptions: Paint-Sparse by a cover of B rectangles in place of them (remark in III-B).

The boxes of the 2^level nodes at one level of a class's tree cover its subscriptions, and lie in a row. A search goes
over all of them, sixteen at a time, and looks no deeper. Every point of a rectangle counts as a subscription: no
subscriber is missed or told without need, but a tile may reach nobody, and fewer tiles are joined.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", III-B.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.forest import ALL, DEPTH, NODE, exists, overlapping, snap
from indexes.boards.tiles import above, below
from indexes.jit import inline_kernel
from indexes.lanes import LANES, low_bit
from indexes.lean import inner_kernel

INF = np.inf


def level_of(rectangles: int | None) -> int:
    """The level of a tree that has at most so many nodes; -1 for None, which looks at the subscriptions themselves.

    >>> level_of(None), level_of(1), level_of(1000)
    (-1, 0, 9)
    """
    return -1 if rectangles is None else rectangles.bit_length() - 1


@inline_kernel
def is_sketched(f, q, level):  # type: ignore[no-untyped-def]
    """Whether searches of class q end above its leaves."""
    return (level >= 0) & (level < f.head[q, DEPTH])


@inner_kernel
def snap_seen(f, q, level, l_outer, l_inner, r_inner, r_outer):  # type: ignore[no-untyped-def]
    """As `snap`, of what the sketch shows. O(2^level)."""
    if is_sketched(f, q, level):
        found = _snap_cover(f, q, level, l_outer, l_inner, r_inner, r_outer)
    else:
        found = snap(f, q, l_outer, l_inner, r_inner, r_outer)
    return found


@inner_kernel
def exists_seen(f, q, level, l_outer, l_inner, r_inner, r_outer):  # type: ignore[no-untyped-def]
    """As `exists`, of what the sketch shows. O(2^level)."""
    if is_sketched(f, q, level):
        west, east = _snap_cover(f, q, level, l_outer, l_inner, r_inner, r_outer)[:2]
        found = west <= east
    else:
        found = exists(f, q, l_outer, l_inner, r_inner, r_outer)
    return found


@inner_kernel
def _snap_cover(f, q, level, l_outer, l_inner, r_inner, r_outer):  # type: ignore[no-untyped-def]
    """The bounding box of the tile's share of all rectangles, (inf, -inf, inf, -inf) when there is none."""
    first = f.head[q, NODE] + (1 << level)
    end = first + (1 << level)
    r_below, r_last = below(r_inner), below(r_outer)
    l_first = above(l_outer)
    a, b, c, d = INF, -INF, INF, -INF
    i = first
    while i < end and l_outer < l_inner and r_inner < r_outer:
        mask = overlapping(f, i, l_outer, l_inner, r_below, r_last) & (ALL >> max(i + LANES - end, 0))
        while mask:
            j = i + low_bit(mask)
            mask &= mask - 1
            a, b = min(a, max(f.west[j], l_first)), max(b, min(f.east[j], l_inner))
            c, d = min(c, max(f.south[j], r_inner)), max(d, min(f.north[j], r_last))
        i += LANES
    return a, b, c, d
