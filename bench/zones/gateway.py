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
QUIET_LOOKS = 10
"""Looks in a row at which nothing more has come, until readers have had everything."""

START = (
    "from bench.process import end_with_parent; end_with_parent(); from importlib.metadata import entry_points; "
    "(main,) = entry_points(group='console_scripts', name='rankcast'); main.load()()"
)


class Size(NamedTuple):
    """Subscriptions of the board, how many of them are read at the most, events, and how many a second."""

    subscriptions: int = 20_000
    few: int = 50
    many: int = 20_000
    events: int = 100
    rate: float = 4.0


QUICK = Size(400, 20, 200, 10, 20.0)


class Measured(NamedTuple):
    """Processor seconds of the service and of the gateways, deliveries, and milliseconds to them."""

    name: str
    readers: int
    events: int
    service: float
    gateways: float
    changes: int
    resets: int
    p50: float | None
    p99: float | None


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
        _fill(server, size)
        ids = [f"s{n}" for n in range(size.subscriptions)]
        random.Random(1).shuffle(ids)
        found = []
        cases = (
            ("two gateways", size.few, gateways),
            ("two gateways", size.many, gateways),
            ("one gateway", size.many, gateways[:1]),
            ("the service", size.many, [server]),
        )
        for name, readers, places in cases:
            report.progress(f"{readers:,} readers at {name}")
            found.append(_measured(name, server, gateways, places, ids[:readers], size))
        sent = server.ask("GET", f"{PATH}/zones")
        _show(report, size, found, sent)
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


def _fill(server: Server, size: Size) -> None:
    draw = random.Random(2)
    server.ask("PUT", PATH, json.dumps(BOARD).encode())
    subscriptions = []
    for n in range(size.subscriptions):
        l = draw.random() * 1000
        subscriptions.append({"id": f"s{n}", "range": {"x": [l, l + WIDTH]}, "k": 10})
    body = {"subscriptions": subscriptions, "lists": False}
    server.ask("POST", f"{PATH}/subscriptions", json.dumps(body).encode())
    events = [_event(draw, n, 0.0) for n in range(1000)]
    server.ask("POST", f"{PATH}/events", json.dumps({"events": events, "messages": "none"}).encode())
    server.ask("POST", f"{PATH}/zones", b"{}")


def _event(draw: random.Random, n: int, y: float) -> dict[str, Any]:
    """An object that becomes the best wherever it is in range, and says when."""
    values = {"x": draw.random() * 1050, "y": y if y else draw.random() * 1000}
    return {"op": "upsert", "id": f"o{n % 1000}", "values": values, "payload": time.time()}


def _measured(
    name: str, server: Server, gateways: Sequence[Server], places: Sequence[Server], ids: list[str], size: Size
) -> Measured:
    urls = [f"ws://{HOST}:{one.port}/v1/stream" for one in places]
    job = json.dumps({"urls": urls, "resource": "boards/b", "ids": ids})
    readers = Worker([sys.executable, "-m", "bench.zones.readers"], OURS.environment())
    try:
        readers.ask(job)
        draw = random.Random(len(ids))
        _wait_published(server)
        readers.ask("")
        before = cpu_seconds(server.pid), sum(cpu_seconds(one.pid) for one in gateways)
        began = time.monotonic()
        for n in range(size.events):
            time.sleep(max(0.0, began + n / size.rate - time.monotonic()))
            event = _event(draw, n, -time.time())
            server.ask("POST", f"{PATH}/events", json.dumps({"events": [event], "messages": "none"}).encode())
        _wait_published(server)
        after = cpu_seconds(server.pid), sum(cpu_seconds(one.pid) for one in gateways)
        told = readers.ask("")
        quiet = 0
        while quiet < QUIET_LOOKS:
            more = readers.ask("")
            quiet = 0 if more["changes"] else quiet + 1
            told["changes"] += more["changes"]
            told["resets"] += more["resets"]
            time.sleep(0.2)
            after = cpu_seconds(server.pid), sum(cpu_seconds(one.pid) for one in gateways)
    finally:
        readers.end()
    spent = after[0] - before[0], after[1] - before[1]
    return Measured(name, len(ids), size.events, *spent, told["changes"], told["resets"], told["p50"], told["p99"])


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
        f"objects, {len(zones['zones'])} zones. {size.events} events of one request each, {size.rate:g} a second: an",
        "object becomes the best of its place, so that it enters 5% of the lists. Readers are streams of changes, up",
        "to 500 on a socket, in one process. Processor time is user and system of all threads. Everything shares one",
        "machine with the readers, which parse each message, and with whatever else runs on it, so latencies are upper",
        "bounds.",
    )
    rows = []
    for one in found:
        where = one.gateways if one.name != "the service" else one.service
        rows.append(
            (
                one.name,
                f"{one.readers:,}",
                f"{one.service / one.events * 1000:.2f}",
                f"{one.changes:,}",
                f"{one.resets:,}",
                f"{one.changes / where:,.0f}" if where else "-",
                "-" if one.p50 is None else f"{one.p50:.0f}",
                "-" if one.p99 is None else f"{one.p99:.0f}",
            )
        )
    report.table(
        (
            "readers at",
            "readers",
            "service, processor ms an event",
            "changes delivered",
            "resets",
            "changes a processor second there",
            "ms p50",
            "p99",
        ),
        rows,
    )
    few, many = found[0], found[1]
    ratio = (many.service / many.events) / (few.service / few.events)
    report.text(
        f"With {many.readers:,} readers at gateways an event costs the service {ratio:.2f} times the processor time",
        f"that it costs with {few.readers:,}: the messages of a zone are published once, whoever reads them. What",
        "remains beside the event itself is painting for all subscriptions, the match of its tiles with the zones, and",
        "one message for each zone that they touch.",
    )
