"""The service is killed amid groups of writes to each resource over HTTP: what it answered is there, and there once."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.talk import Json, Talk
from tests.system.http.wire import Wire

HAMMERS, LIVES, EACH = 8, 3, 40
"""Connections that write, kills, and answers that each of them has before one."""


class Kind(NamedTuple):
    """Writes to a resource of this `config`: the one with a `value` of connection `n` is `write(n, value)`, and
    `there(talk, n)` is the last value of it that is there.
    """

    resource: str
    config: Json
    write: Callable[[int, int], tuple[str, str, Json]]
    there: Callable[[Talk, int], int]
    making: tuple[tuple[str, Json], ...] = ()


def shown(path: str, field: Callable[[Any], int]) -> Callable[[Talk, int], int]:
    """The value of a thing with a number, 0 where it is not there."""

    def there(talk: Talk, n: int) -> int:
        answer = talk.ask("GET", f"/v1/{path}{n}")
        return field(answer.json()) if answer.status_code == 200 else 0

    return there


def posted(talk: Talk, n: int) -> int:
    """How many posts of a connection are there, of which none is missing."""
    found = sorted(int(id.partition("-")[2]) for id in ids(talk, "/v1/feeds/f/posts") if id.startswith(f"p{n}-"))
    assert found == list(range(1, len(found) + 1))
    return len(found)


def ids(talk: Talk, path: str) -> list[str]:
    return [item["id"] for item in talk.pages(path, 1000)]


MAP: Json = {"attributes": {"price": "low"}, "bounds": [0, 0, 9_999, 9_999]}
QUERIES = [{"id": f"q{n}", "kind": "skyline", "location": [0, n]} for n in range(HAMMERS)]

KINDS = {
    "board": Kind(
        "boards/b",
        {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]},
        lambda n, value: ("PUT", f"objects/o{n}", {"values": {"x": n, "y": value}}),
        shown("boards/b/objects/o", lambda one: int(one["values"]["y"])),
        (
            (
                "subscriptions",
                {"subscriptions": [{"id": f"s{n}", "range": {"x": [n, n + 3]}, "k": 1} for n in range(9)]},
            ),
        ),
    ),
    "board, subscriptions": Kind(
        "boards/b",
        {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]},
        lambda n, value: ("PUT", f"subscriptions/s{n}", {"range": {"x": [0, value]}, "k": 1}),
        shown("boards/b/subscriptions/s", lambda one: int(one["range"]["x"][1])),
    ),
    "matcher": Kind(
        "matchers/m",
        {"dimensions": ["age"], "mode": "relaxed"},
        lambda n, value: ("PUT", f"subscriptions/s{n}", {"intervals": {"age": [n, 99]}, "weights": {"age": value}}),
        shown("matchers/m/subscriptions/s", lambda one: int(one["weights"]["age"])),
    ),
    "relay": Kind(
        "relays/r",
        {"attributes": ["price"]},
        lambda n, value: ("PUT", f"subscriptions/s{n}", {"box": {"price": [-n, value]}}),
        shown("relays/r/subscriptions/s", lambda one: int(one["box"]["price"][1])),
    ),
    "map": Kind(
        "maps/m",
        MAP,
        lambda n, value: ("PUT", f"objects/o{n}", {"location": [n, value], "values": {"price": value}}),
        shown("maps/m/objects/o", lambda one: int(one["values"]["price"])),
    ),
    "moves": Kind(
        "maps/m",
        MAP,
        lambda n, value: ("PATCH", f"queries/q{n}", {"location": [value, n]}),
        shown("maps/m/queries/q", lambda one: int(one["location"][0])),
        (("queries", {"queries": QUERIES}),),
    ),
    "feed": Kind(
        "feeds/f",
        {"window": 10_000, "bounds": [0, 0, 99, 99]},
        lambda n, value: ("POST", "posts", {"posts": [{"id": f"p{n}-{value}", "keywords": ["a"], "location": [n, 1]}]}),
        posted,
        (("subscriptions", {"subscriptions": [{"id": "s", "keywords": ["a"], "location": [1, 1], "k": 3}]}),),
    ),
}


class Hammer(threading.Thread):
    """Writes one value after the other from a connection of its own until that breaks, each under a key.

    `sent` is the last request, `value` what it sets, `answered` the last one that was answered.
    """

    def __init__(self, service: LiveService, kind: Kind, life: int, n: int, begin: int) -> None:
        super().__init__(daemon=True)
        self.n, self.value, self.answered, self.count, self.sent = n, begin, begin, 0, b""
        self.together = 0
        self._kind, self._life, self._wire = kind, life, Wire(service)

    def run(self) -> None:
        with suppress(OSError, AssertionError):
            while True:
                self.value += 1
                method, path, body = self._kind.write(self.n, self.value)
                content = json.dumps(body).encode()
                head = (
                    f"{method} /v1/{self._kind.resource}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
                    f"Idempotency-Key: {self._life}-{self.n}-{self.value}\r\n\r\n"
                )
                self.sent = head.encode() + content
                self._wire.send(self.sent)
                got = self._wire.receive()
                assert got.status in (200, 201), got
                self.together += got.together
                self.answered = self.value
                self.count += 1


@pytest.mark.parametrize("name", KINDS)
def test_what_was_answered_survives_a_kill_amid_groups(start_service: StartService, name: str) -> None:
    kind = KINDS[name]
    service, path = start_service(), f"/v1/{kind.resource}"
    talk = Talk(service.url)
    talk.good("PUT", path, kind.config)
    for part, body in kind.making:
        talk.good("POST", f"{path}/{part}", body)
    last = [0] * HAMMERS
    before = talk.good("GET", path)["seq"]
    for life in range(LIVES):
        hammers = [Hammer(service, kind, life, n, last[n]) for n in range(HAMMERS)]
        for one in hammers:
            one.start()
        wait_until(lambda hammers=hammers: all(one.count >= EACH for one in hammers))
        service.stop(signal.SIGKILL)
        for one in hammers:
            one.join(PATIENCE)
            assert one.together == one.count, "all of them go through groups"
        service = start_service(service.data)
        talk, wire = Talk(service.url), Wire(service)
        there = [kind.there(talk, n) for n in range(HAMMERS)]
        seq = talk.good("GET", path)["seq"]
        assert seq == before + sum(there), "each that is there has one seq, and nothing else has"
        for one in hammers:
            assert one.answered <= there[one.n] <= one.value, (one.n, one.answered, there[one.n])
            wire.send(one.sent)
            got = wire.receive()
            assert got.status in (200, 201), got
            if there[one.n] == one.value:
                assert got.body["replayed"] and got.body["seq"] <= seq
            else:
                seq += 1
                assert got.body["seq"] == seq and "replayed" not in got.body
            last[one.n] = one.value
            assert kind.there(talk, one.n) == one.value
        assert talk.good("GET", path)["seq"] == seq
        talk.close()
        wire.close()
    assert service.stop() == 0
