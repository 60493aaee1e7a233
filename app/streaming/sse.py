"""One live subscription as server-sent events.

A plain ASGI response: a change of a list costs one `send` with a block of bytes that all its readers share; messages
queued while the connection was busy are sent in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.security.callers import Caller
from app.security.keyring import Keyring
from app.streaming.buffer import Form
from app.streaming.connection import PIECE, Connection, Reader
from app.streaming.frames import chunk
from app.streaming.hub import Hub
from app.streaming.outlet import WAITS

CHUNK = "rankcast.chunk"
"""Extension of a request's scope: an outlet that takes chunks of the body that has begun."""

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}


class EventStream(Response):
    """The response to a request for a stream.

    `caller` asked for it. The stream resumes from the cursor `after` where it can, with `ready` it has a message once
    it has caught up, and with `squash` at most one change in so many seconds.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: Hub,
        keyring: Keyring,
        caller: Caller,
        resource: str,
        id: str,
        form: Form = "changes",
        after: str | None = None,
        ready: bool = False,
        squash: float | None = None,
    ) -> None:
        super().__init__()
        self._hub = hub
        self._keyring = keyring
        self._caller = caller
        self._resource = resource
        self._id = id
        self._form = form
        self._after = after
        self._ready = ready
        self._squash = squash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._keyring.check(self._caller)
        stream = SseConnection(self._hub, receive, send, self._ready, self._squash)
        stream.write_by(scope)
        self._hub.connections.add(stream)
        self._hub.connections.bind(stream, self._caller)
        try:
            await self._hub.open_stream(stream.reader, self._resource, self._id, self._form, self._after)
            await send(START)
            await stream.run()
        finally:
            self._hub.connections.remove(stream)


class SseConnection(Connection):
    """A connection with one reader."""

    __slots__ = ("_receive", "_send", "reader")
    hub: Hub
    transport = "sse"
    blocks = True

    def __init__(self, hub: Hub, receive: Receive, send: Send, ready: bool, squash: float | None) -> None:
        super().__init__(hub, hub.limits.stream_queue, hub.limits.stream_bytes)
        self.reader = Reader(self, wants_ready=ready, conflation=squash)
        self._receive = receive
        self._send = send

    def write_by(self, scope: Scope) -> None:
        """Send by what the server of this request has for it, without waiting."""
        self.outlet = (scope.get("extensions") or {}).get(CHUNK, WAITS)

    def readers(self) -> Iterable[Reader]:
        return (self.reader,)

    async def listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send_queue(self) -> None:
        body = self._taken()
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    def send_now(self) -> None:
        if self.outlet.is_open():
            item = self.take_one()
            body = self._taken() if item is None else item.made_block or item.block
            if body:
                self.outlet.write(chunk(body))

    def _taken(self) -> bytes:
        some = self.take_some(PIECE)
        return some[0][1].block if len(some) == 1 else b"".join([item.block for _, item in some])

    async def send_heartbeat(self) -> None:
        for body in self._beats():
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    def beat_now(self) -> None:
        if self.outlet.is_open():
            self.heartbeat_due = False
            for body in self._beats():
                self.outlet.write(chunk(body))

    def _beats(self) -> list[bytes]:
        """The heartbeat: a block with the position alone, where there is one."""
        return [f"id: {cursor}\n\n".encode() for cursor in self.hub.cursors(self.readers()).values()]

    async def send_end(self, code: int) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def on_finish(self, reader: Reader) -> None:
        self.end(1000)
