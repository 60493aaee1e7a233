"""Whether the log may be written where it is: the data directory is in its place, and its disk has room.

What was written while neither held would be found by nobody, or fail half-way. Reads go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from app.errors import LogUnavailable
from app.runtime import logs
from app.storage.directory import DataDirectory
from app.storage.log import Log

FULL = 1 << 20
"""Free bytes below which a write that failed is taken for one that found the disk full, and a start does not write."""

ROOM = 2 << 20
"""Free bytes from which on writes are let in again."""

LOOK_SECONDS = 0.2
"""Seconds between two looks for room."""

logger = logs.get("log")


class Gate:
    """Opens and closes the log for writes. `look` is called about once a second, in any one thread."""

    def __init__(self, directory: DataDirectory, log: Log, full: bool = False) -> None:
        self._directory = directory
        self._log = log
        self._full = full
        self._disk = disk_of(directory, log)
        log.ownership.on_failure = self._failed
        self._refuse(self._why_full() if full else None)

    def look(self) -> None:
        """Close the log, or open it again."""
        moved = self._directory.moved()
        if moved is None and self._full:
            self._make_room()
        self._refuse(moved or (self._why_full() if self._full else None))

    def _failed(self) -> None:
        """A write has failed: where the disk is full, the next ones need not try."""
        if self._disk is not None and free(self._disk) < FULL:
            self._full = True
            self._refuse(self._why_full())

    def _make_room(self) -> None:
        assert self._disk is not None
        if free(self._disk) < ROOM:
            # The write-ahead log keeps the room that a write took which did not fit.
            with suppress(LogUnavailable):
                self._log.reclaim()
        if free(self._disk) >= ROOM:
            self._full = False
            self._directory.reserve()

    def _why_full(self) -> str:
        return f"the disk of {self._disk} is full: nothing is written before {ROOM >> 20} MiB are free"

    def _refuse(self, why: str | None) -> None:
        before, self._log.ownership.refused = self._log.ownership.refused, why
        if why is not None and why != before:
            logger.error("the log takes no writes", why=why)
        elif why is None and before is not None:
            logger.info("the log takes writes again")


def disk_of(directory: DataDirectory, log: Log) -> Path | None:
    """The folder whose disk the log is on; None where that is a server's."""
    if log.database.remote:
        return None
    file = log.database.engine.url.database
    return Path(file).absolute().parent if file else directory.path


def free(folder: Path) -> int:
    """Free bytes of the disk that a folder is on, for who runs this; a disk that cannot be asked has room."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return ROOM
    return found.f_bavail * found.f_frsize


def wait_for_room(folder: Path, cancelled: Callable[[], bool]) -> bool:
    """Return once the disk of a folder has room, which is true, or it is cancelled. In a thread."""
    while not cancelled():
        if free(folder) >= ROOM:
            return True
        time.sleep(LOOK_SECONDS)
    return False
