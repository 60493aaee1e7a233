"""A connection over which nothing comes is closed in the end, whatever came over it before."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from uvicorn.server import ServerState

from app.server.http import HttpProtocol
from app.server.limits import ServerConfig
from app.server.listening import config_for
from app.settings import Settings
from tests.support.one_turn import Line
from tests.support.patience import PATIENCE

HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + HOST + b"\r\n"
)


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """Answers 204 without reading a body, and accepts a WebSocket."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def config() -> ServerConfig:
    made = config_for(answering, Settings(data=Path("unused"), keep_alive_seconds=1), [], HttpProtocol, date=False)
    made.load()
    return made


@pytest.mark.parametrize(
    "pieces",
    [
        [GET],
        [POST + b"Content-Length: 2\r\n\r\n", b"{}"],
        [POST + b"Content-Length: 2\r\n\r\n{", b"}"],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n"],
        [POST + b"Content-Length: 20000\r\n\r\n", b" " * 20_000],
    ],
    ids=["no body", "body", "rest of a body", "chunks", "large body"],
)
def test_a_connection_is_closed_also_where_a_body_came_behind_its_answer(pieces: list[bytes]) -> None:
    asyncio.run(ended(pieces))


async def ended(pieces: list[bytes]) -> None:
    """Send pieces, those behind the first after the answer to it; return when the connection is closed."""
    protocol = partial(HttpProtocol, config(), ServerState(), {})
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(PATIENCE):
        writer.write(pieces[0])
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204 ")
        for piece in pieces[1:]:
            writer.write(piece)
        assert await reader.read() == b""
    writer.close()
    server.close()


def test_a_socket_is_not_idle() -> None:
    """It has pings of its own."""
    asyncio.run(opened())


async def opened() -> None:
    """Open a WebSocket on a connection over which a request was answered."""
    line = Line()
    line.protocol = protocol = HttpProtocol(config(), ServerState(), {})
    protocol.connection_made(line)  # type: ignore[arg-type]
    for piece, status in ((GET, b"204"), (HANDSHAKE, b"101")):
        line.changed.clear()
        line.protocol.data_received(piece)
        async with asyncio.timeout(PATIENCE):
            while b"HTTP/1.1 %b " % status not in line.sent:
                await line.changed.wait()
                line.changed.clear()
    assert line.protocol is not protocol
    assert protocol._idle is None and protocol._idle_since is None
    line.protocol.connection_lost(None)
