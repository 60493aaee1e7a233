"""How the gateway listens and ends: its streams end before the server waits for open connections."""

from __future__ import annotations

import socket

from app.gateway.main import Gateway
from app.server.http import HttpProtocol
from app.server.limits import ServerConfig
from app.server.listening import ListeningServer, config_for
from app.settings import Settings


class Server(ListeningServer):
    """A server that lets streams end properly."""

    part = "gateway"

    def __init__(self, config: ServerConfig, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway

    async def end_streams(self) -> None:
        await self._gateway.hub.close_all()


def serve(gateway: Gateway, settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on sockets that listen until SIGTERM or SIGINT; a second signal does not wait."""
    Server(config_for(gateway, settings, sockets, HttpProtocol, date=False), gateway).run(sockets)
