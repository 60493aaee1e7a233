"""A zone as GeoJSON: the piece of it that holds the place, as a polygon with closed rings, and holes where it has any.

A piece of a zone is as safe as the zone. Where there are no cutters it is the convex polygon itself; else GEOS takes
the cutters out of it. Design 1.8 (b). No kernels here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.maps.rtree import Float64
from indexes.maps.zones import Zone

Ring = list[list[float]]


def geometry(zone: Zone) -> dict[str, Any] | None:
    """The GeoJSON geometry of the piece of a zone that holds its place; None for a zone without area."""
    rings = component(zone)
    return None if rings is None else {"type": "Polygon", "coordinates": rings}


def component(zone: Zone) -> list[Ring] | None:
    """The rings of the piece of a zone that holds its place, the outer one first and counter-clockwise, its holes
    clockwise; where pieces touch at the place, the largest. None for a zone without area."""
    if zone.empty:
        return None
    outer, *holes = _pieces(zone) if len(zone.cut_end) else [np.column_stack([zone.x, zone.y])]
    rings = [_placed(ring, zone.place) for ring in (outer, *holes)]
    return [ring for ring in rings if len(ring) > 3] if len(rings[0]) > 3 else None


def _pieces(zone: Zone) -> list[Float64]:
    """The rings of the piece that holds the place, relative to it; where GEOS leaves nothing, one without vertices."""
    import shapely

    convex = shapely.polygons(np.column_stack([zone.x, zone.y]))
    corners = np.column_stack([zone.cut_x, zone.cut_y])
    cutters = shapely.polygons([shapely.linearrings(part) for part in np.split(corners, zone.cut_end[:-1])])
    left = shapely.get_parts(shapely.difference(convex, shapely.union_all(cutters)))
    left = left[shapely.area(left) > 0.0]
    if not len(left):
        return [np.empty((0, 2))]
    away = shapely.distance(left, shapely.Point(0.0, 0.0))
    near = left[away <= max(away.min(), zone.margin)]
    piece = shapely.orient_polygons(near[np.argmax(shapely.area(near))])
    return [shapely.get_coordinates(ring)[:-1] for ring in shapely.get_rings(piece)]


def _placed(ring: Float64, place: Float64) -> Ring:
    """A ring where it is, closed, its vertices that have become the same left out; empty if it has no area there."""
    there = ring + place
    there = there[(there != np.roll(there, 1, axis=0)).any(axis=1)]
    x, y = (there - place).T
    if len(there) < 3 or not abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) > 0.0:
        return []
    return [*there.tolist(), there[0].tolist()]
