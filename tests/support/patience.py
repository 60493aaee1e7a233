"""How long tests wait for what must come: a limit for what is broken, which no slow or halted machine reaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 300.0
"""Seconds."""


def wait_until(
    true: Callable[..., Any],
    seconds: float = PATIENCE,
    pause: float = 0.005,
    why: Callable[[], object] = lambda: "waited in vain",
) -> None:
    """Return once it is true, which is looked at every `pause` seconds; `why` says what is missing at the end."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, why()
        time.sleep(pause)


async def wait_until_async(true: Callable[..., Any], seconds: float = PATIENCE, pause: float = 0.002) -> None:
    """As `wait_until`, on an event loop that goes on meanwhile."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(pause)
