"""The subscriptions of feeds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, begun, check_id, id_in_path, json_alone, page_response
from app.api.feed_asks import ReadSubscriptions
from app.api.feed_context import FeedContext
from app.api.feed_models import (
    FeedListsQuery,
    FeedSubscriptionAnswer,
    FeedSubscriptionBody,
    FeedSubscriptionPatch,
    FeedSubscriptions,
    FeedSubscriptionsAnswer,
    FeedSubscriptionsBody,
)
from app.api.models import Deleted, IdsBody, NoQuery, Seq
from app.api.paging import PageQuery, query
from app.api.pieces import KEPT, answer_of, in_pieces, opened, portions, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.feeds_json import Posts
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.commands import Refused
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions
from indexes.feeds.edit_plans import SetPlan
from indexes.feeds.engine import FeedEngine
from indexes.feeds.views import SubscriptionView
from indexes.plan import Plan

LISTS = 1_000
"""Subscriptions up to which their lists are in the answer unless said."""

PORTION = 64
"""Lists that are read at a time, and others in between."""

ROOM = 1_000
"""Posts in lists that are read and written at a time, on the event loop: some milliseconds."""

AnyPlan: TypeAlias = Plan[FeedEngine]


class SubscriptionRoutes:
    """``/v1/feeds/{feed}/subscriptions`` but for the streams."""

    def __init__(self, context: FeedContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the subscriptions."""
        many, tag, write, see = "/v1/feeds/{feed}/subscriptions", "feeds", "feeds:write", "feeds:read"
        one, shown, add = many + "/{id}", FeedSubscriptionAnswer, routes.add
        add(
            "POST",
            many,
            self.post_feed_subscriptions,
            needs=write,
            tag=tag,
            answers={201: FeedSubscriptionsAnswer},
            body=FeedSubscriptionsBody,
            bulk="NewFeedSubscription",
            query=FeedListsQuery,
        )
        ids, gone = many + "/delete", {200: Deleted}
        add("POST", ids, self.delete_feed_subscriptions, needs=write, tag=tag, answers=gone, body=IdsBody)
        pages = {200: FeedSubscriptions}
        add("GET", many, self.list_feed_subscriptions, needs=see, tag=tag, answers=pages, query=PageQuery)
        put, patch = {201: shown, 200: shown}, {200: shown}
        add("PUT", one, self.put_feed_subscription, needs=write, tag=tag, answers=put, body=FeedSubscriptionBody)
        add("PATCH", one, self.patch_feed_subscription, needs=write, tag=tag, answers=patch, body=FeedSubscriptionPatch)
        add("GET", one, self.get_feed_subscription, needs=see, tag=tag, answers={200: shown})
        add("DELETE", one, self.delete_feed_subscription, needs=write, tag=tag, answers={200: Seq})

    async def post_feed_subscriptions(self, request: Request) -> Response:
        """Subscribe many; all of them or none, unless `on_error` is `skip`.

        `lists` asks for their lists. The query parameters go with NDJSON and Arrow bodies (columns `id`, `x`, `y`,
        `text` or `keywords` as lists, with `weights` as lists if they have such, `k`, `alpha`, `ttl`); in JSON they are
        fields.
        """
        return await self._context.bulk(request, FeedListsQuery(), self._context.subscription_reader, self._subscribe)

    async def _subscribe(self, request: Request, found: ReadSubscriptions, ticket: Ticket | None) -> Done:
        def kept(plan: AnyPlan) -> dict[str, Any]:
            answer = begun(found, plan.last_seq, plan.faults)
            if plan.count <= KEPT:
                answer["subscriptions"] = json.loads(f"[{_piece(found, plan, range(plan.count))}]")
            return answer

        plan: AnyPlan = await self._context.submit(
            request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(201, kept(plan))
        )
        start = opened(begun(found, plan.last_seq, plan.faults), "subscriptions")
        lists = plan.count <= LISTS if found.lists is None else found.lists
        pieces = self._listed(request, found, plan) if lists else in_pieces(plan.count, partial(_piece, found, plan))
        response = await answer_of(streamed(start, pieces), 201)
        return Done(response, {} if ticket is None else kept(plan))

    async def _listed(self, request: Request, found: ReadSubscriptions, plan: AnyPlan) -> AsyncIterator[bytes]:
        """The subscriptions with their lists, which are those at the answer's seq unless one says its own."""
        engine: FeedEngine = plan.engine
        command = plan.command
        assert isinstance(command, AddSubscriptions)

        def look(views: list[SubscriptionView]) -> tuple[int, list[SubscriptionView | None]]:
            return engine.seq, [engine.subscription(view.id, True) for view in views]

        for at in portions(command.subscriptions.k.tolist(), PORTION, ROOM):
            views, heads = _views(plan, at), _heads(found, plan, at)
            seq, now = await self._context.between(request, partial(look, views))
            later = "" if seq == plan.last_seq else f'"seq":{seq},'
            write = Posts().subscription
            texts = [
                write(view._replace(list=[] if one is None else one.list), head + later)
                for view, one, head in zip(views, now, heads, strict=True)
            ]
            yield ",".join(texts).encode()
            await asyncio.sleep(0)

    async def put_feed_subscription(self, request: Request) -> Response:
        """Make a subscription, or change it to this, so that a client which restarts can say it again."""
        check_id(request)
        return await self._set(request, whole=True)

    async def patch_feed_subscription(self, request: Request) -> Response:
        """Change what is named of a subscription and leave the rest."""
        return await self._set(request, whole=False)

    async def _set(self, request: Request, whole: bool) -> Response:
        raw = await json_alone(request)
        id = id_in_path(request)
        self._context.touch(request, id)

        async def run(ticket: Ticket | None) -> Done:
            reader, validators = (
                self._context.subscription_reader(self._context.config(request)),
                self._context.validators,
            )
            validator = validators.put_subscription if whole else validators.patch_subscription
            body: dict[str, Any] = validated(raw, validator)
            command = reader.whole(id, body) if whole else reader.part(id, body)
            text = ""

            def skeleton(plan: AnyPlan) -> Skeleton:
                return Skeleton(_status(plan), json.loads(_bare(plan, id)))

            def show(plan: AnyPlan) -> None:
                nonlocal text
                found = plan.engine.subscription(id, True)
                assert found is not None, "it was just made, or was there"
                text = Posts().subscription(found, f'"seq":{plan.last_seq},')

            try:
                plan: AnyPlan = await self._context.submit(
                    request, command, ticket=ticket, skeleton=skeleton, then=show
                )
            except Refused as refused:
                raise Refused([replace(fault, index=None) for fault in refused.faults]) from None
            self._context.touch(request, id)
            kept = {} if ticket is None else {**json.loads(text)}
            kept.pop("list", None)
            return Done(json_response(text, _status(plan)), kept)

        return await self._context.once(request, raw, run)

    async def get_feed_subscription(self, request: Request) -> Response:
        """A subscription and its list, best first."""
        query(request, NoQuery)
        feed, id = self._context.engine(request), id_in_path(request)
        seq, found = await self._context.between(request, lambda: (feed.seq, feed.subscription(id, True)))
        if found is None:
            raise not_found("id", f"there is no subscription {id[:128]!r}")
        self._context.touch(request, id)
        return json_response(Posts().subscription(found, f'"seq":{seq},'))

    async def list_feed_subscriptions(self, request: Request) -> Response:
        """The subscriptions in order of id, without their lists."""
        page = query(request, PageQuery)
        feed, after = self._context.engine(request), page.after
        seq, found = await self._context.between(request, lambda: (feed.seq, feed.subscriptions(after, page.limit + 1)))
        return page_response(seq, found, page.limit, Posts().subscription, lambda item: item.id)

    async def delete_feed_subscription(self, request: Request) -> Response:
        """Delete a subscription; its streams end."""
        query(request, NoQuery)
        command = DeleteSubscriptions([id_in_path(request)], must_exist=True)
        return await self._context.delete(request, b"", command, counted=False)

    async def delete_feed_subscriptions(self, request: Request) -> Response:
        """Delete many subscriptions; ids that are not there are passed over."""
        return await self._context.delete_many(request, DeleteSubscriptions)


def _status(plan: AnyPlan) -> int:
    return 201 if isinstance(plan, SetPlan) and plan.made else 200


def _bare(plan: AnyPlan, id: str) -> str:
    """A subscription as it will be, without its list."""
    standing = plan.engine.latest(id)
    assert standing is not None, "it was accepted"
    asked, ttl = standing
    return Posts().subscription(SubscriptionView(id, *asked, ttl, None), f'"seq":{plan.last_seq},')


def _heads(found: ReadSubscriptions, plan: AnyPlan, at: range) -> list[str]:
    """What comes before each subscription of an answer: with `skip`, its place in the body."""
    return found.heads(at if plan.positions is None else plan.positions[at.start : at.stop]) or [""] * len(at)


def _views(plan: AnyPlan, at: range) -> list[SubscriptionView]:
    """Some of the subscriptions that a command makes, without lists."""
    command = plan.command
    assert isinstance(command, AddSubscriptions)
    ids = command.ids.slice(at.start, len(at)).to_pylist()
    return [
        SubscriptionView(id, *asked, ttl, None) for id, (asked, ttl) in zip(ids, map(command.standing, at), strict=True)
    ]


def _piece(found: ReadSubscriptions, plan: AnyPlan, at: range) -> str:
    write = Posts().subscription
    return ",".join([write(view, head) for view, head in zip(_views(plan, at), _heads(found, plan, at), strict=True)])
