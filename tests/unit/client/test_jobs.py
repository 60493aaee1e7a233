"""Jobs through both clients, against a service that answers from a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from rankcast_client import Job, ProblemError, Rankcast, Unreachable
from tests.unit.client.service import QUICK, Service, Stream, answer, problem

Follow = Callable[[list[Any]], list[Job]]


def shown(state: str = "running", progress: float = 0.0, **detail: Any) -> dict[str, Any]:
    return {
        "job": "j3",
        "kind": "rebuild",
        "state": state,
        "progress": progress,
        "detail": detail,
        "started": "2026-01-01T00:00:00.000+00:00",
        "ended": None,
    }


def block(event: str, data: Any, version: int = 0) -> bytes:
    return f"id: j3:{version}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


GONE = block("gone", {"job": "j3"})
HEAD = {"content-type": "text/event-stream"}


def sync_client(*script: Any) -> tuple[Rankcast, list[httpx.Request]]:
    asked: list[httpx.Request] = []
    left = list(script)

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return httpx.Response(200, headers=HEAD, content=found) if isinstance(found, bytes) else found

    return Rankcast("http://rankcast.test", retry=QUICK, transport=httpx.MockTransport(handle)), asked


def follow_sync(script: list[Any]) -> list[Job]:
    client, _ = sync_client(*script)
    with client:
        return list(client.jobs.follow("j3"))


def follow_async(script: list[Any]) -> list[Job]:
    async def run() -> list[Job]:
        service = Service(
            *(
                httpx.Response(200, headers=HEAD, stream=Stream([one])) if isinstance(one, bytes) else one
                for one in script
            )
        )
        async with service.client() as client:
            return [job async for job in client.jobs.follow("j3")]

    return asyncio.run(run())


both = pytest.mark.parametrize("follow", [follow_sync, follow_async])


def test_what_is_asked_for_is_sent() -> None:
    client, asked = sync_client(*(answer({"job": f"j{n}"}, 202) for n in range(1, 5)))
    with client:
        assert client.jobs.snapshot(idempotency_key="once") == "j1"
        assert client.jobs.rebuild() == "j2"
        assert client.jobs.rebuild(["boards/b"], engine="spark") == "j3"
        assert client.jobs.verify(["boards/b"]) == "j4"
    assert [(one.url.path.rpartition("/")[2], json.loads(one.content)) for one in asked] == [
        ("snapshots", {}),
        ("rebuilds", {"engine": "local"}),
        ("rebuilds", {"resources": ["boards/b"], "engine": "spark"}),
        ("verify", {"resources": ["boards/b"], "engine": "local"}),
    ]
    keys = [one.headers["idempotency-key"] for one in asked]
    assert keys[0] == "once"
    assert len(set(keys)) == 4


def test_a_job_reads_as_the_service_shows_it() -> None:
    client, _ = sync_client(answer(shown("failed", 0.5, error="there is no Java")))
    job = client.jobs.get("j3")
    assert job == Job("j3", "rebuild", "failed", 0.5, {"error": "there is no Java"}, shown()["started"], None)
    assert (job.over, job.error, job.step) == (True, "there is no Java", "")


def test_all_pages_are_listed() -> None:
    pages = [{"items": [shown()], "next": "x"}, {"items": [shown("succeeded", 1.0)], "next": None}]
    client, asked = sync_client(*(answer(page) for page in pages))
    assert [job.state for job in client.jobs.list()] == ["running", "succeeded"]
    assert asked[1].url.params["cursor"] == "x"

    async def run() -> list[str]:
        async with Service(*(answer(page) for page in pages)).client() as client:
            return [job.state async for job in client.jobs.list()]

    assert asyncio.run(run()) == ["running", "succeeded"]


@both
def test_a_job_is_followed_to_its_end(follow: Follow) -> None:
    said = block("progress", shown(step="laying out")) + b"id: j3:1\n\n" + block("progress", shown("succeeded", 1.0))
    found = follow([said + GONE])
    assert [(job.state, job.progress, job.step) for job in found] == [
        ("running", 0.0, "laying out"),
        ("succeeded", 1.0, ""),
    ]


@both
def test_a_lost_stream_is_opened_again(follow: Follow) -> None:
    found = follow(
        [
            httpx.ConnectError("refused"),
            block("progress", shown(progress=0.25)),
            problem(503, "not-ready"),
            block("progress", shown(progress=0.5)) + block("progress", shown("failed", 0.5)) + GONE,
        ]
    )
    assert [job.progress for job in found] == [0.25, 0.5, 0.5]


@both
def test_a_job_that_the_service_forgot_is_said(follow: Follow) -> None:
    with pytest.raises(ProblemError) as refusal:
        follow([block("progress", shown()), problem(404, "not-found")])
    assert refusal.value.status == 404


@both
def test_a_service_that_does_not_come_back_is_said(follow: Follow) -> None:
    with pytest.raises(Unreachable, match="does not answer: refused"):
        follow([block("progress", shown()), *(httpx.ConnectError("refused") for _ in range(3))])
    with pytest.raises(Unreachable, match="the stream ended"):
        follow([b""] * 4)


def test_a_job_is_cancelled_and_over() -> None:
    client, asked = sync_client(answer(shown("running", 0.5, step="cancelling")), answer(shown("cancelled", 0.5)))
    with client:
        assert (job := client.jobs.cancel("j3")).state == "running" and not job.over
        assert (job := client.jobs.get("j3")).state == "cancelled" and job.over
    assert [(one.method, one.url.path) for one in asked] == [
        ("DELETE", "/v1/admin/jobs/j3"),
        ("GET", "/v1/admin/jobs/j3"),
    ]

    async def run() -> str:
        async with Service(answer(shown("cancelled", 0.5))).client() as client:
            return (await client.jobs.cancel("j3")).state

    assert asyncio.run(run()) == "cancelled"


@both
def test_following_ends_with_a_job_that_is_cancelled(follow: Follow) -> None:
    said = block("progress", shown()) + block("progress", shown("cancelled", 0.2), 1) + GONE
    assert [job.state for job in follow([said])] == ["running", "cancelled"]
