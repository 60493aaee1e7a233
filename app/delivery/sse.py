"""One live subscription as server-sent events.

A plain ASGI response: a list's change costs one `send` with a block of bytes that all its readers share, and what has
gathered while the connection was busy goes out in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.delivery.feed import Form
from app.delivery.hub import Hub
from app.delivery.readers import Outbox, Reader
from app.problems import Problem
from app.security import Keyring

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
    """The answer to a request for a stream.

    `key_id` is who asked; it goes on from `after` where it can, with `ready` says when it has caught up, and with
    `squash` sends at most one change in so many seconds.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: Hub,
        keyring: Keyring,
        key_id: str,
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
        self._key_id = key_id
        self._resource = resource
        self._id = id
        self._form = form
        self._after = after
        self._ready = ready
        self._squash = squash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._keyring.allows(self._key_id, self._hub.source(self._resource)[0].scope):
            raise Problem("unauthorized", "the key was deleted")
        stream = _Stream(self._hub, receive, send, self._ready, self._squash)
        stream.keys.add(self._key_id)
        self._hub.join(stream)
        try:
            await self._hub.open(stream.reader, self._resource, self._id, self._form, self._after)
            await send(START)
            await stream.run()
        finally:
            self._hub.part(stream)


class _Stream(Outbox):
    """A connection with one reader."""

    transport = "sse"

    def __init__(self, hub: Hub, receive: Receive, send: Send, ready: bool, squash: float | None) -> None:
        super().__init__(hub, hub.limits.stream_queue)
        self.reader = Reader(self, unready=ready, squash=squash)
        self._receive = receive
        self._send = send

    def readers(self) -> Iterable[Reader]:
        return (self.reader,)

    async def listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send_queue(self) -> None:
        blocks = []
        while (entry := self.take()) is not None:
            blocks.append(entry[1].block)
        if blocks:
            await self._send({"type": "http.response.body", "body": b"".join(blocks), "more_body": True})

    async def send_heartbeat(self) -> None:
        for cursor in self.hub.cursors(self.readers()).values():
            await self._send({"type": "http.response.body", "body": f"id: {cursor}\n\n".encode(), "more_body": True})

    async def send_end(self, code: int) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def on_finish(self, reader: Reader) -> None:
        self.end(1000)
