"""What is durable: the data directory, the log of commands, the API keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.storage.directory import DataDirectory
from app.storage.keys import KeyStore
from app.storage.log import Log


@dataclass(slots=True)
class Stores:
    """The open data directory with its log and its keys."""

    directory: DataDirectory
    log: Log
    keys: KeyStore

    def close(self) -> None:
        """Close the database and release the directory."""
        self.log.close()
        self.directory.close()


def open_stores(data: Path, database: str | None = None, restoring: bool = False) -> Stores:
    """Open a data directory, making it when it is missing.

    Raises `DirectoryUnusable` when another process has it or a newer service wrote it, and `LogUnavailable` when the
    database cannot be opened, or is another service's or another data directory's.
    """
    directory = DataDirectory.open(data, restoring)
    try:
        log = Log.open(database or directory.database_url, directory)
    except BaseException:
        directory.close()
        raise
    return Stores(directory, log, KeyStore(log.ownership))
