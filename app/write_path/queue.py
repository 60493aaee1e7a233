"""Accepted commands and the queues in which they wait to be applied.

A command is encoded for the log as soon as it is accepted: one that cannot be encoded is refused alone, before another
is accepted behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from app.resources.base import Job, ResourceType
from app.runtime import logs, tracing
from app.storage.rows import NOTE, CopiedRow, LogEntry, StoredAnswer
from app.write_path.catalog import Note
from app.write_path.idempotency import Ticket
from app.write_path.kernel_threads import SliceRunner

log = logs.get("writer")


class Skeleton(NamedTuple):
    """A response as far as it is known before the command is applied.

    With `open` the command, when applied, adds fields that the job does not know before.
    """

    status: int
    answer: dict[str, Any]
    open: bool = False


class Receipt(NamedTuple):
    """A claimed key, the response to its request as far as it is known, and the row that keeps it."""

    ticket: Ticket
    skeleton: Skeleton
    kept: StoredAnswer


class Unwritable(Exception):
    """An accepted command, or the response stored with it, cannot be encoded. Nothing has changed."""


class Pending:
    """An accepted command that is not applied yet.

    `entries` are its rows of the log, and `lsn` the first of them once it is written, 0 before. `receipts` are the
    responses to store with it; rows copied from a leader come with stored `answers` instead. `then(job)` is called when
    it is applied. `unsynced`: too few replicas have it. `overlaps`: the event loop has other work while it is executed.
    `since` is when it was accepted, by `time.perf_counter`; `trace` has its spans, None if its request is not traced.
    """

    __slots__ = (
        "answers", "entries", "future", "job", "lsn", "overlaps", "queue", "receipts", "since", "then", "trace",
        "unsynced",
    )  # fmt: skip

    def __init__(
        self,
        queue: ResourceQueue,
        job: Job,
        entries: Sequence[LogEntry | CopiedRow] = (),
        receipts: Sequence[Receipt] = (),
        then: Callable[[Any], None] | None = None,
        answers: Sequence[StoredAnswer] = (),
    ) -> None:
        self.queue = queue
        self.job = job
        self.entries = entries
        self.lsn = 0
        self.receipts = receipts
        self.then = then
        self.answers = answers
        self.unsynced = self.overlaps = False
        self.since = time.perf_counter()
        self.trace = None if tracing.tracer is None else tracing.tracer.command(queue.resource)
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Encoding:
    """What `ResourceQueue.checking` is while an accepted command is encoded; `close` cancels the command."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def close(self) -> None:
        self._job.cancel()


class ResourceQueue:
    """The accepted commands of one resource, in order; `name` has no prefix.

    `accepting` serialises checks that run in pieces, of which `checking` is the current one. `waiting` are functions to
    call between two slices. `slices` executes long commands in a kernel thread, None while there are none. Marks and
    notes have a queue without a resource type.

    A resource that has `failed` accepts nothing until it is rebuilt or deleted; `undone` are its commands that are in
    the log and were not applied.
    """

    def __init__(self, resource: str, resource_type: ResourceType | None, name: str) -> None:
        self.resource = resource
        self.resource_type = resource_type
        self.name = name
        self.pending: deque[Pending] = deque()
        self.slices: SliceRunner | None = None
        self.failed = False
        self.undone: list[Pending] = []
        self.accepting = asyncio.Lock()
        self.checking: Any = None
        self.waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    @property
    def running(self) -> bool:
        """Whether a task applies the commands in slices."""
        return self.slices is not None


def encoded(queue: ResourceQueue, job: Job) -> Sequence[LogEntry]:
    """The rows of the log for a job; none if it changes nothing. Raises `Unwritable`."""
    if isinstance(job, Note):
        return (LogEntry(job.about, job.number, job.number, NOTE, b""),)
    if not job.count or queue.resource_type is None:
        return ()
    entries, seq = [], job.first_seq
    try:
        for part in queue.resource_type.encode(job.command, job.count):
            entries.append(LogEntry(queue.resource, seq, seq + part.size - 1, part.name, part.payload))
            seq += part.size
    except Exception as error:
        name = type(job.command).__name__
        log.error("a command cannot be encoded", resource=queue.resource, command=name, exc_info=error)
        raise Unwritable(f"a {name} of {display_name(queue)} cannot be encoded") from error
    return entries


def receipt(ticket: Ticket, skeleton: Skeleton, job: Job) -> Receipt:
    """The receipt of a claimed key, with the row that stores the response. Raises `Unwritable`."""
    status, answer, is_open = skeleton
    lacks = job.count > 0 and (is_open or not job.response_fields().keys().isdisjoint(answer))
    try:
        return Receipt(ticket, skeleton, ticket.store(0, status, answer, 0.0, lacks=lacks))
    except Exception as error:
        log.error("an answer cannot be encoded", exc_info=error)
        raise Unwritable("the answer cannot be encoded") from error


def display_name(queue: ResourceQueue) -> str:
    """The name of a queue's resource in messages."""
    return "the log" if queue.resource_type is None else f"{queue.resource_type.noun} {queue.name!r}"
