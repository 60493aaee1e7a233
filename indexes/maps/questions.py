"""Validation of questions, and the queries and scorings that searches take."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from indexes.maps.config import MapConfig, Question, Score, Skyline
from indexes.maps.expression import BadExpression, count_steps
from indexes.maps.kernels.scores import Scoring
from indexes.maps.kernels.top_zone import MOST_STEPS
from indexes.maps.scoring import KINDS, expression_scoring, scoring
from indexes.maps.searches import Query, SkylineQuery, TopQuery

FieldFault = tuple[str, str]
"""A field, and what is wrong with it."""

SCORINGS = 4_096
"""Scorings that a map keeps."""


SECONDS_A_STEP, SECONDS_A_PAIR, SECONDS_A_CANDIDATE = 5e-9, 3e-8, 4e-6
"""Of a step of a program, or an attribute of a score: for one object; for a comparison of a member with a candidate;
and for what has to be computed once for a candidate. More than measured: estimates begin too high."""

SURELY_SHORT = 5_000
"""Objects among which a skyline takes some milliseconds even if nothing dominates anything: O(n^2 / 16)."""

UNKNOWN = 0.01
"""Estimate of the seconds of the first skyline among more objects: all may be its members, which then takes seconds."""

MOST_SCANNED = 2_000_000_000
"""Steps of a program over all objects of a map: some seconds, if its bounds leave out none of them."""


def steps_of(score: Score) -> int:
    """At least how many steps a program for a score has, or how many attributes it takes. O(length)."""
    return count_steps(score.expression or "") if score.kind == "expression" else len(score.weights) + 1


def too_costly(question: Question, objects: int) -> list[FieldFault]:
    """Why a question takes too long among so many objects: for its expression, and k and m."""
    if isinstance(question, Skyline) or question.score.kind != "expression":
        return []
    steps = steps_of(question.score)
    if steps * question.k * question.m > MOST_STEPS:
        most = MOST_STEPS // max(1, question.k * question.m)
        reason = f"has {steps} steps, and with this k and m at most {most} are allowed: shorten it, or reduce k or m"
        return [("score.expression", reason)]
    if steps * objects > MOST_SCANNED:
        most = MOST_SCANNED // objects
        reason = f"has {steps} steps, and among {objects} objects at most {most} are allowed: shorten it"
        return [("score.expression", reason)]
    return []


def first_estimate(question: Question, objects: int) -> float:
    """Seconds for an answer at one place, before any was timed: more than it takes."""
    if isinstance(question, Skyline):
        return 2e-4
    steps, k, m = steps_of(question.score), question.k, question.m
    if question.score.kind not in ("expression", "waspas"):
        return 2e-4 + 1e-8 * k * m
    compared = min(steps * m * (k * SECONDS_A_PAIR + SECONDS_A_CANDIDATE), MOST_STEPS * SECONDS_A_PAIR)
    return 2e-4 + compared + steps * objects * SECONDS_A_STEP


def estimate_untimed(question: Question, objects: int) -> float:
    """As `first_estimate`, of the first answer of a map, which must not be searched for on the event loop unless it is
    surely short."""
    if isinstance(question, Skyline) and objects > SURELY_SHORT:
        return UNKNOWN
    return first_estimate(question, objects)


def cost_class(question: Question) -> tuple[object, ...]:
    """Questions that take about as long have the same: by kind, and by the magnitudes of steps, k and m."""
    if isinstance(question, Skyline):
        return (None,)
    score = question.score
    return score.kind, steps_of(score).bit_length(), question.k.bit_length(), question.m.bit_length()


def scoring_of(config: MapConfig, score: Score) -> Scoring:
    """The scoring of a score over the attributes of a map, in memory of its own: for one thread at a time.

    Raises:
        ValueError: `faults_of` finds something.
    """
    if score.kind == "expression":
        return expression_scoring(score.expression or "", config.attributes, config.metric, score.scale)
    weights = dict(score.weights)
    return scoring(score.kind, config.attributes, weights, config.metric, score.scale, score.shift, score.blend)


class ScoringCache:
    """The questions of one map as queries of its searches; equal scores share a scoring."""

    def __init__(self, config: MapConfig) -> None:
        self._config = config
        self._scorings: dict[Score, Scoring] = {}

    def query_of(self, question: Question) -> Query:
        """The query of a valid question."""
        if isinstance(question, Skyline):
            return SkylineQuery()
        return TopQuery(question.k, question.m, self.scoring(question.score), question.ordered)

    def scoring(self, score: Score) -> Scoring:
        """The scoring of a valid score."""
        known = self._scorings.get(score)
        if known is None:
            if len(self._scorings) >= SCORINGS:
                self._scorings.clear()
            known = self._scorings[score] = scoring_of(self._config, score)
        return known


def faults_of(config: MapConfig, question: Question) -> list[FieldFault]:
    """What is wrong with a question to a map. O(1) for a score that was checked recently."""
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
