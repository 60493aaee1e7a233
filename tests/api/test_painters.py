"""How many painters a service has, and that its answers do not show it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.runtime import priority
from app.settings import Settings
from indexes.boards import team
from indexes.core import helper_threads
from tests.support.app_client import AppClient

URL = "http://127.0.0.1"


def answers(data: Path, painters: int) -> list[Any]:
    """What a service with so many painters answers to large batches."""
    chance = random.Random(4)
    found = []
    with AppClient(create_app(Settings(data=data, batch_threads=painters)), base_url=URL) as client:
        assert len(helper_threads.threads()) == painters - 1
        config = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]}
        client.put("/v1/boards/b", json=config).raise_for_status()
        ranges = [sorted((chance.random(), chance.random())) for _ in range(200)]
        subscriptions = [{"id": f"s{i}", "k": 3, "range": {"x": ends}} for i, ends in enumerate(ranges)]
        client.post("/v1/boards/b/subscriptions", json={"subscriptions": subscriptions}).raise_for_status()
        for _ in range(4):
            values = [{"x": chance.random(), "y": chance.random()} for _ in range(500)]
            events = [{"op": "upsert", "id": f"o{i % 150}", "values": one} for i, one in enumerate(values)]
            answer = client.post("/v1/boards/b/events", json={"events": events, "messages": "full"})
            found.append(answer.raise_for_status().json())
        found.append([client.get(f"/v1/boards/b/subscriptions/s{i}/list").json() for i in range(20)])
    return found


def test_answers_are_the_same_with_any_number_of_painters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = list[int]()
    run_together = team.PainterTeam.run_together

    def noted(*args: Any) -> tuple[int, int]:
        together.append(len(args[1]))
        return run_together(*args)

    for name, value in (("WORTH", 0.0), ("COPY", 0.0), ("PAYS", float("inf"))):
        monkeypatch.setattr(team, name, value)
    monkeypatch.setattr(team.PainterTeam, "run_together", noted)
    one, two, three = (answers(tmp_path / str(painters), painters) for painters in (1, 2, 3))
    assert one == two == three
    assert set(together) == {1, 2}


@pytest.mark.parametrize(("processors", "helpers"), [(1, 0), (2, 1), (64, 1)])
def test_there_are_two_painters_where_there_are_two_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, helpers: int
) -> None:
    monkeypatch.setattr("app.service.processors", lambda: processors)
    with AppClient(create_app(Settings(data=tmp_path)), base_url=URL):
        assert len(helper_threads.threads()) == helpers
    assert priority.processors() >= 1
