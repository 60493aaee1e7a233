"""The data directory: who may use it, which format it has, and the epoch of its history.

``lock`` is held by the one process that uses it, ``FORMAT`` is the version of what is in it, ``EPOCH`` a random id
written at the first use: the same epoch is the same history. ``RESERVE`` is room on the disk that a start may use
where there is no other. The rest belongs to the modules beside this one.

It is private, since the database has the keys of links: nobody else may enter it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from app.runtime import logs
from app.storage.lockfile import Taken, take
from app.storage.peek import read_only

FORMAT = 3
"""1: the log is whole from its first row. 2: it may begin after a snapshot. 3: subscriptions may have an offset and a
filter, boards several range attributes.

An older directory becomes a newer one when it is opened.
"""

EPOCH = "EPOCH"

RESTORING = "RESTORING"
"""A file that lies in a data directory while it is being restored: until it is gone the directory is not whole. It
holds the epoch that the directory is to have."""


RESERVE = "RESERVE"

RESERVED = 1 << 20
"""Bytes of the reserve: more than the database needs to be opened."""

_OLDER_THAN_EPOCH = ("rankcast.db", "LOG_END", "JOBS", "STORAGE", "snapshots", "images")
"""Of these none is there before the epoch is."""

logger = logs.get("directory")


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
            make_private(path)
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

    def moved(self) -> str | None:
        """Where another directory, or none, is in this one's place by now, what is wrong; else None.

        What is written by path then goes elsewhere, and nobody finds what is written by open files.
        """
        if self._lock is None:
            return None
        held = os.fstat(self._lock)
        try:
            there = os.stat(self.path / "lock")
        except OSError as error:
            return f"the data directory {self.path} is gone ({error.strerror or error}): put it back, or restart"
        if (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino):
            return None
        return f"the data directory {self.path} is another one than at the start: put it back, or restart"

    def reserve(self) -> None:
        """Set room aside for a start on a full disk, if there is none yet and more than that is free."""
        file = self.path / RESERVE
        with suppress(OSError):
            if file.exists() and file.stat().st_size == RESERVED:
                return
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(handle, 0, RESERVED)
            except OSError:
                file.unlink()
            finally:
                os.close(handle)

    def release(self) -> None:
        """Give the room that was set aside back to the disk."""
        with suppress(OSError):
            (self.path / RESERVE).unlink()

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
        if any((path / name).exists() for name in _OLDER_THAN_EPOCH):
            raise DirectoryUnusable(
                f"the data directory {path} lacks its file {EPOCH}, the id of its history, and nothing was changed. "
                f"{_known_epoch(path)}"
            )
        write_durably(file, secrets.token_hex(8) + "\n")
    epoch = file.read_text(errors="replace").strip()
    if not (epoch.isascii() and epoch.isalnum()):
        raise DirectoryUnusable(f"{file} is damaged")
    return epoch


def _known_epoch(path: Path) -> str:
    """What to do about an epoch that is missing."""
    with read_only(path / "rankcast.db") as cursor, suppress(Exception):
        if cursor is not None:
            cursor.execute("select value from meta where key = 'epoch'")
            (known,) = cursor.fetchone()
            return f"Its database says that it was {known}: write that into the file"
    return "Write it into the file again: the manifests of its snapshots and the table meta of its database have it"


def make_private(path: Path) -> None:
    """Make a folder that nobody else may enter, with those above it, durably. One that is there is narrowed if it is
    ours to narrow: a data directory already, or empty. Raises OSError.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    for folder in made:
        sync_folder(folder.parent)
    if made:
        path.chmod(0o700)
    elif (path / "FORMAT").exists() or not any(path.iterdir()):
        narrow(path, 0o700)


def make_private_file(file: Path) -> None:
    """Let nobody else read a SQLite database, nor what SQLite makes beside it, which gets the same permissions."""
    with suppress(OSError):
        # Where it cannot be made, SQLite says why.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for one in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm", ".lock"))):
        narrow(one, 0o600)


def narrow(path: Path, mode: int) -> None:
    """Take from a file or folder what others may do with it; what is not ours is reported."""
    try:
        found = path.stat()
        wide = found.st_mode & 0o777 & ~mode
        if not wide:
            return
        if found.st_uid == os.geteuid():
            path.chmod(found.st_mode & mode)
            logger.info("permissions narrowed", path=str(path), mode=oct(mode))
            return
        why = "it belongs to another user"
    except FileNotFoundError:
        return
    except OSError as error:
        why = error.strerror or str(error)
    logger.warning("others may read it", path=str(path), why=why)


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
