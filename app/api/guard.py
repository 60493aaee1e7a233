"""The outermost layer: request ids, Host and Origin while there are no keys, body limits, metrics, the access log.

Pure ASGI, because every request passes it: two closures and a few dictionary look-ups a request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.accounting import ALWAYS_SERVED, REQUEST_ID, Accounting, template
from app.api.cors import Cors
from app.api.problems import Problem
from app.api.responses import deny_socket
from app.runtime.metrics import Metrics
from app.security.keyring import Keyring
from app.settings import Settings, is_loopback

BULK_TYPES = frozenset({b"application/x-ndjson", b"application/vnd.apache.arrow.stream"})

ENDING = (
    "the service is ending; whether the request was carried out is not known: sent again under its Idempotency-Key, "
    "it is carried out once"
)

_SINGLE = {
    b"authorization": "Authorization",
    b"content-encoding": "Content-Encoding",
    b"content-type": "Content-Type",
    b"host": "Host",
    b"idempotency-key": "Idempotency-Key",
    b"origin": "Origin",
}
"""Headers that a request has once: of two, one layer would read the first and another the last."""

_AUTHORITY = re.compile(r"(\[[0-9a-f:.%]*\]|[^:\[\]]*)(?::[0-9]*)?")


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
        self._accounting = Accounting(settings, metrics)
        self._log = self._accounting.log
        self._cors = Cors(settings.cors_origins)

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
        request_id = headers.request_id or self._accounting.new_id()
        scope["request_id"] = request_id.decode()
        status = 0
        seconds: float | None = None
        added = [(b"x-request-id", request_id)]
        if self._cors and not self._keyring.open:
            added += self._cors.headers(headers.origin)

        async def answer(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status = message["status"]
                seconds = perf_counter() - started
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        trace = self._accounting.begin(scope)
        try:
            refusal = self._refusal(scope, headers)
            if refusal is not None:
                await refusal.response()(scope, receive, answer)
            elif headers.preflight and scope["method"] == "OPTIONS" and self._cors and not self._keyring.open:
                await self._cors.preflight()(scope, receive, answer)
            else:
                if headers.chunked:
                    receive = _limited(receive, self._body_limit(headers))
                await self._app(scope, receive, answer)
        except ClientDisconnect:
            status = status or 499
        except asyncio.CancelledError:
            if self._ready():
                raise
            # The server ends and waits no longer. What was sent of an answer ends here.
            if not status:
                await Problem("not-ready", ENDING).response()(scope, receive, answer)
        except Exception:
            self._log.exception(
                "request failed", request_id=scope["request_id"], method=scope["method"], path=scope["path"]
            )
            if status:
                raise
            detail = f"the request {scope['request_id']} failed; the service's log says why"
            await Problem("internal", detail).response()(scope, receive, answer)
        finally:
            self._accounting.end(scope, status, started, seconds, trace)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _Headers(scope["headers"])
        request_id = headers.request_id or self._accounting.new_id()
        scope["request_id"] = request_id.decode()
        refusal = self._refusal(scope, headers)
        status = 101
        try:
            if refusal is not None:
                status = refusal.status_code
                await deny_socket(refusal.response(), scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except Exception:
            status = 500
            self._log.exception("socket failed", request_id=scope["request_id"], path=scope["path"])
            raise
        finally:
            self._metrics.observe("WS", template(scope), status, None)

    def _refusal(self, scope: Scope, headers: _Headers) -> Problem | None:
        """Why a request is refused before it reaches its route."""
        if headers.repeated:
            return Problem("malformed", f"a request has one {_SINGLE[headers.repeated]}")
        if headers.host is None and scope.get("http_version") == "1.1":
            # As of RFC 9112, 3.2: whoever stands in between and adds one might send it to another.
            return Problem("malformed", "a request has a Host")
        raw_path = scope.get("raw_path") or b""
        if b"%" in raw_path and b"%2f" in raw_path.lower():
            return Problem("not-found", "no name or id has a slash in it, so none is written as %2F")
        if self._keyring.open:
            if not host_is_ours(self._settings, headers.host or b""):
                return Problem("foreign-host", "without keys only requests to a loopback host are answered")
            if headers.origin is not None and not self._origin_is_ours(headers.origin, headers.host or b""):
                return Problem("foreign-origin", "without keys only pages of the service itself may ask")
        if headers.length > self._body_limit(headers):
            return Problem("too-large", f"the body is larger than {self._body_limit(headers)} bytes")
        if not self._ready() and scope["path"] not in ALWAYS_SERVED:
            return Problem("not-ready", "the service is starting or ending")
        return None

    def _origin_is_ours(self, origin: bytes, host: bytes) -> bool:
        scheme, _, authority = origin.lower().partition(b"://")
        if scheme not in (b"http", b"https"):
            return False
        return authority == host.lower() or _host_name(authority) in self._settings.trusted_hosts

    def _body_limit(self, headers: _Headers) -> int:
        return self._settings.max_bulk if headers.bulk else self._settings.max_body


class _Headers:
    """The few headers that the guard looks at, found in one pass."""

    __slots__ = ("bulk", "chunked", "host", "length", "origin", "preflight", "repeated", "request_id")

    def __init__(self, headers: list[tuple[bytes, bytes]]) -> None:
        self.host: bytes | None = None
        self.origin: bytes | None = None
        self.request_id = b""
        self.length = 0
        self.bulk = False
        self.chunked = False
        self.preflight = False
        self.repeated: bytes | None = None
        seen = []
        for name, value in headers:
            if name in _SINGLE:
                if name in seen:
                    self.repeated = name
                seen.append(name)
            if name == b"host":
                self.host = value
            elif name == b"content-length":
                self.length = int(value) if value.isdigit() and len(value) < 19 else 1 << 62
            elif name == b"content-type":
                self.bulk = value.partition(b";")[0].strip().lower() in BULK_TYPES
            elif name == b"transfer-encoding":
                self.chunked = True
            elif name == b"origin":
                self.origin = value
            elif name == b"access-control-request-method":
                self.preflight = True
            elif name == b"x-request-id" and REQUEST_ID.fullmatch(value):
                self.request_id = value


def host_is_ours(settings: Settings, host: bytes) -> bool:
    """Whether a request to this host is answered while there are no keys."""
    name = _host_name(host)
    if is_loopback(name) or name in settings.trusted_hosts:
        return True
    return not settings.loopback and not settings.trusted_hosts


@lru_cache(maxsize=64)
def _host_name(authority: bytes) -> str:
    """The host of ``host:port``, nothing where it is not of that shape; an IPv6 address keeps its brackets.

    >>> _host_name(b"[::1]:8000"), _host_name(b"Localhost"), _host_name(b"[::1].evil.example")
    ('[::1]', 'localhost', '')
    """
    found = _AUTHORITY.fullmatch(authority.decode("latin-1").lower())
    return found[1] if found else ""


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
