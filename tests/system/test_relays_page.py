"""The examples of the page about relays, run in order and as they stand against a live service."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.conftest import LiveService, StartService
from tests.service.following import SseFollower
from tests.system.pages import RANKCAST, Page, bash, python

PAGE = Page("relays.md")


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


def test_the_examples_answer_what_the_page_says(service: LiveService) -> None:
    host = service.url.removeprefix("http://")
    path = "/v1/relays/market/subscriptions/bargain/stream"
    answers, stream = [], None
    for command in PAGE.commands():
        if "/stream" in command:
            assert command == f"curl -N localhost:8000{path}"
            stream = SseFollower(service.url, path)
            stream.first()
        else:
            said = bash(command.replace("localhost:8000", host).replace("curl", "curl -s", 1))
            answers.append([json.loads(line) for line in said.splitlines()])
    _, (made,), (notified,), (ended,), conversation = answers
    *shown, anew = (json.loads(block) for block in PAGE.blocks("json"))
    assert [made, notified, ended] == shown
    assert [line["seq"] for line in conversation] == [6, 7]
    assert stream is not None
    stream.wait(lambda: len(stream.said) > 1)
    stream.leave()
    for said in stream.said:
        data = re.escape(json.dumps(said.data))
        assert re.search(rf"event: {said.event}\s+data: {data}$", PAGE.text, re.M), (said.event, said.data)
    first, second = PAGE.blocks("python")
    assert python(first, service.url) == ["8 tiny", "9 tiny", "('any',)"]
    rebuild, shell = PAGE.blocks("sh")
    assert bash(here(rebuild), RANKCAST_URL=service.url).endswith("\nrelays/market: unsubscribe 1: bargain\n")
    job = httpx.get(f"{service.url}/v1/admin/jobs/j1").json()
    assert job["detail"]["rederived"] == anew
    assert python(second, service.url) == ["{'price': 5, 'volume': 500} {'lot': 8}"]
    told = json.loads(bash(here(shell.splitlines()[0]), RANKCAST_URL=service.url))
    assert told == {"subscriptions": ["bargain", "any"], "links": []}


def here(command: str) -> str:
    return command.replace(".venv/bin/rankcast", str(RANKCAST))
