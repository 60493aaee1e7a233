"""Notifications: who gets them, told at once to the live ones and queued for links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from starlette.requests import Request
from starlette.responses import Response

from app.api.context import Done, begun
from app.api.elements import Read
from app.api.models import OnErrorQuery
from app.api.pieces import END, answer_of, numbered, opened
from app.api.relay_context import RelayContext
from app.api.relay_models import NotificationsBody, Notified
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.deliveries import pieces
from app.idempotency import Ticket
from app.problems import FieldError, Problem
from app.writer import Skeleton
from indexes.relays.commands import Notify
from indexes.relays.plans import MOST_KEPT, NotifyPlan

INLINE = 1_000
"""Subscriptions and notifications up to which an answer is written on the event loop."""


class NotificationRoutes:
    """``/v1/relays/{relay}/notifications``."""

    def __init__(self, context: RelayContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the notifications."""
        routes.add(
            "POST",
            "/v1/relays/{relay}/notifications",
            self.post_notifications,
            needs="relays:write",
            tag="relays",
            answers={200: Notified},
            body=NotificationsBody,
            bulk="Notification",
            query=OnErrorQuery,
        )

    async def post_notifications(self, request: Request) -> Response:
        """Tell notifications to the local subscriptions that they meet, and over the links behind which there are such.

        Each is logged, with a `seq` of its own. An answer names at most 33,554,432 subscriptions; a result that lacks
        some is `truncated`. Under an Idempotency-Key a request has at most 50,000 notifications, and a retry names at
        most 50,000 subscriptions and as many links. `on_error` is a query parameter with NDJSON and Arrow bodies
        (columns `<attribute>`, `payload` as JSON text, `from`); in JSON it is a field.
        """
        reader = self._context.notification_reader
        return await self._context.bulk(request, OnErrorQuery(), reader, self._tell, numbered)

    async def _tell(self, request: Request, found: Read[Notify], ticket: Ticket | None) -> Done:
        if ticket is not None and len(found.command) > MOST_KEPT:
            reason = f"must have at most {MOST_KEPT} elements under an Idempotency-Key, which keeps the answer"
            raise Problem("too-large", f"notifications: {reason}", [FieldError("notifications", reason)])
        plan: NotifyPlan = await self._context.submit(
            request,
            found.command,
            ticket=ticket,
            skeleton=lambda plan: Skeleton(200, {**begun(found, plan.last_seq), "results": []}),
        )
        begin = opened(begun(found, plan.last_seq), "results")
        texts = pieces(plan.found, found.heads(range(plan.count)))
        if plan.found.named + plan.count <= INLINE:
            response = json_response(b"".join((begin, *texts, b"]}")))
        else:
            response = await answer_of(_written(begin, texts))
        return Done(response, {} if ticket is None else {**begun(found, plan.last_seq), **plan.told()})


async def _written(begin: bytes, texts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """An answer whose pieces are made in a thread, each once the one before is sent."""
    yield begin
    while (text := await asyncio.to_thread(next, texts, None)) is not None:
        yield text
    yield END
