"""The open connections of one service: how many there may be, when each ends, and when its heartbeat is due."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from app.errors import NotReady, ServiceError, TooMany
from app.runtime.metrics import Metrics
from app.security.callers import Caller
from app.streaming.connection import GOING_AWAY, POLICY, Connection, Reader

PATIENCE = 5.0
"""Seconds that a connection has to end on its own."""

LONGEST_TIMER = 86_400.0
"""Seconds after which the time of day is looked at again: timers do not follow it."""


class ConnectionLimits(Protocol):
    """The settings of connections."""

    @property
    def max_streams(self) -> int: ...
    @property
    def heartbeat_seconds(self) -> float: ...


class Connections:
    """Owns the open connections. `close_stream` ends one of their streams; `expire_stream` does, too, after a last
    message that the caller has expired.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        metrics: Metrics,
        clock: Callable[[], float],
        close_stream: Callable[[Reader], None],
        expire_stream: Callable[[Reader], None],
    ) -> None:
        self._limits = limits
        self._metrics = metrics
        self._clock = clock
        self._close_stream = close_stream
        self._expire_stream = expire_stream
        self._open: dict[Connection, bool] = {}
        """Open connections, and whether each counts toward the limit."""
        self._counted = 0
        self._beats: deque[tuple[float, Connection]] = deque()
        self.closing = False

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._open

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection, counts: bool = True) -> None:
        """Add a connection. One that has not sent its key yet does not count toward the limit.

        Raises the problems 429 (too many) and 503 (the service is ending).
        """
        if self.closing:
            raise NotReady("the service is ending")
        if counts:
            self._check_limit()
        self._open[connection] = False
        if not connection.lasting:
            self._beats.append((self._clock() + self._limits.heartbeat_seconds, connection))
        if counts:
            self.count(connection)

    def count(self, connection: Connection) -> None:
        """Count an open connection toward the limit, unless it is counted. Raises the problem 429."""
        if self._open.get(connection) is False:
            self._check_limit()
            self._open[connection] = True
            self._counted += 1
            self._metrics.streams.labels(connection.transport).inc()

    def remove(self, connection: Connection) -> None:
        """Remove a connection with all its streams. Idempotent."""
        if self._open.pop(connection, False):
            self._counted -= 1
            self._metrics.streams.labels(connection.transport).dec()
        for timer in connection.timers:
            timer.cancel()
        connection.timers.clear()
        for reader in list(connection.readers()):
            self._close_stream(reader)

    def bind(self, connection: Connection, caller: Caller) -> None:
        """Have a connection end when its caller is shut out or expires. It may have several callers."""
        connection.keys.add(caller.id)
        if caller.expires is not None:
            seconds = max(0.0, caller.expires - time.time())
            timer = asyncio.get_running_loop().call_later(min(seconds, LONGEST_TIMER), self._expire, connection, caller)
            connection.timers.append(timer)

    def _expire(self, connection: Connection, caller: Caller) -> None:
        """End the streams of an expired caller with `gone`, and then its connection."""
        if connection not in self._open:
            return
        if not caller.expired():
            self.bind(connection, caller)
            return
        for reader in list(connection.readers()):
            self._expire_stream(reader)
        connection.end(POLICY)
        asyncio.get_running_loop().call_later(PATIENCE, connection.abort)

    def end_key(self, key_id: str) -> None:
        """End every connection that was opened with an API key."""
        for connection in [connection for connection in self._open if key_id in connection.keys]:
            connection.end(POLICY, drop=True)
            asyncio.get_running_loop().call_later(PATIENCE, connection.abort)

    def stop(self) -> None:
        """Accept no more connections, and end those of clients as soon as their queues are empty."""
        self.closing = True
        for connection in self._of_clients():
            connection.end(GOING_AWAY)

    async def wait_closed(self, seconds: float) -> None:
        """Return when all connections of clients have ended; those that still send are aborted after `seconds`."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + seconds
        while self._of_clients() and loop.time() < give_up:  # noqa: ASYNC110 - or until the time is up
            await asyncio.sleep(0.01)
        for connection in self._of_clients():
            connection.abort()

    def take_due(self) -> list[Connection]:
        """The connections whose heartbeat is due now; their next one is due an interval later. O(due)."""
        now = self._clock()
        due: list[Connection] = []
        while self._beats and self._beats[0][0] <= now:
            connection = self._beats.popleft()[1]
            if connection in self._open:
                due.append(connection)
                self._beats.append((now + self._limits.heartbeat_seconds, connection))
        return due

    def _of_clients(self) -> list[Connection]:
        return [connection for connection in self._open if not connection.lasting]

    def _check_limit(self) -> None:
        if self._counted >= self._limits.max_streams:
            raise too_many(self._limits)


def too_many(limits: ConnectionLimits) -> ServiceError:
    """The problem of a connection or stream beyond the limit."""
    return TooMany(f"{limits.max_streams} streams are open, which is the limit")
