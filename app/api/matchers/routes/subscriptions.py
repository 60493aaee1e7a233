"""The subscriptions of matchers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from app.api.matchers.context import MatcherContext
from app.api.matchers.models import (
    MatcherSubscriptionBody,
    MatcherSubscriptionPage,
    MatcherSubscriptionPatch,
    MatcherSubscriptionResponse,
    MatcherSubscriptionsBody,
    MatcherSubscriptionsResponse,
    NewMatcherSubscription,
)
from app.api.matchers.router import matchers, router
from app.api.subscriptions import Change, Models, Prose, SubscriptionRoutes
from app.rendering.matchers import matcher_json
from app.write_path.writer import Skeleton
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.results import SubscriptionView


class MatcherSubscriptionRoutes(SubscriptionRoutes[MatcherContext, MatcherEngine, MatcherConfig]):
    """``/v1/matchers/{matcher}/subscriptions`` but for the streams."""

    models = Models(
        new=NewMatcherSubscription,
        many=MatcherSubscriptionsBody,
        whole=MatcherSubscriptionBody,
        part=MatcherSubscriptionPatch,
        shown=MatcherSubscriptionResponse,
        created=MatcherSubscriptionsResponse,
        page=MatcherSubscriptionPage,
        changed=MatcherSubscriptionResponse,
    )
    prose = Prose(
        columns="`id`, `ttl`, `<dimension>_min`, `<dimension>_max`, in relaxed mode `<dimension>_weight`, where null "
        "says that the dimension takes no part, in exact mode `score`",
        patch="Intervals and weights are merged by dimension; null takes a dimension out.",
    )
    delete_command = DeleteSubscriptions

    def context(self, request: Request) -> MatcherContext:
        return matchers(request)

    def find(self, engine: MatcherEngine, id: str) -> SubscriptionView | None:
        return engine.subscription(id)

    def writer(self, engine: MatcherEngine) -> Callable[..., str]:
        return matcher_json(engine.config).subscription

    def piece(self, found: Any, plan: Any, at: range) -> str:
        command: AddSubscriptions = plan.command
        return matcher_json(plan.engine.config).subscriptions(command, at, found.heads_at(plan.positions, at))

    def text(self, plan: Any, change: Change) -> str:
        return matcher_json(change.config).changed(plan.outcomes)[0]

    def created(self, plan: Any) -> bool:
        return bool(plan.outcomes[0].made)

    def skeleton(self, plan: Any, change: Change) -> Skeleton:
        return Skeleton(self.status(plan), json.loads(self.text(plan, change)))


MatcherSubscriptionRoutes().add_to(router)
