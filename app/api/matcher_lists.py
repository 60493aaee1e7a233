"""The subscriptions of matchers."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, begun, check_id, id_in_path, json_alone, page_response
from app.api.elements import Read
from app.api.matcher_context import MatcherContext
from app.api.matcher_models import (
    InterestAnswer,
    InterestBody,
    InterestPatch,
    Interests,
    InterestsAnswer,
    InterestsBody,
)
from app.api.models import Deleted, IdsBody, NoQuery, OnErrorQuery, Seq
from app.api.paging import PageQuery, query
from app.api.pieces import KEPT, answer_of, in_pieces, opened, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.matcher_json import matcher_json
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.forms import form_of
from indexes.matchers.plans import SetPlan
from indexes.matchers.views import SubscriptionView
from indexes.plan import Plan


class SubscriptionRoutes:
    """``/v1/matchers/{matcher}/subscriptions`` but for the streams."""

    def __init__(self, context: MatcherContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the subscriptions."""
        many, tag = "/v1/matchers/{matcher}/subscriptions", "matchers"
        one, shown, add = many + "/{id}", InterestAnswer, routes.add
        write, see = "matchers:write", "matchers:read"
        add(
            "POST",
            many,
            self.post_interests,
            needs=write,
            tag=tag,
            answers={201: InterestsAnswer},
            body=InterestsBody,
            bulk="NewInterest",
            query=OnErrorQuery,
        )
        ids, gone = many + "/delete", {200: Deleted}
        add("POST", ids, self.delete_interests, needs=write, tag=tag, answers=gone, body=IdsBody)
        add("GET", many, self.list_interests, needs=see, tag=tag, answers={200: Interests}, query=PageQuery)
        put, patch = {201: shown, 200: shown}, {200: shown}
        add("PUT", one, self.put_interest, needs=write, tag=tag, answers=put, body=InterestBody)
        add("PATCH", one, self.patch_interest, needs=write, tag=tag, answers=patch, body=InterestPatch)
        add("GET", one, self.get_interest, needs=see, tag=tag, answers={200: shown})
        add("DELETE", one, self.delete_interest, needs=write, tag=tag, answers={200: Seq})

    async def post_interests(self, request: Request) -> Response:
        """Register many subscriptions; all of them or none, unless `on_error` is `skip`.

        `on_error` is a query parameter with NDJSON and Arrow bodies (columns `id`, `ttl`, `<dimension>_min`,
        `<dimension>_max`, and in relaxed mode `<dimension>_weight`, where null says that the dimension takes no part,
        in exact mode `score`); in JSON it is a field.
        """
        return await self._context.bulk(request, OnErrorQuery(), self._context.subscription_reader, self._register)

    async def _register(self, request: Request, found: Read[AddSubscriptions], ticket: Ticket | None) -> Done:
        def kept(plan: Plan[MatcherEngine]) -> dict[str, Any]:
            answer = begun(found, plan.last_seq, plan.faults)
            if plan.count <= KEPT:
                answer["subscriptions"] = json.loads(f"[{_piece(found, plan, range(plan.count))}]")
            return answer

        plan: Plan[MatcherEngine] = await self._context.submit(
            request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(201, kept(plan))
        )
        start = opened(begun(found, plan.last_seq, plan.faults), "subscriptions")
        response = await answer_of(streamed(start, in_pieces(plan.count, partial(_piece, found, plan))), 201)
        return Done(response, {} if ticket is None else kept(plan))

    async def put_interest(self, request: Request) -> Response:
        """Make a subscription, or change it to this, so that a client which restarts can say it again."""
        check_id(request)
        return await self._set(request, whole=True)

    async def patch_interest(self, request: Request) -> Response:
        """Change intervals, weights, the score or `ttl` of a subscription; what is left out stays."""
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
            write = matcher_json(config)

            def text(plan: Plan[MatcherEngine]) -> str:
                made = plan.command
                assert isinstance(made, SetSubscription)
                view = SubscriptionView(made.id, form_of(config, made.subscription), made.ttl)
                return write.subscription(view, f'"seq":{plan.last_seq},')

            def skeleton(plan: Plan[MatcherEngine]) -> Skeleton:
                return Skeleton(_status(plan), json.loads(text(plan)))

            plan: Plan[MatcherEngine] = await self._context.submit(request, command, ticket=ticket, skeleton=skeleton)
            self._context.touch(request, id)
            answer = text(plan)
            return Done(json_response(answer, _status(plan)), {} if ticket is None else json.loads(answer))

        return await self._context.once(request, raw, run)

    async def get_interest(self, request: Request) -> Response:
        """A subscription as it is."""
        query(request, NoQuery)
        matcher, id = self._context.engine(request), id_in_path(request)
        seq, found = await self._context.between(request, lambda: (matcher.seq, matcher.subscription(id)))
        if found is None:
            raise not_found("id", f"there is no subscription {id[:128]!r}")
        self._context.touch(request, id)
        return json_response(matcher_json(matcher.config).subscription(found, f'"seq":{seq},'))

    async def list_interests(self, request: Request) -> Response:
        """The subscriptions in order of id."""
        page = query(request, PageQuery)
        matcher, after = self._context.engine(request), page.after
        seq, found = await self._context.between(
            request, lambda: (matcher.seq, matcher.subscriptions(after, page.limit + 1))
        )
        write = matcher_json(matcher.config).subscription
        return page_response(seq, found, page.limit, write, lambda item: item.id)

    async def delete_interest(self, request: Request) -> Response:
        """Delete a subscription; its streams end."""
        query(request, NoQuery)
        command = DeleteSubscriptions([id_in_path(request)], must_exist=True)
        return await self._context.delete(request, b"", command, counted=False)

    async def delete_interests(self, request: Request) -> Response:
        """Delete many subscriptions; ids that are not there are passed over."""
        return await self._context.delete_many(request, DeleteSubscriptions)


def _status(plan: Plan[MatcherEngine]) -> int:
    return 201 if isinstance(plan, SetPlan) and plan.made else 200


def _piece(found: Read[AddSubscriptions], plan: Plan[MatcherEngine], at: range) -> str:
    """Some of the subscriptions that were made; with `skip` each says its place in the body."""
    command = plan.command
    assert isinstance(command, AddSubscriptions)
    heads = found.heads(at if plan.positions is None else plan.positions[at.start : at.stop])
    return matcher_json(plan.engine.config).subscriptions(command, at, heads)
