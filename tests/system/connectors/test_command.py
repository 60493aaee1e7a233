"""The commands: every resource, ends, metrics, and what they say when they cannot go on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import httpx
import pytest

from tests.support.brokers import server
from tests.support.live import RANKCAST, LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port
from tests.system.connectors.carrying import StartConnector
from tests.system.connectors.feeds import RedisFeed


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


@pytest.fixture
def feed() -> Iterator[RedisFeed]:
    made = RedisFeed(server("redis"), f"T{token_hex(6)}")
    yield made
    made.remove()


@pytest.mark.parametrize(
    ("resource", "config", "message", "then"),
    [
        (
            "maps",
            {"attributes": {"price": "low"}, "bounds": [0, 0, 10, 10]},
            {"id": "r1", "location": [1, 2], "values": {"price": 3}},
            ("objects/r1", {"location": [1, 2], "values": {"price": 3}}),
        ),
        (
            "feeds",
            {"window": 10, "bounds": [0, 0, 10, 10]},
            {"id": "p1", "text": "ramen tonight", "location": [1, 2]},
            ("posts/p1", {"location": [1, 2]}),
        ),
        ("matchers", {"dimensions": ["age"], "mode": "relaxed"}, {"values": {"age": 3}}, ("", {"seq": 1})),
        ("relays", {"attributes": ["price"]}, {"values": {"price": 3}}, ("", {"seq": 1})),
    ],
)
def test_each_resource_takes_what_is_its_own(
    service: LiveService,
    feed: RedisFeed,
    start_connector: StartConnector,
    resource: str,
    config: Any,
    message: Any,
    then: Any,
) -> None:
    path = f"{service.url}/v1/{resource}/c"
    assert httpx.put(path, json=config).status_code == 201
    feed.publish([json.dumps(message).encode(), json.dumps([{**message, "values": 7}]).encode()])
    connector = start_connector("connect", feed.source, "--to", f"{resource}/c", "--url", service.url, "--once")
    counts = connector.wait()
    assert (counts["messages"], counts["applied"], counts["refused"]) == (2, 1, 1)
    found = httpx.get(f"{path}/{then[0]}".rstrip("/")).json()
    assert {name: found[name] for name in then[1]} == then[1]
    (letter,) = feed.dead()
    assert letter["index"] == 0 and letter["errors"][0]["field"] == "values"


def test_it_ends_while_the_service_is_away_and_says_so_to_prometheus(
    feed: RedisFeed, start_connector: StartConnector
) -> None:
    feed.publish([b'{"op": "delete", "id": "a"}'])
    nobody, metrics = free_port(), free_port()
    given = ("--to", "boards/b", "--url", f"http://127.0.0.1:{nobody}", "--metrics-port", str(metrics))
    connector = start_connector("connect", feed.source, *given)
    wait_until(lambda: connector.alive() and "the service is away" in connector.said)
    told = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
    assert re.search(r"^rankcast_connect_service_up 0\.0$", told, re.M)
    assert re.search(r"^rankcast_connect_messages_total 0\.0$", told, re.M)
    connector.process.send_signal(signal.SIGINT)
    assert connector.wait()["messages"] == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["connect", "{nats}/none", "--to", "boards/b"], "there is no such stream"),
        (["connect", "{amqp}/none", "--to", "boards/b"], "refuses: .*no queue 'none'"),
        (["connect", "{redis}/{name}", "--to", "boards/none", "--once"], "the service refuses: 404"),
        (["connect", "{redis}/{name}", "--to", "shops/b"], "'shops/b' is none of boards/NAME"),
        (["connect", "amqp://h/q", "--to", "boards/b", "--from", "new"], "has no positions"),
        (["connect", "mqtt://h/a/%23", "--to", "boards/b"], "many topics: name a file"),
        (
            ["publish", "boards/b", "--ids", "none", "--to", "{redis}/{name}"],
            "the service refuses: boards/b, none: 404",
        ),
        (["publish", "boards/b", "--ids", "a", "--to", "kafka://h/t"], "name a file for them by --state"),
        (["publish", "boards/b", "--ids", ",", "--to", "{redis}/{name}"], "name 1 to 10000 subscriptions"),
    ],
)
def test_what_cannot_be_is_said(service: LiveService, feed: RedisFeed, arguments: list[str], told: str) -> None:
    feed.publish([b'{"op": "delete", "id": "a"}'])
    httpx.put(f"{service.url}/v1/boards/b", json={"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    servers = {one: server(one) for one in ("nats", "redis", "amqp") if f"{{{one}}}" in " ".join(arguments)}
    command = [one.format(**servers, name=feed.source.rpartition("/")[2]) for one in arguments]
    done = subprocess.run(
        [RANKCAST, *command, "--url", service.url], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert re.search(f"rankcast: .*{told}", done.stderr), done.stderr
