"""Processes that tests start: each ends with the test, the module or the session that its fixture belongs to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Literal, get_args

import pytest

from tests.support.forks import Forked

Process = subprocess.Popen[bytes] | Forked


Scope = Literal["test", "module", "session"]
_ORDER: tuple[Scope, ...] = get_args(Scope)


class Processes:
    """What was started and may still run, in order, each with the scope that it lasts for at the least."""

    def __init__(self) -> None:
        self._started: list[tuple[Process, Scope]] = []

    def append(self, process: Process, until: Scope = "test") -> None:
        self._started.append((process, until))

    def __len__(self) -> int:
        return len(self._started)

    def end(self, scope: Scope, first: int = 0) -> None:
        """Kill those from this one on that do not last longer than this scope, the last first."""
        began = self._started[first:]
        over = set(_ORDER[: _ORDER.index(scope) + 1])
        self._started[first:] = [one for one in began if one[1] not in over]
        for process, until in reversed(began):
            if until in over and process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """The processes of this session."""
    started = Processes()
    yield started
    started.end("session")
