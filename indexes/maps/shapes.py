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
    clockwise; where pieces touch at the place, the largest. None for a zone without area.

    What is left out is taken out of polygons whose vertices are where they will be said to be: rounding them afterwards
    would let rings cross themselves.
    """
    outer = _placed(zone, zone.x, zone.y)
    if outer is None:
        return None
    ends = zone.cut_end.tolist()
    cutters = [
        ring
        for first, end in zip([0, *ends], ends, strict=False)
        if (ring := _placed(zone, zone.cut_x[first:end], zone.cut_y[first:end])) is not None
    ]
    rings = _less(outer, cutters, zone) if cutters else [outer]
    return [[*ring.tolist(), ring[0].tolist()] for ring in rings] or None


def _placed(zone: Zone, x: Float64, y: Float64) -> Float64 | None:
    """Vertices where they are, those that have become the same left out; None if they have no area there."""
    there = np.column_stack([x, y]) + zone.place
    there = there[(there != np.roll(there, 1, axis=0)).any(axis=1)]
    x, y = (there - zone.place).T
    return there if abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) > 0.0 else None


def _less(outer: Float64, cutters: list[Float64], zone: Zone) -> list[Float64]:
    """The rings of the piece of a polygon less cutters that holds the place, none if nothing is left."""
    import shapely

    whole = shapely.make_valid(shapely.polygons(outer))
    cut = shapely.union_all(shapely.make_valid([shapely.polygons(ring) for ring in cutters]))
    pieces = shapely.get_parts(shapely.difference(whole, cut))
    pieces = pieces[shapely.area(pieces) > 0.0]
    if not len(pieces):
        return []
    away = shapely.distance(pieces, shapely.Point(zone.place))
    near = pieces[away <= max(away.min(), zone.margin)]
    piece = shapely.orient_polygons(near[np.argmax(shapely.area(near))])
    return [shapely.get_coordinates(ring)[:-1] for ring in shapely.get_rings(piece)]
