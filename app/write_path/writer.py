"""The single writer: every change goes through command -> check -> log -> engine -> response.

A command is checked on arrival against the pending state, joins the next group commit (`app.write_path.committing`),
and is applied once it is durable (`app.write_path.applying`). What differs between resource types is in
`app.resources.base`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple, TypeVar

from app.errors import LogUnavailable, NotReady
from app.resources.base import Droppable, Job
from app.runtime import clock, logs, write_order
from app.runtime.metrics import Metrics
from app.runtime.priority import in_background
from app.storage.log import Log
from app.storage.rows import CopiedRow, LogEntry, StoredAnswer
from app.write_path import committing
from app.write_path.applying import Applier
from app.write_path.catalog import Catalog, DropFailedJob, Entry, Mark, Note
from app.write_path.committing import Committer
from app.write_path.idempotency import AT_START, Answers, Ticket
from app.write_path.queue import (
    Encoding,
    Pending,
    Receipt,
    ResourceQueue,
    Skeleton,
    Unwritable,
    display_name,
    encoded,
    receipt,
)
from app.write_path.repair import Failed, already_failed
from app.write_path.replay import Follower, replay, undoing

__all__ = ["Busy", "ConsistentCut", "Failed", "Skeleton", "Submission", "Unwritable", "Writer"]

T = TypeVar("T")
J = TypeVar("J", bound=Job)

PATIENCE = 5.0
"""Seconds that shutdown waits for logged commands to be applied."""

log = logs.get("writer")


class Busy(Exception):
    """The queue is full."""


class Submission(NamedTuple):
    """One of the commands of `Writer.submit_each`; its fields are as the parameters of `Writer.submit`.

    `refused` is called if the command is refused, before the next one is accepted.
    """

    command: Any
    requests: Callable[[Any], Iterable[tuple[Ticket, Skeleton]]] | None = None
    then: Callable[[Any], None] | None = None
    refused: Callable[[], None] | None = None


class ConsistentCut(NamedTuple):
    """All resources after row `lsn` of the log and before the next one, each as its engine copied it.

    `gone` are the deleted ones with the next seq of each, `failed` those of which there is no state.
    """

    lsn: int
    captured: dict[str, Any]
    gone: dict[str, int]
    failed: list[str]


class Writer:
    """The owner of the log and the catalog: resources are changed by `submit` and its variants, on a replica by `copy`.

    `closed` is the reason why commands are refused, None if they are not. `applier` applies logged commands, `repair`
    rebuilds resources that have failed, `follower` follows subscriptions while the log is replayed.
    """

    def __init__(
        self, log_store: Log, catalog: Catalog, answers: Answers, metrics: Metrics, max_queue: int = 10_000
    ) -> None:
        self.catalog = catalog
        self.answers = answers
        self._marks = ResourceQueue("", None, "")
        enqueue_mark = partial(self._enqueue, self._marks)
        # The committer and the applier need each other.
        self.applier = Applier(catalog, metrics, enqueue_mark, lambda queue: self.committer.withdraw(queue))  # noqa: PLW0108
        self.repair = self.applier.repair
        self.committer = Committer(log_store, answers, self.applier, metrics, self._stop_checks)
        self._log = log_store
        self._max_queue = max_queue
        self._queues: dict[str, ResourceQueue] = {}
        self._closed = False
        self.closed: str | None = None
        self.follower: Follower | None = None

    @property
    def queued(self) -> int:
        """How many commands are accepted and not answered."""
        return self.applier.queued

    def recover(
        self,
        progress: Callable[[int, int], None] = lambda done, total: None,
        after_lsn: int = 0,
        behind: Mapping[str, int] | None = None,
    ) -> int:
        """Replay the log after a row into the catalog as of that row; return the number of rows.

        Resources that are `behind` are there as of an earlier row of their own. Called once, before anything else.

        Raises LogUnavailable: the log cannot be read, has a row that does not apply, or an unknown
        resource type.
        """
        self.answers.load(self._log.answers(clock.now() - self.answers.seconds, AT_START))
        for resource, row in sorted((behind or {}).items()):
            replay(self._log, self.catalog, row, self.answers, resource, progress, after_lsn, self.follower)
        return replay(self._log, self.catalog, after_lsn, self.answers, progress=progress, follower=self.follower)

    async def submit(
        self,
        resource: str,
        command: Any,
        *,
        keep: int = 0,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
        accepted: Callable[[Any], None] | None = None,
        reader: Any = None,
        requests: Callable[[Any], Iterable[tuple[Ticket, Skeleton]]] | None = None,
    ) -> Any:
        """Check, log and apply a command of a resource; return its job once it is durable and visible.

        `reader` is the engine whose configuration the command was parsed by, if it matters. The job keeps the first
        `keep` outcomes. With a `ticket`, `skeleton(job)` makes the response to store with the command; for a group of
        requests `requests(job)` gives their tickets and responses. `accepted(job)` is called once the order of commands
        is fixed; if it raises, the command is cancelled. `then(job)` is called when the resource has reached the job's
        last seq, before any later command is applied.

        Raises:
            Refused: it does not apply, or there is no such resource, or it was replaced since the command was read.
                Nothing has changed.
            Busy: too many commands are waiting.
            LogUnavailable: the log cannot be written. Nothing has changed.
            Unwritable: it cannot be encoded for the log.
        """
        self._check_writable()
        engine = self.catalog.latest(resource, reader)
        queue = self._admit(resource)
        bulk = _is_bulk(command)
        entries: Sequence[LogEntry] | None = None
        if not bulk and not queue.accepting.locked():
            job: Job = engine.prepare(command, keep)
        else:
            self.applier.queued += 1
            try:
                async with queue.accepting:
                    job = await self._check(queue, command, keep, reader)
                    if bulk:
                        entries = await self._encode_in_thread(queue, job)
            finally:
                self.applier.queued -= 1
        pending = self._accept(queue, job, ticket, skeleton, then, accepted, entries, requests)
        # `_applied` inlined, to save a coroutine: most writes come here.
        write_order.release()
        await pending.future
        return job

    async def submit_each(self, resource: str, submissions: Iterable[Submission], reader: Any = None) -> list[Any]:
        """Check, log and apply short commands of a resource in order, as `submit` does each, by one commit.

        Returns the job of each, or the exception that says why it changed nothing. Raises as `submit` what concerns all
        of them.
        """
        self._check_writable()
        queue = self._admit(resource)
        accepted: list[Pending | Exception] = []
        async with queue.accepting:
            engine = self.catalog.latest(resource, reader)
            for command, requests, then, refused in submissions:
                try:
                    self._admit(resource)
                    job = engine.prepare(command, 0)
                    accepted.append(self._accept(queue, job, then=then, requests=requests))
                except Exception as error:
                    if refused is not None:
                        refused()
                    accepted.append(error)
        write_order.release()
        return [each if isinstance(each, Exception) else await _outcome(each) for each in accepted]

    async def put(
        self,
        resource: str,
        config: Any,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> Any:
        """Make a resource, or change it to this configuration; `then` and what it raises as in `submit`."""
        return await self._catalog_change(resource, lambda: self.catalog.put(resource, config), ticket, skeleton, then)

    async def drop(
        self, resource: str, ticket: Ticket | None = None, skeleton: Callable[[Any], Skeleton] | None = None
    ) -> Any:
        """Delete a resource, also one that has failed; raise as `submit`."""
        queue = self._queue(resource)
        if queue.failed and not self._closed:
            job = DropFailedJob(self.catalog.entry(resource))
            entries = (undoing(resource, 0, job.last_seq, dropped=True),)
            return await self._applied(self._accept(queue, job, ticket, skeleton, entries=entries))
        self.catalog.latest(resource)
        return await self._catalog_change(resource, lambda: self.catalog.drop(resource), ticket, skeleton, None)

    async def _catalog_change(
        self,
        resource: str,
        accept: Callable[[], Job],
        ticket: Ticket | None,
        skeleton: Callable[[Any], Skeleton] | None,
        then: Callable[[Any], None] | None,
    ) -> Any:
        self._check_writable()
        queue = self._admit(resource)
        if queue.accepting.locked():
            async with queue.accepting:
                job = accept()
        else:
            job = accept()
        return await self._applied(self._accept(queue, job, ticket, skeleton, then))

    async def make_room(self) -> None:
        """Allocate the memory for the copies of an imminent `consistent_cut`, so that commands wait less for it.

        In a thread of low priority: fresh memory for 2,000,000 subscriptions takes up to 0.15 s of processor time.
        """
        await in_background(partial(_make_room, list(self.catalog.entries.values())))

    async def consistent_cut(self, journal: Collection[str] = (), indexes: Collection[str] = ()) -> ConsistentCut:
        """Copy the state of all resources at one row of the log, each in the order of its commands.

        The engines of those in `journal` record changes from then on; of those in `indexes` the indexes are copied too.
        Resources that have failed and are not rebuilt in time are only named.

        Raises:
            Failed: a resource fails meanwhile.
            LogUnavailable: what was accepted before could not be logged.
        """
        await self.repair.settled()
        async with AsyncExitStack() as held:
            mine: set[str] = set()
            # While one long check is waited for, another may begin on another resource.
            while checking := [x for x in self._queues.values() if x.accepting.locked() and x.resource not in mine]:
                await held.enter_async_context(checking[0].accepting)
                mine.add(checking[0].resource)
            mark = Mark()
            group = [Pending(self._marks, mark)]
            jobs = {}
            gone = {}
            failed = []
            for resource, entry in self.catalog.entries.items():
                queue = self._queue(resource)
                if queue.failed:
                    failed.append(resource)
                    continue
                if entry.latest is None:
                    gone[resource] = entry.next_first_seq
                    group.append(Pending(queue, Mark()))
                    continue
                jobs[resource] = entry.latest.capture(resource in journal, resource in indexes)
                group.append(Pending(queue, jobs[resource]))
            for pending in group:
                self.committer.add(pending)
        for outcome in await asyncio.gather(*(pending.future for pending in group), return_exceptions=True):
            if outcome is not None:
                raise outcome
        captured = {resource: job.captured for resource, job in jobs.items()}
        present = {name: found for name, found in captured.items() if found is not None}
        return ConsistentCut(mark.lsn, present, gone, failed)

    def failed(self) -> list[str]:
        """The resources that have failed and are not rebuilt yet, in order."""
        return self.repair.failed()

    def check(self, resource: str) -> None:
        """Raise NotReady for a resource that has failed and is not rebuilt yet."""
        queue = self._queues.get(resource)
        if queue is not None and queue.failed:
            raise NotReady(f"{display_name(queue)} failed and is being rebuilt", retry_after=1)

    async def note(self, about: str, number: int = 0) -> None:
        """Log a row for a change outside the resources, so that a new snapshot is due."""
        await self._enqueue(self._marks, Note(about, number))

    async def maintain(self, resource: str, make: Callable[[Any], J]) -> J:
        """Run work of a resource's engine in the order of its commands; return the job when it is done.

        Raises as `submit`.
        """
        engine = self.catalog.latest(resource)
        queue = self._admit(resource)
        job = make(engine)
        await self._enqueue(queue, job)
        return job

    async def ask(self, resource: str, make: Callable[[Any], J], reader: Any = None) -> J:
        """As `maintain`, for a read that `make` checks as a command is, in the order of acceptance; `reader` as in
        `submit`.
        """
        self.catalog.latest(resource, reader)
        queue = self._admit(resource)
        if queue.accepting.locked():
            async with queue.accepting:
                job = make(self.catalog.latest(resource, reader))
        else:
            job = make(self.catalog.latest(resource, reader))
        await self._enqueue(queue, job)
        return job

    def copy(
        self,
        resource: str | None,
        job: Job,
        rows: Sequence[CopiedRow],
        answers: Sequence[StoredAnswer],
        then: Callable[[Any], None] | None = None,
    ) -> asyncio.Future[None]:
        """Log copied rows of another log unchanged, and apply their command; a `resource` of None: they change none."""
        queue = self._marks if resource is None else self._queue(resource)
        pending = Pending(queue, job, rows, (), then, answers)
        self.committer.add(pending)
        return pending.future

    async def check_copied(self, resource: str, command: Any) -> Job:
        """Prepare a command of a copied row as a command of a client is, in pieces where it is long."""
        if not _is_bulk(command):
            job: Job = self.catalog.replay(resource, command)
            return job
        queue = self._queue(resource)
        async with queue.accepting:
            return await self._check(queue, command, 0, None)

    async def in_kernel_thread(self, fn: Callable[[], T]) -> T:
        """Run `fn` in one of the threads for long work."""
        return await asyncio.get_running_loop().run_in_executor(self.applier.kernels, fn)

    async def replace(self, resource: str, rebuild: Callable[[str], Any], last_seq: int) -> None:
        """Rebuild a resource without pending commands from its snapshot and the log, and put it in place."""
        queue, entry = self._queue(resource), self.catalog.entry(resource)
        fresh = await self.in_kernel_thread(partial(rebuild, resource))
        await self.applier.between(queue, partial(self.repair.replace, queue, entry, fresh, last_seq))

    async def drained(self) -> None:
        """Return when all accepted commands are applied. No command may be submitted meanwhile."""
        while not self.committer.idle or any(one.pending or one.running for one in self._queues.values()):  # noqa: ASYNC110 (rare)
            await asyncio.sleep(0.002)

    @property
    def pruned_through(self) -> int:
        """The last row that has been deleted from the log."""
        return self._log.pruned_through

    @property
    def last_lsn(self) -> int:
        """The last row of the log."""
        return self._log.last_lsn

    async def between(self, resource: str, fn: Callable[[], T]) -> T:
        """Run `fn` on the loop between two slices of this resource."""
        return await self.applier.between(self._queue(resource), fn)

    def _check_writable(self) -> None:
        """Refuse a write while the log takes none, before it joins a group that may have reads."""
        if self.closed is not None:
            raise NotReady(self.closed, retry_after=1)
        refused = self._log.refused
        if refused is not None:
            raise LogUnavailable(refused)

    def _admit(self, resource: str) -> ResourceQueue:
        queue = self._queues.get(resource) or self._queue(resource)
        if queue.failed:
            raise already_failed(queue)
        if self._closed:
            raise Busy("the service is shutting down")
        if self.applier.queued >= self._max_queue:
            raise Busy("too many writes are waiting")
        return queue

    def _queue(self, resource: str) -> ResourceQueue:
        queue = self._queues.get(resource)
        if queue is None:
            queue = self._queues[resource] = ResourceQueue(resource, *self.catalog.resource_types.split(resource))
        return queue

    async def _check(self, queue: ResourceQueue, command: Any, keep: int, reader: Any) -> Job:
        """Check a long command in pieces, the expensive ones in a thread."""
        steps = queue.checking = self.catalog.latest(queue.resource, reader).prepare_steps(command, keep)
        sent: Any = None
        try:
            while True:
                if queue.checking is not steps:
                    raise LogUnavailable("the log could not be written while this was being checked")
                try:
                    work = steps.send(sent)
                except StopIteration as stop:
                    job: Job = stop.value
                    return job
                if work is None:
                    await asyncio.sleep(0)
                    sent = None
                else:
                    sent = await asyncio.get_running_loop().run_in_executor(self.applier.kernels, work)
        finally:
            steps.close()
            queue.checking = None

    async def _encode_in_thread(self, queue: ResourceQueue, job: Job) -> Sequence[LogEntry]:
        """The rows of a long command that was just checked, encoded in a thread, while no other command is accepted.

        Raises as `submit`, with the command cancelled.
        """
        encoding = queue.checking = Encoding(job)
        entries: Sequence[LogEntry] | None = None
        try:
            entries = await asyncio.get_running_loop().run_in_executor(self.applier.kernels, encoded, queue, job)
        finally:
            there = queue.checking is encoding
            if there:
                queue.checking = None
                if entries is None:
                    job.cancel()
        if not there:
            raise LogUnavailable("the log could not be written while this was being encoded")
        assert entries is not None, "otherwise an error was raised"
        return entries

    async def _enqueue(self, queue: ResourceQueue, job: Job) -> None:
        """Add a job to the next group commit, and wait until it is applied."""
        await self._applied(self._accept(queue, job))

    async def _applied(self, pending: Pending) -> Any:
        """The job of an accepted command, once it is applied. The next write of its connection may begin."""
        write_order.release()
        await pending.future
        return pending.job

    def _accept(
        self,
        queue: ResourceQueue,
        job: Job,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
        accepted: Callable[[Any], None] | None = None,
        entries: Sequence[LogEntry] | None = None,
        requests: Callable[[Any], Iterable[tuple[Ticket, Skeleton]]] | None = None,
    ) -> Pending:
        """Encode a checked command, and add it to the next group commit. If that fails, the command is cancelled before
        a later one is accepted, and the error raised.
        """
        if queue.failed and not isinstance(job, DropFailedJob):
            # It was checked by an engine that has failed meanwhile.
            raise already_failed(queue)
        try:
            if entries is None:
                entries = encoded(queue, job)
            receipts: Sequence[Receipt] = ()
            if ticket is not None and skeleton is not None:
                receipts = (receipt(ticket, skeleton(job), job),)
            elif requests is not None:
                receipts = [receipt(*one, job) for one in requests(job)]
            if accepted is not None:
                accepted(job)
        except BaseException:
            job.cancel()
            raise
        pending = Pending(queue, job, entries, receipts, then)
        self.committer.add(pending)
        return pending

    def _stop_checks(self) -> None:
        """Stop the checks and encodings of long commands, which depend on commands that could not be logged."""
        for queue in self._queues.values():
            if queue.checking is not None:
                steps, queue.checking = queue.checking, None
                steps.close()

    async def close(self, patience: float = PATIENCE) -> None:
        """Apply accepted commands, complete stored responses, and stop.

        After `patience` seconds, logged commands that are not applied are left to the replay of the next start.
        """
        self._closed = self.repair.ending = True
        for queue in self._queues.values():
            for pending in queue.pending:
                if isinstance(pending.job, Droppable):
                    pending.job.drop()
        until = time.perf_counter() + patience
        while not self.committer.idle or self.applier.tasks:
            if not self.repair.abandoning and time.perf_counter() >= until:
                self.repair.abandoning = True
                log.warning("the rest of the log is applied at the next start", waiting=self.queued)
            await asyncio.sleep(0.001)
        self.committer.shutdown()
        self.applier.kernels.shutdown()


def _make_room(entries: Iterable[Entry]) -> None:
    for entry in entries:
        engine = entry.latest
        if engine is not None:
            entry.resource_type.make_room(engine)


async def _outcome(pending: Pending) -> Any:
    """The job of an accepted command once it is applied, or the exception that says why it is not."""
    try:
        await pending.future
    except Exception as error:
        return error
    return pending.job


def _is_bulk(command: Any) -> bool:
    """Whether a command is checked in pieces; `at_once` of a command overrides `committing.BULK`."""
    size = getattr(command, "__len__", None)
    return size is not None and size() > getattr(command, "at_once", committing.BULK)
