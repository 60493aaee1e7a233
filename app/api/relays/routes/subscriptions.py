"""The subscriptions of relays, whose responses say what to forward."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import isinf
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, id_in_path, json_body
from app.api.models import NoQuery, ids_validator
from app.api.pages import query
from app.api.relays.context import RelayContext
from app.api.relays.models import (
    DECIDED,
    NewRelaySubscription,
    RelaySubscriptionBody,
    RelaySubscriptionDeleted,
    RelaySubscriptionPage,
    RelaySubscriptionPatch,
    RelaySubscriptionResponse,
    RelaySubscriptionsBody,
    RelaySubscriptionsDeleted,
    RelaySubscriptionsResponse,
)
from app.api.relays.router import relays, router
from app.api.responses import json_response
from app.api.subscriptions import Change, Models, Prose, SubscriptionRoutes
from app.rendering.relays import decided, decisions, relay_json
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.relays.commands import DeleteSubscriptions, SetSubscription
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.plans.subscriptions import DeletePlan, SetPlan
from indexes.relays.results import SubscriptionView


class RelaySubscriptionRoutes(SubscriptionRoutes[RelayContext, RelayEngine, RelayConfig]):
    """``/v1/relays/{relay}/subscriptions`` but for the streams."""

    results = "results"
    models = Models(
        new=NewRelaySubscription,
        many=RelaySubscriptionsBody,
        whole=RelaySubscriptionBody,
        part=RelaySubscriptionPatch,
        shown=RelaySubscriptionResponse,
        created=RelaySubscriptionsResponse,
        page=RelaySubscriptionPage,
        changed=RelaySubscriptionResponse,
        deleted=RelaySubscriptionDeleted,
        deleted_many=RelaySubscriptionsDeleted,
    )
    prose = Prose(
        columns="`id`, `link`, `ttl`, `<attribute>_min`, `<attribute>_max`",
        post="The response says what to forward.",
        put="A replacement is an unsubscription and a subscription in one `seq`: it becomes the youngest. The response "
        "says what to forward.",
        patch="Intervals are merged by attribute. The response is that of PUT.",
        delete="The response says what to forward, `forward_subscribe` first.",
    )
    delete_command = DeleteSubscriptions

    def require_ids(self, caller: Caller, ids: Iterable[str]) -> None:
        # What covers a subscription, and what its end exposes, are those of others.
        caller.require_whole()

    def context(self, request: Request) -> RelayContext:
        return relays(request)

    def find(self, engine: RelayEngine, id: str) -> SubscriptionView | None:
        return engine.subscription(id)

    def writer(self, engine: RelayEngine) -> Callable[..., str]:
        return relay_json(engine.config.attributes).subscription

    def key(self, item: SubscriptionView) -> str:
        return item.key

    def piece(self, found: Any, plan: Any, at: range) -> str:
        return decisions(plan.results[at.start : at.stop], found.heads_at(plan.positions, at))

    def expected_elements(self, found: Any, plan: Any) -> list[Any]:
        return []

    def text(self, plan: Any, change: Change) -> str:
        both = (plan.begun, plan.ended) if isinstance(plan, SetPlan) else ()
        said = "".join([decided(one) for one in both if one is not None])
        return subscription_text(plan.command, plan.last_seq, change.config, said)

    def skeleton(self, plan: Any, change: Change) -> Skeleton:
        known = json.loads(subscription_text(plan.command, plan.last_seq, change.config))
        return Skeleton(self.status(plan), {**known, **dict.fromkeys(DECIDED)}, open=True)

    def replayed(self, kept: dict[str, Any]) -> dict[str, Any]:
        """Without decisions that were none."""
        return {key: value for key, value in kept.items() if value is not None or key not in DECIDED}

    async def delete(self, request: Request) -> Response:
        query(request, NoQuery)
        context = self.context(request)

        async def run(ticket: Ticket | None) -> Done:
            command = DeleteSubscriptions([id_in_path(request)], must_exist=True)
            plan: DeletePlan = await context.resources.submit(
                context.name(request),
                command,
                ticket=ticket,
                skeleton=lambda plan: Skeleton(200, {"seq": plan.last_seq, "results": []}),
            )
            text = f'{{"seq":{plan.last_seq}{decided(plan.results[0])}}}'
            kept = {"seq": plan.last_seq, **plan.response_fields()}
            return Done(json_response(text), {} if ticket is None else kept)

        return await context.once(request, b"", run, only_result)

    async def delete_many(self, request: Request) -> Response:
        context, raw = self.context(request), await json_body(request)
        ids = validated(raw, ids_validator(context.settings.max_elements))["ids"]

        async def run(ticket: Ticket | None) -> Done:
            def begin(plan: DeletePlan) -> dict[str, Any]:
                return {"seq": plan.last_seq, "deleted": plan.count, "results": []}

            plan: DeletePlan = await context.resources.submit(
                context.name(request),
                DeleteSubscriptions(ids),
                ticket=ticket,
                skeleton=lambda plan: Skeleton(200, begin(plan)),
            )
            text = f'{{"seq":{plan.last_seq},"deleted":{plan.count},"results":[{decisions(plan.results)}]}}'
            return Done(json_response(text), {} if ticket is None else json.loads(text))

        return await context.once(request, raw, run)


def subscription_text(command: SetSubscription, seq: int, config: RelayConfig, decided: str = "") -> str:
    """The subscription of a PUT or PATCH, as the command has it, and what to forward."""
    sides = zip(config.attributes, command.lo.tolist(), command.hi.tolist(), strict=True)
    box = {name: (lo, hi) for name, lo, hi in sides if not (isinf(lo) and isinf(hi))}
    view = SubscriptionView(command.id, command.id, box, command.link, command.ttl)
    return relay_json(config.attributes).subscription(view, f'"seq":{seq},', decided)


def only_result(answer: dict[str, Any]) -> dict[str, Any]:
    """A kept response about one subscription, whose decision is the only result."""
    (result,) = answer.pop("results")
    return {**answer, **{key: value for key, value in result.items() if key != "id"}}


RelaySubscriptionRoutes().add_to(router)
