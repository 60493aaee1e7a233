"""A WebSocket's connection: bounds on what frames without an operation cost, and a fast path for whole messages.

uvicorn's protocol answers pings into a buffer without a bound, parses and queues all frames of a read however many, and
leaves a handshake that it cannot read unanswered. Its parser, that of the library websockets, takes about as long for a
small frame as the service for a small request. So messages in a single frame, as most are, are parsed here, and all
other frames by the library; the two never share a frame.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidHandshake
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import State

try:
    from websockets.speedups import apply_mask
except ImportError:
    from websockets.utils import apply_mask

from app.api.problems import Problem
from app.server.limits import Unread, limits_of, refusal
from app.streaming.frames import BINARY, TEXT, Content, head_of
from app.streaming.outlet import Outlet
from app.streaming.websocket import FRAMES, LARGEST, READ, WRITE

LARGEST_MESSAGE = 1 << 20
"""Bytes of a message, in all of its fragments, unless the application takes larger ones of this peer."""

LARGEST_FRAMED = 0xFFFF
"""Bytes of a message that is put into a frame here; larger ones are left to the parser."""

LARGEST_WRITTEN = 4 << 20
"""Most bytes of messages, each in a frame of its own, that are joined into one write."""

MASKED = 0x80

MOST_FRAGMENTS = 1_024
"""Fragments of one message."""

MOST_IDLE_FRAMES = 100
"""Most frames without an operation a second: control frames, and empty fragments."""

MOST_PONGS = 1 << 14
"""Most bytes of pongs while the write buffer is full; beyond it the connection is aborted."""

SLICE = 1 << 12
"""Bytes of frames that the library parses at a time; none while a message waits for the application."""

SLICE_OF_WHOLE = 1 << 15
"""Bytes of single-frame messages that are parsed here at a time."""

MOST_WHOLE = 256
"""Single-frame messages that are parsed at a time: each takes two hundred bytes of memory, however small it is."""


class Messages(asyncio.Queue[ASGIReceiveEvent]):
    """The messages that wait for the application, with operations on several at once."""

    _queue: deque[ASGIReceiveEvent]

    def put_all(self, messages: Sequence[ASGIReceiveEvent]) -> None:
        """Put some messages, at least one."""
        # The first one wakes who waits.
        self.put_nowait(messages[0])
        self._queue.extend(messages[1:])

    def get_all(self) -> list[ASGIReceiveEvent]:
        """Take what is there."""
        found = list(self._queue)
        self._queue.clear()
        return found


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection."""

    queue: Messages

    _rest = b""
    """Bytes that were read and are not parsed."""
    _fragments = 0
    _idle = 0
    """Frames without an operation since `_since`."""
    _since = 0.0
    _pongs = 0
    """Bytes of pongs since the write buffer was full."""
    _owed = 0
    """Bytes that the library still expects of the frame it has begun."""
    _in_fragments = False
    """Whether the last fragment of a message is still to come."""
    _read_since_ping = False
    """Whether anything was read since the last ping, or since the last timeout of its pong."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.queue = Messages()
        self._unread = Unread(self.loop, self.transport, limits_of(self.config).unread_seconds)
        self._outlet = Outlet(self._writes_now, self.transport.write)

    def connection_lost(self, exc: Exception | None) -> None:
        self._outlet.shut()
        self._unread.end()
        self._rest = b""
        super().connection_lost(exc)
        # This stays until garbage is collected, which large messages are not to wait for.
        self.conn.reader.discard()
        self.frames = []

    def pause_writing(self) -> None:
        super().pause_writing()
        self._outlet.shut()
        self._pongs = 0
        self._unread.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.end()

    def shutdown(self) -> None:
        self._outlet.shut()
        if self.handshake_initiated:
            super().shutdown()
        else:
            self.transport.abort()

    # --- frames -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._read_since_ping = True
        self._rest += data
        self._take_rest()

    def _take_rest(self) -> None:
        """Parse what was read until a message waits for the application."""
        rest, at = self._rest, 0
        while at < len(rest) and not self.read_paused and not self.transport.is_closing():
            if not self.handshake_initiated:
                super().data_received(rest[at : at + SLICE])
                at += SLICE
                continue
            if not self.handshake_complete:
                # Frames before the answer to the handshake wait for it.
                self.transport.pause_reading()
                break
            end = min(len(rest), at + SLICE)
            if not self._owed and not self._in_fragments:
                taken = self._take_whole(rest, at, min(len(rest), at + SLICE_OF_WHOLE))
                if taken > at:
                    at = taken
                    continue
            if not self._owed and not self._begin_frame(rest, at):
                break
            # What it says may close the connection.
            self._outlet.shut()
            end = min(end, at + self._owed)
            self._owed -= end - at
            super().data_received(rest[at:end])
            at = end
        self._rest = b"" if self.transport.is_closing() else rest[at:]
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._refuse_handshake(self.conn.handshake_exc)

    def _take_whole(self, rest: bytes, at: int, end: int) -> int:
        """Queue the single-frame messages from `at` up to about `end`; returns where the first other frame begins.

        That is any frame which is incomplete, empty, too large, not UTF-8 or malformed: the library parses it.
        """
        conn, length = self.conn, len(rest)
        if conn.state is not State.OPEN or conn.extensions or self.close_sent:
            return at
        most = min(conn.max_message_size or 0, 0xFFFF)
        found: list[ASGIReceiveEvent] = []
        begin = at
        while at < end and at + 6 < length and len(found) < MOST_WHOLE:
            kind, size, head = rest[at], rest[at + 1] - MASKED, 6
            if size == 126:
                size, head = int.from_bytes(rest[at + 2 : at + 4], "big"), 8
                if size < 126:
                    break
            start = at + head
            if not 0 < size <= most or (size == 127 and head == 6) or start + size > length:
                break
            data = apply_mask(rest[start : start + size], rest[start - 4 : start])
            if kind == TEXT:
                try:
                    found.append({"type": "websocket.receive", "text": data.decode()})
                except UnicodeDecodeError:
                    break
            elif kind == BINARY:
                found.append({"type": "websocket.receive", "bytes": data})
            else:
                break
            at = start + size
        if found:
            self.queue.put_all(found)
        if at > begin and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()
        return at

    def _begin_frame(self, rest: bytes, at: int) -> bool:
        """Set `_owed` for the frame that begins here; false if its head is incomplete."""
        head = rest[at : at + 14]
        if len(head) < 2:
            return False
        size, length = head[1] & 0x7F, 2
        if size >= 126:
            length = 4 if size == 126 else 10
            if len(head) < length:
                return False
            size = int.from_bytes(head[2:length], "big")
        opcode, last = head[0] & 0x0F, bool(head[0] & 0x80)
        if opcode < 8:
            self._in_fragments = not last
        self._owed = length + (4 if head[1] & MASKED else 0) + size
        return True

    async def receive(self) -> ASGIReceiveEvent:
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self._read_on()
        return message

    def _read_on(self) -> None:
        """Parse more, or let more come: the application has taken all messages."""
        self._read_since_ping = True
        self.read_paused = False
        if self._rest:
            self._take_rest()
        if not self.read_paused:
            self.transport.resume_reading()

    def _read_now(self) -> list[ASGIReceiveEvent]:
        """The messages that wait for the application."""
        found = self.queue.get_all()
        if found and self.read_paused:
            self._read_on()
        return found

    def _writes_now(self) -> bool:
        """Whether frames can be written without waiting."""
        return (
            self.writable.is_set()
            and self.handshake_complete
            and not self.disconnected
            and not self.close_sent
            and not self.conn.extensions
            and self.conn.state is State.OPEN
        )

    def _write_now(self, messages: Sequence[Content]) -> bool:
        """Write messages by one call; false, with nothing written, if they have to wait or are too large for that."""
        if not self._writes_now():
            return False
        pieces: list[bytes] = []
        room = LARGEST_WRITTEN
        for message in messages:
            kind, parts = _parts(message)
            size = sum(map(len, parts))
            room -= size
            if room < 0:
                return False
            pieces.append(head_of(kind, size))
            pieces += parts
        self.transport.write(b"".join(pieces))
        return True

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.send" and self._writes_now():
            text = message.get("text")
            kind, (data,) = _parts((message["bytes"] or b"") if text is None else text)
            if len(data) <= LARGEST_FRAMED:
                self.transport.write(head_of(kind, len(data)) + data)
                return
        self._outlet.shut()
        await super().send(message)
        if message["type"] == "websocket.accept":
            self._take_rest()
            if not self.read_paused and not self.transport.is_closing():
                self.transport.resume_reading()
        elif message["type"] == "websocket.http.response.body" and self.close_sent:
            # A handshake that was refused is answered: uvicorn would log that it is not.
            self.handshake_complete = True

    def handle_connect(self, event: Request) -> None:
        try:
            self.conn.process_request(event)
        except InvalidHandshake as error:
            self.handshake_initiated = True
            self._refuse_handshake(error)
            return
        super().handle_connect(event)
        if self.handshake_initiated and hasattr(self, "scope"):
            extensions: dict[Any, Any] = self.scope["extensions"] or {}
            extensions |= {
                LARGEST: self._allow,
                READ: self._read_now,
                WRITE: self._write_now,
                FRAMES: self._outlet,
            }

    def _allow(self, most: int) -> None:
        """Accept messages of up to `most` bytes from now on."""
        self.conn.max_message_size = most

    def handle_text(self, event: Frame) -> None:
        self._begin(event)
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._begin(event)
        super().handle_bytes(event)

    def handle_cont(self, event: Frame) -> None:
        if self.transport.is_closing():
            return
        self._fragments += 1
        if self._fragments > MOST_FRAGMENTS:
            self._end(f"a message has at most {MOST_FRAGMENTS} fragments")
        elif event.data or self._may_idle():
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Queue a message, as uvicorn does, but close on text that is not UTF-8 without a traceback in the log: any
        client can send it.
        """
        frames, self.frames = self.frames, []
        if self.close_sent:
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        if self.curr_msg_data_type == "bytes":
            self.queue.put_nowait({"type": "websocket.receive", "bytes": data})
        else:
            try:
                self.queue.put_nowait({"type": "websocket.receive", "text": data.decode()})
            except UnicodeDecodeError as error:
                self._end(f"{error.reason} at position {error.start}", CloseCode.INVALID_DATA)
                return
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_ping(self) -> None:
        if self.transport.is_closing() or not self._may_idle():
            return
        output = b"".join(self.conn.data_to_send())
        if not self.writable.is_set():
            self._pongs += len(output)
            if self._pongs > MOST_PONGS:
                self.transport.abort()
                return
        self.transport.write(output)

    def handle_pong(self, event: Frame) -> None:
        if not self.transport.is_closing() and self._may_idle():
            super().handle_pong(event)

    def send_keepalive_ping(self) -> None:
        self._read_since_ping = False
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        self._outlet.shut()
        if (self.read_paused or self._read_since_ping) and self.ping_timeout is not None:
            # The pong may have arrived: it is read after the messages before it.
            self._read_since_ping = False
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    def _begin(self, event: Frame) -> None:
        self._fragments = 1
        if not event.data:
            self._may_idle()

    def _may_idle(self) -> bool:
        """Count a frame without an operation; false if there are too many of them, which ends the connection."""
        now = self.loop.time()
        if now - self._since >= 1.0:
            self._idle, self._since = 0, now
        self._idle += 1
        if self._idle > MOST_IDLE_FRAMES:
            self._end(f"at most {MOST_IDLE_FRAMES} control frames and empty fragments may come in a second")
            return False
        return True

    # --- ends -------------------------------------------------------------------------------------------------------

    def _end(self, why: str, code: CloseCode = CloseCode.POLICY_VIOLATION) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self._outlet.shut()
        self.conn.fail(code, why)
        self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        self._outlet.shut()
        if self.conn.close_sent is None:
            # The handshake is not answered yet, so that there is no way to say why.
            self.transport.abort()
        else:
            super().handle_parser_exception()

    def _refuse_handshake(self, error: Exception) -> None:
        """Answer a handshake that cannot be read, or that lacks what makes it one."""
        self.conn.data_to_send()
        self.handshake_complete = self.close_sent = True
        why = f"the handshake cannot be read: {error.__cause__ or error}"
        # Whatever was wrong, this is the version that is right (RFC 6455, 4.4).
        problem = Problem("malformed", why, headers={"Sec-WebSocket-Version": "13"})
        self.transport.write(refusal(problem, self.default_headers))
        self.transport.close()


def _parts(message: Content) -> tuple[int, tuple[bytes, ...]]:
    """The first byte of a message in one frame, and its bytes."""
    if isinstance(message, tuple):
        return TEXT, message
    return (TEXT, (message.encode(),)) if isinstance(message, str) else (BINARY, (message,))
