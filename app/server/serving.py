"""How the server starts, listens and ends."""

from __future__ import annotations

import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from app.runtime import logs
from app.runtime.lifecycle import AT_THE_END, Lifecycle
from app.runtime.listening import BACKLOG, bound_unread
from app.server.limits import ServerConfig, limits_from, raise_file_limit
from app.server.short_way import ServiceProtocol
from app.server.websocket import LARGEST_MESSAGE, SocketProtocol
from app.service import Interrupted
from app.settings import Settings


class Server(uvicorn.Server):
    """uvicorn that ends the application's streams before it waits for open connections, and ends in time."""

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
        lifecycle: Lifecycle = app.state.lifecycle
        patience = self.config.timeout_graceful_shutdown or 0
        lifecycle.end_within(patience)
        lifecycle.stop()
        await lifecycle.drain()
        # Whole seconds by its type; asyncio takes others as well.
        self.config.timeout_graceful_shutdown = lifecycle.left(patience) - AT_THE_END * patience  # type: ignore[assignment]
        await super().shutdown(sockets)

    def _give_up(self) -> None:
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        app = self.config.app
        if isinstance(app, FastAPI) and self.config.timeout_graceful_shutdown is not None:
            app.state.lifecycle.end_within(self.config.timeout_graceful_shutdown)
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(app: FastAPI, settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on sockets that listen until SIGTERM or SIGINT; a second signal does not wait.

    Raises what kept the service from starting, or from going on.
    """
    raise_file_limit()
    for one in sockets:
        bound_unread(one, settings.unread_seconds)
    config = ServerConfig(
        app,
        limits_from(settings),
        loop="uvloop",
        http=ServiceProtocol,
        ws=SocketProtocol,
        ws_max_size=LARGEST_MESSAGE,
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
