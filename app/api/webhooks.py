"""Webhooks: the events of subscriptions, sent to a URL."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import format_of, read, validated
from app.api.changes import Change
from app.api.idempotency import claim
from app.api.models import Ignored, LeftOut, NoQuery, Page, Replayed, ResponseModel
from app.api.pages import PageQuery, cursor, query
from app.api.problems import Problem, invalid, many, not_found
from app.api.responses import JsonResponse
from app.api.routing import REFUSALS, DirectRoute, accepts, caller_of, keyring_of, needs
from app.api.values import NAME_REASON, Name, Strict, is_name
from app.api.wired import wired
from app.errors import FieldError, Forbidden, ServiceError
from app.resource_names import RESOURCES
from app.security.callers import Caller
from app.security.scopes import Need
from app.storage import Stores
from app.storage.answers import keep_answer
from app.storage.rows import StoredAnswer
from app.webhooks.receivers import LONGEST_URL
from app.webhooks.sender import Sender
from app.write_path.idempotency import Replay

router = APIRouter(
    prefix="/v1/webhooks", tags=["webhooks"], route_class=DirectRoute, responses=REFUSALS, dependencies=needs()
)

MOST_IDS = 1_000
MOST_BATCH = 1_000
RIGHT = "write"
"""The right on its resource that a webhook needs; it includes `subscribe`."""

_Resource = Annotated[str, Field(max_length=160, description="The resource, by type and name: `boards/delays`.")]
_Ids = Annotated[
    list[Name],
    Field(min_length=1, max_length=MOST_IDS, description="The subscriptions, or queries, whose events are sent."),
]
_Batch = Annotated[
    int,
    Field(ge=1, le=MOST_BATCH, description="1: a request has one event; more: a list of up to so many events."),
]


class WebhookBody(Strict):
    """A webhook to make or to change."""

    url: Annotated[
        str,
        Field(
            max_length=LONGEST_URL,
            description="Where events are sent: `https`, or `http` inside a network that the service allows.",
        ),
    ]
    resource: _Resource
    ids: _Ids
    batch: _Batch = 1
    name: Ignored = None
    state: Ignored = None
    failures: Ignored = None
    last_status: Ignored = None
    last_error: Ignored = None
    delivered: Ignored = None
    waiting: Ignored = None
    created: Ignored = None


class Webhook(ResponseModel):
    """A webhook, without its secret."""

    name: Annotated[str, Field(description="Name, as in the path.")]
    url: Annotated[str, Field(description="Where events are sent.")]
    resource: _Resource
    ids: Annotated[list[str], Field(description="The subscriptions whose events are sent, in order.")]
    batch: _Batch
    state: Annotated[
        Literal["active", "failing", "disabled"],
        Field(description="`failing`: the last request was not taken; `disabled`: none is sent until it is enabled."),
    ]
    failures: Annotated[int, Field(description="Requests in a row that were not taken.")]
    last_status: Annotated[int | None, Field(description="Status of the last answer; null: there was none.")]
    last_error: Annotated[str | None, Field(description="Why the last request was not taken; null: it was.")]
    delivered: Annotated[int, Field(description="Events that the receiver has taken.")]
    waiting: Annotated[int, Field(description="Events that wait for the receiver.")]
    created: Annotated[str, Field(description="When it was made, in RFC 3339.")]


class WebhookResponse(Webhook):
    """A webhook. `secret` is there in the answer that made it, once."""

    secret: Annotated[
        str | LeftOut, Field(description="What signs its messages: `whsec_` and base64. Shown this once.")
    ] = None
    replayed: Replayed = False


class WebhookPage(Page):
    """A page of webhooks."""

    items: Annotated[list[Webhook], Field(description="The page, in order of name.")]


class DeletedWebhookResponse(Strict):
    """A deleted webhook."""

    name: Annotated[str, Field(description="Name of the deleted webhook.")]
    replayed: Replayed = False


class WebhookTestResponse(Strict):
    """What became of a test."""

    taken: Annotated[bool, Field(description="Whether the receiver has answered 2xx.")]
    status: Annotated[int | None, Field(description="Status of the answer; null: there was none.")]
    error: Annotated[str | None, Field(description="Why it was not taken; null: it was.")]
    replayed: Replayed = False


_BODY = TypeAdapter(WebhookBody)


@router.get("", response_model=WebhookPage, openapi_extra=accepts(query=PageQuery))
async def list_webhooks(request: Request) -> Response:
    """The webhooks of resources that the caller may change, in order of name."""
    page = query(request, PageQuery)
    after, caller = page.after, caller_of(request)
    found = [one for one in wired(request).service.webhooks if _may(caller, one)]
    found = [one for one in found if after is None or one.row.name > after]
    items = [_shown(one) for one in found[: page.limit]]
    more = cursor(items[-1]["name"]) if len(found) > page.limit else None
    return JsonResponse({"items": items, "next": more})


@router.put(
    "/{webhook}",
    response_model=WebhookResponse,
    responses={201: {"model": WebhookResponse}},
    openapi_extra=accepts(WebhookBody),
)
async def put_webhook(request: Request) -> Response:
    """Make a webhook, which begins with a `snapshot` of each subscription, or change its URL, its ids or its batch.

    Needs `write` on its resource. Addresses that are not public are refused, unless the service allows their network.
    """
    query(request, NoQuery)
    format_of(request)
    raw = await read(request)
    webhooks, caller, name = wired(request).service.webhooks, caller_of(request), request.path_params["webhook"]
    if not is_name(name):
        raise invalid("webhook", NAME_REASON)
    body = validated(raw, _BODY)
    known = webhooks.get(name)
    if known is not None:
        _require(caller, known)
    caller.require(_need(body.resource))
    _require_ids(caller, body.ids)
    twice = [id for id, count in Counter(body.ids).items() if count > 1]
    if twice:
        raise many([FieldError(f"ids[{i}]", "is listed twice") for i, id in enumerate(body.ids) if id in twice])

    async def before() -> None:
        await webhooks.check(body.url, body.resource, body.ids)

    def prepare() -> Change:
        keyring_of(request).check(caller)
        known = webhooks.get(name)
        if known is None:
            row, secret = webhooks.made(name, body.url, body.resource, body.batch)
            shown = {**_shown_row(row, body.ids, 0), "secret": secret}
        else:
            _require(caller, known)
            if known.row.resource != body.resource:
                raise Problem(
                    "different",
                    f"the webhook {name!r} is of {known.row.resource}",
                    [FieldError("resource", f"is {known.row.resource}")],
                )
            row = known.row._replace(url=body.url, batch=body.batch)
            shown = _shown_row(row, body.ids, known.waiting)

        async def change(_: Stores, kept: StoredAnswer | None) -> None:
            await webhooks.put(row, body.ids, kept)

        return Change(201 if known is None else 200, shown, change)

    return await wired(request).webhooks.write(request, raw, name, prepare, before)


@router.get("/{webhook}", response_model=Webhook)
async def get_webhook(request: Request) -> Response:
    """Get a webhook: how far it is, and whether its receiver takes events."""
    query(request, NoQuery)
    return JsonResponse(_shown(_found(request)))


@router.delete("/{webhook}", response_model=DeletedWebhookResponse)
async def delete_webhook(request: Request) -> Response:
    """Delete a webhook, with the events that wait for its receiver."""
    query(request, NoQuery)
    name, webhooks = request.path_params["webhook"], wired(request).service.webhooks

    def prepare() -> Change:
        _found(request)

        async def change(_: Stores, kept: StoredAnswer | None) -> None:
            await webhooks.delete(name, kept)

        return Change(200, {"name": name}, change)

    return await wired(request).webhooks.write(request, b"", name, prepare)


@router.post("/{webhook}/test", response_model=WebhookTestResponse)
async def test_webhook(request: Request) -> Response:
    """Send `{"event": "test", "webhook": ...}` once, at once, whatever the state."""
    query(request, NoQuery)
    service = wired(request).service
    ticket = await claim(service.answers, request, b"")
    if isinstance(ticket, Replay):
        return JsonResponse(ticket.answer, ticket.status)
    try:
        outcome = await service.webhooks.test(_found(request).row.name)
        answer = {"taken": outcome.error is None, **outcome._asdict()}
        if ticket:
            kept = ticket.store(service.stores.log.last_lsn, 200, answer, time.time())
            await asyncio.to_thread(keep_answer, service.stores.log.ownership, kept)
    except BaseException:
        if ticket:
            ticket.abandon()
        raise
    if ticket:
        ticket.complete(200, answer)
    return JsonResponse(answer)


@router.post("/{webhook}/enable", response_model=WebhookResponse)
async def enable_webhook(request: Request) -> Response:
    """Let a webhook start again that is disabled, or waits for its next try.

    Subscriptions of one that was disabled go on with `reset`.
    """
    query(request, NoQuery)
    name, webhooks = request.path_params["webhook"], wired(request).service.webhooks

    def prepare() -> Change:
        found = _found(request)
        shown = {**_shown(found), "state": "active", "failures": 0}

        async def change(_: Stores, kept: StoredAnswer | None) -> None:
            await webhooks.enable(name, kept)

        return Change(200, shown, change)

    return await wired(request).webhooks.write(request, b"", name, prepare)


def _found(request: Request) -> Sender:
    """The webhook in the path. Raises the problems 404 and 403."""
    name, caller = request.path_params["webhook"], caller_of(request)
    keyring_of(request).check(caller)
    found = wired(request).service.webhooks.get(name)
    if found is None:
        raise not_found("webhook", f"there is no webhook {name[:128]!r}")
    _require(caller, found)
    return found


def _need(resource: str) -> Need:
    """What a webhook of a resource needs. Raises the problem 422 where there can be none."""
    resources, slash, name = resource.partition("/")
    if resources not in RESOURCES or not slash or not is_name(name):
        raise invalid("resource", "must be like boards/delays")
    return Need(resources, RIGHT, name)


def _require(caller: Caller, webhook: Sender) -> None:
    """Raise `Forbidden` for a webhook that is not the caller's."""
    caller.require(_need(webhook.row.resource))
    _require_ids(caller, webhook.followed)


def _require_ids(caller: Caller, ids: Any) -> None:
    for id in ids:
        if not id.startswith(caller.prefix):
            raise Forbidden(f"ids must begin with {caller.prefix!r} for this token")


def _may(caller: Caller, webhook: Sender) -> bool:
    try:
        _require(caller, webhook)
    except ServiceError:
        return False
    return True


def _shown(webhook: Sender) -> dict[str, Any]:
    return _shown_row(webhook.row, sorted(webhook.followed), webhook.waiting)


def _shown_row(row: Any, ids: Any, waiting: int) -> dict[str, Any]:
    named = ("name", "url", "resource")
    return {
        **{field: getattr(row, field) for field in named},
        "ids": sorted(ids),
        "batch": row.batch,
        **{field: getattr(row, field) for field in ("state", "failures", "last_status", "last_error", "delivered")},
        "waiting": waiting,
        "created": datetime.fromtimestamp(row.created_at, UTC).isoformat(timespec="milliseconds"),
    }
