"""Configurations and questions of maps as fields, as the log and the manifest hold them."""

from __future__ import annotations

from typing import Any

from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig, Question, Score, Skyline, Top


def config_fields(config: MapConfig) -> dict[str, Any]:
    """The stored fields of a configuration."""
    attributes = [[one.name, one.high, None if one.range is None else list(one.range)] for one in config.attributes]
    return {"attributes": attributes, "bounds": list(config.bounds), "metric": config.metric}


def config_of(fields: dict[str, Any]) -> MapConfig:
    """The inverse of `config_fields`."""
    attributes = tuple(
        Attribute(name, high, None if range is None else (range[0], range[1]))
        for name, high, range in fields["attributes"]
    )
    x0, y0, x1, y1 = fields["bounds"]
    return MapConfig(attributes, (x0, y0, x1, y1), fields["metric"])


def question_fields(question: Question) -> dict[str, Any]:
    """The stored fields of a question."""
    match question:
        case Skyline():
            return {"kind": "skyline"}
        case Top(k, score, m, ordered):
            score_fields = {**score._asdict(), "weights": [list(weight) for weight in score.weights]}
            return {"kind": "top", "k": k, "m": m, "ordered": ordered, "score": score_fields}


def question_of(fields: dict[str, Any]) -> Question:
    """The inverse of `question_fields`. Raises ValueError for a kind that this version does not know."""
    match fields["kind"]:
        case "skyline":
            return Skyline()
        case "top":
            score = dict(fields["score"])
            weights = tuple((name, weight) for name, weight in score.pop("weights"))
            return Top(fields["k"], Score(weights=weights, **score), fields["m"], fields["ordered"])
        case kind:
            raise ValueError(f"a query of a kind {kind!r}")
