"""The service's log as a source of commands: the table `log` of SQLite or PostgreSQL, read only, while it is written.

A command may take several rows, all but the last named with a "+" at the end; they were written in one transaction, so
whoever sees one sees all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from formats.commands import MORE

_LOG = "SELECT lsn, command, payload FROM log WHERE resource = {0} AND lsn > {0} AND lsn <= {0} ORDER BY lsn"
_END = "SELECT max(lsn), min(lsn) FROM log"
_ENDS = (
    "SELECT lsn FROM log WHERE resource = {0} AND lsn > {0} AND command NOT LIKE {0} ORDER BY lsn LIMIT 1 OFFSET {0}"
)
_MADE = "SELECT lsn, payload FROM log WHERE resource = {0} AND command = 'create' ORDER BY lsn DESC LIMIT 1"
_PRUNED = "SELECT value FROM meta WHERE key = 'pruned_through'"


class LogError(Exception):
    """The log cannot be read; the message is one sentence."""


class LogRow(NamedTuple):
    lsn: int
    command: str
    payload: bytes


def url_of(storage: str, log: str | None) -> str:
    """The database of a data directory, unless another one is named."""
    return log or f"sqlite:///{Path(storage).absolute() / 'rankcast.db'}"


class LogReader:
    """Reads one database; each call on a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def end(self) -> int:
        """The last row of all. Raises `LogError`."""
        last, _ = self._ask(_END, ())[0]
        return max(int(last or 0), self.pruned())

    def pruned(self) -> int:
        """The rows up to this one have been deleted. Raises `LogError`."""
        found = self._ask(_PRUNED, ())
        return int(found[0][0]) if found else 0

    def end_of(self, resource: str, after: int, commands: int) -> int:
        """The row behind which a batch of so many commands of a resource ends, which begins after a row; or the last
        row of all, if there are fewer. Raises `LogError`."""
        last = self.end()
        found = self._ask(_ENDS, (resource, after, f"%{MORE}", commands - 1))
        return min(last, int(found[0][0])) if found else last

    def rows(self, resource: str, after: int, until: int) -> Iterator[LogRow]:
        """The rows of a resource in order. Raises `LogError`, also when some have been deleted."""
        if after < self.pruned():
            raise LogError(f"the log begins after row {self.pruned()}, and rows from {after + 1} on are needed")
        for lsn, command, payload in self._ask(_LOG, (resource, after, until)):
            yield LogRow(int(lsn), command, bytes(payload))

    def created(self, resource: str) -> LogRow | None:
        """The row with which a resource began, the last time that it did. Raises `LogError`."""
        found = self._ask(_MADE, (resource,))
        return LogRow(int(found[0][0]), "create", bytes(found[0][1])) if found else None

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
    """Without a password."""
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url
