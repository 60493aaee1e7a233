"""Sockets and streams of readers at a gateway: the service's own, with what the service itself checks and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from app.api.problems import Problem, from_error, invalid
from app.errors import ServiceError, Unauthorized
from app.gateway.hub import GatewayHub
from app.gateway.upstream import Credentials, Passed, away, credentials_of
from app.security.callers import Caller
from app.security.scopes import EVERYTHING
from app.security.tickets import Ticket
from app.streaming.buffer import Form
from app.streaming.frames import encode_json
from app.streaming.moves import Moved
from app.streaming.operations import SocketRequest
from app.streaming.outlet import WAITS
from app.streaming.requests import Answered, Peer
from app.streaming.sse import START, SseConnection
from app.streaming.websocket import FRAMES, LARGEST, Refusal, Socket, not_now, nothing_more

LARGEST_FRAME = 16 << 20

SHOWN = {"location": "Location", "retry-after": "Retry-After", "etag": "ETag", "allow": "Allow"}
"""Headers of an answer that clients on a socket need."""


def refusal_of(error: Exception) -> Refusal:
    """A refusal as it is shown: the service's own, or one of this gateway."""
    if isinstance(error, Passed | Problem):
        return error
    return from_error(error) if isinstance(error, ServiceError) else Problem("internal")


class GatewayStream(SseConnection):
    """A connection with one reader, for who has these `credentials`."""

    credentials = Credentials()


class GatewaySocket(Socket):
    """A socket whose peer the service lets in."""

    hub: GatewayHub
    credentials = Credentials()

    def __init__(self, hub: GatewayHub, receive: Receive, send: Send) -> None:
        super().__init__(hub, _NoKeyring(), refusal_of, receive, send)  # type: ignore[arg-type]

    async def admit_by(self, who: Credentials) -> None:
        """Take what the handshake has. Raises `Unauthorized` for a key that the service does not know."""
        self.credentials = who
        if who.ticket is not None:
            # The service looks at it when a stream is opened.
            self._caller = _someone(who.ticket)
            self._ticket = Ticket("", None, self._caller, 0.0)
            return
        named = any(name == "authorization" for name, _ in who.headers)
        try:
            await self.hub.upstream.ask("/v1/boards", who, limit="1")
        except Passed as refused:
            if refused.status_code == 401 and not named:
                return
            if refused.status_code != 403 or not named:
                raise
        self._caller = _someone(dict(who.headers).get("authorization", ""))

    async def _authenticated(self, key: str) -> None:
        who = self.credentials.with_key(key)
        if not await self.hub.lets_in(who):
            raise Unauthorized("the key is not known")
        self.credentials = who
        self._caller = _someone(key)
        self.bind()

    def bind(self) -> None:
        if self._caller is not None and self._ticket is None:
            self._allow_requests()

    def _require(self, resource: str, right: str, id: str) -> None:
        # The service checks the rights, with the stream or the move.
        self._known()


def _someone(secret: str) -> Caller:
    """A caller whom the service knows."""
    return Caller("", EVERYTHING)


class _NoKeyring:
    """In place of a keyring: the service has it."""

    open = False
    tokens = None


class GatewaySockets:
    """The ASGI application behind `/v1/stream`."""

    def __init__(self, hub: GatewayHub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = GatewaySocket(self._hub, receive, send)
        extensions = scope.get("extensions") or {}
        socket.work_with(_Carrier(self._hub, socket), _Api(self._hub, socket), extensions.get(LARGEST, _ignore))
        socket.exchange_by(nothing_more, not_now)
        socket.send_by(extensions.get(FRAMES, WAITS))
        await receive()
        handshake = HTTPConnection(scope)
        try:
            await socket.admit_by(credentials_of(handshake.headers, handshake.query_params.get("ticket")))
            socket.enter()
        except (ServiceError, Problem) as error:
            await refusal_of(error).response()(scope, receive, send)
            return
        await socket.carry()


def _ignore(most: int) -> None:
    """Messages are as large as the server takes them."""


class _Carrier:
    """Moves of the clients of maps, sent to the service."""

    def __init__(self, hub: GatewayHub, socket: GatewaySocket) -> None:
        self._hub = hub
        self._socket = socket

    async def __call__(self, resource: str, ids: list[str], locations: list[Any]) -> Sequence[Moved | Exception]:
        found: list[Moved | Exception] = []
        for id, location in zip(ids, locations, strict=True):
            path = f"/v1/{resource}/queries/{quote(id, safe='')}"
            headers = dict(self._socket.credentials.headers)
            try:
                answer = await self._hub.upstream.http.patch(path, json={"location": location}, headers=headers)
            except httpx.HTTPError as error:
                found.append(away(error))
                continue
            if answer.status_code == 200:
                said = answer.json()
                found.append(Moved(said["seq"], said["inside"]))
            else:
                found.append(Passed(answer.status_code, answer.content, answer.headers))
        return found


@dataclass
class _Turn:
    """Whose turn it is at one resource; `wanted` requests have it or wait for it."""

    lock: asyncio.Lock
    wanted: int = 0


class _Api:
    """Requests of one socket, sent to the service. Writes to one resource go one after the other."""

    largest_frame = LARGEST_FRAME

    def __init__(self, hub: GatewayHub, socket: GatewaySocket) -> None:
        self._hub = hub
        self._socket = socket
        self._turns: dict[tuple[str, ...], _Turn] = {}

    async def begin(self, request: SocketRequest, caller: Caller, peer: Peer) -> Answered:
        """Send a request, and answer as the service does. The service groups writes; here each is a request."""
        refused = _refused(request)
        if refused is not None:
            return _answered(refused)
        if request.method == "GET":
            return await self._send(request)
        place = tuple(request.path.partition("?")[0].split("/", 4)[2:4])
        turn = self._turns.setdefault(place, _Turn(asyncio.Lock()))
        turn.wanted += 1
        try:
            async with turn.lock:
                return await self._send(request)
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                self._turns.pop(place)

    def begin_burst(self, frames: Sequence[str], caller: Caller, peer: Peer) -> int:
        """Each goes by itself."""
        return 0

    async def _send(self, request: SocketRequest) -> Answered:
        headers = {**dict(self._socket.credentials.headers), **request.headers}
        content = None
        if request.body is not None:
            try:
                content = encode_json(request.body).encode()
            except (ValueError, TypeError, RecursionError) as error:
                return _answered(Problem("malformed", f"the body is no value of JSON: {str(error)[:200]}"))
            headers.setdefault("content-type", "application/json")
        try:
            answer = await self._hub.upstream.http.request(
                request.method, request.path, content=content, headers=headers, timeout=None
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _answered(from_error(away(error)))
        shown = {SHOWN[name]: value for name, value in answer.headers.items() if name in SHOWN}
        body = answer.content
        if body and "json" not in answer.headers.get("content-type", ""):
            body = encode_json(body.decode("utf-8", "replace")).encode()
        return Answered(answer.status_code, body, shown)


def _refused(request: SocketRequest) -> Problem | None:
    """What a socket does not take, apart from what the service itself refuses."""
    path = request.path.partition("?")[0]
    if not path.startswith("/v1/"):
        return Problem("not-found", f"nothing is served on a socket at {path[:200]}")
    if path.endswith("/stream"):
        return invalid("path", "is a stream, which a socket has by the operation subscribe")
    for name, value in request.headers.items():
        lower = name.lower()
        if lower == "authorization":
            return invalid(f"headers.{name[:80]}", "is not taken: a request has the rights of its socket")
        if lower == "content-type" and "json" not in value.partition(";")[0].lower().replace("ndjson", ""):
            return Problem("unsupported-media-type", "a socket takes application/json, not NDJSON or Arrow")
    return None


def _answered(problem: Problem) -> Answered:
    return Answered(problem.status_code, encode_json(problem.document()).encode(), problem.headers)


async def stream(
    hub: GatewayHub,
    scope: Scope,
    receive: Receive,
    send: Send,
    resource: str,
    id: str,
    form: Form,
    after: str | None,
    start: dict[str, Any],
    who: Credentials,
    ready: bool,
    squash: float | None,
) -> None:
    """Serve a stream of a board with zones."""
    connection = GatewayStream(hub, receive, send, ready, squash)
    connection.write_by(scope)
    connection.credentials = who
    hub.connections.add(connection)
    try:
        await hub.follow(connection.reader, resource, id, form, after, start)
        await send(START)
        await connection.run()
    finally:
        hub.connections.remove(connection)
