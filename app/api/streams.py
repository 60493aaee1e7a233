"""The two ways to follow live subscriptions: server-sent events for one, a WebSocket for many."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from app.api.paging import Query, query
from app.api.routing import Routes
from app.delivery.feed import Form
from app.delivery.hub import Hub
from app.delivery.sse import EventStream
from app.delivery.websocket import StreamSocket
from app.security import ANONYMOUS, Keyring


class StreamQuery(Query):
    """How a subscription is followed."""

    form: Annotated[Form, Field(description="What follows the list: its changes, or the tiles that reach it.")] = (
        "changes"
    )
    after: Annotated[
        str | None, Field(description="The position to go on from. The header Last-Event-ID goes before it.")
    ] = None


class StreamRoutes:
    """``/v1/boards/{board}/subscriptions/{id}/stream`` and ``/v1/stream``."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._hub: Hub | None = None

    def start(self, hub: Hub) -> None:
        """Give the routes the hub of the data that was opened at start-up."""
        self._hub = hub

    def add_routes(self, routes: Routes, app: FastAPI) -> None:
        """Serve the streams."""
        routes.add(
            "GET",
            "/v1/boards/{board}/subscriptions/{id}/stream",
            self.stream_subscription,
            needs="boards:read",
            tag="boards",
            answers={200: None},
            query=StreamQuery,
            content=EventStream.media_type,
        )
        app.router.routes.append(
            WebSocketRoute("/v1/stream", StreamSocket(lambda: self.hub, self._keyring), name="stream")
        )

    async def stream_subscription(self, request: Request) -> Response:
        """Follow a subscription by server-sent events.

        `snapshot` has the list as it is, then there is a `change` for every change of it, or with `form=tiles` the
        `tiles` that reach it. The id of an event is a position: sent back in `Last-Event-ID`, or as `after`, it is
        continued where that can be, and answered by `reset` with the whole list where it cannot. `gone` ends the
        stream when the subscription or the board is deleted. A block with an id alone is a heartbeat.
        """
        asked = query(request, StreamQuery)
        after = request.headers.get("last-event-id", asked.after)
        board, id = request.path_params["board"], request.path_params["id"]
        key_id = request.scope.get("key_id", ANONYMOUS)
        return EventStream(self.hub, self._keyring, key_id, board, id, asked.form, after)

    @property
    def hub(self) -> Hub:
        """The hub. No request gets here before there is one: the guard answers 503 until then."""
        assert self._hub is not None
        return self._hub
