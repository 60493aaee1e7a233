"""The subscriptions of relays."""

from __future__ import annotations

import json
from functools import partial
from math import isinf
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, begun, check_id, id_in_path, json_alone, page_response
from app.api.elements import Read
from app.api.models import IdsBody, NoQuery, OnErrorQuery, ids_validator
from app.api.paging import PageQuery, query
from app.api.pieces import KEPT, answer_of, in_pieces, opened, streamed
from app.api.relay_context import RelayContext
from app.api.relay_models import (
    DECIDED,
    BoxAnswer,
    BoxBody,
    Boxes,
    BoxesBody,
    BoxPatch,
    Decisions,
    Ended,
    EndedMany,
)
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.relay_json import decided, decisions, relay_json
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.relays.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription
from indexes.relays.model import RelayConfig, SubscriptionView
from indexes.relays.plans import DeletePlan, EditPlan, Plan, SetPlan


class SubscriptionRoutes:
    """``/v1/relays/{relay}/subscriptions`` but for the streams."""

    def __init__(self, context: RelayContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the subscriptions."""
        many, tag = "/v1/relays/{relay}/subscriptions", "relays"
        one, shown, add = many + "/{id}", BoxAnswer, routes.add
        write, see = "relays:write", "relays:read"
        add(
            "POST",
            many,
            self.post_boxes,
            needs=write,
            tag=tag,
            answers={201: Decisions},
            body=BoxesBody,
            bulk="NewBox",
            query=OnErrorQuery,
        )
        ids, gone = many + "/delete", {200: EndedMany}
        add("POST", ids, self.delete_boxes, needs=write, tag=tag, answers=gone, body=IdsBody)
        add("GET", many, self.list_boxes, needs=see, tag=tag, answers={200: Boxes}, query=PageQuery)
        put, patch = {201: shown, 200: shown}, {200: shown}
        add("PUT", one, self.put_box, needs=write, tag=tag, answers=put, body=BoxBody)
        add("PATCH", one, self.patch_box, needs=write, tag=tag, answers=patch, body=BoxPatch)
        add("GET", one, self.get_box, needs=see, tag=tag, answers={200: shown})
        add("DELETE", one, self.delete_box, needs=write, tag=tag, answers={200: Ended})

    async def post_boxes(self, request: Request) -> Response:
        """Make many subscriptions, all of them or none, unless `on_error` is `skip`; answers what to forward.

        `on_error` is a query parameter with NDJSON and Arrow bodies (columns `id`, `link`, `ttl`, `<attribute>_min`,
        `<attribute>_max`); in JSON it is a field.
        """
        return await self._context.bulk(request, OnErrorQuery(), self._context.subscription_reader, self._make)

    async def _make(self, request: Request, found: Read[AddSubscriptions], ticket: Ticket | None) -> Done:
        def unknown(plan: EditPlan) -> dict[str, Any]:
            answer = begun(found, plan.last_seq, plan.faults)
            return {**answer, "results": []} if plan.count <= KEPT else answer

        plan: EditPlan = await self._context.submit(
            request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(201, unknown(plan))
        )
        start = opened(begun(found, plan.last_seq, plan.faults), "results")
        response = await answer_of(streamed(start, in_pieces(plan.count, partial(_piece, found, plan))), 201)
        if ticket is None:
            return Done(response, {})
        kept = unknown(plan)
        if "results" in kept:
            kept["results"] = json.loads(f"[{_piece(found, plan, range(plan.count))}]")
        return Done(response, kept)

    async def put_box(self, request: Request) -> Response:
        """Make a subscription, or change it to this; answers what to forward.

        A change is an end and a beginning in one `seq`: it becomes the youngest.
        """
        check_id(request)
        return await self._set(request, whole=True)

    async def patch_box(self, request: Request) -> Response:
        """Change the box, by attribute, or the `ttl` of a subscription; answers as PUT."""
        return await self._set(request, whole=False)

    async def _set(self, request: Request, whole: bool) -> Response:
        raw = await json_alone(request)
        id = id_in_path(request)
        self._context.touch(request, id)

        async def run(ticket: Ticket | None) -> Done:
            config = self._context.config(request)
            validators, reader = self._context.validators(config), self._context.subscription_reader(config)
            validator = validators.put_subscription if whole else validators.patch_subscription
            body: dict[str, Any] = validated(raw, validator)
            command = reader.whole(id, body) if whole else reader.part(id, body)
            write = relay_json(config.attributes)

            def text(plan: Plan, told: str = "") -> str:
                return write.subscription(_view(plan, config), f'"seq":{plan.last_seq},', told)

            def skeleton(plan: Plan) -> Skeleton:
                return Skeleton(_status(plan), {**json.loads(text(plan)), **dict.fromkeys(DECIDED)}, open=True)

            plan: Plan = await self._context.submit(request, command, ticket=ticket, skeleton=skeleton)
            self._context.touch(request, id)
            decisions = (plan.begun, plan.ended) if isinstance(plan, SetPlan) else ()
            answer = text(plan, "".join([decided(one) for one in decisions if one is not None]))
            return Done(json_response(answer, _status(plan)), {} if ticket is None else json.loads(answer))

        return await self._context.once(request, raw, run, _without_unknown)

    async def get_box(self, request: Request) -> Response:
        """A subscription as it is."""
        query(request, NoQuery)
        relay, id = self._context.engine(request), id_in_path(request)
        seq, found = await self._context.between(request, lambda: (relay.seq, relay.subscription(id)))
        if found is None:
            raise not_found("id", f"there is no subscription {id[:128]!r}")
        self._context.touch(request, id)
        return json_response(relay_json(relay.config.attributes).subscription(found, f'"seq":{seq},'))

    async def list_boxes(self, request: Request) -> Response:
        """The subscriptions in order of id, behind them those that came over links from other services."""
        page = query(request, PageQuery)
        relay, after = self._context.engine(request), page.after
        seq, found = await self._context.between(
            request, lambda: (relay.seq, relay.subscriptions(after, page.limit + 1))
        )
        write = relay_json(relay.config.attributes).subscription
        return page_response(seq, found, page.limit, write, lambda item: item.key)

    async def delete_box(self, request: Request) -> Response:
        """End a subscription; its streams end. Answers what to forward: first `forward_subscribe`."""
        query(request, NoQuery)

        async def run(ticket: Ticket | None) -> Done:
            command = DeleteSubscriptions([id_in_path(request)], must_exist=True)
            plan: DeletePlan = await self._context.resources.submit(
                self._context.name(request),
                command,
                ticket=ticket,
                skeleton=lambda plan: Skeleton(200, {"seq": plan.last_seq, "results": []}),
            )
            text = f'{{"seq":{plan.last_seq}{decided(plan.results[0])}}}'
            kept = {"seq": plan.last_seq, **plan.told()}
            return Done(json_response(text), {} if ticket is None else kept)

        return await self._context.once(request, b"", run, _only)

    async def delete_boxes(self, request: Request) -> Response:
        """End many subscriptions; ids that are not there are passed over. Answers what to forward about each."""
        raw = await json_alone(request)
        ids = validated(raw, ids_validator(self._context.settings.max_elements))["ids"]

        async def run(ticket: Ticket | None) -> Done:
            def begin(plan: DeletePlan) -> dict[str, Any]:
                return {"seq": plan.last_seq, "deleted": plan.count, "results": []}

            plan: DeletePlan = await self._context.resources.submit(
                self._context.name(request),
                DeleteSubscriptions(ids),
                ticket=ticket,
                skeleton=lambda plan: Skeleton(200, begin(plan)),
            )
            text = f'{{"seq":{plan.last_seq},"deleted":{plan.count},"results":[{decisions(plan.results)}]}}'
            return Done(json_response(text), {} if ticket is None else json.loads(text))

        return await self._context.once(request, raw, run)


def _status(plan: Plan) -> int:
    return 201 if isinstance(plan, SetPlan) and plan.made else 200


def _view(plan: Plan, config: RelayConfig) -> SubscriptionView:
    """The subscription that a command made, changed or left as it was, as the command says it whole."""
    command = plan.command
    assert isinstance(command, SetSubscription)
    sides = zip(config.attributes, command.lo.tolist(), command.hi.tolist(), strict=True)
    box = {name: (lo, hi) for name, lo, hi in sides if not (isinf(lo) and isinf(hi))}
    return SubscriptionView(command.id, command.id, box, command.link, command.ttl)


def _without_unknown(answer: dict[str, Any]) -> dict[str, Any]:
    """A kept answer without decisions that were none."""
    return {key: value for key, value in answer.items() if value is not None or key not in DECIDED}


def _only(answer: dict[str, Any]) -> dict[str, Any]:
    """A kept answer about one subscription, whose decision is the only result."""
    (result,) = answer.pop("results")
    return {**answer, **{key: value for key, value in result.items() if key != "id"}}


def _piece(found: Read[AddSubscriptions], plan: EditPlan, at: range) -> str:
    """Some of the decisions; with `skip` each says its place in the body."""
    heads = found.heads(at if plan.positions is None else plan.positions[at.start : at.stop])
    return decisions(plan.results[at.start : at.stop], heads)
