"""Requests that come on connections of a service in the test's process within one turn of the event loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from uvicorn.server import ServerState

from app.server.fast_path import ServiceProtocol
from app.server.listening import config_for
from app.settings import Settings
from tests.support.running import Running

SECONDS = 30.0
"""After which a request that is not answered hangs."""


class Line:
    """A connection's transport that keeps what is sent."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False
        self.protocol: Any = None
        self.changed = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.sent += data
        self.changed.set()

    def close(self) -> None:
        self.closed = True
        self.changed.set()

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 9)}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def answers(self) -> list[bytes]:
        """The whole answers that were sent, without what differs from one to the next."""
        found, rest = [], self.sent
        while b"\r\n\r\n" in rest:
            head, _, body = rest.partition(b"\r\n\r\n")
            size = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
            if len(body) < size:
                break
            whole, rest = head + b"\r\n\r\n" + body[:size], body[size:]
            lines, body = whole.split(b"\r\n\r\n", 1)
            first, *headers = [line for line in lines.split(b"\r\n") if not line.startswith(b"x-request-id")]
            found.append(b"\r\n".join((first, *sorted(headers), b"", re.sub(rb"request [0-9a-f-]+ ", b"", body))))
        return found

    async def receive(self, count: int) -> list[bytes]:
        """As many answers, or those before the service has closed the connection."""
        async with asyncio.timeout(SECONDS):
            while len(self.answers()) < count and not self.closed:
                self.changed.clear()
                await self.changed.wait()
        return self.answers()


class Door:
    """Opens connections to a service."""

    def __init__(self, running: Running) -> None:
        self.config = config_for(running.client.app, Settings(data=Path("unused")), [], ServiceProtocol, date=False)
        self.config.load()
        self.state = ServerState()

    def open(self) -> Line:
        line = Line()
        line.protocol = ServiceProtocol(config=self.config, server_state=self.state, app_state={})
        line.protocol.connection_made(line)
        return line


class Asked(NamedTuple):
    """What comes on a connection in one piece: how many answers it has at most."""

    data: bytes
    answers: int = 1


async def in_one_turn(door: Door, window: Sequence[Asked]) -> list[list[bytes]]:
    """The answers to what comes on as many connections at once."""
    return await in_turns(door, [window])


async def in_turns(door: Door, windows: Sequence[Sequence[Asked]]) -> list[list[bytes]]:
    """The answers to what comes on as many connections, each window in the turn of the event loop behind the last."""
    loop = asyncio.get_running_loop()
    turns = [[(door.open(), asked) for asked in window] for window in windows]

    def come(at: int) -> None:
        for line, asked in turns[at]:
            line.protocol.data_received(asked.data)
        if at + 1 < len(turns):
            loop.call_soon(come, at + 1)

    come(0)
    found = [await line.receive(asked.answers) for turn in turns for line, asked in turn]
    for turn in turns:
        for line, _ in turn:
            line.protocol.connection_lost(None)
    return found


async def one_by_one(door: Door, window: Sequence[Asked]) -> list[list[bytes]]:
    """The same where each comes when the one before is answered."""
    return [(await in_one_turn(door, [asked]))[0] for asked in window]


def request(
    method: str, path: str | bytes, body: bytes | None = None, *lines: bytes, host: bytes = b"127.0.0.1"
) -> bytes:
    """A request; `lines` are headers besides the usual ones, in place of which they are where they are about these."""
    path = path.encode() if isinstance(path, str) else path
    head = [b"%b %b HTTP/1.1" % (method.encode(), path), b"host: " + host]
    named = {line.partition(b":")[0].lower() for line in lines}
    if body is not None:
        head += [] if b"content-type" in named else [b"content-type: application/json"]
        head += [] if named & {b"content-length", b"transfer-encoding"} else [b"content-length: %d" % len(body)]
    return b"\r\n".join((*head, *lines, b"", b"")) + (body or b"")
