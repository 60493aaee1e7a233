"""A stand-in for those who do the work of jobs: a test says when and how each ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from app.write_path.jobs import JobFailed, Report
from tests.support.patience import PATIENCE

LIMIT = PATIENCE


class FakeMaintenance:
    """Every job waits for `go` (set unless a test clears it), reporting `steps` first; `fails` makes it fail.

    `calls` is what was asked for, `begun` is released once for each job that began. `more` is what rebuilds tell
    besides.
    """

    snapshot_lsn = 0

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()
        self.steps: list[tuple[float, str]] = []
        self.fails: Exception | None = None
        self.more: dict[str, Any] = {}

    async def snapshot(self, report: Report) -> dict[str, Any]:
        return await self._work(report, ("snapshot",), {"lsn": 7, "bytes": 2_500_000, "seconds": 0.5})

    async def rebuild(
        self, report: Report, resources: list[str] | None, engine: str, rederive: bool = True
    ) -> dict[str, Any]:
        detail = {"engine": engine, "rows": 3, "seconds": 1.5, **self.more}
        return await self._work(report, ("rebuild", resources, engine), detail)

    async def verify(self, report: Report, resources: list[str] | None, engine: str) -> dict[str, Any]:
        return await self._work(report, ("verify", resources, engine), {"compared": 12, "differences": []})

    async def _work(self, report: Report, call: tuple[Any, ...], detail: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(call)
        self.begun.release()
        for fraction, step in self.steps:
            report(fraction, step)
        while not self.go.is_set():
            await asyncio.sleep(0.002)
        if self.fails is not None:
            raise self.fails
        return detail


def different(count: int) -> JobFailed:
    """What a verification fails with that found so many differences."""
    found = [{"resource": "boards/b", "subscription": f"s{n}", "expected": [n], "found": []} for n in range(count)]
    return JobFailed(f"{count} lists differ", {"compared": 50, "differences": found, "difference_count": count})
