"""`rankcast bench relays`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.relays import kernels, paper, peers, service, theorem
from bench.relays.paper import FIGURES, TABLES, Paper
from bench.relays.speed import Speed
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "relays.md"

PARTS = ("paper", "theorem", "kernels", "http", "peers")
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
        Failed: an answer of the service or of a peer is not the right one.
    """
    report = Report(say, judging=not quick)
    size = kernels.QUICK if quick else kernels.Size()
    speed = Speed(report, size.rounds, size.scans, prototype)
    report.heading("Relays: the paper's experiments, and speed", 1)
    report.text(
        f"Written by `rankcast bench relays{' --quick' if quick else ''}` on {today()}, commit {commit()}. A random "
        "box has two uniform ends in [0, 2^31 - 1] in each attribute; points have two dimensions an attribute.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    if "paper" in parts:
        report.heading("The paper's tables and figures")
        Paper(report, paper.QUICK if quick else paper.Size(), speed, out).show(tables, figures)
    if "theorem" in parts:
        report.heading("Theorem 1")
        theorem.show(report, theorem.QUICK if quick else theorem.Size())
    if "kernels" in parts:
        report.heading("Kernels")
        kernels.Bench(report, size, speed).show()
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
