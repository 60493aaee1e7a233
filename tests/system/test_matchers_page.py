"""The examples of the page about matchers, run in order and as they stand against a live service."""

from __future__ import annotations

import json
import re

import pytest

from tests.conftest import LiveService, StartService
from tests.service.following import SseFollower
from tests.system.pages import RANKCAST, Page, bash, python

PAGE = Page("matchers.md")


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


def test_the_examples_answer_what_the_page_says(service: LiveService) -> None:
    host = service.url.removeprefix("http://")
    path = "/v1/matchers/ads/subscriptions/mortgage/stream"
    answers, stream = [], None
    for command in PAGE.commands():
        if "/stream" in command:
            assert command == f"curl -N localhost:8000{path}"
            stream = SseFollower(service.url, path)
            stream.first()
        else:
            answers.append(json.loads(bash(command.replace("localhost:8000", host).replace("curl", "curl -s", 1))))
    _, _, first, notified, patched, explained = answers
    assert first == json.loads(PAGE.blocks("json")[0])
    assert (notified["seq"], patched["seq"]) == (4, 5)
    assert explained["results"][0]["winners"] == [{"id": "anyone", "score": 2, "matched": {"age": 2}}]
    assert stream is not None
    stream.wait(lambda: len(stream.said) > 1)
    stream.leave()
    told = [(said.event, said.data) for said in stream.said]
    for event, data in told:
        assert re.search(rf"event: {event}\s+data: {re.escape(json.dumps(data))}$", PAGE.text, re.M), (event, data)
    printed = ["bike 3", "anyone 2", "scooter 1"], ["2 1.25 {'age': 40, 'credit': 720} None"]
    examples = zip(PAGE.blocks("python"), printed, strict=True)
    for example, said in examples:
        assert python(example, service.url) == said
    piped = PAGE.blocks("sh")[0].splitlines()[0].replace(".venv/bin/rankcast", str(RANKCAST))
    line = json.loads(bash(piped, RANKCAST_URL=service.url))
    assert [won["id"] for won in line["winners"]] == ["bike", "anyone", "scooter"]
