"""A server with both transports of streams, and clients of it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import msgpack
import uvicorn
import websockets
from fastapi import FastAPI
from starlette.routing import WebSocketRoute
from websockets.asyncio.client import ClientConnection

from app.api import problems
from app.api.boards import router as boards
from app.api.failures import refusal_of
from app.api.fast_router import Direct
from app.api.streams import SOCKETS, Sockets
from app.errors import NotFound
from app.security.callers import Caller
from app.security.keyring import Keyring, new_key
from app.security.tickets import Tickets
from app.server.http import HttpProtocol
from app.server.limits import Limits as ConnectionLimits
from app.server.limits import ServerConfig
from app.server.websocket import SocketProtocol
from app.streaming import requests
from app.streaming.moves import Moved
from app.streaming.operations import SocketRequest
from app.streaming.requests import Answered
from app.streaming.websocket import StreamSocket
from tests.streaming.world import Limits, Service
from tests.support.patience import PATIENCE

PATH = "/v1/boards/delays/subscriptions/mine/stream"


class Site:
    """A served hub. `secret` opens it once it has a key."""

    def __init__(self, limits: Limits | None, *, keys: bool) -> None:
        self.service = Service(limits=limits or Limits())
        world = self.service.world
        world.subscribe("mine")
        for i in range(4):
            world.put(f"o{i}", i, 10.0 * i)
        world.take_slice()
        self.keyring = Keyring()
        self.secret, self.key = new_key("test", ["boards:read"])
        if keys:
            self.keyring.add(self.key)
        self.keyring.on_removed.append(self.service.hub.connections.end_key)
        self.port = 0
        self.moved: list[tuple[str, list[str], list[Any]]] = []
        self.may_move = asyncio.Event()
        self.may_move.set()

    async def carry(self, resource: str, ids: list[str], locations: list[Any]) -> list[Moved | Exception]:
        """Take the moves of a socket as one command, once that may be; that of `nobody` is refused."""
        await self.may_move.wait()
        first = sum(len(ids) for _, ids, _ in self.moved)
        self.moved.append((resource, ids, locations))
        if resource == "maps/none":
            return [NotFound("map", "there is no map 'none'")] * len(ids)
        return [
            NotFound("id", "there is no query 'nobody'") if id == "nobody" else Moved(first + i, location[0] < 5)
            for i, (id, location) in enumerate(zip(ids, locations, strict=True))
        ]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def change(self, i: int, payload: bytes | None = None) -> None:
        self.service.deliver(partial(self.service.world.put, "o0", 0, -float(i), payload))

    @asynccontextmanager
    async def follow(self, query: str = "", **headers: str) -> AsyncIterator[Events]:
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=PATIENCE) as client,
            client.stream("GET", PATH + query, headers=headers) as response,
        ):
            yield Events(response)

    @asynccontextmanager
    async def socket(self, key: str | None = None) -> AsyncIterator[Peer]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        url = f"ws://127.0.0.1:{self.port}/v1/stream"
        async with websockets.connect(
            url, additional_headers=headers, proxy=None, open_timeout=PATIENCE, ping_interval=None
        ) as connection:
            yield Peer(connection)


class NoApi:
    """These sockets are for streams alone."""

    largest_frame = 1 << 20

    async def begin(self, request: SocketRequest, caller: Caller, peer: requests.Peer) -> Answered:
        return Answered(404, b"")

    def begin_burst(self, frames: Sequence[str], caller: Caller, peer: requests.Peer) -> int:
        return 0


class Events:
    """The blocks of a response, parsed."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self) -> tuple[str, str | None, Any]:
        """The next block: event, id and data. A heartbeat has no event."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if not line:
                return fields.get("event", ""), fields.get("id"), json.loads(fields.get("data", "null"))
            name, _, value = line.partition(": ")
            fields[name] = value
        raise EOFError


class Peer:
    """A WebSocket's other end."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, **operation: Any) -> None:
        await self.connection.send(json.dumps(operation))

    async def next(self) -> dict[str, Any]:
        """The next message; binary ones are MessagePack."""
        frame = await asyncio.wait_for(self.connection.recv(), PATIENCE)
        document: dict[str, Any] = json.loads(frame) if isinstance(frame, str) else msgpack.unpackb(frame)
        return document

    async def ask(self, **operation: Any) -> dict[str, Any]:
        await self.say(**operation)
        return await self.next()

    async def problem(self, text: str | bytes) -> tuple[int, list[str]]:
        """Send something that is refused; the status and the bad fields. The socket is still open then."""
        await self.connection.send(text)
        refused = await self.next()
        assert refused["event"] == "error"
        assert (await self.ask(op="ping")) == {"event": "pong"}
        return refused["problem"]["status"], [error["field"] for error in refused["problem"]["errors"]]


def served(
    case: Callable[[Site], Awaitable[None]] | None = None,
    *,
    limits: Limits | None = None,
    keys: bool = False,
    at_once: bool = False,
) -> Any:
    """Run a test against a server of its own: uvicorn's, or the service's, which has ways to write `at_once`."""
    if case is None:
        return partial(served, limits=limits, keys=keys, at_once=at_once)

    async def serve() -> None:
        site = Site(limits, keys=keys)
        app = FastAPI()
        problems.install(app, {})
        sockets = StreamSocket(site.service.hub, site.keyring, Tickets(), site.carry, NoApi(), refusal_of)
        app.state.keyring = site.keyring
        app.state.wired = SimpleNamespace(service=site.service, sockets=sockets)
        app.add_middleware(Direct, routers=[boards.router], sockets=[SOCKETS])
        app.router.routes.append(WebSocketRoute(SOCKETS, Sockets()))
        options: dict[str, Any] = {"log_level": "error", "lifespan": "off", "timeout_graceful_shutdown": 2}
        if at_once:
            config: uvicorn.Config = ServerConfig(
                app,
                ConnectionLimits(PATIENCE, PATIENCE, 1, PATIENCE),
                http=HttpProtocol,
                ws=SocketProtocol,
                ws_per_message_deflate=False,
                **options,
            )
        else:
            config = uvicorn.Config(app, ws="websockets-sansio", **options)
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            site.port = listening.getsockname()[1]
            server = uvicorn.Server(config)
            server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
            serving = asyncio.create_task(server._serve([listening]))
            while not server.started:
                await asyncio.sleep(0.005)
            try:
                await asyncio.wait_for(case(site), PATIENCE)
            finally:
                await site.service.hub.close_all(1)
                server.should_exit = True
                await serving

    def run() -> None:
        asyncio.run(serve())

    run.__name__ = getattr(case, "__name__", "run")
    return run


SUBSCRIBE = {"op": "subscribe", "resource": "boards/delays", "id": "mine"}
