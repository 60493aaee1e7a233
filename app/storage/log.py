"""The durable log: every accepted command in order, and the responses stored for idempotency keys.

A row of ``log`` is one command: its number (`lsn`, from 1, one sequence for the data directory), its resource, the
first and last `seq` that it takes, its kind and its payload. Replaying the rows in order is recovery. Each row has a
checksum that is chained to the one before (`app.storage.chain`), and the data directory knows the last row that was
answered (`app.storage.log_end`).

What is written goes through one held connection (`app.storage.session`); only the database's one service may write
(`app.storage.ownership`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import sqlalchemy as sa

from app.errors import DatabaseFailed, LogUnavailable
from app.runtime import logs
from app.storage.chain import START, Chain, checksum
from app.storage.database import Database, Statement, cursor_of, metadata, plain
from app.storage.directory import DataDirectory, make_private_file
from app.storage.lease import Lease
from app.storage.log_end import LogEnd
from app.storage.ownership import PATIENCE, UNCHECKED_FORMAT, Ownership, meta_table
from app.storage.peek import read_only
from app.storage.rows import (
    NOTE,
    ROW,
    UNDONE,
    CompletedAnswer,
    CopiedRow,
    LogEntry,
    LogRow,
    StoredAnswer,
    StoredRow,
    idempotency_table,
    log_table,
)
from app.storage.session import Session

T = TypeVar("T")

logger = logs.get("log")

FORGET = 1_000
"""Answers that are forgotten in one transaction: no commit waits longer than that takes."""

PIECE = 4 << 20
"""Bytes of rows that are read at a time."""

PIECE_ROWS = 1_000
"""The most rows of such a piece."""

PRUNED = 1 << 19
"""Bytes of rows that are deleted in one transaction: no commit waits longer than that takes."""

FRAME = 8_192
"""Bytes of SQLite's write-ahead log that a small transaction takes at most, its pages being written whole: one of rows
and, in tables of an older version, one of their index."""

PRUNED_CHECKSUM = "pruned_checksum"
"""The key in ``meta`` of the checksum of the last row that was pruned, in hexadecimal."""

KEY_VERSION = "integer not null default 1"
"""The column of keys that says what their scopes mean."""

MAKING = int.from_bytes(b"RANKMAKE")
"""The key of PostgreSQL's lock for making the tables."""

_UNDER_KEY = (
    idempotency_table.c.scope == sa.bindparam("scope_"),
    idempotency_table.c.key == sa.bindparam("key_"),
)


class Checked(NamedTuple):
    """What a check of the whole log found: how many rows it has, how many of them have no checksum, and what is wrong,
    by row.
    """

    rows: int
    unchecked: int
    faults: list[tuple[int, str]]


class Log:
    """The open log. One caller at a time, whichever its thread.

    `prune`, `forget_answers` and whatever only reads may go on in other threads meanwhile. After `LogUnavailable` it is
    as if there had been no call; a later one works once the database does, unless another service has taken it over.
    """

    def __init__(self, database: Database, home: DataDirectory | None = None) -> None:
        self.database = database
        self.ownership = Ownership(database)
        self.last_lsn = 0
        self.pruned_through = 0
        self.end = LogEnd(home.path) if home is not None else None
        self.on_append: Callable[[Sequence[StoredRow], Sequence[StoredAnswer]], None] = lambda rows, answers: None
        """Called in the thread of an `append` with what it has made durable."""
        self._home = home
        self._last_checksum = START
        self._written = 0
        self._moved = 0
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
        self._checksum = Statement(engine, sa.select(log_table.c.checksum).where(log_table.c.lsn == beyond), ["lsn_"])
        self._cut = [
            Statement(engine, sa.delete(table).where(table.c.lsn > beyond), ["lsn_"])
            for table in (log_table, idempotency_table)
        ]

    @classmethod
    def open(
        cls, url: str, home: DataDirectory | None = None, patience: float = PATIENCE, accept_end: int | None = None
    ) -> Self:
        """Open the log of a database, making its tables when they are missing, and become the database's one service.

        `home` is the data directory whose history it holds; a database without one takes it. A lock that is held is
        waited for up to `patience` seconds. Raises `LogUnavailable`, also when the database is another service's or
        another data directory's, or when rows that were answered are missing at its end, unless that is accepted:
        `accept_end` is then its last row.
        """
        return cls(Database.named(url), home)._opened(patience, accept_end)

    def _opened(self, patience: float, accept_end: int | None) -> Self:
        try:
            self._start(patience, accept_end)
        except self.database.errors as error:
            self.close()
            raise DatabaseFailed(f"the database {self.database.name} cannot be opened: {plain(error)}") from error
        except BaseException:
            self.close()
            raise
        return self

    @property
    def engine(self) -> sa.Engine:
        """The database's engine."""
        return self.database.engine

    @property
    def last_checksum(self) -> bytes:
        """The checksum of the last row, `START` where it has none."""
        return self._last_checksum

    @property
    def in_doubt(self) -> bool:
        """Whether a failed write may have left rows that were reported as failed; `mend` deletes them."""
        return self._session.in_doubt

    def close(self) -> None:
        """Close all connections and let the database go."""
        with suppress(LogUnavailable):
            self.mend()
        self._session.close()
        self.database.close()
        self.ownership.close()
        if self.end is not None:
            self.end.close()

    def mend(self) -> None:
        """Delete now, and not only with the next write, what a failed one may have left. Raises `LogUnavailable`."""
        if self.in_doubt:
            self._session.transact(lambda cursor: None)

    def append(
        self,
        entries: Sequence[LogEntry | CopiedRow],
        answers: Sequence[StoredAnswer] = (),
        completed: Sequence[CompletedAnswer] = (),
        now: float | None = None,
        forgotten: Sequence[tuple[str, str]] = (),
    ) -> int:
        """Write commands and answers in one transaction, durable on return; answers the last lsn.

        The entries get the numbers from ``last_lsn + 1``. An answer replaces an older one under the same key; those
        under `forgotten` (scope, key) are deleted. Copied rows must follow the last one, by number and by checksum.
        Raises `LogUnavailable` with everything rolled back.
        """
        rows, before, nbytes = self._chained(entries, time.time() if now is None else now)

        def write(cursor: Any) -> None:
            self._insert.run(cursor, rows)
            if forgotten:
                self._forget.run(cursor, forgotten)
            if answers:
                self._store(cursor, answers)
            if completed:
                self._complete.run(cursor, completed)

        self._session.transact(write, len(rows) == 1 and not (forgotten or answers or completed))
        self._written += FRAME + nbytes
        for one in answers:
            self._written += len(one.answer)
        if rows:
            self._ends_at(self.last_lsn + len(rows), before)
        if rows or answers:
            self.on_append(rows, answers)
        return self.last_lsn

    def _chained(self, entries: Sequence[LogEntry | CopiedRow], created: float) -> tuple[list[StoredRow], bytes, int]:
        """The rows behind the last one, the checksum of the last of them, and the bytes of their payloads. Raises
        `LogUnavailable` for copied rows that do not follow.
        """
        lsn, before, nbytes = self.last_lsn, self._last_checksum, 0
        rows: list[StoredRow] = []
        for entry in entries:
            lsn += 1
            if not isinstance(entry, CopiedRow):
                # A plain tuple: most commits are of one row, for which each call counts.
                row = (lsn, *entry, created)
                before = checksum(before, row)
                nbytes += len(entry[-1])
                rows.append((*row, before))
                continue
            copy, stored = entry
            chained = None if stored is None else checksum(before, copy)
            if copy.lsn != lsn or chained != stored or (before and not chained):
                raise LogUnavailable(f"row {copy.lsn} of another log does not follow row {lsn - 1} of this one")
            before = chained or START
            nbytes += len(copy.payload)
            rows.append((*copy, stored))
        return rows, before, nbytes

    def sync_end(self) -> None:
        """Flush to disk where the log ends, so that it is known after a loss of power too. May run in any thread;
        raises OSError.
        """
        if self.end is not None:
            self.end.sync()

    @property
    def refused(self) -> str | None:
        """Why nothing is written for now, or any more; None while it is."""
        return self.ownership.lost or self.ownership.refused

    def reachable(self) -> bool:
        """Whether the database answers."""
        try:
            self.ownership.recall("format")
        except LogUnavailable:
            return False
        return True

    @property
    def write_ahead(self) -> int:
        """About how many bytes of SQLite's write-ahead log `append` has added since the last `checkpoint`."""
        return 0 if self.database.remote else self._written - self._moved

    def checkpoint(self) -> None:
        """Move what SQLite's write-ahead log holds into the database, without holding up anyone who writes. May run in
        any thread, once at a time. Raises `LogUnavailable`.
        """
        if self.database.remote:
            return
        until = self._written
        with self.database.reading("the log cannot be read") as connection:
            connection.exec_driver_sql("pragma wal_checkpoint(passive)")
        self._moved = until

    def reclaim(self) -> None:
        """Give the room of SQLite's write-ahead log back to the disk. Raises `LogUnavailable`."""
        if not self.database.remote:
            with self.database.reading("the log cannot be read") as connection:
                connection.exec_driver_sql("pragma wal_checkpoint(truncate)")

    def recall_pruned_through(self) -> int:
        """The last row that was pruned, also by another service, of which `pruned_through` does not say. Raises
        `LogUnavailable`.
        """
        return self._number_of(self.ownership.recall("pruned_through"))

    def check(self, progress: Callable[[int, int], None] = lambda done, total: None) -> Checked:
        """Compare all rows with their checksums, also those that no replay would begin from. May run in any thread, and
        while rows are pruned, also by another service. Raises `LogUnavailable` when it cannot be read.
        """
        while True:
            pruned = self.recall_pruned_through()
            found = self._check_behind(pruned, progress)
            if not found.faults or self.recall_pruned_through() == pruned:
                return found

    def _check_behind(self, pruned: int, progress: Callable[[int, int], None]) -> Checked:
        """Compare the rows behind the last one that was pruned with their checksums."""
        last = self.last_lsn
        chain = Chain(self._checksum_of(pruned, pruned))
        faults: list[tuple[int, str]] = []
        expected = pruned + 1
        for row, stored in self._rows(pruned, last):
            if row.lsn != expected:
                faults.append((expected, f"it is missing: row {row.lsn} follows row {expected - 1}"))
            expected = row.lsn + 1
            fault = chain.fault(row, stored)
            if fault is not None:
                faults.append((row.lsn, fault))
            if row.lsn % PIECE_ROWS == 0:
                progress(row.lsn - pruned - 1, last - pruned)
        if expected <= last:
            faults.append((expected, f"it is missing: the log ends at row {expected - 1}"))
        return Checked(max(0, last - pruned), chain.unchecked, faults)

    def note(self, about: str) -> None:
        """Write a row that changes no resource: it marks a change of other contents of snapshots.

        Raises `LogUnavailable`.
        """
        self.append([LogEntry(about, 0, 0, NOTE, b"")])

    def complete_answers(self, completed: Sequence[CompletedAnswer]) -> None:
        """Complete stored responses. Raises `LogUnavailable`."""
        if completed:
            self._session.transact(lambda cursor: self._complete.run(cursor, completed))

    def add_answers(self, answers: Iterable[StoredAnswer]) -> None:
        """Keep answers that came from elsewhere, some in each transaction. Raises `LogUnavailable`."""
        for some in _batches(answers, lambda answer: len(answer.answer)):
            self._session.transact(partial(self._store, answers=some))

    @property
    def restored_epoch(self) -> str | None:
        """The epoch of the last restore that `clear` has begun. Raises `LogUnavailable`."""
        return self.ownership.recall("restored")

    def clear(self, epoch: str) -> None:
        """Delete all rows and answers, so that a snapshot can be restored for a history of this epoch.

        Raises `LogUnavailable`.
        """
        with self.ownership.changing("the log cannot be emptied") as connection:
            for table in (log_table, idempotency_table):
                connection.execute(sa.delete(table))
            connection.execute(
                sa.delete(meta_table).where(meta_table.c.key.in_(("pruned_through", PRUNED_CHECKSUM, "restored")))
            )
            connection.execute(sa.insert(meta_table), {"key": "restored", "value": epoch})
        self.pruned_through = 0
        self._ends_at(0, START)

    def start_at(self, lsn: int, epoch: str, chained: bytes = START) -> None:
        """Let an empty log begin after a row that is elsewhere, with the history of this epoch; with `chained`, the
        checksum of that row, it goes on with the chain there.

        Raises `LogUnavailable` when it is not empty.
        """
        if self.last_lsn:
            raise LogUnavailable(f"the database {self.database.name} is not empty: it has rows up to {self.last_lsn}")

        def write(cursor: Any) -> None:
            self.ownership.meta.put(cursor, "pruned_through", str(lsn))
            self.ownership.meta.put(cursor, "epoch", epoch)
            if chained:
                self.ownership.meta.put(cursor, PRUNED_CHECKSUM, chained.hex())

        self._session.transact(write)
        self.pruned_through = lsn
        self._ends_at(lsn, chained)

    def copies(self, after_lsn: int, last: int) -> Iterator[CopiedRow]:
        """The rows after a number up to another one as they are, unchecked, about `PIECE` bytes read at a time.

        Raises `LogUnavailable`, also where rows are missing.
        """
        for found in self._rows(after_lsn, last):
            after_lsn += 1
            if found[0].lsn != after_lsn:
                raise LogUnavailable(f"the log is damaged: after row {after_lsn - 1} comes row {found[0].lsn}")
            yield CopiedRow(*found)
        if after_lsn < last:
            raise LogUnavailable(f"rows {after_lsn + 1} to {last} of the log are not there")

    def checksum_at(self, lsn: int) -> bytes | None:
        """The checksum of a row, `START` for one without; None where the row is neither there nor the last pruned one.

        Raises `LogUnavailable`.
        """
        if not self.pruned_through <= lsn <= self.last_lsn:
            return None
        return self._checksum_of(lsn, self.pruned_through)

    def answers_between(self, first: int, last: int) -> list[StoredAnswer]:
        """The stored responses of rows from one to another, in order of row. Raises `LogUnavailable`."""
        columns = idempotency_table.c
        query = sa.select(idempotency_table).where(columns.lsn.between(first, last))
        query = query.order_by(columns.lsn, columns.created_at, columns.scope, columns.key)
        with self.database.reading("the kept answers cannot be read") as connection:
            return [StoredAnswer._make(row) for row in connection.execute(query)]

    def answers_of(self, resource: str, first: int, last: int) -> list[tuple[str, str]]:
        """Scope and key of the stored responses of a resource's rows from one to another. Raises `LogUnavailable`."""
        answer, row = idempotency_table.c, log_table.c
        query = sa.select(answer.scope, answer.key).where(answer.lsn.between(first, last), answer.lsn == row.lsn)
        with self.database.reading("the kept answers cannot be read") as connection:
            found = connection.execute(query.where(row.resource == resource)).all()
        return [(scope, key) for scope, key in found]

    def drop_answers(self, places: Sequence[tuple[str, str]]) -> None:
        """Delete stored responses by scope and key. Raises `LogUnavailable`."""
        if places:
            self._session.transact(lambda cursor: self._forget.run(cursor, places))

    def last_note(self, about: str) -> int:
        """The `first_seq` of the last row that notes this, 0 where none is in the log. Raises `LogUnavailable`."""
        columns = log_table.c
        query = sa.select(sa.func.max(columns.first_seq)).where(
            columns.command == NOTE, columns.resource == about, columns.lsn <= self.last_lsn
        )
        with self.database.reading("the log cannot be read") as connection:
            return int(connection.execute(query).scalar() or 0)

    def replay(self, after_lsn: int = 0) -> Iterator[LogRow]:
        """All commands after a number, in order, read as they are taken: about `PIECE` bytes at a time.

        Raises `LogUnavailable`, also when rows are missing or are not what their checksums say.
        """
        if after_lsn < self.pruned_through:
            raise LogUnavailable(
                f"rows {after_lsn + 1} to {self.pruned_through} of the log are needed, and have been deleted from it"
            )
        last = self.last_lsn
        if after_lsn > last:
            raise LogUnavailable(f"the log ends at row {last}, although row {after_lsn} has been written")
        chain = Chain(self._checksum_of(after_lsn, self.pruned_through))
        for row, stored in self._rows(after_lsn, last):
            after_lsn += 1
            if row.lsn != after_lsn:
                raise LogUnavailable(f"the log is damaged: after row {after_lsn - 1} comes row {row.lsn}")
            fault = chain.fault(row, stored)
            if fault is not None:
                raise LogUnavailable(
                    f"row {row.lsn} of the log, a {row.command!r} of {row.resource}, is damaged: {fault}. "
                    "Nothing was changed: see 'A damaged log' in docs/operations.md"
                )
            yield row
        if after_lsn < last:
            raise LogUnavailable(f"the log is damaged: rows {after_lsn + 1} to {last} are missing")

    def undone(self, after_lsn: int) -> list[LogRow]:
        """The rows after a number that undo others, in order. Raises `LogUnavailable`."""
        columns = log_table.c
        query = sa.select(*ROW).where(columns.lsn > after_lsn, columns.command == UNDONE).order_by(columns.lsn)
        with self.database.reading("the log cannot be read") as connection:
            return [LogRow._make(row) for row in connection.execute(query)]

    def prune(self, through_lsn: int) -> bool:
        """Delete rows up to a number, about `PRUNED` bytes of them; answers whether there are more to delete.

        For rows that nothing will be replayed from. Raises `LogUnavailable`.
        """
        through = min(through_lsn, self.last_lsn)
        if through <= self.pruned_through:
            return False
        with self.database.reading("the log cannot be read") as connection:
            until = _piece(connection, log_table.c.lsn <= through, PRUNED) or through
            chained = connection.execute(sa.select(log_table.c.checksum).where(log_table.c.lsn == until)).scalar()
        with self.ownership.changing("the log cannot be pruned") as connection:
            connection.execute(sa.delete(log_table).where(log_table.c.lsn <= until))
            connection.execute(sa.delete(meta_table).where(meta_table.c.key.in_(("pruned_through", PRUNED_CHECKSUM))))
            connection.execute(sa.insert(meta_table), {"key": "pruned_through", "value": str(until)})
            if chained is not None:
                connection.execute(sa.insert(meta_table), {"key": PRUNED_CHECKSUM, "value": bytes(chained).hex()})
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
        """Every stored response of a row up to this one, oldest first, read lazily.

        Raises `LogUnavailable`.
        """
        columns = idempotency_table.c
        query = sa.select(idempotency_table).where(columns.lsn <= through_lsn)
        query = query.order_by(columns.created_at, columns.scope, columns.key)
        with self.database.reading("the kept answers cannot be read") as connection:
            for row in connection.execution_options(stream_results=True, yield_per=64).execute(query):
                yield StoredAnswer._make(row)

    def answer(self, scope: str, key: str) -> StoredAnswer | None:
        """The answer kept under a key; none to a command beyond the last row, which a failed commit may have left and
        the next one deletes. Raises `LogUnavailable`.
        """
        columns = idempotency_table.c
        # Read before the answer is: the last row may grow meanwhile, once what was left is deleted.
        last = self.last_lsn
        query = sa.select(idempotency_table).where(columns.scope == scope, columns.key == key, columns.lsn <= last)
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

    def _start(self, patience: float, accept_end: int | None) -> None:
        cuts = 0
        if not self.database.remote:
            cuts = self._check_unopened(accept_end)
            make_private_file(Path(self.database.engine.url.database or ""))
            self.ownership.lock_file()
        with self.engine.begin() as connection:
            if self.database.remote:
                # Two services that start at once would both make the tables.
                connection.exec_driver_sql(f"select pg_advisory_xact_lock({MAKING})")
            metadata.create_all(connection)
            self._make(connection)

        def begin(cursor: Any) -> tuple[int, bytes, int]:
            home = self._home
            found = self.ownership.begin(cursor, home.epoch if home else None, str(home.path) if home else "")
            if found == UNCHECKED_FORMAT:
                binary = "bytea" if self.database.remote else "blob"
                cursor.execute(f"alter table log add column checksum {binary}")
                self._add_columns(cursor, "keys", {"expires_at": "double precision", "version": KEY_VERSION})
            self.pruned_through = self._stored_pruned_through(cursor)
            last = self._stored_last(cursor)
            done = (
                last,
                self._stored_checksum(cursor, last, self.pruned_through),
                cuts or self._check_end(cursor, accept_end),
            )
            self._take(cursor, last, done[2])
            return done

        self._ends_at(*self._session.begin(begin, patience))

    def _make(self, connection: sa.Connection) -> None:
        """Make further tables."""

    def _take(self, cursor: Any, last: int, cuts: int) -> None:
        """Have the log for oneself, in the transaction that begins; `cuts` are ends accepted just now."""
        if self.database.remote:
            Lease.end(cursor)

    def _add_columns(self, cursor: Any, table: str, columns: dict[str, str]) -> None:
        """Add the columns that a table lacks."""
        if self.database.remote:
            for name, kind in columns.items():
                cursor.execute(f"alter table {table} add column if not exists {name} {kind}")
            return
        cursor.execute(f"pragma table_info({table})")
        present = {row[1] for row in cursor.fetchall()}
        for name, kind in columns.items():
            if name not in present:
                cursor.execute(f"alter table {table} add column {name} {kind}")

    def _ends_at(self, lsn: int, chained: bytes, cuts: int = 0) -> None:
        """What was written is durable: its last row, and that row's checksum. `cuts` are ends accepted just now."""
        self.last_lsn, self._last_checksum = lsn, chained
        if self.end is not None:
            self.end.cuts += cuts
            self.end.note(lsn, chained)

    def _check_unopened(self, accept_end: int | None) -> int:
        """As `_check_end`, before SQLite opens the file for writing and with that cuts off what it cannot read."""
        if self.end is None or self._home is None:
            return 0
        meta = self.ownership.meta
        with read_only(self.database.engine.url.database or "") as cursor:
            if cursor is None or meta.get(cursor, "epoch") != self._home.epoch:
                return 0
            if meta.get(cursor, "format") == UNCHECKED_FORMAT:
                return 0
            return self._check_end(cursor, accept_end)

    def _check_end(self, cursor: Any, accept_end: int | None) -> int:
        """Compare the end of the log with the last row that was answered; return 1 where they differ and the end is
        accepted, else 0. Raises `LogUnavailable`.
        """
        known = None if self.end is None else self.end.known
        if known is None:
            return 0
        last = self._stored_last(cursor)
        if last < known.lsn:
            lost = f"row {known.lsn} is" if last + 1 == known.lsn else f"rows {last + 1} to {known.lsn} are"
            why = f"the log ends at row {last}, and {lost} missing, which had been written and answered"
        else:
            stored = self._checksum.scalar(cursor, known.lsn) if known.checksum else None
            if stored is None or bytes(stored) == known.checksum:
                return 0
            why = f"row {known.lsn} of the log is not the one that was written and answered"
        if accept_end == last:
            logger.warning("the end of the log is accepted", last=last, why=why)
            return 1
        raise LogUnavailable(
            f"{why}: the database {self.database.name} is damaged, or another copy of it was put in its place. Nothing "
            f"was changed. Copy it as it is, then put its newest whole copy back; or go on without what is missing: "
            f"--accept-log-end {last}. See 'A damaged log' in docs/operations.md"
        )

    def _rows(self, after_lsn: int, last: int) -> Iterator[tuple[LogRow, bytes | None]]:
        """The rows that are there up to a number, in order, with their checksums."""
        lsn = log_table.c.lsn
        while after_lsn < last:
            with self.database.reading("the log cannot be read") as connection:
                until = _piece(connection, lsn.between(after_lsn + 1, last), PIECE)
                query = sa.select(*ROW, log_table.c.checksum).where(lsn.between(after_lsn + 1, until)).order_by(lsn)
                rows = connection.execute(query).all()
            for *row, stored in rows:
                yield LogRow._make(row), stored
            if not rows:
                return
            after_lsn = until

    def _checksum_of(self, lsn: int, pruned: int) -> bytes:
        """As `_stored_checksum`, on a connection of its own. Raises `LogUnavailable`."""
        with self.database.reading("the log cannot be read") as connection, closing(cursor_of(connection)) as cursor:
            return self._stored_checksum(cursor, lsn, pruned)

    def _stored_checksum(self, cursor: Any, lsn: int, pruned: int) -> bytes:
        """The checksum of a row, also of the last one that was `pruned`."""
        if lsn == pruned:
            return _bytes(self.ownership.meta.get(cursor, PRUNED_CHECKSUM))
        return bytes(self._checksum.scalar(cursor, lsn) or START)

    def _stored_last(self, cursor: Any) -> int:
        return max(self._last.scalar(cursor) or 0, self._stored_pruned_through(cursor))

    def _stored_pruned_through(self, cursor: Any) -> int:
        return self._number_of(self.ownership.meta.get(cursor, "pruned_through"))

    def _number_of(self, pruned_through: str | None) -> int:
        """The row that is stored as the last one that was pruned, 0 before any was. Raises `LogUnavailable`."""
        found = pruned_through or "0"
        if not (found.isascii() and found.isdigit()):
            raise LogUnavailable(f"the database {self.database.name} is damaged: pruned_through is {found[:20]!r}")
        return int(found)

    def _repair(self, cursor: Any) -> None:
        """Delete what lies beyond the last row that was confirmed, from a database that is known to be ours."""
        last = self._stored_last(cursor)
        if last < self.last_lsn:
            raise self.ownership.lose(
                f"the database {self.database.name} has lost rows: it ends at {last}, and {self.last_lsn} was written"
            )
        for statement in self._cut:
            statement.run(cursor, [(self.last_lsn,)])

    def _store(self, cursor: Any, answers: Sequence[StoredAnswer]) -> None:
        # A replica that is sent an answer again may get both into one transaction.
        latest = {(answer.scope, answer.key): answer for answer in answers}
        self._forget.run(cursor, list(latest))
        self._keep.run(cursor, list(latest.values()))


def _bytes(hexadecimal: str | None) -> bytes:
    """A checksum from ``meta``; one that cannot be read agrees with no row."""
    try:
        return START if hexadecimal is None else bytes.fromhex(hexadecimal)
    except ValueError:
        return b"damaged"


def _piece(connection: sa.Connection, which: sa.ColumnElement[bool], most: int) -> int:
    """The last of the first rows, in order, that are together about `most` bytes; 0 when there are none."""
    lsn, size = log_table.c.lsn, sa.func.length(log_table.c.payload)
    total, until = 0, 0
    for row in connection.execute(sa.select(lsn, size).where(which).order_by(lsn).limit(PIECE_ROWS)):
        total += row[1]
        if until and total > most:
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
