"""The examples of the page about feeds, run in order and as they stand against a live service."""

from __future__ import annotations

import json

import pytest

from tests.conftest import LiveService, StartService
from tests.service.following import SseFollower
from tests.system.pages import RANKCAST, Page, bash, python

PAGE = Page("feeds.md")


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


def test_the_examples_answer_what_the_page_says(service: LiveService) -> None:
    host = service.url.removeprefix("http://")
    path = "/v1/feeds/city/subscriptions/lunch/stream"
    answers, stream = [], None
    for command in PAGE.commands():
        if command.endswith("/stream"):
            assert command == f"curl -N localhost:8000{path}"
            stream = SseFollower(service.url, path)
            stream.first()
        else:
            said = bash(command.replace("localhost:8000", host).replace("curl", "curl -s", 1))
            answers.append(json.loads(said))
    _, made, posted, shown, gone = answers
    assert made["subscriptions"][0]["list"] == []
    wanted, listed, changed = (json.loads(block) for block in PAGE.blocks("json"))
    assert (posted, shown) == (wanted, listed)
    assert gone == {"seq": changed["seq"]}
    assert stream is not None
    stream.wait(lambda: bool(stream.said) and stream.said[-1].data["seq"] == changed["seq"])
    stream.leave()
    # p1 only shifts up, and is not named.
    assert (stream.said[-1].event, stream.said[-1].data) == ("change", changed)
    assert stream.said[0].data["list"] == []
    (example,) = PAGE.blocks("python")
    assert python(example, service.url) == ["['p4', 'p1']"]


def test_the_commands_run(service: LiveService) -> None:
    (shell,) = PAGE.blocks("sh")
    said = bash(shell.replace(".venv/bin/rankcast", str(RANKCAST)), RANKCAST_URL=service.url)
    info, rest = said.split("}\n", 1)
    assert json.loads(info + "}")["window"] == 1000
    subscribed, *lines = rest.splitlines()
    first, second, top, watched = map(json.loads, lines)
    assert (subscribed, first, second) == ("mine", {"id": "a", "reached": 1}, {"id": "b", "reached": 0})
    assert (top["rank"], top["id"], top["keywords"]) == (1, "a", ["ramen", "go"])
    assert watched["event"] == "snapshot"
    assert [one["id"] for one in watched["list"]] == ["b", "a"]
