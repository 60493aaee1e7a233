"""The k best of some candidates at any place, scored as the service scores them: the same steps in the same order.

Sums and products run over the map's attributes in their order, then distance. So a score is the service's, bit for bit
where its powers and functions are those of this machine. What has no score is None, and ranks last; of equal scores
the object that was created first is the better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rankcast_client.expressions import Expression
from rankcast_client.map_models import MapAttribute, MapInfo, Place, Score
from rankcast_client.zones import MEASURES

SHIFT = 0.01
LAMBDA = 0.5


class Ranking:
    """A score over the objects of a map.

    Raises ValueError for what is no score: an unknown kind, or an expression that cannot be read. Whether the map can
    rank by it the service says.
    """

    def __init__(self, score: Score, info: MapInfo) -> None:
        kind = score["kind"]
        if kind not in (*_PARTS, "expression"):
            raise ValueError(f"{kind!r} is no kind of score")
        self._kind = kind
        self._measure = MEASURES[info.metric]
        self._scale = float(score.get("scale", 1.0))
        self._shift = float(score.get("shift", SHIFT))
        self._blend = float(score.get("lambda", LAMBDA))
        weights = score.get("weights", {})
        self._expression = Expression(score["expression"], tuple(info.attributes)) if kind == "expression" else None
        self._far_weight = float(weights.get("distance", 0.0))
        self._chosen = [
            (name, attribute, float(weights[name]))
            for name, attribute in info.attributes.items()
            if weights.get(name, 0.0) > 0.0
        ]

    def best(self, candidates: Iterable[Place], k: int, x: float, y: float) -> tuple[Place, ...]:
        """The k best at (x, y), with their distances and scores there. O(c log c)."""
        return self.ranked(candidates, x, y)[:k]

    def ranked(self, candidates: Iterable[Place], x: float, y: float) -> tuple[Place, ...]:
        """All of them, the best first, with their distances and scores at (x, y). O(c log c)."""
        found = []
        for one in candidates:
            far = self._measure(float(x), float(y), float(one.location[0]), float(one.location[1]))
            score = self.score(one.values, far)
            found.append((math.inf if score is None else score, one.created, replace(one, distance=far, score=score)))
        found.sort(key=lambda each: each[:2])
        return tuple(one for _, _, one in found)

    def score(self, values: Mapping[str, float], far: float) -> float | None:
        """The score of an object with these values at a distance, None where it has none. O(attributes)."""
        away = far / self._scale
        if self._expression is not None:
            return self._expression(away, values)
        total, product = _PARTS[self._kind](self, values)
        score = self._whole(away, total, product)
        return score if -math.inf < score < math.inf else None

    def _whole(self, away: float, total: float, product: float) -> float:
        if self._kind == "weighted_distance":
            return away / total if total > 0.0 else math.inf
        plain = total + self._far_weight * away if self._far_weight > 0.0 else total
        if self._kind == "weighted_sum":
            return plain
        times = product * power(away, self._far_weight) if self._far_weight > 0.0 and product > 0.0 else product
        if self._kind == "weighted_product" or self._blend == 0.0:
            return times
        return plain if self._blend == 1.0 else self._blend * plain + (1.0 - self._blend) * times

    def _of_sum(self, values: Mapping[str, float]) -> tuple[float, float]:
        total = 0.0
        for name, attribute, weight in self._chosen:
            value = float(values[name])
            total += weight * (-value if attribute.order == "high" else value)
        return total, 1.0

    def _of_products(self, values: Mapping[str, float]) -> tuple[float, float]:
        total, product = 0.0, 1.0
        for name, attribute, weight in self._chosen:
            v = _normal(attribute, float(values[name]))
            total += weight * v
            product *= power(v + self._shift, weight)
        return total, product

    def _of_distance(self, values: Mapping[str, float]) -> tuple[float, float]:
        total = 0.0
        for name, attribute, weight in self._chosen:
            total += weight * (1.0 - _normal(attribute, float(values[name])))
        return self._shift + total, 1.0


_PARTS = {
    "weighted_sum": Ranking._of_sum,
    "weighted_product": Ranking._of_products,
    "weighted_distance": Ranking._of_distance,
    "waspas": Ranking._of_products,
}
"""What the static values of an object come to, by kind: a sum and a product."""


def _normal(attribute: MapAttribute, value: float) -> float:
    """A value within its attribute's range: 0 the best, 1 the worst."""
    low, high = attribute.range or (0.0, 0.0)
    v = (value - low) / (high - low) if low < high else math.nan
    return 1.0 - v if attribute.order == "high" else v


def power(x: float, e: float) -> float:
    """x to the power of e, as float64 has it: infinite where it is too large, NaN where there is none."""
    try:
        return math.pow(x, e)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if x == 0.0 else math.nan
