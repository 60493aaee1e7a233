"""`rankcast bench all`: every resource on one page, each table measured by a process of its own.

A table that fails says so on the page, after the rows that it had; the others are measured all the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bench.process import CHECKOUT, OURS, Failed
from bench.report import RESULTS, Report, commit, load, page
from bench.summary import machine
from bench.summary.before import VARIABLE
from bench.summary.rows import HEAD, Row
from bench.summary.tables import MODULE, TABLES

PAGE = RESULTS / "summary.md"

SECONDS = {True: 900.0, False: 3_600.0}
"""How long a table may take, quick or not."""

TAIL_LINES = 3
TAIL_CHARACTERS = 300

Measure = Callable[[str, bool, Path | None], Iterator[Row]]
"""Measures the rows of a table, by its name, quick or not, beside a checkout of the commit before. Raises Failed."""


class Done(NamedTuple):
    """A table: its rows, how it failed if so, and the seconds that it took."""

    rows: list[Row]
    failure: str
    seconds: float


def run(
    only: Sequence[str] = (),
    quick: bool = False,
    out: Path | None = None,
    say: Callable[[str], None] = print,
    measure: Measure | None = None,
    before: Path | None = None,
) -> Report:
    """Measure the tables that are named, all by default, and write the page to `out`, also when Ctrl-C ends it.

    `quick` takes fewer rounds, and smaller sizes only where a row says so; `measure` measures a table;
    `before` is a checkout of the commit before, set up and with its kernels compiled, to measure beside ours.

    Raises:
        Failed: every table has failed.
    """
    names = [name for name in TABLES if not only or name in only]
    command = " ".join(["all", *(f"--only {name}" for name in names if only)])
    began = time.monotonic()
    with page("All resources on one page", command, quick, out, say) as report:
        here = machine.measure()
        done: dict[str, Done] = {}
        try:
            for number, name in enumerate(names):
                report.progress(f"{TABLES[name].title.lower()}, {number + 1} of {len(names)}; load {load()}")
                done[name] = _measured(name, quick, before, say, measure or in_a_process)
        except KeyboardInterrupt:
            say("ended early; the page has what was measured")
        rows = [row for one in done.values() for row in one.rows]
        judged = [row for row in rows if row.met is not None]
        report.text(here.said())
        report.text(_about(quick, time.monotonic() - began))
        report.text(_of_before(before))
        report.text(
            f"{sum(row.met is True for row in judged)} of {len(judged)} targets are met; "
            f"{len(rows) - len(judged)} rows are not judged, since what they are compared with is not there."
        )
        left = [f"`{name}`" for name in names if name not in done]
        if left:
            report.text(f"**Ended early**, without {', '.join(left)}.")
        for name, one in done.items():
            report.heading(TABLES[name].title)
            if one.rows:
                report.table(HEAD, (row.cells() for row in one.rows), text=HEAD[1:])
            if one.failure:
                report.text(f"**Failed**: {one.failure}")
            report.text(f"`--only {name}`, {one.seconds:.0f} s.")
    if done and all(one.failure and not one.rows for one in done.values()):
        raise Failed("no table could be measured")
    if left:
        raise KeyboardInterrupt
    return report


def _about(quick: bool, seconds: float) -> str:
    fewer = " Rounds are few, and some sizes smaller than without `--quick`: each row has its own." if quick else ""
    return (
        f"Measured in {seconds / 60:.1f} minutes, each table by a fresh process. Kernels by thread time, on one core, "
        "in rounds that alternate with what they are compared with; medians. The service runs in a process of its own "
        "with its durable log, the load generator in another." + fewer
    )


def _of_before(before: Path | None) -> str:
    if before is None:
        return (
            f"The commit before is not there (`--before` or `{VARIABLE}` names a checkout of it): targets in absolute "
            "figures are judged by these alone, which were set on another machine."
        )
    return (
        f"The commit before is {commit(before)}, measured in the same run by its own code. A target in absolute "
        "figures was set on a machine on which that commit was measured too; it is met by the figure itself, or where "
        "ours is as many times as fast as that commit as the target was there."
    )


def _measured(name: str, quick: bool, before: Path | None, say: Callable[[str], None], measure: Measure) -> Done:
    """The rows of a table, said as they come, and the failure that ended it."""
    rows: list[Row] = []
    failure = ""
    began = time.monotonic()
    try:
        for row in measure(name, quick, before):
            rows.append(row)
            verdict = "" if row.met is None else " (met)" if row.met else " (missed)"
            say(f"  {row.name}, {row.size}: {row.ours}; wanted {row.wanted}{verdict}")
    except Failed as error:
        failure = _one_line(str(error))
        say(f"  {name} failed: {error}")
    return Done(rows, failure, time.monotonic() - began)


def in_a_process(name: str, quick: bool, before: Path | None = None, seconds: float | None = None) -> Iterator[Row]:
    """The rows of a table from a fresh process. Raises Failed when it ends with an error or takes too long."""
    limit = seconds or SECONDS[quick]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            cwd=CHECKOUT,
            env=OURS.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        late = threading.Event()

        def end() -> None:
            late.set()
            _kill(process)

        watch = threading.Timer(limit, end)
        watch.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            with suppress(BrokenPipeError):
                json.dump({"table": name, "quick": quick, "before": str(before or "")}, process.stdin)
                process.stdin.close()
            for line in process.stdout:
                yield _row(line)
            status = process.wait()
        finally:
            watch.cancel()
            _kill(process)
        if late.is_set():
            raise Failed(f"not done within {limit:g} s")
        if status:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise Failed("\n".join(lines[-TAIL_LINES:]) or f"ended with status {status}")


def _row(line: str) -> Row:
    found: Any = json.loads(line)
    return Row(*found)


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and all that it started, which are a session of their own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _one_line(text: str) -> str:
    """A message as one line of a page, its end kept."""
    line = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return line if len(line) <= TAIL_CHARACTERS else "... " + line[-TAIL_CHARACTERS:]
