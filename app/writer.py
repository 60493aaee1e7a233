"""The single writer: every change takes one way, command -> check -> log -> engine -> outcome.

A command is checked on arrival against what the accepted ones before it will have done, joins the group that is next to
be logged, and is applied once its group is durable. Short commands are applied on the event loop; long ones alternate
between a slice of kernel work in a thread and a settling step on the loop, so that reads and streams go on in between.
Resources are independent of each other behind the log: each is a lane of its own. What differs between the kinds of
resource is asked of the kind (`app.kinds`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from app import logs
from app.idempotency import AT_START, Answers, Ticket
from app.kinds import Job, UnknownKind, Work
from app.metrics import Metrics
from app.pending import Encoding, Lane, Pending, Skeleton, Unwritable, called, encoded, kept_of
from app.storage.catalog import Catalog, DropJob, Mark, Note
from app.storage.log import NOTE, Log, LogEntry, LogRow, LogUnavailable, StoredAnswer
from formats.commands import MORE

__all__ = ["BULK", "Busy", "Failed", "Skeleton", "Standstill", "Unwritable", "Writer"]

T = TypeVar("T")
J = TypeVar("J", bound=Job)

INLINE = 0.001
"""Seconds of work up to which it is done on the event loop itself."""

SLICE, STRETCHED = 0.005, 4
"""Seconds of kernel work between two settling steps, and up to how many times as much while no read waits for one: a
loop that is busy with other things comes to each step late."""

TURN = 0.010
"""Seconds of settling and inline work after which the loop gets to look at other things."""

PATIENCE = 5.0
"""Seconds that a service which ends spends on applying what is logged already."""

BULK = 20_000
"""Elements from which on a command is checked, encoded and logged in pieces and off the loop."""

SLOW_COMMIT = 0.002
"""Seconds a commit may take on average to be done on the loop: a busy loop hands over to a thread about as slowly."""

log = logs.get("writer")


class Busy(Exception):
    """The queue is full."""


class Failed(Exception):
    """A resource could not apply what is in the log. It answers no more writes until the service starts again."""


class Standstill(NamedTuple):
    """All resources after row `lsn` of the log and before the next one, each as its engine copied it. `gone` are the
    deleted ones with the seq that each would go on with."""

    lsn: int
    captured: dict[str, Any]
    gone: dict[str, int]


class Writer:
    """Owns the log and the catalog; `submit` is the only way to change anything."""

    def __init__(
        self, log_store: Log, catalog: Catalog, answers: Answers, metrics: Metrics, max_queue: int = 10_000
    ) -> None:
        self.catalog = catalog
        self.answers = answers
        self.queued = 0
        self._log = log_store
        self._metrics = metrics
        self._max_queue = max_queue
        self._lanes: dict[str, Lane] = {}
        self._aside = Lane("", None, "")
        self._group: list[Pending] = []
        self._flushing = False
        self._commit_cost = 0.0
        self._committer = ThreadPoolExecutor(1, "commit")
        self._kernels = ThreadPoolExecutor(2, "kernel")
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._hurry = False

    def recover(self, progress: Callable[[int, int], None] = lambda done, total: None, after_lsn: int = 0) -> int:
        """Replay the log from a row on into a catalog that stands there; returns the number of rows. Called once,
        before anything else.

        Raises LogUnavailable: the log cannot be read, has a row that does not apply, or a kind of resource that is not
        known.
        """
        self.answers.load(self._log.answers(time.time() - self.answers.seconds, AT_START))
        parts: list[tuple[str, bytes]] = []
        rows = 0
        for row in self._log.replay(after_lsn):
            rows += 1
            if row.command == NOTE:
                continue
            parts.append((row.command, row.payload))
            if rows % 1000 == 0:
                progress(row.lsn, self._log.last_lsn)
            if row.command.endswith(MORE):
                continue
            self._replay(row, parts)
            parts.clear()
        return rows

    def _replay(self, row: LogRow, parts: list[tuple[str, bytes]]) -> None:
        """Apply the command whose last row this is."""
        lsn, resource = row.lsn, row.resource
        try:
            kind, _ = self.catalog.kinds.split(resource)
        except UnknownKind as error:
            raise UnknownKind(f"row {lsn} of the log: {error}") from None
        awaited = self.answers.awaits(lsn)
        try:
            job = self.catalog.replay(resource, kind.decode(parts))
            if job.last_seq != row.last_seq:
                raise ValueError(f"it ends at seq {row.last_seq}, but replay is at {job.last_seq}")
            job.silent = not awaited
            while not job.done:
                job.paint(1.0)
                job.settle()
        except Exception as error:
            # Whatever it is: without this row the resource, and what was answered of it, would be another one.
            why = str(error) or type(error).__name__
            raise LogUnavailable(
                f"row {lsn} of the log, a {row.command!r} of {resource}, does not apply: {why}. "
                "Nothing was changed. Start the version that wrote it, or restore a snapshot into a new directory: see "
                "'A row that does not apply' in docs/operations.md"
            ) from error
        if awaited:
            self.answers.learn(lsn, job.told())

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
    ) -> Any:
        """Check, log and apply a command of a resource; returns its job once it is durable and visible.

        `reader` is the engine by whose configuration the command was read, if it matters. The job keeps the first
        `keep` outcomes. With a `ticket`, `skeleton(job)` gives the answer to be stored beside the command. `then(job)`
        is called in the moment when the resource stands at the job's last seq, before anything that follows, and
        `accepted(job)` when what is submitted next will come behind it; where that raises, the command is taken back.

        Raises:
            Refused: it does not apply, or there is no such resource, or it was made anew since the command was read.
                Nothing has changed.
            Busy: too many commands are waiting.
            LogUnavailable: the log cannot be written. Nothing has changed.
            Unwritable: the log has no words for it.
        """
        engine = self.catalog.latest(resource, reader)
        lane = self._admit(resource)
        bulk = _is_bulk(command)
        entries: Sequence[LogEntry] | None = None
        if not bulk and not lane.accepting.locked():
            job: Job = engine.prepare(command, keep)
        else:
            self.queued += 1
            try:
                async with lane.accepting:
                    job = await self._check(lane, command, keep, reader)
                    if bulk:
                        entries = await self._encode_aside(lane, job)
            finally:
                self.queued -= 1
        return await self._through(lane, job, ticket, skeleton, then, accepted, entries)

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
        """Delete a resource; raises as `submit`."""
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
        lane = self._admit(resource)
        if lane.accepting.locked():
            async with lane.accepting:
                job = accept()
        else:
            job = accept()
        return await self._through(lane, job, ticket, skeleton, then)

    async def stand_still(self, journal: Collection[str] = (), indexes: Collection[str] = ()) -> Standstill:
        """Copy the state of all resources at one row of the log, each in its turn; those in `journal` begin to note
        what changes, of those in `indexes` the indexes are copied too.

        Raises:
            Failed: a resource has failed.
            LogUnavailable: what was accepted before could not be logged.
        """
        async with AsyncExitStack() as held:
            mine: set[str] = set()
            # While one long check is waited for, another may begin on another resource.
            while checking := [x for x in self._lanes.values() if x.accepting.locked() and x.resource not in mine]:
                await held.enter_async_context(checking[0].accepting)
                mine.add(checking[0].resource)
            mark = Mark()
            group = [Pending(self._aside, mark)]
            jobs = {}
            gone = {}
            for resource, entry in self.catalog.entries.items():
                lane = self._lane(resource)
                if entry.latest is None:
                    gone[resource] = entry.next_first_seq
                    group.append(Pending(lane, Mark()))
                    continue
                if lane.failed:
                    raise _failed_before(lane)
                jobs[resource] = entry.latest.capture(resource in journal, resource in indexes)
                group.append(Pending(lane, jobs[resource]))
            self.queued += len(group)
            self._group += group
            self._schedule()
        for outcome in await asyncio.gather(*(pending.future for pending in group), return_exceptions=True):
            if outcome is not None:
                raise outcome
        captured = {resource: job.captured for resource, job in jobs.items()}
        return Standstill(mark.lsn, {name: found for name, found in captured.items() if found is not None}, gone)

    async def note(self, about: str) -> None:
        """Let a row of the log stand for a change that is not in it, so that the next snapshot is another one."""
        await self._through(self._aside, Note(about))

    async def maintain(self, resource: str, make: Callable[[Any], J]) -> J:
        """Give a resource's engine work of its own in its turn; returns the job when that is done. Raises as
        `submit`."""
        engine = self.catalog.latest(resource)
        lane = self._admit(resource)
        job = make(engine)
        await self._through(lane, job)
        return job

    async def ask(self, resource: str, make: Callable[[Any], J], reader: Any = None) -> J:
        """As `maintain`, for a question whose job is checked as commands are: in the order of acceptance. `reader` as
        in `submit`."""
        self.catalog.latest(resource, reader)
        lane = self._admit(resource)
        if lane.accepting.locked():
            async with lane.accepting:
                job = make(self.catalog.latest(resource, reader))
        else:
            job = make(self.catalog.latest(resource, reader))
        await self._through(lane, job)
        return job

    async def write_answers(self) -> None:
        """Store what applying has told about answers so far. Raises LogUnavailable."""
        completed = self.answers.take_completed()

        def write() -> None:
            try:
                self._log.complete_answers(completed)
            except LogUnavailable:
                loop.call_soon_threadsafe(self.answers.give_back, completed)
                raise

        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._committer, write)

    async def mend(self) -> None:
        """Delete what a commit that failed may have left in the log after all. Raises LogUnavailable."""
        if self._log.in_doubt:
            await asyncio.get_running_loop().run_in_executor(self._committer, self._log.mend)

    async def prune(self, through_lsn: int) -> None:
        """Delete the log up to a row, a little at a time, so that commits go in between. Raises LogUnavailable."""
        while await asyncio.get_running_loop().run_in_executor(self._committer, self._log.prune, through_lsn):
            await asyncio.sleep(0.02)

    @property
    def pruned_through(self) -> int:
        """The last row that has been deleted from the log."""
        return self._log.pruned_through

    @property
    def last_lsn(self) -> int:
        """The last row of the log."""
        return self._log.last_lsn

    async def between(self, resource: str, fn: Callable[[], T]) -> T:
        """Run `fn` on the loop at a moment when nothing of this resource is being painted."""
        lane = self._lane(resource)
        if not lane.running:
            return fn()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        lane.waiting.append((fn, future))
        return await future

    def _admit(self, resource: str) -> Lane:
        lane = self._lane(resource)
        if lane.failed:
            raise _failed_before(lane)
        if self._closed:
            raise Busy("the service is shutting down")
        if self.queued >= self._max_queue:
            raise Busy("too many writes are waiting")
        return lane

    def _lane(self, resource: str) -> Lane:
        lane = self._lanes.get(resource)
        if lane is None:
            lane = self._lanes[resource] = Lane(resource, *self.catalog.kinds.split(resource))
        return lane

    async def _check(self, lane: Lane, command: Any, keep: int, reader: Any) -> Job:
        """Check a long command in pieces; heavy pieces run in a thread."""
        steps = lane.checking = self.catalog.latest(lane.resource, reader).prepare_steps(command, keep)
        sent: Any = None
        try:
            while True:
                if lane.checking is not steps:
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
                    sent = await asyncio.get_running_loop().run_in_executor(self._kernels, work)
        finally:
            steps.close()
            lane.checking = None

    async def _encode_aside(self, lane: Lane, job: Job) -> Sequence[LogEntry]:
        """The rows of a long command that was just accepted, before anything comes behind it. Raises as `submit`, and
        then it is taken back."""
        encoding = lane.checking = Encoding(job)
        entries: Sequence[LogEntry] | None = None
        try:
            entries = await asyncio.get_running_loop().run_in_executor(self._kernels, encoded, lane, job)
        finally:
            there = lane.checking is encoding
            if there:
                lane.checking = None
                if entries is None:
                    job.cancel()
        if not there:
            raise LogUnavailable("the log could not be written while this was being encoded")
        assert entries is not None, "else it was raised why"
        return entries

    async def _through(
        self,
        lane: Lane,
        job: Job,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
        accepted: Callable[[Any], None] | None = None,
        entries: Sequence[LogEntry] | None = None,
    ) -> Any:
        """Let an accepted command join the next group. Whatever cannot be logged is found here, while nothing has come
        behind it that would have to be taken back with it."""
        try:
            if entries is None:
                entries = encoded(lane, job)
            stored = skeleton(job) if ticket is not None and skeleton is not None else None
            kept = None if ticket is None or stored is None else kept_of(ticket, stored, job)
            if accepted is not None:
                accepted(job)
        except BaseException:
            job.cancel()
            raise
        pending = Pending(lane, job, entries, ticket, stored, kept, then)
        self.queued += 1
        self._group.append(pending)
        self._schedule()
        # What `then` takes up has to be taken up also when the client has gone meanwhile.
        await (pending.future if then is None else asyncio.shield(pending.future))
        return job

    def _schedule(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Log what has gathered, here or, where that takes long, in the commit thread."""
        group, self._group = self._group, []
        large = any(pending.job.count > BULK for pending in group)
        if large or self._log.database.remote or self._commit_cost > SLOW_COMMIT:
            self._spawn(self._commit_in_thread(group))
            return
        try:
            self._commit(group)
        except LogUnavailable as error:
            self._fail(group, error)
        except BaseException as error:
            self._fail(group, LogUnavailable(f"the log cannot be written: {type(error).__name__}"))
            raise
        else:
            self._apply(group)
        finally:
            self._flushing = False
            if self._group:
                self._schedule()

    async def _commit_in_thread(self, group: list[Pending]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._committer, self._commit, group)
        except LogUnavailable as error:
            self._fail(group, error)
        except BaseException as error:
            self._fail(group, LogUnavailable(f"the log cannot be written: {type(error).__name__}"))
            raise
        else:
            self._apply(group)
        finally:
            self._flushing = False
            if self._group:
                self._schedule()

    def _commit(self, group: list[Pending]) -> None:
        entries: list[LogEntry] = []
        answers: list[StoredAnswer] = []
        now = time.time()
        for pending in group:
            job = pending.job
            if isinstance(job, Mark) and not isinstance(job, Note):
                job.lsn = self._log.last_lsn + len(entries)
            entries += pending.entries
            if pending.kept is not None:
                lsn = self._log.last_lsn + len(entries)
                answers.append(pending.kept._replace(lsn=lsn, created_at=now))
            # A long one may be some time on its way to be applied.
            pending.entries = ()
        completed = self.answers.take_completed()
        if not (entries or answers or completed):
            return
        began = time.perf_counter()
        try:
            self._log.append(entries, answers, completed, now)
        except LogUnavailable:
            self.answers.give_back(completed)
            raise
        spent = time.perf_counter() - began
        self._metrics.group_size.observe(len(group))
        self._metrics.commit_seconds.observe(spent)
        if len(entries) <= 64:
            self._commit_cost += 0.05 * (spent - self._commit_cost)

    def _fail(self, group: list[Pending], error: LogUnavailable) -> None:
        """The group is not in the log: take it and all that was accepted after it back, newest first."""
        log.error("log unavailable", error=str(error), refused=len(group) + len(self._group))
        for lane in self._lanes.values():
            if lane.checking is not None:
                steps, lane.checking = lane.checking, None
                steps.close()
        later, self._group = self._group, []
        for pending in reversed(group + later):
            pending.job.cancel()
            self.queued -= 1
            if not pending.future.cancelled():
                pending.future.set_exception(LogUnavailable(str(error)))

    def _apply(self, group: list[Pending]) -> None:
        lanes = {}
        for pending in group:
            pending.lane.queue.append(pending)
            lanes[pending.lane.resource] = pending.lane
        for lane in lanes.values():
            if not lane.running:
                self._run_inline(lane)

    def _run_inline(self, lane: Lane) -> None:
        """Apply what is short; hand the rest of the lane to a task."""
        until = time.perf_counter() + TURN
        try:
            while lane.queue:
                if lane.queue[0].job.work > INLINE or time.perf_counter() > until:
                    lane.running = True
                    self._spawn(self._run_in_slices(lane))
                    return
                self._apply_short(lane)
        except Exception as error:
            self._give_up(lane, error)

    def _apply_short(self, lane: Lane) -> None:
        """Apply the next job of the lane, and with it the short ones behind it where the kind can."""
        together, jobs, work = [lane.queue[0]], [], 0.0
        for pending in lane.queue:
            work += pending.job.work
            if work > INLINE or pending.job.alone:
                break
            jobs.append(pending.job)
        job: Work = lane.queue[0].job
        if len(jobs) > 1 and lane.kind is not None:
            together, job = list(islice(lane.queue, len(jobs))), lane.kind.together(jobs)
        while not job.done:
            job.paint(SLICE)
            self._settle(lane, job)
        for pending in together:
            lane.queue.popleft()
            self._finish(pending)

    async def _run_in_slices(self, lane: Lane) -> None:
        """Apply what is long in the kernel thread. Short jobs behind it are done here: the hop would cost more."""
        loop = asyncio.get_running_loop()
        until, budget = time.perf_counter() + TURN, SLICE
        try:
            while lane.queue and not self._hurry:
                pending = lane.queue[0]
                job = pending.job
                if job.work > INLINE:
                    await loop.run_in_executor(self._kernels, job.paint, budget)
                    self._settle(lane, job)
                    budget = SLICE if lane.waiting else min(2 * budget, STRETCHED * SLICE)
                    until = time.perf_counter() + TURN
                elif time.perf_counter() > until:
                    await asyncio.sleep(0)
                    until = time.perf_counter() + TURN
                else:
                    self._apply_short(lane)
                if lane.queue and lane.queue[0] is pending and job.done:
                    lane.queue.popleft()
                    self._finish(pending)
                waiting, lane.waiting = lane.waiting, []
                for fn, future in waiting:
                    _resolve(fn, future)
        except Exception as error:
            self._give_up(lane, error)
        finally:
            lane.running = False
            for fn, future in lane.waiting:
                _resolve(fn, future)
            lane.waiting = []

    def _give_up(self, lane: Lane, error: Exception) -> None:
        """An engine failed on a command that it had accepted: nobody is told that it was applied."""
        log.critical("resource failed", resource=lane.resource, exc_info=error)
        lane.failed = True
        while lane.queue:
            pending = lane.queue.popleft()
            self.queued -= 1
            if not pending.future.done():
                pending.future.set_exception(Failed(f"{called(lane)} failed: {error}"))

    def _settle(self, lane: Lane, job: Work) -> None:
        part, kind = job.settle(), lane.kind
        if kind is None:
            return
        if part is not None:
            engine = self.catalog.engine(lane.resource)
            assert engine is not None
            kind.on_slice(lane.name, engine, part)
        if isinstance(job, DropJob):
            kind.on_drop(lane.name, job.last_seq)
        elif job.done:
            kind.on_done(lane.name, job)

    def _finish(self, pending: Pending) -> None:
        self.queued -= 1
        job = pending.job
        if pending.ticket is not None and pending.skeleton is not None:
            pending.ticket.applied(pending.skeleton.answer, job.told())
        if job.count and pending.lane.kind is not None:
            pending.lane.kind.count(self._metrics, pending.lane.resource, job)
        if pending.future.done():
            return
        try:
            if pending.then is not None:
                pending.then(job)
        except Exception as error:
            pending.future.set_exception(error)
        else:
            pending.future.set_result(None)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def forget_answers(self) -> None:
        """Drop the answers that are older than the limit. Raises LogUnavailable."""
        before = self.answers.expire()
        while await asyncio.get_running_loop().run_in_executor(self._committer, self._log.forget_answers, before):
            pass

    async def close(self, patience: float = PATIENCE) -> None:
        """Let what was accepted finish, write what answers still lack, and stop.

        After `patience` seconds what is logged but not applied is left to the next start's replay.
        """
        self._closed = True
        until = time.perf_counter() + patience
        while self._group or self._flushing or self._tasks:
            if not self._hurry and time.perf_counter() >= until:
                self._hurry = True
                log.warning("the rest of the log is applied at the next start", waiting=self.queued)
            await asyncio.sleep(0.001)
        completed = self.answers.take_completed()
        if completed:
            try:
                self._log.complete_answers(completed)
            except LogUnavailable as error:
                log.warning("answers stay incomplete until the next start", error=str(error))
        self._committer.shutdown()
        self._kernels.shutdown()


def _is_bulk(command: Any) -> bool:
    """Whether a command is checked in pieces. A kind whose elements take longer says how many go at once."""
    return isinstance(command, Sized) and len(command) > getattr(command, "at_once", BULK)


def _failed_before(lane: Lane) -> Failed:
    return Failed(f"{called(lane)} failed; its log is whole and is replayed at the next start")


def _resolve(fn: Callable[[], Any], future: asyncio.Future[Any]) -> None:
    """Run `fn` also when nobody waits for it any more: what it takes up or lets go has to be taken up or let go."""
    try:
        result = fn()
    except Exception as error:
        if not future.cancelled():
            future.set_exception(error)
    else:
        if not future.cancelled():
            future.set_result(result)
