"""The gateway's application: its own routes, streams of boards with zones, and all else passed on."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.api.problems import Problem, no_socket
from app.api.responses import deny_socket
from app.errors import ServiceError
from app.gateway.broker import Broker
from app.gateway.hub import GatewayHub
from app.gateway.proxy import passed_on
from app.gateway.sockets import GatewaySockets, refusal_of, stream
from app.gateway.upstream import Upstream, credentials_of
from app.runtime import logs
from app.runtime.metrics import CONTENT_TYPE, Metrics
from app.settings import Settings
from app.streaming.buffer import Form
from app.streaming.conflation import board_form

BOARD_STREAM = re.compile(r"/v1/boards/([^/]+)/subscriptions/([^/]+)/stream")
SOCKETS = "/v1/stream"

FIELDS = frozenset({"after", "ticket", "ready", "form", "old", "squash"})
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}

LOOK_EVERY = 1.0
"""Seconds between two looks whether the service is there."""

log = logs.get("gateway")


class Asked:
    """What a stream is asked with; None where the service is to say what is wrong with it."""

    def __init__(self, form: Form, after: str | None, ready: bool, squash: float | None) -> None:
        self.form = form
        self.after = after
        self.ready = ready
        self.squash = squash

    @classmethod
    def of(cls, request: Request) -> Asked | None:
        """That of a request."""
        query = request.query_params
        if any(name not in FIELDS or len(query.getlist(name)) > 1 for name in query):
            return None
        old, ready = (_SWITCHES.get(query.get(name, "false")) for name in ("old", "ready"))
        if old is None or ready is None:
            return None
        try:
            squash = float(query["squash"]) if "squash" in query else None
            form = board_form(query.get("form", "changes"), old, squash)
        except (ValueError, ServiceError):
            return None
        return cls(form, request.headers.get("last-event-id", query.get("after")), ready, squash)


class Gateway:
    """The ASGI application of a gateway between readers and the service at `upstream`."""

    def __init__(self, settings: Settings, upstream: str, key: str | None) -> None:
        assert settings.nats is not None, "a gateway needs NATS"
        self.metrics = Metrics()
        self.upstream = Upstream(upstream, key)
        self.broker = Broker(settings.nats)
        self.hub = GatewayHub(settings, self.upstream, self.broker, self.metrics)
        self.ready = False
        self._sockets = GatewaySockets(self.hub)
        self._looking: asyncio.Task[None] | None = None
        self.metrics.ready.set_function(lambda: self.ready)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.broker.start()
        self.hub.start()
        self._looking = asyncio.create_task(self._look())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._looking.cancel()
        await self.hub.close_all()
        await self.broker.close()
        await self.upstream.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _look(self) -> None:
        term = None
        while True:
            ready = await self.upstream.ready()
            if ready != self.ready:
                log.info("the service is there" if ready else "the service is away", upstream=self.upstream.url)
            self.ready = ready
            # Another leader publishes under a history of its own.
            if self.upstream.term != term and await self.hub.look_at_boards():
                term = self.upstream.term
            await asyncio.sleep(LOOK_EVERY)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == SOCKETS:
            await self._sockets(scope, receive, send)
        else:
            refusal = no_socket(scope["path"])
            await deny_socket(refusal.response(), scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting(message: Any) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._respond(Request(scope, receive), scope, receive, noting)
        except (ServiceError, Problem) as error:
            if not started:
                await refusal_of(error).response()(scope, receive, send)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if started:
                raise
            await Problem("internal").response()(scope, receive, send)

    async def _respond(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response | None = None
        if scope["method"] in ("GET", "HEAD"):
            response = await self._own(scope["path"])
        if scope["method"] == "GET":
            path: bytes = scope.get("raw_path") or scope["path"].encode()
            found = BOARD_STREAM.fullmatch(path.partition(b"?")[0].decode("latin-1"))
            if found is not None and await self._stream(request, found[1], found[2], scope, receive, send):
                return
        response = response or await passed_on(self.upstream, request)
        await response(scope, receive, send)

    async def _own(self, path: str) -> Response | None:
        """The response of a route that the gateway has itself."""
        if path == "/healthz":
            return JSONResponse({"status": "ok"})
        if path == "/metrics":
            return Response(self.metrics.render(), headers={"content-type": CONTENT_TYPE})
        if path == "/readyz":
            about = {"role": "gateway", "nats": self.broker.connected}
            if await self.upstream.ready():
                return JSONResponse({"ready": True, **about})
            refusal = Problem("not-ready", "the service behind the gateway is away")
            document = {**refusal.document(), "ready": False, **about}
            return JSONResponse(document, 503, refusal.headers, "application/problem+json")
        return None

    async def _stream(self, request: Request, board: str, id: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Serve a stream of a board with zones; return whether it is one, with nothing sent where not."""
        asked = Asked.of(request)
        if asked is None:
            return False
        who = credentials_of(request.headers, request.query_params.get("ticket"))
        start = await self.upstream.ask(f"/v1/boards/{board}/subscriptions/{id}/start", who)
        if start["zone"] is None:
            return False
        resource, name = f"boards/{unquote(board)}", unquote(id)
        rest = asked.form, asked.after, start, who, asked.ready, asked.squash
        await stream(self.hub, scope, receive, send, resource, name, *rest)
        return True
