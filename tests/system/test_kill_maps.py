"""A map under load is killed at random moments: what was answered is there exactly once, and afterwards every object,
every standing query and its answer is what the model says."""

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
from tests.oracles.map_service import MapModel
from tests.patience import PATIENCE
from tests.service.talk import NDJSON, Json, Talk, ndjson

PATH = "/v1/maps/food"
CONFIG: Json = {
    "attributes": {"price": "low", "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
}
SCORE: Json = {"kind": "weighted_sum", "weights": {"price": 0.25, "rating": 0.25, "distance": 0.5}}
WRITERS = 4
ROUNDS, MOST_ROUNDS = 4, 40
"""Kills at the least, and at the most: there are more until one falls between a commit and its answer."""

FIRST = 3_000
"""Objects of the first request, which is checked all at once."""


@dataclass
class Write:
    """One request with a key of its own, and its answer once there is one."""

    key: str
    method: str
    path: str
    content: bytes
    type: str = "application/json"
    body: Json = field(default_factory=dict)
    answer: Json | None = None

    def send(self, http: httpx.Client) -> None:
        """Ask once; an answer may not come."""
        headers = {"Idempotency-Key": self.key, "Content-Type": self.type}
        try:
            answer = http.request(self.method, PATH + self.path, content=self.content, headers=headers)
        except httpx.TransportError:
            return
        if answer.status_code in (200, 201):
            self.answer = answer.json()
        else:
            assert answer.status_code in (409, 503), answer.text[:500]


class Writer(threading.Thread):
    """Writes about objects and queries of its own, one request after the other, each until it is answered."""

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
        self._queries: list[str] = []

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
        key = f"w{self._number}-{n}"
        kinds = ["post", "patch", "delete", "query", "move", "move"] if len(self._ids) > 5 and self._queries else []
        kind = ("post", "query")[n] if n < 2 else draw.choice([*kinds, "post"])
        if kind == "post":
            made = [self._object(f"{key}-{i}") for i in range(FIRST if n == 0 else draw.randrange(1, 4))]
            self._ids += [one["id"] for one in made]
            return Write(key, "POST", "/objects", ndjson(made), NDJSON, {"objects": made})
        if kind == "query":
            id = f"q{key}"
            self._queries.append(id)
            body: Json = {"kind": "skyline", "location": self._place()}
            if draw.random() < 0.7:
                body = {"kind": "top", "location": self._place(), "k": 3, "m": 2, "score": SCORE}
            return Write(key, "PUT", f"/queries/{id}", json.dumps(body).encode(), body=body)
        if kind == "move":
            moves = [{"id": draw.choice(self._queries), "location": self._place()}]
            body = {"moves": moves}
            return Write(key, "POST", "/queries/moves", json.dumps(body).encode(), body=body)
        if kind == "delete":
            body = {"ids": [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]}
            return Write(key, "POST", "/objects/delete", json.dumps(body).encode(), body=body)
        body = {"values": {"price": n + 0.5}}
        return Write(key, "PATCH", f"/objects/{draw.choice(self._ids)}", json.dumps(body).encode(), body=body)

    def _place(self) -> list[float]:
        return [self._draw.uniform(0, 100), self._draw.uniform(0, 100)]

    def _object(self, id: str) -> Json:
        values = {"price": self._draw.randrange(1000), "rating": self._draw.choice([0, 2.5, 5])}
        return {"id": id, "location": self._place(), "values": values}


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    draw = Random(7)
    service = start_service()
    httpx.put(service.url + PATH, json=CONFIG)
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
    model, queries = MapModel(CONFIG), {}
    for write in sorted(writes, key=lambda write: write.answer["seq"] if write.answer else 0):
        follow(model, queries, write)
    talk = Talk(service.url)
    assert talk.good("GET", PATH)["seq"] == model.seq
    assert talk.pages(f"{PATH}/objects", 1000) == [model.objects[id].shown() for id in sorted(model.objects)]
    assert [one["id"] for one in talk.pages(f"{PATH}/queries", 1000)] == sorted(queries)
    for id in draw.sample(sorted(queries), min(8, len(queries))):
        shown, (x, y) = talk.good("GET", f"{PATH}/queries/{id}"), queries[id]["location"]
        assert shown["location"] == [x, y]
        if shown["kind"] == "skyline":
            # By the definition it is too much work for so many objects; the job below looks at all of them.
            continue
        model.judge(queries[id], shown, (x, y), draw, 1, held=True)
    job = talk.ask("POST", "/v1/admin/verify", {"resources": ["maps/food"]}).json()["job"]
    while (found := talk.good("GET", f"/v1/admin/jobs/{job}"))["state"] in ("queued", "running"):
        time.sleep(0.05)
    assert found["state"] == "succeeded", found
    talk.close()


def in_doubt(writers: list[Writer]) -> bool:
    """Whether a write was there though its first answer never came."""
    return any(write.answer and write.answer.get("replayed") for writer in writers for write in list(writer.writes))


def follow(model: MapModel, queries: dict[str, Json], write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer = write.answer
    assert answer is not None
    if write.path == "/objects":
        model.put(*write.body["objects"])
        assert answer["applied"] == len(write.body["objects"])
    elif write.path == "/objects/delete":
        model.delete(*write.body["ids"])
        assert answer["deleted"] == len(write.body["ids"])
    elif write.path == "/queries/moves":
        model.seq += 1
        for move, result in zip(write.body["moves"], answer["results"], strict=True):
            queries[move["id"]]["location"] = move["location"]
            assert result["id"] == move["id"] and isinstance(result["inside"], bool)
    elif write.method == "PUT":
        model.seq += 1
        queries[write.path.rpartition("/")[2]] = dict(write.body)
    else:
        id = write.path.rpartition("/")[2]
        model.put({"id": id, **write.body})
        assert {**answer, "replayed": True} == {"seq": model.seq, **model.objects[id].shown(), "replayed": True}
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"
