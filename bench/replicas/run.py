"""`rankcast bench replicas`: what a replica costs its leader's writes, what it costs itself, how fast it takes over."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

from bench.closed_loop import Result, closed_loop
from bench.process import HOST, Failed, Server, cpu_seconds, service
from bench.replicas import failing
from bench.report import RESULTS, Report, count, page

PAGE = RESULTS / "replicas.md"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [10]}
PATH = "/v1/boards/b"
SUBSCRIPTIONS_A_REQUEST = 50_000
WAIT = 300.0
RATE = 1_000
"""Events a second."""

JOIN_WANTED = 3

CASES = {
    "alone": "no replica",
    "asynchronous": "one replica",
    "synchronous": "one synchronous replica",
    "passed": "one replica, written at the replica",
}


class Size(NamedTuple):
    """Writes, one after the other, in each of so many rounds; a board of so many objects and subscriptions; reads; and
    a board of `many` subscriptions that takes events for so many seconds.
    """

    writes: int = 300
    rounds: int = 3
    objects: int = 10_000
    subscriptions: int = 200_000
    reads: int = 2_000
    many: int = 2_000_000
    seconds: int = 20


QUICK = Size(20, 1, 100, 1_000, 50, 2_000, 1)


class Pair(NamedTuple):
    """A leader, and the replica that follows it where there is one."""

    leader: Server
    replica: Server | None


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure everything; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("Replicas: what they cost, and how fast they are there", "replicas", quick, out, say) as report:
        with ExitStack() as stack:
            _writes(report, stack, size)
        with ExitStack() as stack:
            _joining(report, stack, size)
        _many(report, size._replace(subscriptions=size.many))
        failing.show(report, size.rounds)
    return report


def _writes(report: Report, stack: ExitStack, size: Size) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    pairs = {case: _pair(stack, folder / case, case) for case in CASES}
    for pair in pairs.values():
        _fill(pair.leader, size._replace(subscriptions=size.subscriptions // 200))
    found: dict[str, list[Result]] = {case: [] for case in CASES}
    applying: dict[str, float] = dict.fromkeys(CASES, 0.0)
    for number in range(size.rounds):
        report.progress(f"writes, round {number + 1} of {size.rounds}")
        for case, pair in pairs.items():
            server = pair.replica if case == "passed" and pair.replica is not None else pair.leader
            other = pair.leader if server is pair.replica else pair.replica
            before = 0.0 if other is None else cpu_seconds(other.pid)
            results = closed_loop(server, f"{PATH}/events", _bodies(size, number), 1, 1)
            _in_step(pair)
            found[case] += results
            # The first round of the load warms up, and is as long as the one that counts.
            applying[case] += 0.0 if other is None else (cpu_seconds(other.pid) - before) / 2
    report.heading("Writes")
    report.text(
        "Writes of one event each, one after the other on one connection, SQLite with its log flushed at each commit.",
        f"{size.rounds} rounds of {size.writes:,} writes, the cases turn by turn, each with services of its own, all",
        "on one machine, which shares its processors and its disk among them. A synchronous replica has a write on",
        "disk before it is answered; at a replica a write is answered once it is visible there.",
    )
    rows = []
    for case, results in found.items():
        p50, p99 = (median(one["ms"][which] for one in results) for which in ("p50", "p99"))
        writes = sum(one["requests"] for one in results)
        asked = sum(one["server_cpu"] for one in results) / writes * 1e6
        applied = f"{applying[case] / writes * 1e6:,.0f}" if case != "alone" else "-"
        rows.append((CASES[case], count(p50), count(p99), f"{asked:,.0f}", applied))
    report.table(("replicas", "ms p50", "ms p99", "us a write where it was asked", "us a write at the other"), rows)


def _joining(report: Report, stack: ExitStack, size: Size) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    report.progress(f"a board of {size.subscriptions:,} subscriptions")
    pair = _pair(stack, folder, "alone")
    leader = pair.leader
    _fill(leader, size)
    _finish(leader, "rebuilds")
    report.progress("a replica joins")
    began = time.perf_counter()
    own = folder / "replica"
    own.mkdir()
    replica = stack.enter_context(service(own, "--follow", f"http://{HOST}:{leader.port}"))
    joined = time.perf_counter() - began
    draw = Random(2)
    before, there = cpu_seconds(leader.pid), cpu_seconds(replica.pid)
    events = 0
    for _ in range(max(1, size.reads // 20)):
        leader.ask("POST", f"{PATH}/events?messages=count", json.dumps({"events": _events(draw, size, 100)}).encode())
        events += 100
    _in_step(Pair(leader, replica))
    leading, following = cpu_seconds(leader.pid) - before, cpu_seconds(replica.pid) - there
    reading = cpu_seconds(replica.pid)
    for i in range(size.reads):
        replica.ask("GET", f"{PATH}/subscriptions/s{i % size.subscriptions}")
    reads = (cpu_seconds(replica.pid) - reading) / size.reads
    began = time.perf_counter()
    replica.ask("POST", "/v1/admin/promote", b"{}")
    taken = time.perf_counter() - began
    replica.ask("POST", f"{PATH}/events", _bodies(size, 0)[0].encode())
    written = time.perf_counter() - began
    report.heading("Joining, following and taking over")
    report.text(
        f"A board of {size.objects:,} objects and {size.subscriptions:,} subscriptions, with a snapshot and packed",
        f"indexes; {events:,} events in requests of 100. A promotion with a leader that hands over: until it is",
        "answered, and until the first write after it is.",
    )
    rows = [
        ("an empty directory until all kernels are loaded and the replica is ready", f"{joined:.1f} s"),
        ("the leader's processor for an event", f"{leading / events * 1e6:,.1f} us"),
        ("the replica's", f"{following / events * 1e6:,.1f} us"),
        ("the replica's processor for the read of a list", f"{reads * 1e6:,.0f} us"),
        ("reads a second that each further process on a core of its own adds", f"{1 / max(reads, 1e-9):,.0f}"),
        ("promotion", f"{taken * 1e3:,.0f} ms"),
        ("promotion and first write", f"{written * 1e3:,.0f} ms"),
    ]
    report.table(("measured", "value"), rows)


def _many(report: Report, size: Size) -> None:
    """A start from the data directory, a replica that joins, and its lag under steady events."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        own, other = folder / "leader", folder / "replica"
        own.mkdir()
        other.mkdir()
        report.progress(f"a board of {size.subscriptions:,} subscriptions")
        with service(own) as first:
            _fill(first, size)
            _finish(first, "rebuilds")
        report.progress("a start from the data directory")
        leader = stack.enter_context(service(own))
        report.progress("a replica joins")
        replica = stack.enter_context(service(other, "--follow", f"http://{HOST}:{leader.port}"))
        report.progress(f"{RATE:,} events a second")
        lags, sent = _lags(leader, replica, size)
    report.heading("Many subscriptions")
    report.text(
        f"A board of {size.objects:,} objects and {size.subscriptions:,} subscriptions, in a snapshot with packed",
        "indexes. Until a service answers that it is ready, with kernels compiled before: one that starts from its",
        "data directory, and a replica of it that starts from nothing. Then events in requests of 100 for",
        f"{size.seconds} s, {sent:,.0f} a second ({RATE:,} wanted), and how far the replica says that it is behind.",
    )
    started, joined = leader.ready_seconds, replica.ready_seconds
    rows = [
        ("start from the data directory", f"{started:.2f} s"),
        ("a new replica", f"{joined:.2f} s"),
        ("lag, median", f"{median(lags) * 1e3:,.0f} ms"),
        ("lag, greatest", f"{max(lags) * 1e3:,.0f} ms"),
    ]
    report.table(("measured", "value"), rows)
    wanted = f"a new replica is ready in at most {JOIN_WANTED} times a local start"
    report.verdict(wanted, f"{joined / started:.2f} times", joined <= JOIN_WANTED * started)


def _lags(leader: Server, replica: Server, size: Size) -> tuple[list[float], float]:
    """The lag of a replica, in seconds, while its leader takes events; and how many events a second it took."""
    draw, lags, sent = Random(3), list[float](), 0
    began = time.perf_counter()
    for number in range(size.seconds * RATE // 100):
        body = json.dumps({"messages": "none", "events": _events(draw, size, 100)}).encode()
        leader.ask("POST", f"{PATH}/events", body)
        sent += 100
        due = began + (number + 1) * 100 / RATE
        lags.append(replica.ask("GET", "/readyz")["lag"]["seconds"])
        time.sleep(max(0.0, due - time.perf_counter()))
    return lags, sent / (time.perf_counter() - began)


def _finish(server: Server, jobs: str) -> None:
    """Run a job to its end."""
    job = server.ask("POST", f"/v1/admin/{jobs}", b"{}")["job"]
    _until(lambda: server.ask("GET", f"/v1/admin/jobs/{job}")["state"] == "succeeded", f"{jobs} do not end")


def _pair(stack: ExitStack, folder: Path, case: str) -> Pair:
    own, other = folder / "leader", folder / "replica"
    own.mkdir(parents=True)
    synchronous = ("--sync-replicas", "1", "--sync-seconds", "60") if case == "synchronous" else ()
    leader = stack.enter_context(service(own, *synchronous))
    if case == "alone":
        return Pair(leader, None)
    other.mkdir()
    return Pair(leader, stack.enter_context(service(other, "--follow", f"http://{HOST}:{leader.port}")))


def _fill(leader: Server, size: Size) -> None:
    """A board with objects and subscriptions."""
    draw = Random(1)
    leader.ask("PUT", PATH, json.dumps(BOARD).encode())
    leader.ask("POST", f"{PATH}/events?messages=count", json.dumps({"events": _objects(draw, size)}).encode())
    for first in range(0, size.subscriptions, SUBSCRIPTIONS_A_REQUEST):
        some = []
        for i in range(first, min(first + SUBSCRIPTIONS_A_REQUEST, size.subscriptions)):
            low = draw.random() * 1000
            some.append({"id": f"s{i}", "range": {"x": [low, low + draw.random() * 20]}, "k": 10})
        leader.ask("POST", f"{PATH}/subscriptions", json.dumps({"subscriptions": some, "lists": False}).encode())


def _objects(draw: Random, size: Size) -> list[dict[str, Any]]:
    return [_event(draw, i) for i in range(size.objects)]


def _events(draw: Random, size: Size, n: int) -> list[dict[str, Any]]:
    return [_event(draw, draw.randrange(size.objects)) for _ in range(n)]


def _event(draw: Random, i: int) -> dict[str, Any]:
    return {"op": "upsert", "id": f"o{i}", "values": {"x": draw.random() * 1000, "y": draw.random()}}


def _bodies(size: Size, number: int) -> list[str]:
    draw = Random(number)
    return [json.dumps({"messages": "none", "events": _events(draw, size, 1)}) for _ in range(size.writes)]


def _in_step(pair: Pair) -> None:
    """Wait until a replica shows all that its leader does."""
    leader, replica = pair
    if replica is not None:
        lsn = leader.ask("GET", "/readyz")["lsn"]
        _until(lambda: replica.ask("GET", "/readyz")["lsn"] >= lsn, "the replica stays behind")


def _until(true: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + WAIT
    while not true():
        if time.monotonic() > end:
            raise Failed(otherwise)
        time.sleep(0.01)
