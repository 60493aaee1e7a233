"""Requests at a replica that are the leader's: passed on as they are, and answered when what they did is visible here.

The leader answers a request that was passed on with the last row of its log then, in a header. Whoever asked meets its
own write at this replica afterwards. What a node does for itself alone (its jobs, its tickets) is not passed on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.fast_router import Routes
from app.api.problems import Problem, from_error
from app.api.routing import DirectRoute
from app.errors import Forbidden, Unauthorized
from app.replication.node import Node
from app.runtime import logs
from app.runtime.forwarding import end_to_end, target_of
from app.runtime.metrics import Metrics
from app.settings import Settings
from app.streaming.frames import encode_json

if TYPE_CHECKING:
    import httpx

PASSED = b"rankcast-passed"
"""The header of a request that was passed on: how it came, ``http`` or ``websocket``."""

LSN = b"rankcast-lsn"
"""The header of its answer: the last row of the leader's log."""

OVER_SOCKET = b"websocket"

OWN = (
    "/v1/tickets",
    "/v1/admin/jobs",
    "/v1/admin/snapshots",
    "/v1/admin/rebuilds",
    "/v1/admin/verify",
    "/v1/admin/promote",
    "/v1/admin/replicas",
    "/v1/admin/log",
)
"""How the paths begin of what a node does for itself."""

LEADERS = "/v1/webhooks"
"""How the paths begin of what only the leader knows, reads too."""

QUESTIONS = frozenset({"top", "skyline", "explain"})
"""The last parts of paths under which a POST asks."""

ONLY_LEADER = frozenset({"probe", "zones", "start"})
"""The last parts of paths of questions that only the leader can answer: what is behind a link, what is published."""

MATCH, NOTIFY = "match", b"notify"
"""The last part of a path under which a POST asks, unless it says this."""

WHOLE = 1 << 20
"""Bytes of a body up to which it is passed on in one piece."""

SECONDS = 300.0
"""Seconds without a byte after which the leader is given up."""

_THEIRS = frozenset({b"date", b"host", b"origin", b"server"})
"""Headers of a request or response that each node says for itself."""

_ID = b"x-request-id"
_UNKNOWN = "whether the leader has carried it out is not known: sent again under its Idempotency-Key, it is done once"

log = logs.get("replication")


class Passing:
    """Passes requests on to the leader of this node."""

    def __init__(self, node: Node, settings: Settings, metrics: Metrics) -> None:
        self.node = node
        self._seconds = settings.sync_seconds
        self._passed = metrics.passed_requests

    def is_leaders(self, route: DirectRoute) -> bool:
        """Whether a request at a replica is for the leader, as far as its head says."""
        # The route's path and not the request's: resources and ids may be called as its last part is.
        if route.path.startswith(LEADERS):
            return True
        last = route.path.rpartition("/")[2]
        if last in ONLY_LEADER:
            return True
        return route.writes and last not in QUESTIONS and not route.path.startswith(OWN)

    async def pass_on(
        self,
        method: str,
        target: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes] | None,
        own_key: bool = False,
    ) -> httpx.Response:
        """The leader's answer, open, once what it did is visible here; with `own_key` this node asks for itself. Raises
        the problem 503.
        """
        import httpx

        leader = self.node.link.leader
        if leader is None:
            raise Problem("not-ready", "no leader is known at present; nothing was changed")
        client = self.node.nodes.client
        request = client.build_request(
            method,
            f"{leader.url}{target}",
            headers=list(headers),
            content=body,
            timeout=httpx.Timeout(5.0, read=SECONDS),
        )
        if not own_key and not any(name == b"authorization" for name, _ in headers):
            # This node's own key is not for those who have none.
            request.headers.pop("authorization", None)
        try:
            answer = await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            self._passed.labels("unreachable").inc()
            raise Problem("not-ready", "the leader cannot be reached; nothing was changed") from None
        except httpx.HTTPError as error:
            self._passed.labels("lost").inc()
            log.warning("a request that was passed on has no answer", url=leader.url, error=str(error))
            raise Problem("not-ready", _UNKNOWN) from None
        self._passed.labels(str(answer.status_code)).inc()
        lsn = answer.headers.get(LSN.decode(), "")
        done = int(lsn) if answer.status_code < 300 and lsn.isascii() and lsn.isdigit() else 0
        if not await self.node.link.reach(done, self._seconds):
            await answer.aclose()
            raise Problem("not-replicated", "the leader has carried it out, and this replica is not so far in time")
        return answer

    async def pass_socket_request(
        self, route: DirectRoute, scope: Scope, body: bytes, secret: str | None
    ) -> Response | None:
        """The answer to a request over a socket; None where it is to be carried out here."""
        if self.node.leads or not self._is_passed(route, scope, body):
            return None
        headers = [*_forwarded(scope["headers"]), (PASSED, OVER_SOCKET)]
        if secret is not None:
            headers.append((b"authorization", f"Bearer {secret}".encode()))
        answer = await self.pass_on(scope["method"], _target(scope), headers, body)
        try:
            whole = await answer.aread()
        finally:
            await answer.aclose()
        return Response(whole, answer.status_code, _answered(answer))

    def _is_passed(self, route: DirectRoute, scope: Scope, body: bytes) -> bool:
        if not self.is_leaders(route):
            return False
        if route.path.endswith(f"/{MATCH}"):
            return NOTIFY in body or NOTIFY in scope["query_string"]
        return True


class PassOn:
    """ASGI middleware that passes on what is the leader's, and at the leader says how far the log is."""

    def __init__(self, app: ASGIApp, routers: Sequence[APIRouter]) -> None:
        self._app = app
        self._routes = Routes(routers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        passing: Passing | None = getattr(scope["app"].state, "passing", None) if scope["type"] == "http" else None
        if passing is None:
            await self._app(scope, receive, send)
            return
        passed = next((value for name, value in scope["headers"] if name == PASSED), None)
        if passing.node.leads:
            if passed is not None:
                if passed == OVER_SOCKET:
                    scope["way"] = OVER_SOCKET.decode()
                send = _with_lsn(passing.node, send)
            await self._app(scope, receive, send)
            return
        route = self._routes.find(scope, scope["method"])
        if route is None or not passing.is_leaders(route):
            await self._app(scope, receive, send)
            return
        try:
            if passed is not None:
                raise Problem("not-ready", "this node is a replica, and does not pass on what was passed on to it")
            if route.admission is not None and route.admission.has_ticket(scope):
                route.admission.admit(scope)
                await _pass_for_ticket(passing, scope, receive, send)
            else:
                await _pass(passing, route, scope, receive, send, self._app)
        except Problem as problem:
            await problem.response()(scope, receive, send)
        except (Unauthorized, Forbidden) as error:
            await from_error(error).response()(scope, receive, send)


async def _pass_for_ticket(passing: Passing, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass on what a ticket of this node lets in. The leader does not know it: this node asks, and says for whom."""
    target = _target({**scope, "query_string": b""})
    answer = await passing.pass_on(scope["method"], target, [(PASSED, b"http")], None, own_key=True)
    try:
        whole = await answer.aread()
    finally:
        await answer.aclose()
    if answer.status_code == 200:
        caller = scope["caller"]
        found = {**json.loads(whole), "caller": {"id": caller.id, "expires": caller.expires}}
        whole = encode_json(found).encode()
    await Response(whole, answer.status_code, _answered(answer))(scope, receive, send)


async def _pass(passing: Passing, route: DirectRoute, scope: Scope, receive: Receive, send: Send, app: ASGIApp) -> None:
    """Pass a request on and its answer back, both as they come."""
    headers = [*_forwarded(scope["headers"]), (PASSED, b"http")]
    length = next((value for name, value in scope["headers"] if name == b"content-length"), None)
    chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    body: bytes | AsyncIterator[bytes] | None = _pieces(receive)
    if not chunked and int(length or 0) <= WHOLE:
        whole = b"".join([piece async for piece in _pieces(receive)])
        if route.path.endswith(f"/{MATCH}") and NOTIFY not in whole and NOTIFY not in scope["query_string"]:
            await app(scope, _again(whole, receive), send)
            return
        body = whole or None
    answer = await passing.pass_on(scope["method"], _target(scope), headers, body)
    try:
        found = end_to_end(answer.headers.raw, _THEIRS | {LSN, _ID})
        await send({"type": "http.response.start", "status": answer.status_code, "headers": found})
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await asyncio.shield(answer.aclose())


def _forwarded(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return end_to_end(headers, _THEIRS | {PASSED})


def _answered(answer: httpx.Response) -> dict[str, str]:
    kept = ("content-type", "retry-after", "location", "etag")
    return {name: answer.headers[name] for name in kept if name in answer.headers}


def _target(scope: Scope) -> str:
    return target_of(scope).decode("latin-1")


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """The pieces of a body."""
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        more = message.get("more_body", False)
        piece = message.get("body", b"")
        if piece:
            yield piece


def _again(body: bytes, receive: Receive) -> Receive:
    """`receive` with a body that was read."""
    came = False

    async def again() -> Message:
        nonlocal came
        if came:
            return await receive()
        came = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_lsn(node: Node, send: Send) -> Send:
    """`send` that says how far the log is when an answer begins; not where a request is refused."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 300:
            lsn: Any = str(node.lsn).encode()
            message = {**message, "headers": [*message.get("headers", ()), (LSN, lsn)]}
        await send(message)

    return sending
