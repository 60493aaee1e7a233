"""The service over HTTP: a million subscriptions in one request, then events in batches, answers included.

Measured against `rankcast serve` in a process of its own with its durable log, by a load generator in another. Answers
are compared with a scan before their speed is measured.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.closed_loop import RATE_COLUMNS, Result, closed_loop, rate_columns, rates
from bench.matchers.workload import K, World, make_world
from bench.process import Failed, Server, service
from bench.report import Report

PATH, DIMENSION = "/v1/matchers/bench", "x"
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
        seconds = register(server, world)
        _compare(server, world)
        events = world.points[:, 0].tolist()
        bodies = [match_body(events[at : at + BATCH]) for at in range(0, len(events), BATCH)]
        results = closed_loop(server, f"{PATH}/match", bodies, size.rounds, CONNECTIONS)
        resident = server.resident()
    _report(report, size, results, seconds, resident)


def match_body(events: list[float]) -> str:
    """A request for the winners of these events."""
    return json.dumps({"events": [{"values": {DIMENSION: x}} for x in events], "k": K}, separators=(",", ":"))


def register(server: Server, world: World) -> float:
    """Make the matcher and send all subscriptions in one request; the seconds that took."""
    n = len(world.lo)
    server.ask("PUT", PATH, json.dumps({"dimensions": [DIMENSION], "mode": "exact"}).encode())
    ids = pa.array([f"s{i}" for i in range(n)])
    ends = {f"{DIMENSION}_min": world.lo[:, 0], f"{DIMENSION}_max": world.hi[:, 0]}
    seconds = server.send_table(f"{PATH}/subscriptions", pa.table({"id": ids, "score": world.weight[:, 0], **ends}))
    server.expect(PATH, "subscriptions", n)
    return seconds


def _compare(server: Server, world: World) -> None:
    events = world.points[:CHECKED, 0]
    results = server.ask("POST", f"{PATH}/match", match_body(events.tolist()).encode())["results"]
    for x, result in zip(events, results, strict=True):
        met = np.flatnonzero((world.lo[:, 0] <= x) & (x <= world.hi[:, 0]))
        best = met[np.lexsort((met, -world.weight[met, 0]))][:K]
        wanted = [(f"s{i}", world.weight[i, 0]) for i in best.tolist()]
        if [(one["id"], one["score"]) for one in result["winners"]] != wanted:
            raise Failed(f"the winners of {x!r} are not those of a scan")


def _report(report: Report, size: Size, results: list[Result], seconds: float, resident: int) -> None:
    one = results[0]
    report.text(
        f"{size.n:,} subscriptions, one dimension, exact, k = {K}, registered as one Arrow stream in {seconds:.1f} s; "
        f"{size.rounds} rounds of {size.batches} JSON bodies with {BATCH:,} events each "
        f"({one['request_bytes'] / 1024:.0f} KiB a request, {one['answer_bytes'] / one['requests'] / 1024:.0f} KiB an "
        f"answer), {CONNECTIONS} connections that send the next when the last is answered. {CHECKED} answers were "
        "compared with a scan."
    )
    report.table(
        ("", "events/s", *RATE_COLUMNS, "server CPU, us/event", "resident, MB"),
        [("service", *rate_columns(results, BATCH), f"{resident / 1e6:,.0f}")],
    )
    rate = median(rates(results, BATCH))
    report.verdict(
        f"{EVENTS_WANTED:,.0f} events/s in batches of {BATCH:,} over HTTP, answers included",
        f"{rate:,.0f} events/s",
        rate >= EVENTS_WANTED,
    )
