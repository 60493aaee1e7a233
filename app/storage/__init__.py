"""What is durable: the data directory, the log of commands, the API keys, the webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from app.storage.directory import DataDirectory
from app.storage.gate import FULL, Gate, free
from app.storage.keys import KeyStore
from app.storage.log import Log
from app.storage.webhooks import WebhookStore


@dataclass(slots=True)
class Stores:
    """The open data directory with its log, its keys and its webhooks."""

    directory: DataDirectory
    log: Log
    keys: KeyStore
    webhooks: WebhookStore
    gate: Gate

    @property
    def cuts(self) -> int:
        """How often answered rows were given up."""
        return 0 if self.log.end is None else self.log.end.cuts

    def history(self, term: int = 0) -> str:
        """The id of the history of changes: the directory's epoch, or another where answered rows were given up; each
        term of a leader that took over has its own.
        """
        epoch = self.directory.epoch
        found = epoch if not self.cuts else sha256(f"{epoch}.{self.cuts}".encode()).hexdigest()[: len(epoch)]
        return found if not term else f"{found}t{term}"

    def close(self) -> None:
        """Close the database and release the directory."""
        self.log.close()
        self.directory.close()


def open_stores(
    data: Path, database: str | None = None, restoring: bool = False, accept_log_end: int | None = None
) -> Stores:
    """Open a data directory, making it when it is missing.

    Raises `DirectoryUnusable` when another process has it or a newer service wrote it, and `LogUnavailable` when the
    database cannot be opened, is another service's or another data directory's, or lacks rows at its end; with
    `accept_log_end` it may end at that row.
    """
    directory = DataDirectory.open(data, restoring)
    full = free(directory.path) < FULL
    if full:
        directory.release()
    try:
        log = Log.open(database or directory.database_url, directory, accept_end=accept_log_end)
    except BaseException:
        directory.close()
        raise
    if not full:
        directory.reserve()
    gate = Gate(directory, log, full and database is None)
    return Stores(directory, log, KeyStore(log.ownership), WebhookStore(log.ownership), gate)
