"""The load generator of the feeds' HTTP benchmark, a process of its own: ``python -m bench.feeds.load``.

Reads a job as JSON, opens streams, sends the rounds of posts, and returns their times as JSON. Requests are prepared
before the first round is timed. At the end the list of each stream is compared with that of the service.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

from bench.closed_loop import generate, send_round
from bench.exchange import Closed, request
from bench.process import Failed
from bench.wire import SseCapture, open_capture, sse_opening

LAST_SECONDS = 60.0


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """Open streams, send posts, compare. Raises `Failed` for a stream whose list differs from the service's."""
    port, path = job["port"], job["path"]
    streams: dict[str, SseCapture] = {}
    for id in job["streams"]:
        opening = sse_opening(f"{path}/subscriptions/{id}/stream")
        streams[id] = await open_capture(port, partial(SseCapture, opening, lambda _: None))
    async with asyncio.timeout(LAST_SECONDS):
        while not all(one.pieces for one in streams.values()):
            await asyncio.sleep(0.01)
    rounds = [[request("POST", f"{path}/posts", body.encode()) for body in bodies] for bodies in job["rounds"]]
    results = [await send_round(payloads, job, job["connections"]) for payloads in rounds]
    asking = Closed([request("GET", f"{path}/subscriptions/{id}") for id in streams], keep=True)
    await asking.run(port, 1)
    wanted = {one["id"]: one["list"] for one in map(json.loads, asking.answers)}
    try:
        async with asyncio.timeout(LAST_SECONDS):
            while any(_list(one) != wanted[id] for id, one in streams.items()):
                await asyncio.sleep(0.2)
    except TimeoutError:
        wrong = [id for id, one in streams.items() if _list(one) != wanted[id]]
        raise Failed(f"streams say other lists than the service: {wrong[:5]}") from None
    changes = sum(event == "change" for one in streams.values() for _, event, _, _ in one.messages())
    for one in streams.values():
        one.transport.abort()
    return {"rounds": results, "changes": changes}


def _list(stream: SseCapture) -> list[dict[str, Any]]:
    """The list of a stream: a change removes the posts that it names, and inserts those with a new rank."""
    found: list[dict[str, Any]] = []
    for _, event, data, _ in stream.messages():
        if event in ("snapshot", "reset"):
            found = json.loads(data)["list"]
        elif event == "change":
            changes = json.loads(data)["changes"]
            named = {one["id"] for one in changes}
            found = [one for one in found if one["id"] not in named]
            for one in sorted((one for one in changes if one["new_rank"]), key=lambda one: one["new_rank"]):
                found.insert(one["new_rank"] - 1, one)
    shown = ("id", "score", "location", "keywords")
    return [{"rank": rank, **{name: one[name] for name in shown}} for rank, one in enumerate(found, 1)]


if __name__ == "__main__":
    generate(run)
