"""The configuration of a map, and the scores and questions of its users.

Values have the user's sign here; inside indexes those of "high" attributes are negated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from indexes.maps.attributes import Attribute
from indexes.maps.scoring import LAMBDA, SHIFT

Metric = Literal["euclidean", "manhattan", "great-circle"]

Point: TypeAlias = tuple[float, float]
"""(x, y), under the great-circle metric (longitude, latitude) in degrees."""


@dataclass(frozen=True, slots=True)
class MapConfig:
    """The configuration of a map: named attributes, in the order in which scores sum over them, the bounds (x0, y0,
    x1, y1) of the zones of skylines, and the metric."""

    attributes: tuple[Attribute, ...]
    bounds: tuple[float, float, float, float]
    metric: Metric = "euclidean"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)


class Score(NamedTuple):
    """A score as requested: one of `scoring.KINDS`, or ``expression``. `weights` are those given, by attribute or
    `distance`, in the order of the attributes, distance last; `blend` is lambda."""

    kind: str
    weights: tuple[tuple[str, float], ...] = ()
    scale: float = 1.0
    shift: float = SHIFT
    blend: float = LAMBDA
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Top:
    """The k best by a score, with m - 1 more candidates; `ordered`: their order holds in the zone too."""

    k: int
    score: Score
    m: int = 1
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Skyline:
    """The objects that no other object dominates."""


Question = Top | Skyline


class QueryState(NamedTuple):
    """A standing query: its question, the place of its client, and how long it may stay unused, in seconds, or None."""

    question: Question
    location: Point
    ttl: float | None
