"""`rankcast bench relays`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.relays import kernels, paper, peers, service, theorem
from bench.relays.paper import FIGURES, TABLES, Paper
from bench.relays.speed import Speed
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "relays.md"

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
    """Run parts of the benchmark, reporting each piece as it is done; with `out` the page is written there.

    `tables` and `figures` are those of the publication to show, figures being drawn next to the page; `quick` runs
    everything small, and `prototype` is the folder of the prototype that the kernels are compared with.

    Raises:
        Failed: an answer of the service or of a peer is not the right one.
    """
    size = kernels.QUICK if quick else kernels.Size()
    more = " A random box has two uniform ends in [0, 2^31 - 1] in each attribute; points have two dimensions for each."
    with page("Relays: the paper's experiments, and speed", "relays", quick, out, say, more) as report:
        speed = Speed(report, size.rounds, size.scans, prototype)
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
            report.heading("What one would use instead")
            peers.show(report, peers.QUICK if quick else peers.Size())
    return report
