"""Notifications: who gets them, told at once to the live ones and queued for links."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from app.api.context import Done, begun, json_response
from app.api.elements import Read
from app.api.models import OnErrorQuery
from app.api.pieces import opened
from app.api.relay_context import RelayContext
from app.api.relay_models import NotificationsBody, Notified
from app.api.routing import Routes
from app.delivery.relay_json import deliveries
from app.idempotency import Ticket
from app.writer import Skeleton
from indexes.relays.commands import Notify
from indexes.relays.plans import NotifyPlan


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

        Each is logged, with a `seq` of its own. `on_error` is a query parameter with NDJSON and Arrow bodies (columns
        `<attribute>`, `payload` as JSON text, `from`); in JSON it is a field.
        """
        return await self._context.bulk(request, OnErrorQuery(), self._context.notification_reader, self._tell)

    async def _tell(self, request: Request, found: Read[Notify], ticket: Ticket | None) -> Done:
        plan: NotifyPlan = await self._context.submit(
            request,
            found.command,
            ticket=ticket,
            skeleton=lambda plan: Skeleton(200, {**begun(found, plan.last_seq), "results": []}),
        )
        start = opened(begun(found, plan.last_seq), "results").decode()
        text = f"{start}{deliveries(plan.results, found.heads(range(len(found.command))))}]}}"
        return Done(json_response(text), {} if ticket is None else json.loads(text))
