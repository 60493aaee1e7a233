"""A socket whose peer has sent more than is taken yet: its pong is behind that, which is no reason to give it up, and
few of its messages wait.
"""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
import uvicorn
import websockets
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from app.server.limits import Limits, ServerConfig
from app.server.websocket import MOST_WHOLE, SocketProtocol
from tests.support.patience import PATIENCE

EVERY = 0.05
"""Seconds between pings, and for which a pong is waited for."""


class Slow:
    """Takes one message of a socket each time that it may, and sends it back."""

    def __init__(self) -> None:
        self.may = asyncio.Semaphore(0)
        self.protocol: SocketProtocol | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.protocol = receive.__self__
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while True:
            await self.may.acquire()
            message = await receive()
            if message["type"] != "websocket.receive":
                return
            await send({"type": "websocket.send", "text": message["text"]})


async def follow(case: Any) -> None:
    app = Slow()
    config = ServerConfig(
        app,
        Limits(5.0, 5.0, 1, 5.0),
        log_level="critical",
        lifespan="off",
        ws=SocketProtocol,
        ws_per_message_deflate=False,
        ws_ping_interval=EVERY,
        ws_ping_timeout=EVERY,
        timeout_graceful_shutdown=1,
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server._serve([listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            await asyncio.wait_for(case(app, listening.getsockname()[1]), PATIENCE)
        finally:
            server.should_exit = True
            app.may.release()
            await serving


def test_a_socket_may_be_busy_longer_than_a_pong_takes() -> None:
    async def case(app: Slow, port: int) -> None:
        url = f"ws://127.0.0.1:{port}/"
        async with websockets.connect(url, proxy=None, compression=None, ping_interval=None) as peer:
            texts = [json.dumps({"n": n}) for n in range(4)]
            for text in texts:
                await peer.send(text)
            for text in texts:
                await asyncio.sleep(6 * EVERY)
                app.may.release()
                assert await peer.recv() == text

    asyncio.run(follow(case))


def test_a_peer_that_sends_nothing_is_given_up() -> None:
    async def case(app: Slow, port: int) -> None:
        url = f"ws://127.0.0.1:{port}/"
        async with websockets.connect(url, proxy=None, compression=None, ping_interval=None) as peer:
            original = peer.protocol.recv_frame

            def deaf(frame: Frame) -> None:
                if frame.opcode is not Opcode.PING:
                    original(frame)

            peer.protocol.recv_frame = deaf  # type: ignore[method-assign]
            with pytest.raises(ConnectionClosed) as closed:
                await peer.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011

    asyncio.run(follow(case))


def test_few_messages_wait_however_small_they_are() -> None:
    async def case(app: Slow, port: int) -> None:
        url = f"ws://127.0.0.1:{port}/"
        async with websockets.connect(url, proxy=None, compression=None, ping_interval=None) as peer:
            texts = [str(n) for n in range(3 * MOST_WHOLE)]
            for text in texts:
                await peer.send(text)
            waiting = set()
            for text in texts:
                app.may.release()
                assert await peer.recv() == text
                assert app.protocol is not None
                waiting.add(app.protocol.queue.qsize())
            assert max(waiting) <= MOST_WHOLE

    asyncio.run(follow(case))
