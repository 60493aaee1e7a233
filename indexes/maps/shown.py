"""What is held of a question, as users see it: at a place, by id, and with values of their own sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from indexes.maps.floats import float_kernel
from indexes.maps.live import Held
from indexes.maps.metrics import METRICS, distance
from indexes.maps.model import Point, Question, Skyline, Top
from indexes.maps.objects import Objects
from indexes.maps.shapes import geometry
from indexes.maps.sky_circle import CircleZone
from indexes.maps.top import TopZone, measured
from indexes.maps.views import Answer, CircleOf, SkylineAnswer, TopAnswer
from indexes.maps.zones import Zone


def answers_of(
    objects: Objects, question: Question, held: Sequence[Held], places: Sequence[Point], metric: str
) -> list[Answer]:
    """The answers to a question at places within the zones of what is held there, which stay as they are.

    O(c log c) for c objects in all.
    """
    if not held:
        return []
    if isinstance(question, Top):
        return _tops(objects, question, cast("Sequence[TopZone]", held), places)
    return _skylines(objects, cast("Sequence[Zone | CircleZone]", held), places, METRICS[metric])


def _tops(objects: Objects, question: Top, held: Sequence[TopZone], places: Sequence[Point]) -> list[Answer]:
    sizes = [len(zone.slots) for zone in held]
    which = np.repeat(np.arange(len(held)), sizes)
    slots, points, statics, created = (
        np.concatenate(columns)
        for columns in zip(*[(zone.slots, zone.places, zone.statics, zone.created) for zone in held], strict=True)
    )
    if all(zone.place == at for zone, at in zip(held, places, strict=True)):
        scores = np.concatenate([zone.scores for zone in held])
        distances = np.concatenate([zone.distances for zone in held])
    else:
        scores, distances = measured(held[0].scoring, np.array(places, np.float64), which, points, statics)
    order = np.lexsort((created, scores, which))
    rows = objects.rows(slots[order], points[order], statics[order], created[order], distances[order])
    shown: list[float | None] = scores[order].tolist()
    for i in np.flatnonzero(~np.isfinite(scores[order])).tolist():
        shown[i] = None
    found: list[Answer] = []
    end = 0
    for zone, at, size in zip(held, places, sizes, strict=True):
        begin, end = end, end + size
        radius = zone.radius if zone.radius != np.inf else None
        mine = rows.part(begin, end)
        found.append(TopAnswer(question, at, mine, shown[begin:end], min(zone.k, size), zone.place, radius))
    return found


def _skylines(
    objects: Objects, held: Sequence[Zone | CircleZone], places: Sequence[Point], metric: int
) -> list[Answer]:
    sizes = [len(zone.skyline) for zone in held]
    which = np.repeat(np.arange(len(held)), sizes)
    slots = np.concatenate([zone.skyline for zone in held]).astype(np.int64)
    points = np.concatenate([zone.places.T for zone in held])
    statics = np.concatenate([zone.statics.T for zone in held])
    distances = np.empty(len(slots))
    measure_distances(metric, np.array(places, np.float64), which, np.ascontiguousarray(points.T), distances)
    created = objects.index.view.created[slots]
    order = np.lexsort((created, distances, which))
    rows = objects.rows(slots[order], points[order], statics[order], created[order], distances[order])
    found: list[Answer] = []
    end = 0
    for zone, at, size in zip(held, places, sizes, strict=True):
        begin, end = end, end + size
        found.append(SkylineAnswer(Skyline(), at, rows.part(begin, end), zone_of(zone)))
    return found


@float_kernel
def measure_distances(metric, ats, which, points, far):  # type: ignore[no-untyped-def]
    """Write how far objects at `points` (2, n) are, each from the place `ats[which]`."""
    for i in range(which.size):
        far[i] = distance(metric, ats[which[i], 0], ats[which[i], 1], points[0, i], points[1, i])


def zone_of(held: Zone | CircleZone) -> dict[str, Any] | CircleOf | None:
    """The zone of a skyline: see `SkylineAnswer`."""
    if isinstance(held, Zone):
        return geometry(held)
    if held.empty:
        return None
    x, y = held.place.tolist()
    return CircleOf((x, y), held.radius if np.isfinite(held.radius) else None)


def zone_fields(answer: Answer) -> dict[str, Any] | None:
    """The zone of an answer as JSON has it: a circle's radius of null is everywhere."""
    if isinstance(answer, TopAnswer):
        return {"center": list(answer.center), "radius": answer.radius}
    if isinstance(answer.zone, CircleOf):
        return {"center": list(answer.zone.center), "radius": answer.zone.radius}
    return answer.zone
