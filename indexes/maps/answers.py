"""Answers as users see them: at a place, with ids, and with values of the user's sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from indexes.maps.config import Point, Question, Skyline, Top
from indexes.maps.kernels.metrics import METRICS, measure_distances
from indexes.maps.objects import Objects
from indexes.maps.results import Answer, CircleOf, SkylineAnswer, TopAnswer
from indexes.maps.searches import Found, Skylines
from indexes.maps.zones.circle import CircleZone
from indexes.maps.zones.geojson import geometries
from indexes.maps.zones.skyline import Zone
from indexes.maps.zones.top import TopZone, measured


def answers_of(
    objects: Objects, question: Question, found: Found, places: Sequence[Point], metric: str
) -> list[Answer]:
    """The answers to a question at places, each within one of the zones that were found.

    O(c log c) for c objects in all.
    """
    if not places:
        return []
    if isinstance(question, Top):
        return _tops(objects, question, cast("Sequence[TopZone]", found), places)
    if not isinstance(found, Skylines):
        found = _skylines(objects, cast("Sequence[Zone | CircleZone]", found), places, METRICS[metric])
    rows = objects.rows(found.slots, found.distances)
    skyline = Skyline()
    return [
        SkylineAnswer(skyline, at, rows.part(begin, end), zone)
        for at, begin, end, zone in zip(places, [0, *found.ends], found.ends, found.zones, strict=False)
    ]


def _tops(objects: Objects, question: Top, zones: Sequence[TopZone], places: Sequence[Point]) -> list[Answer]:
    sizes = [len(zone.slots) for zone in zones]
    which = np.repeat(np.arange(len(zones)), sizes)
    slots, points, statics, created = (
        np.concatenate(columns)
        for columns in zip(*[(zone.slots, zone.places, zone.statics, zone.created) for zone in zones], strict=True)
    )
    if all(zone.place == at for zone, at in zip(zones, places, strict=True)):
        scores = np.concatenate([zone.scores for zone in zones])
        distances = np.concatenate([zone.distances for zone in zones])
    else:
        scores, distances = measured(zones[0].scoring, np.array(places, np.float64), which, points, statics)
    order = np.lexsort((created, scores, which))
    rows = objects.rows(slots[order], distances[order])
    score: list[float | None] = scores[order].tolist()
    for i in np.flatnonzero(~np.isfinite(scores[order])).tolist():
        score[i] = None
    found: list[Answer] = []
    end = 0
    for zone, at, size in zip(zones, places, sizes, strict=True):
        begin, end = end, end + size
        radius = zone.radius if zone.radius != np.inf else None
        mine = rows.part(begin, end)
        found.append(TopAnswer(question, at, mine, score[begin:end], min(zone.k, size), zone.place, radius))
    return found


def _skylines(objects: Objects, zones: Sequence[Zone | CircleZone], places: Sequence[Point], metric: int) -> Skylines:
    """What answers show of zones."""
    sizes = [len(zone.skyline) for zone in zones]
    which = np.repeat(np.arange(len(zones)), sizes)
    slots = np.concatenate([zone.skyline for zone in zones]).astype(np.int64)
    points = np.concatenate([zone.places.T for zone in zones])
    distances = np.empty(len(slots))
    measure_distances(metric, np.array(places, np.float64), which, np.ascontiguousarray(points.T), distances)
    order = np.lexsort((objects.index.view.created[slots], distances, which))
    return Skylines(slots[order], distances[order], np.cumsum(sizes).tolist(), _shown(zones))


def _shown(zones: Sequence[Zone | CircleZone]) -> list[dict[str, Any] | CircleOf | None]:
    """The zones of skylines: see `SkylineAnswer`."""
    polygons = iter(geometries([zone for zone in zones if isinstance(zone, Zone)]))
    return [next(polygons) if isinstance(zone, Zone) else _circle(zone) for zone in zones]


def _circle(zone: CircleZone) -> CircleOf | None:
    if zone.empty:
        return None
    x, y = zone.place.tolist()
    return CircleOf((x, y), zone.radius if np.isfinite(zone.radius) else None)


def zone_fields(answer: Answer) -> dict[str, Any] | None:
    """The zone of an answer for JSON; a circle with a radius of null is everywhere."""
    if isinstance(answer, TopAnswer):
        return {"center": list(answer.center), "radius": answer.radius}
    if isinstance(answer.zone, CircleOf):
        return {"center": list(answer.zone.center), "radius": answer.zone.radius}
    return answer.zone
