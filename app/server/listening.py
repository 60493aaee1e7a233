"""What the servers of the service and of a gateway share: how they listen, and their options."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

import uvicorn

from app.runtime import logs
from app.runtime.listening import BACKLOG, bound_unread
from app.server.http import HttpProtocol
from app.server.limits import ServerConfig, limits_from, raise_file_limit
from app.server.websocket import LARGEST_MESSAGE, SocketProtocol
from app.settings import Settings


class ListeningServer(uvicorn.Server):
    """uvicorn that logs where it listens and when it stops, as the `part` that it is."""

    part: str

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for bound in server.sockets:
                host, port = bound.getsockname()[:2]
                logs.get(self.part).info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logs.get(self.part).info("stopping")
        await self.end_streams()
        await super().shutdown(sockets)

    async def end_streams(self) -> None:
        """End what would keep connections open. The server waits for the others afterwards."""
        raise NotImplementedError


def config_for(
    app: Any, settings: Settings, sockets: Iterable[socket.socket], http: type[HttpProtocol], date: bool = True
) -> ServerConfig:
    """uvicorn's configuration for an application on listening sockets, with the protocol `http`; with `date` responses
    have that header. Raises the limit of open files to what the system allows, and bounds unread data on the sockets.
    """
    raise_file_limit()
    for one in sockets:
        bound_unread(one, settings.unread_seconds)
    return ServerConfig(
        app,
        limits_from(settings),
        loop="uvloop",
        http=http,
        ws=SocketProtocol,
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=date,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        backlog=BACKLOG,
    )
