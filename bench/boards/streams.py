"""Thousands of live lists on one service, each changed once a second: from event to receipt."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.process import Server, run_job, service
from bench.report import Report

BOARD = "live"
MEAN_WANTED = 100.0


class Size(NamedTuple):
    """How much is run. `lists` is a multiple of `batch`, the events of one request."""

    lists: int = 10_000
    sockets: int = 50
    seconds: int = 60
    batch: int = 100


QUICK = Size(lists=1_000, sockets=5, seconds=10, batch=50)


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


def measure(size: Size) -> dict[str, Any]:
    """Run it all; what `bench.boards.listen` found."""
    with tempfile.TemporaryDirectory() as name, service(Path(name)) as server:
        make_board(server, size.lists)
        job = {"port": server.port, "pid": server.pid, "board": BOARD, **size._asdict()}
        found: dict[str, Any] = run_job("bench.boards.listen", job)
        return found


def show(report: Report, size: Size) -> None:
    """Add the benchmark to the report."""
    half = size.lists // 2
    each = -(-(size.lists - half) // size.sockets)
    report.text(
        f"{size.lists:,} live subscriptions with k = 1 on disjoint ranges with one object each: {half:,} as "
        f"server-sent events, a connection each, {size.lists - half:,} on {size.sockets} WebSockets ({each} on each). "
        f"For {size.seconds} s every object gets a new y once a second: {size.lists / size.batch:.0f} requests a "
        f"second with {size.batch} updates each, evenly spread over the second, each of which changes one list. The "
        "time is from the moment at which a request is due to the last byte of the change at its reader, in the load "
        "generator, which shares the machine with the service."
    )
    found = measure(size)
    shown = ("mean", "p50", "p90", "p99", "p999", "max")
    rows = [
        (name, f"{found['changes'][name]:,}", *(f"{ms[point]:.1f}" for point in shown))
        for name, ms in found["ms"].items()
    ]
    report.table(("stream", "changes", "mean ms", "p50", "p90", "p99", "p99.9", "max"), rows)
    changes = sum(found["changes"].values())
    mean = sum(found["changes"][name] * ms["mean"] for name, ms in found["ms"].items()) / changes
    p99 = max(ms["p99"] for ms in found["ms"].values())
    report.text(
        f"Opening all streams took {found['opened']:.1f} s; the service used "
        f"{found['server_cpu'] / found['elapsed']:.2f} of a core ({found['server_cpu'] / changes * 1e6:.0f} us a "
        f"change), the load generator {found['own_cpu'] / found['elapsed']:.2f}. Requests were answered in "
        f"{found['answer_ms']['mean']:.1f} ms on average (p99 {found['answer_ms']['p99']:.1f} ms)."
    )
    if found["errors"]:
        report.text(f"{found['errors']} errors, among them: {'; '.join(found['first_errors'])}.")
    else:
        report.text(
            "Every stream's changes were applied in order from its snapshot: seq rises, each second's change is there "
            "once, ranks are those of the changes, and in the end every list equals what GET answers."
        )
    report.verdict(
        f"{size.lists:,} live subscriptions, each changed once a second for {size.seconds} s: no error and no gap",
        f"{found['errors']} errors, {changes:,} of {size.lists * size.seconds:,} changes",
        not found["errors"] and changes == size.lists * size.seconds,
    )
    report.verdict(
        f"mean event-to-receipt under {MEAN_WANTED:.0f} ms", f"{mean:.1f} ms, p99 {p99:.1f} ms", mean < MEAN_WANTED
    )
