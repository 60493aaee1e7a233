"""Skylines at many places in one call, and the rings of their zones in absolute coordinates.

A search for each place as in `two_phase`; what answers show of it is then copied behind what was found before. Members
are put in order of their distance, then of age.
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.compiled.jit import inlined, kernel
from indexes.core.arrays import Floats, Ints, int64
from indexes.maps.kernels.metrics import EUCLIDEAN, distance
from indexes.maps.kernels.object_index import View
from indexes.maps.kernels.polygon import position_in
from indexes.maps.kernels.skyline_scratch import (
    FULL,
    N_CUT,
    N_CUTTERS,
    N_SKYLINE,
    N_ZONE,
    NOTHING,
    SkylineScratch,
)
from indexes.maps.kernels.two_phase import two_phase

GROWN = 0.05
"""How far the bounds are extended round a place outside them, as a share of their longer side."""

MARGIN = 1e-9
"""How far inside a zone a place has to be, as a share of the longer side of its box."""


class SkylineRows(NamedTuple):
    """Skylines at places, one after the other, and the rings of their zones."""

    slot: Ints  # by member
    distance: Floats  # by member
    end: Ints  # by place: behind its last member
    corner: Floats  # (corners, 2) of rings, which are closed
    ring_end: Ints  # by ring: behind its last corner
    rings_end: Ints  # by place: behind its last ring; the first one is that of the polygon, the others of its cutters
    margin: Floats  # by place


@kernel
def extend_bounds(bounds: Floats, x: float, y: float, box: Floats) -> None:
    """Write the limits of a zone of (x, y): the bounds (x0, y0, x1, y1), extended round a place outside them."""
    for i in range(4):
        box[i] = bounds[i]
    if not (bounds[0] <= x and x <= bounds[2] and bounds[1] <= y and y <= bounds[3]):
        m = GROWN * max(bounds[2] - bounds[0], bounds[3] - bounds[1])
        box[0], box[1] = min(bounds[0], x - m), min(bounds[1], y - m)
        box[2], box[3] = max(bounds[2], x + m), max(bounds[3], y + m)


@kernel
def place_ring(x0: float, y0: float, x: Floats, y: Floats, first: int, end: int, ring: Floats, at: int) -> int:
    """Write vertices, which are relative to (x0, y0), in absolute coordinates from ring[at] on: closed, and without
    repeated ones. Returns how many there are, 0 where they have no area."""
    # Eight arguments: a place, a polygon's vertices, and where they go.
    n = 0
    for i in range(first, end):
        px, py = x0 + x[i], y0 + y[i]
        if n == 0 or px != ring[at + n - 1, 0] or py != ring[at + n - 1, 1]:
            ring[at + n, 0], ring[at + n, 1] = px, py
            n += 1
    if n > 0 and (ring[at + n - 1, 0] != ring[at, 0] or ring[at + n - 1, 1] != ring[at, 1]):
        ring[at + n, 0], ring[at + n, 1] = ring[at, 0], ring[at, 1]
        n += 1
    area = 0.0
    for i in range(at, at + n - 1):
        ax, ay = ring[i, 0] - x0, ring[i, 1] - y0
        bx, by = ring[i + 1, 0] - x0, ring[i + 1, 1] - y0
        area += ax * by - bx * ay
    return n if abs(area) > 0.0 else 0


@inlined
def _add_members(view: View, scratch: SkylineScratch, x: float, y: float, rows: SkylineRows, at: int) -> int:
    """Write the members in order of distance and age from `at` on; returns where they end."""
    for s in range(scratch.size[N_SKYLINE]):
        slot = scratch.member[s]
        far = distance(EUCLIDEAN, x, y, scratch.place_x[s], scratch.place_y[s])
        i = at + s
        # They come by squared distance, which has the same order but for equal roots.
        while i > at and (
            rows.distance[i - 1] > far
            or (rows.distance[i - 1] == far and view.created[rows.slot[i - 1]] > view.created[slot])
        ):
            rows.slot[i], rows.distance[i] = rows.slot[i - 1], rows.distance[i - 1]
            i -= 1
        rows.slot[i], rows.distance[i] = slot, far
    return at + scratch.size[N_SKYLINE]


@inlined
def _add_rings(scratch: SkylineScratch, x: float, y: float, margin: float, rows: SkylineRows, ring: int) -> int:
    """Write the rings of a zone behind the first `ring` ones; returns how many there are then. None where it has no
    area, and where nothing is cut from the polygon and the place is outside."""
    n = scratch.size[N_ZONE]
    at = rows.ring_end[ring - 1] if ring > 0 else int64(0)
    first = ring
    corners = place_ring(x, y, scratch.zone.x, scratch.zone.y, 0, n, rows.corner, at)
    if corners > 0:
        at += corners
        rows.ring_end[ring] = at
        ring += 1
        begin = int64(0)
        for c in range(scratch.size[N_CUTTERS]):
            end = scratch.cut_end[c]
            corners = place_ring(x, y, scratch.cut_x, scratch.cut_y, begin, end, rows.corner, at)
            if corners > 0:
                at += corners
                rows.ring_end[ring] = at
                ring += 1
            begin = end
        # The place may lie on the border between two pieces that were cut out, outside of the rest.
        if ring == first + 1 and position_in(scratch.zone.x, scratch.zone.y, 0, n, 0.0, 0.0, margin) < 0:
            ring = first
    return ring


@kernel
def search_skylines(
    view: View,
    scratch: SkylineScratch,
    places: Floats,
    first: int,
    bounds: Floats,
    box: Floats,
    zoned: bool,
    rows: SkylineRows,
) -> int:
    """Search at the places (n, 2) from the `first` one on, within the bounds; `zoned` false: without a zone for the
    first. `box` is room for the limits of a zone. Returns how many places are done: fewer than n where the scratch or
    the rows have too little room for the next one, the scratch if its FULL is set."""
    # Eight arguments: what is searched, where, and what the result is written to.
    q, going = first, True
    at = rows.end[first - 1] if first > 0 else int64(0)
    ring = rows.rings_end[first - 1] if first > 0 else int64(0)
    while going and q < len(places):
        x, y = places[q, 0], places[q, 1]
        extend_bounds(bounds, x, y, box)
        two_phase(view, scratch, x, y, box, zoned)
        size, corners = scratch.size, rows.ring_end[ring - 1] if ring > 0 else int64(0)
        going = (
            size[FULL] == NOTHING
            and at + size[N_SKYLINE] <= rows.slot.size
            and ring + 1 + size[N_CUTTERS] <= rows.ring_end.size
            and corners + size[N_ZONE] + size[N_CUT] + size[N_CUTTERS] + 1 <= len(rows.corner)
        )
        if going:
            margin = MARGIN * max(box[2] - box[0], box[3] - box[1])
            at = _add_members(view, scratch, x, y, rows, at)
            ring = _add_rings(scratch, x, y, margin, rows, ring)
            rows.end[q], rows.rings_end[q], rows.margin[q] = at, ring, margin
            q += 1
            zoned = True
    return q
