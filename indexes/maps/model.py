"""What a map is and what is asked of it, as users say it: its configuration, scores, and questions.

Values carry the user's sign here; inside indexes those of "high" attributes are negated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from indexes.maps.attributes import Attribute
from indexes.maps.scores import LAMBDA, SHIFT

Metric = Literal["euclidean", "manhattan", "great-circle"]

Point: TypeAlias = tuple[float, float]
"""(x, y), under the great-circle metric (longitude, latitude) in degrees."""


@dataclass(frozen=True, slots=True)
class MapConfig:
    """What a map holds: named attributes in the order in which scores run over them, the bounds (x0, y0, x1, y1) that
    no zone of a skyline reaches past, and how distances are measured."""

    attributes: tuple[Attribute, ...]
    bounds: tuple[float, float, float, float]
    metric: Metric = "euclidean"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)


class Score(NamedTuple):
    """A score as it was asked for: one of `scores.KINDS`, or ``expression``. `weights` are those given, by attribute or
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
    """All that nothing dominates."""


Question = Top | Skyline


class Standing(NamedTuple):
    """A standing query: what it asks, where its client is, and how long it may stay unused, in seconds or None."""

    question: Question
    location: Point
    ttl: float | None
