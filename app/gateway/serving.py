"""How the gateway listens and ends: its streams end before the server waits for open connections."""

from __future__ import annotations

import socket

import uvicorn

from app.gateway.main import Gateway
from app.runtime import logs
from app.runtime.listening import BACKLOG, bound_unread
from app.server.http import HttpProtocol
from app.server.limits import ServerConfig, limits_from, raise_file_limit
from app.server.websocket import LARGEST_MESSAGE, SocketProtocol
from app.settings import Settings


class Server(uvicorn.Server):
    """uvicorn that lets streams end properly."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                logs.get("gateway").info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logs.get("gateway").info("stopping")
        await self._gateway.hub.close_all()
        await super().shutdown(sockets)


def serve(gateway: Gateway, settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on sockets that listen until SIGTERM or SIGINT; a second signal does not wait."""
    raise_file_limit()
    for one in sockets:
        bound_unread(one, settings.unread_seconds)
    config = ServerConfig(
        gateway,
        limits_from(settings),
        loop="uvloop",
        http=HttpProtocol,
        ws=SocketProtocol,
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        backlog=BACKLOG,
    )
    Server(config, gateway).run(sockets)
