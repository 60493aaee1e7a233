"""`rankcast bench maps`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from bench.maps import circles, live, paper, skyline, top
from bench.maps.paper import FIGURES, TABLES, Paper
from bench.maps.places import Land, make_land
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "maps.md"

PARTS = ("paper", "kernels", "live")
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

    `figures` are those of the paper to show, drawn beside the page; its only table has what they take, so `tables` are
    none. `quick` runs everything small, and `prototype` is the folder of what the kernels are held against.
    """
    report = Report(say, judging=not quick)
    size = paper.QUICK if quick else paper.Size()

    @cache
    def land() -> Land:
        report.progress("places and roads")
        return make_land(size.places)

    report.heading("Maps: the paper's experiments, and speed", 1)
    report.text(
        f"Written by `rankcast bench maps{' --quick' if quick else ''}` on {today()}, commit {commit()}.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    if "paper" in parts:
        report.heading("The paper's figures")
        Paper(report, size, land, out).show(tables, figures)
    if "kernels" in parts:
        report.heading("Moving skylines")
        skyline.Bench(report, skyline.QUICK if quick else skyline.Size(), prototype).show()
        report.heading("Moving top-k")
        top.Bench(report, top.QUICK if quick else top.Size(), prototype).show()
        report.heading("Skylines off Euclid")
        circles.show(report, circles.QUICK if quick else circles.Size(), land())
    if "live" in parts:
        report.heading("Standing queries")
        live.Bench(report, live.QUICK if quick else live.Size()).show()
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
