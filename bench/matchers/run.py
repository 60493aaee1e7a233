"""`rankcast bench matchers`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.matchers import kernels, paper, peers, plan, service
from bench.matchers.paper import FIGURES, TABLES, Paper
from bench.matchers.workload import K
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "matchers.md"

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
    """Run parts of the benchmark, telling each piece as it is known; with `out` the page is written there.

    `tables` and `figures` are those of the paper to show, figures being drawn beside the page; `quick` runs everything
    small, and `prototype` is the folder of what the kernels are held against.

    Raises:
        Failed: a peer's answer is not the right one.
    """
    report = Report(say, judging=not quick)
    report.heading("Matchers: the paper's experiments, and speed", 1)
    report.text(
        f"Written by `rankcast bench matchers{' --quick' if quick else ''}` on {today()}, commit {commit()}. "
        f"{(kernels.QUICK if quick else kernels.Size()).n:,} subscriptions and k = {K} unless said.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
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
        report.heading("Beside what one would use instead")
        peers.show(report, peers.QUICK if quick else peers.Size())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
