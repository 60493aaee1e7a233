"""A matcher as it looks over HTTP, by brute force: what each request does to it, and what its answers must then be.

Plain dicts and the definition of ranked matching in `tests.oracles.matchers`. It shares nothing with the service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.oracles.matchers import Interval, Value, exact_top, matched, matches_exactly, relaxed_top
from tests.oracles.service import Json, number


@dataclass
class Interest:
    """A subscription: its age, and its intervals and weights by dimension; unbounded ends are infinite.

    The definition takes them as the lists `box` and `worth`.
    """

    age: int
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    score: float = 0.0
    box: list[Interval] = field(default_factory=list)
    worth: list[float] = field(default_factory=list)


class MatcherModel:
    """One matcher. `seq` is that of the last change."""

    def __init__(self, dimensions: list[str], mode: str, combine: str = "sum") -> None:
        self.dimensions = dimensions
        self.mode = mode
        self.combine = combine
        self.seq = 0
        self.interests: dict[str, Interest] = {}
        self._made = 0

    def put(self, id: str, body: Json) -> bool:
        """What PUT and POST say; returns whether it is new. What changes nothing takes no seq."""
        there = self.interests.get(id)
        age = self._made if there is None else there.age
        found = Interest(age, {}, dict(body.get("weights", {})), body.get("score", 0.0))
        for name, (lo, hi) in body.get("intervals", {}).items():
            found.intervals[name] = (-inf if lo is None else lo, inf if hi is None else hi)
        if self.mode == "exact":
            found.intervals = {name: pair for name, pair in found.intervals.items() if pair != (-inf, inf)}
        found.box = [found.intervals.get(name) for name in self.dimensions]
        found.worth = [found.weights.get(name, 0.0) for name in self.dimensions]
        if there is None or there != found:
            self.seq += 1
        self._made += there is None
        self.interests[id] = found
        return there is None

    def patch(self, id: str, body: Json) -> None:
        """What PATCH says, by dimension; null takes one out."""
        shown = self.shown(id)
        intervals, weights = dict(shown["intervals"]), dict(shown.get("weights", {}))
        for name, pair in body.get("intervals", {}).items():
            if pair is None:
                intervals.pop(name, None)
                weights.pop(name, None)
            else:
                intervals[name] = pair
        for name, weight in body.get("weights", {}).items():
            if weight is None:
                intervals.pop(name, None)
                weights.pop(name, None)
            else:
                weights[name] = weight
        self.put(id, {"intervals": intervals, "weights": weights, "score": body.get("score", shown.get("score", 0.0))})

    def delete(self, id: str) -> bool:
        """Returns whether it was there."""
        self.seq += id in self.interests
        return self.interests.pop(id, None) is not None

    def shown(self, id: str) -> Json:
        """A subscription as GET shows it, without `seq`."""
        one = self.interests[id]
        ends = {
            name: [None if abs(end) == inf else number(end) for end in pair] for name, pair in one.intervals.items()
        }
        shown: Json = {"id": id, "intervals": {name: ends[name] for name in self.dimensions if name in ends}}
        if self.mode == "exact":
            return {**shown, "score": number(one.score)}
        return {
            **shown,
            "weights": {name: number(one.weights[name]) for name in self.dimensions if name in one.weights},
        }

    def winners(self, values: dict[str, Any], k: int, explain: bool = False) -> list[Json]:
        """The winners of an event as an answer has them."""
        event = [_value(values.get(name)) for name in self.dimensions]
        every = self.interests.values()
        if self.mode == "exact":
            top = exact_top({one.age: (one.box, one.score) for one in every}, event, k)
        else:
            top = relaxed_top({one.age: (one.box, one.worth) for one in every}, event, k, self.combine)
        names = {one.age: id for id, one in self.interests.items()}
        found = []
        for age, score in top:
            won: Json = {"id": names[age], "score": number(score)}
            if explain:
                won["matched"] = self._matched(self.interests[names[age]], event)
            found.append(won)
        return found

    def _matched(self, one: Interest, event: list[Value]) -> Json:
        if self.mode == "exact":
            assert matches_exactly(one.box, event)
            return dict.fromkeys(self.dimensions)
        return {self.dimensions[j]: number(one.weights[self.dimensions[j]]) for j in matched(one.box, event)}


def _value(value: Any) -> Value:
    if isinstance(value, list):
        return (-inf if value[0] is None else value[0], inf if value[1] is None else value[1])
    found: Value = value
    return found
