"""Scorings, as kernels take them, of named scores and of expressions (see `kernels/scores.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from indexes.maps.attributes import Attribute
from indexes.maps.expression import compiled
from indexes.maps.kernels.metrics import METRICS
from indexes.maps.kernels.programs import program
from indexes.maps.kernels.scores import DISTANCE, EXPRESSION, PRODUCT, SUM, WASPAS, Scoring

KINDS = {"weighted_sum": SUM, "weighted_product": PRODUCT, "weighted_distance": DISTANCE, "waspas": WASPAS}

SHIFT = 0.01
LAMBDA = 0.5


def scoring(
    kind: str,
    attributes: Sequence[Attribute],
    weights: Mapping[str, float],
    metric: str = "euclidean",
    scale: float = 1.0,
    shift: float = SHIFT,
    blend: float = LAMBDA,
) -> Scoring:
    """The scoring of one of the `KINDS` with weights by attribute or `distance`; those left out are 0.

    Raises:
        ValueError: the kind or the metric is unknown; a weight is of an unknown attribute, negative or not finite; none
            is above 0; scale is not above 0, shift negative or blend outside [0, 1]; a weighted distance has a weight
            of distance; an attribute with a weight has no range, or an empty one, where one is needed.
    """
    if kind not in KINDS or metric not in METRICS:
        raise ValueError(f"score {kind!r} by metric {metric!r} is unknown")
    unknown = set(weights) - {attribute.name for attribute in attributes} - {"distance"}
    if unknown:
        raise ValueError(f"a weight of {min(unknown)!r}, which is no attribute")
    for name, weight in weights.items():
        if not 0.0 <= weight < np.inf:
            raise ValueError(f"a weight of {name!r} of {weight}")
    if not any(weights.values()):
        raise ValueError("no weight is above 0")
    if not (0.0 < scale < np.inf and 0.0 <= shift < np.inf and 0.0 <= blend <= 1.0):
        raise ValueError(f"scale {scale}, shift {shift} or lambda {blend} is out of bounds")
    wd = float(weights.get("distance", 0.0))
    if kind == "weighted_distance":
        if wd:
            raise ValueError("a weighted distance has no weight of distance")
        wd = 1.0
    chosen = [j for j, attribute in enumerate(attributes) if weights.get(attribute.name, 0.0) > 0.0]
    ranges = np.zeros((len(chosen), 2))
    for i, j in enumerate(chosen):
        given = attributes[j].range
        if kind != "weighted_sum":
            if given is None or not given[0] < given[1]:
                raise ValueError(f"{attributes[j].name!r} has no range")
            ranges[i] = given
    return Scoring(
        KINDS[kind],
        METRICS[metric],
        float(scale),
        wd,
        float(shift),
        float(blend),
        np.array(chosen, np.int64),
        np.array([weights[attributes[j].name] for j in chosen], np.float64),
        ranges[:, 0].copy(),
        ranges[:, 1] - ranges[:, 0],
        np.array([-1.0 if attributes[j].high else 1.0 for j in chosen]),
        program([]),
    )


def expression_scoring(
    text: str, attributes: Sequence[Attribute], metric: str = "euclidean", scale: float = 1.0
) -> Scoring:
    """The scoring of an expression.

    Raises:
        BadExpression: see `expression.compiled`.
        ValueError: the metric is unknown, or scale is not above 0.
    """
    if metric not in METRICS or not 0.0 < scale < np.inf:
        raise ValueError(f"metric {metric!r} is unknown, or scale {scale} is out of bounds")
    known = compiled(text, attributes)
    none = np.empty(0)
    return Scoring(
        EXPRESSION,
        METRICS[metric],
        float(scale),
        0.0 if known.constant else 1.0,
        SHIFT,
        LAMBDA,
        np.empty(0, np.int64),
        none,
        none,
        none,
        none,
        known.program,
    )
