"""Whether a place lies in a safe zone: the client's half of the protocol, where a wrong yes would be a wrong answer.

A place counts as inside only when it is so by more than numbers can be off; else a request is sent. A polygon's
margin is 1e-9 of the width of the map's bounds, and a little of how large its coordinates are; a circle's is what the
distance may be off. Each test is O(edges).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import asin, cos, pi, sin, sqrt
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Metric: TypeAlias = Literal["euclidean", "manhattan", "great-circle"]
Location: TypeAlias = tuple[float, float]
"""(x, y), under the great-circle metric (longitude, latitude) in degrees."""

Bounds: TypeAlias = tuple[float, float, float, float]

MARGIN = 1e-9
"""Of the width of the bounds: how far inside a polygon a place must be."""

ROUNDED = 1e-15
"""Of the largest coordinate: what a vertex may be off where it is written."""

RADIUS = 6_371_008.8
"""Metres from the middle of the Earth to its surface, on average."""

RADIAN = pi / 180.0

Measure: TypeAlias = Callable[[float, float, float, float], float]


def euclidean(ax: float, ay: float, bx: float, by: float) -> float:
    """How far two places of the plane are apart."""
    dx, dy = bx - ax, by - ay
    return sqrt(dx * dx + dy * dy)


def manhattan(ax: float, ay: float, bx: float, by: float) -> float:
    """How far two places of the plane are apart along its axes."""
    return abs(bx - ax) + abs(by - ay)


def haversine(ax: float, ay: float, bx: float, by: float) -> float:
    """Metres between two places of longitude and latitude in degrees."""
    up = sin((by - ay) * RADIAN * 0.5)
    along = sin((bx - ax) * RADIAN * 0.5)
    h = up * up + cos(ay * RADIAN) * cos(by * RADIAN) * (along * along)
    return 2.0 * RADIUS * asin(sqrt(min(1.0, h)))


MEASURES: Mapping[Metric, Measure] = {"euclidean": euclidean, "manhattan": manhattan, "great-circle": haversine}
"""How each metric measures, in the steps in which the service does: its numbers come out the same."""


class Circle(NamedTuple):
    """A zone: strictly within `radius` of `center`, as the map measures distances. None is everywhere, 0 the place of
    the answer only."""

    center: Location
    radius: float | None


Geometry: TypeAlias = Mapping[str, Any]
"""A zone as a GeoJSON geometry."""

AnyZone: TypeAlias = Circle | Geometry | None


class Zone(Protocol):
    """Where an answer holds."""

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) is in it for sure."""


class CircleZone:
    """The places strictly within a circle."""

    def __init__(self, circle: Circle, metric: Metric) -> None:
        (self._x, self._y), self._radius = circle
        self._measure = MEASURES[metric]
        self._slack = _metres if metric == "great-circle" else _relative

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) is inside by more than its computed distance can be off."""
        if self._radius is None:
            return True
        far = self._measure(self._x, self._y, x, y)
        return far + self._slack(far) < self._radius


def _relative(far: float) -> float:
    return 1e-12 * far


def _metres(far: float) -> float:
    # Haversine loses all it knows where its argument is near 1: half round the Earth.
    return 1.0 if far > 0.99 * pi * RADIUS else 1e-6 + 1e-12 * far


class PolygonZone:
    """The places strictly within polygons, and not in their holes."""

    def __init__(self, geometry: Geometry, bounds: Bounds) -> None:
        self._polygons = [[edge for ring in rings for edge in _edges(ring)] for rings in _polygons(geometry)]
        x0, y0, x1, y1 = bounds
        ends = [abs(end) for edges in self._polygons for edge in edges for end in edge]
        margin = MARGIN * max(x1 - x0, y1 - y0) + ROUNDED * max(ends, default=0.0)
        self._squared = margin * margin

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) is inside one of them and farther than the margin from all of its edges."""
        return any(self._within(edges, x, y) for edges in self._polygons)

    def _within(self, edges: Sequence[_Edge], x: float, y: float) -> bool:
        odd = False
        for ax, ay, bx, by in edges:
            ax, ay, bx, by = ax - x, ay - y, bx - x, by - y
            if not _squared_from_origin(ax, ay, bx, by) > self._squared:
                return False
            # A ray to the right: only where the place is level with the edge must the side be computed, and there it is
            # sure, for the place is off the edge by the margin.
            if (ay > 0.0) != (by > 0.0):
                if ax > 0.0 and bx > 0.0:
                    odd = not odd
                elif ax > 0.0 or bx > 0.0:
                    odd ^= (ax * by - bx * ay > 0.0) == (by > ay)
        return odd


_Edge: TypeAlias = tuple[float, float, float, float]


def _polygons(geometry: Geometry) -> Sequence[Any]:
    """The rings of each polygon; none of a geometry of another kind, in which nothing is for sure."""
    if geometry.get("type") == "Polygon":
        return [geometry["coordinates"]]
    return list(geometry["coordinates"]) if geometry.get("type") == "MultiPolygon" else []


def _edges(ring: Sequence[Sequence[float]]) -> list[_Edge]:
    return [(float(a[0]), float(a[1]), float(b[0]), float(b[1])) for a, b in pairwise(ring)]


def _squared_from_origin(ax: float, ay: float, bx: float, by: float) -> float:
    """The square of the distance from (0, 0) to the line between two points."""
    dx, dy = bx - ax, by - ay
    length = dx * dx + dy * dy
    t = min(1.0, max(0.0, -(ax * dx + ay * dy) / length)) if length > 0.0 else 0.0
    nx, ny = ax + t * dx, ay + t * dy
    return nx * nx + ny * ny


class _Nowhere:
    def holds(self, x: float, y: float) -> bool:
        return False


NOWHERE: Zone = _Nowhere()
"""The zone of an answer that is valid at its place only."""


def zone_of(zone: AnyZone, metric: Metric, bounds: Bounds) -> Zone:
    """What tests places against the zone of an answer, on a map with this metric and these bounds."""
    if zone is None:
        return NOWHERE
    return CircleZone(zone, metric) if isinstance(zone, Circle) else PolygonZone(zone, bounds)
