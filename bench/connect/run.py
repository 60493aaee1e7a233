"""`rankcast bench connect`: a filled stream or queue is carried into a board, and the same requests by a bare loop."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.connect.brokers import broker, fill
from bench.connect.events import OBJECTS, events
from bench.process import HOST, OURS, Failed, Server, cpu_seconds, service
from bench.report import RESULTS, Report, count, page, spread

PAGE = RESULTS / "connect.md"
BOARD = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [10]}
BATCHES = (100, 1_000)
WANTED = 20_000
LOOK = 0.02
"""Seconds between looks at how far the board is."""

CARRY_SECONDS = 600.0
SOURCES = {"nats": "NATS JetStream", "redis": "Redis stream", "amqp": "RabbitMQ queue"}


class Size(NamedTuple):
    """So many events, in each of so many rounds."""

    events: int = 60_000
    rounds: int = 3


QUICK = Size(2_000, 1)


class Case(NamedTuple):
    """What carries the events, and in requests of how many."""

    by: str
    batch: int


class Carried(NamedTuple):
    """Seconds, and those of the processors that the sender and the service took."""

    seconds: float
    sender: float
    service: float


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure all cases in turn; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("Connectors: events from brokers", "connect", quick, out, say) as report, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        urls = {name: stack.enter_context(broker(name, folder)) for name in SOURCES}
        server = stack.enter_context(service(folder))
        server.settle()
        found: defaultdict[Case, list[Carried]] = defaultdict(list)
        filled = {}
        for name, url in urls.items():
            if url is not None:
                report.progress(f"{size.events:,} events into {SOURCES[name]}")
                filled[name] = fill(url, events(size.events))
        for number in range(size.rounds):
            report.progress(f"round {number + 1} of {size.rounds}")
            for batch in BATCHES:
                found[Case("bare", batch)].append(_bare(server, size, batch))
                for name, address in filled.items():
                    if name == "amqp":
                        if batch != BATCHES[1]:
                            continue
                        # A queue is empty when it was carried.
                        address = fill(str(urls[name]), events(size.events)) if number else address
                    found[Case(name, batch)].append(_connector(server, size, address, batch))
        _show(report, size, found, [SOURCES[name] for name, url in urls.items() if url is None])
    return report


_NUMBERS = itertools.count(1)


def _board(server: Server) -> str:
    """A board of its own for each measurement."""
    name = f"b{next(_NUMBERS)}"
    server.ask("PUT", f"/v1/boards/{name}", json.dumps(BOARD).encode())
    return name


def _bare(server: Server, size: Size, batch: int) -> Carried:
    board = _board(server)
    before = cpu_seconds(server.pid)
    given = ["--url", f"http://{HOST}:{server.port}", "--board", board]
    done = subprocess.run(
        [OURS.python, "-m", "bench.connect.bare", *given, "--events", str(size.events), "--batch", str(batch)],
        capture_output=True, text=True, env=OURS.environment(), check=False,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"the bare loop fails: {done.stderr[-500:]}")
    told = json.loads(done.stdout)
    server.expect(f"/v1/boards/{board}", "seq", size.events)
    return Carried(told["seconds"], told["processor"], cpu_seconds(server.pid) - before)


def _connector(server: Server, size: Size, address: str, batch: int) -> Carried:
    """From the moment at which the connector reads until the board has the last event."""
    board = _board(server)
    command = [
        str(Path(sys.executable).with_name("rankcast")), "connect", address, "--to", f"boards/{board}",
        "--url", f"http://{HOST}:{server.port}", "--batch", str(batch), "--name", f"{board}-{time.time_ns()}",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        if "reading" not in line:
            raise Failed(f"the connector does not begin: {line}")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        began, sender, own = time.perf_counter(), cpu_seconds(process.pid), cpu_seconds(server.pid)
        while server.ask("GET", f"/v1/boards/{board}")["seq"] < size.events:
            if process.poll() is not None or time.perf_counter() - began > CARRY_SECONDS:
                raise Failed(f"the connector does not carry {address}")
            time.sleep(LOOK)
        seconds = time.perf_counter() - began
        return Carried(seconds, cpu_seconds(process.pid) - sender, cpu_seconds(server.pid) - own)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _show(report: Report, size: Size, found: Mapping[Case, list[Carried]], missing: list[str]) -> None:
    report.text(
        f"{size.events:,} events, upserts of {OBJECTS:,} objects, lie in a stream or queue; `rankcast connect`",
        "carries them into a board without subscriptions of a service with SQLite, its log flushed at each commit. The",
        "time runs from the moment at which it says that it reads until the board has the last one; the board is asked",
        f"for that every {LOOK * 1000:.0f} ms. The bare loop posts the same requests, made before, one after the other",
        "with httpx, under an Idempotency-Key each; it reads no broker, parses nothing and keeps no position. Brokers,",
        f"connector and service share the machine. Medians of {size.rounds} rounds, cases in turn, and their range.",
    )
    if missing:
        report.text(f"Left out, since there was none: {', '.join(missing)}.")
    rows = []
    for case in sorted(found, key=lambda case: (case.batch, case.by != "bare", case.by)):
        all_of = found[case]
        rates = [size.events / one.seconds for one in all_of]
        each = (median(part) / size.events * 1e6 for part in ([c.sender for c in all_of], [c.service for c in all_of]))
        name = SOURCES.get(case.by, "bare httpx loop")
        rows.append((name, f"{case.batch:,}", count(median(rates)), spread(rates), *(f"{one:.1f}" for one in each)))
    head = ("carried by", "events a request", "events/s", "range", "sender us an event", "service us an event")
    report.table(head, rows)
    case = Case("nats", BATCHES[1])
    if case in found:
        rate = median(size.events / one.seconds for one in found[case])
        bare = median(size.events / one.seconds for one in found[Case("bare", case.batch)])
        report.verdict(
            f"{WANTED:,} events/s from NATS in batches of up to {case.batch:,}",
            f"{count(rate)}, which is {rate / bare:.2f} of the bare loop",
            rate >= WANTED,
        )
    report.text("The columns of microseconds are of the processor: of the connector or the loop, and of the service.")
