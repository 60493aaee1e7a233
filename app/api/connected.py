"""Long answers, given up when the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")

AT_FIRST = 0.05
"""Seconds before the connection is watched: most answers come sooner, and need no second task."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; it is cancelled when the client of a request, whose body was read, has gone.

    Raises `ClientDisconnect`, and what `work` raises.
    """
    task = asyncio.ensure_future(work)
    watching: asyncio.Task[None] | None = None
    try:
        await asyncio.wait({task}, timeout=AT_FIRST)
        if not task.done():
            watching = asyncio.create_task(_disconnected(request))
            await asyncio.wait({task, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        if watching is not None:
            watching.cancel()


async def _disconnected(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
