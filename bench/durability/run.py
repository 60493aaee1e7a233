"""`rankcast bench durability`: the parts, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.durability import churn, service
from bench.report import CHECKOUT, Report, commit, load, machine, today, versions

PAGE = CHECKOUT / "docs" / "results" / "durability.md"

PARTS = ("churn", "service")


def run(
    parts: Sequence[str],
    quick: bool = False,
    spark: bool = True,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run parts of the benchmark, telling each piece as it is known; with `out` the page is written there."""
    report = Report(say, judging=not quick)
    report.heading("Durability: starts, snapshots, rebuilds", 1)
    report.text(
        f"Written by `rankcast bench durability{' --quick' if quick else ''}` on {today()}, commit {commit()}.\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    if "service" in parts:
        size = service.QUICK if quick else service.Size()
        service.Bench(report, size._replace(spark=spark)).show()
    if "churn" in parts:
        churn.show(report, churn.QUICK if quick else churn.Size())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())
    return report
