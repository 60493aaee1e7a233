"""Notifications: delivered to live subscriptions at once, and queued for links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from starlette.requests import Request
from starlette.responses import Response

from app.api.bulk import Read
from app.api.callers import caller_of
from app.api.chunked_response import END, answer_of, numbered, opened
from app.api.context import Done, begun, begun_kept
from app.api.models import OnErrorQuery
from app.api.problems import Problem
from app.api.relays.models import Notification, NotificationsBody, NotificationsResponse
from app.api.relays.router import PUBLISH, relays, router
from app.api.responses import json_response
from app.api.routing import accepts
from app.errors import FieldError
from app.rendering.recipients import pieces
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.relays.commands import Notify
from indexes.relays.plans.subscriptions import MOST_KEPT, NotifyPlan

INLINE = 30_000
"""Subscriptions and notifications up to which an answer is written on the event loop."""


@router.post(
    "/{relay}/notifications",
    response_model=NotificationsResponse,
    dependencies=PUBLISH,
    openapi_extra=accepts(NotificationsBody, element=Notification, query=OnErrorQuery),
)
async def post_notifications(request: Request) -> Response:
    """Publish notifications to the local subscriptions whose boxes hold them, and over links to those of other
    services.

    Each is logged, with a `seq` of its own. An answer names at most 33,554,432 subscriptions; a result that lacks
    some is `truncated`. Under an Idempotency-Key a request has at most 50,000 notifications, and a retry names at
    most 50,000 subscriptions and as many links. `on_error` is a query parameter with NDJSON and Arrow bodies
    (columns `<attribute>`, `payload` as JSON text, `from`); in JSON it may be a field instead.
    """
    context = relays(request)
    caller_of(request).require_whole()
    reader = context.notification_reader
    return await context.bulk(request, OnErrorQuery(), reader, _tell, numbered)


async def _tell(request: Request, found: Read[Notify], ticket: Ticket | None) -> Done:
    context = relays(request)
    if ticket is not None and len(found.command) > MOST_KEPT:
        reason = f"must have at most {MOST_KEPT} elements under an Idempotency-Key, which keeps the answer"
        raise Problem("too-large", f"notifications: {reason}", [FieldError("notifications", reason)])
    plan: NotifyPlan = await context.submit(
        request,
        found.command,
        ticket=ticket,
        skeleton=lambda plan: Skeleton(200, {**begun_kept(found, plan.last_seq, plan.count), "results": []}),
    )
    begin = opened(begun(found, plan.last_seq), "results")
    texts = pieces(plan.found, found.heads(range(plan.count)))
    if plan.found.named + plan.count <= INLINE:
        response = json_response(b"".join((begin, *texts, b"]}")))
    else:
        response = await answer_of(_written(begin, texts))
    return Done(
        response, {} if ticket is None else {**begun_kept(found, plan.last_seq, plan.count), **plan.response_fields()}
    )


async def _written(begin: bytes, texts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """An answer whose pieces are made in a thread, each once the one before is sent."""
    yield begin
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        yield text
    yield END
