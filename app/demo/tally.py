"""Counts of what the demo has sent and received, in all and per second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from rankcast_client import Published

WINDOW_SECONDS = 5.0
STEP_SECONDS = 0.1


class Count:
    """A total, and its growth per second over the last few seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0
        self._clock = clock
        self._since = clock()
        self._recent: deque[tuple[float, int]] = deque()
        """When something was added, and how much; additions within STEP_SECONDS of each other share an element."""

    def add(self, amount: int) -> None:
        """Add to the total, now."""
        now = self._clock()
        self.total += amount
        if self._recent and now - self._recent[-1][0] < STEP_SECONDS:
            then, before = self._recent.pop()
            self._recent.append((then, before + amount))
        else:
            self._recent.append((now, amount))
        self._forget(now)

    def per_second(self) -> float:
        """The mean over the last WINDOW_SECONDS, or over the lifetime of the count where that is shorter."""
        now = self._clock()
        self._forget(now)
        seconds = min(now - self._since, WINDOW_SECONDS)
        return sum(amount for _, amount in self._recent) / seconds if seconds > 0 else 0.0

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] <= now - WINDOW_SECONDS:
            self._recent.popleft()


class Tally:
    """What the demo measures while it plays.

    `arrivals` are the events that the service has applied and `tiles` the messages that they caused, both as its
    answers say; `changes` are the changes received by the readers of the lists that are shown.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.arrivals = Count(clock)
        self.tiles = Count(clock)
        self.changes = Count(clock)

    def published(self, answer: Published) -> None:
        """Count one answered write."""
        self.arrivals.add(answer.applied)
        self.tiles.add(answer.tile_count or 0)
