"""The load generator of the maps' HTTP benchmark, a process of its own: ``python -m bench.maps.load``.

Reads a job as JSON, makes every request before the clock starts, and answers what they took as JSON. Bodies are sent so
many a second, whether or not the last was answered, while a WebSocket follows standing queries.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import Any

from bench.closed_loop import generate
from bench.exchange import Clock, Paced, milliseconds, request
from bench.process import Failed
from bench.wire import SocketCapture, open_capture, socket_opening

CONNECTIONS = 64

PATIENCE = 120.0
"""Seconds that are waited for what was asked for."""

QUIET = 0.5
"""Seconds without a message after which no more are expected."""


class Following:
    """A WebSocket that follows standing queries of a map."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self.results = 0
        self.bytes = 0
        self.others: dict[str, int] = {}

    async def begin(self) -> None:
        """Subscribe, and return when each has sent its snapshot."""
        self._capture: SocketCapture = await open_capture(
            self._job["port"], lambda: SocketCapture(socket_opening("/v1/stream"), lambda n: None)
        )
        resource = f"maps/{self._job['map']}"
        for id in self._job["follow"]:
            while not self._capture.status:
                await asyncio.sleep(0.01)
            order = {"op": "subscribe", "resource": resource, "id": id}
            self._capture.say(json.dumps(order, separators=(",", ":")).encode())
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while loop.time() < end:
            self.count()
            if self.others.get("snapshot", 0) == len(self._job["follow"]):
                return
            await asyncio.sleep(0.05)
        raise Failed(f"{self.others} of {len(self._job['follow'])} snapshots came")

    def count(self) -> int:
        """Count what came since; how much that was."""
        pieces, self._capture.pieces = self._capture.pieces, []
        for _, text in pieces:
            if b'"event":"result"' in text:
                self.results += 1
                self.bytes += len(text)
            else:
                event = json.loads(text)["event"]
                self.others[event] = self.others.get(event, 0) + 1
        return len(pieces)

    async def finish(self) -> None:
        """Count until nothing comes any more."""
        await asyncio.sleep(QUIET)
        while self.count():
            await asyncio.sleep(QUIET)
        self._capture.transport.close()


async def paced(job: dict[str, Any]) -> dict[str, Any]:
    """Send the bodies at their pace."""
    payloads = [request("POST", job["path"], body.encode()) for body in job["bodies"]]
    following, load = Following(job), Paced()
    await following.begin()
    await load.open(job["port"], CONNECTIONS)
    clock, began = Clock(job["pid"]), time.perf_counter()
    for i, payload in enumerate(payloads):
        await load.send(began + i / job["pace"], payload)
        following.count()
    sent = time.perf_counter() - began
    if missing := await load.finish(PATIENCE):
        raise Failed(f"{missing} requests were not answered in {PATIENCE:.0f} s")
    elapsed = time.perf_counter() - began
    used = clock.read()
    await following.finish()
    return {
        "elapsed": elapsed,
        "sent": sent,
        "statuses": dict(Counter(answer.status for answer in load.answers)),
        "ms": milliseconds([answer.seconds for answer in load.answers]),
        "results": following.results,
        "result_bytes": following.bytes,
        "others": following.others,
        **used,
    }


if __name__ == "__main__":
    generate(paced)
