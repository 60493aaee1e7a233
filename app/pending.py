"""Accepted commands in the writer's hands, and the lanes that they wait in.

A command is encoded for the log as soon as it is accepted: one for which there are no words is refused alone, while
nothing has come behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from app import logs
from app.idempotency import Ticket
from app.kinds import Job, Kind
from app.storage.catalog import Note
from app.storage.log import NOTE, LogEntry, StoredAnswer

log = logs.get("writer")


class Skeleton(NamedTuple):
    """An answer as far as it is known before applying. It is `open` where applying will tell fields of it that the job
    cannot name before."""

    status: int
    answer: dict[str, Any]
    open: bool = False


class Unwritable(Exception):
    """A command that was accepted, or the answer that is kept beside it, cannot be encoded. Nothing has changed."""


class Pending:
    """An accepted command in the writer's hands: its rows of the log, and its answer where one is kept, whose row is
    not known yet."""

    __slots__ = ("entries", "future", "job", "kept", "lane", "skeleton", "then", "ticket")

    def __init__(
        self,
        lane: Lane,
        job: Job,
        entries: Sequence[LogEntry] = (),
        ticket: Ticket | None = None,
        skeleton: Skeleton | None = None,
        kept: StoredAnswer | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> None:
        self.lane = lane
        self.job = job
        self.entries = entries
        self.ticket = ticket
        self.skeleton = skeleton
        self.kept = kept
        self.then = then
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Encoding:
    """What a lane is `checking` while a command that was accepted is being encoded: closed, it is taken back."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def close(self) -> None:
        self._job.cancel()


class Lane:
    """One resource's way behind the log, `name` being what comes behind the prefix of its kind. `accepting` serialises
    checks that are cut into pieces. Marks and notes that concern none have a lane without a kind."""

    def __init__(self, resource: str, kind: Kind | None, name: str) -> None:
        self.resource = resource
        self.kind = kind
        self.name = name
        self.queue: deque[Pending] = deque()
        self.running = False
        self.failed = False
        self.accepting = asyncio.Lock()
        self.checking: Any = None
        self.waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []


def encoded(lane: Lane, job: Job) -> Sequence[LogEntry]:
    """A job's rows of the log; none where it changes nothing. Raises `Unwritable`."""
    if isinstance(job, Note):
        return (LogEntry(job.about, 0, 0, NOTE, b""),)
    if not job.count or lane.kind is None:
        return ()
    entries, seq = [], job.first_seq
    try:
        for part in lane.kind.encode(job.command, job.count):
            entries.append(LogEntry(lane.resource, seq, seq + part.size - 1, part.name, part.payload))
            seq += part.size
    except Exception as error:
        name = type(job.command).__name__
        log.error("a command cannot be encoded", resource=lane.resource, command=name, exc_info=error)
        raise Unwritable(f"a {name} of {called(lane)} cannot be encoded") from error
    return entries


def kept_of(ticket: Ticket, stored: Skeleton, job: Job) -> StoredAnswer:
    """The answer as it is stored beside the command. Raises `Unwritable`."""
    status, answer, is_open = stored
    lacks = job.count > 0 and (is_open or not job.told().keys().isdisjoint(answer))
    try:
        return ticket.store(0, status, answer, 0.0, lacks=lacks)
    except Exception as error:
        log.error("an answer cannot be encoded", exc_info=error)
        raise Unwritable("the answer cannot be encoded") from error


def called(lane: Lane) -> str:
    """What a lane's resource is called in messages."""
    return "the log" if lane.kind is None else f"{lane.kind.noun} {lane.name!r}"
