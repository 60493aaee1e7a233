"""A relay under load is killed at random moments: what was answered is there exactly once, and every answer, decisions
and deliveries and all, is what the model says at its seq."""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx
import pytest

from tests.conftest import StartService
from tests.oracles.relay_http import RelayModel, least
from tests.patience import PATIENCE
from tests.service.talk import NDJSON, Json, Talk, ndjson, strict

PATH = "/v1/relays/market"
NAMES = ["price", "volume"]
WRITERS, ROUNDS, MOST_ROUNDS = 4, 3, 40


@dataclass
class Write:
    """One request with a key of its own, and its answer once there is one: lines of a conversation are a list."""

    key: str
    method: str
    path: str
    body: Any
    kind: str = "application/json"
    answer: Any = None

    def send(self, http: httpx.Client) -> None:
        headers = {"Content-Type": self.kind, "Idempotency-Key": self.key}
        content = ndjson(self.body) if self.kind == NDJSON else json.dumps(self.body).encode()
        try:
            answer = http.request(self.method, PATH + self.path, content=content, headers=headers)
        except httpx.TransportError:
            return
        if answer.status_code not in (200, 201):
            assert answer.status_code in (409, 503), answer.text[:500]
            return
        if self.path != "/commands":
            self.answer = answer.json()
            return
        lines = [strict(line) for line in answer.content.splitlines()]
        if len(lines) == len(self.body):
            self.answer = lines
        else:
            assert "problem" in lines[-1] and lines[-1]["problem"]["status"] in (409, 503), lines[-1]

    @property
    def seq(self) -> int:
        found: int = (self.answer[-1] if isinstance(self.answer, list) else self.answer)["seq"]
        return found

    @property
    def replayed(self) -> bool:
        answers = self.answer if isinstance(self.answer, list) else [self.answer]
        return any(answer.get("replayed") for answer in answers)


class Writer(threading.Thread):
    """Writes about subscriptions of its own, one request after the other, each until it is answered."""

    def __init__(self, number: int, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.writes: list[Write] = []
        self.go = threading.Event()
        self.go.set()
        self.done = False
        self.failure: BaseException | None = None
        self._number = number
        self._draw = Random(number)
        self._ids: list[str] = []
        self._made = 0

    def run(self) -> None:
        try:
            with httpx.Client(timeout=PATIENCE) as http:
                while not self.done:
                    write = self._next()
                    self.writes.append(write)
                    while write.answer is None:
                        self.go.wait()
                        http.base_url = httpx.URL(self.url)
                        write.send(http)
                        if write.answer is None:
                            time.sleep(0.02)
        except BaseException as error:
            self.failure = error
            raise

    def _new(self) -> Json:
        self._made += 1
        id = f"w{self._number}-{self._made}"
        self._ids.append(id)
        return {"id": id, "box": self._box()}

    def _box(self) -> Json:
        return {name: sorted(self._draw.sample(range(60), 2)) for name in NAMES}

    def _next(self) -> Write:
        draw, n = self._draw, len(self.writes)
        key = f"w{self._number}-{n}"
        kinds = ["post", "put", "delete", "commands", "commands", "notify"]
        kind = "post" if len(self._ids) < 20 else draw.choice(kinds)
        if kind == "post":
            made = [self._new() for _ in range(200 if n == 0 else draw.randrange(1, 5))]
            return Write(key, "POST", "/subscriptions", {"subscriptions": made})
        if kind == "put":
            return Write(key, "PUT", f"/subscriptions/{draw.choice(self._ids)}", {"box": self._box()})
        if kind == "delete":
            gone = [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]
            return Write(key, "POST", "/subscriptions/delete", {"ids": gone})
        if kind == "notify":
            events = [{"values": {name: draw.randrange(60) for name in NAMES}} for _ in range(draw.randrange(1, 4))]
            return Write(key, "POST", "/notifications", {"notifications": events})
        lines: list[Json] = []
        for _ in range(draw.randrange(2, 12)):
            if draw.random() < 0.5:
                lines.append({"op": "unsubscribe", "id": self._ids.pop(draw.randrange(len(self._ids)))})
            else:
                lines.append({"op": "subscribe", **self._new()})
        return Write(key, "POST", "/commands", lines, NDJSON)


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    draw = Random(7)
    service = start_service()
    httpx.put(service.url + PATH, json={"attributes": NAMES})
    writers = [Writer(number, service.url) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    rounds = 0
    while rounds < ROUNDS or not any(write.answer and write.replayed for one in writers for write in one.writes[:-1]):
        rounds += 1
        assert rounds <= MOST_ROUNDS, "no answer was in doubt"
        before = sum(len(writer.writes) for writer in writers)
        while sum(len(writer.writes) for writer in writers) < before + draw.randrange(20, 60):
            assert all(writer.failure is None for writer in writers)
            time.sleep(0.002)
        time.sleep(draw.random() * 0.05)
        service.stop(signal.SIGKILL)
        for writer in writers:
            writer.go.clear()
        service = start_service(service.data)
        for writer in writers:
            writer.url = service.url
            writer.go.set()
    for writer in writers:
        writer.done = True
    for writer in writers:
        writer.join(PATIENCE)
        assert not writer.is_alive() and writer.failure is None
    model = RelayModel(NAMES)
    for write in sorted((write for writer in writers for write in writer.writes), key=lambda write: write.seq):
        follow(model, write)
    talk = Talk(service.url)
    shown = talk.good("GET", PATH)
    assert (shown["seq"], shown["forwarded"]) == (model.seq, model.forwarded)
    assert talk.pages(f"{PATH}/subscriptions", 1000) == [model.shown(id) for id in sorted(model.boxes)]
    ended_well(talk, talk.ask("POST", "/v1/admin/verify", {"resources": ["relays/market"]}).json()["job"])
    talk.close()


@pytest.mark.timeout(900)
def test_what_a_rebuild_decided_stands_after_a_kill(start_service: StartService) -> None:
    """Killed while it runs, all of it has been decided or nothing; killed behind it, all."""
    draw, model = Random(11), RelayModel(NAMES)
    service = start_service()
    httpx.put(service.url + PATH, json={"attributes": NAMES})
    for number in range(4):
        talk = Talk(service.url)
        made = [
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
        job = talk.ask("POST", "/v1/admin/rebuilds", {"resources": ["relays/market"]}).json()["job"]
        if number < 3:
            time.sleep(draw.random() * 0.1)
        else:
            told = ended_well(talk, job)["rederived"]["relays/market"]
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
    assert ended_well(talk, talk.ask("POST", "/v1/admin/verify", {}).json()["job"])["differences"] == []
    talk.close()


def ended_well(talk: Talk, job: str) -> Json:
    """The detail of a job once it has ended."""
    while (state := talk.good("GET", f"/v1/admin/jobs/{job}"))["state"] in ("queued", "running"):
        time.sleep(0.02)
    assert state["state"] == "succeeded", state
    detail: Json = state["detail"]
    return detail


def follow(model: RelayModel, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer, body = write.answer, write.body
    if write.path == "/commands":
        for line, one in zip(body, answer, strict=True):
            told = model.subscribe(line["id"], line["box"]) if line["op"] == "subscribe" else ended(model, line["id"])
            assert one["seq"] == model.seq, f"{write.key} is there twice, or not at all"
            assert model.agrees(without(one, "seq", "replayed"), told), (write.key, one, told)
        return
    if write.path == "/subscriptions":
        expected = [model.subscribe(one["id"], one["box"]) for one in body["subscriptions"]]
        pairs = zip(answer["results"], expected, strict=True)
        assert all(model.agrees(one, told) for one, told in pairs), write.key
    elif write.path == "/subscriptions/delete":
        assert answer["results"] == [ended(model, id) for id in body["ids"]], write.key
    elif write.path == "/notifications":
        assert answer["results"] == [model.notify(event["values"]) for event in body["notifications"]], write.key
    else:
        id = write.path.rpartition("/")[2]
        told = model.put(id, body["box"]) or {}
        shown = model.shown(id)
        assert {key: answer[key] for key in shown} == shown, write.key
        assert model.agrees(without(answer, "seq", "replayed", *shown), told), (write.key, answer, told)
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"


def ended(model: RelayModel, id: str) -> Json:
    return {"id": id, **without(model.unsubscribe(id), "id")}


def without(answer: Json, *fields: str) -> Json:
    return {key: value for key, value in answer.items() if key not in fields}
