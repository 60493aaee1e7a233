"""What a gateway passes on to the service, bytes as they come in both directions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.gateway.upstream import Upstream, away
from app.runtime.forwarding import end_to_end, target_of


async def passed_on(upstream: Upstream, request: Request) -> Response:
    """The service's response to a request. Raises `NotReady` where it is away."""
    scope = request.scope
    has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
    url = httpx.URL(upstream.url).copy_with(raw_path=target_of(scope))
    sent = upstream.http.build_request(
        scope["method"], url, headers=end_to_end(scope["headers"]), content=_body(request) if has_body else None
    )
    try:
        answer = await upstream.http.send(sent, stream=True)
    except httpx.HTTPError as error:
        raise away(error) from None
    response = _Streamed(answer)
    response.raw_headers = end_to_end(answer.headers.raw)
    return response


class _Streamed(StreamingResponse):
    """A response as it comes from the service, closed there when it ends here."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        super().__init__(_pieces(answer), answer.status_code)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


async def _body(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise httpx.WriteError("the client has gone") from None


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for piece in answer.aiter_raw():
        yield piece
