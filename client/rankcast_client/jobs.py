"""The jobs of a service: snapshots, rebuilds and verifications, started and followed. They need a key with `admin`.

async with AsyncRankcast(url, key) as rankcast:
    id = await rankcast.jobs.rebuild(["boards/delays"], engine="spark")
    async for job in rankcast.jobs.follow(id):
        print(f"{job.progress:.0%}", job.step)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import httpx

from rankcast_client import job_calls
from rankcast_client._base import AsyncConnection
from rankcast_client.errors import ProblemError
from rankcast_client.job_calls import Job, JobEngine, JobFollower
from rankcast_client.sse import Block, Parser
from rankcast_client.transport import STREAM_HEADERS, problem_of

SILENT_SECONDS = 45.0
"""A stream that says nothing for so long, not even a heartbeat, is lost."""


class AsyncJobs:
    """The jobs of a service; get it from `AsyncRankcast.jobs`."""

    def __init__(self, client: AsyncConnection) -> None:
        self._client = client

    async def snapshot(self, *, idempotency_key: str | None = None) -> str:
        """Start a snapshot. Return the job's id."""
        return await self._client.send(job_calls.start_job("snapshot"), idempotency_key)

    async def rebuild(
        self,
        resources: Sequence[str] | None = None,
        *,
        engine: JobEngine = "local",
        idempotency_key: str | None = None,
    ) -> str:
        """Start a rebuild of resources such as `boards/delays`, or of all. Return the job's id."""
        return await self._client.send(job_calls.start_job("rebuild", resources, engine), idempotency_key)

    async def verify(
        self,
        resources: Sequence[str] | None = None,
        *,
        engine: JobEngine = "local",
        idempotency_key: str | None = None,
    ) -> str:
        """Start a comparison of every list and index with a scan. Return the job's id."""
        return await self._client.send(job_calls.start_job("verify", resources, engine), idempotency_key)

    async def get(self, id: str) -> Job:
        """The job as it is now."""
        return await self._client.send(job_calls.get_job(id))

    async def cancel(self, id: str) -> Job:
        """Cancel a job: one that waits ends now, one that runs at its next step. Return the job as it is."""
        return await self._client.send(job_calls.cancel_job(id))

    def list(self) -> AsyncIterator[Job]:
        """All jobs that the service knows, in order."""
        return self._client.listing(job_calls.jobs)

    async def follow(self, id: str) -> AsyncIterator[Job]:
        """The job as it is, then whenever it has changed, up to its end; a lost connection is made again.

        Raises ProblemError when that is refused, with status 404 also when the service was restarted meanwhile and no
        longer knows the job, and Unreachable when it does not answer.
        """
        follower = JobFollower(self._client.retry, str(self._client.nodes))
        while not follower.over:
            try:
                async with aclosing(self._blocks(id)) as blocks:
                    async for block in blocks:
                        job = follower.take(block)
                        if job is not None:
                            yield job
                why: Exception | None = None
            except (httpx.TransportError, ProblemError) as error:
                why = error
            if not follower.over:
                await asyncio.sleep(follower.pause(why))

    async def _blocks(self, id: str) -> AsyncGenerator[Block, None]:
        http = self._client.streams
        timeout = httpx.Timeout(http.timeout.connect, read=SILENT_SECONDS)
        at = await self._client._choose(set(), leads=True)
        async with http.stream(
            "GET", at + job_calls.job_path(id, "stream"), headers=STREAM_HEADERS, timeout=timeout
        ) as response:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            parser = Parser()
            async for chunk in response.aiter_bytes():
                for block in parser.feed(chunk):
                    yield block
