"""The load generator of the single writes, a process of its own: ``python -m bench.service.load``.

Reads a job as JSON, makes every request of a phase before its clock starts, and answers what the phases took as JSON.
"""

from __future__ import annotations

from typing import Any

from bench.closed_loop import Result, generate, send_round
from bench.exchange import request
from bench.socket_exchange import frame, send_frames


async def run(job: dict[str, Any]) -> list[Result]:
    """Send the requests of each phase to one of the job's servers: one at a time over each of so many `connections`,
    or as frames of one socket, of which a `window` is under way."""
    results = []
    for phase in job["phases"]:
        server = job["servers"][phase["server"]]
        if "window" in phase:
            results.append(await send_frames(_frames(phase["requests"]), server, phase["window"]))
        else:
            payloads = [request(method, path, body.encode()) for method, path, body in phase["requests"]]
            results.append(await send_round(payloads, server, phase["connections"]))
    return results


def _frames(requests: list[tuple[str, str, str]]) -> list[bytes]:
    return [
        frame(f'{{"op":"request","ref":{ref},"method":"{method}","path":"{path}","body":{body}}}'.encode())
        for ref, (method, path, body) in enumerate(requests)
    ]


if __name__ == "__main__":
    generate(run)
