"""Where the log ends: the last row that was answered, kept in the data directory and not in the database.

A database that lost its last rows, as SQLite does where a frame of its write-ahead log is damaged, looks whole. The
file ``LOG_END`` says that it is not. It is written after each commit and before the commit is answered, without a
flush to disk, so that it outlives the process at any moment; `sync` makes it outlive the machine.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from app.runtime import logs
from app.storage.chain import SIZE, START
from app.storage.directory import sync_folder

FILE = "LOG_END"

_FIELDS = struct.Struct(f"<8sqq{SIZE}s")
_SUM = struct.Struct("<I")
_MAGIC = b"RANKEND1"
_EMPTY = bytes(SIZE)

log = logs.get("log")


class Position(NamedTuple):
    """A row and its checksum, `START` where it has none. `cuts` counts the ends that were accepted although rows behind
    them had been answered.
    """

    lsn: int
    checksum: bytes
    cuts: int


class LogEnd:
    """The file. One writer at a time; `sync` may run in another thread.

    `known` is what it said when it was opened, `cuts` counts the ends that were accepted although rows behind them had
    been answered.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.known: Position | None = _read(self.path)
        self.cuts = 0 if self.known is None else self.known.cuts
        self.dirty = False
        self._file: int | None = None
        self._failed = False

    def note(self, lsn: int, checksum: bytes) -> None:
        """Note the last row. What keeps it from being written is logged once: the row itself is durable."""
        fields = _FIELDS.pack(_MAGIC, lsn, self.cuts, checksum or _EMPTY)
        try:
            if self._file is None:
                self._open()
            os.pwrite(self._file or 0, fields + _SUM.pack(zlib.crc32(fields)), 0)
        except OSError as error:
            if not self._failed:
                log.warning("the end of the log is not kept", file=str(self.path), error=str(error))
            self._failed = True
        else:
            self._failed, self.dirty = False, True

    def sync(self) -> None:
        """Flush what was noted to disk. Raises OSError."""
        if self.dirty and self._file is not None:
            self.dirty = False
            os.fsync(self._file)

    def close(self) -> None:
        """Flush it and close the file."""
        if self._file is not None:
            with suppress(OSError):
                self.sync()
            os.close(self._file)
            self._file = None

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        sync_folder(self.path.parent)


def history_of(epoch: str, cuts: int) -> str:
    """The id of a history of changes: its epoch, or another where answered rows were given up."""
    return epoch if not cuts else sha256(f"{epoch}.{cuts}".encode()).hexdigest()[: len(epoch)]


def _read(path: Path) -> Position | None:
    """What the file says; None where there is none. One that is damaged is reported, and counts as none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.error("the end of the log cannot be read", file=str(path), error=str(error))
        return None
    fields = raw[: _FIELDS.size]
    if len(raw) == _FIELDS.size + _SUM.size and _SUM.unpack(raw[_FIELDS.size :])[0] == zlib.crc32(fields):
        magic, lsn, cuts, checksum = _FIELDS.unpack(fields)
        if magic == _MAGIC and lsn >= 0:
            return Position(lsn, START if checksum == _EMPTY else checksum, cuts)
    log.error("the end of the log is damaged", file=str(path), why="a log that lost its last rows is not noticed")
    return None
