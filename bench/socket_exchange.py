"""A WebSocket's client that costs next to nothing: frames are bytes made beforehand, answers counted by their frames.

Frames are masked with zeros, which leaves them as they are. It understands what the service sends: frames in one piece.
It answers pings: a service closes the socket of a client that does not for 20 seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

from bench.exchange import Clock, milliseconds
from bench.process import HOST, Failed

_HANDSHAKE = (
    "GET /v1/stream HTTP/1.1\r\nhost: {host}\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)

TEXT, BINARY = 0x81, 0x82
_CLOSE, _PING, _PONG = 0x88, 0x89, 0x8A

_GOOD = b'"status":200', b'"status":201', b"\xa6status\xcc\xc8", b"\xa6status\xcc\xc9"
"""How responses with status 200 and 201 say that, in JSON and in MessagePack."""


def frame(payload: bytes, kind: int = TEXT) -> bytes:
    """A client's frame."""
    size = len(payload)
    if size < 126:
        head = bytes((kind, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((kind, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((kind, 0xFF)) + size.to_bytes(8, "big")
    return head + bytes(4) + payload


class Pipelined(asyncio.Protocol):
    """Sends frames with at most `window` of them unanswered; responses with another status than 200 or 201 are
    counted."""

    def __init__(self, frames: Sequence[bytes], window: int) -> None:
        self._frames: Iterator[bytes] = iter(frames)
        self._left = len(frames)
        self._window = window
        self._opened = False
        self._read = b""
        self._sent: list[float] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.seconds: list[float] = []
        self.unexpected = 0
        self.last = b""
        self.bytes = 0
        self._why = "without saying why"

    async def run(self, port: int) -> dict[str, Any]:
        """Send everything; what it took, from the first frame sent to the last answer. Raises `Failed`."""
        if self._left == 0:
            raise Failed("there are no frames to send")
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: self, HOST, port)
        await self._done
        transport.close()
        return {
            "elapsed": self._ended - self._began,
            "requests": len(self.seconds),
            "statuses": {"200": len(self.seconds) - self.unexpected}
            | ({"other": self.unexpected} if self.unexpected else {}),
            "answer_bytes": self.bytes,
            "last": self.last[:300].decode(errors="replace"),
            "ms": milliseconds(self.seconds),
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_HANDSHAKE.format(host=HOST).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            left = f"{len(self._sent) - len(self.seconds)} requests unanswered"
            self._done.set_exception(Failed(f"the service closed the socket {self._why}, {left}: {self._read[:300]!r}"))

    def data_received(self, data: bytes) -> None:
        self._read += data
        if not self._opened:
            head, end, self._read = self._read.partition(b"\r\n\r\n")
            if not end:
                self._read = head
                return
            if b" 101 " not in head[:20]:
                self._done.set_exception(Failed(f"the socket is refused: {head!r}"))
                return
            self._opened = True
            self._began = time.perf_counter()
            self._send(self._window)
        read, at, answered = self._read, 0, 0
        now = time.perf_counter()
        while len(read) - at >= 2:
            size, begin = read[at + 1], at + 2
            if size >= 126:
                begin += 2 if size == 126 else 8
                if len(read) < begin:
                    break
                size = int.from_bytes(read[at + 2 : begin], "big")
            end_of_frame = begin + size
            if end_of_frame > len(read):
                break
            if read[at] == _PING:
                self._transport.write(frame(read[begin:end_of_frame], _PONG))
            elif read[at] == _CLOSE:
                code = int.from_bytes(read[begin : begin + 2], "big")
                self._why = f"with {code} {read[begin + 2 : end_of_frame].decode(errors='replace')}"
            elif read.find(b"response", begin, end_of_frame) >= 0:
                answered += 1
                if not any(read.find(good, begin, end_of_frame) >= 0 for good in _GOOD):
                    self.unexpected += 1
                    self.last = read[begin:end_of_frame]
            at = end_of_frame
        self.bytes += at
        self._read = read[at:]
        if answered:
            count = len(self.seconds)
            self.seconds += [now - sent for sent in self._sent[count : count + answered]]
            self._left -= answered
            if self._left == 0:
                self._ended = now
                self._done.set_result(None)
                return
            self._send(answered)

    def _send(self, count: int) -> None:
        now = time.perf_counter()
        some = [each for _, each in zip(range(count), self._frames, strict=False)]
        if some:
            self._sent += [now] * len(some)
            self._transport.write(b"".join(some))


async def send_frames(frames: Sequence[bytes], server: dict[str, Any], window: int) -> dict[str, Any]:
    """One round over one socket: what it took, and the processor times of the server and of this process."""
    clock = Clock(server["pid"])
    found = await Pipelined(frames, window).run(server["port"])
    return {**found, **clock.read(), "request_bytes": sum(map(len, frames)) / len(frames)}
