"""A replica's link to the leader of a log that they share: rows come from the database, once the leader has confirmed
them, and so does who leads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from app.errors import LogUnavailable
from app.replication.followers import KEYS, PIECE, PIECE_ROWS
from app.replication.link import Link, Replaced
from app.replication.nodes import Status
from app.runtime import logs
from app.storage.keys import KeyRow
from app.storage.lease import LeaseState
from app.storage.rows import NOTE, CopiedRow, StoredAnswer
from app.storage.shared_log import Notifications, OtherHistory, Seen, SharedLog
from app.write_path.following import MOST_BEHIND

T = TypeVar("T")

LOOK_EVERY = 1.0
"""Seconds between two looks at the lease, at most: what was confirmed and not notified of is found then."""

FIND_EVERY = 0.2
"""Seconds between two looks for the URL of the leader while it is not known."""

log = logs.get("replication")


class _Piece(NamedTuple):
    """Rows as they were read, and all keys where one of the rows notes a change of them."""

    rows: list[CopiedRow]
    answers: list[StoredAnswer]
    keys: list[KeyRow] | None


class SharedLink(Link):
    """Takes the rows that are in the database already. `on_vacant` is called, again and again, while nobody leads and
    this replica may: the lease has expired, or was given back.
    """

    def __init__(self, shared: SharedLog, seconds: float, *args: Any) -> None:
        super().__init__(*args)
        self.on_vacant: Callable[[LeaseState], None] = lambda lease: None
        self._shared = shared
        self._seconds = seconds
        self._every = min(LOOK_EVERY, seconds / 7)
        self._lease: LeaseState | None = None
        self._known_lease = asyncio.Event()
        self._since = 0.0
        self._after = 0
        self._first = True

    def look_again(self) -> None:
        """Nothing is left: the lease says who leads."""

    async def catch_up(self, end: int) -> None:
        """Take all rows up to one, while nothing else takes any. Raises `Diverged` and `LogUnavailable`."""
        self._begin()
        await self._read_to(end, asyncio.to_thread)
        await self._following.settle()
        if self.applied < end:
            raise LogUnavailable(f"the log is applied up to row {self.applied}, and ends at {end}")

    def _begin(self) -> int:
        self._after, self._first = self._following.begin(), True
        return self._after

    async def _follow(self) -> None:
        target = self._begin()
        notifications = Notifications(self._shared.database)
        thread = ThreadPoolExecutor(1, "follow")
        loop = asyncio.get_running_loop()

        async def run(work: Callable[..., T], *given: Any) -> T:
            return await loop.run_in_executor(thread, work, *given)

        self._known_lease.clear()
        finding = asyncio.create_task(self._keep_leader())
        self._since = time.monotonic()
        log.info("following the log in the database", database=self._shared.database.name, after=target)
        try:
            self._keyring.replace(await run(self._stores.keys.all))
            await run(notifications.wait, 0.0)
            due = 0.0
            while True:
                if time.monotonic() >= due:
                    due = time.monotonic() + self._every
                    target = max(target, self._heed(await run(self._shared.look)))
                self._know(target)
                await self._read_to(target, run)
                self._check_failed()
                told = await run(notifications.wait, max(0.0, due - time.monotonic()))
                if told is not None and self._lease is not None and told[0] >= self._lease.term:
                    self.heard = time.monotonic()
                    target = max(target, told[1])
        except OtherHistory as error:
            raise Replaced(str(error)) from error
        finally:
            finding.cancel()
            thread.submit(notifications.close)
            thread.shutdown(wait=False)

    def _heed(self, seen: Seen) -> int:
        """Take note of the lease; return the row that is confirmed."""
        self._shared.check_lease(seen)
        lease = self._lease = seen.lease
        if lease is None:
            return 0
        self._known_lease.set()
        now = time.monotonic()
        self.heard = now - max(0.0, lease.age)
        behind = lease.confirmed - self.applied > MOST_BEHIND
        # While the database was away nobody could prolong the lease: its holder gets the time of one.
        patience = 0.0 if not lease.token else self._seconds
        if lease.free and now - self._since >= patience + (self._seconds if behind else 0.0):
            self.on_vacant(lease)
        return lease.confirmed

    async def _read_to(self, target: int, run: Callable[..., Any]) -> None:
        while self._after < target:
            piece: _Piece = await run(self._piece, self._after, target)
            if piece.keys is not None:
                self._keyring.replace(piece.keys)
            await self._following.take(piece.rows, piece.answers)
            self._after, self._first = piece.rows[-1].row.lsn, False

    def _piece(self, after: int, target: int) -> _Piece:
        rows: list[CopiedRow] = []
        size = 0
        try:
            for one in self._shared.copies(after, target):
                rows.append(one)
                size += len(one.row.payload)
                if size > PIECE or len(rows) == PIECE_ROWS:
                    break
        except LogUnavailable as error:
            if after < self._shared.look().last and after < self._shared.pruned_through:
                raise Replaced(f"rows up to {self._shared.pruned_through} have been deleted from the log") from error
            raise
        answers = self._shared.incomplete_answers(after if self._first else after + 1, rows[-1].row.lsn)
        noted = any(one.row.command == NOTE and one.row.resource == KEYS for one in rows)
        return _Piece(rows, answers, self._stores.keys.all() if noted else None)

    async def _keep_leader(self) -> None:
        """Know the URL of the node that has the lease, and tell it how far this replica is."""
        reporting: asyncio.Task[None] | None = None
        told: Status | None = None
        try:
            await self._known_lease.wait()
            while True:
                lease = self._lease
                if lease is not None and (self.leader is None or self.leader.node != lease.node):
                    found = await self._nodes.statuses()
                    self.leader = next((one for one in found if one.node == lease.node), None)
                if self.leader != told:
                    told = self.leader
                    if reporting is not None:
                        reporting.cancel()
                    if told is not None:
                        log.info("following", url=told.url, node=told.node)
                        reporting = asyncio.create_task(self._report(told))
                await asyncio.sleep(FIND_EVERY)
        finally:
            if reporting is not None:
                reporting.cancel()
