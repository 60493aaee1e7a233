"""`rankcast bench webhooks`: single writes with no webhook, with a receiver that hangs, and with one that answers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.closed_loop import Result, closed_loop
from bench.process import HOST, Server, service, serving
from bench.report import RESULTS, Report, count, page

PAGE = RESULTS / "webhooks.md"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [10]}
PATH = "/v1/boards/b"

CASES = {"none": "no webhook", "hang": "a receiver that never answers", "take": "a receiver that takes every event"}


class Size(NamedTuple):
    """So many writes, one after the other, in each of so many rounds, to a board of so many objects."""

    writes: int = 400
    rounds: int = 4
    objects: int = 200


QUICK = Size(20, 1, 10)


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure all cases in turn; with `out` the page is written there."""
    size = QUICK if quick else Size()
    with page("Webhooks: what they cost writes", "webhooks", quick, out, say) as report, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {case: _started(stack, folder, case, size) for case in CASES}
        found: dict[str, list[Result]] = {case: [] for case in CASES}
        for number in range(size.rounds):
            report.progress(f"round {number + 1} of {size.rounds}")
            for case, server in servers.items():
                found[case] += closed_loop(server, f"{PATH}/events", _bodies(size, number), 1, 1)
        taken = servers["take"].ask("GET", "/v1/webhooks/ops")["delivered"]
        _show(report, size, found, taken)
    return report


def _started(stack: ExitStack, folder: Path, case: str, size: Size) -> Server:
    """A service with a board whose every event changes the list of its subscription, and with the webhook of a case."""
    own = folder / case
    own.mkdir()
    server = stack.enter_context(service(own, "--webhook-networks", f"{HOST}/32"))
    server.ask("PUT", PATH, json.dumps(BOARD).encode())
    server.ask("PUT", f"{PATH}/subscriptions/mine", b'{"k": 10}')
    for body in _bodies(size._replace(writes=size.objects), -1):
        server.ask("POST", f"{PATH}/events", body.encode())
    if case != "none":
        receiver = stack.enter_context(serving(own, "receiver", ["-m", "bench.webhooks.receiver", case]))
        hook = {"url": f"http://{HOST}:{receiver.port}/in", "resource": "boards/b", "ids": ["mine"], "batch": 100}
        server.ask("PUT", "/v1/webhooks/ops", json.dumps(hook).encode())
    return server


def _bodies(size: Size, number: int) -> list[str]:
    """Events that each put another object at the head of the list."""
    first = (number + 1) * 2 * size.writes
    return [
        json.dumps(
            {
                "messages": "none",
                "events": [{"op": "upsert", "id": f"o{i % size.objects}", "values": {"x": 1, "y": -(first + i)}}],
            }
        )
        for i in range(size.writes)
    ]


def _show(report: Report, size: Size, found: dict[str, list[Result]], taken: int) -> None:
    report.text(
        "Writes of one event each, one after the other on one connection, SQLite with its log flushed at each commit.",
        f"Every event changes a list of 10 that a webhook follows. {size.rounds} rounds of {size.writes:,} writes, the",
        "cases turn by turn, each with a service of its own; milliseconds until a write is answered, medians of the",
        "rounds, and the least of them. Where others share the machine the service's processor time compares better;",
        "it includes what is sent.",
    )
    rows = []
    for case, results in found.items():
        p50, p99 = (median(one["ms"][which] for one in results) for which in ("p50", "p99"))
        least = min(one["ms"]["p50"] for one in results)
        processor = sum(one["server_cpu"] for one in results) / sum(one["requests"] for one in results)
        rows.append((CASES[case], count(p50), count(least), count(p99), f"{processor * 1e6:,.0f}"))
    report.table(("webhook", "ms p50", "least p50", "p99", "processor us a write"), rows)
    report.text(
        f"The receiver that takes events had {taken:,} of them by the end, in requests of up to 100. It shares the",
        "processors with the service and with the load, so the last row has what it costs to send, too. The receiver",
        "that hangs has one request under way, which is given up after 10 s and repeated later and later.",
    )
