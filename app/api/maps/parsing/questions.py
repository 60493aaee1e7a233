"""Questions out of bodies: which fields go with which kind, and whether a map can answer them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.api.problems import Problem, many
from app.errors import FieldError
from app.rendering.maps import OBJECT
from indexes.maps.config import MapConfig, Point, Question, Score, Skyline, Top
from indexes.maps.questions import faults_of, too_costly
from indexes.maps.scoring import LAMBDA, SHIFT

TOP_ONLY = ("k", "m", "ordered", "score")
"""Fields of a query that do not go with a skyline."""

_TAKES = {
    "weighted_sum": ("weights",),
    "weighted_product": ("weights", "shift"),
    "weighted_distance": ("weights", "shift"),
    "waspas": ("weights", "shift", "lambda"),
    "expression": ("expression",),
}
_NEEDED = ("weights", "expression")
_REQUIRED = "is required"

MOST_OBJECTS = 1 << 20
"""Objects that an answer may have room for: some hundred megabytes."""

SKYLINE = 64
"""Objects that a skyline is taken to have, before it is known."""


def score_of(config: MapConfig, body: dict[str, Any], errors: list[FieldError]) -> Score:
    """The score that validated fields say; what is missing or does not go with its kind is added to `errors`."""
    kind = body["kind"]
    takes = _TAKES[kind]
    for field in body:
        if field not in takes and field not in ("kind", "scale"):
            errors.append(FieldError(f"score.{field}", f"does not go with {kind}"))
    errors += [FieldError(f"score.{field}", _REQUIRED) for field in _NEEDED if field in takes and field not in body]
    given = body.get("weights", {})
    weights = tuple((name, given[name]) for name in (*config.names, "distance") if name in given)
    numbers = body.get("scale", 1.0), body.get("shift", SHIFT), body.get("lambda", LAMBDA)
    return Score(kind, weights, *numbers, body.get("expression"))


def top_of(config: MapConfig, body: dict[str, Any], errors: list[FieldError]) -> Top:
    """The top-k that validated fields say, which have a k and a score; `errors` as in `score_of`."""
    return Top(body["k"], score_of(config, body["score"], errors), body.get("m", 1), body.get("ordered", False))


def standing_of(config: MapConfig, body: dict[str, Any], errors: list[FieldError]) -> Question:
    """What the validated fields of a standing query ask; `errors` as in `score_of`."""
    if body["kind"] == "skyline":
        errors += [FieldError(field, "does not go with a skyline") for field in TOP_ONLY if field in body]
        return Skyline()
    missing = [FieldError(field, _REQUIRED) for field in ("k", "score") if field not in body]
    if missing:
        errors += missing
        return Skyline()
    question = top_of(config, body, errors)
    # Only where it is made: what is in the log already stays valid.
    errors += [FieldError(field, reason) for field, reason in too_costly(question, 0)]
    return question


def locations_of(config: MapConfig, body: dict[str, Any]) -> list[Point]:
    """The places that a question is asked about: its `location`, or its `locations`. Raises the problem 422."""
    alone = "location" in body
    if alone == ("locations" in body):
        reason = "goes without locations" if alone else "is required, or locations"
        raise many([FieldError("location", reason)])
    found = [point(body["location"])] if alone else [point(one) for one in body["locations"]]
    if config.metric == "great-circle":
        name = "location" if alone else "locations[{}]"
        wrong = [
            FieldError(name.format(i) + field, reason)
            for i, place in enumerate(found)
            for field, reason in _off_the_sphere(place)
        ]
        if wrong:
            raise many(wrong)
    return found


def check_cost(question: Question, objects: int) -> None:
    """Raise the problem 422 for a question that takes too long among so many objects."""
    found = too_costly(question, objects)
    if found:
        raise many([FieldError(field, reason) for field, reason in found])


def check(config: MapConfig, question: Question, errors: list[FieldError]) -> None:
    """Raise the problem 422 for what is wrong with a question: `errors`, or what the map cannot answer."""
    found: Iterable[FieldError] = errors
    if not errors:
        found = [FieldError(field, reason) for field, reason in faults_of(config, question)]
    listed = list(found)
    if listed:
        raise many(listed)


_END = 180.0, 90.0
"""The greatest longitude and latitude."""


def _off_the_sphere(place: Point) -> list[tuple[str, str]]:
    """What is wrong with a place in degrees, behind the name of its field."""
    return [(f"[{j}]", f"must be from {-end:g} to {end:g}") for j, end in enumerate(_END) if abs(place[j]) > end]


def bad_bounds(bounds: list[float], metric: str) -> list[FieldError]:
    """What is wrong with the bounds of a map."""
    errors = []
    if metric == "great-circle":
        ends = zip((*_END, *_END), bounds, strict=True)
        errors = [
            FieldError(f"bounds[{i}]", f"must be from {-end:g} to {end:g}")
            for i, (end, value) in enumerate(ends)
            if abs(value) > end
        ]
    for low, high in ((0, 2), (1, 3)):
        if not bounds[low] < bounds[high]:
            errors.append(FieldError(f"bounds[{high}]", f"must be greater than bounds[{low}]"))
    return errors


def point(pair: list[float]) -> Point:
    """A location of a body; -0 is 0."""
    return pair[0] + 0.0, pair[1] + 0.0


def widest(question: Question) -> int:
    """Objects that an answer to a question may have, in a map of any size."""
    return question.k + question.m - 1 if isinstance(question, Top) else SKYLINE


def room_of(question: Question, objects: int) -> int:
    """As `widest`, in a map of so many."""
    return min(widest(question), objects)


def check_room(room: int, what: str, most_bytes: int) -> None:
    """Refuse, with the problem 413, what would not find room in memory, or in an answer of so many bytes: `room`
    objects for fewer of `what`."""
    most = min(MOST_OBJECTS, most_bytes // OBJECT)
    if room > most:
        raise Problem("too-large", f"the answer would have more than {most} objects: send fewer {what}")


def check_size(size: int, what: str, most: int) -> None:
    """Refuse, with the problem 413, an answer of more bytes than it may have."""
    if size > most:
        raise Problem("too-large", f"the answer would have more than {most} bytes: send fewer {what}")
