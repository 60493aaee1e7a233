"""Group commit: the commands accepted in one turn of the event loop are logged by one transaction, and then applied.

A commit is made on the event loop, or in a thread where it takes long. If it fails, its commands are cancelled, and all
that were accepted after them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from app.errors import LogUnavailable
from app.runtime import clock, logs, tracing
from app.runtime.metrics import COUNTED_TOGETHER, Metrics
from app.storage.log import Log
from app.storage.rows import CopiedRow, LogEntry, StoredAnswer
from app.write_path.applying import Applier
from app.write_path.catalog import Mark, Note, UndoMark
from app.write_path.commit_thread import CommitThread
from app.write_path.idempotency import Answers
from app.write_path.queue import Pending, ResourceQueue
from app.write_path.repair import undoing_all

BULK = 20_000
"""Elements of a command above which it is checked, encoded and logged off the loop, in pieces."""

SLOW_COMMIT = 0.002
"""Average seconds of a commit above which it is made in the thread: to switch threads costs a busy loop as much."""

log = logs.get("writer")


class Committer:
    """Writes accepted commands to the log, a group at a time, and passes them to the applier. Lives on the event loop.

    `synced(lsn)`, if set, waits until enough replicas have the log up to a row, and returns False if they have not in
    time; commands are applied after that. `on_failure` is called before the commands of a failed commit are cancelled,
    and stops the checks under way.
    """

    def __init__(
        self, log_store: Log, answers: Answers, applier: Applier, metrics: Metrics, on_failure: Callable[[], None]
    ) -> None:
        self.synced: Callable[[int], Awaitable[bool]] | None = None
        self._log = log_store
        self._answers = answers
        self._applier = applier
        self._metrics = metrics
        self._on_failure = on_failure
        self._thread = CommitThread(log_store)
        self._group: list[Pending] = []
        self._flushing = self._due = self._gathering = self._overlaps = False
        self._commit_cost = 0.0
        self._uncounted: deque[tuple[int, int, float]] = deque()
        """Commits that are not in the metrics yet: their commands, rows and seconds."""
        self._lone = False
        """Whether the last group was one command with at most one change."""
        metrics.before_reading(self.count)

    @property
    def idle(self) -> bool:
        """Whether no command waits to be logged or is being logged."""
        return not self._group and not self._flushing

    def add(self, pending: Pending) -> None:
        """Add an accepted command to the next group."""
        pending.overlaps = self._overlaps
        self._applier.queued += 1
        self._group.append(pending)
        self._schedule()

    def withdraw(self, queue: ResourceQueue) -> list[Pending]:
        """Take the commands of a resource out of the next group."""
        group, self._group = self._group, [pending for pending in self._group if pending.queue is not queue]
        return [pending for pending in group if pending.queue is queue]

    def gather(self) -> None:
        """Hold the commit back until `log_gathered` is called, which has to be within a few turns of the event loop."""
        self._gathering = True

    def expect_more(self) -> None:
        """Note that this turn of the event loop has requests for more than one command: those accepted from now on in
        it are `overlaps`, since the loop has other work while they are executed.
        """
        self._overlaps = True

    def log_gathered(self) -> None:
        """Commit and apply what was accepted since `gather`; if a commit is under way, that is done after it. The
        caller has to call `count_some`, after its answers.
        """
        self._gathering = self._overlaps = False
        if self._due:
            self._flush()

    def count_some(self) -> None:
        """As `count`, except behind a lone write: some of those are counted together."""
        if not self._lone or len(self._uncounted) >= COUNTED_TOGETHER:
            self.count()

    def count(self) -> None:
        """Update the metrics of commits and of applied commands, and begin a checkpoint if one is due."""
        if self._uncounted:
            # The commit thread may add to them meanwhile.
            while self._uncounted:
                commands, rows, seconds = self._uncounted.popleft()
                self._metrics.group_size.observe(commands)
                self._metrics.commit_seconds.observe(seconds)
                if rows <= 64:
                    self._commit_cost += 0.05 * (seconds - self._commit_cost)
            if self._thread.due:
                self._applier.spawn(self._thread.checkpoint())
        self._applier.count()

    def _schedule(self) -> None:
        if not self._flushing:
            self._flushing = self._due = True
            if not self._gathering:
                asyncio.get_running_loop().call_soon(self._flush_due)

    def _flush_due(self) -> None:
        if self._due:
            self._flush()
            self.count()

    def _flush(self) -> None:
        """Commit the group, here or in the commit thread, and have it applied."""
        self._due = False
        group, self._group = self._group, []
        large, self._lone = False, len(group) == 1
        for pending in group:
            if pending.job.count > 1:
                self._lone = False
            if pending.job.count > BULK or (pending.entries and self.synced is not None):
                large = True
        if large or self._log.database.remote or self._commit_cost > SLOW_COMMIT or self._thread.busy:
            self._applier.spawn(self._commit_in_thread(group))
            return
        try:
            self._commit(group)
        except BaseException as error:
            self._fail(group, error)
        else:
            self._applier.apply(group)
        finally:
            self._end_flush()

    async def _commit_in_thread(self, group: list[Pending]) -> None:
        try:
            await self._thread.run(self._commit, group)
        except BaseException as error:
            self._fail(group, error)
        else:
            await self._sync(group)
            self._applier.apply(group)
        finally:
            self._end_flush()
            self.count()

    def _end_flush(self) -> None:
        self._flushing = False
        if self._group:
            self._schedule()

    async def _sync(self, group: list[Pending]) -> None:
        """Wait until enough replicas have a logged group; mark its commands `unsynced` if they have not in time."""
        logged = [pending for pending in group if pending.lsn]
        if self.synced is None or not logged or await self.synced(self._log.last_lsn):
            return
        for pending in logged:
            pending.unsynced = True

    def _commit(self, group: list[Pending]) -> None:
        entries: list[LogEntry | CopiedRow] = []
        answers: list[StoredAnswer] = []
        forgotten: list[tuple[str, str]] = []
        now = clock.now()
        for pending in group:
            job = pending.job
            if isinstance(job, Mark):
                if not isinstance(job, Note):
                    job.lsn = self._log.last_lsn + len(entries)
                if isinstance(job, UndoMark):
                    entries += undoing_all(job.queue, job.last_seq)
                    kept = [each.kept for one in job.queue.undone for each in one.receipts]
                    forgotten += [(one.scope, one.key) for one in kept]
            pending.lsn = self._log.last_lsn + len(entries) + 1 if pending.entries else 0
            entries += pending.entries
            answers += pending.answers
            if pending.receipts:
                lsn = self._log.last_lsn + len(entries)
                answers += [one.kept._replace(lsn=lsn, created_at=now) for one in pending.receipts]
            # Free the rows: a long command may wait for some time before it is applied.
            pending.entries = ()
        completed = self._answers.take_completed()
        if not (entries or answers or completed or forgotten):
            return
        began = time.perf_counter()
        try:
            self._log.append(entries, answers, completed, now, forgotten)
        except LogUnavailable:
            self._answers.give_back(completed)
            raise
        self._uncounted.append((len(group), len(entries), time.perf_counter() - began))
        if tracing.tracer is not None:
            for pending in group:
                if pending.trace is not None:
                    pending.trace.committed(began, len(group))

    def _fail(self, group: list[Pending], error: BaseException) -> None:
        """Cancel a group that could not be logged, and all commands accepted after it, newest first. Raises the error
        again unless it is `LogUnavailable`.
        """
        expected = isinstance(error, LogUnavailable)
        why = str(error) if expected else f"the log cannot be written: {type(error).__name__}"
        log.error("log unavailable", error=why, refused=len(group) + len(self._group))
        self._on_failure()
        later, self._group = self._group, []
        for pending in reversed(group + later):
            pending.job.cancel()
            self._applier.queued -= 1
            if pending.trace is not None:
                pending.trace.failed(why)
            if not pending.future.cancelled():
                pending.future.set_exception(LogUnavailable(why))
        if not expected:
            raise error

    async def mend(self) -> None:
        """Delete the rows that a failed commit may have left in the log. Raises LogUnavailable."""
        if self._log.in_doubt:
            await self._thread.run(self._log.mend)

    async def prune(self, through_lsn: int) -> None:
        """Delete the log up to a row, a few rows at a time, so that commits go in between. Raises LogUnavailable."""
        # It sleeps so that others commit.
        while await self._thread.run(self._log.prune, through_lsn):  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def complete_answers(self) -> None:
        """Store the responses that were completed when their commands were applied, without waiting for the next write.
        Raises LogUnavailable.
        """
        completed, loop = self._answers.take_completed(), asyncio.get_running_loop()

        def write() -> None:
            try:
                self._log.complete_answers(completed)
            except LogUnavailable:
                # Here, since the coroutine that awaits the thread may be cancelled.
                loop.call_soon_threadsafe(self._answers.give_back, completed)
                raise

        await self._thread.run(write)

    async def forget_answers(self) -> None:
        """Delete stored responses that are older than the limit. Raises LogUnavailable."""
        before = self._answers.expire()
        while await self._thread.run(self._log.forget_answers, before):
            pass

    def shutdown(self) -> None:
        """Store the responses that applying completed, and end the thread."""
        completed = self._answers.take_completed()
        if completed:
            try:
                self._log.complete_answers(completed)
            except LogUnavailable as error:
                log.warning("answers stay incomplete until the next start", error=str(error))
        self._thread.shutdown()
