"""One service a database: who has it, whose history is in it, and what a service that lost it may still do: nothing.

The table ``meta`` has a row each for ``format`` (the version of the tables), ``epoch`` (of the data directory whose
history this is), ``owner`` (a random token of the service that opened it last), ``pruned_through`` (the last row of the
log that was deleted because it is no longer needed), ``pruned_checksum`` (that row's checksum), ``storage`` (the
storage roots: `app.storage.root`) and, where a snapshot was restored, ``restored`` (for which epoch).

A service also holds a lock as long as it runs: on SQLite a file beside the database's, on PostgreSQL an advisory lock
of the session that writes. A session may be lost, and the lock with it; then the token tells whether another service
has been there since.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from app.errors import DatabaseFailed, LogTaken, LogUnavailable
from app.storage.database import Database, Statement, metadata, plain
from app.storage.lockfile import Taken, take

FORMAT = 2
"""The newest version of the tables that this service reads, and the one that it writes. 1: rows of the log have no
checksum. 2: those have one that this version or a later one wrote.

Older tables become newer ones when they are opened.
"""

UNCHECKED_FORMAT = "1"

PATIENCE = 5.0
"""Seconds that a start waits for a lock: PostgreSQL may need a moment to notice that the last service has ended."""

_RETRY = 0.05

_IDLE = "set local idle_in_transaction_session_timeout = '8s'"
"""A service that is stopped in the middle of a change holds its locks no longer than
that, which is shorter than others wait for them.
"""
_CLASS = int.from_bytes(b"RANK")
_KEY = f"({_CLASS}::bigint << 32) | 'meta'::regclass::oid::bigint"
_TRY_LOCK = f"select pg_try_advisory_lock({_KEY})"
_SESSION = "select pid, backend_start::text from pg_stat_activity where pid = pg_backend_pid()"
_HOLDER = f"""
    select a.pid, a.backend_start::text, host(a.client_addr) from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'advisory' and l.granted and l.objsubid = 1
      and l.database = (select oid from pg_database where datname = current_database())
      and l.classid = {_CLASS} and l.objid = 'meta'::regclass::oid
"""  # noqa: S608 - of a number

meta_table = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


class Meta:
    """The rows of ``meta``, read and written on a DBAPI cursor in whatever transaction it is in."""

    def __init__(self, engine: sa.Engine) -> None:
        key, value = sa.bindparam("key_", type_=sa.Text), sa.bindparam("value_", type_=sa.Text)
        own = meta_table.c.key == key
        self._get = Statement(engine, sa.select(meta_table.c.value).where(own), ["key_"])
        self._drop = Statement(engine, sa.delete(meta_table).where(own), ["key_"])
        self._add = Statement(engine, sa.insert(meta_table).values(key=key, value=value), ["key_", "value_"])

    def get(self, cursor: Any, key: str) -> str | None:
        """The value of a key."""
        found: str | None = self._get.scalar(cursor, key)
        return found

    def put(self, cursor: Any, key: str, value: str) -> None:
        """Set the value of a key."""
        self._drop.run(cursor, [(key,)])
        self._add.run(cursor, [(key, value)])


class Ownership:
    """This service's lock of a database. `lost` is the reason why nothing may be written any more, `refused` why
    nothing is to be written for now; `on_failure` is called after a write that failed. `token` is this service's,
    `guest` says that it only reads what another one writes there.
    """

    def __init__(self, database: Database) -> None:
        self.guest = False
        self.lost: str | None = None
        self.refused: str | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.database = database
        self.meta = Meta(database.engine)
        self.token = secrets.token_hex(16)
        self._file: int | None = None
        self._locked = False
        self._session: tuple[int, str] | None = None

    def lock_file(self) -> None:
        """Take the lock file of a SQLite database. Raises `LogUnavailable` when another service has it."""
        with self.database.reading("the database cannot be opened") as connection:
            file = next((row[2] for row in connection.exec_driver_sql("pragma database_list") if row[1] == "main"), "")
        if not file:
            raise LogUnavailable("the database URL names no file, and what is only in memory is not durable")
        lock = Path(os.path.realpath(file) + ".lock")
        try:
            self._file = take(lock)
        except Taken as taken:
            raise LogUnavailable(f"{self._named} is in use by another service{taken.by}") from None
        except OSError as error:
            raise LogUnavailable(f"the database cannot be opened: {lock}: {error.strerror or error}") from error

    def lock_session(self, cursor: Any, patience: float) -> None:
        """Take PostgreSQL's lock for the session of this cursor. Raises `LogUnavailable` when another has it."""
        if self._locked or not self.database.remote:
            return
        until = time.monotonic() + patience
        while True:
            cursor.execute(_TRY_LOCK)
            if cursor.fetchone()[0]:
                break
            cursor.execute("select pg_stat_clear_snapshot()")
            cursor.execute(_HOLDER)
            holder = cursor.fetchone()
            if holder is not None and (holder[0], holder[1]) == self._session:
                # Our own session, of which the server has not noticed yet that it was lost.
                cursor.execute("select pg_terminate_backend(%s)", (holder[0],))
            if time.monotonic() >= until:
                by = f" (process {holder[0]} of the server, from {holder[2] or 'its own machine'})" if holder else ""
                raise LogUnavailable(f"{self._named} is in use by another service{by}")
            time.sleep(_RETRY)
        self._locked = True
        cursor.execute(_SESSION)
        row = cursor.fetchone()
        self._session = None if row is None else (row[0], row[1])

    def evict(self, cursor: Any) -> None:
        """End the session that has PostgreSQL's lock, and with it what it has not committed, unless it is ours."""
        cursor.execute("select pg_stat_clear_snapshot()")
        cursor.execute(_HOLDER)
        holder = cursor.fetchone()
        if holder is not None and (holder[0], holder[1]) != self._session:
            cursor.execute("select pg_terminate_backend(%s)", (holder[0],))

    def session_lost(self) -> None:
        """The session that wrote is closed, and its lock is gone with it."""
        self._locked = False

    def begin(self, cursor: Any, epoch: str | None, home: str) -> str | None:
        """Become the owner, in the transaction of this cursor; return the format of the tables until then, None where
        they are new.

        `epoch` is that of the data directory `home`; without one the database may have any. Raises `LogUnavailable`
        when the database has another epoch, or a format that this service does not know.
        """
        found = self.meta.get(cursor, "format")
        if found is not None and not (found.isascii() and found.isdigit() and 1 <= int(found) <= FORMAT):
            raise LogUnavailable(f"{self._named} has format {found[:20]!r}; this service reads 1 to {FORMAT}")
        if found != str(FORMAT):
            self.meta.put(cursor, "format", str(FORMAT))
        self.meta.put(cursor, "owner", self.token)
        theirs = self.meta.get(cursor, "epoch")
        if epoch is not None and theirs is None:
            self.meta.put(cursor, "epoch", epoch)
        elif epoch is not None and theirs != epoch:
            raise LogUnavailable(
                f"{self._named} belongs to another data directory: its epoch is {theirs}, that of {home} is {epoch}"
            )
        return found

    def again(self, cursor: Any) -> None:
        """Make sure, in the transaction of this cursor, that no other service has been there.

        Raises `LogUnavailable` when one has been, which is for good, or when one has the lock, which may pass.
        """
        try:
            self.lock_session(cursor, 10 * _RETRY)
        except LogUnavailable:
            self._check(self.meta.get(cursor, "owner"))
            raise
        self._check(self.meta.get(cursor, "owner"))

    @contextmanager
    def changing(self, failed: str) -> Iterator[sa.Connection]:
        """A transaction on a connection of its own, committed on leaving if this service still is the owner.

        An error becomes `LogUnavailable`, beginning with `failed`. Another service cannot take over between the check
        and the commit: the row stays locked on PostgreSQL, and on SQLite the whole database, once something is written.
        """
        self.check_writable()
        owner = sa.select(meta_table.c.value).where(meta_table.c.key == "owner").with_for_update(read=True)
        try:
            with self.database.engine.begin() as connection:
                if self.database.remote:
                    connection.exec_driver_sql(_IDLE)
                yield connection
                self._check(connection.execute(owner).scalar_one_or_none())
        except self.database.errors as error:
            self.on_failure()
            raise DatabaseFailed(f"{failed}: {plain(error)}") from error

    def check_writable(self) -> None:
        """Raise `LogUnavailable` where nothing may be written, or not for now."""
        if self.lost is not None:
            raise LogTaken(self.lost)
        why = self.refused or (f"this service only reads {self._named}" if self.guest else None)
        if why is not None:
            raise LogUnavailable(why)

    def look(self) -> str | None:
        """Why nothing may be written any more, asked of a database that another service can take over: a service that
        has no writes would not notice.
        """
        if self.lost is None and self.database.remote and not self.guest:
            with suppress(LogUnavailable):
                self._check(self.recall("owner"))
        return self.lost

    def recall(self, key: str) -> str | None:
        """The value of a key in ``meta``. Raises `LogUnavailable`."""
        with self.database.reading("the database cannot be read") as connection:
            found: str | None = connection.execute(
                sa.select(meta_table.c.value).where(meta_table.c.key == key)
            ).scalar_one_or_none()
        return found

    def remember(self, key: str, value: str) -> None:
        """Set the value of a key in ``meta``. Raises `LogUnavailable`."""
        with self.changing("the database cannot be written") as connection:
            connection.execute(sa.delete(meta_table).where(meta_table.c.key == key))
            connection.execute(sa.insert(meta_table), {"key": key, "value": value})

    def lose(self, why: str) -> LogTaken:
        """Nothing may be written from now on; raise what this returns."""
        self.lost = f"{why}; this service writes no more"
        return LogTaken(self.lost)

    def close(self) -> None:
        """Release the lock file. A session's lock is released with its connection."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def _named(self) -> str:
        return f"the database {self.database.name}"

    def _check(self, owner: str | None) -> None:
        if owner != self.token:
            raise self.lose(f"another service has taken {self._named} over")
