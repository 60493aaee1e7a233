"""`rankcast bench boards`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.boards import kernels, service, streams, tables
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "boards.md"

TABLES = (1, 3, 4)
PARTS = ("tables", "kernels", "register", "http", "streams")
"""In the order in which they run. "http" includes "register"."""


def run(
    parts: Sequence[str],
    numbers: Sequence[int] = TABLES,
    quick: bool = False,
    prototype: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run parts of the benchmark, telling each piece as it is known; with `out` the page is written there.

    `numbers` are the tables to show, `quick` runs everything small, and `prototype` is the folder of what the kernels
    are held against.
    """
    report = Report(say, judging=not quick)
    report.heading("Boards: counts and speed", 1)
    report.text(
        f"Written by `rankcast bench boards{' --quick' if quick else ''}` on {today()}, commit {commit()}.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    wanted = set(parts)
    if "tables" in wanted:
        report.heading("Counts as in the paper")
        tables.Tables(report, tables.QUICK if quick else tables.Size()).show(numbers)
    if "kernels" in wanted:
        report.heading("Kernels")
        kernels.Bench(report, kernels.QUICK if quick else kernels.Size(), prototype).show()
    if wanted & {"register", "http"}:
        report.heading("Over HTTP, with the durable log")
        size = service.QUICK if quick else service.Size()
        service.Bench(report, size).show(frozenset(wanted & {"register", "http"}))
    if "streams" in wanted:
        report.heading("Streams")
        streams.show(report, streams.QUICK if quick else streams.Size())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
