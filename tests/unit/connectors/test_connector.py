"""The connector between a source and a service that a test holds in its hands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.connectors.batches import Limits
from app.connectors.connector import Connector, refused
from app.connectors.counters import connecting
from app.connectors.dead_letters import DeadFile
from app.connectors.destinations import parse_destination
from app.connectors.errors import BrokerLost, ConnectorError
from app.connectors.mapping.reading import Reader
from app.connectors.messages import Chunk, Message, Span
from app.connectors.service import Service
from app.connectors.sources.base import Source


class Held:
    """A source of messages that keeps a place like a broker does; `fails` are calls that lose it."""

    exact = True
    identity = "held"
    drop: Callable[[Iterable[str]], None]

    def __init__(self, messages: Sequence[bytes], fails: Iterable[str] = ()) -> None:
        self.messages = [Message(str(number), data) for number, data in enumerate(messages)]
        self.fails = list(fails)
        self.place: Span | None = None
        self.finished = -1
        self.dead: list[Any] = []
        self.opened = 0

    def _may(self, what: str) -> None:
        if what in self.fails:
            self.fails.remove(what)
            raise BrokerLost(what)

    async def open(self) -> None:
        self.opened += 1
        self._may("open")
        self._next = self.finished + 1
        self._again = self.place

    async def read(self, most: int) -> Chunk | None:
        self._may("read")
        if self._again is not None:
            span, self._again = self._again, None
            self._next = int(span.last) + 1
            return Chunk("", self.messages[int(span.first) : self._next], span)
        found = self.messages[self._next : self._next + most]
        self._next += len(found)
        await asyncio.sleep(0)
        return Chunk("", found) if found else None

    async def begin(self, span: Span) -> bool:
        self._may("begin")
        self.place = span
        return True

    async def done(self, span: Span, messages: Sequence[Message], dead: Sequence[bytes], more: bool) -> bool:
        self._may("done")
        self.dead += map(json.loads, dead)
        self.place, self.finished = None, int(span.last)
        return True

    async def close(self) -> None:
        pass


class Answers:
    """A service that applies each request once a key. `says` are statuses before it answers."""

    def __init__(self, *says: int) -> None:
        self.says = list(says)
        self.seen: dict[str, Any] = {}
        self.bodies: list[Any] = []
        self.asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.says:
            status = self.says.pop(0)
            if status == 0:
                raise httpx.ConnectError("away")
            return httpx.Response(
                status, json={"title": "Refused", "type": "/problems/x"}, headers={"retry-after": "0"}
            )
        body = json.loads(request.content)
        if any(event.get("id") == "poison" for event in body["events"]):
            return httpx.Response(400, json={"title": "Not JSON", "type": "/problems/not-json"})
        key = request.headers.get("idempotency-key", str(self.asked))
        if key in self.seen:
            assert self.seen[key] == body, "another request under the same key"
            return httpx.Response(200, json={**self._answer(body), "replayed": True})
        self.seen[key] = body
        self.bodies.append(body)
        return httpx.Response(200, json=self._answer(body))

    @staticmethod
    def _answer(body: Any) -> dict[str, Any]:
        bad = [i for i, event in enumerate(body["events"]) if event["id"] == "bad"]
        errors = [{"index": i, "field": f"events[{i}].values.y", "reason": "must be a number"} for i in bad]
        shown = {"errors": errors, "error_count": len(errors)} if errors else {}
        return {"seq": 1, "applied": len(body["events"]) - len(bad), **shown}

    @property
    def applied(self) -> list[str]:
        return [event["id"] for body in self.bodies for event in body["events"]]


def event(id: str) -> bytes:
    return json.dumps({"op": "delete", "id": id}).encode()


def carry(
    source: Source, service: Answers, monkeypatch: pytest.MonkeyPatch, batch: int = 2, dead: Path | None = None
) -> dict[str, int]:
    """Carry all that a source has."""
    monkeypatch.setattr("app.connectors.running.pause", lambda failures: 0.0)
    monkeypatch.setattr("app.connectors.service.pause", lambda failures, asked: 0.0)

    async def run() -> dict[str, int]:
        to = Service("http://service", None, lambda why: None)
        to._http = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(service))
        file = None if dead is None else DeadFile(dead)
        destination = parse_destination("boards/b")
        counters = connecting()
        made = Connector(
            source, "held", "n", to, destination, Reader(), Limits(batch), counters, lambda text: None, file, once=True
        )
        async with asyncio.timeout(60):
            await made.run(asyncio.Event())
        await to.close()
        return counters.counts

    return asyncio.run(run())


IDS = [str(number) for number in range(7)]


@pytest.mark.parametrize(
    "fails",
    [
        [],
        ["open", "open"],
        ["read", "read"],
        ["begin", "begin"],
        ["done"],
        ["done", "done", "begin", "read", "open"],
    ],
)
def test_each_event_once_whenever_the_broker_is_lost(fails: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    service, source = Answers(), Held([event(id) for id in IDS], fails)
    counts = carry(source, service, monkeypatch)
    assert service.applied == IDS
    assert (counts["messages"], counts["lost"], counts["replayed"] >= fails.count("done")) == (7, len(fails), True)
    assert source.opened == 1 + len(fails)


def test_it_waits_for_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Answers(0, 503, 429, 500, 0)
    counts = carry(Held([event(id) for id in IDS]), service, monkeypatch)
    assert service.applied == IDS and counts["batches"] == 4 and service.asked == 9


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_refusal_ends_it_and_nothing_is_done(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Held([event("a")])
    with pytest.raises(ConnectorError, match=f"the service refuses: {status} Refused"):
        carry(source, Answers(status), monkeypatch)
    assert source.finished == -1 and source.place is not None


def test_refused_events_are_dead_letters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    messages = [event("a"), b"{", b'[{"op": "delete", "id": "b"}, {"op": "delete", "id": "bad"}, 3]', event("c")]
    source, file = Held(messages), tmp_path / "dead"
    counts = carry(source, Answers(), monkeypatch, batch=10)
    expected = [("1", None, ""), ("2", 2, ""), ("2", 1, "values.y")]
    assert [(one["position"], one["index"], one["errors"][0]["field"]) for one in source.dead] == expected
    assert source.dead[2]["event"] == {"op": "delete", "id": "bad"} and source.dead[0]["data"] == "{"
    assert (counts["messages"], counts["applied"], counts["refused"]) == (4, 3, 3)
    again = Held(messages)
    carry(again, Answers(), monkeypatch, batch=10, dead=file)
    assert again.dead == [] and list(map(json.loads, file.read_text().splitlines())) == source.dead


def test_what_spoils_a_request_is_found_among_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [*IDS, "poison", *IDS]
    service, source = Answers(), Held([event(id) for id in ids])
    counts = carry(source, service, monkeypatch, batch=100)
    assert service.applied == IDS + IDS
    assert [(one["position"], one["errors"]) for one in source.dead] == [
        ("7", [{"field": "", "reason": "400 Not JSON"}])
    ]
    assert counts["refused"] == 1


def test_what_the_service_does_not_list_is_said_to_be_unsure() -> None:
    reads = [Reader().read(Message(str(i), event(str(i)))) for i in range(4)]
    errors = [{"index": 1, "field": "events[1].id", "reason": "is wrong"}]
    letters = refused(reads, {"errors": errors, "error_count": 3, "applied": 1})
    assert [(one.position, one.certain) for one in letters] == [("1", True), ("2", False), ("3", False)]
    assert json.loads(letters[1].record("s", 1_000))["certain"] is False
    known = refused(reads, {"errors": errors, "error_count": 2, "results": [{"index": 0}, {"index": 3}]})
    assert [(one.position, one.certain) for one in known] == [("1", True), ("2", True)]
    with pytest.raises(ConnectorError):
        refused(reads, {"errors": [{"index": 4, "field": "", "reason": ""}]})


def test_a_letter_that_is_too_large_is_cut() -> None:
    (letter,) = Reader(most_bytes=10).read(Message("1", b"x" * 5_000)).refused
    record = json.loads(letter.record("s", 2_000))
    assert record["cut"] and record["data"] == "x" * 1_000
