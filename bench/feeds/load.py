"""The load generator of the feeds' HTTP benchmark, a process of its own: ``python -m bench.feeds.load``.

Reads a job as JSON, opens streams, sends the rounds of posts, and answers what they took as JSON. Requests are made
before the first round's clock starts. In the end each stream, applied change by change, is compared with the list that
the service answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from bench.exchange import Clock, Closed, request
from bench.process import Failed, end_with_parent
from bench.wire import SseCapture, open_capture, sse_opening

LAST_SECONDS = 60.0


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """Open, send, compare. Raises `Failed` for a stream that says another list than the service."""
    port, path = job["port"], f"/v1/feeds/{job['feed']}"
    streams: dict[str, SseCapture] = {}
    for id in job["streams"]:
        opening = sse_opening(f"{path}/subscriptions/{id}/stream")
        streams[id] = await open_capture(port, lambda opening=opening: SseCapture(opening, lambda _: None))
    async with asyncio.timeout(LAST_SECONDS):
        while not all(one.pieces for one in streams.values()):
            await asyncio.sleep(0.01)
    rounds = [[request("POST", f"{path}/posts", body.encode()) for body in bodies] for bodies in job["rounds"]]
    results = []
    for payloads in rounds:
        clock = Clock(job["pid"])
        result = await Closed(payloads).run(port, job["connections"])
        results.append({**result, **clock.read(), "request_bytes": sum(map(len, payloads)) / len(payloads)})
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
    """The list that a stream has told: a change takes out what it names, and puts in what has a new rank."""
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


def main() -> None:
    import uvloop

    end_with_parent()
    job = json.loads(sys.stdin.buffer.read())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(run(job)), sys.stdout)


if __name__ == "__main__":
    main()
