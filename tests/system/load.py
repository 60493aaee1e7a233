"""Writers that must not lose or double anything, and the check of what is there against all that they did."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.oracles.service import BoardModel, Json, Question, covers, plain
from tests.support.patience import PATIENCE
from tests.system.http.talk import ARROW, NDJSON, Talk, arrow, event_table, ndjson

X, Y = "distance", "delay"
BULK = 25_000


@dataclass
class Write:
    """One request with a key of its own, and its answer once there is one. `tried` counts the times it was sent."""

    key: str
    method: str
    path: str
    content: bytes
    content_type: str
    events: list[Json] = field(default_factory=list)
    subscription: tuple[str, Question] | None = None
    answer: Json | None = None
    tried: int = 0

    @property
    def size(self) -> int:
        return len(self.events) if self.subscription is None else 1

    def send(self, client: httpx.Client) -> int:
        """Send it once; returns the status, 0 when no answer came."""
        self.tried += 1
        headers = {"Content-Type": self.content_type, "Idempotency-Key": self.key}
        try:
            answer = client.request(self.method, self.path, content=self.content, headers=headers)
        except httpx.TransportError:
            return 0
        if answer.status_code in (200, 201):
            self.answer = answer.json()
        elif answer.status_code != 409:
            assert answer.status_code == 503, f"{answer.status_code} {answer.text[:500]}"
            assert int(answer.headers["retry-after"]) >= 0
        return answer.status_code


class Writer(threading.Thread):
    """Sends one request after the other, each again under its key until it is answered. `gate` holds it up."""

    def __init__(self, load: Load, number: int, kind: str) -> None:
        super().__init__(daemon=True)
        self.load, self.number, self.kind = load, number, kind
        self.random = Random(number)
        self.writes: list[Write] = []
        self.held_for = 0
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(timeout=PATIENCE) as client:
                while not self.load.stopped:
                    write = self._next(len(self.writes))
                    self.writes.append(write)
                    self._until_answered(client, write)
        except BaseException as error:
            self.failed = error

    def _until_answered(self, client: httpx.Client, write: Write) -> None:
        while write.answer is None:
            if not self.load.gate.is_set():
                self.held_for = self.load.holds
                self.load.gate.wait()
            client.base_url = httpx.URL(self.load.url)
            if write.send(client) == 0 and not self.load.gate.is_set():
                continue
            if write.answer is None:
                time.sleep(0.005)

    def _next(self, n: int) -> Write:
        key = f"w{self.number}-{n}"
        path = f"{self.load.path}/events"
        draw = self.random
        if self.kind == "single":
            return self._json(key, path, [self._event(draw, n)])
        if self.kind == "batch":
            return self._json(key, path, [self._event(draw, n * 100 + i) for i in range(draw.randint(2, 100))])
        if self.kind == "ndjson":
            events = [self._event(draw, n * 100 + i) for i in range(draw.randint(1, 100))]
            return Write(key, "POST", f"{path}?messages=count", ndjson(events), NDJSON, events)
        if self.kind == "bulk":
            events = [
                {"op": "upsert", "id": f"k{i % 500}", "values": {X: i % 40, Y: draw.randrange(1000)}}
                for i in range(BULK)
            ]
            return Write(key, "POST", f"{path}?messages=none", arrow(event_table(events, [X, Y]), 9000), ARROW, events)
        assert self.kind == "subscriptions"
        name, l = f"m{draw.randrange(5)}", draw.randrange(20)
        # No two writers ask the same: the second would change nothing and take no seq.
        r = l + 5.0 + n % 7 + n / 1e6 + self.number / 1e9
        question = Question(float(l), r, draw.choice([1, 5]))
        body = {"range": {X: [question.l, question.r]}, "k": question.k}
        content = json.dumps(body).encode()
        path = f"{self.load.path}/subscriptions/{name}"
        return Write(key, "PUT", path, content, "application/json", subscription=(name, question))

    def _json(self, key: str, path: str, events: list[Json]) -> Write:
        content = json.dumps({"events": events, "messages": "count"}).encode()
        return Write(key, "POST", path, content, "application/json", events)

    def _event(self, draw: Random, n: int) -> Json:
        if draw.random() < 0.2:
            values = {X: draw.randrange(40), Y: draw.randrange(1000)}
            return {"op": "upsert", "id": f"n{self.number}-{n}", "values": values, "payload": {"n": n}}
        return {
            "op": "upsert",
            "id": f"o{draw.randrange(60)}",
            "values": {X: draw.randrange(40), Y: draw.randrange(1000)},
        }


class Load:
    """Several writers on one board."""

    def __init__(self, url: str, kinds: list[str]) -> None:
        self.url = url
        self.path = "/v1/boards/load"
        self.stopped = False
        self.gate = threading.Event()
        self.holds = 0
        self.model = BoardModel(X, Y, "desc", [1, 5])
        self.applied: dict[int, Write] = {}
        talk = Talk(url)
        talk.good("PUT", self.path, self.model.shown_config())
        asked = [(f"s{n}", Question(n * 2.0, n * 2.0 + 9, [1, 5][n % 2])) for n in range(16)]
        body = [{"id": key, "range": {X: [q.l, q.r]}, "k": q.k} for key, q in asked]
        talk.good("POST", f"{self.path}/subscriptions", {"subscriptions": body})
        self.model.subscribe(asked)
        talk.close()
        self.writers = [Writer(self, number, kind) for number, kind in enumerate(kinds)]

    def start(self) -> None:
        self.gate.set()
        for writer in self.writers:
            writer.start()

    def hold(self) -> None:
        """Let no writer begin anything; returns when all wait."""
        self.pause()
        self.wait_held()

    def pause(self) -> None:
        """Let no writer begin anything."""
        self.holds += 1
        self.gate.clear()

    def wait_held(self) -> None:
        """Returns when all writers wait."""
        for writer in self.writers:
            while writer.held_for < self.holds and writer.is_alive():
                time.sleep(0.005)
            self._check(writer)

    def stop(self) -> None:
        """Let every writer get its last answer and end."""
        self.stopped = True
        self.gate.set()
        for writer in self.writers:
            writer.join(PATIENCE)
            assert not writer.is_alive(), "a write is never answered"
            self._check(writer)

    @staticmethod
    def _check(writer: Writer) -> None:
        if writer.failed is not None:
            raise writer.failed

    @property
    def answered(self) -> int:
        return sum(write.answer is not None for writer in self.writers for write in writer.writes)

    def check(self, talk: Talk, seen: list[tuple[int, Any]]) -> int:
        """Every answered write is there exactly once, in the order of seq.

        `seen` are states that were read at some seq: each must be what all writes up to that seq make. All writes must
        have been answered. Returns how many there are.
        """
        writes = [write for writer in self.writers for write in writer.writes if write.answer is not None]
        writes.sort(key=lambda write: write.answer["seq"] if write.answer else 0)
        waiting = sorted(seen, key=lambda one: one[0])
        for write in writes[len(self.applied) :]:
            assert write.answer is not None
            first = self.model.seq + 1
            last = write.answer["seq"]
            assert last == first + write.size - 1, self.around(first, write)
            while waiting and waiting[0][0] < first:
                self.compare(*waiting.pop(0))
            assert not waiting or waiting[0][0] >= write.answer["seq"], (
                f"{write.key} was there in part at {waiting[0][0]}"
            )
            for event in write.events:
                assert not self.model.event(event)
            if write.subscription is not None:
                self.model.set_question(*write.subscription)
            assert self.model.seq == write.answer["seq"]
            self.applied[write.answer["seq"]] = write
        for one in waiting:
            self.compare(*one)
        return len(writes)

    def around(self, seq: int, write: Write) -> str:
        """What is known near a seq that is not as it should be."""
        every = [one for writer in self.writers for one in writer.writes]
        near = [one for one in every if one.answer is None or abs(one.answer["seq"] - seq) < 200]
        told = [(one.key, one.path, one.size, one.tried, one.answer) for one in near]
        return f"{write.key} with {write.size} follows {seq - 1}; " + "\n".join(map(str, told))

    def read(self, talk: Talk) -> tuple[int, Any]:
        """The whole state, with the seq at which it was read (nobody may write meanwhile)."""
        shown = talk.good("GET", self.path)
        objects = talk.pages(f"{self.path}/objects", 1000)
        keys = [one["id"] for one in talk.pages(f"{self.path}/subscriptions", 1000)]
        lists = {key: talk.good("GET", f"{self.path}/subscriptions/{key}") for key in keys}
        assert talk.good("GET", self.path) == shown
        return shown["seq"], (shown, objects, lists)

    def compare(self, seq: int, state: Any) -> None:
        """The state that was read is the model's."""
        model = self.model
        shown, objects, lists = state
        assert seq == model.seq, (seq, model.seq)
        assert (shown["objects"], shown["subscriptions"]) == (len(model.objects), len(model.questions))
        found = {item["id"]: plain(item) for item in objects}
        assert found.keys() == model.objects.keys()
        for key, thing in model.objects.items():
            assert covers(found[key], thing.shown()), (found[key], thing)
        assert lists.keys() == model.questions.keys()
        for key, one in lists.items():
            assert covers(one, model.shown_question(key)), one
            assert covers(list(map(plain, one["list"])), model.list_of(key)), (key, one, model.list_of(key))
