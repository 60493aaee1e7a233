"""A zone as GeoJSON: the piece of it that contains the place, as a polygon with closed rings, and holes where it has
any.

A piece of a zone is as safe as the zone. Without cutters it is the convex polygon itself; otherwise GEOS subtracts the
cutters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from indexes.core.arrays import Floats, Ints, run_lengths
from indexes.maps.kernels.skylines import SkylineRows, place_ring
from indexes.maps.zones.skyline import Zone, position

Ring = list[list[float]]


def geometry(zone: Zone) -> dict[str, Any] | None:
    """As `geometries`, of one zone."""
    return geometries([zone])[0]


def component(zone: Zone) -> list[Ring] | None:
    """As `components`, of one zone."""
    return components([zone])[0]


def geometries(zones: Sequence[Zone]) -> list[dict[str, Any] | None]:
    """The GeoJSON geometries of the pieces of zones that contain their places; None for a zone without area."""
    return list(map(_polygon, components(zones)))


def geometries_at(places: Floats, rows: SkylineRows) -> list[dict[str, Any] | None]:
    """As `geometries`, of the zones of skylines that were searched for together at places (n, 2)."""
    corners, ring_end = rows.corner.tolist(), rows.ring_end
    rings_end = rows.rings_end
    counts = run_lengths(rings_end)
    found: list[list[Ring] | None] = [None] * len(places)
    begins = np.concatenate([[0], ring_end])
    whole = np.flatnonzero(counts == 1)
    firsts = rings_end[whole] - 1
    for q, begin, end in zip(whole.tolist(), begins[firsts].tolist(), ring_end[firsts].tolist(), strict=True):
        found[q] = [corners[begin:end]]
    cut = np.flatnonzero(counts > 1)
    if len(cut):
        mine = np.repeat(counts > 1, counts)
        lengths = np.diff(begins)
        left = _less(places[cut], rows.margin[cut], counts[cut], rows.corner[np.repeat(mine, lengths)], lengths[mine])
        for q, rings in zip(cut.tolist(), left, strict=True):
            found[q] = rings
    return list(map(_polygon, found))


def _polygon(rings: list[Ring] | None) -> dict[str, Any] | None:
    return None if rings is None else {"type": "Polygon", "coordinates": rings}


def components(zones: Sequence[Zone]) -> list[list[Ring] | None]:
    """Of each zone the rings of the piece that contains its place, the outer one first and counter-clockwise, its holes
    clockwise; where pieces touch at the place, the largest. None for a zone without area there.

    Cutters are subtracted from polygons with the same coordinates as in the result: rounding them afterwards could make
    rings cross themselves.
    """
    found: list[list[Ring] | None] = []
    cut: list[tuple[int, list[Floats]]] = []
    for i, zone in enumerate(zones):
        outer, cutters = _placed(zone, zone.x, zone.y), _cutters(zone)
        # The place may lie on the border of two pieces that were left out, and what is left elsewhere.
        alone = len(outer) and not cutters and position(zone.x, zone.y, 0.0, 0.0, zone.margin) >= 0
        found.append([outer.tolist()] if alone else None)
        if len(outer) and cutters:
            cut.append((i, [outer, *cutters]))
    if cut:
        places = np.array([zones[i].place for i, _ in cut])
        margins = np.array([zones[i].margin for i, _ in cut])
        placed = list(itertools.chain.from_iterable(rings for _, rings in cut))
        sizes, lengths = np.array([len(rings) for _, rings in cut]), np.array([len(ring) for ring in placed])
        left = _less(places, margins, sizes, np.concatenate(placed), lengths)
        for (i, _), rings in zip(cut, left, strict=True):
            found[i] = rings
    return found


def _cutters(zone: Zone) -> list[Floats]:
    """The rings of a zone's cutters that have an area."""
    ends = [0, *zone.cut_end.tolist()]
    cutters = [_placed(zone, zone.cut_x[i:j], zone.cut_y[i:j]) for i, j in itertools.pairwise(ends)]
    return [ring for ring in cutters if len(ring)]


def _placed(zone: Zone, x: Floats, y: Floats) -> Floats:
    """Vertices in absolute coordinates (n, 2) as a closed ring, without repeated ones; empty if they have no area."""
    ring = np.empty((len(x) + 1, 2))
    x0, y0 = zone.place.tolist()
    return ring[: place_ring(x0, y0, x, y, 0, len(x), ring, 0)]


def _less(places: Floats, margins: Floats, sizes: Ints, corners: Floats, lengths: Ints) -> list[list[Ring] | None]:
    """Of each polygon less its cutters, which follow it, the rings of the piece that contains the place; None if no
    piece does. `sizes` are how many rings each has, with those of its cutters; `corners` (n, 2) are of all rings, of
    these `lengths`."""
    import shapely

    of_ring = np.repeat(np.arange(len(lengths)), lengths)
    polygons = shapely.polygons(shapely.linearrings(corners, indices=of_ring))
    bad = ~shapely.is_valid(polygons)
    polygons[bad] = shapely.make_valid(polygons[bad])
    first = np.cumsum(sizes) - sizes
    cuts = [
        polygons[at + 1] if size == 2 else shapely.union_all(polygons[at + 1 : at + size])
        for at, size in zip(first.tolist(), sizes.tolist(), strict=True)
    ]
    pieces, owner = shapely.get_parts(shapely.difference(polygons[first], cuts), return_index=True)
    points = shapely.points(places)
    area = shapely.area(pieces)
    near = np.flatnonzero((area > 0.0) & (shapely.distance(pieces, points[owner]) <= margins[owner]))
    # The first of the largest of each zone.
    order = near[np.lexsort((near, -area[near], owner[near]))]
    chosen = order[np.diff(owner[order], prepend=-1) > 0]
    outlines, piece_of = shapely.get_rings(shapely.orient_polygons(pieces[chosen]), return_index=True)
    coordinates, outline_of = shapely.get_coordinates(outlines, return_index=True)
    shapes = np.split(coordinates, np.flatnonzero(np.diff(outline_of)) + 1) if len(outlines) else []
    found: list[list[Ring] | None] = [None] * len(places)
    for i, shape in zip(owner[chosen[piece_of]].tolist(), shapes, strict=True):
        found[i] = [*(found[i] or []), shape.tolist()]
    return found
