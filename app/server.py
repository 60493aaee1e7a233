"""The HTTP server around the application: one process, one event loop."""

from __future__ import annotations

import asyncio
import resource
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app import logs
from app.listening import BACKLOG
from app.service import Interrupted
from app.settings import Settings

_MOST_FILES = 1 << 20

LARGEST_HEAD = 1 << 16
"""Bytes that a request may take up before its body, and between the pieces of it."""

HEAD_SECONDS = 60.0
"""How long the head of a request may take to arrive."""


class Protocol(HttpToolsProtocol):
    """HTTP with an end to heads and trailers: the parser gathers them, in quadratic time, before anybody is asked."""

    _gathered = 0
    _in_head = True
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._gathered += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._wait_no_more()
        elif self._gathered > LARGEST_HEAD:
            self.send_400_response(f"The head of a request has at most {LARGEST_HEAD} bytes.")
        elif self._in_head and self._gathered and self._patience is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._gathered, self._in_head = 0, False
        self._wait_no_more()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._gathered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._gathered, self._in_head = 0, True
        super().on_message_complete()

    def _wait(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Server(uvicorn.Server):
    """uvicorn that ends the application's streams before it waits for open connections, and then exits with 0."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.lifecycle.failed = self._give_up
        await super().startup(sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                logs.get("service").info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logs.get("service").info("stopping")
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.lifecycle.stop()
        await app.state.lifecycle.drain()
        await super().shutdown(sockets)

    def _give_up(self) -> None:
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(app: FastAPI, settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on sockets that listen until SIGTERM or SIGINT; a second signal does not wait.

    Raises what kept the service from starting.
    """
    raise_file_limit()
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=Protocol,
        ws="websockets-sansio",
        ws_max_size=1 << 20,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        backlog=BACKLOG,
    )
    Server(config).run(sockets)
    error = app.state.lifecycle.error
    if error is not None and not isinstance(error, Interrupted):
        raise error


def raise_file_limit() -> None:
    """Let the process open as many files, that is connections, as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
