"""A feed under load is killed at random moments: what was answered is there exactly once, with the same `reached` also
where the first answer never came, and afterwards every post, subscription and list is what brute force says."""

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
from tests.oracles.feed_service import FeedService, Subscribed
from tests.oracles.feeds import FeedOracle
from tests.patience import PATIENCE
from tests.service.talk import NDJSON, Json, Talk, ndjson

PATH = "/v1/feeds/city"
WINDOW = 100
CONFIG: Json = {"window": WINDOW, "bounds": [0, 0, 4, 3]}
WRITERS = 4
ROUNDS, MOST_ROUNDS = 4, 40
"""Kills at the least, and at the most: there are more until one falls between a commit and its answer."""


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
    """Posts, and sets subscriptions of its own, one request after the other, each until it is answered."""

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
        if n < 2 or draw.random() < 0.1:
            body = {**self._words(), "k": draw.randrange(1, 5), "alpha": draw.choice([0.0, 0.5, 1.0])}
            path = f"/subscriptions/s{self._number}-{n % 3}"
            return Write(key, "PUT", path, json.dumps(body).encode(), body=body)
        posts = [{"id": f"{key}-{i}", **self._words()} for i in range(draw.randrange(1, 4))]
        return Write(key, "POST", "/posts", ndjson(posts), NDJSON, {"posts": posts})

    def _words(self) -> Json:
        draw = self._draw
        place = [draw.uniform(0, 4), draw.uniform(0, 3)]
        return {"keywords": draw.choices("abcdefghij", k=draw.randrange(1, 4)), "location": place}


@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_writes(start_service: StartService) -> None:
    draw = Random(7)
    service = start_service()
    assert httpx.put(service.url + PATH, json=CONFIG).status_code == 201
    writers = [Writer(number, service.url) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for number in range(MOST_ROUNDS):
        if number >= ROUNDS and in_doubt(writers):
            break
        before = sum(len(writer.writes) for writer in writers)
        while sum(len(writer.writes) for writer in writers) < before + draw.randrange(20, 60):
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
    model = FeedService(FeedOracle((0.0, 0.0, 4.0, 3.0), posts=WINDOW))
    for write in sorted(writes, key=lambda write: write.answer["seq"] if write.answer else 0):
        follow(model, write)
    assert model.oracle.came > WINDOW, "the window has moved on"
    talk = Talk(service.url)
    assert talk.good("GET", PATH)["seq"] == model.seq
    assert [one["id"] for one in talk.pages(f"{PATH}/posts", 1000)] == sorted(model.posts)
    assert [one["id"] for one in talk.pages(f"{PATH}/subscriptions", 1000)] == sorted(model.subscriptions)
    for id, expected in model.lists().items():
        found = talk.good("GET", f"{PATH}/subscriptions/{id}")["list"]
        assert [(entry["id"], entry["score"]) for entry in found] == [(post.id, score) for post, score in expected]
    job = talk.ask("POST", "/v1/admin/verify", {"resources": ["feeds/city"]}).json()["job"]
    while (shown := talk.good("GET", f"/v1/admin/jobs/{job}"))["state"] in ("queued", "running"):
        time.sleep(0.05)
    assert shown["state"] == "succeeded", shown
    talk.close()


def in_doubt(writers: list[Writer]) -> bool:
    """Whether posts were there though their first answer never came."""
    writes = [write for writer in writers for write in list(writer.writes)]
    return any(write.method == "POST" and write.answer and write.answer.get("replayed") for write in writes)


def follow(model: FeedService, write: Write) -> None:
    """Do to the model what a write did, and compare its answer."""
    answer = write.answer
    assert answer is not None
    if write.method == "PUT":
        body, id = write.body, write.path.rpartition("/")[2]
        x, y = body["location"]
        one = Subscribed(body["keywords"], (x, y), body["k"], body["alpha"], None)
        model.set(id, one)
        assert (answer["id"], answer["k"]) == (id, one.k)
    else:
        expected = []
        for post in write.body["posts"]:
            x, y = post["location"]
            expected.append({"id": post["id"], "reached": model.post(post["id"], post["keywords"], (x, y), 0, None)})
        assert answer["results"] == expected
    assert answer["seq"] == model.seq, f"{write.key} is there twice, or not at all"
