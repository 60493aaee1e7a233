"""The load generator of the HTTP benchmark, a process of its own: ``python -m bench.boards.load``.

Reads a job as JSON, makes every request of a phase before its clock starts, and answers what the phases took as JSON.
The phases of a job go on where the last one stopped: the objects' y is that of the paper's workload, event after event.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgpack

from bench.closed_loop import generate, send_round
from bench.exchange import request
from bench.socket_exchange import BINARY, frame, send_frames

PATH = "/v1/boards/{board}"


class Events:
    """The events of the workload as request bodies: `i` is an object, and its y goes up or down by a coin."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._random = random.Random(job["seed"])
        self._x: list[float] = job["x"]
        self._y: list[float] = job["y"]
        self._path = PATH.format(board=job["board"])

    def _next(self) -> tuple[int, float]:
        chance = self._random.random
        i = int(chance() * len(self._y))
        u, y = chance(), self._y[i]
        self._y[i] = y * u if chance() < 0.5 else y + (1.0 - y) * u
        return i, self._y[i]

    def batches(self, count: int, size: int, messages: str) -> list[bytes]:
        """Requests of `size` updates each."""
        posts = islice(self.posts(size, messages), count)
        return [request("POST", path, body.encode()) for path, body in posts]

    def singles(self, count: int, query: str) -> list[bytes]:
        """Requests that put one object each."""
        return [request("PUT", path, body.encode()) for path, body in islice(self.puts(query), count)]

    def frames(self, count: int, query: str, packed: bool) -> list[bytes]:
        """The same as frames of a socket."""
        made = []
        for ref, (path, body) in enumerate(islice(self.puts(query), count)):
            if packed:
                asked = {"op": "request", "ref": ref, "method": "PUT", "path": path, "body": json.loads(body)}
                made.append(frame(msgpack.packb(asked), BINARY))
            else:
                text = f'{{"op":"request","ref":{ref},"method":"PUT","path":"{path}","body":{body}}}'
                made.append(frame(text.encode()))
        return made

    def posts(self, size: int, messages: str) -> Iterator[tuple[str, str]]:
        """Paths and bodies of `size` updates each, without end."""
        while True:
            changed = [self._next() for _ in range(size)]
            events = ",".join([f'{{"op":"update","id":"o{i}","values":{{"y":{y!r}}}}}' for i, y in changed])
            yield f"{self._path}/events", f'{{"mode":"each","messages":"{messages}","events":[{events}]}}'

    def puts(self, query: str) -> Iterator[tuple[str, str]]:
        """Paths and bodies that put one object each, without end."""
        while True:
            i, y = self._next()
            yield f"{self._path}/objects/o{i}{query}", f'{{"values":{{"x":{self._x[i]!r},"y":{y!r}}}}}'


async def run(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the phases; each says which of the job's servers it asks, and `again` sends the last phase's requests."""
    events = Events(job)
    payloads: list[bytes] = []
    results = []
    for phase in job["phases"]:
        if not phase.get("again"):
            if phase["kind"] == "socket":
                payloads = events.frames(phase["count"], phase.get("query", ""), phase["packed"])
            elif phase["kind"] == "batches":
                payloads = events.batches(phase["count"], phase["size"], phase["messages"])
            else:
                payloads = events.singles(phase["count"], phase.get("query", ""))
        server = job["servers"][phase["server"]]
        if phase["kind"] == "socket":
            results.append(await send_frames(payloads, server, phase["window"]))
        else:
            results.append(await send_round(payloads, server, phase["connections"]))
    return results


if __name__ == "__main__":
    generate(run)
