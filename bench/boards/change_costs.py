"""What a change that is delivered costs the processors of the service, by how it is read.

Machines differ, so a change is judged by its share of a request of the plain route (`bench.boards.floor`), which
commits one row and applies nothing, and which is measured before and after each run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.boards.service import MANY, single_phase
from bench.boards.streams import Load, measure, within_files
from bench.boards.workload import make_world
from bench.process import Failed, Server, floor, run_job
from bench.report import Report

PLAIN = 164.0
"""Microseconds of the processors that a request of the plain route took on the machine where the limits were set."""

WANTED = {"SSE": 20.0, "WebSocket that follows 100": 6.0}
"""The limits: microseconds of the service's processors a change, on that machine."""


class Size(NamedTuple):
    """How much is run: rounds of the readers that are judged, and requests of the plain route beside each."""

    one_each: int = 4_000
    """Readers with one list each."""
    hundred_each: int = 100
    """Sockets with a hundred lists each."""
    seconds: int = 10
    batch: int = 1_000
    rounds: int = 3
    plain: int = 3_000


QUICK = Size(500, 5, 4, 250, 2, 300)


class Cost(NamedTuple):
    """What changes took in one run: microseconds of the service's processors and of the load generator's a change, and
    of the plain route's a request, before and after it.
    """

    us: float
    plain: float
    nbytes: float
    generator: float
    errors: int

    @property
    def share(self) -> float:
        """What a change takes, of a request of the plain route."""
        return self.us / self.plain


def readers(size: Size) -> dict[str, Load]:
    """How changes are read, by name."""
    base = Load(0, 0, seconds=size.seconds, batch=size.batch)
    return {
        "nobody: the events alone": base._replace(unread=size.hundred_each * 100),
        "SSE": within_files(base._replace(sse=size.one_each)),
        "WebSocket that follows 1": base._replace(sockets=size.one_each, follow=1),
        "WebSocket that follows 100": base._replace(sockets=size.hundred_each),
        "the same, each request for all sockets": base._replace(sockets=size.hundred_each, spread=True),
    }


def show(report: Report, size: Size) -> None:
    """Add the benchmark to the report."""
    report.text(
        f"What a delivered change costs: lists changed once a second for {size.seconds} s by requests with "
        f"{size.batch:,} updates. The service's processor time has all in it, from reading the request and committing "
        "it to the write to the reader's connection; a change is one update for one reader. Requests are about one "
        "connection's lists after another's, but for the last row. Before and after each run the processor time is "
        f"measured that a plain FastAPI route takes for a request at {MANY} connections, which commits one row and "
        f"applies nothing; of what is judged, medians of {size.rounds} runs in turn."
    )
    compare(report, readers(size), size.rounds, size.plain)


def compare(report: Report, loads: dict[str, Load], rounds: int, plain: int) -> None:
    """Measure what changes take, and before and after each run `plain` requests of the plain route: a row for each
    load, and a verdict for each that has a limit.
    """
    found: dict[str, list[Cost]] = {name: [] for name in loads}
    with tempfile.TemporaryDirectory() as folder, _plain_route(Path(folder)) as server:
        for number in range(rounds):
            for name, load in loads.items():
                if not number or name in WANTED:
                    found[name].append(_cost(load, server, plain))
    report.table(
        ("reader", "lists", "us a change", "us a plain request", "share", "bytes a change", "generator us", "errors"),
        [(name, f"{loads[name].lists:,}", *_columns(costs)) for name, costs in found.items()],
    )
    for name, wanted in WANTED.items():
        costs = found[name]
        share = median(cost.share for cost in costs)
        report.verdict(
            f"{name}: a delivered change takes at most {wanted / PLAIN:.3f} of the processor time of a plain FastAPI "
            f"request that commits one row ({wanted:.0f} us where that takes {PLAIN:.0f})",
            f"{share:.3f} ({median(cost.us for cost in costs):.1f} us where that takes "
            f"{median(cost.plain for cost in costs):.0f})",
            share <= wanted / PLAIN,
        )


def _columns(costs: list[Cost]) -> tuple[str, ...]:
    """The medians of some runs, and all errors."""
    return (
        f"{median(cost.us for cost in costs):.1f}",
        f"{median(cost.plain for cost in costs):.0f}",
        f"{median(cost.share for cost in costs):.3f}",
        f"{median(cost.nbytes for cost in costs):.0f}",
        f"{median(cost.generator for cost in costs):.1f}",
        f"{sum(cost.errors for cost in costs)}",
    )


def _cost(load: Load, plain: Server, requests: int) -> Cost:
    """One run, between two measurements of the plain route."""
    before = _plain_us(plain, requests)
    found = measure(load)
    after = _plain_us(plain, requests)
    changes = load.lists * load.seconds
    return Cost(
        found["server_cpu"] / changes * 1e6,
        (before + after) / 2,
        found["nbytes"] / changes,
        found["own_cpu"] / changes * 1e6,
        found["errors"],
    )


@contextmanager
def _plain_route(folder: Path) -> Iterator[Server]:
    """The plain route in a process of its own, warmed up."""
    with floor(folder, "bare") as server:
        _plain_us(server, MANY)
        yield server


def _plain_us(server: Server, requests: int) -> float:
    """Microseconds of the processors that the plain route takes for a request."""
    job: dict[str, Any] = {
        **make_world(requests, 1).job("plain"),
        "servers": {"bare": {"port": server.port, "pid": server.pid}},
        "phases": [{**single_phase(requests), "server": "bare"}],
    }
    (result,) = run_job("bench.boards.load", job)
    if set(result["statuses"]) != {"200"}:
        raise Failed(f"the plain route answered {result['statuses']}")
    return float(result["server_cpu"] / requests * 1e6)
