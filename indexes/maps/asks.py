"""Questions as users ask them, checked, and the scores that searches take."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from indexes.maps.expression import BadExpression
from indexes.maps.live import Ask, SkylineAsk, TopAsk
from indexes.maps.model import MapConfig, Question, Score, Skyline
from indexes.maps.scores import KINDS, Scoring, expression_scoring, scoring

FieldFault = tuple[str, str]
"""A field, and what is wrong with it."""

SCORINGS = 4_096
"""Scores that a map keeps ready."""


def scoring_of(config: MapConfig, score: Score) -> Scoring:
    """A score over the attributes of a map, in memory of its own: it is for one thread at a time.

    Raises:
        ValueError: `faults_of` finds something.
    """
    if score.kind == "expression":
        return expression_scoring(score.expression or "", config.attributes, config.metric, score.scale)
    weights = dict(score.weights)
    return scoring(score.kind, config.attributes, weights, config.metric, score.scale, score.shift, score.blend)


class Asks:
    """The questions of one map as its searches take them. A score is made once."""

    def __init__(self, config: MapConfig) -> None:
        self._config = config
        self._scorings: dict[Score, Scoring] = {}

    def of(self, question: Question) -> Ask:
        """A question that nothing is wrong with."""
        if isinstance(question, Skyline):
            return SkylineAsk()
        return TopAsk(question.k, question.m, self.scoring(question.score), question.ordered)

    def scoring(self, score: Score) -> Scoring:
        """A score that nothing is wrong with."""
        known = self._scorings.get(score)
        if known is None:
            if len(self._scorings) >= SCORINGS:
                self._scorings.clear()
            known = self._scorings[score] = scoring_of(self._config, score)
        return known


def faults_of(config: MapConfig, question: Question) -> list[FieldFault]:
    """What is wrong with a question to a map. O(1) for a score that was looked at lately."""
    if isinstance(question, Skyline):
        return []
    faults = [(field, "must be at least 1") for field in ("k", "m") if getattr(question, field) < 1]
    return [*faults, *_score_faults(config, question.score)]


@lru_cache(maxsize=SCORINGS)
def _score_faults(config: MapConfig, score: Score) -> tuple[FieldFault, ...]:
    faults = [*_number_faults(score)]
    if score.kind == "expression":
        faults += _expression_faults(config, score)
    elif score.kind in KINDS:
        faults += _weight_faults(config, score)
    else:
        faults.append(("score.kind", f"there is no score {score.kind!r}"))
    if not faults:
        try:
            scoring_of(config, score)
        except ValueError as error:
            faults.append(("score", str(error)))
    return tuple(faults)


def _number_faults(score: Score) -> list[FieldFault]:
    faults = []
    if not 0.0 < score.scale < np.inf:
        faults.append(("score.scale", "must be above 0, and finite"))
    if not 0.0 <= score.shift < np.inf:
        faults.append(("score.shift", "must be at least 0, and finite"))
    if not 0.0 <= score.blend <= 1.0:
        faults.append(("score.lambda", "must be from 0 to 1"))
    return faults


def _expression_faults(config: MapConfig, score: Score) -> list[FieldFault]:
    try:
        expression_scoring(score.expression or "", config.attributes, config.metric)
    except BadExpression as error:
        return [("score.expression", str(error))]
    return []


def _weight_faults(config: MapConfig, score: Score) -> list[FieldFault]:
    attributes = {attribute.name: attribute for attribute in config.attributes}
    faults = []
    for name, weight in score.weights:
        field = f"score.weights.{name}"
        if name == "distance":
            if weight and score.kind == "weighted_distance":
                faults.append((field, "a weighted distance has no weight of distance"))
        elif name not in attributes:
            faults.append((field, f"there is no attribute {name!r}"))
        elif weight and score.kind != "weighted_sum":
            given = attributes[name].range
            if given is None or not given[0] < given[1]:
                faults.append((field, f"a {score.kind} needs an attribute with a range, which {name!r} has not"))
        if not 0.0 <= weight < np.inf:
            faults.append((field, "must be at least 0, and finite"))
    if not any(weight for _, weight in score.weights):
        faults.append(("score.weights", "at least one must be above 0"))
    return faults
