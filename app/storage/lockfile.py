"""A file that one process at a time holds, with the id of that process."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Taken(Exception):
    """Another process holds it. `by` names that process as far as it is known: `` (process 123)``, or nothing."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


def take(file: Path) -> int:
    """Take the lock on a file, making it when it is missing; it is held until the descriptor is closed.

    Raises `Taken`, and OSError when the file cannot be written.
    """
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        with suppress(OSError):
            # A full disk: the lock is held all the same.
            os.write(lock, f"{os.getpid()}\n".encode())
    except BlockingIOError:
        holder = os.read(lock, 32).decode("ascii", "replace").strip()
        os.close(lock)
        raise Taken(f" (process {holder})" if holder.isdigit() else "") from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def holder(file: Path) -> str | None:
    """Who holds the lock on a file, as `Taken.by`; None where nobody does. To find out it is shared for a moment."""
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(lock, 32).decode("ascii", "replace").strip()
        return f" (process {text})" if text.isdigit() else ""
    finally:
        os.close(lock)
    return None
