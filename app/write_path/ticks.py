"""Ticks: logged commands that let posts expire from feeds with a window of time.

Without new posts nothing else expires them. Checking a feed costs microseconds, and no tick is made where nothing
expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from app.runtime import clock, logs
from app.write_path.resources import Resources
from indexes.feeds.commands import Tick
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine

CHECK_EVERY = 0.25
"""Seconds between two checks; ticks are at most a second late as long as the writer keeps up."""

log = logs.get("ticks")


def now() -> int:
    """The time of a new post or a tick: whole milliseconds since 1970."""
    return int(clock.now() * 1000)


class Ticks:
    """The ticks of all feeds; `clock` returns the time in whole milliseconds."""

    def __init__(self, feeds: Resources[FeedEngine, FeedConfig], clock: Callable[[], int]) -> None:
        self._feeds = feeds
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Tick where it is due, until cancelled."""
        try:
            while True:
                await asyncio.sleep(CHECK_EVERY)
                try:
                    self.check()
                except Exception:
                    log.exception("the clock of feeds failed")
        finally:
            for task in self._running.values():
                task.cancel()

    def check(self) -> list[Awaitable[None]]:
        """Start the ticks that are due, at most one at a time for each feed."""
        at = self._clock()
        for name in self._feeds.names():
            if name not in self._running and self._is_due(name, at):
                task = asyncio.create_task(self._tick(name, at))
                self._running[name] = task
        return list(self._running.values())

    def _is_due(self, name: str, at: int) -> bool:
        feed = self._feeds.get(name)
        if feed is None or feed.config.span is None:
            return False
        oldest = feed.oldest
        return oldest is not None and oldest <= at - feed.config.span

    async def _tick(self, name: str, at: int) -> None:
        try:
            await self._feeds.submit(name, Tick(at))
        except Exception as error:
            # No log, or the feed was deleted: the next check tries again.
            log.warning("a window of time stays as it is for now", feed=name, error=str(error))
        finally:
            del self._running[name]
