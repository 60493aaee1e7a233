"""Jobs: long work that an administrator or the schedule starts, one at a time, first come first served.

A job lives as long as the process: one that has not ended at shutdown is `failed`, and after a restart it is unknown.
Its id stays unique all the same: numbers are never reused on a data directory (`Numbers`), so that a response stored
under an Idempotency-Key names no other job later.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from app.errors import NotReady, ServiceError, TooMany
from app.runtime import interpreter, logs
from app.runtime.metrics import Metrics

Kind = Literal["snapshot", "rebuild", "verify"]
State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Engine = Literal["local", "spark"]

WAITING = 16
"""Jobs that may wait behind the running one."""

WAITING_FOR_KERNELS = "waiting for kernels"
"""The step of a job that waits for kernels to be compiled; its progress has the compiled share as ``kernels``."""

LOOK_SECONDS = 0.5
"""Seconds between two checks of that share."""

CANCELLED = "the job was cancelled"

KEPT = 100
"""Ended jobs that are kept."""

PAUSE = 0.25
"""Least seconds between two calls of a job's watchers."""

PATIENCE = 10.0
"""Seconds that a cancelled job has to end."""

log = logs.get("jobs")


class Report(Protocol):
    """The progress callback of a job. May be called from any thread, at any rate."""

    def __call__(self, fraction: float, step: str, /) -> None:
        """`fraction` of the work is done, 0 to 1, never less than before. `step` describes the present step."""


Run = Callable[[Report], Awaitable[dict[str, Any]]]
"""The work of a job; it returns the job's detail, which is JSON."""


class Maintenance(Protocol):
    """The work of jobs. `resources` are names such as ``boards/delays``, None for all.

    Each raises `JobFailed` for expected failures.
    """

    async def snapshot(self, report: Report) -> dict[str, Any]:
        """Write a snapshot: ``{"lsn", "bytes", "seconds"}``."""

    async def rebuild(
        self, report: Report, resources: list[str] | None, engine: str, rederive: bool = True
    ) -> dict[str, Any]:
        """Take a snapshot and pack indexes again; with `rederive` relays forward the least possible afterwards.

        Returns ``{"engine", "rows", "seconds"}``, and for relays ``"rederived"``: the changes of what each forwards.
        """

    async def verify(self, report: Report, resources: list[str] | None, engine: str) -> dict[str, Any]:
        """Compare lists and indexes with a scan: ``{"compared", "differences"}``; any difference is a failure."""


Ended = Literal["succeeded", "failed", "cancelled"]


class JobFailed(Exception):
    """A job failed; the message is a sentence for its users, `detail` goes with it."""

    def __init__(self, message: str, detail: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.detail = detail or {}


class JobCancelled(JobFailed):
    """A job was cancelled after it had changed what users must know of: `detail`."""


class Numbers:
    """The numbers of jobs from 1, each used once; with a `file` also across restarts."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._last = 0 if file is None else _read(file)

    def next(self) -> int:
        """The next unused number."""
        self._last += 1
        if self._file is not None:
            try:
                partial = self._file.with_name(self._file.name + ".partial")
                partial.write_text(f"{self._last}\n")
                os.replace(partial, self._file)
            except OSError as error:
                log.warning("the number of a job is not kept", file=str(self._file), error=str(error))
        return self._last


def _read(file: Path) -> int:
    try:
        text = file.read_text(errors="replace").strip()
    except FileNotFoundError:
        return 0
    except OSError as error:
        log.warning("the numbers of jobs start over", file=str(file), error=str(error))
        return 0
    return int(text) if text.isascii() and text.isdigit() else 0


class Job:
    """One job.

    `number` is that of its id, `version` counts calls of its watchers, `started` and `ended` are in seconds since 1970;
    `cancelling` says that it is to end at its next step.
    """

    def __init__(self, number: int, kind: Kind, pause: float = PAUSE) -> None:
        self.number = number
        self.kind: Kind = kind
        self.state: State = "queued"
        self.progress = 0.0
        self.detail: dict[str, Any] = {}
        self.started: float | None = None
        self.ended: float | None = None
        self.cancelling = False
        self.version = 0
        self._pause = pause
        self._watchers: dict[object, Callable[[], None]] = {}
        self._done = asyncio.Event()
        self._notified_at = 0.0
        self._later: asyncio.TimerHandle | None = None

    @property
    def id(self) -> str:
        return f"j{self.number}"

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.ended is not None

    def shown(self) -> dict[str, Any]:
        """The job as the API shows it."""
        return {
            "job": self.id,
            "kind": self.kind,
            "state": self.state,
            "progress": round(self.progress, 4),
            "detail": self.detail,
            "started": _iso(self.started),
            "ended": _iso(self.ended),
        }

    def watch(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call `on_change` when the job has changed, at most every `PAUSE` seconds, and at its end.

        Returns a function that stops it.
        """
        token = object()
        self._watchers[token] = on_change
        return lambda: self._watchers.pop(token, None) and None

    async def wait(self) -> None:
        """Return when it has ended."""
        await self._done.wait()

    def begin(self) -> None:
        """Note that it runs."""
        self.state, self.started = "running", time.time()
        self._notify()

    def advance(self, fraction: float, step: str, **more: Any) -> None:
        """Note the progress, with what `more` there is to say of the step; ignored once it has ended."""
        if self.over:
            return
        if self.progress < fraction:
            self.progress = min(fraction, 1.0)
        if step:
            self.detail = {"step": "cancelling"} if self.cancelling else {"step": step, **more}
        due = self._notified_at + self._pause - time.monotonic()
        if due <= 0:
            self._notify()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(due, self._notify)

    def finish(self, state: Ended, detail: dict[str, Any]) -> None:
        """Note its end."""
        self.state, self.detail, self.ended = state, detail, time.time()
        if state == "succeeded":
            self.progress = 1.0
        self._notify()
        self._watchers.clear()
        self._done.set()

    def _notify(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._notified_at = time.monotonic()
        self.version += 1
        for watcher in list(self._watchers.values()):
            watcher()


class Jobs:
    """The queue of one service and its last jobs. Lives on the event loop."""

    def __init__(
        self,
        metrics: Metrics,
        numbers: Numbers | None = None,
        *,
        waiting: int = WAITING,
        kept: int = KEPT,
        pause: float = PAUSE,
        ready: Callable[[], Awaitable[None]] | None = None,
        compiled: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`ready` returns once the kernels are; `compiled` is the share of them that is."""
        self._metrics = metrics
        self._ready = ready
        self._compiled = compiled
        self._numbers = numbers or Numbers()
        self._most_waiting = waiting
        self._most_kept = kept
        self._pause = pause
        self._jobs: dict[int, Job] = {}
        self._queue: deque[tuple[Job, Run]] = deque()
        self._ended: deque[int] = deque()
        self._reserved = 0
        self._runner: asyncio.Task[None] | None = None
        self._running: asyncio.Task[dict[str, Any]] | None = None
        self._closed = False
        metrics.gauge("rankcast_jobs_open", "Jobs that have not ended.", "state", self._count)

    def __iter__(self) -> Iterator[Job]:
        """The known jobs, in order of number."""
        return iter([self._jobs[number] for number in sorted(self._jobs)])

    def get(self, id: str) -> Job | None:
        """The job with an id; None if it is unknown or no longer kept."""
        number = number_of(id)
        return None if number is None else self._jobs.get(number)

    def open(self) -> list[Job]:
        """The jobs that wait or run, in order of number."""
        return [job for job in self if not job.over]

    def reserve(self, kind: Kind) -> Job:
        """A place in the queue, until `start` or `withdraw`; the job is not listed before it is started.

        Raises the problems 429 (too many are waiting) and 503 (the service is ending).
        """
        if self._closed:
            raise NotReady("the service is ending")
        if len(self._queue) + self._reserved >= self._most_waiting:
            raise TooMany(f"{self._most_waiting} jobs are waiting, which is the limit")
        self._reserved += 1
        return Job(self._numbers.next(), kind, self._pause)

    def withdraw(self, job: Job) -> None:
        """Give up a reserved place."""
        self._reserved -= 1

    def start(self, job: Job, run: Run) -> None:
        """Queue a reserved job."""
        self._reserved -= 1
        self._jobs[job.number] = job
        if self._closed:
            self._finish(job, "failed", {"error": "the service ended before the job began"})
            return
        self._queue.append((job, run))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._run_all())

    def cancel(self, job: Job) -> None:
        """End a job that waits now, and one that runs at its next step; one that has ended stays as it is."""
        if job.over or job.cancelling:
            return
        if job.state == "queued":
            self._queue = deque(each for each in self._queue if each[0] is not job)
            self._finish(job, "cancelled", {"error": CANCELLED})
            return
        job.cancelling = True
        job.advance(job.progress, "cancelling")
        log.info("job is cancelled", job=job.id, kind=job.kind)
        if self._running is not None:
            self._running.cancel()

    def submit(self, kind: Kind, run: Run) -> Job:
        """Queue a job. Raises as `reserve`."""
        job = self.reserve(kind)
        self.start(job, run)
        return job

    async def wait(self, id: str) -> Job:
        """The job once it has ended. Raises KeyError for one that is not known."""
        job = self.get(id)
        if job is None:
            raise KeyError(id)
        await job.wait()
        return job

    async def close(self, seconds: float = PATIENCE) -> None:
        """Accept no more, fail waiting jobs and cancel the running one, which has so many seconds to end."""
        self._closed = True
        while self._queue:
            job, _ = self._queue.popleft()
            self._finish(job, "failed", {"error": "the service ended before the job began"})
        if self._running is not None:
            self._running.cancel()
        if self._runner is not None:
            _, late = await asyncio.wait([self._runner], timeout=seconds)
            if late:
                log.warning("a job does not end", jobs=[job.id for job in self.open()])
                self._runner.cancel()

    async def _run_all(self) -> None:
        while self._queue:
            # Started in a later step of the event loop, so that its creator sees it queued.
            await asyncio.sleep(0)
            if self._queue:
                await self._run(*self._queue.popleft())
                # A job allocates much memory for a short time, most of it in arenas of threads, where it stays unused.
                await asyncio.to_thread(interpreter.give_back)

    async def _when_ready(self, run: Run, job: Job) -> dict[str, Any]:
        if self._ready is not None:
            # Where there is nothing to wait for, this never runs.
            showing = asyncio.create_task(self._show_waiting(job))
            try:
                await self._ready()
            except ServiceError as problem:
                raise JobFailed(f"{problem.detail}; the job did not begin") from None
            finally:
                showing.cancel()
            if job.detail.get("step") == WAITING_FOR_KERNELS:
                job.advance(0.0, "beginning")
        return await _called(run, _reporter(job))

    async def _show_waiting(self, job: Job) -> None:
        """Keep noting how far the kernels are that a job waits for."""
        while True:
            job.advance(0.0, WAITING_FOR_KERNELS, kernels=round(self._compiled(), 4))
            await asyncio.sleep(LOOK_SECONDS)

    async def _run(self, job: Job, run: Run) -> None:
        job.begin()
        log.info("job started", job=job.id, kind=job.kind)
        self._running = asyncio.ensure_future(self._when_ready(run, job))
        try:
            await asyncio.wait([self._running])
        except asyncio.CancelledError:
            self._finish(job, "failed", {"error": "the service ended while the job ran"})
            raise
        task, self._running = self._running, None
        if task.cancelled():
            if job.cancelling:
                self._finish(job, "cancelled", {"error": CANCELLED})
            else:
                why = "the service ended while the job ran" if self._closed else CANCELLED
                self._finish(job, "failed", {"error": why})
            return
        error = task.exception()
        if error is None:
            self._finish(job, "succeeded", task.result())
        elif isinstance(error, JobFailed):
            state: Ended = "cancelled" if isinstance(error, JobCancelled) else "failed"
            self._finish(job, state, {"error": str(error), **error.detail})
        else:
            log.error("a job broke", job=job.id, kind=job.kind, exc_info=error)
            self._finish(job, "failed", {"error": _short(error)})

    def _finish(self, job: Job, state: Ended, detail: dict[str, Any]) -> None:
        try:
            json.dumps(detail, allow_nan=False)
        except (TypeError, ValueError) as error:
            log.error("a job's detail is not JSON", job=job.id, kind=job.kind, exc_info=error)
            detail = {"error": str(detail["error"])} if "error" in detail else {}
        job.finish(state, detail)
        self._metrics.jobs.labels(job.kind, state).inc()
        seconds = None if job.started is None or job.ended is None else round(job.ended - job.started, 3)
        if state == "succeeded":
            log.info("job succeeded", job=job.id, kind=job.kind, seconds=seconds)
        else:
            log.warning(f"job {state}", job=job.id, kind=job.kind, seconds=seconds, error=detail.get("error"))
        self._ended.append(job.number)
        while len(self._ended) > self._most_kept:
            del self._jobs[self._ended.popleft()]

    def _count(self) -> dict[str, float]:
        found = Counter(job.state for job in self.open())
        return {state: found[state] for state in get_args(State)[:2]}


async def _called(run: Run, report: Report) -> dict[str, Any]:
    return await run(report)


def _reporter(job: Job) -> Report:
    """The progress callback of a running job: the last call counts, and many calls wake the loop once."""
    loop = asyncio.get_running_loop()
    latest = (0.0, "")
    called = False

    def apply() -> None:
        nonlocal called
        called = False
        job.advance(*latest)

    def report(fraction: float, step: str, /) -> None:
        nonlocal latest, called
        latest = (float(fraction), step)
        if not called:
            called = True
            try:
                loop.call_soon_threadsafe(apply)
            except RuntimeError:
                # The loop has ended, and the job with it.
                return

    return report


def number_of(id: str) -> int | None:
    """The number in a job's id.

    >>> number_of("j12"), number_of("j012"), number_of("k1")
    (12, None, None)
    """
    digits = id[1:]
    if id[:1] != "j" or not (digits.isascii() and digits.isdigit()) or digits[0] == "0" or len(digits) > 15:
        return None
    return int(digits)


def _short(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
