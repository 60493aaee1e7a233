"""Jobs of a service: snapshots, rebuilds and verifications, started and followed. They need a key with `admin`.

with Rankcast(url, key) as rankcast:
    id = rankcast.jobs.rebuild(["boards/delays"], engine="spark")
    for job in rankcast.jobs.follow(id):
        print(f"{job.progress:.0%}", job.step)
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import httpx

from rankcast_client.calls import Call, Page, dumps, page, segment
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.sse import Block, Parser
from rankcast_client.transport import BUSY, Retry, describe, problem_of

if TYPE_CHECKING:
    from rankcast_client.client import AsyncRankcast
    from rankcast_client.sync import Rankcast

JobKind = Literal["snapshot", "rebuild", "verify"]
JobState = Literal["queued", "running", "succeeded", "failed"]
JobEngine = Literal["local", "spark"]

SILENT_SECONDS = 45.0
"""A stream that says nothing for so long, not even a heartbeat, is lost."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it is now.

    `detail` has the `step` while it runs, what came of it at the end, or the `error`. `started` and `ended` are ISO
    times.
    """

    id: str
    kind: JobKind
    state: JobState
    progress: float
    detail: Mapping[str, Any] = field(default_factory=dict)
    started: str | None = None
    ended: str | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.state in ("succeeded", "failed")

    @property
    def step(self) -> str:
        """What it is at, in words; empty when that is not said."""
        return str(self.detail.get("step", ""))

    @property
    def error(self) -> str:
        """Why it failed; empty when it did not."""
        return str(self.detail.get("error", "")) if self.state == "failed" else ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        return cls(
            data["job"],
            data["kind"],
            data["state"],
            data["progress"],
            data.get("detail") or {},
            data.get("started"),
            data.get("ended"),
        )


def start_job(kind: JobKind, resources: Sequence[str] | None = None, engine: JobEngine | None = None) -> Call[str]:
    """Starts a job and reads its id. `resources` None: all that there are."""
    path = {"snapshot": "snapshots", "rebuild": "rebuilds", "verify": "verify"}[kind]
    body: dict[str, Any] = {}
    if resources is not None:
        body["resources"] = list(resources)
    if engine is not None:
        body["engine"] = engine
    return Call("POST", f"/v1/admin/{path}", lambda data: str(data["job"]), {}, dumps(body), "application/json")


def get_job(id: str) -> Call[Job]:
    return Call("GET", job_path(id), Job.from_json)


def jobs(limit: int, cursor: str | None) -> Call[Page[Job]]:
    return page("/v1/admin/jobs", Job.from_json, limit, cursor)


def job_path(id: str, *parts: str) -> str:
    return "/".join(["/v1/admin/jobs", segment(id), *parts])


class Jobs:
    """The jobs of a service; get it from `Rankcast.jobs`."""

    def __init__(self, client: Rankcast) -> None:
        self._client = client

    def snapshot(self, *, idempotency_key: str | None = None) -> str:
        """Starts a snapshot. Returns the job's id."""
        return self._client.send(start_job("snapshot"), idempotency_key)

    def rebuild(
        self,
        resources: Sequence[str] | None = None,
        *,
        engine: JobEngine = "local",
        idempotency_key: str | None = None,
    ) -> str:
        """Starts a rebuild of resources such as `boards/delays`, or of all. Returns the job's id."""
        return self._client.send(start_job("rebuild", resources, engine), idempotency_key)

    def verify(
        self,
        resources: Sequence[str] | None = None,
        *,
        engine: JobEngine = "local",
        idempotency_key: str | None = None,
    ) -> str:
        """Starts a comparison of every list and index with a scan. Returns the job's id."""
        return self._client.send(start_job("verify", resources, engine), idempotency_key)

    def get(self, id: str) -> Job:
        """The job as it is now."""
        return self._client.send(get_job(id))

    def list(self) -> Iterator[Job]:
        """All jobs that the service knows, in order."""
        return self._client._all(jobs)

    def follow(self, id: str) -> Iterator[Job]:
        """The job as it is, then whenever it has changed, up to its end; a lost connection is made again.

        Raises ProblemError when that is refused, with status 404 also when the service was started anew meanwhile and
        knows the job no more, and Unreachable when it does not answer.
        """
        course = _Course(self._client.retry, self._client.base_url)
        while not course.over:
            try:
                with closing(self._blocks(id)) as blocks:
                    for block in blocks:
                        job = course.take(block)
                        if job is not None:
                            yield job
                why: Exception | None = None
            except (httpx.TransportError, ProblemError) as error:
                why = error
            if not course.over:
                time.sleep(course.pause(why))

    def _blocks(self, id: str) -> Generator[Block, None, None]:
        """The blocks of one connection, until it ends or breaks."""
        http = self._client.http
        with http.stream("GET", job_path(id, "stream"), headers=_HEADERS, timeout=_timeout(http)) as response:
            if not response.is_success:
                response.read()
                raise problem_of(response)
            parser = Parser()
            for chunk in response.iter_bytes():
                yield from parser.feed(chunk)


class AsyncJobs:
    """The jobs of a service; get it from `AsyncRankcast.jobs`. Each method means what it means on `Jobs`."""

    def __init__(self, client: AsyncRankcast) -> None:
        self._client = client

    async def snapshot(self, *, idempotency_key: str | None = None) -> str:
        """Starts a snapshot. Returns the job's id."""
        return await self._client.send(start_job("snapshot"), idempotency_key)

    async def rebuild(
        self,
        resources: Sequence[str] | None = None,
        *,
        engine: JobEngine = "local",
        idempotency_key: str | None = None,
    ) -> str:
        """Starts a rebuild of resources such as `boards/delays`, or of all. Returns the job's id."""
        return await self._client.send(start_job("rebuild", resources, engine), idempotency_key)

    async def verify(
        self,
        resources: Sequence[str] | None = None,
        *,
        engine: JobEngine = "local",
        idempotency_key: str | None = None,
    ) -> str:
        """Starts a comparison of every list and index with a scan. Returns the job's id."""
        return await self._client.send(start_job("verify", resources, engine), idempotency_key)

    async def get(self, id: str) -> Job:
        """The job as it is now."""
        return await self._client.send(get_job(id))

    def list(self) -> AsyncIterator[Job]:
        """All jobs that the service knows, in order."""
        return self._client._all(jobs)

    async def follow(self, id: str) -> AsyncIterator[Job]:
        """The job as it is, then whenever it has changed, up to its end."""
        course = _Course(self._client.retry, self._client.base_url)
        while not course.over:
            try:
                async with aclosing(self._blocks(id)) as blocks:
                    async for block in blocks:
                        job = course.take(block)
                        if job is not None:
                            yield job
                why: Exception | None = None
            except (httpx.TransportError, ProblemError) as error:
                why = error
            if not course.over:
                await asyncio.sleep(course.pause(why))

    async def _blocks(self, id: str) -> AsyncGenerator[Block, None]:
        http = self._client.streams
        async with http.stream("GET", job_path(id, "stream"), headers=_HEADERS, timeout=_timeout(http)) as response:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            parser = Parser()
            async for chunk in response.aiter_bytes():
                for block in parser.feed(chunk):
                    yield block


_HEADERS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}


def _timeout(http: httpx.Client | httpx.AsyncClient) -> httpx.Timeout:
    return httpx.Timeout(http.timeout.connect, read=SILENT_SECONDS)


class _Course:
    """What following a job goes through: one connection after the other, until the job is over."""

    def __init__(self, retry: Retry, base_url: str) -> None:
        self.over = False
        self._retry = retry
        self._base_url = base_url
        self._failures = 0

    def take(self, block: Block) -> Job | None:
        """The job in a block, if there is one."""
        if block.event != "progress" or block.data is None:
            return None
        job = Job.from_json(json.loads(block.data))
        self.over = job.over
        self._failures = 0
        return job

    def pause(self, why: Exception | None) -> float:
        """Seconds until the next connection, after one that broke, was refused or (None) ended too early.

        Raises ProblemError or Unreachable when there is to be none.
        """
        problem = why if isinstance(why, ProblemError) else None
        if problem is not None and problem.status not in BUSY:
            raise problem
        self._failures += 1
        if self._failures >= self._retry.attempts:
            if problem is not None:
                raise problem
            raise Unreachable(f"{self._base_url} does not answer: {describe(why) if why else 'the stream ended'}")
        return self._retry.pause(self._failures, problem.retry_after if problem else None)
