"""The examples of the page about maps, run in order and as they stand against a live service."""

from __future__ import annotations

import json

import pytest

from tests.conftest import LiveService, StartService
from tests.service.following import SseFollower
from tests.system.pages import Page, bash

PAGE = Page("maps.md")


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


def test_the_examples_answer_what_the_page_says(service: LiveService) -> None:
    host = service.url.removeprefix("http://")
    path = "/v1/maps/food/queries/ada/stream"
    answers, stream = [], None
    for command in PAGE.commands():
        if "/stream" in command:
            assert command == f"curl -N localhost:8000{path}"
            stream = SseFollower(service.url, path)
            stream.first()
        else:
            answers.append(json.loads(bash(command.replace("localhost:8000", host).replace("curl", "curl -s", 1))))
    _, _, top, skyline, made, inside, _, moved = answers
    said = json.loads(PAGE.blocks("json")[0])
    assert top["zone"]["radius"] == pytest.approx(said["zone"].pop("radius"), rel=0.01)
    assert {**top, "zone": {"center": top["zone"]["center"]}} == said
    assert [entry["id"] for entry in skyline["skyline"]] == ["trattoria", "kiosk", "bistro"]
    assert (made["seq"], made["list"], made["zone"]) == (5, top["list"], top["zone"])
    assert inside == {"seq": 6, "inside": True}
    assert json.dumps(inside) in PAGE.text
    assert (moved["seq"], moved["inside"]) == (8, False)
    assert stream is not None
    stream.wait(lambda: len(stream.said) > 2)
    stream.leave()
    snapshot, cheaper, away = stream.said
    assert [one.event for one in stream.said] == ["snapshot", "result", "result"]
    assert snapshot.data["list"] == made["list"]
    assert [one.data["seq"] for one in stream.said] == [5, 7, 8]
    assert cheaper.data["list"][0]["id"] == "trattoria"
    assert away.data["list"] == moved["list"]
