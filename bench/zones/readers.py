"""Readers of many subscriptions on a few sockets: `python -m bench.zones.readers`, with a job in JSON as first line.

It prints a line when all have their first list, and one with what came for each further line of its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

EACH = 500
"""Subscriptions on one socket."""


class Heard:
    """What came since it was last asked for."""

    def __init__(self) -> None:
        self.begun = 0
        self.changes = 0
        self.resets = 0
        self.milliseconds: list[float] = []

    def take(self, text: str | bytes) -> None:
        said = json.loads(text)
        event = said["event"]
        if event == "snapshot":
            self.begun += 1
        elif event == "reset":
            self.resets += 1
        elif event == "change":
            self.changes += 1
            for change in said["changes"]:
                if change["new_rank"] == 1:
                    self.milliseconds.append((time.time() - change["payload"]) * 1000)

    def told(self) -> dict[str, Any]:
        found = sorted(self.milliseconds)
        about = {
            "changes": self.changes,
            "resets": self.resets,
            "p50": found[len(found) // 2] if found else None,
            "p99": found[len(found) * 99 // 100] if found else None,
        }
        self.changes, self.resets, self.milliseconds = 0, 0, []
        return about


async def follow(url: str, resource: str, ids: list[str], heard: Heard) -> ClientConnection:
    socket = await connect(url, max_size=None, compression=None, ping_interval=None, open_timeout=60)
    for id in ids:
        await socket.send(json.dumps({"op": "subscribe", "resource": resource, "id": id}))

    async def listen() -> None:
        async for frame in socket:
            heard.take(frame)

    socket.listening = asyncio.create_task(listen())  # type: ignore[attr-defined]
    return socket


async def main(job: dict[str, Any]) -> None:
    heard, ids, urls = Heard(), job["ids"], job["urls"]
    each = min(EACH, -(-len(ids) // len(urls)))
    parts = [ids[start : start + each] for start in range(0, len(ids), each)]
    opening = (follow(urls[n % len(urls)], job["resource"], part, heard) for n, part in enumerate(parts))
    sockets = await asyncio.gather(*opening)
    while heard.begun < len(ids):
        await asyncio.sleep(0.02)
    print(json.dumps({"begun": heard.begun, "sockets": len(sockets)}), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(heard.told()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.stdin.readline())))
