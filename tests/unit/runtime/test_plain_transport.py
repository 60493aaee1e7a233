"""Failures of connections are errors of httpx."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from app.runtime.plain_transport import PlainTransport


@pytest.mark.parametrize(
    ("said", "raised"),
    [("'NoneType' object has no attribute 'getpeername'", httpx.ConnectError), ("no attribute", AttributeError)],
)
def test_a_connection_without_a_peer_was_not_made(
    monkeypatch: pytest.MonkeyPatch, said: str, raised: type[Exception]
) -> None:
    async def fails(self: Any, request: httpx.Request) -> httpx.Response:
        raise AttributeError(said)

    async def ask() -> None:
        async with httpx.AsyncClient(transport=PlainTransport()) as client:
            await client.get("http://127.0.0.1:9/")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", fails)
    with pytest.raises(raised):
        asyncio.run(ask())
