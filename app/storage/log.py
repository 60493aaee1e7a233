"""The durable log: every accepted command in order, and beside it the answers kept for idempotency keys.

A row of ``log`` is one command: its number (`lsn`, from 1, one sequence for the data directory), its resource, the
first and last `seq` that it takes, its kind and its payload. Replaying the rows in order is recovery.

The statements are compiled once by SQLAlchemy for the database at hand and run on a held DBAPI connection: for one
small row SQLAlchemy's own execution costs as much again as the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.sql import Executable

T = TypeVar("T")

FORGET = 1_000
"""Answers that are forgotten in one transaction: no commit waits longer than that takes."""

metadata = sa.MetaData()

log_table = sa.Table(
    "log",
    metadata,
    sa.Column("lsn", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("first_seq", sa.BigInteger, nullable=False),
    sa.Column("last_seq", sa.BigInteger, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

idempotency_table = sa.Table(
    "idempotency",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("request_hash", sa.LargeBinary, nullable=False),
    sa.Column("lsn", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Index("idempotency_created_at", "created_at"),
)


_UNDER_KEY = (
    idempotency_table.c.scope == sa.bindparam("scope_"),
    idempotency_table.c.key == sa.bindparam("key_"),
)


class LogUnavailable(Exception):
    """The database cannot be reached or written. What was being written is not there."""


class LogEntry(NamedTuple):
    """A command on its way into the log."""

    resource: str
    first_seq: int
    last_seq: int
    command: str
    payload: bytes


class LogRow(NamedTuple):
    """A command in the log. `created_at` is in seconds since 1970."""

    lsn: int
    resource: str
    first_seq: int
    last_seq: int
    command: str
    payload: bytes
    created_at: float


class StoredAnswer(NamedTuple):
    """The answer to the request with an idempotency key.

    `scope` tells apart the callers' keys, `request_hash` the requests under one key, `lsn` is the row that the request
    wrote (the last one before it, if it wrote none). `complete` is false while `answer` lacks what only applying tells.
    """

    scope: str
    key: str
    request_hash: bytes
    lsn: int
    status: int
    answer: bytes
    complete: bool
    created_at: float


class CompletedAnswer(NamedTuple):
    """What a stored answer became once its command was applied."""

    scope: str
    key: str
    answer: bytes


class Log:
    """The open log. One caller at a time; which thread it is does not matter."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._connection: sa.PoolProxiedConnection | None = None
        self._cursor: Any = None
        self._insert = _Statement(engine, sa.insert(log_table), [c.name for c in log_table.c])
        self._forget = _Statement(
            engine,
            sa.delete(idempotency_table).where(*_UNDER_KEY),
            ["scope_", "key_"],
        )
        self._keep = _Statement(engine, sa.insert(idempotency_table), [c.name for c in idempotency_table.c])
        self._complete = _Statement(
            engine,
            sa.update(idempotency_table).where(*_UNDER_KEY).values(answer=sa.bindparam("answer_"), complete=True),
            ["scope_", "key_", "answer_"],
            constants={"complete": True},
        )
        beyond = sa.bindparam("lsn_", type_=sa.BigInteger)
        self._repair = [
            _Statement(engine, sa.delete(table).where(table.c.lsn > beyond), ["lsn_"])
            for table in (log_table, idempotency_table)
        ]
        self._suspect = False
        self.last_lsn = 0

    @classmethod
    def open(cls, url: str) -> Log:
        """Open the log of a database, making its tables when they are missing. Raises `LogUnavailable`."""
        try:
            engine = sa.create_engine(url, pool_pre_ping=True)
        except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
            raise LogUnavailable(f"the database URL cannot be used: {error}") from error
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _set_pragmas)
        log = cls(engine)
        try:
            metadata.create_all(engine)
            with engine.connect() as connection:
                log.last_lsn = connection.execute(sa.select(sa.func.max(log_table.c.lsn))).scalar() or 0
        except sa.exc.SQLAlchemyError as error:
            engine.dispose()
            raise LogUnavailable(f"the database cannot be opened: {_plain(error)}") from error
        return log

    def close(self) -> None:
        """Close all connections."""
        self._release()
        self.engine.dispose()

    def append(
        self,
        entries: Sequence[LogEntry],
        answers: Sequence[StoredAnswer] = (),
        completed: Sequence[CompletedAnswer] = (),
        now: float | None = None,
    ) -> int:
        """Write commands and answers in one transaction, durable on return; answers the last lsn.

        The entries get the numbers from ``last_lsn + 1``. An answer replaces an older one under the same key. Raises
        `LogUnavailable` with everything rolled back.
        """
        created = time.time() if now is None else now
        lsn = self.last_lsn
        rows = [(lsn + n, *entry, created) for n, entry in enumerate(entries, 1)]

        def write(cursor: Any) -> None:
            self._insert.run(cursor, rows)
            if answers:
                self._forget.run(cursor, [(answer.scope, answer.key) for answer in answers])
                self._keep.run(cursor, answers)
            if completed:
                self._complete.run(cursor, completed)

        self._transact(write)
        self.last_lsn = lsn + len(rows)
        return self.last_lsn

    def complete_answers(self, completed: Sequence[CompletedAnswer]) -> None:
        """Write what applying told about stored answers. Raises `LogUnavailable`."""
        if completed:
            self._transact(lambda cursor: self._complete.run(cursor, completed))

    def replay(self, after_lsn: int = 0) -> Iterator[LogRow]:
        """All commands after a number, in order, read as they are taken. Raises `LogUnavailable`."""
        query = sa.select(log_table).where(log_table.c.lsn > after_lsn).order_by(log_table.c.lsn)
        try:
            with self.engine.connect().execution_options(stream_results=True, yield_per=16) as connection:
                for row in connection.execute(query):
                    yield LogRow._make(row)
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable(f"the log cannot be read: {_plain(error)}") from error

    def answers(self, since: float, latest: int) -> list[StoredAnswer]:
        """The answers kept at or after a time, oldest first: the latest, and those that are not complete.

        Raises `LogUnavailable`.
        """
        created, complete = idempotency_table.c.created_at, idempotency_table.c.complete
        order = (created.desc(), idempotency_table.c.scope, idempotency_table.c.key)
        query = sa.select(idempotency_table).where(created >= since).order_by(*order)
        try:
            with self.engine.connect() as connection:
                rows = [StoredAnswer._make(row) for row in connection.execute(query.limit(latest))]
                if len(rows) == latest:
                    rest = query.where(sa.not_(complete)).offset(sum(not row.complete for row in rows))
                    rows += [StoredAnswer._make(row) for row in connection.execute(rest)]
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable(f"the kept answers cannot be read: {_plain(error)}") from error
        return rows[::-1]

    def answer(self, scope: str, key: str) -> StoredAnswer | None:
        """The answer kept under a key. Raises `LogUnavailable`."""
        columns = idempotency_table.c
        query = sa.select(idempotency_table).where(columns.scope == scope, columns.key == key)
        try:
            with self.engine.connect() as connection:
                row = connection.execute(query).one_or_none()
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable(f"the kept answers cannot be read: {_plain(error)}") from error
        return None if row is None else StoredAnswer._make(row)

    def forget_answers(self, before: float) -> int:
        """Delete about `FORGET` of the answers kept before a time; answers how many. Raises `LogUnavailable`."""
        at = idempotency_table.c.created_at
        oldest = sa.select(at).where(at < before).order_by(at).limit(FORGET)
        try:
            with self.engine.connect() as connection:
                due = connection.execute(oldest).scalars().all()
            if not due:
                return 0
            with self.engine.begin() as connection:
                return connection.execute(sa.delete(idempotency_table).where(at <= due[-1])).rowcount
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable(f"old answers cannot be deleted: {_plain(error)}") from error

    def _transact(self, write: Callable[[Any], T]) -> T:
        """Run `write` in one transaction.

        When a commit fails it is not known whether the database took it (the connection may have gone in between), so
        the next transaction first deletes whatever lies beyond the last row that was confirmed.
        """
        try:
            if self._cursor is None:
                self._connection = self.engine.raw_connection()
                self._cursor = self._connection.cursor()
            assert self._connection is not None
            if self._suspect:
                for statement in self._repair:
                    statement.run(self._cursor, [(self.last_lsn,)])
            done = write(self._cursor)
            self._connection.commit()
            self._suspect = False
        except BaseException as error:
            self._suspect = True
            self._release()
            if isinstance(error, (self.engine.dialect.dbapi.Error, sa.exc.SQLAlchemyError)):  # type: ignore[union-attr]
                raise LogUnavailable(f"the log cannot be written: {_plain(error)}") from error
            raise
        return done

    def _release(self) -> None:
        """Roll back and give up the held connection; the next write takes a fresh one."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.rollback()
            with suppress(Exception):
                connection.invalidate()


class _Statement:
    """A statement as text with positional values, in the parameter style of the engine's driver."""

    def __init__(
        self, engine: sa.Engine, statement: Executable, names: Sequence[str], constants: dict[str, Any] | None = None
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


def _set_pragmas(connection: DBAPIConnection, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000", "wal_autocheckpoint=4000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _plain(error: BaseException) -> str:
    """The driver's own words, without the statement and its values."""
    original = getattr(error, "orig", None)
    return str(original or error).splitlines()[0]
