"""Single writes to all five resources over HTTP and over a socket, beside a plain FastAPI route that commits one row.

Both are processes of their own with a durable log, and take turns round by round; the load generator is a third.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

from bench.boards.load import Events
from bench.boards.service import BATCH, BOARD, FASTER_WANTED, FEW, MANY, SINGLE_WANTED, WINDOW, judge_share
from bench.boards.workload import make_world
from bench.closed_loop import RATE_COLUMNS, Result, rate_columns, rates
from bench.process import Failed, Server, floor, run_job, service
from bench.report import RESULTS, Report, page, ratio
from bench.service.writes import QUICK, RESOURCES, Request, Size, Write

PAGE = RESULTS / "service.md"

WAYS = {"many": f"{MANY} connections", "one": "one connection", "socket": f"one socket, window {WINDOW}"}
PLAIN = "plain FastAPI route that commits one row"

HEAD = ("", "by", "requests/s", *RATE_COLUMNS, "server CPU, us/request", "times plain")


Rounds: TypeAlias = dict[str, list[Result]]
"""The results of rounds, by what was sent in them."""


class Measured(NamedTuple):
    """A kind of write, what `Bench.measure` returned for it, and what the page says about it."""

    name: str
    found: Rounds
    about: str


class Bench:
    """A service and a plain route, and rounds of both in turns."""

    def __init__(self, servers: dict[str, Server], size: Size) -> None:
        self._servers = servers
        self._size = size
        world = make_world(size.objects, 1)
        self._events = Events(world.job(BOARD, seed=6))
        self._plain = self._events.puts("")

    def measure(self, write: Write) -> Rounds:
        """The rounds of a kind of write by way, and of the plain route at as many connections as `plain many` and
        `plain one`; the first of each only warms up and is left out. Raises `Failed` for a refusal."""
        size, phases, names = self._size, [], []
        for _ in range(size.rounds + 1):
            for name, connections, requests in (("many", MANY, size.many), ("one", 1, size.one)):
                phases.append(self._phase("service", list(islice(write.requests, requests)), connections=connections))
                plain = [("PUT", path, body) for path, body in islice(self._plain, requests)]
                phases.append(self._phase("plain", plain, connections=connections))
                names += [name, f"plain {name}"]
            phases.append(self._phase("service", list(islice(write.requests, size.socket)), window=WINDOW))
            names.append("socket")
        return self._run(write.name, names, phases)

    def measure_batches(self) -> Rounds:
        """The rounds of batches of events, and of a bare route that parses the same; the first of each is left out."""
        phases, names = [], []
        for _ in range(self._size.rounds + 1):
            posts = islice(self._events.posts(BATCH, "count"), self._size.batches)
            requests = [("POST", path, body) for path, body in posts]
            for name, server in (("batches", "service"), ("parse", "plain")):
                phases.append(self._phase(server, requests, connections=FEW))
                names.append(name)
        return self._run("batches of events", names, phases)

    def _run(self, write: str, names: list[str], phases: list[dict[str, Any]]) -> Rounds:
        """The results of phases by their names, without the first of each. Raises `Failed` for a refusal."""
        servers = {name: {"port": one.port, "pid": one.pid} for name, one in self._servers.items()}
        found: Rounds = {name: [] for name in names}
        for name, result in zip(
            names, run_job("bench.service.load", {"servers": servers, "phases": phases}), strict=True
        ):
            if not set(result["statuses"]) <= {"200", "201"}:
                raise Failed(f"{write}: {name} is answered {result['statuses']}: {result['last']}")
            found[name].append(result)
        return {name: results[1:] for name, results in found.items()}

    @staticmethod
    def _phase(server: str, requests: list[Request], **how: int) -> dict[str, Any]:
        return {"server": server, "requests": requests, **how}


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure, reporting each piece as it is done; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("Single writes to all resources", "service", quick, out, say) as report:
        report.text(
            f"One service holds a board of {size.objects:,} objects and {size.subscriptions:,} subscriptions, a "
            f"matcher of {size.intervals:,}, a relay after {size.boxes:,} commands, a map of {size.places:,} objects "
            f"and {size.queries:,} standing queries that nobody follows, and a feed of {size.posts:,} posts and "
            f"{size.feed_subscriptions:,} subscriptions. {size.rounds} rounds of {size.many:,} requests over {MANY} "
            f"connections, {size.one:,} over one, and {size.socket:,} over one WebSocket with {WINDOW} of them under "
            f"way, each with one write. The plain route is FastAPI with a pydantic body; it commits one row through "
            f"the same writer, group commit and log, and applies nothing. Rounds alternate; ratios are medians of "
            f"those of the rounds, of the socket to the plain route at {MANY} connections."
        )
        measured, batches = _measured(size, report)
        report.table(HEAD, [row for one in measured for row in _rows(one.name, one.found)], text=("by",))
        report.text(" ".join(one.about for one in measured if one.about))
        _show_batches(size, report, batches)
        for one in measured:
            judge(report, one.name, one.found)
    return report


def _measured(size: Size, report: Report) -> tuple[list[Measured], Rounds]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        servers = {
            "service": stack.enter_context(service(folder)),
            "plain": stack.enter_context(floor(folder, "bare")),
        }
        bench = Bench(servers, size)
        measured = []
        for fill in RESOURCES:
            report.progress(f"filling {fill.__name__}")
            for write in fill(servers["service"], size):
                report.progress(write.name)
                measured.append(Measured(write.name, bench.measure(write), write.about()))
        report.progress("batches of events")
        return measured, bench.measure_batches()


def _show_batches(size: Size, report: Report, found: Rounds) -> None:
    report.text(
        f"On the board, {size.rounds} rounds of {size.batches} bodies with {BATCH:,} updates each, `messages=count`, "
        f"over {FEW} connections; and the same bodies to a bare FastAPI route that validates them by pydantic models "
        "and does nothing with them."
    )
    every = zip(rates(found["batches"], BATCH), rates(found["parse"], BATCH), strict=True)
    share = median(a / b for a, b in every)
    report.table(
        ("", "events/s", *RATE_COLUMNS, "server CPU, us/event", "of bare"),
        [
            (f"batches of {BATCH:,}", *rate_columns(found["batches"], BATCH), ratio(share)),
            ("the same, parsed alone", *rate_columns(found["parse"], BATCH), "1"),
        ],
    )
    judge_share(report, f"n = {size.objects:,}, m = {size.subscriptions:,}", share)


def _rows(name: str, found: Rounds) -> list[tuple[str, ...]]:
    rows = []
    for way, text in WAYS.items():
        rows.append((name, text, *rate_columns(found[way], 1), ratio(_times_plain(found, way))))
        if f"plain {way}" in found:
            rows.append(("", f"{text}, plain", *rate_columns(found[f"plain {way}"], 1), "1"))
    return rows


def _times_plain(found: Rounds, way: str) -> float:
    plain = found["plain one" if way == "one" else "plain many"]
    return median(a / b for a, b in zip(rates(found[way], 1), rates(plain, 1), strict=True))


def judge(report: Report, name: str, found: Rounds) -> None:
    """Judge the three targets of a kind of write by what `Bench.measure` returned."""
    many, one, socket = (_times_plain(found, way) for way in WAYS)
    ours, plain = _p99(found["many"]), _p99(found["plain many"])
    report.verdict(
        f"{name}: at {MANY} connections at least {SINGLE_WANTED} times as fast as a {PLAIN}, with p99 no worse",
        f"{ratio(many)} times, p99 {ours:.1f} ms against {plain:.1f}",
        many >= SINGLE_WANTED and ours <= plain,
    )
    report.verdict(f"{name}: at one connection no slower than a {PLAIN}", f"{ratio(one)} times as fast", one >= 1.0)
    report.verdict(
        f"{name}: over one socket with a window of {WINDOW} at least {FASTER_WANTED:.0f} times as fast as a {PLAIN} at "
        f"{MANY} connections",
        f"{ratio(socket)} times",
        socket >= FASTER_WANTED,
    )


def _p99(results: Sequence[Result]) -> float:
    return median(one["ms"]["p99"] for one in results)
