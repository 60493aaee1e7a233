"""The two ways to follow live subscriptions: server-sent events for one, a WebSocket for many."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import FastAPI
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute

from app.api.paging import Query, query
from app.api.routing import Routes
from app.delivery.feed import Form
from app.delivery.hub import Hub
from app.delivery.moves import Carry
from app.delivery.sse import EventStream
from app.delivery.websocket import StreamSocket
from app.security import ANONYMOUS, Keyring


class FollowQuery(Query):
    """From where a subscription is followed."""

    after: Annotated[
        str | None, Field(description="The position to go on from. The header Last-Event-ID goes before it.")
    ] = None
    ready: Annotated[bool, Field(description="Say `ready` once the stream has caught up.")] = False


class StreamQuery(FollowQuery):
    """How a board's subscription is followed."""

    form: Annotated[
        Literal["changes", "tiles"],
        Field(description="What follows the list: its changes, or the tiles that reach it."),
    ] = "changes"
    old: Annotated[bool, Field(description="Changes say what values an object had before.")] = False
    squash: Annotated[
        float | None,
        Field(description="At most one change in so many seconds, the net of them; more than 0, at most 3600."),
    ] = None


class OccasionsQuery(FollowQuery):
    """How the subscription of a matcher, a relay or a feed, or the query of a map, is followed."""

    form: Annotated[Literal["changes"], Field(description="There is one.")] = "changes"


class StreamRoutes:
    """The streams of subscriptions of all kinds, and ``/v1/stream``; `carry` takes what sockets say of clients that
    move."""

    def __init__(self, keyring: Keyring, carry: Carry) -> None:
        self._keyring = keyring
        self._carry = carry
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
        for kind, of, endpoint in (
            ("matcher", "subscriptions", self.stream_wins),
            ("relay", "subscriptions", self.stream_notifications),
            ("map", "queries", self.stream_results),
            ("feed", "subscriptions", self.stream_posts),
        ):
            routes.add(
                "GET",
                f"/v1/{kind}s/{{{kind}}}/{of}/{{id}}/stream",
                endpoint,
                needs=f"{kind}s:read",
                tag=f"{kind}s",
                answers={200: None},
                query=OccasionsQuery,
                content=EventStream.media_type,
            )
        app.router.routes.append(
            WebSocketRoute("/v1/stream", StreamSocket(lambda: self.hub, self._keyring, self._carry), name="stream")
        )

    async def stream_subscription(self, request: Request) -> Response:
        """Follow a subscription by server-sent events.

        `snapshot` has the list as it is, then there is a `change` for every change of it (with `old=true` with the
        `old_values` of what was in the list before), or with `form=tiles` the `tiles` that reach it. The id of an
        event is a position: sent back in `Last-Event-ID`, or as `after`, it is continued where that can be, and
        answered by `reset` with the whole list where it cannot. With `ready=true` a `ready` follows what a stream
        begins with. With `squash=2.5` there is at most one `change` in so many seconds, the net of what happened.
        `gone` ends the stream when the subscription or the board is deleted. A block with an id alone is
        a heartbeat.
        """
        asked = query(request, StreamQuery)
        resource = f"boards/{request.path_params['board']}"
        form = self.hub.source(resource)[0].form(asked.form, asked.old, asked.squash)
        return self._stream(request, resource, form, asked, asked.squash)

    async def stream_wins(self, request: Request) -> Response:
        """Follow what a matcher's subscription wins, by server-sent events.

        A stream begins with `ready`, and then there is a `win` for every event of a match with `notify` that has the
        subscription among its winners. The id of an event is a position: sent back in `Last-Event-ID`, or as `after`,
        it is continued where that can be, and answered by `reset` where wins may have been missed. With `ready=true` a
        `ready` follows also what such a stream begins with. `gone` ends the stream when the subscription or the matcher
        is deleted. A block with an id alone is a heartbeat.
        """
        asked = query(request, OccasionsQuery)
        return self._stream(request, f"matchers/{request.path_params['matcher']}", "occasions", asked)

    async def stream_notifications(self, request: Request) -> Response:
        """Follow the notifications that a relay's local subscription meets, by server-sent events.

        A stream begins with `ready`, and then there is a `notification` for each that lies in the subscription's box,
        wherever in the overlay it was published. All else is as with the wins of matchers.
        """
        asked = query(request, OccasionsQuery)
        return self._stream(request, f"relays/{request.path_params['relay']}", "occasions", asked)

    async def stream_results(self, request: Request) -> Response:
        """Follow a standing query of a map by server-sent events.

        `snapshot` has the answer as it is, with its zone and the location of the client, and then there is a `result`
        of the same shape whenever a new one is due: objects changed it or its zone, the client left its zone, or the
        query was changed. Each stands for all before it. A position is continued as with the wins of matchers, and
        answered by `reset` with the whole answer where it cannot be; `gone` ends the stream.
        """
        asked = query(request, OccasionsQuery)
        return self._stream(request, f"maps/{request.path_params['map']}", "results", asked)

    async def stream_posts(self, request: Request) -> Response:
        """Follow the list of a feed's subscription by server-sent events.

        `snapshot` has the list as it is, and then there is a `change` for every change of it: what entered, left or got
        another score; posts that only shift are not listed. Positions and all else are as with boards.
        """
        asked = query(request, OccasionsQuery)
        return self._stream(request, f"feeds/{request.path_params['feed']}", "changes", asked)

    def _stream(
        self, request: Request, resource: str, form: Form, asked: FollowQuery, squash: float | None = None
    ) -> Response:
        after = request.headers.get("last-event-id", asked.after)
        key_id, id = request.scope.get("key_id", ANONYMOUS), request.path_params["id"]
        return EventStream(self.hub, self._keyring, key_id, resource, id, form, after, asked.ready, squash)

    @property
    def hub(self) -> Hub:
        """The hub. No request gets here before there is one: the guard answers 503 until then."""
        assert self._hub is not None
        return self._hub
