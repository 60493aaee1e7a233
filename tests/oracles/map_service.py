"""A map as it looks over HTTP, by brute force.

What each request does to it, what it must answer, and whether an answer holds where it says that it does.

Plain dicts and sorting, written from the wire's own words. It shares nothing with the service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from tests.oracles import maps as skylines
from tests.oracles import top_k
from tests.oracles.service import number

Json = dict[str, Any]
Place = tuple[float, float]

NEARLY = 1e-9
"""How far inside a zone a place has to be for its answer to be compared, as a share of the zone."""


@dataclass
class Thing:
    """An object."""

    id: str
    location: Place
    values: dict[str, float]
    created: int
    payload: Any = None

    def shown(self) -> Json:
        values = {name: number(value) for name, value in self.values.items()}
        location = [number(value) for value in self.location]
        return {
            "id": self.id,
            "location": location,
            "values": values,
            "created": self.created,
            "payload": self.payload,
        }


@dataclass
class MapModel:
    """A map made with a configuration as a PUT says it."""

    config: Json
    seq: int = 0
    objects: dict[str, Thing] = field(default_factory=dict)
    _made: int = 0

    @property
    def attributes(self) -> list[tuple[str, bool, tuple[float, float] | None]]:
        found: list[tuple[str, bool, tuple[float, float] | None]] = []
        for name, about in self.config["attributes"].items():
            spelled: Any = {"order": about} if isinstance(about, str) else about
            ends = spelled.get("range")
            found.append((name, spelled["order"] == "high", None if ends is None else (ends[0], ends[1])))
        return found

    @property
    def metric(self) -> str:
        found: str = self.config.get("metric", "euclidean")
        return found

    def put(self, *objects: Json) -> None:
        """Upserts, each with the fields that it gives."""
        for one in objects:
            self.seq += 1
            old = self.objects.get(one["id"])
            if old is None:
                old = self.objects[one["id"]] = Thing(one["id"], (0.0, 0.0), {}, self._made)
                self._made += 1
            if "location" in one:
                old.location = (one["location"][0], one["location"][1])
            old.values = {name: one.get("values", {}).get(name, old.values.get(name)) for name, _, _ in self.attributes}
            if "payload" in one:
                old.payload = one["payload"]

    def delete(self, *ids: str) -> None:
        for id in ids:
            self.seq += 1
            del self.objects[id]

    # --- answers ------------------------------------------------------------------------------------------------------

    def distance(self, place: Place, thing: Thing) -> float:
        return top_k.distance(self.metric, place, thing.location)

    def score(self, score: Json, place: Place, thing: Thing) -> float:
        """The score of an object at a place, infinite where it has none."""
        far, scale = self.distance(place, thing), score.get("scale", 1.0)
        if score["kind"] == "expression":
            return top_k.expression(score["expression"], far, thing.values, scale)
        numbers = scale, score.get("shift", 0.01), score.get("lambda", 0.5)
        return top_k.score(score["kind"], self.attributes, score["weights"], far, thing.values, *numbers)

    def ranking(self, score: Json, place: Place, of: list[str] | None = None) -> list[Thing]:
        """All objects, or these, best first."""
        things = list(self.objects.values()) if of is None else [self.objects[id] for id in of]
        return sorted(things, key=lambda thing: (self.score(score, place, thing), thing.created))

    def skyline(self, place: Place) -> set[str]:
        """The ids of what nothing dominates."""
        things = list(self.objects.values())
        if not things:
            return set()
        signs = [-1.0 if high else 1.0 for _, high, _ in self.attributes]
        statics = np.array([[s * v for s, v in zip(signs, one.values.values(), strict=True)] for one in things])
        points = np.array([one.location for one in things])
        if self.metric == "euclidean":
            found = skylines.skyline(points, statics.reshape(len(things), -1), *place)
        else:
            found = _skyline(statics.reshape(len(things), -1), np.array([self.distance(place, one) for one in things]))
        return {things[i].id for i in found}

    # --- whether what was answered is right ---------------------------------------------------------------------------

    def judge(
        self, question: Json, answer: Json, place: Place, draw: Random, tries: int = 8, held: bool = False
    ) -> None:
        """Assert that an answer at `place` is right there, and at random places strictly inside its zone.

        `question` is a body of a standing query, or of a question with its `kind`. What is `held` may have more or
        fewer candidates by now, and was searched for elsewhere: scores there are equal but for rounding.
        """
        if question["kind"] == "skyline":
            self._judge_skyline(answer, place, draw, tries)
        else:
            self._judge_top(question, answer, place, draw, tries, held)

    def _judge_top(self, question: Json, answer: Json, place: Place, draw: Random, tries: int, held: bool) -> None:
        k, m, score = question["k"], question.get("m", 1), question["score"]
        ranking = self.ranking(score, place)
        listed = [entry["id"] for entry in answer["list"]]
        if held:
            given = [self.score(score, place, self.objects[id]) for id in listed]
            wanted = [self.score(score, place, thing) for thing in ranking[:k]]
            assert all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(given, wanted, strict=True))
        else:
            assert listed == [thing.id for thing in ranking[:k]]
        assert [entry["rank"] for entry in answer["list"]] == list(range(1, len(listed) + 1))
        candidates = [entry["id"] for entry in answer["candidates"]]
        assert candidates[: len(listed)] == listed
        assert len(candidates) == len(set(candidates))
        assert held or len(candidates) == min(k + m - 1, len(self.objects))
        rest = candidates[len(listed) :]
        assert rest == [thing.id for thing in self.ranking(score, place, rest)]
        for entry in [*answer["list"], *answer["candidates"]]:
            self._judge_entry(entry, place)
            found = self.score(score, place, self.objects[entry["id"]])
            assert entry["score"] == (None if math.isinf(found) else number(found))
        center, radius = answer["zone"]["center"], answer["zone"]["radius"]
        for there in self._within(center, radius, draw, tries):
            if top_k.distance(self.metric, (center[0], center[1]), there) >= (
                math.inf if radius is None else radius
            ) * (1 - NEARLY):
                continue
            mine = [self.score(score, there, one) for one in self.ranking(score, there, candidates)[:k]]
            best = [self.score(score, there, one) for one in self.ranking(score, there)[:k]]
            assert all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(mine, best, strict=True))

    def _judge_skyline(self, answer: Json, place: Place, draw: Random, tries: int) -> None:
        ids = {entry["id"] for entry in answer["skyline"]}
        assert len(ids) == len(answer["skyline"])
        assert ids == self.skyline(place)
        far = [entry["distance"] for entry in answer["skyline"]]
        assert far == sorted(far)
        for entry in answer["skyline"]:
            self._judge_entry(entry, place)
        zone = answer["zone"]
        if zone is None:
            return
        if "center" in zone:
            inside = [
                there
                for there in self._within(zone["center"], zone["radius"], draw, tries)
                if zone["radius"] is None
                or top_k.distance(self.metric, (zone["center"][0], zone["center"][1]), there)
                < zone["radius"] * (1 - NEARLY)
            ]
        else:
            inside = _in_polygon(zone, draw, tries)
        for there in inside:
            assert self.skyline(there) == ids, f"at {there}"

    def _judge_entry(self, entry: Json, place: Place) -> None:
        thing = self.objects[entry["id"]]
        wanted = {**thing.shown(), "distance": number(self.distance(place, thing))}
        if thing.payload is None:
            del wanted["payload"]
        assert {name: entry[name] for name in entry if name not in ("rank", "score")} == wanted

    def _within(self, center: list[float], radius: float | None, draw: Random, tries: int) -> list[Place]:
        """Random places about a centre: within the radius on the plane, and about so far off on the sphere."""
        x0, y0, x1, y1 = self.config["bounds"]
        if self.metric == "great-circle":
            degrees = 90.0 if radius is None else math.degrees(radius / top_k.RADIUS)
            far = degrees, degrees
        else:
            reach = max(x1 - x0, y1 - y0) if radius is None else radius
            far = reach, reach
        found = []
        for _ in range(tries):
            angle, part = draw.uniform(0, 2 * math.pi), math.sqrt(draw.random())
            x = center[0] + far[0] * part * math.cos(angle)
            y = center[1] + far[1] * part * math.sin(angle)
            found.append((x, max(-90.0, min(90.0, y)) if self.metric == "great-circle" else y))
        return found


def _skyline(statics: np.ndarray, far: np.ndarray) -> set[int]:
    rows = np.column_stack([statics, far])
    no_worse = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    better = (rows[:, None, :] < rows[None, :, :]).any(axis=2)
    return set(np.flatnonzero(~(no_worse & better).any(axis=0)).tolist())


def _in_polygon(zone: Json, draw: Random, tries: int) -> list[Place]:
    """Random places inside a GeoJSON polygon, well off its border."""
    import shapely

    shape = shapely.geometry.shape(zone)
    assert shape.is_valid
    x0, y0, x1, y1 = shape.bounds
    inner = shape.buffer(-NEARLY * max(x1 - x0, y1 - y0))
    spots = [(draw.uniform(x0, x1), draw.uniform(y0, y1)) for _ in range(4 * tries)]
    return [spot for spot in spots if inner.contains(shapely.Point(spot))][:tries]
