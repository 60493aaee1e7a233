"""`rankcast bench compare`: is this checkout slower than another one? Kernels and services of both, in alternation.

Every kernel is run by a process of each checkout, and every kind of request is sent to a service of each, turn by turn
in short rounds, so that what disturbs the machine disturbs both. Times are of processors, not by the wall.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.commits import cases, requests
from bench.commits.requests import RESOURCES, Burst
from bench.exchange import Closed, converse
from bench.process import NDJSON, OURS, Checkout, Failed, Server, Worker, cpu_seconds, service
from bench.report import RESULTS, Report, commit, count, page

PAGE = RESULTS / "compare.md"

SLOWER = 1.03
"""So many times the time of the base is slower."""

GENERATIONS = 3
"""So many times all processes start afresh: where a process has its memory can alone make some percent."""

MORE = 2
"""Further generations of the resources of which a case looks slower."""

KERNEL_ROUNDS = 10
"""Of a generation, as those of requests."""

SETTLE_SECONDS = 60.0


class Case(NamedTuple):
    """Microseconds of processor time an item, in each round, of the base and of this checkout; and by the wall."""

    name: str
    base: list[float]
    ours: list[float]
    walls: tuple[list[float], list[float]] = ([], [])

    @property
    def typical(self) -> float:
        """The median of the ratios within a round."""
        return median(b / a for a, b in zip(self.base, self.ours, strict=True))

    @property
    def least(self) -> float:
        """The ratio of the least times."""
        return min(self.ours) / min(self.base)

    @property
    def slower(self) -> bool:
        """Whether both say so: one alone is noise."""
        return min(self.typical, self.least) > SLOWER

    def extend(self, more: Case) -> None:
        """Add the rounds of another generation."""
        for mine, other in ((self.base, more.base), (self.ours, more.ours), *zip(self.walls, more.walls, strict=True)):
            mine.extend(other)

    def row(self) -> tuple[str, ...]:
        times = (count(value) for value in (median(self.base), median(self.ours), min(self.base), min(self.ours)))
        base, ours = self.walls
        wall = f"{median(b / a for a, b in zip(base, ours, strict=True)):.3f}" if base else ""
        return (self.name, *times, f"{self.typical:.3f}", f"{self.least:.3f}", wall)


def run(base: Path, quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Compare this checkout with that in a folder; with `out` the page is written there. `quick` runs it small.

    Raises:
        Failed: a process of either ends, or a request is refused.
    """
    size = requests.QUICK if quick else requests.Size()
    checkouts = Checkout.at(base.resolve()), OURS
    with page("Two commits in alternation", f"compare --base {base.name}", quick, out, say) as report:
        report.text(
            f"Base: commit {commit(checkouts[0].root)}. Ours: commit {commit()}. Microseconds of processor time an "
            f"item (of the thread for kernels, of the service's process for requests), in {_rounds(quick)} rounds for "
            f"kernels and {size.rounds} for requests, in alternation, {_generations(quick)} times in fresh processes: "
            "medians and least of both; ours as a multiple of the base, the median of the rounds and that of the "
            "least; and by the wall, with the writes to the log. A case is slower if both multiples are above "
            f"{SLOWER}, which up to {MORE} more times are to confirm.\n\n"
            f"Services hold a board of {size.objects:,} objects and {size.subscriptions:,} subscriptions, a matcher of "
            f"{size.subscriptions:,}, a relay after {size.boxes:,} commands, a map of {size.places:,} objects and "
            f"{size.queries:,} standing queries, and a feed of {size.posts:,} posts and {size.subscriptions // 4:,} "
            f"subscriptions. Kernels: {cases.M:,} subscriptions of a board of {cases.N:,} objects, 50,000 to 200,000 "
            "of the others."
        )
        found = _all(report, checkouts, size, quick)
        head = "us median, base", "ours", "least, base", "ours", "median of ratios", "ratio of the least", "by the wall"
        report.table(("case", *head), [one.row() for one in found])
        slower = [one.name for one in found if one.slower]
        worst = max(found, key=lambda one: min(one.typical, one.least))
        report.verdict(
            f"no case more than {SLOWER - 1:.0%} slower than the base",
            f"slower: {', '.join(slower) or 'none'}; the most is {min(worst.typical, worst.least):.3f} ({worst.name})",
            not slower,
        )
    return report


def _rounds(quick: bool) -> int:
    return 3 if quick else KERNEL_ROUNDS


def _generations(quick: bool) -> int:
    return 1 if quick else GENERATIONS


def _all(report: Report, checkouts: tuple[Checkout, Checkout], size: requests.Size, quick: bool) -> list[Case]:
    """All cases, with the rounds of all generations; resources with a case that looks slower get more of them."""
    found: dict[str, Case] = {}
    names = [make.__name__ for make in RESOURCES]
    for number in range(1 if quick else GENERATIONS + MORE):
        if number >= GENERATIONS:
            doubtful = {case.name.partition(":")[0] for case in found.values() if case.slower}
            names = [name for name in names if name in doubtful]
        if names:
            kernels = _kernels(report, checkouts, names, _rounds(quick), number == 0)
            for case in (*kernels, *_requests(report, checkouts, names, size)):
                if case.name in found:
                    found[case.name].extend(case)
                else:
                    found[case.name] = case
    return list(found.values())


def _kernels(
    report: Report, checkouts: tuple[Checkout, Checkout], names: list[str], rounds: int, first: bool
) -> list[Case]:
    """The cases that both checkouts have; those that the base has not are named at first."""
    report.progress("kernels")
    workers = [Worker([one.python, "-P", cases.__file__, *names], one.environment(), one.root) for one in checkouts]
    try:
        theirs, mine = (worker.read() for worker in workers)
        found = [Case(name, [], [], ([], [])) for name in mine if name in theirs]
        if len(found) < len(mine) and first:
            report.text(f"Not at the base: {', '.join(name for name in mine if name not in theirs)}.")
        for number in range(rounds):
            for case in found:
                for i in (0, 1) if number % 2 else (1, 0):
                    (case.base, case.ours)[i].append(workers[i].ask(case.name))
    finally:
        for worker in workers:
            worker.end()
    return found


def _requests(
    report: Report, checkouts: tuple[Checkout, Checkout], names: list[str], size: requests.Size
) -> Iterator[Case]:
    """Each kind of request, to services of both with the same content."""
    with ExitStack() as stack:
        servers = []
        for checkout in checkouts:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankcast-compare-")))
            servers.append(stack.enter_context(service(folder, checkout=checkout, settle_seconds=SETTLE_SECONDS)))
        for make in (make for make in RESOURCES if make.__name__ in names):
            report.progress(f"{make.__name__} over HTTP")
            bursts = make(servers, size)
            found = [Case(one.name, [], [], ([], [])) for one in bursts]
            for number in range(size.rounds + 1):
                for case, burst in zip(found, bursts, strict=True):
                    payloads = next(burst.bursts)
                    for i in (0, 1) if number % 2 else (1, 0):
                        cpu, wall = sent(servers[i], burst, payloads)
                        if number:  # the first only warms up
                            (case.base, case.ours)[i].append(cpu)
                            case.walls[i].append(wall)
            yield from found


async def _closed(port: int, burst: Burst, payloads: list[bytes]) -> tuple[set[int], str]:
    """Send a burst in a closed loop; the statuses of the answers, and the beginning of the last."""
    result = await Closed(payloads).run(port, burst.connections)
    return set(result["statuses"]), result["last"]


def sent(server: Server, burst: Burst, payloads: list[bytes]) -> tuple[float, float]:
    """Microseconds an item of a burst: of the service's processor time, and by the wall."""
    before, began = cpu_seconds(server.pid), time.perf_counter()
    if burst.lines:
        _, status, answer = converse(server.port, burst.lines, payloads, NDJSON)
        statuses, last = {status}, answer[-300:].decode()
    else:
        statuses, last = asyncio.run(_closed(server.port, burst, payloads))
    wall = time.perf_counter() - began
    if not statuses <= {200, 201}:
        raise Failed(f"{burst.name}: answered {statuses}: {last}")
    return (cpu_seconds(server.pid) - before) * 1e6 / burst.items, wall * 1e6 / burst.items
