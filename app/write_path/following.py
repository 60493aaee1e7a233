"""Replication of the log on a replica: rows of the leader are copied unchanged, and applied as commands of clients are.

Each command goes through the writer's commits and queues, so that streams, marks and snapshots see it as on the leader.
As in a replay, seqs are compared, incomplete responses are completed, and rows that undo others have their resource
rebuilt.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from app.errors import LogUnavailable
from app.runtime import clock, logs
from app.storage.log import Log
from app.storage.rows import NOTE, UNDONE, CopiedRow, LogRow, StoredAnswer
from app.write_path.catalog import Catalog, Note
from app.write_path.idempotency import Answers
from app.write_path.writer import Failed, Writer
from formats.commands import MORE, fields_of
from indexes.core.commands import Refused

LARGE = 1 << 18
"""Bytes of rows from which on a command is decoded in a thread."""

MOST_BEHIND = 1_000
"""Most commands that are logged and not applied: beyond it no more rows are taken."""

LET_FAIL = 10.0
"""Seconds in which the leader has to undo something of a resource that has failed here."""

log = logs.get("replication")


class Diverged(Exception):
    """A row of the leader does not apply or follow here: the states of leader and replica differ."""


class _Command:
    """A command that is logged or about to be: its last row, and whether it is applied."""

    __slots__ = ("created_at", "done", "lsn")

    def __init__(self, row: LogRow) -> None:
        self.lsn = row.lsn
        self.created_at = row.created_at
        self.done = False


class Following:
    """Takes the rows of a leader, in order, in one task. `rebuild` returns a resource as snapshot and log say.

    `on_applied` is called when more rows are applied, `on_note` with each row that notes something, once it is.
    """

    def __init__(
        self, writer: Writer, catalog: Catalog, log_store: Log, answers: Answers, rebuild: Callable[[str], Any]
    ) -> None:
        self.applied = 0
        self.failed: dict[str, float] = {}
        self.on_applied: Callable[[], None] = lambda: None
        self.on_note: Callable[[LogRow], None] = lambda row: None
        self._writer = writer
        self._catalog = catalog
        self._log = log_store
        self._answers = answers
        self._rebuild = rebuild
        self._parts: list[CopiedRow] = []
        self._kept: list[StoredAnswer] = []
        self._under_way: deque[_Command] = deque()
        self._futures: set[asyncio.Future[None]] = set()
        self._error: Exception | None = None
        self._room = asyncio.Event()
        self._undoing: asyncio.Future[None] | None = None

    def begin(self) -> int:
        """Begin to take rows after the last one of the log, all of which is applied; return that row."""
        self._parts.clear()
        self._kept.clear()
        self._under_way.clear()
        self._error = None
        self.applied = self._log.last_lsn
        return self.applied

    @property
    def oldest(self) -> float | None:
        """When the leader wrote the oldest row that is here and not applied, in seconds since 1970; None: no such."""
        return self._under_way[0].created_at if self._under_way else None

    @property
    def taken(self) -> int:
        """The last row that was taken, durable or about to be."""
        return self._under_way[-1].lsn if self._under_way else self.applied

    async def take(self, rows: Sequence[CopiedRow], answers: Sequence[StoredAnswer]) -> None:
        """Take rows and the responses stored with them, or with the row before. Returns once there is room for more.

        Raises:
            Diverged: a row does not apply, or does not follow.
            LogUnavailable: the log cannot be written. Begin again.
        """
        self._raise()
        # One that lacks fields came with its row, and has them here by now.
        new = [answer for answer in answers if answer.complete or answer.lsn > self.taken]
        mine = deque(sorted(new, key=lambda answer: answer.lsn))
        for copied in rows:
            row = copied.row
            if row.lsn <= self.taken and not self._parts:
                continue
            clock.clock.not_before(row.created_at)
            self._parts.append(copied)
            while mine and mine[0].lsn <= row.lsn:
                self._kept.append(mine.popleft())
            if row.command.endswith(MORE):
                continue
            parts, self._parts = self._parts, []
            kept, self._kept = self._kept, []
            await self._accept(parts, kept)
            self._raise()
        if self._parts:
            self._kept += mine
        elif mine:
            self._answers.take(mine)
            self._copy(None, Note("answers"), (), list(mine), None)
        while len(self._under_way) > MOST_BEHIND:
            self._room.clear()
            await self._room.wait()
            self._raise()

    async def settle(self) -> None:
        """Return when all that was taken is applied, or has failed."""
        if self._undoing is not None:
            await asyncio.wait([self._undoing])
        await self._settled()

    async def _settled(self) -> None:
        while self._futures:
            await asyncio.wait(self._futures)

    def overdue(self) -> str | None:
        """A resource that has failed here, and that the leader has not undone anything of since."""
        now = time.monotonic()
        return next((resource for resource, since in self.failed.items() if now - since > LET_FAIL), None)

    def note_failed(self, resource: str) -> None:
        """A resource could not apply a row."""
        self.failed[resource] = time.monotonic()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    async def _accept(self, parts: list[CopiedRow], kept: list[StoredAnswer]) -> None:
        row = parts[-1].row
        if kept:
            self._answers.take(kept)
        if row.command == UNDONE:
            # It is done whole, also when this replica turns to another leader meanwhile.
            self._undoing = asyncio.ensure_future(self._undo(parts[-1], kept))
            await asyncio.shield(self._undoing)
            return
        if row.command == NOTE or row.resource in self.failed:
            command = self._begun(row)
            await self._copy(None, Note(row.resource), parts, kept, command)
            if row.command == NOTE:
                self.on_note(row)
            elif self._answers.awaits(row.lsn):
                self._answers.learn(row.lsn, lambda answer: {})
            return
        try:
            resource_type, _ = self._catalog.resource_types.split(row.resource)
            pieces = [(part.row.command, part.row.payload) for part in parts]
            if sum(len(payload) for _, payload in pieces) > LARGE:
                decoded = await self._writer.in_kernel_thread(lambda: resource_type.decode(pieces))
            else:
                decoded = resource_type.decode(pieces)
            job = await self._writer.check_copied(row.resource, decoded)
        except LogUnavailable:
            raise
        except Refused as refused:
            raise self._diverged(row, "; ".join(fault.reason for fault in refused.faults)) from refused
        except Exception as error:
            raise self._diverged(row, str(error) or type(error).__name__) from error
        if job.last_seq != row.last_seq:
            why = f"it ends at seq {row.last_seq}, and here at {job.last_seq}"
            job.cancel()
            raise self._diverged(row, why)
        self._copy(row.resource, job, parts, kept, self._begun(row))

    def _begun(self, row: LogRow) -> _Command:
        command = _Command(row)
        self._under_way.append(command)
        return command

    def _copy(
        self,
        resource: str | None,
        job: Any,
        rows: Sequence[CopiedRow],
        kept: Sequence[StoredAnswer],
        command: _Command | None,
    ) -> asyncio.Future[None]:
        def done(future: asyncio.Future[None]) -> None:
            self._futures.discard(future)
            error = None if future.cancelled() else future.exception()
            if isinstance(error, Failed):
                error = None
            if error is not None:
                self._error = self._error or (error if isinstance(error, Exception) else LogUnavailable(str(error)))
            elif command is not None:
                command.done = True
                self._advance()
            self._room.set()

        def learn(applied: Any) -> None:
            if command is not None and self._answers.awaits(command.lsn):
                self._answers.learn(command.lsn, applied.fields_of)

        future = self._writer.copy(resource, job, rows, kept, learn)
        self._futures.add(future)
        future.add_done_callback(done)
        return future

    def _advance(self) -> None:
        """Count what is applied with all rows before it."""
        while self._under_way and self._under_way[0].done:
            self.applied = self._under_way.popleft().lsn
        self.on_applied()

    async def _undo(self, copied: CopiedRow, kept: list[StoredAnswer]) -> None:
        """Log a row that undoes others, and rebuild its resource without them."""
        row = copied.row
        await self._settled()
        self._raise()
        fields = fields_of(row.payload)
        command = self._begun(row)
        places = await asyncio.to_thread(self._log.answers_of, row.resource, int(fields["from"]), row.lsn - 1)
        await self._copy(None, Note(row.resource), [copied], kept, None)
        self._raise()
        self._answers.forget(places)
        await asyncio.to_thread(self._log.drop_answers, places)
        await self._writer.replace(row.resource, self._rebuild, row.last_seq)
        self.failed.pop(row.resource, None)
        log.warning("resource rebuilt as the leader has undone rows of it", resource=row.resource, lsn=row.lsn)
        command.done = True
        self._advance()

    def _diverged(self, row: LogRow, why: str) -> Diverged:
        return Diverged(f"row {row.lsn}, a {row.command!r} of {row.resource}, does not apply here: {why}")
