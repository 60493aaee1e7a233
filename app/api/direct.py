"""The short way to a route: matched by its path's parts, called without the layers that FastAPI puts around endpoints.

FastAPI still describes every route and answers what is not found here: other methods, unknown paths, sockets. Its
layers (telemetry, exit stacks, one regular expression a route) take about as long as the rest of a small request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.routing import DirectRoute

if TYPE_CHECKING:
    from fastapi import FastAPI


class Direct:
    """ASGI middleware that takes requests straight to the direct routes of `scope["app"]`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._routes: dict[tuple[str, int], list[tuple[DirectRoute, list[str], list[str]]]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        if self._routes is None:
            self._routes = _table(scope["app"])
        route = self._find(scope)
        if route is None:
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await route.app(scope, receive, watched)
        except Exception as error:
            handlers = scope["app"].exception_handlers
            handler = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers), None)
            if handler is None or started:
                raise
            response = await handler(Request(scope, receive, send), error)
            await response(scope, receive, send)

    def _find(self, scope: Scope) -> DirectRoute | None:
        assert self._routes is not None
        parts = scope["path"].split("/")
        for route, literals, names in self._routes.get((scope["method"], len(parts)), ()):
            found: dict[str, str] = {}
            for part, literal, name in zip(parts, literals, names, strict=True):
                if name and part:
                    found[name] = part
                elif part != literal:
                    break
            else:
                scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, found
                return route
        return None


def _table(app: FastAPI) -> dict[tuple[str, int], list[tuple[DirectRoute, list[str], list[str]]]]:
    """Routes by method and number of parts, in the order in which they were added; a parameter has a name and no
    literal."""
    table: dict[tuple[str, int], list[tuple[DirectRoute, list[str], list[str]]]] = {}
    for route in app.routes:
        if isinstance(route, DirectRoute):
            parts = route.path.split("/")
            names = [part[1:-1] if part.startswith("{") else "" for part in parts]
            literals = ["\0" if name else part for part, name in zip(parts, names, strict=True)]
            for method in route.methods or ():
                table.setdefault((method, len(parts)), []).append((route, literals, names))
    return table
