"""A log on PostgreSQL that several nodes share: one writes it, under a lease, and the others read what it has written.

Every node has the log open as of the last row that it has taken. At the leader that is the last one of the database. A
reader takes the rows that the leader has confirmed: what a failed commit may have left is deleted by the leader, or
belongs to the log once another node has taken the lease, and nobody may have seen it before that is settled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import sqlalchemy as sa

from app.errors import DatabaseFailed, LogUnavailable
from app.runtime import logs
from app.storage.database import Database, cursor_of
from app.storage.directory import DataDirectory, write_durably
from app.storage.keeper import Keeper
from app.storage.lease import CHANNEL, NOT_HELD, TERM, Holder, Lease, LeaseHeld, LeaseState, confirmed_in
from app.storage.log import Log
from app.storage.log_end import history_of
from app.storage.ownership import FORMAT, PATIENCE
from app.storage.rows import CompletedAnswer, CopiedRow, LogEntry, StoredAnswer, idempotency_table

MOST_OWED = 4 << 20
"""Bytes of responses that a reader has completed and the leader may not have stored yet."""

logger = logs.get("log")


class Sharing(NamedTuple):
    """How a node shares the log: its id, the highest term that it knows, how long its leases last, whether it leads."""

    node: str
    term: int
    seconds: float
    leads: bool


class Seen(NamedTuple):
    """What a look at the database found: the lease, None where there is none yet, and the last row that is there."""

    lease: LeaseState | None
    last: int


class OtherHistory(LogUnavailable):
    """What this node has is not what the database has any more."""


class SharedLog(Log):
    """The log of a node that shares it. `leads` says whether it writes: else `append` takes copied rows that are in the
    database already, and whatever else would write does nothing.
    """

    def __init__(self, database: Database, home: DataDirectory, sharing: Sharing) -> None:
        super().__init__(database, home)
        self.leads = False
        self.lease = Lease()
        self.keeper = Keeper(database, self.lease, lambda: self.last_lsn)
        self._sharing = sharing
        self._directory = home
        self._owed: dict[tuple[str, str], CompletedAnswer] = {}
        self._owed_bytes = 0
        self._session.fence = self._fence
        self._session.explain = self._explain

    @classmethod
    def share(cls, url: str, home: DataDirectory, sharing: Sharing, accept_end: int | None = None) -> Self:
        """Open the log of a database as one of its nodes. Raises as `open`; `LeaseHeld` where it is to lead and another
        node does, `OtherHistory` where it is to follow and has what the database does not have.
        """
        return cls(Database.named(url), home, sharing)._opened(PATIENCE, accept_end)

    def close(self) -> None:
        """Give the lease back, and close as any log."""
        if self.leads and self.in_doubt:
            with suppress(LogUnavailable):
                self.mend()
        self.keeper.stop(release=not self.in_doubt)
        super().close()

    # --- opening ------------------------------------------------------------------------------------------------------

    def _start(self, patience: float, accept_end: int | None) -> None:
        if not self._sharing.leads:
            self.ownership.guest = True
            self._start_reading()
            return
        self._evict(force=False)
        super()._start(patience, accept_end)
        self._hold()
        self.leads = True

    def _make(self, connection: sa.Connection) -> None:
        Lease.make(cursor_of(connection))

    def _take(self, cursor: Any, last: int, cuts: int) -> None:
        known = self._sharing.term
        cursor.execute("select coalesce(max(first_seq), 0) from log where command = 'note' and resource = %s", (TERM,))
        noted: int = cursor.fetchone()[0]
        self.lease.take(cursor, self._holder(cuts), noted or (known if self.pruned_through else 0), last)

    def _start_reading(self) -> None:
        with self.engine.connect() as connection:
            cursor = cursor_of(connection)
            found = Lease.look(cursor)
            if found is None:
                raise LogUnavailable(f"no node has led with the database {self.database.name} yet: start one that does")
            if self.ownership.meta.get(cursor, "format") != str(FORMAT):
                raise LogUnavailable(f"the database {self.database.name} has another format: start its leader first")
            epoch = self.ownership.meta.get(cursor, "epoch")
            if epoch != self._directory.epoch:
                raise LogUnavailable(
                    f"the database {self.database.name} belongs to another history: its epoch is {epoch}, that of "
                    f"{self._directory.path} is {self._directory.epoch}"
                )
            self.pruned_through = self._stored_pruned_through(cursor)
            last = min(self._stored_last(cursor), max(found.confirmed, self.pruned_through))
            self._check_same(cursor, found)
            known = None if self.end is None else self.end.known
            # What was confirmed to this node and is still to be prolonged in the lease.
            last = max(last, 0 if known is None else known.lsn)
            self._ends_at(last, self._stored_checksum(cursor, last, self.pruned_through))

    def _check_same(self, cursor: Any, lease: LeaseState) -> None:
        """Raise `OtherHistory` where rows that this node has taken are not there."""
        if lease.history != self._history:
            raise OtherHistory(f"rows were given up: the history is {lease.history}, and {self._history} here")
        try:
            self._check_end(cursor, None)
        except LogUnavailable as error:
            raise OtherHistory(str(error)) from None

    # --- the lease ----------------------------------------------------------------------------------------------------

    @property
    def _history(self) -> str:
        return history_of(self._directory.epoch, 0 if self.end is None else self.end.cuts)

    def _holder(self, cuts: int = 0) -> Holder:
        known = 0 if self.end is None else self.end.cuts
        history = history_of(self._directory.epoch, known + cuts)
        return Holder(self._sharing.node, self.ownership.token, history, self._sharing.seconds)

    def take(self, term: int, force: bool) -> int:
        """Take the lease, in this term at least, and with `force` also from a node that holds it: nobody else writes
        from now on. Returns the last row of the database: `lead`, once this node has taken that.

        Raises `LeaseHeld`, `OtherHistory` where rows that this node has are not there, and `LogUnavailable`.
        """
        self._evict(force)

        def begin(cursor: Any) -> int:
            self.ownership.begin(cursor, self._directory.epoch, str(self._directory.path))
            last = self._stored_last(cursor)
            self.pruned_through = self._stored_pruned_through(cursor)
            self._check_has(cursor, last)
            self.lease.take(cursor, self._holder(), term, last, force)
            return last

        try:
            last = self._session.begin(begin, PATIENCE)
        except BaseException as error:
            self._session.close()
            if isinstance(error, self.database.errors):
                raise DatabaseFailed(f"the lease cannot be taken: {error}") from error
            raise
        self._hold()
        return last

    def _check_has(self, cursor: Any, last: int) -> None:
        """Raise `OtherHistory` where the database, which ends at a row, lacks what this node has taken."""
        if last < self.last_lsn:
            raise OtherHistory(self._shorter(last))
        if self.last_lsn > self.pruned_through:
            stored = self._stored_checksum(cursor, self.last_lsn, self.pruned_through)
            if stored != self.last_checksum:
                raise OtherHistory(
                    f"row {self.last_lsn} of the database {self.database.name} is another one than it was"
                )

    def _shorter(self, last: int) -> str:
        return f"the database {self.database.name} has lost rows: it ends at {last}, and {self.last_lsn} was there"

    def lead(self) -> None:
        """Write from now on: the lease was taken, and this node has all that is there."""
        self.leads = True

    def give_back(self) -> None:
        """Give a lease back that was taken, without having led."""
        self.keeper.stop(release=True)
        self._session.close()
        self.ownership.guest, self.leads = True, False

    def _evict(self, force: bool) -> None:
        """End the session of the node that had the lease. Raises `LeaseHeld` where it has it still, and is another."""
        with self.database.reading("the lease cannot be read") as connection:
            cursor = cursor_of(connection)
            found = Lease.look(cursor)
            if found is None:
                return
            if not (force or found.free or found.node == self._sharing.node):
                raise LeaseHeld(f"node {found.node} leads in term {found.term}")
            self.ownership.evict(cursor)

    def _hold(self) -> None:
        term = self.lease.taken()
        self.ownership.guest = False
        self.keeper.start()
        logger.info("the lease is taken", term=term, seconds=self._sharing.seconds)

    def _fence(self, cursor: Any) -> None:
        if not self.leads:
            raise LogUnavailable("this node does not write the log")
        self.lease.fence(cursor)

    def _explain(self, error: Exception) -> LogUnavailable | None:
        original = getattr(error, "orig", None) or error
        if getattr(original, "sqlstate", None) != NOT_HELD:
            return None
        return self.ownership.lose(f"another node has taken the lease of term {self.lease.term}")

    # --- reading what is written elsewhere ----------------------------------------------------------------------------

    def look(self) -> Seen:
        """Look at the lease and the end of the database. In any one thread; raises `LogUnavailable`."""
        with self.database.reading("the log cannot be read") as connection:
            cursor = cursor_of(connection)
            found = Lease.look(cursor)
            if not self.leads and self.ownership.guest:
                self.pruned_through = self._stored_pruned_through(cursor)
            return Seen(found, self._stored_last(cursor))

    def check_lease(self, seen: Seen) -> None:
        """Raise `OtherHistory` where the lease is of another history, or the database has lost what this node has."""
        if seen.lease is not None and seen.lease.history != self._history:
            raise OtherHistory(f"rows were given up: the history is {seen.lease.history}, and {self._history} here")
        if seen.last < self.last_lsn:
            raise LogUnavailable(self._shorter(seen.last))

    def incomplete_answers(self, first: int, last: int) -> list[StoredAnswer]:
        """The stored responses of rows from one to another that lack what applying gives. Raises `LogUnavailable`."""
        columns = idempotency_table.c
        query = sa.select(idempotency_table).where(columns.lsn.between(first, last), sa.not_(columns.complete))
        with self.database.reading("the kept answers cannot be read") as connection:
            return [StoredAnswer._make(row) for row in connection.execute(query.order_by(columns.lsn))]

    # --- what a log does ----------------------------------------------------------------------------------------------

    def append(
        self,
        entries: Sequence[LogEntry | CopiedRow],
        answers: Sequence[StoredAnswer] = (),
        completed: Sequence[CompletedAnswer] = (),
        now: float | None = None,
        forgotten: Sequence[tuple[str, str]] = (),
    ) -> int:
        """As `Log.append` at the leader. Elsewhere copied rows become the end of what this node has."""
        if self.leads:
            last = super().append(entries, answers, [*self._owed.values(), *completed], now, forgotten)
            self._owed, self._owed_bytes = {}, 0
            self.keeper.confirm()
            return last
        self._owe(completed)
        if not all(isinstance(entry, CopiedRow) for entry in entries):
            raise LogUnavailable("this node follows, and writes nothing")
        rows, before, _ = self._chained(entries, 0.0)
        if rows:
            self._ends_at(self.last_lsn + len(rows), before)
            self.on_append(rows, ())
        return self.last_lsn

    def mend(self) -> None:
        """As `Log.mend`, at the leader."""
        if self.leads:
            super().mend()

    def complete_answers(self, completed: Sequence[CompletedAnswer]) -> None:
        """As `Log.complete_answers`; elsewhere they are kept until the leader has surely stored them."""
        if self.leads:
            super().complete_answers(completed)
        else:
            self._owe(completed)

    def add_answers(self, answers: Iterable[StoredAnswer]) -> None:
        """As `Log.add_answers`, at the leader."""
        if self.leads:
            super().add_answers(answers)

    def drop_answers(self, places: Sequence[tuple[str, str]]) -> None:
        """As `Log.drop_answers`, at the leader."""
        if self.leads:
            super().drop_answers(places)

    def forget_answers(self, before: float) -> int:
        """As `Log.forget_answers`, at the leader."""
        return super().forget_answers(before) if self.leads else 0

    def prune(self, through_lsn: int) -> bool:
        """As `Log.prune`, at the leader."""
        return super().prune(through_lsn) if self.leads else False

    def _owe(self, completed: Sequence[CompletedAnswer]) -> None:
        for one in completed:
            self._owed[one.scope, one.key] = one
            self._owed_bytes += len(one.answer)
        while self._owed_bytes > MOST_OWED:
            self._owed_bytes -= len(self._owed.pop(next(iter(self._owed))).answer)

    def _repair(self, cursor: Any) -> None:
        if not self.leads:
            raise LogUnavailable("this node has not taken all rows of the log yet")
        super()._repair(cursor)


class Notifications:
    """The notifications of confirmed rows, on a session of its own, which is used in one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: Any = None

    def wait(self, seconds: float) -> tuple[int, int] | None:
        """Wait for notifications; return the term and row of the last one, None where none came in this time.

        The first call begins to listen, and returns at once: what was confirmed before is not notified of. Raises
        `LogUnavailable`.
        """
        try:
            if self._session is None:
                self._session = self._database.engine.raw_connection()
                driver: Any = self._session.driver_connection
                driver.autocommit = True
                channel = driver.execute(CHANNEL).fetchone()[0]
                driver.execute(f'listen "{channel}"')
                return None
            found = None
            for one in self._session.driver_connection.notifies(timeout=seconds, stop_after=1):
                found = confirmed_in(one.payload) or found
            return found
        except self._database.errors as error:
            self.close()
            raise DatabaseFailed(f"the log is not followed: {error}") from error

    def close(self) -> None:
        """Listen no more."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.invalidate()


class Marks:
    """What a node of a shared log remembers of its own storage, in a file of its data directory: the database is all
    nodes'. As the rows of ``meta`` of a log that is one node's.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "MARKS"

    def recall(self, key: str) -> str | None:
        """The value of a key. Raises `LogUnavailable`."""
        return self._read().get(key)

    def remember(self, key: str, value: str) -> None:
        """Set the value of a key. Raises `LogUnavailable`."""
        try:
            write_durably(self._file, json.dumps({**self._read(), key: value}) + "\n")
        except OSError as error:
            raise LogUnavailable(f"{self._file} cannot be written: {error.strerror or error}") from error

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise LogUnavailable(f"{self._file} cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise LogUnavailable(f"{self._file} is damaged")
        return {str(name): str(value) for name, value in found.items()}


def lease_of(url: str) -> LeaseState | None:
    """The lease in a database; None where no node has led with it. Raises `LogUnavailable`."""
    database = Database.named(url)
    try:
        with database.reading(f"the database {database.name} cannot be opened") as connection:
            return Lease.look(cursor_of(connection))
    finally:
        database.close()
