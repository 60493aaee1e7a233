"""The application that the server calls, in which the guard and the fast router come before all of FastAPI."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send


class Application(FastAPI):
    """FastAPI with a `front` that gets each request first, and calls `behind` for those that it does not answer itself.

    The events of the server's start and end (`lifespan`) go to FastAPI at once.
    """

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.behind(scope, receive, send)
            return
        scope["app"] = self
        await self.front(scope, receive, send)

    async def behind(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on to FastAPI's layers."""
        await super().__call__(scope, receive, send)
