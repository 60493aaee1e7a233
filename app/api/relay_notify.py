"""Notifications: who gets them, told at once to the live ones and queued for links."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import BULK, Kind, kind_of, read
from app.api.context import Done, element_refusal, json_response, skipped
from app.api.models import NoQuery
from app.api.paging import query
from app.api.relay_context import RelayContext
from app.api.relay_models import NotificationsBody, NotificationsQuery, Notified
from app.api.relay_notifications import ReadNotifications
from app.api.routing import Routes
from app.delivery.relay_json import deliveries
from app.idempotency import Ticket
from app.writer import Skeleton
from indexes.commands import Refused
from indexes.relays.model import RelayConfig
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
            query=NotificationsQuery,
        )

    async def post_notifications(self, request: Request) -> Response:
        """Tell notifications to the local subscriptions that they meet, and over the links behind which there are such.

        Each is logged, with a `seq` of its own. `on_error` is a query parameter with NDJSON and Arrow bodies (columns
        `<attribute>`, `payload` as JSON text, `from`); in JSON it is a field.
        """
        kind = kind_of(request, BULK)
        asked = NotificationsQuery()
        if kind is Kind.JSON:
            query(request, NoQuery)
        else:
            asked = query(request, NotificationsQuery)
        raw = await read(request)

        async def run(ticket: Ticket | None) -> Done:
            def parse(config: RelayConfig) -> ReadNotifications:
                return self._context.notification_reader(config).read(kind, raw, asked)

            found = await self._context.parsed(request, raw, parse)
            try:
                return await self._tell(request, found, ticket)
            except Refused as refused:
                raise element_refusal(refused, found.place, found.place_of) from None

        return await self._context.once(request, raw, run)

    async def _tell(self, request: Request, found: ReadNotifications, ticket: Ticket | None) -> Done:
        def begin(plan: NotifyPlan) -> dict[str, Any]:
            answer: dict[str, Any] = {"seq": plan.last_seq}
            if found.skip:
                answer["errors"] = skipped(found.errors, (), found.place, found.place_of)
            return answer

        plan: NotifyPlan = await self._context.submit(
            request,
            found.command,
            ticket=ticket,
            skeleton=None if ticket is None else lambda plan: Skeleton(200, {**begin(plan), "results": []}),
        )
        heads = [f'"index":{found.place_of(i)},' for i in range(len(found.command))] if found.skip else []
        start = json.dumps(begin(plan), separators=(",", ":"))[:-1]
        text = f'{start},"results":[{deliveries(plan.results, heads)}]}}'
        return Done(json_response(text), {} if ticket is None else json.loads(text))
