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
from app.streaming.hub import Hub

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
        self._hub.add_connection(stream)
        self._hub.bind(stream, self._caller)
        try:
            await self._hub.open_stream(stream.reader, self._resource, self._id, self._form, self._after)
            await send(START)
            await stream.run()
        finally:
            self._hub.remove_connection(stream)


class SseConnection(Connection):
    """A connection with one reader."""

    hub: Hub
    transport = "sse"

    def __init__(self, hub: Hub, receive: Receive, send: Send, ready: bool, squash: float | None) -> None:
        super().__init__(hub, hub.limits.stream_queue, hub.limits.stream_bytes)
        self.reader = Reader(self, wants_ready=ready, conflation=squash)
        self._receive = receive
        self._send = send

    def readers(self) -> Iterable[Reader]:
        return (self.reader,)

    async def listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send_queue(self) -> None:
        blocks, size = [], 0
        while size < PIECE and (entry := self.take()) is not None:
            blocks.append(entry[1].block)
            size += len(entry[1].block)
        if blocks:
            await self._send({"type": "http.response.body", "body": b"".join(blocks), "more_body": True})

    async def send_heartbeat(self) -> None:
        for cursor in self.hub.cursors(self.readers()).values():
            await self._send({"type": "http.response.body", "body": f"id: {cursor}\n\n".encode(), "more_body": True})

    async def send_end(self, code: int) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def on_finish(self, reader: Reader) -> None:
        self.end(1000)
