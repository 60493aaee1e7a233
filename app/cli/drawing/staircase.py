"""The geometry of influence regions, for pictures of them (paper, II-B, Figures 3 and 7).

A box is (l_outer, l_inner, r_inner, r_outer) in the plane of all ranges (l, r), infinite where unbounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rankcast_client import Area, Nearest

INF = math.inf


class Box(NamedTuple):
    """Holds (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer; an infinite outer side is inside too."""

    l_outer: float
    l_inner: float
    r_inner: float
    r_outer: float

    def holds(self, l: float, r: float) -> bool:
        west = self.l_outer == -INF or self.l_outer < l
        return west and l <= self.l_inner and self.r_inner <= r and (r < self.r_outer or self.r_outer == INF)


def boxes_of(areas: Iterable[Area]) -> list[Box]:
    """The rectangles of a board with one range attribute, with infinities in place of None."""
    return [
        Box(
            -INF if one.l_outer is None else one.l_outer,
            -INF if one.l_inner is None else one.l_inner,
            INF if one.r_inner is None else one.r_inner,
            INF if one.r_outer is None else one.r_outer,
        )
        for one in (area.box[""] for area in areas)
    ]


def levels(x: float, near: Nearest, k: int) -> list[tuple[Box, int]]:
    """The region of an object at `x` cut into boxes by its rank there.

    With i better objects of the west and j of the east in the range it is the (i + j + 1)-st. At most k (k + 1) / 2
    boxes.

    >>> from rankcast_client import Nearest
    >>> [(tuple(box), level) for box, level in levels(5.0, Nearest((2.0,), ()), 2)]
    [((2.0, 5.0, 5.0, inf), 1), ((-inf, 2.0, 5.0, inf), 2)]
    """
    west = [x, *near.west[:k], *[-INF] * (k - len(near.west))]
    east = [x, *near.east[:k], *[INF] * (k - len(near.east))]
    found = []
    for i in range(k):
        for j in range(k - i):
            box = Box(west[i + 1], west[i], east[j], east[j + 1])
            if box.l_outer < box.l_inner and box.r_inner < box.r_outer:
                found.append((box, i + j + 1))
    return found


def outline(strips: Sequence[Box]) -> list[tuple[float, float]]:
    """The corners of the staircase that strips from west to east make, in order; nothing for no strips."""
    if not strips:
        return []
    foot = strips[0].r_inner
    corners = [(strips[0].l_outer, foot)]
    for strip in strips:
        corners += [(strip.l_outer, strip.r_outer), (strip.l_inner, strip.r_outer)]
    return [*corners, (strips[-1].l_inner, foot)]
