"""`rankcast bench relays`: the relays' kernels, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.relays import kernels
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "relays.md"


def run(
    quick: bool = False,
    prototype: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run it, telling each piece as it is known; with `out` the page is written there.

    `quick` runs everything small, and `prototype` is the folder of what the kernels are held against.
    """
    report = Report(say, judging=not quick)
    report.heading("Relays: covering and notifications", 1)
    report.text(
        f"Written by `rankcast bench relays{' --quick' if quick else ''}` on {today()}, commit {commit()}.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    report.heading("Kernels")
    kernels.Bench(report, kernels.QUICK if quick else kernels.Size(), prototype).show()
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
