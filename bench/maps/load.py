"""The load generator of the maps' HTTP benchmark, a process of its own: ``python -m bench.maps.load``.

Reads a job as JSON, makes every request before a clock starts, and answers what they took as JSON. A job of `paths` and
`bodies` is sent in a closed loop, once a round; one with `pace` sends its bodies so many a second, whether or not the
last was answered, while a WebSocket follows standing queries.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from bench.exchange import Clock, Closed, Exchange, connect, milliseconds, request
from bench.process import Failed, end_with_parent
from bench.wire import SocketCapture, open_capture, socket_opening

PATIENCE = 120.0
"""Seconds that are waited for what was asked for."""

QUIET = 0.5
"""Seconds without a message after which no more are expected."""


async def closed(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Send all bodies, once a round."""
    payloads = [request("POST", job["path"], body.encode()) for body in job["bodies"]]
    results = []
    for _ in range(job["rounds"]):
        clock = Clock(job["pid"])
        result = await Closed(payloads).run(job["port"], job["connections"])
        results.append({**result, **clock.read(), "request_bytes": sum(map(len, payloads)) / len(payloads)})
    return results


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
    """Send the bodies at their pace, over as many connections as are needed for those that wait."""
    payloads = [request("POST", job["path"], body.encode()) for body in job["bodies"]]
    following = Following(job)
    await following.begin()
    seconds: list[float] = []
    statuses: dict[int, int] = {}
    idle: list[Exchange] = []

    def on_answer(exchange: Exchange, status: int, body: bytes) -> None:
        seconds.append(loop.time() - due.pop(exchange))
        statuses[status] = statuses.get(status, 0) + 1
        idle.append(exchange)

    loop = asyncio.get_running_loop()
    due: dict[Exchange, float] = {}
    clock, began = Clock(job["pid"]), loop.time()
    for i, payload in enumerate(payloads):
        at = began + i / job["pace"]
        while loop.time() < at:
            await asyncio.sleep(at - loop.time())
        exchange = idle.pop() if idle else await connect(job["port"], on_answer)
        due[exchange] = at
        exchange.ask(payload)
        following.count()
    sent, end = loop.time() - began, loop.time() + PATIENCE
    while due and loop.time() < end:
        await asyncio.sleep(0.001)
    if due:
        raise Failed(f"{len(due)} requests were not answered in {PATIENCE:.0f} s")
    elapsed = loop.time() - began
    used = clock.read()
    await following.finish()
    return {
        "elapsed": elapsed,
        "sent": sent,
        "statuses": statuses,
        "ms": milliseconds(seconds),
        "results": following.results,
        "result_bytes": following.bytes,
        "others": following.others,
        **used,
    }


async def run(job: dict[str, Any]) -> Any:
    """Do the job."""
    return await (paced(job) if "pace" in job else closed(job))


def main() -> None:
    import uvloop

    end_with_parent()
    job = json.loads(sys.stdin.buffer.read())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(run(job)), sys.stdout)


if __name__ == "__main__":
    main()
