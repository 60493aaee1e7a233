"""The reading half of the two stream protocols, as cheap as can be: bytes are kept with their time and cut afterwards.

`SseCapture` reads server-sent events out of a chunked HTTP answer, `SocketCapture` the frames of a WebSocket. Both are
raw asyncio protocols without a task of their own, so that one process can hold thousands and leave the machine to the
service that it measures.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from bench.process import HOST

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Capture(asyncio.Protocol):
    """What a connection received, with the time of each piece. `status` is that of the answer's head, `nbytes` counts
    all bytes.

    `on_messages(n)` gets how many messages a piece brings, for progress only: one that is cut in its first line is
    not counted.
    """

    def __init__(self, opening: bytes, on_messages: Callable[[int], None]) -> None:
        self._opening = opening
        self._on_messages = on_messages
        self._head = b""
        self.status = 0
        self.pieces: list[tuple[float, bytes]] = []
        self.nbytes = 0
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._opening)

    def data_received(self, data: bytes) -> None:
        self.nbytes += len(data)
        if self.status:
            self.take(time.perf_counter(), data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end >= 0:
            self.status = int(self._head[9:12])
            rest, self._head = self._head[end + 4 :], b""
            if rest:
                self.take(time.perf_counter(), rest)

    def take(self, at: float, data: bytes) -> None:
        """Keep a piece of the body."""
        self.pieces.append((at, data))
        self._on_messages(data.count(b"event: "))

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True


class SseCapture(Capture):
    """A stream of server-sent events."""

    def messages(self) -> Iterator[tuple[float, str, bytes, bytes]]:
        """(time, event, data, id) of each block, the time being that of its last byte."""
        body = b""
        chunked = b""
        for at, piece in self.pieces:
            chunked += piece
            while chunked:
                line = chunked.find(b"\r\n")
                if line < 0:
                    break
                size = int(chunked[:line], 16)
                if len(chunked) < line + size + 4:
                    break
                body += chunked[line + 2 : line + 2 + size]
                chunked = chunked[line + size + 4 :]
            while (end := body.find(b"\n\n")) >= 0:
                block, body = body[:end], body[end + 2 :]
                fields = dict(part.split(b": ", 1) for part in block.split(b"\n") if b": " in part)
                yield at, fields.get(b"event", b"").decode(), fields.get(b"data", b""), fields.get(b"id", b"")


class SocketCapture(Capture):
    """A WebSocket. Frames are cut as they come, because pings have to be answered."""

    def __init__(self, opening: bytes, on_messages: Callable[[int], None]) -> None:
        super().__init__(opening, on_messages)
        self._rest = b""
        self.closed = 0

    def say(self, text: bytes, kind: int = TEXT) -> None:
        """Send one frame; the mask is zero, which leaves the payload as it is."""
        size = len(text)
        head = bytes((0x80 | kind, 0x80 | size)) if size < 126 else bytes((0x80 | kind, 0xFE)) + size.to_bytes(2, "big")
        self.transport.write(head + b"\0\0\0\0" + text)

    def take(self, at: float, data: bytes) -> None:
        rest = self._rest + data if self._rest else data
        start = 0
        while len(rest) - start >= 2:
            size, body = rest[start + 1] & 0x7F, start + 2
            if size == 126:
                size, body = int.from_bytes(rest[body : body + 2], "big"), body + 2
            elif size == 127:
                size, body = int.from_bytes(rest[body : body + 8], "big"), body + 8
            if len(rest) < body + size:
                break
            kind, payload = rest[start] & 0x0F, rest[body : body + size]
            start = body + size
            if kind == TEXT:
                self.pieces.append((at, payload))
                self._on_messages(1)
            elif kind == PING:
                self.say(payload, PONG)
            elif kind == CLOSE:
                self.closed = int.from_bytes(payload[:2], "big")
        self._rest = rest[start:]


def sse_opening(path: str) -> bytes:
    """The request for a stream."""
    return f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\naccept: text/event-stream\r\n\r\n".encode()


def socket_opening(path: str) -> bytes:
    """The handshake of a WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n"
    ).encode()


async def open_capture(port: int, make: Callable[[], Any]) -> Any:
    """Connect and send the opening."""
    _, capture = await asyncio.get_running_loop().create_connection(make, HOST, port)
    return capture
