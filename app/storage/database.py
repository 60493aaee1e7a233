"""The database by its URL, SQLite or PostgreSQL: connections that do not hang, and errors in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.sql import Executable

from app.errors import DatabaseFailed, LogUnavailable

DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
"""The driver for each scheme that a URL may have."""

POOL_PATIENCE = 5.0
"""Seconds that a read waits for a connection while all are in use."""

metadata = sa.MetaData()

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "busy_timeout=10000",
    # A checkpoint in a commit takes long: they are made in a thread (`app.write_path.commit_thread`), long before this.
    "wal_autocheckpoint=16000",
    # As some systems build SQLite, it writes zeros over each page that it frees: all of the log that is pruned.
    "secure_delete=fast",
)


class Database:
    """A database that has been named; nothing is connected before the first use.

    `name` is its URL without password and options. `remote` says that a server has it: its answers take their time, and
    connections to it may be lost.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.name = engine.url.set(query={}).render_as_string(hide_password=True).replace("+psycopg:", ":")
        self.remote = engine.dialect.name == "postgresql"
        dbapi = engine.dialect.dbapi
        assert dbapi is not None
        self.errors: tuple[type[Exception], ...] = (dbapi.Error, sa.exc.SQLAlchemyError)

    @classmethod
    def named(cls, url: str) -> Database:
        """The database of a URL. Raises `LogUnavailable` when it is none that can be used, or its driver is missing."""
        try:
            parsed = sa.make_url(_spread(url))
        except (sa.exc.ArgumentError, ValueError):
            raise LogUnavailable(
                "the database URL cannot be read; one is like postgresql://user@host:5432/name"
            ) from None
        driver = DRIVERS.get(parsed.drivername)
        if driver is None:
            raise LogUnavailable(
                f"the database URL begins with {parsed.drivername}://, and only sqlite:// and postgresql:// can be used"
            )
        if driver == DRIVERS["sqlite"]:
            if parsed.database in (None, "", ":memory:") or parsed.query.get("mode") == "memory":
                raise LogUnavailable("the database URL names no file, and what is only in memory is not durable")
            engine = sa.create_engine(parsed.set(drivername=driver))
            event.listen(engine, "connect", _set_pragmas)
            return cls(engine)
        try:
            from app.storage import postgres
        except ImportError as error:
            raise LogUnavailable(
                "PostgreSQL needs its driver, the extra `postgres`; in a checkout `python3 -m tools.install postgres` "
                f"installs it ({error})"
            ) from error
        engine = sa.create_engine(
            parsed.set(drivername=driver),
            pool_pre_ping=True,
            pool_timeout=POOL_PATIENCE,
            isolation_level="READ COMMITTED",
        )
        event.listen(engine, "do_connect", postgres.connect)
        return cls(engine)

    @contextmanager
    def reading(self, failed: str) -> Iterator[sa.Connection]:
        """A connection to read from. An error becomes `DatabaseFailed`, beginning with `failed`."""
        try:
            with self.engine.connect() as connection:
                yield connection
        except self.errors as error:
            raise DatabaseFailed(f"{failed}: {plain(error)}") from error

    def close(self) -> None:
        """Close all connections that nobody holds."""
        self.engine.dispose()


class Statement:
    """A statement as text with positional values, in the parameter style of the engine's driver.

    It is compiled once and run on a DBAPI cursor: for one small row SQLAlchemy's own execution costs as much again as
    the commit.
    """

    def __init__(
        self,
        engine: sa.Engine,
        statement: Executable,
        names: Sequence[str] = (),
        constants: dict[str, Any] | None = None,
    ) -> None:
        compiled = statement.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
        self._text = str(compiled)
        order = compiled.positiontup
        self._names = list(names)
        self._constants = constants or {}
        self._by_name = order is None
        self._same = order is not None and list(order) == self._names
        self._order = list(order or ())

    def run(self, cursor: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run it once for each row of values."""
        if not rows:
            return
        values: Sequence[Any] = rows
        if not self._same:
            named = [{**self._constants, **dict(zip(self._names, row, strict=True))} for row in rows]
            values = named if self._by_name else [tuple(one[name] for name in self._order) for one in named]
        if len(values) == 1:
            cursor.execute(self._text, values[0])
        else:
            cursor.executemany(self._text, values)

    def scalar(self, cursor: Any, *values: Any) -> Any:
        """Run it with these values; answers the first column of the first row, None without one."""
        self.run(cursor, [values])
        row = cursor.fetchone()
        return None if row is None else row[0]


def cursor_of(connection: sa.Connection) -> Any:
    """A DBAPI cursor in the transaction of a connection."""
    return connection.connection.driver_connection.cursor()  # type: ignore[union-attr]


def _spread(url: str) -> str:
    """A URL of several servers with ports as SQLAlchemy reads it, each in a parameter of its own.

    >>> _spread("postgresql://u@a:5432,b:5433/log?target_session_attrs=read-write")
    'postgresql://u@/log?target_session_attrs=read-write&host=a%3A5432&host=b%3A5433'
    """
    scheme, found, rest = url.partition("://")
    place, _, path = rest.partition("/")
    user, at, hosts = place.rpartition("@")
    if not found or not scheme.startswith("postgresql") or "," not in hosts or ":" not in hosts:
        return url
    several = urlencode([("host", host) for host in hosts.split(",")])
    return f"{scheme}://{user}{at}/{path}{'&' if '?' in path else '?'}{several}"


def plain(error: BaseException) -> str:
    """The driver's own words, without the statement and its values."""
    original = getattr(error, "orig", None)
    lines = str(original or error).splitlines()
    return lines[0] if lines else type(error).__name__


def _set_pragmas(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
