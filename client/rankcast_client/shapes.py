"""Regions that are no ranges, for boards with two range attributes: discs, half-planes and simplexes (triangles).

They are accepted wherever a range is. In `patch_subscription` what is None stays as it was.

>>> Disc((13.4, 52.5), 0.2).wire()
{'center': [13.4, 52.5], 'radius': 0.2}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Disc:
    """At most `radius` away from `center`, the border included."""

    name: ClassVar[str] = "disc"

    center: Point | None = None
    radius: float | None = None

    def wire(self) -> dict[str, Any]:
        """As JSON has it."""
        return _given(center=self.center and list(self.center), radius=self.radius)


@dataclass(frozen=True, slots=True)
class HalfPlane:
    """`a[0] * x + a[1] * y <= b`; not both of `a` are 0."""

    name: ClassVar[str] = "half_plane"

    a: Point | None = None
    b: float | None = None

    def wire(self) -> dict[str, Any]:
        """As JSON has it."""
        return _given(a=self.a and list(self.a), b=self.b)


@dataclass(frozen=True, slots=True)
class Simplex:
    """The closed triangle of three points, which may lie on a line."""

    name: ClassVar[str] = "simplex"

    points: tuple[Point, Point, Point]

    def wire(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"points": [list(point) for point in self.points]}


Shape: TypeAlias = Disc | HalfPlane | Simplex


def shape_in(data: Mapping[str, Any]) -> Shape | None:
    """The shape that a subscription in JSON has, None for a range."""
    if "disc" in data:
        return Disc(tuple(data["disc"]["center"]), data["disc"]["radius"])
    if "half_plane" in data:
        return HalfPlane(tuple(data["half_plane"]["a"]), data["half_plane"]["b"])
    if "simplex" in data:
        first, second, third = map(tuple, data["simplex"]["points"])
        return Simplex((first, second, third))
    return None


def numbers(value: Any) -> list[Any]:
    """The numbers of a shape in JSON, in their order; of a tile's shape, the pairs of a least and a largest one.

    >>> numbers({"center": [[1, 2], [3, 3]], "radius": [0, 4]}), numbers({"points": [[0, 1], [2, 3], [4, 5]]})
    ([[1, 2], [3, 3], [0, 4]], [0, 1, 2, 3, 4, 5])
    """
    parts: list[Any] = []
    for name, deep in (("center", 1), ("radius", 0), ("a", 1), ("b", 0), ("points", 2)):
        if name in value:
            found = [value[name]]
            for _ in range(deep):
                found = [one for part in found for one in part]
            parts += found
    return parts


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
