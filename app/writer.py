"""The single writer: every change takes one way, command -> check -> log -> engine -> outcome.

A command is checked on arrival against what the accepted ones before it will have done, joins the group that is next to
be logged, and is applied once its group is durable. Short commands are applied on the event loop; long ones alternate
between a slice of kernel work in a thread and a settling step on the loop, so that reads and streams go on in between.
Boards are independent of each other behind the log: each is a lane of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from app import logs
from app.idempotency import AT_START, Answers, Ticket
from app.metrics import Metrics
from app.storage.catalog import Catalog, DropJob, Job, Mark, Note
from app.storage.log import NOTE, Log, LogEntry, LogUnavailable, StoredAnswer
from formats.boards import RESOURCE
from formats.commands import MORE, Part, decode, encode
from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Command, Create, Drop, Events, Subscribe, Unsubscribe
from indexes.boards.plans import EditPlan, EventsGroup, EventsPlan
from indexes.boards.subscribers import Edit
from indexes.boards.upkeep import Captured, Upkeep
from indexes.boards.views import Slice

T = TypeVar("T")
U = TypeVar("U", bound=Upkeep)

INLINE = 0.001
"""Seconds of work up to which it is done on the event loop itself."""

SLICE = 0.005
"""Seconds of kernel work between two settling steps."""

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


class Skeleton(NamedTuple):
    """An answer as far as it is known before applying."""

    status: int
    answer: dict[str, Any]


class Failed(Exception):
    """A board could not apply what is in the log. It answers no more writes until the service starts again."""


class Standstill(NamedTuple):
    """All boards after row `lsn` of the log and before the next one. `gone` are the names of deleted boards with the
    seq that each would go on with."""

    lsn: int
    boards: dict[str, Captured]
    gone: dict[str, int]


class Pending:
    """An accepted command in the writer's hands."""

    __slots__ = ("future", "job", "lane", "skeleton", "then", "ticket")

    def __init__(
        self,
        lane: Lane,
        job: Job,
        ticket: Ticket | None,
        skeleton: Skeleton | None,
        then: Callable[[Any], None] | None,
    ) -> None:
        self.lane = lane
        self.job = job
        self.ticket = ticket
        self.skeleton = skeleton
        self.then = then
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Lane:
    """One board's way behind the log. `accepting` serialises checks that are cut into pieces."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[Pending] = deque()
        self.running = False
        self.failed = False
        self.accepting = asyncio.Lock()
        self.checking: Any = None
        self.waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []


class Writer:
    """Owns the log and the catalog; `submit` is the only way to change anything."""

    def __init__(
        self, log_store: Log, catalog: Catalog, answers: Answers, metrics: Metrics, max_queue: int = 10_000
    ) -> None:
        self.catalog = catalog
        self.answers = answers
        self.on_slice: Callable[[str, Board, Slice], None] = lambda name, board, part: None
        self.on_edit: Callable[[str, Edit], None] = lambda name, edit: None
        self.on_drop: Callable[[str, int], None] = lambda name, seq: None
        self.queued = 0
        self._log = log_store
        self._metrics = metrics
        self._max_queue = max_queue
        self._lanes: dict[str, Lane] = {}
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
        before anything else."""
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
            self._replay(row.resource.removeprefix(RESOURCE), decode(parts), row.lsn, row.last_seq)
            parts.clear()
        return rows

    def _replay(self, name: str, command: Command | Create | Drop, lsn: int, last_seq: int) -> None:
        job = self.catalog.replay(name, command)
        if job.last_seq != last_seq:
            raise LogUnavailable(
                f"row {lsn} of the log ends at seq {last_seq} of {name}, but replay is at {job.last_seq}"
            )
        awaited = self.answers.awaits(lsn)
        if not awaited and hasattr(job, "silent"):
            job.silent = True
        while not job.done:
            job.paint(1.0)
            job.settle()
        if awaited:
            self.answers.learn(lsn, job.tile_count)

    async def submit(
        self,
        name: str,
        command: Command,
        *,
        keep_tiles: int = 0,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> Any:
        """Check, log and apply a command of a board; returns its plan once it is durable and visible.

        With a `ticket`, `skeleton(plan)` gives the answer to be stored beside the command. `then(plan)` is called in
        the moment when the board stands at the plan's last seq, before anything that follows.

        Raises:
            Refused: it does not apply, or there is no such board. Nothing has changed.
            Busy: too many commands are waiting.
            LogUnavailable: the log cannot be written. Nothing has changed.
        """
        board = self.catalog.latest(name)
        lane = self._admit(name)
        bulk = isinstance(command, Events | Subscribe | Unsubscribe) and len(command) > BULK
        if not bulk and not lane.accepting.locked():
            job: Job = board.prepare(command, keep_tiles)
        else:
            self.queued += 1
            try:
                async with lane.accepting:
                    job = await self._check(lane, command, keep_tiles)
            finally:
                self.queued -= 1
        return await self._through(lane, job, ticket, skeleton, then)

    async def put(
        self,
        name: str,
        config: BoardConfig,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> Any:
        """Make a board, or change it to this configuration; `then` and what it raises as in `submit`."""
        return await self._catalog_change(name, lambda: self.catalog.put(name, config), ticket, skeleton, then)

    async def drop(
        self, name: str, ticket: Ticket | None = None, skeleton: Callable[[Any], Skeleton] | None = None
    ) -> Any:
        """Delete a board; raises as `submit`."""
        self.catalog.latest(name)
        return await self._catalog_change(name, lambda: self.catalog.drop(name), ticket, skeleton, None)

    async def _catalog_change(
        self,
        name: str,
        accept: Callable[[], Job],
        ticket: Ticket | None,
        skeleton: Callable[[Any], Skeleton] | None,
        then: Callable[[Any], None] | None,
    ) -> Any:
        lane = self._admit(name)
        if lane.accepting.locked():
            async with lane.accepting:
                job = accept()
        else:
            job = accept()
        return await self._through(lane, job, ticket, skeleton, then)

    async def stand_still(self, journal: Collection[str] = (), indexes: Collection[str] = ()) -> Standstill:
        """Copy the state of all boards at one row of the log, each in its turn; the boards in `journal` begin to note
        what changes, of those in `indexes` the indexes are copied too.

        Raises:
            Failed: a board has failed.
            LogUnavailable: what was accepted before could not be logged.
        """
        async with AsyncExitStack() as held:
            mine: set[str] = set()
            # While one long check is waited for, another may begin on another board.
            while checking := [x for x in self._lanes.values() if x.accepting.locked() and x.name not in mine]:
                await held.enter_async_context(checking[0].accepting)
                mine.add(checking[0].name)
            mark = Mark()
            group = [Pending(self._lane(""), mark, None, None, None)]
            plans = {}
            gone = {}
            for name, entry in self.catalog.entries.items():
                if entry.latest is None:
                    gone[name] = entry.next_first_seq
                    group.append(Pending(self._lane(name), Mark(), None, None, None))
                    continue
                if self._lane(name).failed:
                    raise Failed(f"board {name!r} failed; its log is whole and is replayed at the next start")
                plans[name] = entry.latest.capture(name in journal, name in indexes)
                group.append(Pending(self._lane(name), plans[name], None, None, None))
            self.queued += len(group)
            self._group += group
            self._schedule()
        for outcome in await asyncio.gather(*(pending.future for pending in group), return_exceptions=True):
            if outcome is not None:
                raise outcome
        captured = {name: plan.captured for name, plan in plans.items()}
        return Standstill(mark.lsn, {name: found for name, found in captured.items() if found is not None}, gone)

    async def note(self, about: str) -> None:
        """Let a row of the log stand for a change that is not in it, so that the next snapshot is another one."""
        await self._through(self._lane(""), Note(about), None, None, None)

    async def maintain(self, name: str, make: Callable[[Board], U]) -> U:
        """Give a board work of its own in its turn; returns the plan when that is done. Raises as `submit`."""
        board = self.catalog.latest(name)
        lane = self._admit(name)
        plan = make(board)
        await self._through(lane, plan, None, None, None)
        return plan

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

    async def between(self, name: str, fn: Callable[[], T]) -> T:
        """Run `fn` on the loop at a moment when nothing of this board is being painted."""
        lane = self._lane(name)
        if not lane.running:
            return fn()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        lane.waiting.append((fn, future))
        return await future

    def _admit(self, name: str) -> Lane:
        lane = self._lane(name)
        if lane.failed:
            raise Failed(f"board {name!r} failed; its log is whole and is replayed at the next start")
        if self._closed:
            raise Busy("the service is shutting down")
        if self.queued >= self._max_queue:
            raise Busy("too many writes are waiting")
        return lane

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name)
        return lane

    async def _check(self, lane: Lane, command: Command, keep_tiles: int) -> Job:
        """Check a long command in pieces; heavy pieces run in a thread."""
        steps = lane.checking = self.catalog.latest(lane.name).prepare_steps(command, keep_tiles)
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

    async def _through(
        self,
        lane: Lane,
        job: Job,
        ticket: Ticket | None,
        skeleton: Callable[[Any], Skeleton] | None,
        then: Callable[[Any], None] | None,
    ) -> Any:
        stored = skeleton(job) if ticket is not None and skeleton is not None else None
        pending = Pending(lane, job, ticket, stored, then)
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
            if isinstance(job, Note):
                entries.append(LogEntry(job.about, 0, 0, NOTE, b""))
            elif isinstance(job, Mark):
                job.lsn = self._log.last_lsn + len(entries)
            if job.count:
                seq = job.first_seq
                for part in _parts(job):
                    entries.append(
                        LogEntry(RESOURCE + pending.lane.name, seq, seq + part.size - 1, part.name, part.payload)
                    )
                    seq += part.size
            if pending.ticket is not None and pending.skeleton is not None:
                lsn = self._log.last_lsn + len(entries)
                lacks = job.count > 0 and "tile_count" in pending.skeleton.answer
                answers.append(pending.ticket.store(lsn, *pending.skeleton, now, lacks=lacks))
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
            lanes[pending.lane.name] = pending.lane
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
        """Apply the next job of the lane, and with it the short events behind it."""
        together, plans, work = [lane.queue[0]], [], 0.0
        for pending in lane.queue:
            work += pending.job.work
            if work > INLINE or not isinstance(pending.job, EventsPlan) or pending.job.started:
                break
            plans.append(pending.job)
        job: Job | EventsGroup = lane.queue[0].job
        if len(plans) > 1:
            together, job = list(islice(lane.queue, len(plans))), EventsGroup(plans)
        while not job.done:
            job.paint(SLICE)
            self._settle(lane, job)
        for pending in together:
            lane.queue.popleft()
            self._finish(pending)

    async def _run_in_slices(self, lane: Lane) -> None:
        """Apply what is long in the kernel thread. Short jobs behind it are done here: the hop would cost more."""
        loop = asyncio.get_running_loop()
        until = time.perf_counter() + TURN
        try:
            while lane.queue and not self._hurry:
                pending = lane.queue[0]
                job = pending.job
                if job.work > INLINE:
                    await loop.run_in_executor(self._kernels, job.paint, SLICE)
                    self._settle(lane, job)
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
        log.critical("board failed", board=lane.name, exc_info=error)
        lane.failed = True
        while lane.queue:
            pending = lane.queue.popleft()
            self.queued -= 1
            if not pending.future.done():
                pending.future.set_exception(Failed(f"board {lane.name!r} failed: {error}"))

    def _settle(self, lane: Lane, job: Job | EventsGroup) -> None:
        part = job.settle()
        if part is not None:
            board = self.catalog.board(lane.name)
            assert board is not None
            self.on_slice(lane.name, board, part)
        if isinstance(job, EditPlan) and job.done:
            self.on_edit(lane.name, job.edit)
        elif isinstance(job, DropJob):
            self.on_drop(lane.name, job.last_seq)

    def _finish(self, pending: Pending) -> None:
        self.queued -= 1
        job = pending.job
        if pending.ticket is not None and pending.skeleton is not None:
            pending.ticket.applied(pending.skeleton.answer, job.tile_count)
        if job.count:
            self._metrics.applied(RESOURCE + pending.lane.name, type(job.command).__name__, job.count, job.tile_count)
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


def _parts(job: Job) -> list[Part]:
    return list(encode(job.command, job.count))


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
