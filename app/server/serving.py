"""How the service starts, is served and ends."""

from __future__ import annotations

import socket
from types import FrameType

from fastapi import FastAPI

from app.runtime.lifecycle import AT_THE_END, Lifecycle
from app.server.fast_path import ServiceProtocol
from app.server.listening import ListeningServer, config_for
from app.service import Interrupted
from app.settings import Settings


class Server(ListeningServer):
    """A server that ends the application's streams before it waits for open connections, and ends in time."""

    part = "service"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.lifecycle.failed = self._give_up
        await super().startup(sockets)

    async def end_streams(self) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        lifecycle: Lifecycle = app.state.lifecycle
        patience = self.config.timeout_graceful_shutdown or 0
        lifecycle.end_within(patience)
        lifecycle.stop()
        await lifecycle.drain()
        # Whole seconds by its type; asyncio takes others as well.
        self.config.timeout_graceful_shutdown = lifecycle.left(patience) - AT_THE_END * patience  # type: ignore[assignment]

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
    Server(config_for(app, settings, sockets, ServiceProtocol)).run(sockets)
    error = app.state.lifecycle.error
    if error is not None and not isinstance(error, Interrupted):
        raise error
