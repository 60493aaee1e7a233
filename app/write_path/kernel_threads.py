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
    """An executor that knows how many of its threads are busy."""

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
    """Executes slices of the jobs of one resource in the kernel threads, one after another. Lives on the event loop.

    The next job may be offered while a slice is executed. If the current job `lets_begin` it, the thread goes on with
    it at once, for about `budget` seconds, before the loop has published the slice: the loop may be late, and the
    thread would be idle.
    """

    def __init__(self, threads: KernelThreads, budget: float) -> None:
        self._threads = threads
        self._budget = budget
        self._executing = False
        self._offer: Slice | None = None
        self._not_taken: deque[Slice] = deque()
        """The offer while the thread has not taken it, or empty: a deque, since both threads take from it."""
        self.ahead: Slice | None = None
        """The slice that was begun before the one before it is published."""

    async def execute(self, job: Executable, budget: float, behind: Executable | None) -> None:
        """Execute a slice of a job, or wait for the one that is `ahead`, which is of this job; offer the job `behind`.
        Raises what executing raises.
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
            # The thread takes an offer before it resolves the slice.
            self.ahead = None if self._not_taken else self._offer
            self._not_taken.clear()
            self._offer, self._executing = None, False

    def offer(self, job: Executable | None) -> None:
        """Offer a job to the thread as its next one, unless there is an offer."""
        if job is not None and self._executing and self._offer is None:
            self._offer = _slice(job, self._budget)
            self._not_taken.append(self._offer)

    def go_on(self, job: Executable, behind: Executable | None) -> None:
        """Begin the job `behind` one that was just executed, if that lets it, it came too late to be offered, and no
        other resource waits for a thread.
        """
        if self.ahead is None and behind is not None and not self._threads.crowded and job.lets_begin(behind):
            self.ahead = _slice(behind, self._budget)
            self._threads.submit(self._run, asyncio.get_running_loop(), self.ahead)

    def withdraw(self) -> None:
        """Withdraw the offer, unless the thread has taken it."""
        with suppress(IndexError):
            self._not_taken.pop()
            self._offer = None

    async def end(self) -> None:
        """Wait for the slice that is ahead, which will not be published."""
        if self.ahead is not None:
            with suppress(Exception):
                await self.ahead.executed

    def _run(self, loop: asyncio.AbstractEventLoop, first: Slice) -> None:
        """Execute a slice, and each that is offered meanwhile and may begin. In a kernel thread."""
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
        """Take the offer, if this job lets it begin and no other resource waits for the thread."""
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
