"""The two ways to follow live subscriptions: server-sent events for one, a WebSocket for many."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from app.delivery.feed import Form
from app.delivery.hub import Hub
from app.delivery.sse import EventStream
from app.delivery.websocket import StreamSocket
from app.security import Keyring

_DESCRIPTION = """\
Server-sent events: `snapshot` with the list as it is, then a `change` for every change of it; with `form=tiles` the
tiles that reach the subscription. The `id` of an event is a position: sent back in `Last-Event-ID` (or `after`) it is
continued where the service still can, and answered by `reset` with the whole list where it cannot. `gone` ends the stream
when the subscription or the board is deleted. Blocks with an `id` alone are heartbeats.
"""
_SSE = {
    200: {
        "description": "The stream.",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 6f1c:42\nevent: snapshot\ndata: {"seq":42,"list":[]}\n\n',
            }
        },
    }
}


def streams(hub: Hub, keyring: Keyring) -> APIRouter:
    """The routes of the streams."""
    router = APIRouter(tags=["streams"])

    def reader(request: Request) -> str:
        return keyring.admit(request.headers.get("authorization"), "boards:read")

    @router.get(
        "/v1/boards/{board}/subscriptions/{id}/stream",
        summary="Follow a subscription",
        description=_DESCRIPTION,
        response_class=EventStream,
        responses=_SSE,  # type: ignore[arg-type]
    )
    async def follow(
        board: str,
        id: str,
        key_id: str = Depends(reader),
        form: Annotated[Form, Query(description="What is sent after the list: its changes, or the tiles.")] = "changes",
        after: Annotated[str | None, Query(description="The position to go on from.")] = None,
        last_event_id: Annotated[
            str | None, Header(description="The position to go on from; it goes before `after`.")
        ] = None,
    ) -> Response:
        return EventStream(hub, keyring, key_id, board, id, form, after if last_event_id is None else last_event_id)

    router.routes.append(WebSocketRoute("/v1/stream", StreamSocket(hub, keyring), name="stream"))
    return router
