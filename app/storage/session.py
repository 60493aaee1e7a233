"""The one connection that writes the log: held for as long as it lasts, and replaced with care."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

import sqlalchemy as sa

from app.errors import LogUnavailable
from app.storage.database import plain
from app.storage.ownership import Ownership

T = TypeVar("T")


class Session:
    """Transactions on a held DBAPI connection, each beginning where the last one ended, one at a time whoever calls.

    When a commit fails it is not known whether the database took it: the connection may have gone in between. So after
    any failure the next transaction first makes sure that the database is still ours and calls `repair`, which deletes
    what no one was told of, before it does its own work: all in one transaction.

    `fence` goes before the work of each transaction but the first, and fails where it may not be done; `explain` says
    why, of the error that it failed with.
    """

    def __init__(self, ownership: Ownership, repair: Callable[[Any], None]) -> None:
        self.in_doubt = False
        self.fence: Callable[[Any], None] | None = None
        self.explain: Callable[[Exception], LogUnavailable | None] = lambda error: None
        self._ownership = ownership
        self._database = ownership.database
        self._repair = repair
        self._connection: sa.PoolProxiedConnection | None = None
        self._cursor: Any = None
        self._one_at_a_time = threading.Lock()

    def begin(self, start: Callable[[Any], T], patience: float) -> T:
        """The first transaction, with the lock taken before it. Raises `LogUnavailable` and the driver's errors."""
        cursor = self._open()
        self._ownership.lock_session(cursor, patience)
        self._begin(cursor)
        done = start(cursor)
        self._commit()
        return done

    def transact(self, write: Callable[[Any], T], alone: bool = False) -> T:
        """Run `write` with a cursor and commit. Raises `LogUnavailable` with everything rolled back.

        `alone`: it runs one statement, once. SQLite makes that a transaction by itself, which costs less than three
        statements. A connection that was lost since the last transaction is replaced, and `write` is then run again.
        """
        with self._one_at_a_time:
            self._ownership.check_writable()
            fresh = self._cursor is None
            try:
                return self._once(write, alone)
            except self._database.errors as error:
                if fresh or not self._gone(error):
                    self._ownership.on_failure()
                    raise self._why(error) from error
            try:
                return self._once(write, alone)
            except self._database.errors as error:
                raise self._why(error) from error

    def _why(self, error: Exception) -> LogUnavailable:
        return self.explain(error) or LogUnavailable(f"the log cannot be written: {plain(error)}")

    def close(self) -> None:
        """Roll back and give up the connection; the next transaction takes a fresh one."""
        connection, self._connection, self._cursor = self._connection, None, None
        self._ownership.session_lost()
        if connection is not None:
            with suppress(Exception):
                connection.rollback()
            with suppress(Exception):
                connection.invalidate()

    def _once(self, write: Callable[[Any], T], alone: bool) -> T:
        try:
            cursor = self._cursor or self._open()
            alone = alone and not self.in_doubt
            if not alone:
                self._begin(cursor)
            if self.in_doubt:
                self._ownership.again(cursor)
                self._repair(cursor)
            if self._database.remote:
                with self._in_one_go():
                    done = self._write(cursor, write)
            elif self.fence is not None:
                done = self._write(cursor, write)
            else:
                # As by `_write`, without the call.
                done = write(cursor)
                if not alone:
                    self._commit()
            self.in_doubt = False
        except BaseException:
            self.in_doubt = True
            self._step_back()
            raise
        return done

    def _write(self, cursor: Any, write: Callable[[Any], T]) -> T:
        if self.fence is not None:
            self.fence(cursor)
        done = write(cursor)
        self._commit()
        return done

    def _open(self) -> Any:
        self._connection = self._database.engine.raw_connection()
        self._cursor = self._connection.cursor()
        if not self._database.remote:
            # Transactions of SQLite begin here, and not by the driver before whatever changes something.
            self._connection.dbapi_connection.isolation_level = None  # type: ignore[union-attr]
        return self._cursor

    def _begin(self, cursor: Any) -> None:
        """Begin a transaction of SQLite; PostgreSQL's driver begins one by itself."""
        if not self._database.remote:
            cursor.execute("begin")

    def _commit(self) -> None:
        assert self._connection is not None
        # As that of the pool's connection, which looks for it in Python.
        self._connection.dbapi_connection.commit()  # type: ignore[union-attr]

    def _in_one_go(self) -> AbstractContextManager[Any]:
        """Statements to a server go out together and are answered together, with the commit: one way there and back."""
        assert self._connection is not None
        together: AbstractContextManager[Any] = self._connection.driver_connection.pipeline()  # type: ignore[union-attr]
        return together

    def _step_back(self) -> None:
        """Roll back after a failure. A server's connection that lives is kept, for the lock that it holds."""
        if self._connection is not None and self._database.remote and self._ownership.lost is None:
            with suppress(Exception):
                self._connection.rollback()
                return
        self.close()

    def _gone(self, error: BaseException) -> bool:
        """Whether it failed because the connection was lost."""
        return self._database.remote and self._cursor is None
