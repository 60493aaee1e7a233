"""From the service to a broker: stream events of subscriptions, each after those before it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.connectors.counters import Counters
from app.connectors.following import UNKNOWN, Following, StreamEvent
from app.connectors.running import ending, retry
from app.connectors.state_file import StateFile
from app.connectors.targets.base import Target

TOGETHER = 500
"""Events of one batch, at the most."""

GRACE = 10.0
"""Seconds that a batch under way has when the publisher is to end."""

LISTS = ("boards/", "feeds/")
"""Resources whose events change a list. One that was published twice is no harm elsewhere."""


@dataclass
class Publisher:
    """What `rankcast publish` runs. `follow` makes what follows the subscriptions from their cursors."""

    target: Target
    shown: str
    resource: str
    ids: Sequence[str]
    follow: Callable[[Mapping[str, str | None]], Following]
    counters: Counters
    say: Callable[[str], None]
    state: StateFile | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until the end is asked for, or every subscription is gone. Raises ConnectorError."""
        await retry(partial(self._attempt, stop), stop, self.shown, self.counters, self.say)

    async def _attempt(self, stop: asyncio.Event) -> None:
        try:
            held = await self.target.open(self.ids)
            self.say(f"publishing to {self.shown}")
            await self._carry(self.follow(self._cursors(held)), stop)
        finally:
            await self.target.close()

    def _cursors(self, held: Mapping[str, str]) -> dict[str, str | None]:
        """Where to go on. A list that may be ahead of its cursor begins again: a change might fit another list."""
        if self.state is None:
            return {id: (held[id] or UNKNOWN) if id in held else None for id in self.ids}
        known = self.state.cursors
        doubtful = self.state.doubtful if self.resource.startswith(LISTS) else frozenset()
        return {id: UNKNOWN if id in doubtful else known.get(id) for id in self.ids}

    async def _carry(self, following: Following, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        reading = asyncio.create_task(following.run())
        sending = asyncio.create_task(self._send_all(following, reading, stop))
        try:
            async with ending(sending, reading, stopped):
                await asyncio.wait({stopped, sending}, return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    await asyncio.wait({sending}, timeout=GRACE)
        finally:
            self.counters.add("reconnects", following.reconnects)

    async def _send_all(self, following: Following, reading: asyncio.Task[None], stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                first = asyncio.create_task(following.events.get())
                await asyncio.wait({first, reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if first.done():
                    await self._send([first.result(), *following.taken(TOGETHER - 1)])
                    continue
                first.cancel()
                if reading.done():
                    if following.events.empty():
                        return
                    await self._send(following.taken(TOGETHER))
        finally:
            stopped.cancel()

    async def _send(self, events: Sequence[StreamEvent]) -> None:
        cursors = {event.id: event.cursor for event in events}
        if self.state is not None:
            await asyncio.to_thread(self.state.begin, cursors)
        began = time.perf_counter()
        await self.target.publish(events)
        if self.state is not None:
            await asyncio.to_thread(self.state.done, cursors)
        self.counters.seconds.observe(time.perf_counter() - began)
        self.counters.add("events", len(events))
        self.counters.add("published", len(events))
        self.counters.add("resets", sum(event.event == "reset" for event in events))
        self.counters.add("batches")
