"""The load generator of the matchers' HTTP benchmark, a process of its own: ``python -m bench.matchers.load``.

Reads a job as JSON, makes every request before the clock of the first round starts, and answers what the rounds took as
JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from bench.exchange import Clock, Closed, request
from bench.process import end_with_parent


def batches(job: dict[str, Any]) -> list[bytes]:
    """Requests of `batch` events each, over all events of the job."""
    found, size = [], job["batch"]
    for at in range(0, len(job["events"]), size):
        events = [{"values": {job["dimension"]: x}} for x in job["events"][at : at + size]]
        body = json.dumps({"events": events, "k": job["k"]}, separators=(",", ":"))
        found.append(request("POST", f"/v1/matchers/{job['matcher']}/match", body.encode()))
    return found


async def run(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Send all batches, once a round."""
    payloads = batches(job)
    results = []
    for _ in range(job["rounds"]):
        clock = Clock(job["pid"])
        result = await Closed(payloads).run(job["port"], job["connections"])
        results.append({**result, **clock.read(), "request_bytes": sum(map(len, payloads)) / len(payloads)})
    return results


def main() -> None:
    import uvloop

    end_with_parent()
    job = json.loads(sys.stdin.buffer.read())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(run(job)), sys.stdout)


if __name__ == "__main__":
    main()
