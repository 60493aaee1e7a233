"""A matcher under load is killed at random moments: what was answered is there exactly once, and every answer, winners
and all, is what the model says at its seq."""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import dataclass, field
from random import Random

import httpx
import pytest

from tests.conftest import StartService
from tests.oracles.matcher_service import MatcherModel
from tests.patience import PATIENCE
from tests.service.talk import NDJSON, Json, Talk, ndjson

PATH = "/v1/matchers/ads"
NAMES = ["age", "credit"]
WRITERS = 4
ROUNDS, MOST_ROUNDS = 4, 40
"""Kills at the least, and at the most: there are more until one falls between a commit and its answer."""

FIRST = 3_000
"""Subscriptions of the first request, which is bulk."""


@dataclass
class Write:
    """One request with a key of its own, and its answer once there is one."""

    key: str
    method: str
    path: str
    content: bytes
    kind: str = "application/json"
    body: Json = field(default_factory=dict)
    answer: Json | None = None

    def send(self, http: httpx.Client) -> None:
        headers = {"Content-Type": self.kind, "Idempotency-Key": self.key}
        try:
            answer = http.request(self.method, PATH + self.path, content=self.content, headers=headers)
        except httpx.TransportError:
            return
        if answer.status_code in (200, 201):
            self.answer = answer.json()
        else:
            assert answer.status_code in (409, 503), answer.text[:500]


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

    def _next(self) -> Write:
        draw, n = self._draw, len(self.writes)
        key, many = f"w{self._number}-{n}", n == 0 or draw.random() < 0.05
        kind = "post" if many or len(self._ids) < 5 else draw.choice(["post", "patch", "delete", "match", "match"])
        if kind == "post":
            made = [self._interest(f"{key}-{i}") for i in range(FIRST if many else draw.randrange(1, 4))]
            self._ids += [one["id"] for one in made]
            return Write(key, "POST", "/subscriptions", ndjson(made), NDJSON, {"subscriptions": made})
        if kind == "match":
            events = [{"values": {name: draw.randrange(100) for name in NAMES}} for _ in range(draw.randrange(1, 4))]
            body = {"events": events, "k": 5, "notify": True}
            return Write(key, "POST", "/match", json.dumps(body).encode(), body=body)
        if kind == "delete":
            gone = [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]
            body = {"ids": gone}
            return Write(key, "POST", "/subscriptions/delete", json.dumps(body).encode(), body=body)
        body = {"weights": {"age": n + 0.5}}
        return Write(key, "PATCH", f"/subscriptions/{draw.choice(self._ids)}", json.dumps(body).encode(), body=body)

    def _interest(self, id: str) -> Json:
        ends = [sorted(self._draw.sample(range(100), 2)) for _ in NAMES]
        weights = {name: self._draw.choice([0.1, 0.2, 0.3, 0.7]) for name in NAMES}
        return {"id": id, "intervals": dict(zip(NAMES, ends, strict=True)), "weights": weights}


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    draw = Random(7)
    service = start_service()
    httpx.put(service.url + PATH, json={"dimensions": NAMES, "mode": "relaxed"})
    writers = [Writer(number, service.url) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for number in range(MOST_ROUNDS):
        if number >= ROUNDS and in_doubt(writers):
            break
        before = sum(len(writer.writes) for writer in writers)
        while sum(len(writer.writes) for writer in writers) < before + draw.randrange(20, 80):
            assert not any(writer.failure for writer in writers)
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
    assert in_doubt(writers), "no kill fell between a commit and its answer"
    writes = [write for writer in writers for write in writer.writes]
    model = MatcherModel(NAMES, "relaxed")
    for write in sorted(writes, key=lambda write: write.answer["seq"] if write.answer else 0):
        follow(model, write)
    talk = Talk(service.url)
    assert talk.good("GET", PATH)["seq"] == model.seq
    assert talk.pages(f"{PATH}/subscriptions", 1000) == [model.shown(id) for id in sorted(model.interests)]
    for age in range(0, 100, 20):
        event = {"values": {"age": age, "credit": 50}}
        (result,) = talk.good("POST", f"{PATH}/match", {"events": [event], "k": 10})["results"]
        assert result["winners"] == model.winners(event["values"], 10)
    job = talk.ask("POST", "/v1/admin/verify", {"resources": ["matchers/ads"]}).json()["job"]
    while (shown := talk.good("GET", f"/v1/admin/jobs/{job}"))["state"] in ("queued", "running"):
        time.sleep(0.05)
    assert shown["state"] == "succeeded", shown
    talk.close()


def in_doubt(writers: list[Writer]) -> bool:
    """Whether a write was there though its first answer never came."""
    return any(write.answer and write.answer.get("replayed") for writer in writers for write in list(writer.writes))


def follow(model: MatcherModel, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer = write.answer
    assert answer is not None
    if write.path == "/match":
        model.seq += len(write.body["events"])
        for event, result in zip(write.body["events"], answer["results"], strict=True):
            assert result["winners"] == model.winners(event["values"], 5), write.key
    elif write.path == "/subscriptions":
        for body in write.body["subscriptions"]:
            model.put(body["id"], body)
        shown = [model.shown(body["id"]) for body in write.body["subscriptions"]]
        assert answer.get("subscriptions", shown) == shown
    elif write.path == "/subscriptions/delete":
        assert answer["deleted"] == sum([model.delete(id) for id in write.body["ids"]])
    else:
        id = write.path.rpartition("/")[2]
        model.patch(id, write.body)
        assert {**answer, "replayed": True} == {"seq": model.seq, **model.shown(id), "replayed": True}
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"
