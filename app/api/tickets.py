"""Tickets: they open streams for those who cannot send a header, such as `EventSource` and `WebSocket` in browsers."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import format_of, read, validated
from app.api.callers import caller_of
from app.api.models import NoQuery
from app.api.pages import query
from app.api.problems import invalid
from app.api.responses import JsonResponse
from app.api.routing import REFUSALS, DirectRoute, accepts, needs
from app.api.values import Name, Strict
from app.api.wired import wired
from app.errors import Forbidden, NotFound
from app.security.scopes import Need
from app.security.tickets import LONGEST_SECONDS, MOST_IDS

router = APIRouter(prefix="/v1/tickets", tags=["streams"], route_class=DirectRoute, responses=REFUSALS)


class NewTicket(Strict):
    """What a ticket is asked to open."""

    resource: Annotated[str, Field(max_length=160, description="The resource, by type and name: `boards/delays`.")]
    ids: Annotated[
        Annotated[list[Name], Field(min_length=1, max_length=MOST_IDS)] | None,
        Field(description="The subscriptions whose streams it opens; null: all of the resource."),
    ] = None
    seconds: Annotated[
        float, Field(gt=0, le=LONGEST_SECONDS, description="How long it may be used to open streams.")
    ] = 60.0


class TicketResponse(Strict):
    """A ticket."""

    ticket: Annotated[str, Field(description="The ticket, for the query parameter `ticket` of streams.")]
    expires: Annotated[str, Field(description="When it can no longer be used, in RFC 3339.")]


_NEW_TICKET = TypeAdapter(NewTicket)


@router.post(
    "",
    status_code=201,
    response_model=TicketResponse,
    dependencies=needs(),
    openapi_extra=accepts(NewTicket, asks=True),
)
async def create_ticket(request: Request) -> Response:
    """Make a ticket, which opens streams and nothing else, with at most the rights of who asks.

    It is looked at when a stream is opened. The stream ends when the key or token that asked for the ticket does.
    """
    query(request, NoQuery)
    format_of(request)
    body = validated(await read(request), _NEW_TICKET)
    caller, parts = caller_of(request), wired(request)
    try:
        source, name = parts.service.hub.source(body.resource)
    except NotFound as missing:
        raise invalid("resource", missing.detail) from None
    caller.require(Need(source.prefix.rstrip("/"), "read", name))
    if source.find(name) is None:
        raise invalid("resource", f"there is no {source.noun} {name[:128]!r}")
    for i, id in enumerate(body.ids or ()):
        if not id.startswith(caller.prefix):
            raise Forbidden(f"ids[{i}] must begin with {caller.prefix!r} for this token")
    ids = None if body.ids is None else frozenset(body.ids)
    secret, ticket = parts.tickets.issue(body.resource, ids, caller, body.seconds)
    expires = datetime.fromtimestamp(ticket.expires, UTC).isoformat(timespec="milliseconds")
    return JsonResponse({"ticket": secret, "expires": expires}, 201)
