"""Repair of resources that have failed: their unapplied commands are undone and refused, and they are rebuilt.

A resource fails when its engine raises on a command that it had accepted, which may be in the log already. A row
*undone* is logged (`app.write_path.replay`), and the resource is rebuilt from its snapshot and the log, while others go
on. Until that succeeds it accepts no command.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

from app.errors import LogUnavailable
from app.runtime import logs
from app.runtime.metrics import Metrics
from app.storage.rows import LogEntry
from app.write_path.catalog import Catalog, Entry, UndoMark
from app.write_path.queue import Pending, ResourceQueue, display_name
from app.write_path.replay import undoing

REBUILD_AGAIN, REBUILD_AGAIN_AT_LEAST = 1.0, 60.0
"""Seconds until a resource that could not be rebuilt is tried again: twice as many each time, up to a limit."""

PATIENCE = 10.0
"""Seconds that a consistent cut waits for resources that are being rebuilt."""

log = logs.get("writer")


class Failed(Exception):
    """A resource could not apply a command that is in the log. It is undone, and the resource takes no more commands
    until it is rebuilt.
    """


class Repair:
    """The repair of failed resources. `rebuild` rebuilds one from its snapshot and the log, in any thread.

    `enqueue(mark)` logs a mark after all that is being logged, `refuse(pending, why)` answers a command. `ending` is
    set when the service ends, `abandoning` when it no longer waits for what is logged to be applied.
    """

    def __init__(
        self,
        catalog: Catalog,
        metrics: Metrics,
        kernels: Executor,
        enqueue: Callable[[UndoMark], Awaitable[Any]],
        refuse: Callable[[Pending, Exception], None],
    ) -> None:
        self.rebuild: Callable[[str], Entry] | None = None
        self.ending = False
        self.abandoning = False
        self._failed: dict[str, ResourceQueue] = {}
        self._catalog = catalog
        self._metrics = metrics
        self._kernels = kernels
        self._enqueue = enqueue
        self._refuse = refuse

    def failed(self) -> list[str]:
        """The resources that have failed and are not rebuilt yet, in order."""
        return sorted(self._failed)

    def fail(self, queue: ResourceQueue, error: Exception) -> Failed:
        """Take a resource out of service; return why its commands are refused. `run` repairs it."""
        log.critical("resource failed", resource=queue.resource, exc_info=error)
        self._failed[queue.resource] = queue
        queue.failed = True
        queue.undone += queue.pending
        queue.pending.clear()
        if queue.checking is not None:
            steps, queue.checking = queue.checking, None
            steps.close()
        self._metrics.resource_failures.labels(queue.resource).inc()
        self._metrics.failed_resources.set(len(self._failed))
        return Failed(f"{display_name(queue)} failed: {error}; nothing was changed")

    def end(self, queue: ResourceQueue) -> None:
        """Return a resource to service: it was rebuilt or deleted."""
        queue.failed = False
        self._failed.pop(queue.resource, None)
        self._metrics.failed_resources.set(len(self._failed))

    async def settled(self) -> None:
        """Return once no resource is being rebuilt, or after `PATIENCE` seconds."""
        until = time.perf_counter() + PATIENCE
        while self.rebuild is not None and time.perf_counter() < until and self._failed:  # noqa: ASYNC110 (rare)
            await asyncio.sleep(0.02)

    async def run(self, queue: ResourceQueue, why: Failed) -> None:
        """Log that commands of a failed resource are undone, refuse them, and rebuild it."""
        entry = self._catalog.entry(queue.resource) if queue.resource_type is not None else None
        last_seq = entry.last_seq if entry is not None else 0
        while entry is not None and not self.abandoning:
            mark = UndoMark(queue, last_seq)
            try:
                # What is being committed is in the log before this, and undone with it.
                await self._enqueue(mark)
                break
            except LogUnavailable:
                await self._pause(REBUILD_AGAIN, queue)
        if self.abandoning:
            # No refusals: the next start may apply the commands.
            return
        undone, queue.undone = queue.undone, []
        for pending in undone:
            self._refuse(pending, why)
        pause = REBUILD_AGAIN
        while entry is not None and queue.failed and self.rebuild is not None and not self.ending:
            try:
                fresh = await asyncio.get_running_loop().run_in_executor(self._kernels, self.rebuild, queue.resource)
            except Exception as error:
                log.critical("resource cannot be rebuilt", resource=queue.resource, exc_info=error)
                await self._pause(pause, queue)
                pause = min(2 * pause, REBUILD_AGAIN_AT_LEAST)
                continue
            # It may have been deleted meanwhile.
            if queue.failed:
                self.replace(queue, entry, fresh, last_seq)
                log.warning("resource rebuilt", resource=queue.resource, seq=entry.last_seq, undone=len(undone))

    def replace(self, queue: ResourceQueue, entry: Entry, fresh: Entry, last_seq: int) -> None:
        """Replace a failed resource by the rebuilt one."""
        assert queue.resource_type is not None, "marks are not rebuilt"
        entry.engine, entry.latest = fresh.engine, fresh.latest
        entry.next_first_seq = fresh.next_first_seq
        entry.go_on(max(last_seq, entry.last_seq))
        self.end(queue)
        if fresh.engine is None:
            queue.resource_type.on_drop(queue.name, entry.last_seq)
        else:
            queue.resource_type.on_rebuilt(queue.name)

    async def _pause(self, seconds: float, queue: ResourceQueue) -> None:
        """Wait for so long while a resource has failed and the service is not ending."""
        until = time.perf_counter() + seconds
        await asyncio.sleep(0.02)
        while time.perf_counter() < until and queue.failed and not self.ending:  # noqa: ASYNC110 (rare)
            await asyncio.sleep(0.02)


def already_failed(queue: ResourceQueue) -> Failed:
    """The refusal of a command for a resource that has failed."""
    return Failed(f"{display_name(queue)} failed and is being rebuilt; nothing was changed")


def undoing_all(queue: ResourceQueue, last_seq: int) -> list[LogEntry]:
    """The row that undoes what is in the log of a failed resource, none where nothing is."""
    lsns = [pending.lsn for pending in queue.undone if pending.lsn]
    return [undoing(queue.resource, min(lsns), last_seq)] if lsns else []
