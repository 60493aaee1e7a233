"""What is held of a question, as users see it: at a place, by id, and with values of their own sign."""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.maps.live import Held
from indexes.maps.metrics import METRICS, distance
from indexes.maps.model import Point, Question, Skyline, Top
from indexes.maps.objects import Float64, Objects
from indexes.maps.shapes import geometry
from indexes.maps.sky_circle import CircleZone
from indexes.maps.top import TopZone, scores_at
from indexes.maps.views import Answer, CircleOf, SkylineAnswer, TopAnswer
from indexes.maps.zones import Zone


def answer_of(objects: Objects, question: Question, held: Held, at: Point, metric: str) -> Answer:
    """The answer at a place within the zone of what is held, which stays as it is. O(c log c)."""
    if isinstance(held, TopZone):
        assert isinstance(question, Top)
        return _top(objects, question, held, at)
    return _skyline(objects, held, at, metric)


def _top(objects: Objects, question: Top, held: TopZone, at: Point) -> TopAnswer:
    scores = scores_at(held.scoring, *at, held.places, held.statics)
    order = np.lexsort((held.created, scores))
    distances = _distances(held.scoring.metric, at, held.places)[order]
    rows = objects.rows(held.slots[order], held.places[order], held.statics[order], held.created[order], distances)
    shown = [score if np.isfinite(score) else None for score in scores[order].tolist()]
    radius = held.radius if np.isfinite(held.radius) else None
    return TopAnswer(question, at, rows, shown, min(held.k, len(order)), held.place, radius)


def _skyline(objects: Objects, held: Zone | CircleZone, at: Point, metric: str) -> SkylineAnswer:
    slots, points, statics = held.skyline.astype(np.int64), held.places.T, held.statics.T
    distances = _distances(METRICS[metric], at, points)
    created = objects.index.view.created[slots]
    order = np.lexsort((created, distances))
    rows = objects.rows(slots[order], points[order], statics[order], created[order], distances[order])
    return SkylineAnswer(Skyline(), at, rows, zone_of(held))


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


def _distances(metric: int, at: Point, points: Float64) -> Float64:
    return np.array([distance(metric, *at, x, y) for x, y in points.tolist()], np.float64)
