"""`rankcast bench socket`: single events over one WebSocket, beside one event a request and a plain route."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.boards.service import QUICK, Bench, Size
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "socket.md"

SIZE = Size(m=200_000)

MORE = (
    " Where others share the machine, as its load before the run says, requests a second are those that the processor "
    "and the disk had time for; processor time a request compares better. A window bounds what can be answered in the "
    "time of one commit: its size over the time from frame to answer is the rate."
)


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure, reporting each piece as it is done; with `out` the page is written there."""
    with page("Requests over a socket", "socket", quick, out, say, MORE) as report:
        Bench(report, QUICK if quick else SIZE).show(frozenset({"singles"}))
    return report
