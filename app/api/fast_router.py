"""Fast routing: paths are matched by their parts, endpoints called without the layers that FastAPI puts around them.

FastAPI still describes every route and serves sockets. Its layers (telemetry, exit stacks, one regular expression a
route) take about as long as the rest of a small request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.problems import Problem, no_socket
from app.api.responses import deny_socket
from app.api.routing import DirectRoute

Pattern = tuple[DirectRoute, list[str], list[str]]
"""A route, and the parts of its path: a parameter has a name and no literal."""


class Routes:
    """The direct routes of some routers, by method and path."""

    def __init__(self, routers: Sequence[APIRouter]) -> None:
        self._patterns: dict[tuple[str, int], list[Pattern]] = {}
        for route in _direct(routers):
            parts = route.path.split("/")
            names = [part[1:-1] if part.startswith("{") else "" for part in parts]
            literals = ["\0" if name else part for part, name in zip(parts, names, strict=True)]
            for method in route.methods:
                self._patterns.setdefault((method, len(parts)), []).append((route, literals, names))

    def find(self, scope: Scope, method: str) -> DirectRoute | None:
        """The route of a path, noted in the scope with the parameters in it."""
        parts = scope["path"].split("/")
        for route, literals, names in self._patterns.get((method, len(parts)), ()):
            found: dict[str, str] = {}
            for part, literal, name in zip(parts, literals, names, strict=True):
                if name and part:
                    found[name] = part
                elif part != literal:
                    break
            else:
                scope["route"], scope["endpoint"], scope["path_params"] = route, route.call, found
                return route
        return None

    def refusal(self, scope: Scope) -> HTTPException:
        """Why there is no route: a path that is not served, or not with this method."""
        methods = sorted({method for method, _ in self._patterns if self.find(scope, method) is not None})
        if not methods:
            return HTTPException(404)
        return HTTPException(405, headers={"Allow": ", ".join(methods)})


class Direct:
    """ASGI middleware that takes requests straight to the direct routes of some routers, and refuses all others, as it
    does sockets to other paths than `sockets`: to look for them, FastAPI would first make all of its routes."""

    def __init__(self, app: ASGIApp, routers: Sequence[APIRouter], sockets: Collection[str] = ()) -> None:
        self._app = app
        self._sockets = sockets
        self._routes = Routes(routers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] not in self._sockets and not scope.get("root_path"):
            refusal = no_socket(scope["path"])
            await deny_socket(refusal.response(), scope, receive, send)
            return
        if scope["type"] != "http" or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        route = self._routes.find(scope, scope["method"])
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            if route is None:
                if scope["path"] in self._sockets:
                    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
                    raise Problem("no-websocket", "connect with a WebSocket", headers=headers)
                raise self._routes.refusal(scope)
            await route.app(scope, receive, watched)
        except Exception as error:
            handlers = scope["app"].exception_handlers
            handler = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers), None)
            if handler is None or started:
                raise
            response = await handler(Request(scope, receive, send), error)
            await response(scope, receive, send)


def _direct(routers: Iterable[APIRouter]) -> Iterator[DirectRoute]:
    for router in routers:
        for route in router.routes:
            if isinstance(route, DirectRoute):
                yield route
