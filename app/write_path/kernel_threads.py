"""The threads for long work: slices of commands, and bulk that is checked or encoded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

COUNT = 2
"""Threads; all resources share them."""


class KernelThreads(ThreadPoolExecutor):
    """An executor that knows whether a piece of work would begin at once."""

    def __init__(self) -> None:
        super().__init__(COUNT, "kernel")
        self._under_way: set[Future[Any]] = set()

    @property
    def free(self) -> bool:
        """Whether one of the threads has nothing to do."""
        return len(self._under_way) < COUNT

    @property
    def crowded(self) -> bool:
        """Whether work waits for a thread."""
        return len(self._under_way) > COUNT

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As `ThreadPoolExecutor.submit`."""
        future = super().submit(fn, *args, **kwargs)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future


class Executable(Protocol):
    """What a kernel thread needs of a job: see `app.resources.work`."""

    def execute(self, budget: float) -> None: ...
    def lets_begin(self, following: Any) -> bool: ...


class Slice(NamedTuple):
    """A job to execute for about `budget` seconds; `executed` is resolved on the event loop."""

    job: Executable
    budget: float
    executed: asyncio.Future[None]


class SliceRunner:
    """Executes slices of the jobs of one resource in the kernel threads, one after the other. Lives on the event loop.

    The job behind the one at hand may be offered. Where that one `lets_begin` the other, the thread begins it at once,
    for a slice of about `budget` seconds: the loop, which is to publish first, may be late, and meanwhile the
    processors would have nothing to do.
    """

    def __init__(self, threads: KernelThreads, budget: float) -> None:
        self._threads = threads
        self._budget = budget
        self._executing = False
        self._offer: Slice | None = None
        self._not_taken: deque[Slice] = deque()
        """The offer, until the thread takes it."""
        self.ahead: Slice | None = None
        """The slice that the thread has taken from the offer, and may be executing."""

    async def execute(self, job: Executable, budget: float, behind: Executable | None) -> None:
        """Execute a slice of a job, and offer the job behind it. Where a slice is `ahead`, it is of this job and is
        waited for. Raises what executing raises.
        """
        under_way, self.ahead = self.ahead, None
        self._executing = True
        self.offer(behind)
        if under_way is None:
            under_way = _slice(job, budget)
            self._threads.submit(self._run, asyncio.get_running_loop(), under_way)
        try:
            await under_way.executed
        finally:
            # The thread takes an offer before it says that a slice is executed.
            self.ahead = None if self._not_taken else self._offer
            self._not_taken.clear()
            self._offer, self._executing = None, False

    def offer(self, job: Executable | None) -> None:
        """Let the thread execute a slice of this job next, unless one was offered before."""
        if job is not None and self._executing and self._offer is None:
            self._offer = _slice(job, self._budget)
            self._not_taken.append(self._offer)

    def go_on(self, job: Executable, behind: Executable | None) -> None:
        """Let a thread begin the job `behind` one that was just executed, which may have come too late to be offered:
        where nothing is ahead yet, no other resource waits for a thread, and `job` lets it begin.
        """
        if self.ahead is None and behind is not None and not self._threads.crowded and job.lets_begin(behind):
            self.ahead = _slice(behind, self._budget)
            self._threads.submit(self._run, asyncio.get_running_loop(), self.ahead)

    def withdraw(self) -> None:
        """Take back what was offered, if the thread has not taken it."""
        with suppress(IndexError):
            self._not_taken.pop()
            self._offer = None

    async def end(self) -> None:
        """Wait for what is ahead, which is not published any more."""
        if self.ahead is not None:
            with suppress(Exception):
                await self.ahead.executed

    def _run(self, loop: asyncio.AbstractEventLoop, first: Slice) -> None:
        """In the thread: execute a slice, and each that is offered meanwhile and may begin."""
        under_way: Slice | None = first
        while under_way is not None:
            job, budget, executed = under_way
            under_way = failure = None
            try:
                job.execute(budget)
                under_way = self._next(job)
            except BaseException as error:
                failure = error
            loop.call_soon_threadsafe(_resolve, executed, failure)

    def _next(self, job: Executable) -> Slice | None:
        """The slice that is offered, where this job lets it begin, and no other resource waits for the thread."""
        if self._threads.crowded:
            return None
        try:
            return self._not_taken.popleft() if job.lets_begin(self._not_taken[0].job) else None
        except IndexError:
            return None


def _slice(job: Executable, budget: float) -> Slice:
    """A slice that waits to be executed."""
    return Slice(job, budget, asyncio.get_running_loop().create_future())


def _resolve(executed: asyncio.Future[None], failure: BaseException | None) -> None:
    """Resolve a future unless whoever waits for it was cancelled."""
    if executed.done():
        return
    if failure is None:
        executed.set_result(None)
    else:
        executed.set_exception(failure)
