"""Processes that tests start: each ends with the test, the module or the session that its fixture belongs to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.support.forks import Forked

Process = subprocess.Popen[bytes] | Forked


class Processes:
    """What was started and may still run, in order."""

    def __init__(self) -> None:
        self._started: list[Process] = []
        self._lasting: list[Process] = []

    def append(self, process: Process, lasting: bool = False) -> None:
        """Add a process; a lasting one ends with the session, whichever test needed it first."""
        (self._lasting if lasting else self._started).append(process)

    def __len__(self) -> int:
        return len(self._started)

    def end_from(self, first: int) -> None:
        """Kill those that were started from this one on, the last first."""
        while len(self._started) > first:
            _end(self._started.pop())

    def end_all(self) -> None:
        self.end_from(0)
        while self._lasting:
            _end(self._lasting.pop())


def _end(process: Process) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """The processes of this session."""
    started = Processes()
    yield started
    started.end_all()
