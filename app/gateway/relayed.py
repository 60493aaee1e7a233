"""Streams that a gateway passes on from the service, on a socket that carries others too.

Each is a stream of server-sent events of its own at the service, whose blocks go into the socket's queue as they are.
A socket that is slow is waited for: the service merges what waits there. When the service is away the stream goes on
where it was once it is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx

from app.errors import NotReady
from app.gateway.upstream import Credentials, Passed, Upstream, away
from app.streaming.buffer import GONE, READY, Form, Message
from app.streaming.connection import Reader
from app.streaming.protocols import LiveResource, Source, StreamHub

if TYPE_CHECKING:
    from typing import Protocol

    class RelayHub(Protocol):
        """What a relay tells the hub."""

        def relay_ended(self, reader: Reader) -> None: ...


FULL, LOOK_SECONDS = 64, 0.02
"""Messages of a stream that may wait on its socket, and the seconds between two looks at one that is full."""

RETRY, LONGEST_RETRY = 0.1, 2.0
MOST_BLOCK = 1 << 28
"""Bytes of one event."""

_FORMS: dict[str, dict[str, str]] = {"old": {"old": "true"}, "tiles": {"form": "tiles"}}
SUBSCRIPTIONS = {"maps": "queries"}


class RelayedSource(Source):
    """Resources of the service: it checks what a stream is asked with."""

    prefix = ""
    noun = "resource"

    def form(self, form: str, old: bool, squash: float | None) -> Form:
        return "old" if old else form  # type: ignore[return-value]

    def live(self, resource: str, engine: Any, hub: StreamHub) -> LiveResource:
        raise NotImplementedError("such streams are passed on")


class Relay:
    """One stream, from the service into the queue of a reader. `cursor` is the last position that went there."""

    def __init__(
        self,
        hub: RelayHub,
        upstream: Upstream,
        reader: Reader,
        resource: str,
        id: str,
        form: Form,
        after: str | None,
        who: Credentials,
    ) -> None:
        kind, _, _ = resource.partition("/")
        self.resource = resource
        self.cursor = after
        self._hub = hub
        self._upstream = upstream
        self._reader = reader
        self._path = f"/v1/{resource}/{SUBSCRIPTIONS.get(kind, 'subscriptions')}/{id}/stream"
        self._params = dict(_FORMS.get(form, {} if form == "changes" else {"form": str(form)}))
        if reader.conflation is not None:
            self._params["squash"] = repr(reader.conflation.seconds)
        if reader.wants_ready:
            self._params["ready"] = "true"
        if who.ticket is not None:
            self._params["ticket"] = who.ticket
        self._headers = dict(who.headers)
        self._response: httpx.Response | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open it at the service. Raises `Passed` and `NotReady`."""
        headers = dict(self._headers)
        if self.cursor is not None:
            headers["last-event-id"] = self.cursor
        try:
            request = self._upstream.http.build_request("GET", self._path, params=self._params, headers=headers)
            response = await self._upstream.http.send(request, stream=True)
            if response.status_code != 200:
                body = await response.aread()
                await response.aclose()
                raise Passed(response.status_code, body, response.headers)
        except httpx.HTTPError as error:
            raise away(error) from None
        self._response = response

    def start(self) -> None:
        """Carry it."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Give it up."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self) -> None:
        pause = RETRY
        try:
            while True:
                response, self._response = self._response, None
                if response is not None:
                    pause = RETRY
                    if await self._carry(response):
                        return
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY)
                try:
                    await self.open()
                except NotReady:
                    continue
                except Passed as refused:
                    if refused.status_code >= 500:
                        continue
                    self._end()
                    return
        except asyncio.CancelledError:
            raise
        finally:
            if self._response is not None:
                await self._response.aclose()

    def _end(self) -> None:
        """The service gives the stream no more: its reader sees that its connection ends, and comes back."""
        self._hub.relay_ended(self._reader)
        self._reader.connection.end(1008)

    async def _carry(self, response: httpx.Response) -> bool:
        """Carry one connection; whether the stream has ended with it."""
        reader = self._reader
        try:
            async for block in _blocks(response):
                item = _message(block)
                self.cursor = block[4 : block.index(b"\n")].decode()
                if item is None:
                    continue
                if item.event == GONE:
                    self._hub.relay_ended(reader)
                    reader.finish(item)
                    return True
                reader.begin([item])
                if item.event == READY:
                    self._params.pop("ready", None)
                while reader.waiting >= FULL or reader.connection.full:  # noqa: ASYNC110 - queues announce nothing
                    await asyncio.sleep(LOOK_SECONDS)
        except (httpx.HTTPError, ValueError):
            pass
        finally:
            await response.aclose()
        return False


async def _blocks(response: httpx.Response) -> AsyncIterator[bytes]:
    """The events of a stream, each whole with the empty line behind it."""
    held = b""
    async for piece in response.aiter_raw():
        *whole, held = (held + piece).split(b"\n\n")
        for block in whole:
            yield block + b"\n\n"
        if len(held) > MOST_BLOCK:
            raise ValueError("an event is too long")


def _message(block: bytes) -> Message | None:
    """One event as the hub has it; None for a heartbeat. Raises ValueError."""
    head, _, rest = block.partition(b"\n")
    if not head.startswith(b"id: "):
        raise ValueError("an event without a position")
    if not rest.startswith(b"event: "):
        return None
    event = rest[7 : rest.index(b"\n")].decode()
    return Message(int(head.rpartition(b":")[2]), event, block)
