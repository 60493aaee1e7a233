"""`rankcast bench feeds`: feeds by index and by buffer, and the page of results."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from bench.feeds import service, speed, trends
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "feeds.md"


def run(
    quick: bool = False,
    prototype: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = print,
    spark: bool = False,
    http: bool = False,
) -> Report:
    """Run the benchmark, reporting results as they are known; with `out` the page is written there. `quick` runs it
    small, `prototype` is the folder of the prototype, `spark` includes Spark. With `http` only the service is measured,
    over HTTP. Raises `Failed` for a wrong result of it."""
    with page("Feeds", "feeds --http" if http else "feeds", quick, out, say) as report:
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
    return report
