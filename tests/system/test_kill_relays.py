"""A relay under load is killed at random moments.

What was answered is there exactly once, and every answer, decisions and deliveries and all, is what the model says at
its seq.
"""

from __future__ import annotations

import signal
import time
from random import Random
from typing import Any

import httpx
import pytest

from tests.oracles.relay_http import RelayModel, least
from tests.support.live import StartService
from tests.system.faults import begin, done, ended
from tests.system.http.talk import NDJSON, Json, Talk, strict
from tests.system.killing import Write, Writer, killed

PATH = "/v1/relays/market"
NAMES = ["price", "volume"]
WRITERS = 4


class Said(Write):
    """Lines of a conversation are answered line by line."""

    @property
    def seq(self) -> int:
        found: int = self._answers[-1]["seq"]
        return found

    @property
    def in_doubt(self) -> bool:
        return any(answer.get("replayed") for answer in self._answers)

    @property
    def _answers(self) -> list[Json]:
        return self.answer if isinstance(self.answer, list) else [self.answer] if self.answer else []

    def take(self, answer: httpx.Response) -> None:
        if self.path != "/commands":
            super().take(answer)
            return
        lines = [strict(line) for line in answer.content.splitlines()]
        if len(lines) == len(self.body):
            self.answer = lines
        else:
            assert "problem" in lines[-1] and lines[-1]["problem"]["status"] in (409, 503), lines[-1]


class Subscriber(Writer):
    """Writes about subscriptions of its own, one request after the other, each until it is answered."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._ids: list[str] = []
        self._made = 0

    def _new(self) -> Json:
        self._made += 1
        id = f"w{self.number}-{self._made}"
        self._ids.append(id)
        return {"id": id, "box": self._box()}

    def _box(self) -> Json:
        return {name: sorted(self.draw.sample(range(60), 2)) for name in NAMES}

    def next(self, key: str) -> Write:
        draw, n = self.draw, self.made
        kinds = ["post", "put", "delete", "commands", "commands", "notify"]
        kind = "post" if len(self._ids) < 20 else draw.choice(kinds)
        if kind == "post":
            made = [self._new() for _ in range(200 if n == 0 else draw.randrange(1, 5))]
            return Said(key, "POST", "/subscriptions", {"subscriptions": made})
        if kind == "put":
            return Said(key, "PUT", f"/subscriptions/{draw.choice(self._ids)}", {"box": self._box()})
        if kind == "delete":
            gone = [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]
            return Said(key, "POST", "/subscriptions/delete", {"ids": gone})
        if kind == "notify":
            events = [{"values": {name: draw.randrange(60) for name in NAMES}} for _ in range(draw.randrange(1, 4))]
            return Said(key, "POST", "/notifications", {"notifications": events})
        lines: list[Json] = []
        for _ in range(draw.randrange(2, 12)):
            if draw.random() < 0.5:
                lines.append({"op": "unsubscribe", "id": self._ids.pop(draw.randrange(len(self._ids)))})
            else:
                lines.append({"op": "subscribe", **self._new()})
        return Said(key, "POST", "/commands", lines, NDJSON)


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    writers = [Subscriber(number) for number in range(WRITERS)]
    service, writes = killed(start_service, PATH, {"attributes": NAMES}, writers, Random(7))
    model = RelayModel(NAMES)
    for write in writes:
        follow(model, write)
    talk = Talk(service.url)
    shown = talk.good("GET", PATH)
    assert (shown["seq"], shown["forwarded"]) == (model.seq, model.forwarded)
    assert talk.pages(f"{PATH}/subscriptions", 1000) == [model.shown(id) for id in sorted(model.boxes)]
    assert done(talk, "verify", resources=["relays/market"])["differences"] == []
    talk.close()


@pytest.mark.timeout(900)
def test_what_a_rebuild_decided_stands_after_a_kill(start_service: StartService) -> None:
    """Killed while it runs, all of it has been decided or nothing; killed behind it, all."""
    draw, model = Random(11), RelayModel(NAMES)
    service = start_service()
    httpx.put(service.url + PATH, json={"attributes": NAMES})
    for number in range(4):
        talk = Talk(service.url)
        made: list[Any] = [
            {"id": f"s{number}-{i}", "box": {name: sorted(draw.sample(range(60), 2)) for name in NAMES}}
            for i in range(300)
        ]
        talk.good("POST", f"{PATH}/subscriptions", {"subscriptions": made})
        for one in made:
            model.subscribe(one["id"], one["box"])
        (router,) = model.routers.values()
        smallest = least(model.boxes)
        either = {(model.seq, model.forwarded), (model.seq + 1, len(smallest))}
        assert model.forwarded > len(smallest)
        job = begin(talk, "rebuilds", resources=["relays/market"])
        if number < 3:
            time.sleep(draw.random() * 0.1)
        else:
            rebuilt = ended(talk, job)
            assert rebuilt["state"] == "succeeded", rebuilt
            told = rebuilt["detail"]["rederived"]["relays/market"]
            assert told["unsubscribe"] == [id for id in model.boxes if id in router.forwarded - smallest]
            either = {(told["seq"], len(smallest))}
            assert told["seq"] == model.seq + 1
        talk.close()
        service.stop(signal.SIGKILL)
        service = start_service(service.data)
        talk = Talk(service.url)
        shown = talk.good("GET", PATH)
        assert (shown["seq"], shown["forwarded"]) in either
        if shown["seq"] > model.seq:
            model.seq, router.forwarded = shown["seq"], set(smallest)
        talk.close()
    talk = Talk(service.url)
    for id in draw.sample(list(model.boxes), 60):
        told, wanted = talk.good("DELETE", f"{PATH}/subscriptions/{id}"), model.unsubscribe(id)
        assert told == {"seq": model.seq, **without(wanted, "id")}, id
    assert done(talk, "verify")["differences"] == []
    talk.close()


def follow(model: RelayModel, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer, body = write.answer, write.body
    if write.path == "/commands":
        for line, one in zip(body, answer, strict=True):
            told = (
                model.subscribe(line["id"], line["box"])
                if line["op"] == "subscribe"
                else unsubscribe(model, line["id"])
            )
            assert one["seq"] == model.seq, f"{write.key} is there twice, or not at all"
            assert model.agrees(without(one, "seq", "replayed"), told), (write.key, one, told)
        return
    if write.path == "/subscriptions":
        expected = [model.subscribe(one["id"], one["box"]) for one in body["subscriptions"]]
        pairs = zip(answer["results"], expected, strict=True)
        assert all(model.agrees(one, told) for one, told in pairs), write.key
    elif write.path == "/subscriptions/delete":
        assert answer["results"] == [unsubscribe(model, id) for id in body["ids"]], write.key
    elif write.path == "/notifications":
        assert answer["results"] == [model.notify(event["values"]) for event in body["notifications"]], write.key
    else:
        id = write.path.rpartition("/")[2]
        told = model.put(id, body["box"]) or {}
        shown = model.shown(id)
        assert {key: answer[key] for key in shown} == shown, write.key
        assert model.agrees(without(answer, "seq", "replayed", *shown), told), (write.key, answer, told)
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"


def unsubscribe(model: RelayModel, id: str) -> Json:
    return {"id": id, **without(model.unsubscribe(id), "id")}


def without(answer: Json, *fields: str) -> Json:
    return {key: value for key, value in answer.items() if key not in fields}
