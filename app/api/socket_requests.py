"""Requests over a WebSocket: the routes of the API, called as those over HTTP are, with the rights of the socket.

A request becomes the scope of one over HTTP, as far as endpoints look at it, and its route's endpoint is called with
that: bodies are read, checked and limited, keys kept, answers made and counted by the same code. What is not the same
is what the handshake has settled: where the peer is, and who.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope

from app.api.accounting import REQUEST_ID, SAMPLING, Accounting
from app.api.bodies import PLAIN, BodyFormat
from app.api.failures import problem_of
from app.api.fast_router import Routes
from app.api.problems import Problem, invalid, many
from app.api.routing import DirectRoute
from app.api.short_on_socket import OWN, TRACED, BurstOnSocket, ShortOnSocket, Target
from app.api.together.lane import Lane
from app.errors import FieldError
from app.runtime.metrics import Metrics
from app.runtime.tracing import Sampling
from app.runtime.write_order import OrderedWrite
from app.security.callers import Caller
from app.security.keyring import Keyring
from app.settings import Settings
from app.streaming.bursts import cut_burst, head_of
from app.streaming.frames import encode_json
from app.streaming.operations import SocketRequest
from app.streaming.requests import Answered, Peer

LARGEST_HEAD = 1 << 16
"""Characters of a request's path and headers."""

PassOn = Callable[[DirectRoute, Scope, bytes, str | None], Awaitable[Response | None]]
"""Forwards a request to another node, where this one must not carry it out; None where it may."""

_TARGET = re.compile(r"/[!\"$-~]*")
"""A path with its query: what HTTP takes as well, without a fragment."""

_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_JSON_TYPE = (b"content-type", b"application/json")
_PLAIN_HEADERS = [_JSON_TYPE]
_BULK = frozenset({BodyFormat.NDJSON.value, BodyFormat.ARROW.value})
_SHOWN = {b"retry-after": "Retry-After", b"location": "Location", b"etag": "ETag"}
_SEQ = re.compile(rb'\{"seq":(\d+)[,}]')
_GONE: Message = {"type": "http.disconnect"}


class SocketRequests:
    """Carries out the requests of all sockets; `ready` says whether the service takes any, `pass_on` has those
    carried out that are not a replica's.
    """

    def __init__(
        self,
        app: FastAPI,
        routes: Routes,
        settings: Settings,
        metrics: Metrics,
        lane: Lane,
        ready: Callable[[], bool],
        pass_on: PassOn | None = None,
    ) -> None:
        self._app = app
        self._keyring: Keyring = app.state.keyring
        self._routes = routes
        self._settings = settings
        self._lane = lane
        self._ready = ready
        self._pass_on = pass_on
        self.largest_frame = settings.max_body + LARGEST_HEAD
        self._accounting = Accounting(settings, metrics)
        self._last: tuple[str, str, Target | None] = "", "", None
        """The method, the path and the target of the last request about a collection."""

    def begin(self, request: SocketRequest, caller: Caller, peer: Peer) -> Coroutine[Any, Any, Answered] | None:
        """Have the lane answer a request, and return None; or return a coroutine that carries it out."""
        short = self._short(request, caller, peer)
        if short is None:
            return self.respond(request, caller, peer)
        return None if self._lane.take(short) else self.respond(request, caller, peer, sampling=short.sampling)

    def begin_burst(self, frames: Sequence[str], caller: Caller, peer: Peer) -> int:
        """Have the lane answer consecutive requests as a burst; how many it takes, from the first on."""
        head = head_of(frames[0])
        target = None if head is None else self.target_of(head.method, head.path)
        if head is None or target is None or not target[0].bursts or max(map(len, frames)) > self._lane.largest:
            return 0
        burst = cut_burst(head.up_to_id() if target[2] else head, frames[: target[0].most])
        if burst is None:
            return 0
        short = BurstOnSocket(self, burst, caller, peer, target)
        return short.count if self._lane.take(short) else 0

    def _short(self, request: SocketRequest, caller: Caller, peer: Peer) -> ShortOnSocket | None:
        """A request as a short one, if it is one by its path and headers."""
        lane = self._lane
        if request.size > lane.largest:
            return None
        target = self.target_of(request.method, request.path)
        if target is None:
            return None
        if (request.body is not None) != target[0].has_body:
            return None
        key = ""
        for header, value in request.headers.items():
            if header in TRACED and value.isascii() and value.isprintable():
                continue
            if header.lower() != "idempotency-key" or not value or key:
                return None
            key = value
        return ShortOnSocket(self, request, caller, peer, target, key)

    def target_of(self, method: str, target: str) -> Target | None:
        """The target of requests with this method and path; None if they cannot be short."""
        last_method, last_path, found = self._last
        if target == last_path and method == last_method:
            return found
        path, _, query = target.partition("?")
        parts = path.split("/")
        verb = self._lane.verb(method, parts)
        if verb is None or parts[0] or parts[1] != "v1" or "%" in path or "#" in query:
            return None
        if len(parts) > 5:
            return verb, parts[3], parts[5], query
        # Many requests in a row are about one collection, with the same path.
        found = verb, parts[3], "", query
        self._last = method, target, found
        return found

    def respond(
        self,
        request: SocketRequest,
        caller: Caller,
        peer: Peer,
        ordered: bool = True,
        sampling: Sampling | None = None,
    ) -> Coroutine[Any, Any, Answered]:
        """Carry out a request of a caller; what is refused is answered by its problem. A write is `ordered` after those
        before it on the socket, unless the caller does that. `sampling` is the decision of the sampler of traces."""
        started = perf_counter()
        path, _, query = request.path.partition("?")
        scope: Scope = {
            "type": "http",
            "method": request.method,
            "path": unquote(path) if "%" in path else path,
            "query_string": query.encode("ascii", "replace"),
            "headers": _PLAIN_HEADERS,
            "app": self._app,
            "way": OWN,
            "root_path": "",
            SAMPLING: sampling,
        }
        route, write, problem = None, None, _headers(request, scope)
        if problem is None:
            try:
                route = self._route(request, scope)
            except Problem as error:
                problem = error
        place = tuple(scope["path"].split("/", 4)[2:4])
        if route is not None and route.writes and ordered:
            self._lane.begin_before(place, peer.write_order)
            write = peer.write_order.append(place)
        return self._respond(request, scope, started, route or problem, caller, peer, write)

    async def _respond(
        self,
        request: SocketRequest,
        scope: Scope,
        started: float,
        found: DirectRoute | Problem | None,
        caller: Caller,
        peer: Peer,
        write: OrderedWrite | None,
    ) -> Answered:
        trace, status = None, 500
        try:
            scope["request_id"] = self._request_id(scope) if request.headers else self._accounting.new_id().decode()
            trace = self._accounting.begin(scope)
            if isinstance(found, DirectRoute):
                response = await self._call(found, request, scope, caller, peer, write)
            else:
                assert found is not None, "there is a route, or a problem why not"
                response = found.response()
            status = response.status_code
        finally:
            if write is not None:
                peer.write_order.remove(tuple(scope["path"].split("/", 4)[2:4]), write)
            seconds = perf_counter() - started
            self._accounting.end(scope, status, started, seconds, trace)
        return self.answered(request, response)

    async def _call(
        self,
        route: DirectRoute,
        request: SocketRequest,
        scope: Scope,
        caller: Caller,
        peer: Peer,
        write: OrderedWrite | None,
    ) -> Response:
        """The response of a request's route, or the problem why there is none."""
        try:
            if write is not None:
                await write.begin()
            return await self._answer(route, request, scope, caller, peer)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                about = {"request_id": scope["request_id"], "method": request.method, "path": scope["path"]}
                self._accounting.log.exception("request failed", **about)
                problem = Problem("internal", f"the request {scope['request_id']} failed; the service's log says why")
            response = problem.response()
            # Its traceback has this frame: the two would keep the body until garbage is collected.
            del problem
            return response

    async def _answer(
        self, route: DirectRoute, request: SocketRequest, scope: Scope, caller: Caller, peer: Peer
    ) -> Response:
        """The response of a route. The caller's key is checked again, since it may have been deleted while the request
        waited. Raises what the endpoint raises."""
        if not self._keyring.open:
            self._keyring.check(caller)
            if route.admission is not None:
                route.admission.admit_caller(scope, caller)
        if request.long:
            body = await asyncio.to_thread(self.body_of, request)
        else:
            body = self.body_of(request)
        if self._pass_on is not None:
            passed = await self._pass_on(route, scope, body, peer.secret)
            if passed is not None:
                return passed
        response: Response = await route.call(Request(scope, _receive(body, peer)))
        return response

    def _route(self, request: SocketRequest, scope: Scope) -> DirectRoute:
        """The route of a request. Raises the problems 400, 404, 405, 422 and 503."""
        if not self._ready():
            raise Problem("not-ready", "the service is starting or ending")
        if not _TARGET.fullmatch(request.path):
            raise Problem("malformed", "a path begins with / and has the characters of one in HTTP")
        if "%2f" in request.path.partition("?")[0].lower():
            raise Problem("not-found", "no name or id has a slash in it, so none is written as %2F")
        served = scope["path"].startswith("/v1/")
        route = self._routes.find(scope, request.method) if served else None
        if route is None:
            refusal = self._routes.refusal(scope)
            if refusal.status_code == 405 and served:
                allow = (refusal.headers or {})["Allow"]
                raise Problem("method-not-allowed", f"allowed here: {allow}", headers={"Allow": allow})
            raise Problem("not-found", f"nothing is served on a socket at {scope['path'][:200]}")
        if route.path.endswith("/stream"):
            raise invalid("path", "is a stream, which a socket has by the operation subscribe")
        return route

    def body_of(self, request: SocketRequest) -> bytes:
        """The body of a request as JSON. Raises the problems 400 and 413."""
        body = b""
        if request.body is not None:
            try:
                body = encode_json(request.body).encode()
            except (ValueError, TypeError, RecursionError) as error:
                raise Problem("malformed", f"the body is no value of JSON: {str(error)[:200]}") from None
            if len(body) > self._settings.max_body:
                raise Problem("too-large", f"the body is larger than {self._settings.max_body} bytes")
        return body

    def _request_id(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
                found: bytes = value
                return found.decode()
        return self._accounting.new_id().decode()

    def answered(self, request: SocketRequest, response: Response) -> Answered:
        """A response as an answer."""
        headers = {_SHOWN[name]: value.decode() for name, value in response.raw_headers if name in _SHOWN}
        if isinstance(response, StreamingResponse):
            status, pieces = response.status_code, response.body_iterator

            async def rest() -> Answered:
                return await self._gathered(request, status, headers, pieces)

            return Answered(status, b"", headers, rest)
        body = bytes(response.body)
        kind = response.headers.get("content-type", "")
        if body and "json" not in kind:
            body = encode_json(body.decode("utf-8", "replace")).encode()
        return Answered(response.status_code, body, headers)

    async def _gathered(self, request: SocketRequest, status: int, headers: Mapping[str, str], pieces: Any) -> Answered:
        """A long answer as a whole. One that is longer than it may be is refused; of a write only its seq is left."""
        found, size, most = [], 0, self._settings.max_answer
        source: AsyncIterator[bytes] = pieces
        async for piece in source:
            found.append(piece)
            size += len(piece)
            if size > most:
                break
        if size <= most:
            return Answered(status, b"".join(found), headers)
        if request.method == "GET":
            problem = Problem("too-large", f"the answer is larger than {most} bytes")
            return Answered(problem.status_code, encode_json(problem.document()).encode())
        seq = _SEQ.match(found[0])
        begin = b'"seq":%b,' % seq[1] if seq else b""
        return Answered(status, b'{%b"truncated":true}' % begin, headers)


def _receive(body: bytes, peer: Peer) -> Receive:
    """What an endpoint receives: the body, and when the peer has gone that."""
    came = False

    async def receive() -> Message:
        nonlocal came
        if came:
            await peer.leave()
            return _GONE
        came = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _headers(request: SocketRequest, scope: Scope) -> Problem | None:
    """Put the headers of a request into its scope; the problem where one is not taken."""
    if not request.headers:
        scope[PLAIN] = True
        return Problem("malformed", _TOO_LONG) if len(request.path) > LARGEST_HEAD else None
    found: list[tuple[bytes, bytes]] = []
    typed, errors, names = False, [], set()
    size = len(request.path)
    for name, value in request.headers.items():
        size += len(name) + len(value)
        lower = name.lower()
        field = f"headers.{name[:80]}"
        if lower in names:
            errors.append(FieldError(field, "is given more than once"))
        names.add(lower)
        if lower == "authorization":
            errors.append(FieldError(field, "is not taken: a request has the rights of its socket"))
        elif not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
            errors.append(FieldError(field, "must be a header of printable ASCII characters"))
        else:
            if lower == "content-type":
                typed = True
                if value.partition(";")[0].strip().lower() in _BULK:
                    return Problem("unsupported-media-type", "a socket takes application/json, not NDJSON or Arrow")
            found.append((lower.encode(), value.encode()))
    if size > LARGEST_HEAD:
        return Problem("malformed", _TOO_LONG)
    if errors:
        return many(errors)
    if not typed:
        found.append(_JSON_TYPE)
    scope["headers"] = found
    return None


_TOO_LONG = f"path and headers of a request have at most {LARGEST_HEAD} characters"
