"""The clock of windows of time: a tick is a logged command, made when posts of a feed are as old as its window.

Nothing else lets them go while nobody posts. One look at a feed costs microseconds, and where nothing expires no tick
is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from app import logs
from app.resources import Resources
from indexes.feeds.commands import Tick
from indexes.feeds.engine import FeedEngine
from indexes.feeds.model import FeedConfig

LOOK_EVERY = 0.25
"""Seconds between two looks; ticks are at most a second late as long as the writer keeps up."""

log = logs.get("ticks")


def now() -> int:
    """The time of a post that comes now, or of a tick: whole milliseconds since 1970."""
    return int(time.time() * 1000)


class Ticks:
    """Makes the ticks of all feeds; `clock` tells the time in whole milliseconds."""

    def __init__(self, feeds: Resources[FeedEngine, FeedConfig], clock: Callable[[], int]) -> None:
        self._feeds = feeds
        self._clock = clock
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Tick where it is due, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                try:
                    self.look()
                except Exception:
                    log.exception("the clock of feeds failed")
        finally:
            for task in self._under_way.values():
                task.cancel()

    def look(self) -> list[Awaitable[None]]:
        """Begin the ticks that are due; a feed has one at a time, and none waits for another's."""
        at = self._clock()
        for name in self._feeds.names():
            if name not in self._under_way and self._is_due(name, at):
                task = asyncio.create_task(self._tick(name, at))
                self._under_way[name] = task
        return list(self._under_way.values())

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
            # The log is away, or the feed is: the next look sees to it.
            log.warning("a window of time stays as it is for now", feed=name, error=str(error))
        finally:
            del self._under_way[name]
