"""What is durable: the data directory, the log of commands, the API keys, the webhooks, how far zones are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.storage.directory import DataDirectory
from app.storage.gate import FULL, Gate, free
from app.storage.keys import KeyStore
from app.storage.log import Log
from app.storage.log_end import history_of
from app.storage.ownership import Ownership
from app.storage.shared_log import Marks, SharedLog, Sharing
from app.storage.webhooks import WebhookStore
from app.storage.zones import ZoneStore


@dataclass(slots=True)
class Stores:
    """The open data directory with its log, its keys, its webhooks and the positions of its zones."""

    directory: DataDirectory
    log: Log
    keys: KeyStore
    webhooks: WebhookStore
    gate: Gate
    zones: ZoneStore
    shared: SharedLog | None = None
    """The log, where other nodes have it too."""

    @property
    def marks(self) -> Ownership | Marks:
        """What is remembered of this node's own storage."""
        return self.log.ownership if self.shared is None else Marks(self.directory.path)

    @property
    def cuts(self) -> int:
        """How often answered rows were given up."""
        return 0 if self.log.end is None else self.log.end.cuts

    def history(self, term: int = 0) -> str:
        """The id of the history of changes: the directory's epoch, or another where answered rows were given up; each
        term of a leader that took over has its own.
        """
        found = history_of(self.directory.epoch, self.cuts)
        return found if not term else f"{found}t{term}"

    def close(self) -> None:
        """Close the database and release the directory."""
        self.log.close()
        self.directory.close()


def open_stores(
    data: Path,
    database: str | None = None,
    restoring: bool = False,
    accept_log_end: int | None = None,
    sharing: Sharing | None = None,
) -> Stores:
    """Open a data directory, making it when it is missing.

    Raises `DirectoryUnusable` when another process has it or a newer service wrote it, and `LogUnavailable` when the
    database cannot be opened, is another service's or another data directory's, or lacks rows at its end; with
    `accept_log_end` it may end at that row. With `sharing` it is one of the nodes that share the log, and raises as
    `SharedLog.share`.
    """
    directory = DataDirectory.open(data, restoring)
    full = free(directory.path) < FULL
    if full:
        directory.release()
    try:
        url, shared = database or directory.database_url, None
        if sharing is None:
            log = Log.open(url, directory, accept_end=accept_log_end)
        else:
            log = shared = SharedLog.share(url, directory, sharing, accept_log_end)
    except BaseException:
        directory.close()
        raise
    if not full:
        directory.reserve()
    gate = Gate(directory, log, full and database is None)
    owner = log.ownership
    return Stores(directory, log, KeyStore(owner), WebhookStore(owner), gate, ZoneStore(owner), shared)
