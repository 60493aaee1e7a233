"""The jobs of a service: the requests as values, and what following one has come to. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rankcast_client.calls import Call, Page, dumps, page, segment
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.sse import Block
from rankcast_client.transport import BUSY, Retry, describe

JobKind = Literal["snapshot", "rebuild", "verify"]
JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
JobEngine = Literal["local", "spark"]


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
        return self.state in ("succeeded", "failed", "cancelled")

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
    """Start a job and read its id. `resources` None: all that there are."""
    path = {"snapshot": "snapshots", "rebuild": "rebuilds", "verify": "verify"}[kind]
    body: dict[str, Any] = {}
    if resources is not None:
        body["resources"] = list(resources)
    if engine is not None:
        body["engine"] = engine
    return Call("POST", f"/v1/admin/{path}", lambda data: str(data["job"]), {}, dumps(body), "application/json")


def get_job(id: str) -> Call[Job]:
    return Call("GET", job_path(id), Job.from_json)


def cancel_job(id: str) -> Call[Job]:
    return Call("DELETE", job_path(id), Job.from_json)


def jobs(limit: int, cursor: str | None) -> Call[Page[Job]]:
    return page("/v1/admin/jobs", Job.from_json, limit, cursor)


def job_path(id: str, *parts: str) -> str:
    return "/".join(["/v1/admin/jobs", segment(id), *parts])


class JobFollower:
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
