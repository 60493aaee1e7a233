"""A zone as GeoJSON: the piece of it that contains the place, as a polygon with closed rings, and holes where it has
any.

A piece of a zone is as safe as the zone. Without cutters it is the convex polygon itself; otherwise GEOS subtracts the
cutters.
"""

from __future__ import annotations

import itertools
from typing import Any

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
    if not outer:
        return None
    ends = [0, *zone.cut_end.tolist()]
    cutters = [_placed(zone, zone.cut_x[i:j], zone.cut_y[i:j]) for i, j in itertools.pairwise(ends)]
    cutters = [ring for ring in cutters if ring]
    if cutters:
        return _less(zone, outer, cutters) or None
    # The place may lie on the border of two pieces that were left out, and what is left elsewhere.
    return [outer] if position(zone.x, zone.y, 0.0, 0.0, zone.margin) >= 0 else None


def _placed(zone: Zone, x: Floats, y: Floats) -> Ring:
    """Vertices in absolute coordinates as a closed ring, without repeated ones; empty if they have no area."""
    east, north = zone.place.tolist()
    ring: Ring = []
    for dx, dy in zip(x.tolist(), y.tolist(), strict=True):
        vertex = [east + dx, north + dy]
        if not ring or vertex != ring[-1]:
            ring.append(vertex)
    if ring and ring[-1] != ring[0]:
        ring.append(ring[0])
    area = sum((a[0] - east) * (b[1] - north) - (b[0] - east) * (a[1] - north) for a, b in itertools.pairwise(ring))
    return ring if abs(area) > 0.0 else []


def _less(zone: Zone, outer: Ring, cutters: list[Ring]) -> list[Ring]:
    """The rings of the piece of a polygon less cutters that contains the place; empty if no piece does."""
    import shapely

    polygons = [shapely.Polygon(ring) for ring in (outer, *cutters)]
    whole, *cuts = (one if one.is_valid else shapely.make_valid(one) for one in polygons)
    pieces = shapely.get_parts(shapely.difference(whole, cuts[0] if len(cuts) == 1 else shapely.union_all(cuts)))
    place = shapely.Point(zone.place)
    near = [piece for piece in pieces if piece.area > 0.0 and piece.distance(place) <= zone.margin]
    if not near:
        return []
    piece = shapely.orient_polygons(max(near, key=lambda one: one.area))
    return [shapely.get_coordinates(ring).tolist() for ring in (piece.exterior, *piece.interiors)]
