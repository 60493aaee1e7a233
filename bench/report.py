"""What a benchmark says: Markdown, printed as it comes and kept for a page of `docs/results`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.process import CHECKOUT

RESULTS = CHECKOUT / "docs" / "results"
PACKAGES = ("numba", "numpy", "fastapi", "pydantic", "uvicorn", "uvloop", "httptools", "websockets", "pyarrow")


class Report:
    """A page that grows from the top. `say` sees each piece as it is added; without `judging` no target is judged."""

    def __init__(self, say: Callable[[str], None] = print, judging: bool = True) -> None:
        self._pieces: list[str] = []
        self._say = say
        self._judging = judging
        self._started = time.monotonic()
        self.verdicts: list[tuple[str, str, bool]] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._say(piece + "\n")

    def progress(self, text: str) -> None:
        """Say what is done next, and since when; not on the page."""
        self._say(f"({time.monotonic() - self._started:.0f} s: {text})\n")

    def heading(self, text: str, level: int = 2) -> None:
        self.add(f"{'#' * level} {text}")

    def text(self, *sentences: str) -> None:
        self.add(" ".join(sentences))

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[str] = ()) -> None:
        """A table; the first column and those named in `text` are text, the others numbers."""
        lines = [f"| {' | '.join(head)} |"]
        lines.append(f"|{'|'.join(' --- ' if name in (head[0], *text) else ' ---: ' for name in head)}|")
        lines.extend(f"| {' | '.join(row)} |" for row in rows)
        self.add("\n".join(lines))

    def verdict(self, wanted: str, measured: str, met: bool) -> None:
        """A target, and whether it was met."""
        if not self._judging:
            self.add(f"Not judged at this size: {wanted}; measured {measured}.")
            return
        self.verdicts.append((wanted, measured, met))
        self.add(f"**{'Met' if met else 'Missed'}**: {wanted}; measured {measured}.")

    def page(self) -> str:
        """All pieces, with the verdicts together after the title and what was measured on."""
        pieces = list(self._pieces)
        if self.verdicts:
            rows = [
                f"| {wanted} | {measured} | {'met' if met else '**missed**'} |"
                for wanted, measured, met in self.verdicts
            ]
            pieces.insert(2, "\n".join(["| wanted | measured | |", "| --- | --- | --- |", *rows]))
        return "\n\n".join(pieces) + "\n"


@contextmanager
def page(
    title: str, command: str, quick: bool, out: Path | None, say: Callable[[str], None], more: str = ""
) -> Iterator[Report]:
    """A report under its title, what wrote it and what it was measured on; with `out` the page is written there."""
    report = Report(say, judging=not quick)
    report.heading(title, 1)
    report.text(
        f"Written by `rankcast bench {command}{' --quick' if quick else ''}` on {today()}, commit {commit()}.{more}\n\n"
        f"- machine: {machine()}; load before the run: {load()}\n- {versions()}"
    )
    yield report
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report.page())


def machine() -> str:
    """The processor, its cores and the memory, in words."""
    model = platform.processor() or platform.machine()
    memory = ""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
        kilobytes = int(Path("/proc/meminfo").read_text().split()[1])
        memory = f", {kilobytes / (1 << 20):.1f} GiB of memory"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores{memory}, {platform.system()} {platform.machine()}"


def load() -> str:
    """The load averages of the machine, so that a noisy run shows."""
    one, five, _ = os.getloadavg()
    return f"{one:.1f} (1 min), {five:.1f} (5 min)"


def commit(checkout: Path = CHECKOUT) -> str:
    """The commit of a checkout, and whether tracked files differ from it."""
    try:
        name = _git(checkout, "rev-parse", "--short=12", "HEAD")
        changed = _git(checkout, "status", "--porcelain", "--untracked-files=no")
        return f"{name}{' with uncommitted changes' if changed else ''}"
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def versions() -> str:
    """The interpreter and the packages that matter for speed."""
    found = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return ", ".join([f"Python {platform.python_version()}", *found, f"SQLite {sqlite3.sqlite_version}"])


def today() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def ratio(value: float) -> str:
    """A ratio in three digits or so.

    >>> ratio(1.0312), ratio(12.34), ratio(317.2)
    ('1.03', '12.3', '317')
    """
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def count(value: float) -> str:
    """A number with as many digits as it is worth.

    >>> count(0.72744), count(40.69192), count(8032.39), count(2000000)
    ('0.727', '40.7', '8,032', '2,000,000')
    """
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def middle(values: Sequence[float], digits: int = 1) -> str:
    """The median, then the least and the greatest.

    >>> middle([1.0, 2.0, 4000.0])
    '2.0 (1.0-4,000.0)'
    """
    return f"{median(values):,.{digits}f} {spread(values, lambda value: f'{value:,.{digits}f}')}"


def spread(values: Sequence[float], show: Callable[[float], str] = count) -> str:
    """The least and the greatest, in parentheses."""
    return f"({show(min(values))}-{show(max(values))})"


def _git(checkout: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=checkout, check=True, capture_output=True, text=True)
    return done.stdout.strip()
