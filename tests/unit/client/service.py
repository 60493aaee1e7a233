"""A stand-in for the service: it answers what a test says, and remembers what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpx
from websockets.asyncio.server import Server

from rankcast_client import AsyncRankcast, Retry

QUICK = Retry(attempts=4, first=0.001, most=0.002)

Answer = Callable[[httpx.Request], httpx.Response]


class Stream(httpx.AsyncByteStream):
    """A body that comes in these chunks; then it ends, breaks, or stays silent until the reader's patience ends."""

    def __init__(self, chunks: Iterable[bytes], end: str = "ends") -> None:
        self.chunks = chunks
        self.end = end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk
        if self.end == "breaks":
            raise httpx.ReadError("connection reset")
        if self.end == "silent":
            raise httpx.ReadTimeout("")


class Service(httpx.AsyncBaseTransport):
    """Answers requests from a script, one entry a request; an exception in it is raised."""

    def __init__(self, *script: httpx.Response | Exception | Answer) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def client(self, key: str | None = None) -> AsyncRankcast:
        return AsyncRankcast("http://rankcast.test", key, retry=QUICK, transport=self)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def answer(data: Any, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=data)


def problem(status: int, slug: str, *errors: tuple[str, str], **headers: str) -> httpx.Response:
    listed = [{"field": field, "reason": reason} for field, reason in errors]
    body = {"type": f"/problems/{slug}", "title": slug, "status": status, "detail": "", "errors": listed}
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json", **headers})


def stream(*blocks: bytes, end: str = "ends") -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(blocks, end))


def block(event: str, data: Any, seq: int, epoch: str = "e") -> bytes:
    return f"id: {epoch}:{seq}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


def listed(*members: tuple[str, float]) -> list[dict[str, Any]]:
    """A list's JSON; members are (id, delay) in order."""
    return [
        {"rank": rank, "id": id, "values": {"distance": 700, "delay": delay}, "created": rank}
        for rank, (id, delay) in enumerate(members, 1)
    ]


def changed(id: str, old: int | None, new: int | None, delay: float = 0) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": id, "old_rank": old, "new_rank": new}
    if new is not None:
        entry |= {"values": {"distance": 700, "delay": delay}, "created": 9}
    return entry


def address(server: Server) -> str:
    """The URL of a server of WebSockets."""
    host, port = next(iter(server.sockets)).getsockname()[:2]
    return f"http://{host}:{port}"
