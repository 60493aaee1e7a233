"""The service over HTTP: a million subscriptions in one request, then events in batches, answers included.

Measured against `rankcast serve` in a process of its own with its durable log, by a load generator in another. Answers
are compared with a scan before anything is said of their speed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.matchers.workload import K, World, make_world
from bench.process import Failed, Server, run_job, service
from bench.report import Report, count

MATCHER, DIMENSION = "bench", "x"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS_WANTED = 50_000.0
BATCH, CONNECTIONS, CHECKED = 1_000, 2, 50


class Size(NamedTuple):
    """How much is run: subscriptions, and rounds of so many batches."""

    n: int = 1_000_000
    rounds: int = 5
    batches: int = 50


QUICK = Size(n=50_000, rounds=2, batches=5)


def show(report: Report, size: Size) -> None:
    """Register, compare, and send the rounds; the first only warms up. Raises `Failed` for a wrong answer."""
    world = make_world(size.n, points=size.batches * BATCH)
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as server:
        seconds = _register(server, world)
        _compare(server, world)
        job = {
            "matcher": MATCHER,
            "dimension": DIMENSION,
            "events": world.points[:, 0].tolist(),
            "batch": BATCH,
            "k": K,
            "rounds": size.rounds + 1,
            "connections": CONNECTIONS,
            "port": server.port,
            "pid": server.pid,
        }
        results = run_job("bench.matchers.load", job)[1:]
        resident = server.resident()
    for result in results:
        if set(result["statuses"]) != {"200"}:
            raise Failed(f"matching was answered {result['statuses']}: {result['last']}")
    _report(report, size, results, seconds, resident)


def _register(server: Server, world: World) -> float:
    """Make the matcher and send all subscriptions in one request; the seconds that took."""
    n = len(world.lo)
    server.ask("PUT", f"/v1/matchers/{MATCHER}", json.dumps({"dimensions": [DIMENSION], "mode": "exact"}).encode())
    table = pa.table(
        {
            "id": pa.array([f"s{i}" for i in range(n)]),
            "score": world.weight[:, 0],
            f"{DIMENSION}_min": world.lo[:, 0],
            f"{DIMENSION}_max": world.hi[:, 0],
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    _, seconds, _ = server.send(f"/v1/matchers/{MATCHER}/subscriptions", sink.getvalue().to_pybytes(), ARROW)
    found = server.ask("GET", f"/v1/matchers/{MATCHER}")["subscriptions"]
    if found != n:
        raise Failed(f"{n} subscriptions were sent, the matcher has {found}")
    return seconds


def _compare(server: Server, world: World) -> None:
    events = world.points[:CHECKED, 0]
    body = json.dumps({"events": [{"values": {DIMENSION: x}} for x in events.tolist()], "k": K})
    results = server.ask("POST", f"/v1/matchers/{MATCHER}/match", body.encode())["results"]
    for x, result in zip(events, results, strict=True):
        met = np.flatnonzero((world.lo[:, 0] <= x) & (x <= world.hi[:, 0]))
        best = met[np.lexsort((met, -world.weight[met, 0]))][:K]
        wanted = [(f"s{i}", world.weight[i, 0]) for i in best.tolist()]
        if [(one["id"], one["score"]) for one in result["winners"]] != wanted:
            raise Failed(f"the winners of {x!r} are not those of a scan")


def _report(report: Report, size: Size, results: list[dict[str, Any]], seconds: float, resident: int) -> None:
    one = results[0]
    report.text(
        f"{size.n:,} subscriptions, one dimension, exact, k = {K}, registered as one Arrow stream in {seconds:.1f} s; "
        f"{size.rounds} rounds of {size.batches} JSON bodies with {BATCH:,} events each "
        f"({one['request_bytes'] / 1024:.0f} KiB a request, {one['answer_bytes'] / one['requests'] / 1024:.0f} KiB an "
        f"answer), {CONNECTIONS} connections that send the next when the last is answered. {CHECKED} answers were "
        "compared with a scan."
    )
    rates = [one["requests"] * BATCH / one["elapsed"] for one in results]
    requests, cpu = sum(one["requests"] for one in results), sum(one["server_cpu"] for one in results)
    report.table(
        ("", "events/s", "least and greatest", "ms a batch, p50", "p99", "server CPU, us/event", "resident, MB"),
        [
            (
                "service",
                f"{median(rates):,.0f}",
                f"{min(rates):,.0f}-{max(rates):,.0f}",
                count(median(one["ms"]["p50"] for one in results)),
                count(median(one["ms"]["p99"] for one in results)),
                f"{cpu / (requests * BATCH) * 1e6:.1f}",
                f"{resident / 1e6:,.0f}",
            )
        ],
    )
    report.verdict(
        f"{EVENTS_WANTED:,.0f} events/s in batches of {BATCH:,} over HTTP, answers included",
        f"{median(rates):,.0f} events/s",
        median(rates) >= EVENTS_WANTED,
    )
