"""The durable log: every accepted command in order, and beside it the answers kept for idempotency keys.

A row of ``log`` is one command: its number (`lsn`, from 1, one sequence for the data directory), its resource, the
first and last `seq` that it takes, its kind and its payload. Replaying the rows in order is recovery.

What is written goes through one held connection (`app.storage.session`); only the database's one service may write
(`app.storage.ownership`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import sqlalchemy as sa

from app.storage.database import Database, LogUnavailable, Statement, metadata, plain
from app.storage.directory import DataDirectory
from app.storage.ownership import PATIENCE, Ownership, meta_table
from app.storage.session import Session

__all__ = [
    "CompletedAnswer",
    "Log",
    "LogEntry",
    "LogRow",
    "LogUnavailable",
    "StoredAnswer",
    "idempotency_table",
    "log_table",
]

T = TypeVar("T")

FORGET = 1_000
"""Answers that are forgotten in one transaction: no commit waits longer than that takes."""

PIECE = 4 << 20
"""Bytes of rows that are read, or deleted in one transaction, at a time."""

PIECE_ROWS = 1_000
"""The most rows of such a piece."""

NOTE = "note"
"""The command of a row that changes no resource."""

MAKING = int.from_bytes(b"RANKMAKE")
"""The key of PostgreSQL's lock for making the tables."""

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
    """The open log. One caller at a time, whichever its thread.

    `prune`, `forget_answers` and whatever only reads may go on in other threads meanwhile. After `LogUnavailable` it is
    as if there had been no call; a later one works once the database does, unless another service has taken it over.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.ownership = Ownership(database)
        self.last_lsn = 0
        self.pruned_through = 0
        engine = database.engine
        self._session = Session(self.ownership, self._repair)
        self._insert = Statement(engine, sa.insert(log_table), [c.name for c in log_table.c])
        self._forget = Statement(engine, sa.delete(idempotency_table).where(*_UNDER_KEY), ["scope_", "key_"])
        self._keep = Statement(engine, sa.insert(idempotency_table), [c.name for c in idempotency_table.c])
        self._complete = Statement(
            engine,
            sa.update(idempotency_table).where(*_UNDER_KEY).values(answer=sa.bindparam("answer_"), complete=True),
            ["scope_", "key_", "answer_"],
            constants={"complete": True},
        )
        self._last = Statement(engine, sa.select(sa.func.max(log_table.c.lsn)))
        beyond = sa.bindparam("lsn_", type_=sa.BigInteger)
        self._cut = [
            Statement(engine, sa.delete(table).where(table.c.lsn > beyond), ["lsn_"])
            for table in (log_table, idempotency_table)
        ]

    @classmethod
    def open(cls, url: str, home: DataDirectory | None = None, patience: float = PATIENCE) -> Self:
        """Open the log of a database, making its tables when they are missing, and become the database's one service.

        `home` is the data directory whose history it holds; a database without one takes it. A lock that is held is
        waited for up to `patience` seconds. Raises `LogUnavailable`, also when the database is another service's or
        another data directory's.
        """
        log = cls(Database.named(url))
        try:
            log._start(home, patience)
        except log.database.errors as error:
            log.close()
            raise LogUnavailable(f"the database {log.database.name} cannot be opened: {plain(error)}") from error
        except BaseException:
            log.close()
            raise
        return log

    @property
    def engine(self) -> sa.Engine:
        """The database's engine."""
        return self.database.engine

    @property
    def first_lsn(self) -> int:
        """The number of the first row that is there, or would be."""
        return self.pruned_through + 1

    @property
    def in_doubt(self) -> bool:
        """Whether a failed write may have left rows that no one was told of; `mend` deletes them."""
        return self._session.in_doubt

    def close(self) -> None:
        """Close all connections and let the database go."""
        with suppress(LogUnavailable):
            self.mend()
        self._session.close()
        self.database.close()
        self.ownership.close()

    def mend(self) -> None:
        """Delete now, and not only with the next write, what a failed one may have left. Raises `LogUnavailable`."""
        if self.in_doubt:
            self._session.transact(lambda cursor: None)

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
            self._store(cursor, answers)
            self._complete.run(cursor, completed)

        self._session.transact(write)
        self.last_lsn = lsn + len(rows)
        return self.last_lsn

    def note(self, about: str) -> None:
        """Write a row that changes no resource: it stands for a change of something else that snapshots hold. Raises
        `LogUnavailable`."""
        self.append([LogEntry(about, 0, 0, NOTE, b"")])

    def complete_answers(self, completed: Sequence[CompletedAnswer]) -> None:
        """Write what applying told about stored answers. Raises `LogUnavailable`."""
        if completed:
            self._session.transact(lambda cursor: self._complete.run(cursor, completed))

    def add_answers(self, answers: Iterable[StoredAnswer]) -> None:
        """Keep answers that came from elsewhere, some in each transaction. Raises `LogUnavailable`."""
        for some in _batches(answers, lambda answer: len(answer.answer)):
            self._session.transact(partial(self._store, answers=some))

    @property
    def restored_epoch(self) -> str | None:
        """The epoch of the last restore that `clear` has begun. Raises `LogUnavailable`."""
        query = sa.select(meta_table.c.value).where(meta_table.c.key == "restored")
        with self.database.reading("the database cannot be read") as connection:
            found: str | None = connection.execute(query).scalar_one_or_none()
        return found

    def clear(self, epoch: str) -> None:
        """Delete all rows and answers, so that a snapshot can be restored for a history of this epoch.

        Raises `LogUnavailable`.
        """
        with self.ownership.changing("the log cannot be emptied") as connection:
            for table in (log_table, idempotency_table):
                connection.execute(sa.delete(table))
            connection.execute(sa.delete(meta_table).where(meta_table.c.key.in_(("pruned_through", "restored"))))
            connection.execute(sa.insert(meta_table), {"key": "restored", "value": epoch})
        self.last_lsn = self.pruned_through = 0

    def start_at(self, lsn: int, epoch: str) -> None:
        """Let an empty log begin after a row that is elsewhere, with the history of this epoch.

        Raises `LogUnavailable` when it is not empty.
        """
        if self.last_lsn:
            raise LogUnavailable(f"the database {self.database.name} is not empty: it has rows up to {self.last_lsn}")

        def write(cursor: Any) -> None:
            self.ownership.meta.put(cursor, "pruned_through", str(lsn))
            self.ownership.meta.put(cursor, "epoch", epoch)

        self._session.transact(write)
        self.last_lsn = self.pruned_through = lsn

    def replay(self, after_lsn: int = 0) -> Iterator[LogRow]:
        """All commands after a number, in order, read as they are taken: about `PIECE` bytes at a time.

        Raises `LogUnavailable`, also when rows are missing.
        """
        if after_lsn < self.pruned_through:
            raise LogUnavailable(
                f"rows {after_lsn + 1} to {self.pruned_through} of the log are needed, and have been deleted from it"
            )
        last = self.last_lsn
        if after_lsn > last:
            raise LogUnavailable(f"the log ends at row {last}, although row {after_lsn} has been written")
        columns = log_table.c
        while after_lsn < last:
            with self.database.reading("the log cannot be read") as connection:
                until = _piece(connection, columns.lsn.between(after_lsn + 1, last))
                query = sa.select(log_table).where(columns.lsn.between(after_lsn + 1, until)).order_by(columns.lsn)
                rows = connection.execute(query).all()
            for row in rows:
                after_lsn += 1
                if row.lsn != after_lsn:
                    raise LogUnavailable(f"the log is damaged: after row {after_lsn - 1} comes row {row.lsn}")
                yield LogRow._make(row)
            if not rows:
                raise LogUnavailable(f"the log is damaged: rows {after_lsn + 1} to {last} are missing")

    def prune(self, through_lsn: int) -> bool:
        """Delete rows up to a number, about `PIECE` bytes of them; answers whether there are more to delete.

        For rows that nothing will be replayed from. Raises `LogUnavailable`.
        """
        through = min(through_lsn, self.last_lsn)
        if through <= self.pruned_through:
            return False
        with self.database.reading("the log cannot be read") as connection:
            until = _piece(connection, log_table.c.lsn <= through) or through
        with self.ownership.changing("the log cannot be pruned") as connection:
            connection.execute(sa.delete(log_table).where(log_table.c.lsn <= until))
            connection.execute(sa.delete(meta_table).where(meta_table.c.key == "pruned_through"))
            connection.execute(sa.insert(meta_table), {"key": "pruned_through", "value": str(until)})
        self.pruned_through = until
        return until < through

    def answers(self, since: float, latest: int) -> list[StoredAnswer]:
        """The answers kept at or after a time, oldest first: the latest, and those that are not complete.

        Raises `LogUnavailable`.
        """
        created, complete = idempotency_table.c.created_at, idempotency_table.c.complete
        order = (created.desc(), idempotency_table.c.scope, idempotency_table.c.key)
        query = sa.select(idempotency_table).where(created >= since).order_by(*order)
        with self.database.reading("the kept answers cannot be read") as connection:
            rows = [StoredAnswer._make(row) for row in connection.execute(query.limit(latest))]
            if len(rows) == latest:
                rest = query.where(sa.not_(complete)).offset(sum(not row.complete for row in rows))
                rows += [StoredAnswer._make(row) for row in connection.execute(rest)]
        return rows[::-1]

    def all_answers(self, through_lsn: int) -> Iterator[StoredAnswer]:
        """Every kept answer that stands beside a row up to this one, oldest first, read as they are taken.

        Raises `LogUnavailable`.
        """
        columns = idempotency_table.c
        query = sa.select(idempotency_table).where(columns.lsn <= through_lsn)
        query = query.order_by(columns.created_at, columns.scope, columns.key)
        with self.database.reading("the kept answers cannot be read") as connection:
            for row in connection.execution_options(stream_results=True, yield_per=64).execute(query):
                yield StoredAnswer._make(row)

    def answer(self, scope: str, key: str) -> StoredAnswer | None:
        """The answer kept under a key. Raises `LogUnavailable`."""
        columns = idempotency_table.c
        query = sa.select(idempotency_table).where(columns.scope == scope, columns.key == key)
        with self.database.reading("the kept answers cannot be read") as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else StoredAnswer._make(row)

    def forget_answers(self, before: float) -> int:
        """Delete about `FORGET` of the answers kept before a time; answers how many. Raises `LogUnavailable`."""
        at = idempotency_table.c.created_at
        oldest = sa.select(at).where(at < before).order_by(at).limit(FORGET)
        with self.database.reading("the kept answers cannot be read") as connection:
            due = connection.execute(oldest).scalars().all()
        if not due:
            return 0
        with self.ownership.changing("old answers cannot be deleted") as connection:
            return connection.execute(sa.delete(idempotency_table).where(at <= due[-1])).rowcount

    def _start(self, home: DataDirectory | None, patience: float) -> None:
        if not self.database.remote:
            self.ownership.lock_file()
        with self.engine.begin() as connection:
            if self.database.remote:
                # Two services that start at once would both make the tables.
                connection.exec_driver_sql(f"select pg_advisory_xact_lock({MAKING})")
            metadata.create_all(connection)

        def begin(cursor: Any) -> None:
            self.ownership.begin(cursor, home.epoch if home else None, str(home.path) if home else "")
            self.pruned_through = self._stored_pruned_through(cursor)
            self.last_lsn = max(self._last.scalar(cursor) or 0, self.pruned_through)

        self._session.begin(begin, patience)

    def _stored_pruned_through(self, cursor: Any) -> int:
        found = self.ownership.meta.get(cursor, "pruned_through") or "0"
        if not (found.isascii() and found.isdigit()):
            raise LogUnavailable(f"the database {self.database.name} is damaged: pruned_through is {found[:20]!r}")
        return int(found)

    def _repair(self, cursor: Any) -> None:
        """Delete what lies beyond the last row that was confirmed, from a database that is known to be ours."""
        last = max(self._last.scalar(cursor) or 0, self._stored_pruned_through(cursor))
        if last < self.last_lsn:
            raise self.ownership.lose(
                f"the database {self.database.name} has lost rows: it ends at {last}, and {self.last_lsn} was written"
            )
        for statement in self._cut:
            statement.run(cursor, [(self.last_lsn,)])

    def _store(self, cursor: Any, answers: Sequence[StoredAnswer]) -> None:
        self._forget.run(cursor, [(answer.scope, answer.key) for answer in answers])
        self._keep.run(cursor, answers)


def _piece(connection: sa.Connection, which: sa.ColumnElement[bool]) -> int:
    """The last of the first rows, in order, that are together about `PIECE` bytes; 0 when there are none."""
    lsn, size = log_table.c.lsn, sa.func.length(log_table.c.payload)
    total, until = 0, 0
    for row in connection.execute(sa.select(lsn, size).where(which).order_by(lsn).limit(PIECE_ROWS)):
        total += row[1]
        if until and total > PIECE:
            break
        until = row[0]
    return until


def _batches(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in lists of at most `PIECE_ROWS` and about `PIECE` bytes."""
    batch: list[T] = []
    total = 0
    for item in items:
        total += size(item)
        if batch and (total > PIECE or len(batch) == PIECE_ROWS):
            yield batch
            batch, total = [], size(item)
        batch.append(item)
    if batch:
        yield batch
