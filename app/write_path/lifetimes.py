"""Subscriptions with a time to live: deleted after so long without an open stream or a request that names them.

Lifetimes restart with the service. Deadlines are in a dict and a heap; a request or a change moves that in the dict
only, and the entry in the heap is corrected when it is reached.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

from app.runtime import logs

log = logs.get("expiry")

Place = tuple[str, str]
Lifetimes = Iterable[tuple[str, float | None]]

SOON = 2.0
"""Seconds before the end of its lifetime at which a subscription that is read is touched in any case."""

SPARE = 1_024
"""Stale entries that the heap may hold before it is rebuilt."""


class Expiry:
    """The deadlines of all subscriptions. `is_open` returns whether one has an open stream, `delete` deletes some."""

    def __init__(
        self,
        is_open: Callable[[str, str], bool],
        delete: Callable[[str, list[str]], Awaitable[object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_open = is_open
        self._delete = delete
        self._clock = clock
        self._deadlines: dict[Place, tuple[float, float]] = {}
        self._heap: list[tuple[float, Place]] = []
        self._next: dict[Place, float] = {}
        """The valid entry of a subscription in the heap. Others there are void."""
        self._touched: dict[Place, None] | None = None
        """What was touched since `take_touched`, where that is called."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def note_lifetimes(self, name: str, lifetimes: Lifetimes) -> None:
        """Note the lifetimes of subscriptions that were created, changed, deleted or recovered.

        None is unlimited or deleted.
        """
        for key, seconds in lifetimes:
            if seconds is not None:
                self._set(name, key, seconds)
            else:
                self._deadlines.pop((name, key), None)

    def drop(self, name: str) -> None:
        """Forget a deleted resource."""
        self._deadlines = {place: value for place, value in self._deadlines.items() if place[0] != name}

    def touch(self, name: str, key: str) -> None:
        """Restart the lifetime of a subscription that a request named."""
        deadline = self._deadlines.get((name, key))
        if deadline is not None:
            self._deadlines[name, key] = (self._clock() + deadline[1], deadline[1])
            if self._touched is not None:
                self._touched[name, key] = None

    def take_touched(self, read: Iterable[Place], most: int) -> list[Place]:
        """The subscriptions, at most so many, that were touched since the last call, and those of the ones being `read`
        half of whose lifetime is over.
        """
        if self._touched is None:
            self._touched = {}
        if self._deadlines:
            now = self._clock()
            for place in read:
                deadline = self._deadlines.get(place)
                if deadline is not None and deadline[0] - now < max(deadline[1] / 2, SOON):
                    self.touch(*place)
        taken = list(islice(self._touched, most))
        for place in taken:
            del self._touched[place]
        return taken

    def _set(self, name: str, key: str, seconds: float) -> None:
        due, place = self._clock() + seconds, (name, key)
        self._deadlines[place] = (due, seconds)
        if due < self._next.get(place, math.inf):
            self._push(due, place)
            if len(self._heap) > 2 * len(self._deadlines) + SPARE:
                self._next = {place: due for place, (due, _) in self._deadlines.items()}
                self._heap = [(due, place) for place, due in self._next.items()]
                heapq.heapify(self._heap)

    def _push(self, due: float, place: Place) -> None:
        self._next[place] = due
        heapq.heappush(self._heap, (due, place))

    def due(self) -> dict[str, list[str]]:
        """The expired subscriptions by resource; the lifetimes of those with an open stream restart."""
        now = self._clock()
        out: dict[str, list[str]] = {}
        while self._heap and self._heap[0][0] <= now:
            entry_due, place = heapq.heappop(self._heap)
            if self._next.get(place) != entry_due:
                continue
            del self._next[place]
            deadline = self._deadlines.get(place)
            if deadline is None:
                continue
            if self._is_open(*place):
                deadline = self._deadlines[place] = (now + deadline[1], deadline[1])
            if deadline[0] > now:
                self._push(deadline[0], place)
            else:
                out.setdefault(place[0], []).append(place[1])
                self._deadlines[place] = (now + deadline[1], deadline[1])
                # If the deletion fails (no log), it is tried again.
                self._push(now + max(deadline[1], 1.0), place)
        return out

    async def run(self) -> None:
        """Delete what is due, until cancelled."""
        while True:
            await asyncio.sleep(0.25)
            for name, keys in self.due().items():
                try:
                    await self._delete(name, keys)
                except Exception as error:
                    log.warning("expired subscriptions stay for now", resource=name, count=len(keys), error=str(error))
