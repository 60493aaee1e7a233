"""Applying logged commands: those of one resource in the order of their rows, resources independently of each other.

Short commands are applied on the event loop. Long ones alternate between a slice of kernel work in a thread and a
publishing step on the loop, so that reads and streams continue in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from app.errors import NotReplicated
from app.resources.base import Job, Work
from app.runtime import tracing
from app.runtime.metrics import Metrics
from app.write_path.catalog import Catalog, DropFailedJob, DropJob
from app.write_path.idempotency import filled
from app.write_path.kernel_threads import KernelThreads, SliceRunner
from app.write_path.queue import Pending, ResourceQueue
from app.write_path.repair import Repair, already_failed

T = TypeVar("T")

INLINE = 0.002
"""Seconds of work up to which a command is applied on the event loop itself."""

OVERLAPPED = 0.0003
"""The same for a command that `overlaps` with other work of the loop, while a kernel thread is free. To switch threads,
and to wait for the GIL that both need, takes a tenth of a millisecond and more."""

SLICE, STRETCHED = 0.005, 4
"""Seconds of kernel work between two publishing steps, and the factor by which slices grow while no read waits for one:
a busy loop is late for each step."""

_DROPS = DropJob, DropFailedJob

TURN = 0.010
"""Seconds of publishing and inline work after which the loop yields to other tasks."""


class Applier:
    """Applies logged commands. Lives on the event loop.

    `queued` counts commands that are accepted and not answered. `repair` rebuilds resources that have failed, for which
    `enqueue_mark` logs a mark, and `withdraw` takes the commands of a resource out of the next commit. On a replica
    `copies` is set: it undoes nothing, and calls `on_failed` with a resource that has failed.
    """

    def __init__(
        self,
        catalog: Catalog,
        metrics: Metrics,
        enqueue_mark: Callable[[Any], Awaitable[Any]],
        withdraw: Callable[[ResourceQueue], list[Pending]],
    ) -> None:
        self.queued = 0
        self.copies = False
        self.on_failed: Callable[[str], None] = lambda resource: None
        self.kernels = KernelThreads()
        self.tasks: set[asyncio.Task[None]] = set()
        self.repair = Repair(catalog, metrics, self.kernels, enqueue_mark, self.refuse)
        self._catalog = catalog
        self._metrics = metrics
        self._withdraw = withdraw
        self._uncounted: list[tuple[Pending, float]] = []
        """Applied commands that are not in the metrics yet, with the seconds since they were accepted."""

    def apply(self, group: list[Pending]) -> None:
        """Apply a group that was just logged; long commands go on in a task."""
        queues = {}
        for pending in group:
            if pending.queue.failed and isinstance(pending.job, DropFailedJob):
                self.repair.end(pending.queue)
            elif pending.queue.failed and self.copies:
                self.refuse(pending, already_failed(pending.queue))
                continue
            elif pending.queue.failed:
                pending.queue.undone.append(pending)
                continue
            pending.queue.pending.append(pending)
            queues[pending.queue.resource] = pending.queue
        for queue in queues.values():
            if queue.slices is None:
                self._run_inline(queue)
            else:
                queue.slices.offer(self._behind(queue))

    async def between(self, queue: ResourceQueue, fn: Callable[[], T]) -> T:
        """Run `fn` on the loop between two slices of a resource."""
        if queue.slices is None:
            return fn()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        queue.waiting.append((fn, future))
        queue.slices.withdraw()
        return await future

    def _run_inline(self, queue: ResourceQueue) -> None:
        """Apply the short commands at the head of a queue, which must not be empty, for about `TURN` seconds; a task
        applies the rest.
        """
        until = 0.0
        try:
            while True:
                if self._is_long(queue.pending[0]) or (until and time.perf_counter() > until):
                    queue.slices = SliceRunner(self.kernels, SLICE)
                    self.spawn(self._run_in_slices(queue, queue.slices))
                    return
                if not until and len(queue.pending) > 1:
                    until = time.perf_counter() + TURN
                self._apply_short(queue)
                if not queue.pending:
                    return
        except Exception as error:
            self._fail_queue(queue, error)

    def _apply_short(self, queue: ResourceQueue) -> None:
        """Apply the next job of the queue, in one pass with the short ones after it that can be combined with it."""
        combined = [queue.pending[0]]
        job: Work = combined[0].job
        if len(queue.pending) > 1 and queue.resource_type is not None:
            jobs, work = [], 0.0
            for pending in queue.pending:
                work += pending.job.work
                if work > INLINE or pending.job.alone:
                    break
                jobs.append(pending.job)
            if len(jobs) > 1:
                combined, job = list(islice(queue.pending, len(jobs))), queue.resource_type.combine(jobs)
        traces = _executing(combined)
        while not job.done:
            job.execute(SLICE)
            self._publish(queue, job, traces)
        for pending in combined:
            queue.pending.popleft()
            self._finish(pending)

    def _is_long(self, pending: Pending) -> bool:
        """Whether a command is executed in a kernel thread: short ones that overlap only if a thread is free."""
        return pending.job.work > (OVERLAPPED if pending.overlaps and self.kernels.free else INLINE)

    def _behind(self, queue: ResourceQueue) -> Job | None:
        """The command after the one being executed, if a kernel thread may begin it before that one is published."""
        if len(queue.pending) < 2 or queue.waiting or self.repair.abandoning or not self._is_long(queue.pending[1]):
            return None
        return queue.pending[1].job

    async def _run_in_slices(self, queue: ResourceQueue, slices: SliceRunner) -> None:
        """Apply the whole queue, with long commands in a kernel thread; the resource fails if one of them fails."""
        try:
            try:
                await self._apply_in_slices(queue, slices)
            finally:
                await slices.end()
        except Exception as error:
            self._fail_queue(queue, error)
        finally:
            queue.slices = None
            for fn, future in queue.waiting:
                _resolve(fn, future)
            queue.waiting = []

    async def _apply_in_slices(self, queue: ResourceQueue, slices: SliceRunner) -> None:
        """Execute long jobs in a kernel thread, and short ones here, since to switch threads costs more."""
        until, budget = time.perf_counter() + TURN, SLICE
        # What the thread has executed ahead has to be published: reads would see it before it is.
        while queue.pending and (slices.ahead is not None or not self.repair.abandoning):
            pending = queue.pending[0]
            job = pending.job
            if slices.ahead is not None or self._is_long(pending):
                traces, began = _executing((pending,)), time.perf_counter()
                await slices.execute(job, budget, self._behind(queue))
                slices.go_on(job, self._behind(queue))
                self._metrics.slice_seconds.observe(time.perf_counter() - began)
                self._publish(queue, job, traces)
                budget = SLICE if queue.waiting else min(2 * budget, STRETCHED * SLICE)
                until = time.perf_counter() + TURN
            elif time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + TURN
            else:
                self._apply_short(queue)
            if queue.pending and queue.pending[0] is pending and job.done:
                queue.pending.popleft()
                self._finish(pending)
            self.count()
            # While the thread is ahead, the engine has unpublished changes.
            if slices.ahead is None:
                waiting, queue.waiting = queue.waiting, []
                for fn, future in waiting:
                    _resolve(fn, future)

    def _fail_queue(self, queue: ResourceQueue, error: Exception) -> None:
        """Undo a command that its engine accepted and could not apply, with all accepted after it, and rebuild the
        resource.
        """
        why = self.repair.fail(queue, error)
        if self.copies:
            # Only the leader undoes commands, if they fail there too.
            undone, queue.undone = queue.undone, []
            for pending in undone:
                self.refuse(pending, why)
            self.on_failed(queue.resource)
            return
        for pending in self._withdraw(queue):
            self.refuse(pending, why)
        self.spawn(self.repair.run(queue, why))

    def refuse(self, pending: Pending, why: Exception) -> None:
        """Answer a command that is not applied."""
        self.queued -= 1
        if pending.trace is not None:
            pending.trace.failed(str(why))
        if not pending.future.done():
            pending.future.set_exception(why)

    def _publish(self, queue: ResourceQueue, job: Work, traces: Sequence[tracing.CommandTrace] = ()) -> None:
        """Make a slice visible, and deliver it to streams; `traces` are those of the commands in it."""
        tracer = tracing.tracer if traces else None
        if tracer is not None:
            tracer.applied = traces
        try:
            part, resource_type = job.publish(), queue.resource_type
            if resource_type is None:
                return
            if part is not None:
                engine = self._catalog.engine(queue.resource)
                assert engine is not None
                resource_type.on_slice(queue.name, engine, part)
            if isinstance(job, _DROPS):
                resource_type.on_drop(queue.name, job.last_seq)
            elif job.done:
                resource_type.on_done(queue.name, job)
        finally:
            if tracer is not None:
                tracer.applied = ()

    def _finish(self, pending: Pending) -> None:
        self.queued -= 1
        job = pending.job
        for ticket, skeleton, _ in pending.receipts:
            fields = job.fields_of(skeleton.answer) if ticket.lacks else {}
            if ticket.lacks:
                ticket.applied(skeleton.answer, fields)
            if pending.unsynced:
                # It is in the log: a retry gets this response once enough replicas have it.
                ticket.complete(skeleton.status, filled(skeleton.answer, fields))
        if job.count and pending.queue.resource_type is not None:
            self._uncounted.append((pending, time.perf_counter() - pending.since))
        if pending.trace is not None:
            pending.trace.executed(job.last_seq)
        why: Exception | None = not_replicated() if pending.unsynced else None
        try:
            if pending.then is not None:
                # Even if the request was cancelled.
                pending.then(job)
        except Exception as error:
            why = error
        if pending.future.done():
            return
        if why is None:
            pending.future.set_result(None)
        else:
            pending.future.set_exception(why)

    def count(self) -> None:
        """Update the metrics of the commands applied since the last call."""
        uncounted, self._uncounted = self._uncounted, []
        for pending, seconds in uncounted:
            queue = pending.queue
            assert queue.resource_type is not None, "marks are not counted"
            queue.resource_type.count(self._metrics, queue.resource, pending.job)
            self._metrics.delivery_seconds.observe(seconds)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that shutdown waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def not_replicated() -> NotReplicated:
    """Why a write that is in the log is not answered."""
    return NotReplicated(
        "the write is in the leader's log, and too few replicas have said in time that it is in theirs: a retry under "
        "its Idempotency-Key finds out",
        retry_after=1,
    )


def _executing(commands: Iterable[Pending]) -> Sequence[tracing.CommandTrace]:
    """Begin the execution spans of commands, and return their traces."""
    if tracing.tracer is None:
        return ()
    traces = [pending.trace for pending in commands if pending.trace is not None]
    for trace in traces:
        trace.executing()
    return traces


def _resolve(fn: Callable[[], Any], future: asyncio.Future[Any]) -> None:
    """Resolve a future by `fn`, which runs for its side effects even if the future was cancelled."""
    try:
        result = fn()
    except Exception as error:
        if not future.cancelled():
            future.set_exception(error)
    else:
        if not future.cancelled():
            future.set_result(result)
