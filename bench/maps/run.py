"""`rankcast bench maps`: moving skylines and top-k, standing ones, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.maps import live, skyline, top
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "maps.md"


def run(
    quick: bool = False,
    prototype: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run the benchmark, telling each piece as it is known; with `out` the page is written there. `quick` runs it
    small, and `prototype` is the folder of what the kernels are held against."""
    report = Report(say, judging=not quick)
    report.heading("Maps: the paper's experiments, and speed", 1)
    report.text(
        f"Written by `rankcast bench maps{' --quick' if quick else ''}` on {today()}, commit {commit()}.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    report.heading("Moving skylines")
    skyline.Bench(report, skyline.QUICK if quick else skyline.Size(), prototype).show()
    report.heading("Moving top-k")
    top.Bench(report, top.QUICK if quick else top.Size(), prototype).show()
    report.heading("Standing queries")
    live.Bench(report, live.QUICK if quick else live.Size()).show()
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
