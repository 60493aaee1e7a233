"""A resource under load whose service is killed at random moments.

Writers that send each request until it is answered, and the kills between. What the requests are, and what must be
there afterwards, the tests of its kind say.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx

from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE
from tests.system.http.talk import NDJSON, Json, ndjson

ROUNDS, MOST_ROUNDS = 4, 40
"""Kills at the least, and at the most: there are more until one falls between a commit and its answer."""


@dataclass
class Write:
    """One request with a key of its own, and its answer once there is one. A body of NDJSON is a list."""

    key: str
    method: str
    path: str
    body: Any
    type: str = "application/json"
    answer: Any = None

    @property
    def seq(self) -> int:
        found: int = self.answer["seq"]
        return found

    @property
    def in_doubt(self) -> bool:
        """Whether it was there though its first answer never came."""
        return bool(self.answer and self.answer.get("replayed"))

    def send(self, http: httpx.Client) -> None:
        """Ask once; an answer may not come."""
        content = ndjson(self.body) if self.type == NDJSON else json.dumps(self.body).encode()
        headers = {"Content-Type": self.type, "Idempotency-Key": self.key}
        try:
            answer = http.request(self.method, self.path, content=content, headers=headers)
        except httpx.TransportError:
            return
        if answer.status_code in (200, 201):
            self.take(answer)
        else:
            assert answer.status_code in (409, 503), answer.text[:500]

    def take(self, answer: httpx.Response) -> None:
        """Keep what was answered."""
        self.answer = answer.json()


class Writer(threading.Thread):
    """Writes about what is its own, one request after the other, each until it is answered; `go` holds it up.

    What it writes `draw` decides, from its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(daemon=True)
        self.url = ""
        self.writes: list[Write] = []
        self.go = threading.Event()
        self.done = False
        self.failure: BaseException | None = None
        self.number = number
        self.made = 0
        self.draw = Random(number)

    @abstractmethod
    def next(self, key: str) -> Write:
        """The next request, to be sent with this key; its path goes on from that of the resource."""

    def rest(self) -> None:
        """Called before each request."""

    def after(self, http: httpx.Client, write: Write) -> None:
        """Called when a request has been answered, with the client that sent it."""

    def run(self) -> None:
        try:
            with httpx.Client(timeout=PATIENCE) as http:
                while not self.done:
                    self.rest()
                    write = self.next(f"w{self.number}-{self.made}")
                    self.made += 1
                    self.writes.append(write)
                    while write.answer is None:
                        self.go.wait()
                        http.base_url = httpx.URL(self.url)
                        write.send(http)
                        if write.answer is None:
                            time.sleep(0.02)
                    self.after(http, write)
        except BaseException as error:
            self.failure = error
            raise


def killed(
    start_service: StartService, path: str, config: Json, writers: Sequence[Writer], draw: Random
) -> tuple[LiveService, list[Write]]:
    """Make the resource with this path, and kill the service under its writers until an answer was in doubt.

    Returns the last service, and all that was written in the order of its seqs.
    """
    service = start_service()
    made = httpx.put(service.url + path, json=config, timeout=PATIENCE)
    assert made.status_code == 201, made.text[:500]

    def let_go() -> None:
        for writer in writers:
            writer.url = service.url + path
            writer.go.set()

    let_go()
    for writer in writers:
        writer.start()
    for number in range(MOST_ROUNDS):
        if number >= ROUNDS and _in_doubt(writers):
            break
        before = _count(writers)
        more = draw.randrange(20, 40)
        while _count(writers) < before + more:
            assert not any(writer.failure for writer in writers)
            time.sleep(0.002)
        time.sleep(draw.random() * 0.05)
        service.stop(signal.SIGKILL)
        for writer in writers:
            writer.go.clear()
        service = start_service(service.data)
        let_go()
    for writer in writers:
        writer.done = True
    for writer in writers:
        writer.join(PATIENCE)
        assert not writer.is_alive() and writer.failure is None
    assert _in_doubt(writers), "no kill fell between a commit and its answer"
    print(f"killed {number} times")
    return service, sorted((write for writer in writers for write in writer.writes), key=lambda write: write.seq)


def _count(writers: Sequence[Writer]) -> int:
    return sum(writer.made for writer in writers)


def _in_doubt(writers: Sequence[Writer]) -> bool:
    return any(write.in_doubt for writer in writers for write in list(writer.writes))
