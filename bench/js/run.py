"""`rankcast bench js`: thousands of live lists in one process of Node, and the page about them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.boards.streams import BOARD, make_board
from bench.exchange import milliseconds
from bench.process import Failed, Worker, cpu_seconds, run_job, service
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "js.md"
SCRIPT = Path(__file__).with_name("follow.mjs")
PATIENCE = 30.0
BEHIND = 250.0
"""Milliseconds by which the median of the last part may be later than that of the first: more is falling behind."""


class Size(NamedTuple):
    """How much is run: each of `lists` changes `rounds` times a second, `batch` of them in a request."""

    transport: str
    lists: int
    rounds: int
    seconds: int
    batch: int

    @property
    def rate(self) -> int:
        """Changes a second."""
        return self.lists * self.rounds

    @property
    def changes(self) -> int:
        """All changes."""
        return self.rate * self.seconds


SIZES = (Size("websocket", 10_000, 1, 30, 100), Size("sse", 1_000, 10, 30, 100))
QUICK = (Size("websocket", 1_000, 1, 5, 50), Size("sse", 200, 5, 5, 50))


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure both transports; with `out` the page is written there. Raises Failed."""
    node = shutil.which("node")
    if node is None:
        raise Failed("there is no node on the PATH: install Node 20 or newer")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with page("The JavaScript client", "js", quick, out, say, f" Node {version}.") as report:
        for size in QUICK if quick else SIZES:
            report.progress(f"{size.lists:,} lists by {size.transport}")
            show(report, size, measure(node, size))
    return report


def measure(node: str, size: Size) -> dict[str, Any]:
    """One service, one sender, one process of Node; what the last two found."""
    with tempfile.TemporaryDirectory() as name, service(Path(name)) as server:
        make_board(server, size.lists)
        job = {**size._asdict(), "board": BOARD, "port": server.port}
        followed = {**job, "url": f"http://127.0.0.1:{server.port}", "changes": size.changes, "patience": PATIENCE}
        worker = Worker([node, str(SCRIPT), json.dumps({**followed, "buffer": 256})], dict(os.environ))
        try:
            opened = worker.read()
            spent = cpu_seconds(server.pid)
            sent = run_job("bench.js.send", job)
            found: dict[str, Any] = worker.ask("end")
        finally:
            worker.end()
        return {**opened, **sent, **found, "server_cpu": cpu_seconds(server.pid) - spent}


def show(report: Report, size: Size, found: dict[str, Any]) -> None:
    """Add one transport to the report."""
    name = "server-sent events" if size.transport == "sse" else "the WebSocket"
    report.heading(f"By {name}: {size.rate:,} changes a second")
    connections = f"{size.lists:,} connections" if size.transport == "sse" else "one connection"
    each = "once a second" if size.rounds == 1 else f"{size.rounds} times a second"
    report.text(
        f"{size.lists:,} live subscriptions with k = 1 on disjoint ranges with one object each, followed by one "
        f"process of Node over {connections}, each by a loop of its own with the default buffer. For {size.seconds} s "
        f"every object gets a new y {each}, by {size.rate // size.batch:,} requests a second of {size.batch} updates "
        "as JSON. Times are up to the loop that takes the change: from the moment at which its request is due, and "
        "from the answer to that request, which leaves out what waits before the service (a change may be taken before "
        "the answer is). Sender, service and client share the machine."
    )
    taken = sorted(found["lags"])
    if not taken:
        raise Failed("no change arrived")
    answered = dict(map(tuple, found["answered"]))
    after = [y + lag - answered.get(y, y) for y, lag in taken]
    tenth = max(1, len(after) // 10)
    parts = {
        "from when it is due": [lag for _, lag in taken],
        "from the answer": after,
        "from the answer, the first tenth": after[:tenth],
        "from the answer, the last tenth": after[-tenth:],
    }
    ms = {part: milliseconds([value / 1e3 for value in values]) for part, values in parts.items() if values}
    points = ("mean", "p50", "p99", "max")
    rows = [(part, f"{len(parts[part]):,}", *(f"{one[point]:.1f}" for point in points)) for part, one in ms.items()]
    report.table(("time", "changes", "mean ms", "p50", "p99", "max"), rows)
    report.text(
        f"Opening all streams took {found['opened']:.1f} s. The client used {found['cpu'] / found['seconds']:.2f} of a "
        f"core ({found['cpu'] / max(1, found['changes']) * 1e6:.0f} us a change), its event loop was busy for "
        f"{found['busy']:.0%} of the time, and it took {found['memory'] / 1e6:.0f} MB; the service used "
        f"{found['server_cpu'] / found['seconds']:.2f} of a core. Requests were answered in "
        f"{found['answer_ms']['mean']:.1f} ms on average (p99 {found['answer_ms']['p99']:.1f} ms)."
    )
    wrong = found["wrong"] + found["refused"]
    if wrong:
        report.text(f"Wrong: {'; '.join(wrong)}.")
    if found["missing"]:
        report.text(f"{found['missing']:,} requests were not answered: the machine does not take this load.")
    complete = found["changes"] == size.changes and not (found["squashed"] or found["missing"] or wrong)
    report.verdict(
        f"{size.rate:,} changes a second for {size.seconds} s in one process: each taken, in order, none squashed",
        f"{found['changes']:,} of {size.changes:,} changes, {found['squashed']:,} squashed, "
        f"{found['reconnects']:,} reconnects",
        complete and not found["reconnects"],
    )
    late = ms["from the answer, the last tenth"]["p50"] - ms["from the answer, the first tenth"]["p50"]
    report.verdict(
        f"not falling behind: from the answer, the last tenth at most {BEHIND:.0f} ms later than the first (medians)",
        f"{late:+.1f} ms",
        late <= BEHIND,
    )
