"""What HTTP and WebSocket share: limits of connections, refusals by the protocol, timeouts of stalled clients."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from typing import Any, NamedTuple

import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.api.problems import Problem
from app.settings import Settings

_MOST_FILES = 1 << 20


class Limits(NamedTuple):
    """Timeouts of a connection in seconds: for a head, between two pieces of a body, and for a client that reads
    nothing while the write buffer is full (`unread_seconds`). `body_rate` is the least rate of a body, in bytes/s.
    """

    head_seconds: float
    body_seconds: float
    body_rate: int
    unread_seconds: float


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration with the limits of connections."""

    def __init__(self, app: Any, limits: Limits, **others: Any) -> None:
        super().__init__(app, **others)
        self.limits = limits


def limits_from(settings: Settings) -> Limits:
    """The limits that settings ask for."""
    return Limits(settings.head_seconds, settings.body_seconds, settings.body_rate, settings.unread_seconds)


def limits_of(config: Config) -> Limits:
    """The limits of a server."""
    assert isinstance(config, ServerConfig)
    return config.limits


def refusal(problem: Problem, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The bytes of a problem as the last response on a connection, with these headers."""
    response = problem.response()
    lines = [STATUS_LINE[response.status_code]]
    lines += [b"%s: %s\r\n" % pair for pair in (*headers, *response.raw_headers, (b"connection", b"close"))]
    return b"".join((*lines, b"\r\n", response.body))


class Unread:
    """Aborts a connection whose client reads nothing for `seconds` while the write buffer is full.

    `begin` and `end` are called by the transport's `pause_writing` and `resume_writing`. A client that reads slowly is
    not aborted: the timer starts again as long as the buffer shrinks. O(1) each.
    """

    __slots__ = ("_loop", "_seconds", "_size", "_timer", "_transport")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, seconds: float) -> None:
        self._loop = loop
        self._transport = transport
        self._seconds = seconds
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The write buffer is full."""
        if self._timer is None:
            self._wait()

    def end(self) -> None:
        """There is room in the write buffer again, or the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._size = self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() >= self._size:
            self._timer = None
            self._transport.abort()
        else:
            self._wait()


def raise_file_limit() -> None:
    """Let the process open as many files, that is connections, as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
