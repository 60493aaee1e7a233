"""The subscriptions of feeds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from app.api.feeds.context import FeedContext
from app.api.feeds.models import (
    FeedSubscriptionBody,
    FeedSubscriptionPage,
    FeedSubscriptionPatch,
    FeedSubscriptionResponse,
    FeedSubscriptionsBody,
    FeedSubscriptionsResponse,
    NewFeedSubscription,
)
from app.api.feeds.router import feeds, router
from app.api.models import ListsQuery
from app.api.subscriptions import Change, Models, Prose, SubscriptionRoutes
from app.rendering.feeds import Posts
from app.write_path.writer import Skeleton
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine
from indexes.feeds.results import SubscriptionView


class FeedSubscriptionRoutes(SubscriptionRoutes[FeedContext, FeedEngine, FeedConfig]):
    """``/v1/feeds/{feed}/subscriptions`` but for the streams."""

    lists = True
    models = Models(
        new=NewFeedSubscription,
        many=FeedSubscriptionsBody,
        whole=FeedSubscriptionBody,
        part=FeedSubscriptionPatch,
        shown=FeedSubscriptionResponse,
        created=FeedSubscriptionsResponse,
        page=FeedSubscriptionPage,
        changed=FeedSubscriptionResponse,
        query=ListsQuery,
    )
    prose = Prose(
        columns="`id`, `x`, `y`, `text` or `keywords` as lists, with `weights` as lists if they have such, `k`, "
        "`alpha`, `ttl`",
        post="`lists` asks for their lists.",
    )
    delete_command = DeleteSubscriptions

    def context(self, request: Request) -> FeedContext:
        return feeds(request)

    def find(self, engine: FeedEngine, id: str) -> SubscriptionView | None:
        return engine.subscription(id, True)

    def writer(self, engine: FeedEngine) -> Callable[..., str]:
        return Posts().subscription

    def piece(self, found: Any, plan: Any, at: range) -> str:
        write, heads = Posts().subscription, found.heads_at(plan.positions, at) or [""] * len(at)
        return ",".join([write(view, head) for view, head in zip(self.views(plan, at), heads, strict=True)])

    def views(self, plan: Any, at: range) -> list[SubscriptionView]:
        command: AddSubscriptions = plan.command
        ids = command.ids.slice(at.start, len(at)).to_pylist()
        rest = map(command.state_at, at)
        return [SubscriptionView(id, *asked, ttl, None) for id, (asked, ttl) in zip(ids, rest, strict=True)]

    def sizes(self, plan: Any) -> list[int]:
        found: list[int] = plan.command.subscriptions.k.tolist()
        return found

    def merged(self, view: SubscriptionView, now: SubscriptionView | None) -> SubscriptionView:
        return view._replace(list=[] if now is None else now.list)

    def text(self, plan: Any, change: Change) -> str:
        found = plan.engine.subscription(change.id, True)
        assert found is not None, "it was just made, or was there"
        return Posts().subscription(found, f'"seq":{plan.last_seq},')

    def skeleton(self, plan: Any, change: Change) -> Skeleton:
        engine: FeedEngine = plan.engine
        standing = engine.latest(change.id)
        assert standing is not None, "it was accepted"
        asked, ttl = standing
        text = Posts().subscription(SubscriptionView(change.id, *asked, ttl, None), f'"seq":{plan.last_seq},')
        return Skeleton(self.status(plan), json.loads(text))

    def kept(self, plan: Any, change: Change, text: str) -> dict[str, Any]:
        return {name: value for name, value in json.loads(text).items() if name != "list"}


FeedSubscriptionRoutes().add_to(router)
