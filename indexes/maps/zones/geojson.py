"""A zone as GeoJSON: the piece of it that contains the place, as a polygon with closed rings, and holes where it has
any.

A piece of a zone is as safe as the zone. Without cutters it is the convex polygon itself; otherwise GEOS subtracts the
cutters.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats
from indexes.maps.zones.skyline import Zone, position

Ring = list[list[float]]


def geometry(zone: Zone) -> dict[str, Any] | None:
    """The GeoJSON geometry of the piece of a zone that contains its place; None for a zone without area."""
    rings = component(zone)
    return None if rings is None else {"type": "Polygon", "coordinates": rings}


def component(zone: Zone) -> list[Ring] | None:
    """The rings of the piece of a zone that contains its place, the outer one first and counter-clockwise, its holes
    clockwise; where pieces touch at the place, the largest. None for a zone without area there.

    Cutters are subtracted from polygons with the same coordinates as in the result: rounding them afterwards could make
    rings cross themselves.
    """
    outer = _placed(zone, zone.x, zone.y)
    if not len(outer):
        return None
    ends = [0, *zone.cut_end.tolist()]
    cutters = [_placed(zone, zone.cut_x[i:j], zone.cut_y[i:j]) for i, j in itertools.pairwise(ends)]
    cutters = [ring for ring in cutters if len(ring)]
    if cutters:
        return _less(zone, [outer, *cutters]) or None
    # The place may lie on the border of two pieces that were left out, and what is left elsewhere.
    return [outer.tolist()] if position(zone.x, zone.y, 0.0, 0.0, zone.margin) >= 0 else None


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


def _less(zone: Zone, placed: list[Floats]) -> list[Ring]:
    """The rings of the piece of a polygon less cutters, which follow it, that contains the place; empty if no piece
    does."""
    import shapely

    polygons = shapely.polygons([shapely.linearrings(ring) for ring in placed])
    valid = zip(polygons, shapely.is_valid(polygons).tolist(), strict=True)
    whole, *cuts = (one if fine else shapely.make_valid(one) for one, fine in valid)
    pieces = shapely.get_parts(shapely.difference(whole, cuts[0] if len(cuts) == 1 else shapely.union_all(cuts)))
    place = shapely.Point(zone.place)
    near = [piece for piece in pieces if piece.area > 0.0 and piece.distance(place) <= zone.margin]
    if not near:
        return []
    piece = shapely.orient_polygons(max(near, key=lambda one: one.area))
    return [shapely.get_coordinates(ring).tolist() for ring in (piece.exterior, *piece.interiors)]
