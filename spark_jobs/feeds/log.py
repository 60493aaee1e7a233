"""The service's log as a source of commands: the table `log` of SQLite or PostgreSQL, read only, while it is written.

A command may take several rows, all but the last named with a "+" at the end; they are written in one transaction. Rows
of a resource that failed on them are undone by a later row, and have to be passed over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from formats.commands import MORE, UNREADABLE, fields_of

_LOG = (
    "SELECT lsn, command, payload, first_seq, last_seq FROM log "
    "WHERE resource = {0} AND lsn > {0} AND lsn <= {0} ORDER BY lsn"
)
_END = "SELECT max(lsn), min(lsn) FROM log"
_ENDS = (
    "SELECT lsn FROM log WHERE resource = {0} AND lsn > {0} AND command NOT LIKE {0} ORDER BY lsn LIMIT 1 OFFSET {0}"
)
_MADE = (
    "SELECT lsn, payload, first_seq, last_seq FROM log WHERE resource = {0} AND command = 'create' ORDER BY lsn DESC"
)
_UNDONE = "SELECT lsn, payload FROM log WHERE resource = {0} AND lsn > {0} AND command = 'undone' ORDER BY lsn"
_PRUNED = "SELECT value FROM meta WHERE key = 'pruned_through'"


class LogError(Exception):
    """The log cannot be read; the message is one sentence."""


class LogRow(NamedTuple):
    """A row of the log: a command of one resource, or a part of a long one, and the seqs that it takes."""

    lsn: int
    command: str
    payload: bytes
    first_seq: int = 0
    last_seq: int = 0


def url_of(storage: str, log: str | None) -> str:
    """The URL of the database: `log`, or that of a data directory."""
    return log or f"sqlite:///{Path(storage).absolute() / 'rankcast.db'}"


class Undone(NamedTuple):
    """A row of the log that undoes those of its resource from `since` on, and with `dropped` ends the resource."""

    lsn: int
    since: int
    dropped: bool


class LogReader:
    """Reads a database; each call uses a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def end(self) -> int:
        """The lsn of the last row. Raises `LogError`."""
        last, _ = self._ask(_END, ())[0]
        return max(int(last or 0), self.pruned())

    def pruned(self) -> int:
        """The lsn up to which rows have been deleted. Raises `LogError`."""
        found = self._ask(_PRUNED, ())
        return int(found[0][0]) if found else 0

    def end_of(self, resource: str, after: int, commands: int) -> int:
        """The lsn of the last row of a batch of so many commands of a resource after a row; or of the last row of the
        log, if there are fewer. Raises `LogError`."""
        last = self.end()
        found = self._ask(_ENDS, (resource, after, f"%{MORE}", commands - 1))
        return min(last, int(found[0][0])) if found else last

    def rows(self, resource: str, after: int, until: int) -> Iterator[LogRow]:
        """The rows of a resource in order, without those that are undone; a resource that ends with that has a row
        `drop` there. Raises `LogError`, also if some rows have been deleted, or if rows up to `after` are undone behind
        it.
        """
        if after < self.pruned():
            raise LogError(f"the log begins after row {self.pruned()}, and rows from {after + 1} on are needed")
        found = self._ask(_LOG, (resource, after, until))
        undone = {one.lsn: one for one in self._undone(resource, after)}
        for one in undone.values():
            if one.since <= after and not one.dropped:
                raise LogError(
                    f"rows {one.since} to {after} were followed, and row {one.lsn} undoes them: delete the checkpoint, "
                    "to begin again from a snapshot"
                )
        for lsn, command, payload, first_seq, last_seq in found:
            row = LogRow(int(lsn), command, bytes(payload), int(first_seq), int(last_seq))
            if row.lsn in undone:
                if undone[row.lsn].dropped:
                    yield row._replace(command="drop")
            elif not any(one.since <= row.lsn < one.lsn for one in undone.values()):
                yield row

    def created(self, resource: str) -> LogRow | None:
        """The row that created a resource last, and is not undone. Raises `LogError`."""
        undone = self._undone(resource, 0)
        for lsn, payload, first_seq, last_seq in self._ask(_MADE, (resource,)):
            if not any(one.since <= lsn < one.lsn for one in undone):
                return LogRow(int(lsn), "create", bytes(payload), int(first_seq), int(last_seq))
        return None

    def _undone(self, resource: str, after: int) -> list[Undone]:
        """The rows after one that undo others, in order. Raises `LogError`."""
        found = []
        for lsn, payload in self._ask(_UNDONE, (resource, after)):
            try:
                fields = fields_of(bytes(payload))
                found.append(Undone(int(lsn), int(fields["from"]), bool(fields["dropped"])))
            except UNREADABLE as error:
                raise LogError(f"row {lsn} of the log cannot be read: {error}") from error
        return found

    def _ask(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        scheme = urlsplit(self.url).scheme.partition("+")[0]
        try:
            if scheme == "sqlite":
                place = Path(unquote(urlsplit(self.url).path.removeprefix("/"))).absolute()
                uri = f"file:{quote(str(place))}?mode=ro"
                with closing(sqlite3.connect(uri, uri=True, timeout=30)) as connection:
                    return connection.execute(query.format("?"), values).fetchall()
            if scheme in ("postgresql", "postgres"):
                import psycopg

                with psycopg.connect(self.url.replace(urlsplit(self.url).scheme, "postgresql", 1)) as connection:
                    return connection.execute(query.format("%s").encode(), values).fetchall()
        except ImportError as error:
            raise LogError("a log on PostgreSQL needs the package psycopg") from error
        except Exception as error:
            if isinstance(error, sqlite3.Error) or type(error).__module__.startswith("psycopg"):
                raise LogError(f"the log {_plain(self.url)} cannot be read: {str(error).splitlines()[0]}") from error
            raise
        raise LogError(f"the log is {_plain(self.url)}; it has to be sqlite:// or postgresql://")


def _plain(url: str) -> str:
    """The URL without a password."""
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url
