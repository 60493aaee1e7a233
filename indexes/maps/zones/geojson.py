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

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats
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
    return [None if rings is None else {"type": "Polygon", "coordinates": rings} for rings in components(zones)]


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
        some = [zones[i] for i, _ in cut]
        for (i, _), rings in zip(cut, _less(some, [placed for _, placed in cut]), strict=True):
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
    return ring[: place_ring(zone.place, x, y, ring)]


@kernel
def place_ring(place: Floats, x: Floats, y: Floats, ring: Floats) -> int:
    """Write the ring of `_placed`; returns how many vertices it has."""
    n = 0
    for i in range(x.size):
        px, py = place[0] + x[i], place[1] + y[i]
        if n == 0 or px != ring[n - 1, 0] or py != ring[n - 1, 1]:
            ring[n, 0], ring[n, 1] = px, py
            n += 1
    if n > 0 and (ring[n - 1, 0] != ring[0, 0] or ring[n - 1, 1] != ring[0, 1]):
        ring[n, 0], ring[n, 1] = ring[0, 0], ring[0, 1]
        n += 1
    area = 0.0
    for i in range(n - 1):
        ax, ay = ring[i, 0] - place[0], ring[i, 1] - place[1]
        bx, by = ring[i + 1, 0] - place[0], ring[i + 1, 1] - place[1]
        area += ax * by - bx * ay
    return n if abs(area) > 0.0 else 0


def _less(zones: Sequence[Zone], placed: Sequence[Sequence[Floats]]) -> list[list[Ring] | None]:
    """Of each polygon, the first of `placed`, less its cutters, which follow, the rings of the piece that contains the
    place of the zone; None if no piece does."""
    import shapely

    sizes = [len(rings) for rings in placed]
    rings = list(itertools.chain.from_iterable(placed))
    of_ring = np.repeat(np.arange(len(rings)), [len(ring) for ring in rings])
    polygons = shapely.polygons(shapely.linearrings(np.concatenate(rings), indices=of_ring))
    bad = ~shapely.is_valid(polygons)
    polygons[bad] = shapely.make_valid(polygons[bad])
    first = np.cumsum([0, *sizes[:-1]])
    cuts = [
        polygons[at + 1] if size == 2 else shapely.union_all(polygons[at + 1 : at + size])
        for at, size in zip(first.tolist(), sizes, strict=True)
    ]
    pieces, owner = shapely.get_parts(shapely.difference(polygons[first], cuts), return_index=True)
    places = shapely.points(np.array([zone.place for zone in zones]))
    margins = np.array([zone.margin for zone in zones])
    area = shapely.area(pieces)
    near = np.flatnonzero((area > 0.0) & (shapely.distance(pieces, places[owner]) <= margins[owner]))
    # The first of the largest of each zone.
    order = near[np.lexsort((near, -area[near], owner[near]))]
    chosen = order[np.diff(owner[order], prepend=-1) > 0]
    outlines, piece_of = shapely.get_rings(shapely.orient_polygons(pieces[chosen]), return_index=True)
    coordinates, outline_of = shapely.get_coordinates(outlines, return_index=True)
    shapes = np.split(coordinates, np.flatnonzero(np.diff(outline_of)) + 1) if len(outlines) else []
    found: list[list[Ring] | None] = [None] * len(zones)
    for i, shape in zip(owner[chosen[piece_of]].tolist(), shapes, strict=True):
        found[i] = [*(found[i] or []), shape.tolist()]
    return found
