"""Questions to maps that take long: refused where they would take too long, and given up when nobody waits for them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from app.api.connected import while_connected
from indexes.maps import questions
from indexes.maps.config import Score, Top
from indexes.maps.engine import MapEngine
from indexes.maps.plans.questions import QuestionPlan
from indexes.maps.questions import first_estimate
from tests.support.patience import PATIENCE
from tests.support.running import Running
from tests.support.service_fixtures import Start

LONG = "distance" + "*(1+a0)" * 130


@pytest.fixture
def running(start: Start) -> Running:
    """A service with a map of some objects."""
    found = start()
    config = {"attributes": {"a0": "low"}, "bounds": [0, 0, 9, 9], "metric": "euclidean"}
    assert found.client.put("/v1/maps/m", json=config).status_code == 201
    objects = [{"id": f"o{i}", "location": [i % 9, i % 7], "values": {"a0": i % 5}} for i in range(30)]
    assert found.client.post("/v1/maps/m/objects", json={"objects": objects}).status_code in (200, 201)
    return found


def body(k: int, m: int, expression: str) -> dict[str, Any]:
    return {"k": k, "m": m, "score": {"kind": "expression", "expression": expression}}


@pytest.mark.parametrize("path", ["top", "queries/q"])
def test_a_question_that_takes_too_long_is_refused_by_its_field(running: Running, path: str) -> None:
    asked = {**body(1000, 1000, LONG), "location": [0, 0]}
    if path == "top":
        answer = running.client.post("/v1/maps/m/top", json=asked)
    else:
        answer = running.client.put("/v1/maps/m/queries/q", json={"kind": "top", **asked})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == "score.expression" and "reduce k or m" in error["reason"]
    assert running.client.get("/v1/maps/m/queries/q").status_code == 404


def test_a_change_to_a_question_that_takes_too_long_is_refused_and_changes_nothing(running: Running) -> None:
    asked = {"kind": "top", **body(10, 10, LONG), "location": [0, 0]}
    made = running.client.put("/v1/maps/m/queries/q", json=asked)
    assert made.status_code == 201
    for change in ({"k": 1000, "m": 1000}, {"m": 1000, "k": 900, "location": [1, 1]}):
        answer = running.client.patch("/v1/maps/m/queries/q", json=change)
        assert answer.status_code == 422
        assert [error["field"] for error in answer.json()["errors"]] == ["score.expression"]
    short = {"k": 1000, "m": 1000, "score": {"kind": "expression", "expression": "distance"}}
    assert running.client.patch("/v1/maps/m/queries/q", json=short).status_code == 200
    assert running.client.patch("/v1/maps/m/queries/q", json={"score": asked["score"]}).status_code == 422
    found = running.client.get("/v1/maps/m/queries/q").json()
    assert (found["k"], found["m"], found["score"]["expression"]) == (1000, 1000, "distance")


def test_a_costly_query_of_an_earlier_version_can_be_moved(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"kind": "top", **body(100, 100, LONG), "location": [0, 0]}
    assert running.client.put("/v1/maps/m/queries/q", json=asked).status_code == 201
    monkeypatch.setattr("indexes.maps.questions.MOST_STEPS", 1)
    assert running.client.patch("/v1/maps/m/queries/q", json={"location": [1, 1], "ttl": 60}).status_code == 200
    assert running.client.patch("/v1/maps/m/queries/q", json={"k": 99}).status_code == 422


def test_a_question_that_is_long_but_bounded_is_answered(running: Running) -> None:
    answer = running.client.post("/v1/maps/m/top", json={**body(10, 10, LONG), "location": [0, 0]})
    assert answer.status_code == 200 and len(answer.json()["list"]) == 10


def test_a_question_of_unknown_cost_is_answered_off_the_event_loop(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    execute = QuestionPlan.execute

    def seen(self: QuestionPlan, budget: float) -> None:
        threads.append(threading.current_thread().name)
        execute(self, budget)

    monkeypatch.setattr(QuestionPlan, "execute", seen)
    asked = {**body(100, 100, LONG), "location": [0, 0]}
    assert running.client.post("/v1/maps/m/top", json=asked).status_code == 200
    assert threads and all(name.startswith("kernel") for name in threads)


def test_the_first_skyline_among_many_objects_is_searched_for_off_the_event_loop(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the objects may be its members, which then takes seconds."""
    threads: list[int] = []
    search = MapEngine.search

    def seen(self: MapEngine, *arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return search(self, *arguments)

    monkeypatch.setattr(MapEngine, "search", seen)
    monkeypatch.setattr(questions, "SURELY_SHORT", 0)
    monkeypatch.setattr("indexes.maps.plans.questions.SURELY_SHORT", 0)
    assert running.client.post("/v1/maps/m/skyline", json={"location": [0, 0]}).status_code == 200
    assert threads and running.call(threading.get_ident) not in threads


def test_first_estimates_grow_with_the_program_with_k_and_m_and_with_the_objects() -> None:
    def seconds(k: int, m: int, times: int, objects: int) -> float:
        return first_estimate(Top(k, Score("expression", expression="distance" + "*2" * times), m), objects)

    least = seconds(1, 1, 1, 10)
    assert all(more > least for more in (seconds(9, 1, 1, 10), seconds(1, 9, 1, 10), seconds(1, 1, 9, 10)))
    assert seconds(1, 1, 1, 10**6) > least and seconds(100, 100, 130, 100) > 0.01


def test_work_for_a_client_that_has_gone_is_given_up() -> None:
    cancelled = []

    async def long() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def whole() -> None:
        with pytest.raises(ClientDisconnect):
            await while_connected(Request({"type": "http"}, receive), long())
        await asyncio.sleep(0)

    asyncio.run(whole())
    assert cancelled == [True]


def test_a_question_that_is_dropped_is_done_without_its_answers(running: Running) -> None:
    engine = running.service.maps.get("m")
    assert engine is not None
    plan = engine.ask(Top(1, Score("expression", expression="distance")), [(0.0, 0.0)] * 50)
    plan.execute(1e-9)
    plan.publish()
    assert not plan.done
    plan.drop()
    plan.execute(1.0)
    plan.publish()
    assert plan.done and len(plan.answers) == 1
