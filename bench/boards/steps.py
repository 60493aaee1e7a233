"""`rankcast bench steps`: a small write on one connection, step by step, and the floor below it."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.boards.load import Events
from bench.boards.marked import STEPS
from bench.boards.service import BOARD, K, make_board, register
from bench.boards.workload import make_world
from bench.exchange import Closed
from bench.process import HOST, Failed, floor, service, serving
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "steps.md"

FLOOR = ("commit",)
"""Steps that no code of ours can shorten; so is what the client waits for beside all steps."""

MORE = (
    " Where others share the machine, times are longer the more of them there are, and the least tenth compares better "
    "than the median."
)


class Size(NamedTuple):
    """How much is run: requests a round."""

    n: int = 10_000
    m: int = 200_000
    rounds: int = 20
    requests: int = 250


QUICK = Size(m=20_000, rounds=2, requests=100)

WANTED = 0.35 / 0.5
"""A request takes at most 0.35 ms where one to the plain route takes 0.5."""


class Found(NamedTuple):
    """Seconds: of each step of each request, and from sending to answer at the service with clocks, at the service
    without, and at the plain route.
    """

    steps: list[list[float]]
    timed: list[float]
    service: list[float]
    plain: list[float]


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure, reporting each piece as it is done; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("A small write on one connection, by step", "steps", quick, out, say, MORE) as report:
        report.text(
            f"n = {size.n:,}, m = {size.m:,}, k = {K}. {size.rounds} rounds of {size.requests:,} "
            "`PUT .../objects/{id}?messages=none` with both values, one after the other on one connection, and as many "
            "to a plain FastAPI route that commits one row through the same writer and log and applies nothing. "
            "They take turns. Microseconds by the clock. The steps are those of a service with clocks between them; "
            "another one, without, is judged."
        )
        show(report, _measure(size))
    return report


def show(report: Report, found: Found) -> None:
    """Write the table, and judge the whole."""
    if not found.steps:
        raise Failed("no request went through all steps")
    columns = list(zip(*found.steps, strict=True))
    rows, floor = [], [0.0, 0.0]
    rest = [tenth(found.timed), median(found.timed)]
    for mark, text, seconds in zip(STEPS, STEPS.values(), columns, strict=True):
        both = tenth(seconds), median(seconds)
        rest = [whole - one for whole, one in zip(rest, both, strict=True)]
        if mark in FLOOR:
            floor = [whole + one for whole, one in zip(floor, both, strict=True)]
        rows.append((text, *map(_us, both)))
    rows.append(("the rest: loop, kernel, client", *map(_us, rest)))
    floor = [whole + one for whole, one in zip(floor, rest, strict=True)]
    rows.append(("**all, as the client sees it**", _us(tenth(found.timed)), _us(median(found.timed))))
    rows.append(("of that the floor: commit and rest", *map(_us, floor)))
    rows.append(("**all, without clocks**", _us(tenth(found.service)), _us(median(found.service))))
    rows.append(("plain FastAPI route that commits one row", _us(tenth(found.plain)), _us(median(found.plain))))
    report.table(("step", "least tenth, us", "median"), rows)
    times = median(found.service) / median(found.plain)
    measured = f"{_us(median(found.service))} us against {_us(median(found.plain))}, {times:.2f} times as long"
    route = "a plain FastAPI route that commits one row"
    report.verdict(f"at one connection no slower than {route}, by the median", measured, times <= 1.0)
    report.verdict(
        f"at one connection at most 0.35 ms where {route} takes 0.5, by the median", measured, times <= WANTED
    )


def tenth(seconds: Sequence[float]) -> float:
    """A value that a tenth lie below.

    >>> tenth([5.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0])
    2.0
    """
    return sorted(seconds)[len(seconds) // 10]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}"


def _measure(size: Size) -> Found:
    world = make_world(size.n, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = folder / "steps.json"
        with ExitStack() as stack:
            options = ["serve", "--host", HOST, "--data", str(folder / "marked")]
            marked = ["-m", "bench.boards.marked", str(times), *options]
            with_clocks = stack.enter_context(serving(folder, "marked", marked, "json"))
            without = stack.enter_context(service(folder))
            for server in (with_clocks, without):
                server.settle()
                make_board(server, world)
                register(server, size.m)
            servers = with_clocks, without, stack.enter_context(floor(folder, "bare"))
            seconds: tuple[list[float], ...] = [], [], []
            events = Events(world.job(BOARD))
            for at in range(size.rounds):
                payloads = events.singles(size.requests, "?messages=none")
                # Each is as often the first of a round as the others.
                for each in range(len(servers)):
                    one = (at + each) % len(servers)
                    seconds[one].extend(asyncio.run(_round(servers[one].port, payloads)))
        return Found(json.loads(times.read_text()), *seconds)


async def _round(port: int, payloads: Sequence[bytes]) -> list[float]:
    load = Closed(payloads)
    answered = await load.run(port, 1)
    if set(load.statuses) - {200, 201}:
        raise Failed(f"requests were answered {load.statuses}: {answered['last']}")
    return load.seconds
