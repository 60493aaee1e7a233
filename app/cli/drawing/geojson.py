"""An answer of a map as GeoJSON (RFC 7946): its place, its zone and its objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankcast_client import Circle, MapAnswer, MapInfo

CORNERS = 96
"""Of a circle as a polygon, which lies inside it."""

RADIUS = 6_371_008.8
"""Metres from the middle of the Earth to its surface, on average."""

Ring = list[list[float]]


def features(info: MapInfo, answer: MapAnswer) -> dict[str, Any]:
    """A FeatureCollection. The zone comes first; its geometry is null where it is everywhere or the place only."""
    place = {"type": "Point", "coordinates": list(answer.location)}
    found = [
        _feature(zone_geometry(info, answer), {"kind": "zone", **_extent(answer), "seq": answer.seq}),
        _feature(place, {"kind": "place"}),
    ]
    for rank, one in enumerate(answer.objects, 1):
        about = {"kind": "object", "rank": rank, "id": one.id, **one.values, "distance": one.distance}
        about |= {} if one.score is None else {"score": one.score}
        about |= {} if one.payload is None else {"payload": one.payload}
        found.append(_feature({"type": "Point", "coordinates": list(one.location)}, about))
    return {"type": "FeatureCollection", "features": found}


def zone_geometry(info: MapInfo, answer: MapAnswer) -> dict[str, Any] | None:
    """The zone as polygons; None where it has no area, or no end."""
    from rankcast_client import Circle

    zone = answer.zone
    if zone is None:
        return None
    if not isinstance(zone, Circle):
        return dict(zone)
    return {"type": "Polygon", "coordinates": [ring(info, zone)]} if zone.radius else None


def _extent(answer: MapAnswer) -> dict[str, Any]:
    """What the polygons do not say of a zone."""
    from rankcast_client import Circle

    zone = answer.zone
    return {"center": list(zone.center), "radius": zone.radius} if isinstance(zone, Circle) else {}


def _feature(geometry: dict[str, Any] | None, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def ring(info: MapInfo, circle: Circle) -> Ring:
    """A circle by the map's metric as a closed ring, counter-clockwise. Past the date line its longitudes run on."""
    (x, y), radius = circle
    assert radius is not None, "a circle that ends"
    if info.metric == "manhattan":
        corners = [[x + radius, y], [x, y + radius], [x - radius, y], [x, y - radius]]
    else:
        turns = [2 * math.pi * n / CORNERS for n in range(CORNERS)]
        corners = [_toward(info, x, y, radius, turn) for turn in turns]
    return [*corners, corners[0]]


def _toward(info: MapInfo, x: float, y: float, far: float, turn: float) -> list[float]:
    """The place so far away in a direction, counter-clockwise from the east."""
    if info.metric != "great-circle":
        return [x + far * math.cos(turn), y + far * math.sin(turn)]
    up, arc, bearing = math.radians(y), far / RADIUS, math.pi / 2 - turn
    lat = math.asin(math.sin(up) * math.cos(arc) + math.cos(up) * math.sin(arc) * math.cos(bearing))
    along = math.atan2(math.sin(bearing) * math.sin(arc) * math.cos(up), math.cos(arc) - math.sin(up) * math.sin(lat))
    return [x + math.degrees(along), math.degrees(lat)]
