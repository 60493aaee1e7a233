"""A blocking client of an ASGI application in this process, which starts and ends the application as a server does.

`starlette.testclient` asks for a second HTTP library for the same; the tests have httpx, and need little of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Message, Scope
from starlette.websockets import WebSocketDisconnect

from app.streaming.websocket import READ

Channel = tuple["asyncio.Queue[Message]", "asyncio.Queue[Message]"]
"""What an application receives, and what it sends."""


class AppClient(httpx.Client):
    """A client whose requests call the application, on an event loop in a thread of its own.

    Inside `with` the application's lifespan runs, all requests share one loop, and `portal.call` runs a function there.
    Outside, each request has a loop for itself and no lifespan. Errors that the application does not handle are raised
    by the request, or with `raise_server_exceptions=False` answered with what the application sent, or 500.
    """

    def __init__(self, app: ASGIApp, base_url: str, raise_server_exceptions: bool = True) -> None:
        self.app = app
        self.portal: BlockingPortal | None = None
        self.state: dict[str, Any] = {}
        self._raises = raise_server_exceptions
        self._stack = ExitStack()
        super().__init__(base_url=base_url, transport=_Transport(self.exchange), follow_redirects=True)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.portal = stack.enter_context(start_blocking_portal())
            stack.callback(setattr, self, "portal", None)
            stack.enter_context(self.portal.wrap_async_context_manager(_lifespan(self.app, self.state)))
            super().__enter__()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        with self._stack:
            super().__exit__(exc_type, exc_value, traceback)

    @contextmanager
    def websocket_connect(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Socket]:
        """Open a WebSocket; raises WebSocketDisconnect where the application refuses it."""
        scope = {
            **self._scope(self.build_request("GET", path, headers=headers)),
            "type": "websocket",
            "scheme": "ws",
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        with self._loop() as portal, portal.wrap_async_context_manager(_connected(self.app, scope)) as channel:
            yield Socket(portal, channel)

    def exchange(self, request: httpx.Request) -> httpx.Response:
        """The application's answer to a request."""
        body = request.read()
        with self._loop() as portal:
            return portal.call(self._exchange, self._scope(request), body)

    def _loop(self) -> AbstractContextManager[BlockingPortal]:
        """The loop of the lifespan, or one for now."""
        return start_blocking_portal() if self.portal is None else nullcontext(self.portal)

    def _scope(self, request: httpx.Request) -> Scope:
        url = request.url
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": unquote(url.path),
            "raw_path": url.raw_path.split(b"?", 1)[0],
            "root_path": "",
            "query_string": url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("testclient", 50000),
            "server": (url.host, url.port or 80),
            "state": self.state.copy(),
        }

    async def _exchange(self, scope: Scope, body: bytes) -> httpx.Response:
        coming = [{"type": "http.request", "body": body, "more_body": False}]
        answered = asyncio.Event()
        start: Message = {"status": 500, "headers": []}
        pieces: list[bytes] = []

        async def receive() -> Message:
            if coming:
                return coming.pop()
            await answered.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal start
            assert not answered.is_set(), message
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                pieces.append(bytes(message.get("body", b"")))
                if not message.get("more_body", False):
                    answered.set()

        try:
            await self.app(scope, receive, send)
        except (Exception, asyncio.CancelledError):  # the latter where the application awaits what is cancelled
            if self._raises:
                raise
        return httpx.Response(
            start["status"], headers=start.get("headers", []), stream=httpx.ByteStream(b"".join(pieces))
        )


HEARTBEATS = '{"event":"heartbeat"', b"\x82\xa5event\xa9heartbeat"
"""How heartbeats begin, as text and as MessagePack."""


class Socket:
    """An open WebSocket. Heartbeats are passed over: they come where a kernel takes long to compile."""

    def __init__(self, portal: BlockingPortal, channel: Channel) -> None:
        self._portal = portal
        self._incoming, self._outgoing = channel

    def send_json(self, value: Any) -> None:
        """Send a text message."""
        self._portal.call(self._incoming.put, {"type": "websocket.receive", "text": json.dumps(value)})

    def send_bytes(self, data: bytes) -> None:
        """Send a binary message."""
        self._portal.call(self._incoming.put, {"type": "websocket.receive", "bytes": data})

    def send_all(self, values: Iterable[Any]) -> None:
        """Send text messages that come all at once."""
        self.send_all_texts([json.dumps(value) for value in values])

    def send_all_texts(self, frames: list[str]) -> None:
        """Send text messages as they are, all at once."""
        self._portal.call(self._put_all, "text", frames)

    def send_all_bytes(self, frames: list[bytes]) -> None:
        """Send binary messages that come all at once."""
        self._portal.call(self._put_all, "bytes", frames)

    async def _put_all(self, kind: str, frames: Sequence[str | bytes]) -> None:
        for frame in frames:
            self._incoming.put_nowait({"type": "websocket.receive", kind: frame})

    def receive_text(self) -> str:
        """The next message, which is text."""
        text: str = self._receive()["text"]
        return text

    def receive_bytes(self) -> bytes:
        """The next message, which is binary."""
        data: bytes = self._receive()["bytes"]
        return data

    def _receive(self) -> Message:
        """The next message; raises WebSocketDisconnect where the application closes instead."""
        while True:
            message = self._portal.call(self._outgoing.get)
            if message["type"] != "websocket.send":
                raise WebSocketDisconnect(message.get("code", 1000), message.get("reason"))
            text, data = HEARTBEATS
            if not (message.get("text") or "").startswith(text) and not (message.get("bytes") or b"").startswith(data):
                return message

    def receive_json(self) -> Any:
        """The next text message, parsed."""
        return json.loads(self.receive_text())


class _Transport(httpx.BaseTransport):
    def __init__(self, exchange: Callable[[httpx.Request], httpx.Response]) -> None:
        self._exchange = exchange

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._exchange(request)


def _call(app: ASGIApp, scope: Scope) -> tuple[asyncio.Task[None], Channel]:
    incoming: asyncio.Queue[Message] = asyncio.Queue()

    def read() -> list[Message]:
        """What has come and is not received yet, as the server of the service has it."""
        return [incoming.get_nowait() for _ in range(incoming.qsize())]

    if scope["type"] == "websocket":
        scope["extensions"] |= {READ: read}
    outgoing: asyncio.Queue[Message] = asyncio.Queue()

    async def run() -> None:
        await app(scope, incoming.get, outgoing.put)

    return asyncio.create_task(run()), (incoming, outgoing)


async def _answer(task: asyncio.Task[None], outgoing: asyncio.Queue[Message]) -> Message:
    """The next message of an application; raises what it raised where it ends without one."""
    message = asyncio.create_task(outgoing.get())
    await asyncio.wait({message, task}, return_when=asyncio.FIRST_COMPLETED)
    if not message.done():
        message.cancel()
        await task
        raise AssertionError("the application ended without an answer")
    return await message


@asynccontextmanager
async def _lifespan(app: ASGIApp, state: dict[str, Any]) -> AsyncIterator[None]:
    task, (incoming, outgoing) = _call(app, {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state})

    async def pass_through(phase: str) -> None:
        await incoming.put({"type": f"lifespan.{phase}"})
        message = await _answer(task, outgoing)
        if message["type"] != f"lifespan.{phase}.complete":
            await task  # raises what went wrong
            raise AssertionError(message)

    await pass_through("startup")
    try:
        yield
    finally:
        await pass_through("shutdown")
        await task


@asynccontextmanager
async def _connected(app: ASGIApp, scope: Scope) -> AsyncIterator[Channel]:
    task, (incoming, outgoing) = _call(app, scope)
    await incoming.put({"type": "websocket.connect"})
    message = await _answer(task, outgoing)
    try:
        if message["type"] != "websocket.accept":
            raise WebSocketDisconnect(message.get("code", 1000), message.get("reason"))
        yield incoming, outgoing
    finally:
        await incoming.put({"type": "websocket.disconnect", "code": 1000})
        await task
