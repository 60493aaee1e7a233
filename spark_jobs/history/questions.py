"""A question of a map from JSON: that of a standing query without its location."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from indexes.maps.config import MapConfig, Question, Score, Skyline, Top
from indexes.maps.questions import faults_of
from indexes.maps.scoring import LAMBDA, SHIFT
from spark_jobs.common.command import Failed

CANDIDATES = 10
"""The default of m: answers are the same for any, and about here they cost least."""

_TAKES = {
    "weighted_sum": ("weights",),
    "weighted_product": ("weights", "shift"),
    "weighted_distance": ("weights", "shift"),
    "waspas": ("weights", "shift", "lambda"),
    "expression": ("expression",),
}


def read_question(text: str, config: MapConfig) -> Question:
    """The question in a text. Raises `Failed` if it is invalid, or the map cannot answer it."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Failed(f"--question is no JSON: {error}") from error
    body = _fields("", given, ("kind", "k", "m", "ordered", "score"))
    kind = _get(body, "kind", _text)
    if kind == "skyline":
        _fields("", given, ("kind",))
        return Skyline()
    if kind != "top":
        raise Failed(f"--question: kind is {kind!r}; it has to be top or skyline")
    k, m = _get(body, "k", _count), _get(body, "m", _count, CANDIDATES)
    question = Top(k, _score(config, _get(body, "score", _object)), m, _get(body, "ordered", _truth, False))
    for field, reason in faults_of(config, question)[:1]:
        raise Failed(f"--question: {field}: {reason}")
    return question


def _score(config: MapConfig, given: dict[str, Any]) -> Score:
    kind = _get(given, "kind", _text, path="score.")
    if kind not in _TAKES:
        raise Failed(f"--question: score.kind is {kind!r}; it has to be one of {', '.join(_TAKES)}")
    takes = _TAKES[kind]
    body = _fields("score.", given, ("kind", "scale", *takes))
    weights: dict[str, float] = {}
    if "weights" in takes:
        named = _get(body, "weights", _object, path="score.")
        names = (*config.names, "distance")
        _fields("score.weights.", named, names)
        weights = {name: _get(named, name, _number, path="score.weights.") for name in names if name in named}
    expression = _get(body, "expression", _text, path="score.") if "expression" in takes else None
    scale, shift, blend = (
        _get(body, name, _number, unless, path="score.")
        for name, unless in (("scale", 1.0), ("shift", SHIFT), ("lambda", LAMBDA))
    )
    return Score(kind, tuple(weights.items()), float(scale), float(shift), float(blend), expression)


def _fields(path: str, given: Any, known: Collection[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Failed(f"--question: {path.rstrip('.') or 'it'} has to be an object")
    for field in given:
        if field not in known:
            raise Failed(f"--question: {path}{field} does not belong here, where {', '.join(known)} may be said")
    return given


def _get(
    body: dict[str, Any], field: str, check: Callable[[Any], str | None], unless: Any = None, path: str = ""
) -> Any:
    """A field; `check` returns the expected kind of value if it is another one."""
    if field not in body:
        if unless is None:
            raise Failed(f"--question: {path}{field} is required")
        return unless
    due = check(body[field])
    if due is not None:
        raise Failed(f"--question: {path}{field} is {json.dumps(body[field])}; it has to be {due}")
    return body[field]


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "a text"


def _truth(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _count(value: Any) -> str | None:
    return None if type(value) is int and value >= 1 else "a whole number, at least 1"


def _number(value: Any) -> str | None:
    return None if type(value) in (int, float) else "a number"


def _object(value: Any) -> str | None:
    return None if isinstance(value, dict) else "an object"
