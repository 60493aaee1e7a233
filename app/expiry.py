"""Subscriptions with a time to live: deleted when for that long no stream of theirs was open and no request named them.

The clock starts anew with the service. Deadlines lie in a heap, one for each subscription; being named or changed only
moves the entry in the dict, and the heap is put right when the old deadline comes up.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Awaitable, Callable, Iterable

from app import logs

log = logs.get("expiry")

Place = tuple[str, str]
Lifetimes = Iterable[tuple[str, float | None]]

SPARE = 1_024
"""Entries that the heap may hold beside those that are needed, before it is made anew."""


class Expiry:
    """Watches the deadlines. `is_open` tells whether a subscription has an open stream,
    `delete` deletes some."""

    def __init__(
        self,
        is_open: Callable[[str, str], bool],
        delete: Callable[[str, list[str]], Awaitable[object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_open = is_open
        self._delete = delete
        self._clock = clock
        self._standing: dict[Place, tuple[float, float]] = {}
        self._heap: list[tuple[float, Place]] = []
        self._next: dict[Place, float] = {}
        """When the heap looks at a subscription next. Its other entries there are void."""

    def __len__(self) -> int:
        return len(self._standing)

    def saw(self, name: str, lifetimes: Lifetimes) -> None:
        """Subscriptions of a resource were made, changed or deleted, or were recovered: from now on they may stay so
        many seconds, None for as long as they like, or gone."""
        for key, seconds in lifetimes:
            if seconds is not None:
                self._set(name, key, seconds)
            else:
                self._standing.pop((name, key), None)

    def drop(self, name: str) -> None:
        """A resource was deleted."""
        self._standing = {place: value for place, value in self._standing.items() if place[0] != name}

    def touch(self, name: str, key: str) -> None:
        """A request named a subscription."""
        standing = self._standing.get((name, key))
        if standing is not None:
            self._standing[name, key] = (self._clock() + standing[1], standing[1])

    def _set(self, name: str, key: str, seconds: float) -> None:
        due, place = self._clock() + seconds, (name, key)
        self._standing[place] = (due, seconds)
        if due < self._next.get(place, math.inf):
            self._push(due, place)
            if len(self._heap) > 2 * len(self._standing) + SPARE:
                self._next = {place: due for place, (due, _) in self._standing.items()}
                self._heap = [(due, place) for place, due in self._next.items()]
                heapq.heapify(self._heap)

    def _push(self, due: float, place: Place) -> None:
        self._next[place] = due
        heapq.heappush(self._heap, (due, place))

    def due(self) -> dict[str, list[str]]:
        """The subscriptions whose time has come, by resource; those with an open stream start anew."""
        now = self._clock()
        out: dict[str, list[str]] = {}
        while self._heap and self._heap[0][0] <= now:
            looked_at, place = heapq.heappop(self._heap)
            if self._next.get(place) != looked_at:
                continue
            del self._next[place]
            standing = self._standing.get(place)
            if standing is None:
                continue
            if self._is_open(*place):
                standing = self._standing[place] = (now + standing[1], standing[1])
            if standing[0] > now:
                self._push(standing[0], place)
            else:
                out.setdefault(place[0], []).append(place[1])
                self._standing[place] = (now + standing[1], standing[1])
                # Should the deletion fail (the log away), it is tried again.
                self._push(now + max(standing[1], 1.0), place)
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
