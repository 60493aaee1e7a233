"""The application that the server calls: the guard and the fast router come first, and all of FastAPI behind them."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send


class Application(FastAPI):
    """FastAPI behind a `front`, which calls `behind` for what it does not know. The server's start and end go there at
    once."""

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.behind(scope, receive, send)
            return
        scope["app"] = self
        await self.front(scope, receive, send)

    async def behind(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the usual way through FastAPI's layers."""
        await super().__call__(scope, receive, send)
