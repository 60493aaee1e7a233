"""Requests in a closed loop, by a process of its own (``python -m bench.closed_loop``), and the columns of its rates.

The process reads a job as JSON, makes every request before the clock of the first round starts, and answers what the
rounds took as JSON. `generate` is what the other load generators begin with too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from statistics import median
from typing import Any

from bench.exchange import Clock, Closed, request
from bench.process import Failed, Server, end_with_parent, run_job
from bench.report import count

Result = dict[str, Any]
"""What a round took: see `Closed.run` and `Clock.read`; and the mean `request_bytes`."""

RATE_COLUMNS = ("least and greatest", "ms p50", "p99")


def closed_loop(server: Server, path: str, bodies: Sequence[str], rounds: int, connections: int) -> list[Result]:
    """POST the bodies to a path, once a round; the first round only warms up and is left out.

    Raises:
        Failed: a request is refused.
    """
    job = {"path": path, "bodies": bodies, "rounds": rounds + 1, "connections": connections}
    results: list[Result] = run_job("bench.closed_loop", {**job, "port": server.port, "pid": server.pid})
    for result in results:
        if set(result["statuses"]) != {"200"}:
            raise Failed(f"{path} is answered {result['statuses']}: {result['last']}")
    return results[1:]


def rates(results: Sequence[Result], each: int) -> list[float]:
    """Items a second in each round, of requests with so many items."""
    return [one["requests"] * each / one["elapsed"] for one in results]


def rate_columns(results: Sequence[Result], each: int, digits: int = 1) -> tuple[str, ...]:
    """The median rate, its range, the latency of a request (p50, p99), and microseconds of the server's processors for
    an item, of requests with so many items."""
    every = rates(results, each)
    items, cpu = sum(one["requests"] for one in results) * each, sum(one["server_cpu"] for one in results)
    return (
        f"{median(every):,.0f}",
        f"{min(every):,.0f}-{max(every):,.0f}",
        count(median(one["ms"]["p50"] for one in results)),
        count(median(one["ms"]["p99"] for one in results)),
        f"{cpu / items * 1e6:.{digits}f}",
    )


async def send_round(payloads: Sequence[bytes], server: dict[str, Any], connections: int) -> Result:
    """Send all requests to a server, which is its `port` and `pid`."""
    clock = Clock(server["pid"])
    result = await Closed(payloads).run(server["port"], connections)
    return {**result, **clock.read(), "request_bytes": sum(map(len, payloads)) / len(payloads)}


async def run(job: dict[str, Any]) -> list[Result]:
    """Send all bodies, once a round."""
    payloads = [request("POST", job["path"], body.encode()) for body in job["bodies"]]
    return [await send_round(payloads, job, job["connections"]) for _ in range(job["rounds"])]


def generate(run: Callable[[dict[str, Any]], Coroutine[Any, Any, Any]]) -> None:
    """The main function of a load generator: read a job, run it, print what it returns."""
    import uvloop

    end_with_parent()
    job = json.loads(sys.stdin.buffer.read())
    # A full collection over what was received stops all connections, for tens of milliseconds, which would be taken
    # for a pause of the service.
    gc.disable()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(run(job)), sys.stdout)


if __name__ == "__main__":
    generate(run)
