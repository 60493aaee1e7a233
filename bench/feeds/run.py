"""`rankcast bench feeds`: feeds by index and by buffer, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from bench.feeds import service, speed, trends
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "feeds.md"


def run(
    quick: bool = False,
    prototype: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = print,
    spark: bool = False,
    http: bool = False,
) -> Report:
    """Run the benchmark, telling each piece as it is known; with `out` the page is written there. `quick` runs it
    small, `prototype` is the folder of what feeds are held against, and `spark` is whether Spark takes part. With
    `http` the service alone is measured, over HTTP. Raises `Failed` for a wrong answer of it."""
    report = Report(say, judging=not quick)
    report.heading("Feeds: the paper's index and ours", 1)
    options = (" --http" if http else "") + (" --quick" if quick else "")
    report.text(
        f"Written by `rankcast bench feeds{options}` on {today()}, commit {commit()}.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    if not http:
        report.heading("Posts")
        speed.Bench(report, speed.QUICK if quick else speed.Size(), prototype).show()
        trends.show(report, trends.QUICK if quick else trends.Size())
    report.heading("Posts over HTTP")
    service.show(report, service.QUICK if quick else service.Size())
    if spark:
        # The command is the service's, which imports no job of Spark.
        on_spark = import_module("bench.feeds.spark")
        on_spark.show(report, on_spark.QUICK if quick else on_spark.SparkSize())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
