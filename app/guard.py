"""The outermost layer: request ids, Host and Origin while the door is open, body limits, metrics, the access log.

Pure ASGI, because every request passes it: two closures and a few dictionary look-ups a request.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable
from time import perf_counter
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import logs
from app.metrics import Metrics
from app.problems import Problem
from app.security import Keyring
from app.settings import Settings, is_loopback

BULK_TYPES = frozenset({b"application/x-ndjson", b"application/vnd.apache.arrow.stream"})
ALWAYS_SERVED = frozenset({"/healthz", "/readyz", "/metrics"})

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_UNMATCHED = "unmatched"


class Guard:
    """Wraps an ASGI application. `ready` says whether more than the health routes is served."""

    def __init__(
        self, app: ASGIApp, settings: Settings, keyring: Keyring, metrics: Metrics, ready: Callable[[], bool]
    ) -> None:
        self._app = app
        self._settings = settings
        self._keyring = keyring
        self._metrics = metrics
        self._ready = ready
        self._log = logs.get("requests")
        self._start = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._log_from = {"all": 0, "errors": 500, "off": 1000}[settings.access_log]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        headers = _Headers(scope["headers"])
        request_id = headers.request_id or f"{self._start}-{next(self._numbers)}".encode()
        scope["request_id"] = request_id.decode()
        status = 0
        seconds: float | None = None

        async def answer(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status = message["status"]
                seconds = perf_counter() - started
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", request_id)]}
            await send(message)

        self._metrics.requests_open.inc()
        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await refusal.response()(scope, receive, answer)
            else:
                if headers.chunked:
                    receive = _limited(receive, self._body_limit(headers))
                await self._app(scope, receive, answer)
        except ClientDisconnect:
            status = status or 499
        except Exception:
            self._log.exception(
                "request failed", request_id=scope["request_id"], method=scope["method"], path=scope["path"]
            )
            if status:
                raise
            detail = f"the request {scope['request_id']} failed; the service's log says why"
            await Problem("internal", detail).response()(scope, receive, answer)
        finally:
            self._metrics.requests_open.dec()
            self._metrics.observe(scope["method"], _template(scope), status, seconds)
            if status >= self._log_from and (status != 503 or scope["path"] not in ALWAYS_SERVED):
                self._log.info(
                    "request",
                    request_id=scope["request_id"],
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    ms=round((perf_counter() - started) * 1e3, 3),
                    key=scope.get("key_id", ""),
                )

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _Headers(scope["headers"])
        request_id = headers.request_id or f"{self._start}-{next(self._numbers)}".encode()
        scope["request_id"] = request_id.decode()
        refusal = self._refusal(scope, headers)
        status = 101
        try:
            if refusal is not None:
                status = refusal.status_code
                await receive()
                await _deny(refusal.response(), scope, send)
            else:
                await self._app(scope, receive, send)
        except Exception:
            status = 500
            self._log.exception("socket failed", request_id=scope["request_id"], path=scope["path"])
            raise
        finally:
            self._metrics.observe("WS", _template(scope), status, None)

    def _refusal(self, scope: Scope, headers: _Headers) -> Problem | None:
        """Why a request does not even reach its route."""
        if self._keyring.open:
            if not self._host_is_ours(headers.host):
                return Problem("foreign-host", "without keys only requests to a loopback host are answered")
            if headers.origin is not None and not self._origin_is_ours(headers.origin, headers.host):
                return Problem("foreign-origin", "without keys only pages of the service itself may ask")
        if headers.length > self._body_limit(headers):
            return Problem("too-large", f"the body is larger than {self._body_limit(headers)} bytes")
        if not self._ready() and scope["path"] not in ALWAYS_SERVED:
            return Problem("not-ready", "the service is starting or ending")
        return None

    def _host_is_ours(self, host: bytes) -> bool:
        name = _host_name(host)
        if is_loopback(name) or name in self._settings.trusted_hosts:
            return True
        return not self._settings.loopback and not self._settings.trusted_hosts

    def _origin_is_ours(self, origin: bytes, host: bytes) -> bool:
        scheme, _, authority = origin.lower().partition(b"://")
        if scheme not in (b"http", b"https"):
            return False
        return authority == host.lower() or _host_name(authority) in self._settings.trusted_hosts

    def _body_limit(self, headers: _Headers) -> int:
        return self._settings.max_bulk if headers.bulk else self._settings.max_body


class _Headers:
    """The few headers that the guard looks at, found in one pass."""

    __slots__ = ("bulk", "chunked", "host", "length", "origin", "request_id")

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self.host = b""
        self.origin: bytes | None = None
        self.request_id = b""
        self.length = 0
        self.bulk = False
        self.chunked = False
        typed = False
        for name, value in headers:
            if name == b"host":
                self.host = value
            elif name == b"content-length":
                self.length = int(value) if value.isdigit() and len(value) < 19 else 1 << 62
            elif name == b"content-type" and not typed:
                typed = True
                self.bulk = value.partition(b";")[0].strip().lower() in BULK_TYPES
            elif name == b"transfer-encoding":
                self.chunked = True
            elif name == b"origin":
                self.origin = value
            elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                self.request_id = value


def _template(scope: Scope) -> str:
    """The path of the route that was taken, with the names of its parameters."""
    route = scope.get("route")
    if route is not None:
        template: str = route.path
        return template
    matched_whole = "endpoint" in scope and not scope.get("path_params")
    return scope["path"] if matched_whole else _UNMATCHED


def _host_name(authority: bytes) -> str:
    """The host of ``host:port``; an IPv6 address keeps its brackets."""
    text = authority.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[: text.find("]") + 1]
    return text.rpartition(":")[0] if ":" in text else text


def _limited(receive: Receive, limit: int) -> Receive:
    """`receive` that refuses a body beyond `limit` bytes whose length was not announced."""
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > limit:
            raise Problem("too-large", f"the body is larger than {limit} bytes")
        return message

    return counted


async def _deny(response: Response, scope: Scope, send: Send) -> None:
    """Answer a WebSocket handshake with a plain response where the server can, else by closing it."""
    extensions: dict[str, Any] = scope.get("extensions") or {}
    if "websocket.http.response" not in extensions:
        await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        return
    headers = response.raw_headers
    await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
