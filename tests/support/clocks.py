"""A system's clock that a test sets while a service runs, in a process that was forked for it.

The time of day of Python jumps; clocks that cannot be set go on, as they do when a system's clock is set.
(libfaketime 0.9.10 makes `time.sleep` fail where it leaves those clocks alone.)
"""

from __future__ import annotations

import os
import time
from pathlib import Path

SETTING = "RANKCAST_TEST_CLOCK"
"""The environment variable that names the file with the seconds by which the clock is ahead."""

_right = time.time


class SystemClock:
    """The clock of one machine. A service that is started with `env` goes by it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.env = {SETTING: str(file)}
        self.set(0.0)

    def set(self, ahead: float) -> None:
        """Let it be so many seconds ahead, from now on."""
        draft = self._file.with_suffix(".draft")
        draft.write_text(str(ahead))
        draft.rename(self._file)


def go_by(file: Path) -> None:
    """Let this process go by the clock that is set in a file."""
    from app.runtime import clock

    def now() -> float:
        return _right() + float(file.read_text())

    time.time = now
    clock.clock = clock.Clock(now)


def go_by_setting() -> None:
    """Let this process go by the clock that the environment names, if it does, and what it replaces itself by."""
    if SETTING in os.environ:
        os.environ["PYTHONPATH"] = str(Path(__file__).with_name("clocked"))
        go_by(Path(os.environ[SETTING]))
