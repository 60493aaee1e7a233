"""The index of a cut: an R-tree over the zones of a board, asked with the rectangles of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from indexes.boards.zones import Cut, touched, zone_of
from indexes.core.arrays import Floats

FAR = 1e301
"""In place of infinity, which the R-tree has not: no number of a board is as large."""


class ZoneTable:
    """The zones of one cut by place.

    The R-tree holds closed rectangles: it finds a few zones too many at the sides of tiles, which are taken out again.
    """

    def __init__(self, cut: Cut) -> None:
        from rtree import index

        self.cut = cut
        self._zones: Floats = np.array(cut.zones, np.float64)
        finite = np.clip(self._zones, -FAR, FAR)
        boxes: Iterator[tuple[int, Any, None]] = (
            (i, (l_lo, r_lo, l_hi, r_hi), None) for i, (l_lo, l_hi, r_lo, r_hi) in enumerate(finite.tolist())
        )
        self._index: Any = index.Index(boxes, interleaved=True)

    def touched(self, sides: Floats) -> Iterator[tuple[int, int]]:
        """Pairs of a tile's row and a zone that it touches, in order of rows; `sides` are those of `TileRows`."""
        sides = np.array(sides)
        west = sides[:, :2]
        # Columns of tiles have unbounded ends without a sign.
        west[np.isinf(west)] = -np.inf
        closed = np.clip(sides, -FAR, FAR)
        found, counts = self._index.intersection_v(closed[:, [0, 2]], closed[:, [1, 3]])
        rows = np.repeat(np.arange(len(sides)), counts.astype(np.int64))
        inside = touched(self._zones[found], sides[rows])
        return zip(rows[inside].tolist(), found[inside].tolist(), strict=True)

    def zone_of(self, l: float, r: float) -> int:
        """The zone of a subscription."""
        return zone_of(self.cut.zones, l, r)
