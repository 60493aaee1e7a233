"""How long to wait for what is away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress

FIRST, MOST = 0.1, 10.0


def pause(failures: int, asked: float = 0.0) -> float:
    """Seconds after so many failures in a row: doubling, drawn at random, and at the least what was `asked` for."""
    whole = min(MOST, FIRST * 2.0 ** min(failures - 1, 30))
    return max(whole * random.uniform(0.5, 1.0), min(asked, 30.0))


async def wait_or(stop: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the end is asked for; whether it is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


async def quietly(closing: Awaitable[object]) -> None:
    """Close what may be broken already."""
    with suppress(Exception):
        async with asyncio.timeout(5):
            await closing
