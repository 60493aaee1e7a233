"""What a connection of a socket keeps when it is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from uvicorn.server import ServerState

from app.server.fast_path import ServiceProtocol
from app.server.listening import config_for
from app.server.websocket import SocketProtocol
from app.settings import Settings
from tests.support.one_turn import Line

HANDSHAKE = (
    b"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
HALF = b"\x81\xff" + (1 << 20).to_bytes(8, "big") + bytes(4) + b"x" * 100_000
"""The first part of a frame of a megabyte."""


async def accept(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await receive()


def test_half_a_message_is_not_kept() -> None:
    """Closed connections stay until garbage is collected, and that is by their number, not by what they hold."""

    async def lost() -> tuple[int, int]:
        config = config_for(accept, Settings(data=Path("unused")), [], ServiceProtocol, date=False)
        config.load()
        line = Line()
        line.protocol = ServiceProtocol(config=config, server_state=ServerState(), app_state={})
        line.protocol.connection_made(line)
        line.protocol.data_received(HANDSHAKE)
        await asyncio.wait_for(line.changed.wait(), 30)
        protocol = line.protocol
        assert isinstance(protocol, SocketProtocol)
        for at in range(0, len(HALF), 1 << 12):
            protocol.data_received(HALF[at : at + (1 << 12)])
        before = len(protocol.conn.reader.buffer)
        protocol.connection_lost(None)
        return before, len(protocol.conn.reader.buffer)

    before, after = asyncio.run(lost())
    assert before > 90_000 and after == 0
