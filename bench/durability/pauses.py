"""`rankcast bench pauses`: the longest time to an answer while a snapshot, or a rebuild with its swap, goes on."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.boards.service import BOARD, K, board_service, register
from bench.durability.service import OPTIONS, run_to_end
from bench.durability.steady import REQUESTS, Steady
from bench.exchange import milliseconds
from bench.process import Failed
from bench.report import RESULTS, Report, count, page, spread

PAGE = RESULTS / "pauses.md"

WANTED = 50.0
"""Milliseconds."""

SETTLING = 2.0
"""Seconds after a job that still count as its own: old snapshots and rows of the log go, and memory."""

JOBS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("snapshot", "snapshots", {}),
    ("rebuild and swap", "rebuilds", {"engine": "local"}),
)


class Size(NamedTuple):
    """How much is run; `quiet` seconds without a job in each round."""

    n: int = 10_000
    m: int = 2_000_000
    events: int = 1_000
    rounds: int = 10
    quiet: float = 6.0


QUICK = Size(m=100_000, rounds=1, quiet=2.0)


class Span(NamedTuple):
    """One stretch of the load: how long the job took, and the seconds to each answer that was due in it."""

    seconds: float
    answers: list[float]


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Run it, reporting each piece as it is done; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("Pauses: answers during snapshots and swaps", "pauses", quick, out, say) as report:
        report.text(
            f"n = {size.n:,}, m = {size.m:,}, k = {K}. {size.events:,} events/s in {REQUESTS} requests a second, every "
            "twentieth of them a subscription's new range in place of events; each is a durable write. The time of an "
            "answer counts from when its request was due. In each of "
            f"{size.rounds} rounds {size.quiet:g} s without a job, a snapshot, and a rebuild on this machine with the "
            f"swap of its indexes, each with the {SETTLING:g} s behind it, in which old snapshots and rows of the log "
            "are deleted. Where others share the machine, the row without a job says what they cost."
        )
        spans = asyncio.run(_measure(size))
        show(report, spans)
    return report


def show(report: Report, spans: dict[str, list[Span]]) -> None:
    """Write the table, and judge each job."""
    rows = []
    for name, each in spans.items():
        whole = milliseconds([seconds for span in each for seconds in span.answers])
        longest = [1e3 * max(span.answers) for span in each]
        over = sum(1e3 * seconds > WANTED for span in each for seconds in span.answers)
        rows.append(
            (
                name,
                count(median(span.seconds for span in each)),
                f"{sum(len(span.answers) for span in each):,}",
                f"{whole['p50']:.1f}",
                f"{whole['p99']:.1f}",
                f"{median(longest):.1f} {spread(longest)}",
                f"{over:,}",
            )
        )
    head = ("during", "seconds", "answers", "p50, ms", "p99", "longest of a round: median, least, greatest")
    report.table((*head, f"answers over {WANTED:g} ms"), rows)
    for name, each in spans.items():
        if name != "no job":
            longest = [1e3 * max(span.answers) for span in each]
            report.verdict(
                f"no answer over {WANTED:g} ms during a {name}",
                f"{max(longest):.1f} ms the longest of {len(each)} rounds, {median(longest):.1f} ms in the median",
                max(longest) <= WANTED,
            )


async def _measure(size: Size) -> dict[str, list[Span]]:
    with tempfile.TemporaryDirectory() as name, board_service(size, Path(name), *OPTIONS) as (server, _):
        await asyncio.to_thread(register, server, size.m)
        steady = Steady(server.port, BOARD, size.n, size.m, size.events)
        sending = asyncio.create_task(steady.run())
        await asyncio.sleep(SETTLING)
        times: dict[str, list[tuple[float, float]]] = {"no job": [], **{name: [] for name, _, _ in JOBS}}
        for _ in range(size.rounds):
            times["no job"].append(await _timed(asyncio.sleep, size.quiet))
            for name, kind, body in JOBS:
                times[name].append(await _timed(asyncio.to_thread, run_to_end, server, kind, body))
            if sending.done():
                break
        steady.stop()
        # Only when all is answered are the late ones among the answers.
        await sending
        wrong = sum(answer.status != 200 for answer in steady.answers)
        if wrong:
            raise Failed(f"{wrong} requests were refused")
        return {
            name: [Span(end - begin, steady.between(begin, end + SETTLING)) for begin, end in each]
            for name, each in times.items()
        }


async def _timed(work: Callable[..., Awaitable[Any]], *arguments: Any) -> tuple[float, float]:
    """When it began and ended; returns a moment later."""
    began = time.perf_counter()
    await work(*arguments)
    ended = time.perf_counter()
    await asyncio.sleep(SETTLING)
    return began, ended
