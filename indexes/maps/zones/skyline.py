"""Skylines and their polygonal safe zones, for the Euclidean metric.

A zone is a convex polygon less its cutters, which are convex too; it may consist of several pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints, Ints32
from indexes.maps.kernels.polygon import position_in
from indexes.maps.kernels.skyline_scratch import (
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
    SkylineScratch,
    empty_scratch,
    grown,
)
from indexes.maps.kernels.skylines import MARGIN, SkylineRows, extend_bounds, search_skylines
from indexes.maps.kernels.two_phase import two_phase
from indexes.maps.object_index import PlaceIndex

CORNERS, MEMBERS = 16, 128
"""Initial room for each of many places: for corners of its zone, and for members of its skyline."""


class Zone(NamedTuple):
    """A skyline at a place, and where it stays the same. Coordinates of polygons are relative to the place.

    An edge goes from its vertex to the next, counter-clockwise. Edges of the polygon are where the object in slot
    `near` is as far as that in slot `far`, both BOX on a side of the box, and both CHORD within a cutter; edges of a
    cutter are where its owner is as far as the member in slot `cut_far`, BOX on the polygon.
    """

    place: Floats  # (2,)
    box: Floats  # (4,) x0, y0, x1, y1
    margin: float
    skyline: Ints32  # slots, nearest first
    places: Floats  # (2, members) where they are
    statics: Floats  # (d, members)
    x: Floats  # by edge of the polygon, as the next three; none: the skyline holds at the place alone
    y: Floats
    near: Ints32
    far: Ints32
    cut_x: Floats  # by edge of all cutters, one after the other, as the next two
    cut_y: Floats
    cut_far: Ints32
    cut_end: Ints  # by cutter: behind its last edge
    cut_owner: Ints32

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
    """The cost of a search: nodes opened, entries deferred and objects tried as cutters."""

    nodes: int
    deferred: int
    examined: int


def box_around(bounds: Floats, x: float, y: float) -> Floats:
    """The limits of a zone of (x, y): the bounds (x0, y0, x1, y1), extended round a place outside them."""
    box = np.empty(4)
    extend_bounds(bounds, float(x), float(y), box)
    return box


class SkylineSearch:
    """Searches for skylines, one at a time, in arrays that are reused."""

    def __init__(self, d: int) -> None:
        self._scratch = empty_scratch(d)

    @property
    def cost(self) -> Found:
        """The cost of the last search."""
        size = self._scratch.size
        return Found(int(size[NODES]), int(size[DEFERRED]), int(size[EXAMINED]))

    def skyline(self, index: PlaceIndex, x: float, y: float) -> Ints32:
        """The slots of the skyline at (x, y), nearest first."""
        self.search(two_phase, index, x, y, np.zeros(4), False)
        w = self._scratch
        return w.member[: w.size[N_SKYLINE]].astype(np.int32)

    def zone(
        self, index: PlaceIndex, x: float, y: float, bounds: Floats, search: Callable[..., Any] = two_phase
    ) -> Zone:
        """The skyline at (x, y), and its zone within the bounds (see `box_around`)."""
        box = box_around(np.asarray(bounds, np.float64), x, y)
        self.search(search, index, x, y, box, True)
        margin = float(MARGIN * max(box[2] - box[0], box[3] - box[1]))
        return read_zone(self._scratch, np.array([x, y], np.float64), box, margin)

    def many(self, index: PlaceIndex, places: Floats, bounds: Floats) -> SkylineRows:
        """The skylines at places (n, 2), with the rings of their zones, in one call of a kernel: see `zone`."""
        n, box, done, zoned = len(places), np.empty(4), 0, True
        rows = _more_room(None, n, MEMBERS * n, CORNERS * n, 2 * n)
        while done < n:
            before = done
            done = search_skylines(index.view, self._scratch, places, done, bounds, box, zoned, rows)
            zoned = zoned or done > before
            if done < n and self._scratch.size[FULL]:
                zoned &= self._grow()
            elif done < n:
                rows = _more_room(rows, n, 2 * len(rows.slot), 2 * len(rows.corner), 2 * len(rows.ring_end))
        members = int(rows.end[-1]) if n else 0
        rings = int(rows.rings_end[-1]) if n else 0
        corners = int(rows.ring_end[rings - 1]) if rings else 0
        return rows._replace(
            slot=rows.slot[:members],
            distance=rows.distance[:members],
            corner=rows.corner[:corners],
            ring_end=rows.ring_end[:rings],
        )

    def search(
        self, search: Callable[..., Any], index: PlaceIndex, x: float, y: float, box: Floats, zoned: bool
    ) -> None:
        """Run a search with as much room as it needs; the result is in the arrays."""
        x, y = float(x), float(y)
        search(index.view, self._scratch, x, y, box, zoned)
        while self._scratch.size[FULL]:
            zoned &= self._grow()
            search(index.view, self._scratch, x, y, box, zoned)

    def _grow(self) -> bool:
        """Make room for what ran out of it. Returns whether a zone is worth it: not one of so many vertices."""
        scratch = self._scratch
        few = scratch.size[FULL] != NO_VERTICES or len(scratch.zone.x) < MOST_VERTICES
        self._scratch = grown(scratch)
        return few


def _more_room(rows: SkylineRows | None, places: int, members: int, corners: int, rings: int) -> SkylineRows:
    """Room for more members, corners and rings, with those of `rows`."""
    more = SkylineRows(
        slot=np.empty(members, np.int64),
        distance=np.empty(members),
        end=np.empty(places, np.int64),
        corner=np.empty((corners, 2)),
        ring_end=np.empty(rings, np.int64),
        rings_end=np.empty(places, np.int64),
        margin=np.empty(places),
    )
    for new, old in zip(more, rows or (), strict=False):
        new[: len(old)] = old
    return more


def read_zone(w: SkylineScratch, place: Floats, box: Floats, margin: float) -> Zone:
    """The zone in the arrays of a search."""
    k, n = int(w.size[N_SKYLINE]), int(w.size[N_ZONE])
    m, cutters = (int(w.size[N_CUT]), int(w.size[N_CUTTERS])) if n else (0, 0)
    label = w.zone.label[:n]
    d, stride = len(w.corner), len(w.x)
    return Zone(
        place=place,
        box=box,
        margin=margin,
        skyline=w.member[:k].astype(np.int32),
        places=np.array([w.place_x[:k], w.place_y[:k]]),
        statics=w.statics.reshape(d, stride)[:, :k].copy(),
        x=w.zone.x[:n].copy(),
        y=w.zone.y[:n].copy(),
        near=np.where(label < 0, label, label >> PAIR).astype(np.int32),
        far=np.where(label < 0, label, label & ((1 << PAIR) - 1)).astype(np.int32),
        cut_x=w.cut_x[:m].copy(),
        cut_y=w.cut_y[:m].copy(),
        cut_far=w.cut_label[:m].astype(np.int32),
        cut_end=w.cut_end[:cutters].copy(),
        cut_owner=w.cut_owner[:cutters].astype(np.int32),
    )


@kernel
def position(x: Floats, y: Floats, px: float, py: float, margin: float) -> int:
    """The position of (px, py) in the convex polygon of these vertices, as `polygon.position_in`."""
    return position_in(x, y, 0, x.size, px, py, margin)


@kernel
def holds(
    x: Floats, y: Floats, cut_x: Floats, cut_y: Floats, cut_end: Ints, margin: float, px: float, py: float
) -> bool:
    """Whether (px, py) is inside the convex polygon and outside all cutters, by the margin; see `Zone`."""
    inside = position_in(x, y, 0, x.size, px, py, margin) > 0
    first = 0
    for i in range(cut_end.size):
        inside &= position_in(cut_x, cut_y, first, cut_end[i], px, py, margin) < 0
        first = cut_end[i]
    return inside
