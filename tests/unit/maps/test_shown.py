"""Objects that a map keeps for the next answers: written once, and never as they were before a change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.rendering.maps import map_json
from indexes.core.plan import applied
from indexes.maps import objects
from indexes.maps.attributes import Attribute
from indexes.maps.commands import DeleteObjects, PutObjects
from indexes.maps.config import MapConfig, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.plans import objects as object_plans

CONFIG = MapConfig((Attribute("price"), Attribute("rating", True)), (0.0, 0.0, 9.0, 9.0))
QUESTIONS = (Skyline(), Top(3, Score("weighted_sum", (("price", 1.0), ("distance", 0.5))), 2))
PLACES = [(1.0, 1.0), (8.0, 2.0)]


def put(engine: MapEngine, ids: list[str], values: Any, payload: Any = None, at: float = 1.0) -> None:
    points = np.column_stack([np.arange(len(ids)) + at, np.full(len(ids), at)])
    rows = np.asarray(values, np.float64).reshape(len(ids), 2)
    applied(engine.prepare(PutObjects(pa.array(ids), points, rows, payload or {})))


def shown(engine: MapEngine) -> dict[str, Any]:
    """The objects in answers as text, each the same wherever it is but for its distance, score and rank."""
    found: dict[str, Any] = {}
    write = map_json(engine.config)
    for question in QUESTIONS:
        for text in write.results(engine.answer(question, PLACES)):
            answer = json.loads(f"{{{text}}}")
            for entry in [*answer.get("skyline", ()), *answer.get("list", ()), *answer.get("candidates", ())]:
                one = {key: entry[key] for key in ("id", "location", "values", "created", "payload") if key in entry}
                assert found.setdefault(one["id"], one) == one
    return found


def listed(engine: MapEngine) -> dict[str, Any]:
    write = map_json(engine.config).object
    return {view.id: json.loads(write(view)) for view in engine.objects(None, 100)}


def test_after_each_change_answers_show_objects_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MapEngine(CONFIG)
    put(engine, ["a", "b", "c"], [[1, 3], [2, 4], [3, 5]])
    assert shown(engine) == listed(engine) and len(shown(engine)) == 3
    put(engine, ["b"], [[1.5, 4]], {0: b'{"open":1}'})
    assert shown(engine) == listed(engine) and shown(engine)["b"]["payload"] == {"open": 1}
    put(engine, ["b"], [[1.5, 4]], {0: b"[2]"})
    assert shown(engine)["b"]["payload"] == [2]
    put(engine, ["b"], [[1.5, 4]], {0: None})
    assert shown(engine) == listed(engine) and "payload" not in shown(engine)["b"]
    applied(engine.prepare(DeleteObjects(["b"])))
    put(engine, ["d"], [[1.25, 4.5]])  # in the slot that was free
    assert shown(engine) == listed(engine) and set(shown(engine)) == {"a", "c", "d"}
    monkeypatch.setattr(object_plans, "PACKED_FROM", 2)
    put(engine, ["a", "c", "d"], [[7, 7], [8, 8], [9, 9]], {1: b"3"})
    assert shown(engine) == listed(engine) and shown(engine)["c"]["payload"] == 3


def test_an_object_that_was_shown_within_a_change_shows_its_payload_behind_it() -> None:
    """A change puts places and values in the index before it names objects and sets payloads."""
    engine = MapEngine(CONFIG)
    put(engine, ["a", "b"], [[1, 3], [2, 4]])
    plan = engine.prepare(PutObjects(pa.array(["b"]), np.array([[1.0, 1.0]]), np.array([[1.5, 4.0]]), {0: b"[2]"}))
    plan.execute(1.0)
    assert "payload" not in shown(engine)["b"]
    plan.publish()
    assert plan.done and shown(engine) == listed(engine) and shown(engine)["b"]["payload"] == [2]


def test_an_answer_that_was_given_stays_as_it_was() -> None:
    engine = MapEngine(CONFIG)
    put(engine, ["a", "b"], [[1, 3], [2, 4]])
    before = engine.answer(Skyline(), PLACES)
    put(engine, ["a", "b"], [[5, 3], [6, 4]], at=3.0)
    assert [one.rows.values[0] for one in before] == [[1.0, 2.0], [2.0, 1.0]]
    assert '"price":1}' in map_json(CONFIG).result(before[0]).replace(',"rating":3', "")
    assert engine.answer(Skyline(), PLACES) != before


def test_an_object_in_many_answers_is_written_once() -> None:
    engine = MapEngine(CONFIG)
    put(engine, ["a", "b"], [[1, 3], [2, 4]])
    first, second = (engine.answer(Skyline(), PLACES[:1])[0].rows.objects for _ in range(2))
    assert all(one is other for one, other in zip(first, second, strict=True))
    map_json(CONFIG).results(engine.answer(Skyline(), PLACES[:1]))
    assert all(one.text for one in first)


def test_few_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "KEPT", 4)
    monkeypatch.setattr(objects, "_kept", {})
    engine = MapEngine(CONFIG)
    ids = [f"o{i}" for i in range(9)]
    put(engine, ids, [[i, i] for i in range(9)])
    for _ in range(3):
        assert shown(engine) == {id: one for id, one in listed(engine).items() if id in shown(engine)}
        assert 0 < len(objects._kept) <= 4
