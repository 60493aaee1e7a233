"""`rankcast bench maps`: which parts are run, in which order, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from bench.maps import circles, live, paper, service, skyline, top
from bench.maps.paper import FIGURES, TABLES, Paper
from bench.maps.places import Land, make_land
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "maps.md"

PARTS = ("paper", "kernels", "live", "http")
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

    `figures` are those of [Moving queries] to show, drawn next to the page; its only table is of costs, so `tables` are
    none. `quick` runs everything small, and `prototype` is the folder of the prototype that kernels are compared with.

    Raises:
        Failed: an answer of the service is not the right one.
    """
    size = paper.QUICK if quick else paper.Size()

    @cache
    def land() -> Land:
        say("(places and roads)\n")
        return make_land(size.places)

    with page("Maps: the experiments of [Moving queries], and speed", "maps", quick, out, say) as report:
        if "paper" in parts:
            report.heading("The figures of [Moving queries]")
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
        if "http" in parts:
            report.heading("Over HTTP")
            service.show(report, service.QUICK if quick else service.Size())
    return report
