"""`rankcast bench gateway`: what an event costs the service at few and at many readers, and what gateways deliver."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from app.runtime.listening import free_port
from bench.process import HOST, OURS, Failed, Server, Worker, cpu_seconds, service, serving
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "gateway.md"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [10], "zones": 16}
PATH = "/v1/boards/b"
WIDTH = 50.0
WANTED_MS = 250
LAST_SECONDS = 120.0
"""How long what the ranges ask for is waited for."""

QUIET_LOOKS = 10
"""Looks in a row at which nothing more has come, until readers have had everything."""

START = (
    "from bench.process import end_with_parent; end_with_parent(); from importlib.metadata import entry_points; "
    "(main,) = entry_points(group='console_scripts', name='rankcast'); main.load()()"
)


class Size(NamedTuple):
    """Subscriptions of the board, how many of them are read at the most, and for how many seconds events come, at
    these rates a second.
    """

    subscriptions: int = 20_000
    few: int = 50
    many: int = 20_000
    seconds: float = 25.0
    slow: float = 4.0
    fast: float = 20.0


QUICK = Size(400, 20, 200, 1.0, 10.0, 20.0)


class Case:
    """Who reads where, and how many events come a second, at one rate after the other."""

    def __init__(self, name: str, places: Sequence[Server], readers: int, *rates: float) -> None:
        self.name = name
        self.places = places
        self.readers = readers
        self.rates = rates


class Measured(NamedTuple):
    """What came of a case. Processor seconds are those of the service, of all gateways and of the readers' process;
    `wanted` are the changes that put an object first, `best` those that came.
    """

    case: Case
    events: int
    seconds: float
    service: float
    gateways: float
    readers: float
    changes: int
    nbytes: int
    wanted: int
    best: int
    resets: int
    p50: float | None
    p99: float | None
    longest: float | None


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure; with `out` the page is written there. Raises `Failed`."""
    size = QUICK if quick else Size()
    with page("Gateways: what fan-out costs", "gateway", quick, out, say) as report, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(nats_server(folder))
        server = stack.enter_context(service(folder, "--nats", broker))
        command = [
            "-c",
            START,
            "gateway",
            "--host",
            HOST,
            "--upstream",
            f"http://{HOST}:{server.port}",
            "--nats",
            broker,
        ]
        gateways = [stack.enter_context(serving(folder, f"gateway{n}", command)) for n in range(2)]
        starts = _fill(server, size)
        ids = list(starts)
        random.Random(1).shuffle(ids)
        cases = (
            Case("two gateways", gateways, size.few, size.slow),
            Case("two gateways", gateways, size.many, size.slow),
            Case("one gateway", gateways[:1], size.many, size.slow, size.fast),
            Case("the service", [server], size.many, size.slow, size.fast),
        )
        found: list[Measured] = []
        for case in cases:
            report.progress(f"{case.readers:,} readers at {case.name}")
            read = {id: starts[id] for id in ids[: case.readers]}
            found += _measured(case, server, gateways, read, size)
        _show(report, size, found, server.ask("GET", f"{PATH}/zones"))
    return report


@contextmanager
def nats_server(folder: Path) -> Iterator[str]:
    """`nats-server` with JetStream: its URL. Raises `Failed` where there is none."""
    found = shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        raise Failed("nats-server is not installed")
    port = free_port()
    command = [found, "-js", "-sd", str(folder / "nats"), "-a", HOST, "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"nats://{HOST}:{port}"
    finally:
        process.terminate()
        process.wait()


def _fill(server: Server, size: Size) -> dict[str, float]:
    """Make the board; where the range of each of its subscriptions begins."""
    draw = random.Random(2)
    server.ask("PUT", PATH, json.dumps(BOARD).encode())
    starts = {f"s{n}": draw.random() * 1000 for n in range(size.subscriptions)}
    subscriptions = [{"id": id, "range": {"x": [l, l + WIDTH]}, "k": 10} for id, l in starts.items()]
    body = {"subscriptions": subscriptions, "lists": False}
    server.ask("POST", f"{PATH}/subscriptions", json.dumps(body).encode())
    events = [_event(draw, n, 0.0) for n in range(1000)]
    server.ask("POST", f"{PATH}/events", json.dumps({"events": events, "messages": "none"}).encode())
    server.ask("POST", f"{PATH}/zones", b"{}")
    return starts


def _event(draw: random.Random, n: int, y: float) -> dict[str, Any]:
    """An object that becomes the best wherever it is in range, and says when."""
    values = {"x": draw.random() * 1050, "y": y if y else draw.random() * 1000}
    return {"op": "upsert", "id": f"o{n % 1000}", "values": values, "payload": time.time()}


def _measured(
    case: Case, server: Server, gateways: Sequence[Server], starts: dict[str, float], size: Size
) -> list[Measured]:
    ports = [one.port for one in case.places]
    job = json.dumps({"host": HOST, "ports": ports, "resource": "boards/b", "ids": list(starts)})
    readers = Worker([sys.executable, "-m", "bench.zones.readers"], OURS.environment())
    try:
        readers.ask(job)
        _wait_published(server)
        return [_at_rate(case, rate, readers, server, gateways, starts, size.seconds) for rate in case.rates]
    finally:
        readers.end()


def _at_rate(
    case: Case,
    rate: float,
    readers: Worker,
    server: Server,
    gateways: Sequence[Server],
    starts: dict[str, float],
    seconds: float,
) -> Measured:
    """What comes of events at a rate for so many seconds."""

    def spent() -> tuple[float, float]:
        return cpu_seconds(server.pid), sum(cpu_seconds(one.pid) for one in gateways)

    events, wanted, draw = int(seconds * rate), 0, random.Random(len(starts) + rate)
    readers.ask("")
    before, began = spent(), time.monotonic()
    for n in range(events):
        time.sleep(max(0.0, began + n / rate - time.monotonic()))
        event = _event(draw, n, -time.time())
        x = event["values"]["x"]
        wanted += sum(l <= x <= l + WIDTH for l in starts.values())
        server.ask("POST", f"{PATH}/events", json.dumps({"events": [event], "messages": "none"}).encode())
    elapsed = time.monotonic() - began
    _wait_published(server)
    after, told, quiet = spent(), readers.ask(""), 0
    until = time.monotonic() + LAST_SECONDS
    while quiet < QUIET_LOOKS or (told["best"] < wanted and time.monotonic() < until):
        more = readers.ask("")
        quiet = 0 if more["changes"] else quiet + 1
        for name in ("changes", "best", "resets", "bytes", "processor"):
            told[name] += more[name]
        for name in ("p99", "longest"):
            told[name] = max(told[name] or 0.0, more[name] or 0.0) or None
        time.sleep(0.2)
        after = spent() if more["changes"] else after
    if told["lost"]:
        raise Failed(f"{told['lost']} sockets of readers were closed")
    return Measured(
        case, events, elapsed, after[0] - before[0], after[1] - before[1], told["processor"], told["changes"],
        told["bytes"], wanted, told["best"], told["resets"], told["p50"], told["p99"], told["longest"],
    )  # fmt: skip


def _wait_published(server: Server) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = server.ask("GET", PATH)["seq"]
        if server.ask("GET", f"{PATH}/zones")["published"] >= found:
            return
        time.sleep(0.05)
    raise Failed("NATS does not take what is published")


def _show(report: Report, size: Size, found: list[Measured], zones: dict[str, Any]) -> None:
    report.text(
        f"One board of {size.subscriptions:,} subscriptions, k = 10, each to a range of 5% of the space, 1,000",
        f"objects, {len(zones['zones'])} zones. Events of one request each for {size.seconds:g} s: an object becomes",
        "the best of its place, so that it enters 5% of the lists, all at the same moment. At "
        f"{size.fast:g} events a second each list changes about once a second. Readers are streams of changes, up to",
        "500 on a socket, in one process, which searches what comes for the time at which the event was sent.",
        "Processor time is user and system of all threads. Everything shares one machine, and with whatever else runs",
        "on it, so that latencies are upper bounds; where the shares of a core add up to the cores of the machine,",
        "they say nothing of a gateway that has a core.",
        *((f"All of it ran at the priority (nice) {os.nice(0)}, before what else ran.",) if os.nice(0) < 0 else ()),
    )
    rows = []
    for one in found:
        where = one.service if one.case.name == "the service" else one.gateways
        cores = " / ".join(f"{part / one.seconds:.2f}" for part in (one.service, one.gateways, one.readers))
        times = ("-" if ms is None else f"{ms:.0f}" for ms in (one.p50, one.p99, one.longest))
        rows.append(
            (
                one.case.name,
                f"{one.case.readers:,}",
                f"{one.events / one.seconds:.1f}",
                f"{one.changes / one.seconds:,.0f}",
                f"{one.service / one.events * 1000:.2f}",
                f"{where / one.changes * 1e6:.1f}" if one.changes else "-",
                cores,
                f"{one.nbytes / one.changes:.0f}" if one.changes else "-",
                *times,
            )
        )
    report.table(
        (
            "readers at",
            "readers",
            "events/s",
            "changes/s",
            "service, processor ms an event",
            "processor us a change there",
            "cores: service / gateways / readers",
            "bytes a change",
            "ms p50",
            "p99",
            "longest",
        ),
        rows,
    )
    missing, resets = sum(one.wanted - one.best for one in found), sum(one.resets for one in found)
    report.text(
        f"{sum(one.best for one in found):,} of these changes put an object first, which is",
        "each that the ranges ask for" if not missing else f"{missing:,} fewer than the ranges ask for",
        f"({resets:,} lists came whole in place of changes).",
    )
    few, many = found[0], found[1]
    ratio = (many.service / many.events) / (few.service / few.events)
    report.text(
        f"With {many.case.readers:,} readers at gateways an event costs the service {ratio:.2f} times the processor",
        f"time that it costs with {few.case.readers:,}: the messages of a zone are published once, whoever reads",
        "them. What remains beside the event itself is painting for all subscriptions, the match of its tiles with the",
        "zones, and one message for each zone that they touch.",
    )
    slow = found[2]
    rate = f"{slow.changes / slow.seconds:,.0f} changes/s"
    report.verdict(
        f"{slow.case.readers:,} readers on one gateway with p99 under {WANTED_MS} ms, at {rate}",
        "no change came" if slow.p99 is None else f"{slow.p99:.0f} ms",
        slow.p99 is not None and slow.p99 < WANTED_MS,
    )
