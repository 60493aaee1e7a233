"""What a node does that holds the lease of a shared log: prolong it, and say which row is confirmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from app.runtime import logs
from app.storage.database import Database, plain
from app.storage.lease import Lease

AGAIN = 0.2
"""Seconds until the database is tried again."""

log = logs.get("log")


class Keeper:
    """Keeps a lease in a thread and on a session of its own, so that neither the event loop nor a commit that waits
    keeps it from that. `confirmed()` is the last durable row, `on_lost` is called in the thread once the lease is
    another's.

    Once `beat` has been called it has to be called again and again: a node whose event loop hangs loses its lease.
    """

    def __init__(self, database: Database, lease: Lease, confirmed: Callable[[], int]) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self._database = database
        self._lease = lease
        self._confirmed = confirmed
        self._told = -1
        self._beat: float | None = None
        self._stopping = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._session: Any = None
        self._failing = False

    @property
    def seconds(self) -> float:
        """How long the lease lasts when it is prolonged."""
        return 0.0 if self._lease.holder is None else self._lease.holder.seconds

    def start(self) -> None:
        """Begin, with a lease that was just taken."""
        self._stopping, self._told, self._beat = False, self._confirmed(), None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """There are more confirmed rows. May be called in any thread; returns at once."""
        with self._wake:
            self._wake.notify()

    def beat(self) -> None:
        """Say that the event loop runs."""
        self._beat = time.monotonic()

    def stop(self, release: bool) -> None:
        """End, and with `release` give the lease back where the database can be reached."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._wake:
            self._stopping = True
            self._wake.notify()
        thread.join()
        if release:
            try:
                self._lease.release(self._cursor())
            except self._database.errors as error:
                log.warning("the lease is not given back", error=plain(error))
        self._close()

    def _run(self) -> None:
        due = time.monotonic() + self.seconds / 7
        while True:
            with self._wake:
                self._wake.wait_for(self._called, max(0.0, due - time.monotonic()))
                if self._stopping:
                    return
            lsn = self._confirmed()
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + self.seconds / 7
                    if self._alive() and not self._lease.renew(self._cursor(), lsn):
                        self.on_lost()
                        return
                if lsn > self._told:
                    self._lease.confirm(self._cursor(), lsn)
                    self._told = lsn
                self._failing = False
            except self._database.errors as error:
                if not self._failing:
                    log.warning("the lease is not prolonged for now", error=plain(error))
                self._failing = True
                self._close()
                due = time.monotonic() + AGAIN
                # What was not said is read with the next prolongation.
                self._told = lsn

    def _called(self) -> bool:
        return self._stopping or self._confirmed() > self._told

    def _alive(self) -> bool:
        return self._beat is None or time.monotonic() - self._beat < self.seconds

    def _cursor(self) -> Any:
        if self._session is None:
            self._session = self._database.engine.raw_connection()
            driver: Any = self._session.driver_connection
            driver.autocommit = True
            # What is lost of it in a crash is said again: nothing waits for the disk.
            driver.execute("set synchronous_commit = off")
        return self._session.cursor()

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.invalidate()
