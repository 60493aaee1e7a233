"""The output of a job on stdout: JSON, one object a line, the last one its result. Logs go to stderr."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker

_EVERY = 0.5
"""Seconds between two looks at Spark's stages."""


class Progress:
    """Lines ``{"progress": 0.4, "step": "..."}`` whose progress never decreases, and one last line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._reported = (-1.0, "")

    def step(self, fraction: float, step: str) -> None:
        """Report the fraction of the job that is done, 0..1, and its present step."""
        with self._lock:
            line = (max(round(fraction, 3), self._reported[0]), step)
            if line != self._reported:
                self._reported = line
                self._write({"progress": line[0], "step": step})

    def last(self, fields: dict[str, Any]) -> None:
        """Report the result, or {"error": ...}, at the end."""
        with self._lock:
            self._write(fields)

    def _write(self, fields: dict[str, Any]) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    @contextmanager
    def follow(self, context: SparkContext, low: float, high: float, step: str, jobs: int = 1) -> Iterator[None]:
        """Report the progress of so many of Spark's jobs in the body, from `low` to `high`."""
        context.setJobGroup(step, step)
        tracker = context.statusTracker()
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_EVERY):
                with suppress(Exception):  # Spark may be ending, which the body reports
                    self.step(low + (high - low) * _share(tracker, step, jobs), step)

        self.step(low, step)
        thread = threading.Thread(target=watch, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(10 * _EVERY)
        self.step(high, step)


def _share(tracker: StatusTracker, group: str, jobs: int) -> float:
    """The share of the group's tasks that are done; jobs count equally, also those that have not begun."""
    shares = []
    for job in filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))):
        stages = [stage for stage in map(tracker.getStageInfo, job.stageIds) if stage]
        done = sum(stage.numCompletedTasks for stage in stages)
        shares.append(done / max(sum(stage.numTasks for stage in stages), 1))
    return min(sum(shares) / max(jobs, len(shares)), 1.0)


def own_stdout() -> TextIO:
    """Reserve stdout for the job: all other output of this process and its children goes to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours
