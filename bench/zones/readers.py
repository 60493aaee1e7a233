"""Readers of many subscriptions on a few sockets: `python -m bench.zones.readers`, with a job in JSON as first line.

It prints a line when all have their first list, and one with what came for each further line of its input. Frames are
cut and searched, not parsed, so that the readers leave the machine to what they read from.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any

from bench.wire import SocketCapture, socket_opening

EACH = 500
"""Subscriptions on one socket."""

BEST = re.compile(rb'"new_rank":1,.*?"payload":([0-9.]+)')
"""The object that a change puts first, and when it was sent."""


class Heard:
    """What came since it was last asked for."""

    def __init__(self) -> None:
        self.begun = 0
        self.changes = 0
        self.resets = 0
        self.bytes = 0
        self.refused: bytes | None = None
        self.seconds: list[float] = []
        self._processor = time.process_time()

    def take(self, frame: bytes) -> None:
        if b'"event":"change"' in frame:
            self.changes += 1
            self.bytes += len(frame)
            found = BEST.search(frame)
            if found is not None:
                self.seconds.append(time.time() - float(found[1]))
        elif b'"event":"snapshot"' in frame:
            self.begun += 1
        elif b'"event":"reset"' in frame:
            self.resets += 1
        elif b'"event":"heartbeat"' not in frame:
            self.refused = frame

    def told(self) -> dict[str, Any]:
        found, before = sorted(self.seconds), self._processor
        self._processor = time.process_time()
        about = {
            "changes": self.changes,
            "best": len(found),
            "resets": self.resets,
            "bytes": self.bytes,
            "processor": self._processor - before,
            "p50": found[len(found) // 2] * 1000 if found else None,
            "p99": found[len(found) * 99 // 100] * 1000 if found else None,
            "longest": found[-1] * 1000 if found else None,
        }
        self.changes = self.resets = self.bytes = 0
        self.seconds = []
        return about


class Socket(SocketCapture):
    """A socket that tells what comes, and keeps nothing."""

    def __init__(self, heard: Heard) -> None:
        super().__init__(socket_opening("/v1/stream"), lambda count: None)
        self._heard = heard

    def take(self, at: float, data: bytes) -> None:
        super().take(at, data)
        for _, frame in self.pieces:
            self._heard.take(frame)
        self.pieces.clear()


async def follow(port: int, host: str, resource: str, ids: list[str], heard: Heard) -> Socket:
    _, socket = await asyncio.get_running_loop().create_connection(lambda: Socket(heard), host, port)
    while not socket.status:
        await asyncio.sleep(0.002)
    for id in ids:
        socket.say(json.dumps({"op": "subscribe", "resource": resource, "id": id}).encode())
    return socket


async def main(job: dict[str, Any]) -> None:
    heard, ids, ports = Heard(), job["ids"], job["ports"]
    each = min(EACH, -(-len(ids) // len(ports)))
    parts = [ids[start : start + each] for start in range(0, len(ids), each)]
    opening = (follow(ports[n % len(ports)], job["host"], job["resource"], part, heard) for n, part in enumerate(parts))
    sockets = await asyncio.gather(*opening)
    while heard.begun < len(ids):
        await asyncio.sleep(0.02)
        if heard.refused is not None or any(socket.lost for socket in sockets):
            sys.exit(f"{heard.begun} of {len(ids)} streams have begun: {heard.refused!r}")
    print(json.dumps({"begun": heard.begun, "sockets": len(sockets)}), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps({**heard.told(), "lost": sum(socket.lost for socket in sockets)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.readline())))
