"""`rankcast bench boards`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.boards import batch_speed, change_costs, kernels, service, space, streams
from bench.boards.paper import FIGURES, TABLES, Paper
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "boards.md"

PARTS = ("paper", "kernels", "space", "register", "http", "streams")
"""In the order in which they run. "http" includes "register"."""


def run(
    parts: Sequence[str],
    tables: Sequence[int] = TABLES,
    figures: Sequence[int] = FIGURES,
    quick: bool = False,
    prototype: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run parts of the benchmark, reporting each piece as it is done; with `out` the page is written there.

    `tables` and `figures` are those of the paper to show, figures being drawn next to the page; `quick` runs everything
    small, and `prototype` is the folder of what the kernels are compared with.
    """
    with page("Boards: counts and speed", "boards", quick, out, say) as report:
        wanted = set(parts)
        if "paper" in wanted:
            report.heading("The paper's tables and figures")
            Paper(report, quick, out).show(tables, figures)
        if "kernels" in wanted:
            report.heading("Kernels")
            kernels.Bench(report, kernels.QUICK if quick else kernels.Size(), prototype).show()
            report.heading("Batches", 3)
            batch_speed.show(report, batch_speed.QUICK if quick else batch_speed.Size())
        if "space" in wanted:
            report.heading("Several range attributes")
            space.show(report, space.QUICK if quick else space.Size())
        if wanted & {"register", "http"}:
            report.heading("Over HTTP, with the durable log")
            size = service.QUICK if quick else service.Size()
            service.Bench(report, size).show(frozenset(wanted & {"register", "http"}))
        if "streams" in wanted:
            report.heading("Streams")
            streams.show(report, streams.QUICK if quick else streams.Size())
            change_costs.show(report, change_costs.QUICK if quick else change_costs.Size())
    return report
