"""How connectors run in either direction: they try again when the broker was lost, and end what they began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from app.connectors.counters import Counters
from app.connectors.errors import BrokerLost
from app.connectors.pauses import pause, wait_or


async def retry(
    attempt: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
    shown: str,
    counters: Counters,
    say: Callable[[str], None],
) -> None:
    """Attempt it until it returns or the end is asked for: again whenever the broker, which is `shown`, was lost.

    Pauses grow until a batch gets through.
    """
    failures = 0
    while not stop.is_set():
        before = counters.counts["batches"]
        try:
            await attempt()
        except BrokerLost as lost:
            counters.add("lost")
            failures = 1 if counters.counts["batches"] > before else failures + 1
            say(f"{shown} is away, trying again: {lost}")
        else:
            return
        await wait_or(stop, pause(failures))


@asynccontextmanager
async def ending(*tasks: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Cancel tasks at the end, and raise the error of the first one that failed."""
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
