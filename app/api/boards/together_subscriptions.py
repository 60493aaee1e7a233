"""`PUT` of single new subscriptions of a board in groups: by one command that adds many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from app.api.boards.context import BoardContext, json_of
from app.api.boards.routes.subscriptions import BoardSubscriptionRoutes
from app.api.together.kind import Answer, Elsewhere, Outcome, ShortRequest, Verb, receipts
from app.api.together.readers import OfSubscription
from app.rendering.boards import BoardJson
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.boards.commands import AddSubscriptions, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.edits import AddPlan
from indexes.boards.regions import Regions
from indexes.boards.results import SubscriptionView


class NewSubscription(NamedTuple):
    """One request: the subscription that it makes, by the configuration of the board `engine`."""

    engine: BoardEngine
    view: SubscriptionView


class Applied(NamedTuple):
    """What a group has made: the texts of its answers, each with its list."""

    plan: AddPlan
    texts: list[str]


class NewSubscriptions(OfSubscription):
    """`PUT` of single subscriptions that are not there yet: see `app.api.together.kind.Kind`.

    Those that are, and whatever the command would refuse, take the slow path; so does the whole group where that shows
    only when the group is carried out.
    """

    def read(self, request: ShortRequest, caller: Caller) -> NewSubscription:
        """The subscription that a request makes. Any exception sends it to the slow path."""
        id = request.id
        board, readers = self.addressed(request, caller)
        config: BoardConfig = readers.config
        if config.dimensions != 1 or config.indexed or board.subscribers.latest(id) is not None:
            raise Elsewhere
        said: SetSubscription = readers.whole(id, request.checked_body(readers.put))
        region, k, offset = said.region, said.k, said.offset
        assert region is not None and k is not None and offset is not None
        if k + offset not in config.ks or region.fault is not None:
            raise Elsewhere
        return NewSubscription(board, SubscriptionView(id, region, k, said.ttl or None, offset, ()))

    def subject(self, item: NewSubscription) -> str | None:
        """The subscription, which one request makes and another one changes."""
        return item.view.id

    async def apply(self, name: str, items: Sequence[NewSubscription], tickets: Sequence[Ticket | None]) -> Applied:
        """Make them by one command. Raises as `Writer.submit`."""
        board, views = items[0].engine, [item.view for item in items]
        write, texts = json_of(board.latest_config), list[str]()
        command = AddSubscriptions(
            pa.array([view.id for view in views], pa.string()),
            Regions.of([view.region for view in views], 1),
            np.array([view.k for view in views], np.int32),
            {at: view.ttl for at, view in enumerate(views) if view.ttl is not None},
            offset=np.array([view.offset for view in views], np.int32) if any(view.offset for view in views) else None,
        )

        def requests(plan: AddPlan) -> Iterator[tuple[Ticket, Skeleton]]:
            return receipts(
                tickets,
                range(len(items)),
                lambda event, at: Skeleton(201, _kept(write, views[at], plan.first_seq + event)),
            )

        def show(plan: AddPlan) -> None:
            for at, view in enumerate(views):
                shown = plan.engine.top(view.region, view.k, view.offset, view.where)
                texts.append(write.subscription(view, f'"seq":{plan.first_seq + at},', shown))

        plan = await self.context.resources.submit(
            name, command, reader=board, then=show, requests=requests if any(tickets) else None
        )
        return Applied(plan, texts)

    async def outcomes(self, job: Applied, items: Sequence[NewSubscription]) -> list[Outcome]:
        """Each with its own seq and list."""
        plan = job.plan
        write = json_of(plan.engine.config)
        return [
            Answer(201, f"{text}\n".encode(), _kept(write, item.view, plan.first_seq + at))
            for at, (item, text) in enumerate(zip(items, job.texts, strict=True))
        ]


def new_subscriptions(context: BoardContext, routes: BoardSubscriptionRoutes) -> list[Verb]:
    """The subscriptions of boards that are made together."""
    return [Verb(NewSubscriptions(context, routes), "PUT", "/v1/boards/{board}/subscriptions/{id}")]


def _kept(write: BoardJson, view: SubscriptionView, seq: int) -> dict[str, Any]:
    """The answer to a request without its list."""
    found: dict[str, Any] = json.loads(write.subscription(view, f'"seq":{seq},'))
    return found
