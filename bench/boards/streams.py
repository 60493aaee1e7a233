"""Thousands of live lists on one service, each changed once a second: from event to receipt."""

from __future__ import annotations

import json
import os
import resource
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.process import Server, run_job, service
from bench.report import Report

BOARD = "live"
MEAN_WANTED, P99_WANTED, PAUSE_WANTED = 100.0, 250.0, 100.0
"""Milliseconds."""

SPARE_FILES = 1_000
"""Files besides the connections of streams that both processes may have open."""

POINTS = ("mean", "p50", "p90", "p99", "p999", "max")


class Load(NamedTuple):
    """How lists are read, how long, and how many events a request has: a divisor of the lists. The requests are about
    one socket after another, or `spread` over all.
    """

    sse: int
    sockets: int
    follow: int = 100
    seconds: int = 60
    batch: int = 100
    unread: int = 0
    spread: bool = False

    @property
    def lists(self) -> int:
        """All lists, those that nobody reads too."""
        return self.sse + self.sockets * self.follow + self.unread


class Size(NamedTuple):
    """How much is run: lists for each of two rates."""

    held: Load = Load(5_000, 50)
    many: Load = Load(10_000, 100, batch=200)


QUICK = Size(Load(500, 5, seconds=10, batch=50), Load(1_000, 10, seconds=10))


def make_board(server: Server, lists: int) -> None:
    """A board of disjoint unit ranges, one object in each: an event changes the one list that it is in."""
    config = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "asc"}, "ks": [1]}
    server.ask("PUT", f"/v1/boards/{BOARD}", json.dumps(config).encode())
    at = np.arange(lists, dtype=np.float64)
    ids = [f"o{i}" for i in range(lists)]
    objects = pa.table({"op": ["upsert"] * lists, "id": ids, "x": at + 0.5, "y": np.zeros(lists)})
    server.send_table(f"/v1/boards/{BOARD}/events?messages=none", objects)
    names, ks = [f"l{i}" for i in range(lists)], pa.array(np.ones(lists, np.int32))
    server.send_table(
        f"/v1/boards/{BOARD}/subscriptions", pa.table({"id": names, "k": ks, "x_min": at, "x_max": at + 0.9})
    )


def measure(load: Load) -> dict[str, Any]:
    """Run it all; what `bench.boards.listen` found, and how long a commit took at most."""
    with tempfile.TemporaryDirectory() as name, service(Path(name)) as server:
        make_board(server, load.lists)
        # Or commits wait for what was written before.
        os.sync()
        job = {"port": server.port, "pid": server.pid, "board": BOARD, **load._asdict()}
        found: dict[str, Any] = run_job("bench.boards.listen", job)
        found["commit_ms"] = server.longest("rankcast_commit_seconds") * 1e3
        return found


def within_files(load: Load) -> Load:
    """The same load, with as many connections as a process may open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    room = load.sse if most == resource.RLIM_INFINITY else most - SPARE_FILES - load.sockets
    return load._replace(sse=max(0, min(load.sse, room // load.batch * load.batch)))


def show(report: Report, size: Size) -> None:
    """Add the benchmark to the report."""
    held, many = within_files(size.held), within_files(size.many)
    report.text(
        "Live subscriptions with k = 1 on disjoint ranges with one object each, some as server-sent events, a "
        "connection each, the others on WebSockets. Every object gets a new y once a second, by requests evenly spread "
        "over the second, each update of which changes one list. The time is from the moment at which a request is due "
        "to the last byte of the change at its reader, in the load generator, which shares the machine with the "
        "service. A pause is a time in which nothing came to any reader."
    )
    report.text(
        "Every stream's changes are applied in order from its snapshot: seq rises, each second's change is there once, "
        "ranks are those of the changes, and in the end every list equals what GET answers. What is not so is an error."
    )
    found = _show_run(report, held)
    changes = sum(found["changes"].values())
    mean = sum(found["changes"][name] * ms["mean"] for name, ms in found["ms"].items()) / max(1, changes)
    p99 = max(ms["p99"] for ms in found["ms"].values())
    report.verdict(
        f"mean event-to-receipt under {MEAN_WANTED:.0f} ms", f"{mean:.1f} ms, p99 {p99:.1f} ms", mean < MEAN_WANTED
    )
    report.verdict(
        f"{held.lists:,} live subscriptions: no pause over {PAUSE_WANTED:.0f} ms",
        f"longest {found['pause_ms']:.0f} ms",
        found["pause_ms"] <= PAUSE_WANTED,
    )
    found = _show_run(report, many)
    p99 = max(ms["p99"] for ms in found["ms"].values())
    report.verdict(
        f"{many.lists:,} live subscriptions: p99 under {P99_WANTED:.0f} ms", f"{p99:.1f} ms", p99 < P99_WANTED
    )


def _show_run(report: Report, load: Load) -> dict[str, Any]:
    """Hold the streams of a load; what was found."""
    report.text(
        f"{load.lists:,} live subscriptions for {load.seconds} s: {load.sse:,} as server-sent events, "
        f"{load.sockets * load.follow:,} on {load.sockets} WebSockets ({load.follow} on each); "
        f"{load.lists / load.batch:.0f} requests a second with {load.batch} updates each."
    )
    found = measure(load)
    rows = [
        (name, f"{found['changes'][name]:,}", *(f"{ms[point]:.1f}" for point in POINTS))
        for name, ms in found["ms"].items()
        if ms
    ]
    report.table(("stream", "changes", "mean ms", "p50", "p90", "p99", "p99.9", "max"), rows)
    changes = sum(found["changes"].values())
    report.text(
        f"Opening all streams took {found['opened']:.1f} s; the service used "
        f"{found['server_cpu'] / found['elapsed']:.2f} of a core ({found['server_cpu'] / changes * 1e6:.0f} us and "
        f"{found['nbytes'] / changes:.0f} bytes a change), the load generator "
        f"{found['own_cpu'] / found['elapsed']:.2f} ({found['own_cpu'] / changes * 1e6:.0f} us). Requests were "
        f"answered in {found['answer_ms']['mean']:.1f} ms on average (p99 {found['answer_ms']['p99']:.1f} ms). The "
        f"longest pause was {found['pause_ms']:.0f} ms; no commit took more than {found['commit_ms']:g} ms."
    )
    if found["errors"]:
        report.text(f"{found['errors']} errors, among them: {'; '.join(found['first_errors'])}.")
    report.verdict(
        f"{load.lists:,} live subscriptions, each changed once a second for {load.seconds} s: no error and no gap",
        f"{found['errors']} errors, {changes:,} of {load.lists * load.seconds:,} changes",
        not found["errors"] and changes == load.lists * load.seconds,
    )
    return found
