"""What a job says on stdout: JSON, one object a line, the last one its result. Logs are for stderr."""

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
    """Lines ``{"progress": 0.4, "step": "..."}`` that never go back, and one last line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._said = (-1.0, "")

    def step(self, fraction: float, step: str) -> None:
        """The fraction of the whole job that is done, 0..1, and what it is at."""
        with self._lock:
            line = (max(round(fraction, 3), self._said[0]), step)
            if line != self._said:
                self._said = line
                self._say({"progress": line[0], "step": step})

    def last(self, fields: dict[str, Any]) -> None:
        """The result, or {"error": ...}. Nothing comes after it."""
        with self._lock:
            self._say(fields)

    def _say(self, fields: dict[str, Any]) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    @contextmanager
    def follow(self, context: SparkContext, low: float, high: float, step: str, jobs: int = 1) -> Iterator[None]:
        """Meanwhile say how far Spark is with so many jobs, as a part of the way from `low` to `high`."""
        context.setJobGroup(step, step)
        tracker = context.statusTracker()
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_EVERY):
                with suppress(Exception):  # Spark may be on its way out, which is not for this thread to tell
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
    """The share of the group's tasks that are done; every job counts the same, also those that have not begun."""
    shares = []
    for job in filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))):
        stages = [stage for stage in map(tracker.getStageInfo, job.stageIds) if stage]
        done = sum(stage.numCompletedTasks for stage in stages)
        shares.append(done / max(sum(stage.numTasks for stage in stages), 1))
    return min(sum(shares) / max(jobs, len(shares)), 1.0)


def own_stdout() -> TextIO:
    """Keep stdout for us alone: whatever else in this process or its children writes there goes to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return ours
