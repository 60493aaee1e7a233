"""`rankcast bench durability`: the parts, and the page that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.durability import churn, service
from bench.report import RESULTS, Report, page

PAGE = RESULTS / "durability.md"

PARTS = ("churn", "service")


def run(
    parts: Sequence[str],
    quick: bool = False,
    spark: bool = True,
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Run parts of the benchmark, reporting each piece as it is done; with `out` the page is written there."""
    with page("Durability: starts, snapshots, rebuilds", "durability", quick, out, say) as report:
        if "service" in parts:
            size = service.QUICK if quick else service.Size()
            service.Bench(report, size._replace(spark=spark)).show()
        if "churn" in parts:
            churn.show(report, churn.QUICK if quick else churn.Size())
    return report
