"""Safe zones of skylines: asking for them, and whether a place is in one.

A zone is a convex polygon less its cutters, which are convex too: design 1.8 (a). That is all of it, in all its pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import lean_kernel
from indexes.maps.places import PlaceIndex
from indexes.maps.polygon import keeps_off
from indexes.maps.rtree import Float64, Int32
from indexes.maps.two_phase import two_phase
from indexes.maps.work import (
    DEFERRED,
    EXAMINED,
    FULL,
    MOST_VERTICES,
    N_CUT,
    N_CUTTERS,
    N_SKYLINE,
    N_ZONE,
    NO_VERTICES,
    NODES,
    PAIR,
    Work,
    empty_work,
    grown,
)

Int64 = NDArray[np.int64]

GROWN = 0.05
"""How far the bounds are grown round a place outside them, in their longer side."""

MARGIN = 1e-9
"""How far inside a place has to be, in the bounds' longer side."""


class Zone(NamedTuple):
    """A skyline at a place, and where it stays the same. Coordinates of polygons are relative to the place.

    An edge goes from its vertex to the next, counter-clockwise. Edges of the polygon are where the object in slot
    `near` is as far as that in slot `far`, both BOX on a side of the box, and both CHORD within a cutter; edges of a
    cutter are where its owner is as far as the member in slot `cut_far`, BOX on the polygon.
    """

    place: Float64  # (2,)
    box: Float64  # (4,) x0, y0, x1, y1
    margin: float
    skyline: Int32  # slots, nearest first
    places: Float64  # (2, members) where they are
    statics: Float64  # (d, members)
    x: Float64  # by edge of the polygon, as the next three; none: the skyline holds at the place alone
    y: Float64
    near: Int32
    far: Int32
    cut_x: Float64  # by edge of all cutters, one after the other, as the next two
    cut_y: Float64
    cut_far: Int32
    cut_end: Int64  # by cutter: behind its last edge
    cut_owner: Int32

    @property
    def empty(self) -> bool:
        """Whether the skyline holds at the place alone."""
        return len(self.x) == 0

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) is strictly inside, by the margin. O(edges)."""
        return bool(
            holds(
                self.x, self.y, self.cut_x, self.cut_y, self.cut_end, self.margin, x - self.place[0], y - self.place[1]
            )
        )


class Found(NamedTuple):
    """What a search cost: nodes opened, entries put off and objects tried as cutters."""

    nodes: int
    deferred: int
    examined: int


def box_around(bounds: Float64, x: float, y: float) -> Float64:
    """What no zone of (x, y) reaches past: the bounds (x0, y0, x1, y1), grown round a place outside them."""
    x0, y0, x1, y1 = bounds
    if x0 <= x <= x1 and y0 <= y <= y1:
        return np.array([x0, y0, x1, y1], np.float64)
    m = GROWN * max(x1 - x0, y1 - y0)
    return np.array([min(x0, x - m), min(y0, y - m), max(x1, x + m), max(y1, y + m)], np.float64)


class Searcher:
    """Searches for skylines, one at a time, in arrays of its own that are used again and again."""

    def __init__(self, d: int) -> None:
        self._work = empty_work(d)

    @property
    def cost(self) -> Found:
        """What the last search cost."""
        size = self._work.size
        return Found(int(size[NODES]), int(size[DEFERRED]), int(size[EXAMINED]))

    def skyline(self, index: PlaceIndex, x: float, y: float) -> Int32:
        """The slots of the skyline at (x, y), nearest first."""
        self.search(two_phase, index, x, y, np.zeros(4), False)
        w = self._work
        return w.member[: w.size[N_SKYLINE]].astype(np.int32)

    def zone(
        self, index: PlaceIndex, x: float, y: float, bounds: Float64, search: Callable[..., Any] = two_phase
    ) -> Zone:
        """The skyline at (x, y), and its zone within the bounds (see `box_around`)."""
        box = box_around(np.asarray(bounds, np.float64), x, y)
        self.search(search, index, x, y, box, True)
        margin = float(MARGIN * max(bounds[2] - bounds[0], bounds[3] - bounds[1]))
        return read_zone(self._work, np.array([x, y], np.float64), box, margin)

    def search(
        self, search: Callable[..., Any], index: PlaceIndex, x: float, y: float, box: Float64, zoned: bool
    ) -> None:
        """Run a search, with as much room as it needs; what it finds stays in the arrays."""
        x, y = float(x), float(y)
        search(index.view, self._work, x, y, box, zoned)
        while self._work.size[FULL]:
            if self._work.size[FULL] == NO_VERTICES and len(self._work.zone_x) >= MOST_VERTICES:
                zoned = False
            self._work = grown(self._work)
            search(index.view, self._work, x, y, box, zoned)


def read_zone(w: Work, place: Float64, box: Float64, margin: float) -> Zone:
    """The zone that lies in the arrays of a search."""
    k, n = int(w.size[N_SKYLINE]), int(w.size[N_ZONE])
    m, cutters = (int(w.size[N_CUT]), int(w.size[N_CUTTERS])) if n else (0, 0)
    label = w.zone_label[:n]
    d, stride = len(w.corner), len(w.x)
    return Zone(
        place=place,
        box=box,
        margin=margin,
        skyline=w.member[:k].astype(np.int32),
        places=np.array([w.place_x[:k], w.place_y[:k]]),
        statics=w.statics.reshape(d, stride)[:, :k].copy(),
        x=w.zone_x[:n].copy(),
        y=w.zone_y[:n].copy(),
        near=np.where(label < 0, label, label >> PAIR).astype(np.int32),
        far=np.where(label < 0, label, label & ((1 << PAIR) - 1)).astype(np.int32),
        cut_x=w.cut_x[:m].copy(),
        cut_y=w.cut_y[:m].copy(),
        cut_far=w.cut_label[:m].astype(np.int32),
        cut_end=w.cut_end[:cutters].copy(),
        cut_owner=w.cut_owner[:cutters].astype(np.int32),
    )


@lean_kernel
def lies(x, y, px, py, margin):  # type: ignore[no-untyped-def]
    """How (px, py) lies to the convex polygon of these vertices, as `polygon.keeps_off`."""
    return keeps_off(x, y, 0, x.size, px, py, margin)


@lean_kernel
def holds(x, y, cut_x, cut_y, cut_end, margin, px, py):  # type: ignore[no-untyped-def]
    """Whether (px, py) is inside the convex polygon and outside all cutters, by the margin; see `Zone`."""
    inside = keeps_off(x, y, 0, x.size, px, py, margin) > 0
    first = 0
    for i in range(cut_end.size):
        inside &= keeps_off(cut_x, cut_y, first, cut_end[i], px, py, margin) < 0
        first = cut_end[i]
    return inside
