"""The data directory: who may use it, which format it has, and the epoch of its history.

``lock`` is held by the one process that uses it, ``FORMAT`` is the version of what is in it, ``EPOCH`` a random id
written at the first use: the same epoch is the same history. The rest belongs to the modules beside this one.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from app.storage.lockfile import Taken, take

FORMAT = 3
"""1: the log is whole from its first row. 2: it may begin after a snapshot. 3: subscriptions may have an offset and a
filter, boards several range attributes.

An older directory becomes a newer one when it is opened.
"""

EPOCH = "EPOCH"

RESTORING = "RESTORING"
"""A file that lies in a data directory while it is being restored: until it is gone the directory is not whole. It
holds the epoch that the directory is to have."""


class DirectoryUnusable(Exception):
    """The data directory cannot be used; the message says which and why."""


class DataDirectory:
    """An open data directory; holds its lock until `close`."""

    def __init__(self, path: Path, lock: int, epoch: str) -> None:
        self.path = path
        self.epoch = epoch
        self._lock: int | None = lock

    @classmethod
    def open(cls, path: Path, restoring: bool = False) -> DataDirectory:
        """Take the directory's lock and read its format, making it when it is missing.

        Raises `DirectoryUnusable` when another process holds the lock, the format is newer, it cannot be written, or
        its restoring was cut off (unless it is `restoring` again).
        """
        path = path.absolute()
        if not restoring and (path / RESTORING).exists():
            raise DirectoryUnusable(f"the data directory {path} is not whole: a restore was cut off; do it again")
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = take(path / "lock")
        except Taken as taken:
            raise DirectoryUnusable(f"the data directory {path} is in use by another process{taken.by}") from None
        except OSError as error:
            raise DirectoryUnusable(f"the data directory {path} cannot be used: {error.strerror or error}") from error
        try:
            _check_format(path)
            return cls(path, lock, _epoch(path))
        except OSError as error:
            os.close(lock)
            raise DirectoryUnusable(f"the data directory {path} cannot be used: {error.strerror or error}") from error
        except BaseException:
            os.close(lock)
            raise

    @property
    def database_url(self) -> str:
        """The URL of the embedded database."""
        return f"sqlite:///{self.path / 'rankcast.db'}"

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _check_format(path: Path) -> None:
    file = path / "FORMAT"
    if not file.exists():
        write_durably(file, f"{FORMAT}\n")
        return
    text = file.read_text(errors="replace").strip()
    if not text.isdigit() or not 1 <= int(text) <= FORMAT:
        raise DirectoryUnusable(f"the data directory {path} has format {text[:20]!r}; this service reads 1 to {FORMAT}")
    if int(text) < FORMAT:
        write_durably(file, f"{FORMAT}\n")


def _epoch(path: Path) -> str:
    file = path / EPOCH
    if not file.exists():
        write_durably(file, secrets.token_hex(8) + "\n")
    epoch = file.read_text(errors="replace").strip()
    if not (epoch.isascii() and epoch.isalnum()):
        raise DirectoryUnusable(f"{file} is damaged")
    return epoch


def write_durably(file: Path, text: str) -> None:
    """Whole and durable, or not at all."""
    partial = file.with_name(file.name + ".partial")
    with partial.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, file)
    sync_folder(file.parent)


def sync_folder(path: Path) -> None:
    """Make durable which files are in a folder."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
