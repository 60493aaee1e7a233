"""The service over HTTP: a million subscriptions in one request, batches of events, single events.

Everything is measured against `rankcast serve` in a process of its own with its durable log, by a load generator in
another, in rounds that alternate with those of the apps of `bench.boards.floor`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from bench.boards.workload import World, make_ranges, make_world
from bench.closed_loop import RATE_COLUMNS, Result, rate_columns, rates
from bench.process import (
    ARROW,
    OURS,
    Checkout,
    Failed,
    Server,
    cpu_seconds,
    floor,
    run_job,
    service,
    to_stream,
)
from bench.report import Report, ratio

BOARD = "bench"
K = 10

SECONDS_WANTED = 20.0
BYTES_WANTED = 250.0
EVENTS_WANTED = 40_000.0
SHARE_WANTED = 0.35
"""Of the rate at which bodies are only parsed."""

SINGLE_WANTED = 2.0

BATCH = 1_000
FEW, MANY = 2, 32
"""Connections for batches and for single events."""

WINDOW = 128
"""Requests under way on a socket."""

FASTER_WANTED = 5.0


class Size(NamedTuple):
    """How much is run: batches and single events are per round."""

    n: int = 10_000
    m: int = 2_000_000
    rounds: int = 5
    batches: int = 100
    singles: int = 5_000


class Sized(Protocol):
    """Whatever says how many objects there are."""

    @property
    def n(self) -> int: ...


QUICK = Size(m=200_000, rounds=2, batches=10, singles=1_000)


class Registered(NamedTuple):
    """What the registration took."""

    first: float
    seconds: float
    cpu: float
    body_bytes: int
    answer_bytes: int
    resident: float
    later: float


@contextmanager
def board_service(
    size: Sized, folder: Path, *options: str, checkout: Checkout = OURS
) -> Iterator[tuple[Server, World]]:
    """The service of a checkout, with these options, with a board of n objects and no subscriptions."""
    world = make_world(size.n, 1)
    with service(folder, *options, checkout=checkout) as server:
        make_board(server, world)
        yield server, world


def make_board(server: Server, world: World) -> None:
    """A board with the objects `o0`, `o1`, ... of a world."""
    n = len(world.x)
    config = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [K], "algorithm": "sparse"}
    server.ask("PUT", f"/v1/boards/{BOARD}", json.dumps(config).encode())
    ids = pa.array([f"o{i}" for i in range(n)])
    table = pa.table({"op": pa.array(["upsert"] * n), "id": ids, "x": world.x, "y": world.y})
    answer = server.ask("POST", f"/v1/boards/{BOARD}/events?messages=count", to_stream(table), ARROW)
    _expect(answer["applied"] == n, f"{n} objects were sent, {answer['applied']} applied")


def register(server: Server, m: int) -> Registered:
    """Register m subscriptions as one Arrow stream. Ids are `s0`, `s1`, ...; ranges are uniform."""
    l, r = make_ranges(m)
    ids = pa.array([f"s{i}" for i in range(m)])
    body = to_stream(pa.table({"id": ids, "k": pa.array(np.full(m, K, np.int32)), "x_min": l, "x_max": r}))
    before, cpu = server.resident(), cpu_seconds(server.pid)
    first, seconds, answer_bytes = server.send(f"/v1/boards/{BOARD}/subscriptions", body, ARROW)
    after, cpu = server.resident(), cpu_seconds(server.pid) - cpu
    time.sleep(2.0)
    later = server.resident()
    server.expect(f"/v1/boards/{BOARD}", "subscriptions", m)
    return Registered(first, seconds, cpu, len(body), answer_bytes, (after - before) / m, (later - before) / m)


class Bench:
    """Registration, batches and single events, written to a report."""

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size

    def show(self, parts: frozenset[str]) -> None:
        """Run the parts: "register", "http", "singles". The others need the first, and run it; the last is the single
        events of the second alone."""
        size = self._size
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with board_service(size, folder) as (server, world):
                registered = register(server, size.m)
                if parts & {"register", "http"}:
                    self._registered(registered)
                if parts & {"http", "singles"}:
                    self._loads(server, world, folder, batches="http" in parts)

    def _registered(self, found: Registered) -> None:
        report, m = self._report, self._size.m
        report.heading("Registration", 3)
        report.text(
            f"One `POST .../subscriptions` with an Arrow stream of {m:,} rows (columns `id`, `k`, `x_min`, `x_max`; "
            f"{found.body_bytes / 1e6:.0f} MB, ids `s0` to `s{m - 1}`), from the first byte sent to the last of the "
            f"answer, which repeats the subscriptions as JSON ({found.answer_bytes / 1e6:.0f} MB, thrown away); its "
            f"first byte, when all is durable and indexed, came after {found.first:.2f} s. Resident memory is that "
            "of the service's process after less that before, shared by the subscriptions."
        )
        report.table(
            ("m", "seconds", "server CPU, s", "subscriptions/s", "resident bytes/subscription", "two seconds later"),
            [
                (
                    f"{m:,}",
                    f"{found.seconds:.2f}",
                    f"{found.cpu:.2f}",
                    f"{m / found.seconds:,.0f}",
                    f"{found.resident:.0f}",
                    f"{found.later:.0f}",
                )
            ],
        )
        report.verdict(
            f"{m:,} subscriptions as one Arrow stream in at most {SECONDS_WANTED:.0f} s",
            f"{found.seconds:.2f} s",
            found.seconds <= SECONDS_WANTED,
        )
        worst = max(found.resident, found.later)
        report.verdict(
            f"at most {BYTES_WANTED:.0f} resident bytes a subscription with its id",
            f"{worst:.0f}",
            worst <= BYTES_WANTED,
        )

    def _loads(self, server: Server, world: World, folder: Path, batches: bool) -> None:
        with ExitStack() as stack:
            servers = {"service": server}
            for kind in ("bare", "frame"):
                servers[kind] = stack.enter_context(floor(folder, kind))
            job = {
                **world.job(BOARD),
                "servers": {name: {"port": one.port, "pid": one.pid} for name, one in servers.items()},
                "phases": [*(self._batch_phases() if batches else ()), *self._single_phases()],
            }
            before = server.ask("GET", f"/v1/boards/{BOARD}")["seq"]
            try:
                measured = run_job("bench.boards.load", job)
            except Failed as failure:
                tails = "\n".join(f"{name}, exit {one.process.poll()}:\n{one.tail()}" for name, one in servers.items())
                raise Failed(f"{failure}\n{tails}") from None
            after = server.ask("GET", f"/v1/boards/{BOARD}")["seq"]
        results: dict[str, list[Result]] = {}
        for phase, result in zip(job["phases"], measured, strict=True):
            results.setdefault(phase["name"], []).append(result)
            _expect(set(result["statuses"]) == {"200"}, f"{phase['name']} was answered {result['statuses']}")
        sent = sum(p["count"] * p.get("size", 1) for p in job["phases"] if p["server"] == "service")
        _expect(after - before == sent, f"{sent} events were sent, seq went on by {after - before}")
        if batches:
            self._batches(results)
        self._singles(results)

    def _batch_phases(self) -> list[dict[str, Any]]:
        """Rounds of batches on the service and on what it is compared with; the first of each only warms up."""
        size = self._size
        batch = {"kind": "batches", "count": size.batches, "size": BATCH, "messages": "count", "connections": FEW}
        phases = [
            {**batch, "server": "service", "name": "warm", "count": max(2, size.batches // 10)},
            {**batch, "server": "bare", "name": "warm", "again": True},
        ]
        for _ in range(size.rounds):
            phases += [
                {**batch, "server": "service", "name": "batches"},
                {**batch, "server": "bare", "name": "parse", "again": True},
            ]
        return phases

    def _single_phases(self) -> list[dict[str, Any]]:
        """The same of single events."""
        size = self._size
        single = single_phase(size.singles)
        over_socket = {
            "kind": "socket",
            "count": size.singles * 4,
            "window": WINDOW,
            "server": "service",
            "packed": False,
        }
        warm = max(MANY, size.singles // 10)
        phases = [
            {**single, "server": name, "name": "warm", "count": warm, "again": name != "service"}
            for name in ("service", "bare", "frame")
        ]
        phases.append({**over_socket, "name": "warm", "count": warm})
        for _ in range(size.rounds):
            phases += [
                {**single, "server": "service", "name": "full"},
                {**single, "server": "bare", "name": "bare", "again": True},
                {**single, "server": "frame", "name": "frame", "again": True},
                {**single, "server": "service", "name": "none", "query": "?messages=none"},
                {**over_socket, "name": "socket", "query": "?messages=none"},
                {**over_socket, "name": "packed", "query": "?messages=none", "packed": True},
            ]
        return phases

    def _batches(self, results: dict[str, list[Result]]) -> None:
        size, report = self._size, self._report
        report.heading("Batches of events", 3)
        body = median(one["request_bytes"] for one in results["batches"])
        report.text(
            f"n = {size.n:,}, m = {size.m:,}, k = {K}; {size.rounds} rounds of {size.batches} JSON bodies with "
            f'{BATCH:,} updates each (`{{"op":"update","id":"o123","values":{{"y":0.5}}}}`, {body / 1024:.0f} KiB a '
            f"request), `messages=count`, {FEW} connections that send the next when the last is answered. The bare "
            "route is FastAPI with pydantic models that validates the same bodies and does nothing with them; rounds "
            "alternate."
        )
        ours, floor = rates(results["batches"], BATCH), rates(results["parse"], BATCH)
        share = median(a / b for a, b in zip(ours, floor, strict=True))
        rows = [
            (label, *rate_columns(results[name], BATCH), _cores(results[name]), of_bare)
            for name, label, of_bare in (
                ("batches", "service", ratio(share)),
                ("parse", "bare FastAPI and pydantic", "1"),
            )
        ]
        report.table(("", "events/s", *RATE_COLUMNS, "server CPU, us/event", "CPU of one core", "of bare"), rows)
        report.verdict(
            f"{EVENTS_WANTED:,.0f} events/s in batches of {BATCH:,} with `messages=count`",
            f"{median(ours):,.0f} events/s",
            median(ours) >= EVENTS_WANTED,
        )
        judge_share(report, f"n = {size.n:,}, m = {size.m:,}", share)

    def _singles(self, results: dict[str, list[Result]]) -> None:
        size, report = self._size, self._report
        report.heading("Single events", 3)
        report.text(
            f"n = {size.n:,}, m = {size.m:,}, k = {K}; {size.rounds} rounds of {size.singles:,} "
            "`PUT .../objects/{id}` with both values, "
            f"{MANY} connections; and four times as many of the same requests, without tiles, over one WebSocket with "
            f"{WINDOW} of them under way, whose time is that from the sending of a frame to its answer. The other "
            "endpoints commit one row through the same writer, group commit and "
            "log, and apply nothing: a plain FastAPI route with a pydantic body, and a route behind the service's own "
            "guard that reads the body and does not look at it."
        )
        labels = {
            "full": "service, with the tiles",
            "none": "service, `messages=none`",
            "socket": f"service, one socket, window {WINDOW}",
            "packed": "the same, MessagePack",
            "bare": "one row, plain FastAPI",
            "frame": "one row, the service's frame",
        }
        each = {name: rates(results[name], 1) for name in labels}
        rows = []
        for name, label in labels.items():
            slower = {
                floor: ratio(median(b / a for a, b in zip(each[name], each[floor], strict=True)))
                for floor in ("bare", "frame")
            }
            rows.append(
                (label, *rate_columns(results[name], 1), _cores(results[name]), slower["bare"], slower["frame"])
            )
        head = "", "requests/s", *RATE_COLUMNS, "server CPU, us/request", "CPU of one core"
        report.table((*head, "slower than plain", "slower than frame"), rows)
        single = median(a / b for a, b in zip(each["full"], each["bare"], strict=True))
        report.verdict(
            f"single events at {MANY} connections at least {SINGLE_WANTED} times as fast as a plain FastAPI endpoint "
            "that commits one row",
            f"{median(each['full']):,.0f} requests/s, {ratio(single)} times as fast",
            single >= SINGLE_WANTED,
        )
        faster = median(a / b for a, b in zip(each["socket"], each["bare"], strict=True))
        report.verdict(
            f"single events over one socket with a window of {WINDOW} at least {FASTER_WANTED:.0f} times as fast as a "
            f"plain FastAPI endpoint that commits one row at {MANY} connections",
            f"{median(each['socket']):,.0f} requests/s, {ratio(faster)} times as fast",
            faster >= FASTER_WANTED,
        )


def single_phase(count: int) -> dict[str, Any]:
    """A phase of the load generator: so many single events at MANY connections."""
    return {"kind": "singles", "count": count, "connections": MANY}


def judge_share(report: Report, world: str, share: float) -> None:
    """Judge the rate of batches as a share of that of the bare route."""
    report.verdict(
        f"batches of {BATCH:,}, {world}: at least {SHARE_WANTED} of the rate of a bare FastAPI route that parses",
        f"{ratio(share)} of it",
        share >= SHARE_WANTED,
    )


def _cores(results: list[Result]) -> str:
    """The share of a core that the server took."""
    return f"{sum(one['server_cpu'] for one in results) / sum(one['elapsed'] for one in results):.2f}"


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise Failed(otherwise)
