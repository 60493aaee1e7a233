"""What a gateway says of itself, also while the service behind it is away."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from app.gateway.main import Gateway
from app.settings import Settings
from tests.support.ports import free_port


async def told(path: str) -> list[tuple[int, bytes, str]]:
    """The answers to GET and to HEAD of a gateway without a service."""
    gateway = Gateway(Settings(nats="nats://127.0.0.1:1"), f"http://127.0.0.1:{free_port()}", None)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway), base_url="http://gateway") as http:
        answers = [await http.request(method, path) for method in ("GET", "HEAD")]
    await gateway.upstream.close()
    return [(answer.status_code, answer.content, answer.headers["content-length"]) for answer in answers]


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503), ("/metrics", 200)])
def test_what_is_told_to_get_is_told_to_head(path: str, status: int) -> None:
    (got, body, length), (headed, _, same) = asyncio.run(told(path))
    assert got == headed == status and body
    assert path == "/metrics" or length == same
