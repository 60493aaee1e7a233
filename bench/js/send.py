"""The writing side of `rankcast bench js`, a process of its own: ``python -m bench.js.send``.

Sends small requests evenly over each second, whose updates give every object a new y some times a second: when the
request is due, in milliseconds since the epoch.
"""

from __future__ import annotations

import time
from typing import Any

from bench.closed_loop import generate
from bench.exchange import Paced, milliseconds, request

CONNECTIONS = 8
LAST_SECONDS = 20.0


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """Send all requests; when each was due and answered, in milliseconds since the epoch, and what was wrong."""
    paced = Paced()
    await paced.open(job["port"], CONNECTIONS)
    start = time.perf_counter() + 0.5
    epoch = time.time() - time.perf_counter()
    groups = job["lists"] // job["batch"]
    each = 1.0 / (groups * job["rounds"])
    for n in range(groups * job["rounds"] * job["seconds"]):
        due = start + n * each
        first = n % groups * job["batch"]
        y = round((epoch + due) * 1e3, 3)
        events = ",".join(
            f'{{"op":"update","id":"o{i}","values":{{"y":{y}}}}}' for i in range(first, first + job["batch"])
        )
        body = f'{{"messages":"none","events":[{events}]}}'
        await paced.send(due, request("POST", f"/v1/boards/{job['board']}/events", body.encode()))
    missing = await paced.finish(LAST_SECONDS)
    answered = {
        round((epoch + answer.due) * 1e3, 3): round((epoch + answer.due + answer.seconds) * 1e3, 3)
        for answer in paced.answers
    }
    refused = [answer.body[:200].decode(errors="replace") for answer in paced.answers if answer.status != 200]
    return {
        "missing": missing,
        "answered": list(answered.items()),
        "refused": refused[:5],
        "seconds": time.perf_counter() - start,
        "answer_ms": milliseconds([answer.seconds for answer in paced.answers]),
    }


if __name__ == "__main__":
    generate(run)
