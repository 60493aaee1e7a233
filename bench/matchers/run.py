"""`rankcast bench matchers`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.matchers import kernels, paper, peers, plan, service
from bench.matchers.paper import FIGURES, TABLES, Paper
from bench.matchers.workload import K
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "matchers.md"

PARTS = ("paper", "kernels", "plan", "http", "peers")
"""In the order in which they run."""


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

    `tables` and `figures` are those of the publication to show, figures being drawn next to the page; `quick` runs
    everything small, and `prototype` is the folder of the prototype that the kernels are compared with.

    Raises:
        Failed: a peer's answer is not the right one.
    """
    more = f" {(kernels.QUICK if quick else kernels.Size()).n:,} subscriptions and k = {K} unless said."
    with page("Matchers: the paper's experiments, and speed", "matchers", quick, out, say, more) as report:
        if "paper" in parts:
            report.heading("The paper's table and figures")
            Paper(report, paper.QUICK if quick else paper.Size(), out).show(tables, figures)
        if "kernels" in parts:
            report.heading("Kernels")
            kernels.Bench(report, kernels.QUICK if quick else kernels.Size(), prototype).show()
        if "plan" in parts:
            report.heading("Which way to match exactly")
            plan.show(report, plan.QUICK if quick else plan.Size())
        if "http" in parts:
            report.heading("Over HTTP")
            service.show(report, service.QUICK if quick else service.Size())
        if "peers" in parts:
            report.heading("What one would use instead")
            peers.show(report, peers.QUICK if quick else peers.Size())
    return report
