"""The two ways to follow live subscriptions: server-sent events for one, a WebSocket for many."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.boards import router as boards
from app.api.examples import EPOCH
from app.api.feeds import router as feeds
from app.api.maps import router as maps
from app.api.matchers import router as matchers
from app.api.pages import Query, query
from app.api.relays import router as relays
from app.api.routing import accepts, caller_of, follows, keyring_of, shown_as
from app.api.wired import Wired, wired
from app.streaming.buffer import Form
from app.streaming.sse import EventStream


class FollowQuery(Query):
    """Query parameters of all streams."""

    after: Annotated[
        str | None, Field(description="The cursor to resume from. The header Last-Event-ID takes precedence.")
    ] = None
    ticket: Annotated[str | None, Field(description="A ticket, in place of a key.", max_length=256)] = None
    ready: Annotated[bool, Field(description="Send `ready` once the stream has caught up.")] = False


class StreamQuery(FollowQuery):
    """Query parameters of the streams of boards."""

    form: Annotated[
        Literal["changes", "tiles"],
        Field(description="Changes of the list, or the tiles that reach the subscription."),
    ] = "changes"
    old: Annotated[bool, Field(description="Changes have the previous values of objects.")] = False
    squash: Annotated[
        float | None,
        Field(description="At most one net change in so many seconds; more than 0, at most 3600."),
    ] = None


class OccasionsQuery(FollowQuery):
    """Query parameters of the streams of matchers, relays, maps and feeds."""

    form: Annotated[Literal["changes"], Field(description="The only form.")] = "changes"


EVENTS = shown_as(
    EventStream.media_type,
    "Server-sent events, described in asyncapi.yaml.",
    f"id: {EPOCH}:43\nevent: change\n"
    'data: {"seq": 43, "changes": [{"id": "DL95", "old_rank": 5, "new_rank": null}]}\n\n',
)
"""The response of a stream."""


SOCKETS = "/v1/stream"


class Sockets:
    """``/v1/stream``: passes sockets to what the application has wired for them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wired: Wired = scope["app"].state.wired
        await wired.sockets(scope, receive, send)


@boards.router.get(
    "/{board}/subscriptions/{id}/stream",
    response_class=EventStream,
    responses=EVENTS,
    dependencies=follows("boards:read"),
    openapi_extra=accepts(query=StreamQuery),
)
async def stream_subscription(request: Request) -> Response:
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
    form = wired(request).service.hub.source(resource)[0].form(asked.form, asked.old, asked.squash)
    return _stream(request, resource, form, asked, asked.squash)


@matchers.router.get(
    "/{matcher}/subscriptions/{id}/stream",
    response_class=EventStream,
    responses=EVENTS,
    dependencies=follows("matchers:read"),
    openapi_extra=accepts(query=OccasionsQuery),
)
async def stream_wins(request: Request) -> Response:
    """Follow what a matcher's subscription wins, by server-sent events.

    A stream begins with `ready`, and then there is a `win` for every event of a match with `notify` that has the
    subscription among its winners. The id of an event is a position: sent back in `Last-Event-ID`, or as `after`,
    it is continued where that can be, and answered by `reset` where wins may have been missed. With `ready=true` a
    `ready` follows also what such a stream begins with. `gone` ends the stream when the subscription or the matcher
    is deleted. A block with an id alone is a heartbeat.
    """
    asked = query(request, OccasionsQuery)
    return _stream(request, f"matchers/{request.path_params['matcher']}", "events", asked)


@relays.router.get(
    "/{relay}/subscriptions/{id}/stream",
    response_class=EventStream,
    responses=EVENTS,
    dependencies=follows("relays:read"),
    openapi_extra=accepts(query=OccasionsQuery),
)
async def stream_notifications(request: Request) -> Response:
    """Follow the notifications that a relay's local subscription meets, by server-sent events.

    A stream begins with `ready`, and then there is a `notification` for each that lies in the subscription's box,
    wherever in the overlay it was published. All else is as with the wins of matchers.
    """
    asked = query(request, OccasionsQuery)
    return _stream(request, f"relays/{request.path_params['relay']}", "events", asked)


@maps.router.get(
    "/{map}/queries/{id}/stream",
    response_class=EventStream,
    responses=EVENTS,
    dependencies=follows("maps:read"),
    openapi_extra=accepts(query=OccasionsQuery),
)
async def stream_results(request: Request) -> Response:
    """Follow a standing query of a map by server-sent events.

    `snapshot` has the answer as it is, with its zone and the location of the client, and then there is a `result`
    of the same shape whenever a new one is due: objects changed it or its zone, the client left its zone, or the
    query was changed. Each replaces the one before. A position is continued as with the wins of matchers, and
    answered by `reset` with the whole answer where it cannot be; `gone` ends the stream.
    """
    asked = query(request, OccasionsQuery)
    return _stream(request, f"maps/{request.path_params['map']}", "results", asked)


@feeds.router.get(
    "/{feed}/subscriptions/{id}/stream",
    response_class=EventStream,
    responses=EVENTS,
    dependencies=follows("feeds:read"),
    openapi_extra=accepts(query=OccasionsQuery),
)
async def stream_posts(request: Request) -> Response:
    """Follow the list of a feed's subscription by server-sent events.

    `snapshot` has the list as it is, and then there is a `change` for every change of it: what entered, left or got
    another score; posts that only shift are not listed. Positions and all else are as with boards.
    """
    asked = query(request, OccasionsQuery)
    return _stream(request, f"feeds/{request.path_params['feed']}", "changes", asked)


def _stream(request: Request, resource: str, form: Form, asked: FollowQuery, squash: float | None = None) -> Response:
    hub = wired(request).service.hub
    after = request.headers.get("last-event-id", asked.after)
    caller, id = caller_of(request), request.path_params["id"]
    caller.require_id(id)
    return EventStream(hub, keyring_of(request), caller, resource, id, form, after, asked.ready, squash)
