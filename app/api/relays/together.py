"""Subscriptions of a relay that begin and end one by one, carried out together as one command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from app.api.relays.context import RelayContext
from app.api.relays.models import DECIDED
from app.api.relays.routes.subscriptions import RelaySubscriptionRoutes, only_result, subscription_text
from app.api.together.kind import Answer, Elsewhere, Outcome, ShortRequest, Verb, receipts
from app.api.together.readers import OfSubscription
from app.rendering.relays import decided
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.relays.commands import EditSubscriptions, SetSubscription
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.plans.subscriptions import BatchPlan
from indexes.relays.results import Subscribed, Unsubscribed


class Edit(NamedTuple):
    """One request: the subscription that it makes, or with None ends, of the relay `engine`."""

    engine: RelayEngine
    id: str
    made: SetSubscription | None


class Edits(OfSubscription):
    """`PUT` of single subscriptions that are not there yet, and `DELETE` of those that are: see
    `app.api.together.kind.Kind`.

    All others take the usual way, the whole group where that is seen late.
    """

    def read(self, request: ShortRequest, caller: Caller) -> Edit:
        """The subscription that a request makes or ends. Raises whatever makes it take the usual way."""
        id, makes = request.id, request.verb.method == "PUT"
        relay, readers = self.addressed(request, caller)
        if (relay.latest(id) is None) != makes:
            raise Elsewhere
        if not makes:
            return Edit(relay, id, None)
        made: SetSubscription = readers.whole(id, request.checked_body(readers.put))
        return Edit(relay, id, replace(made, ttl=made.ttl or None))

    def subject(self, item: Edit) -> str | None:
        """The subscription, which one request makes and another one ends."""
        return item.id

    async def apply(self, name: str, items: Sequence[Edit], tickets: Sequence[Ticket | None]) -> BatchPlan:
        """Carry them out by one command. Raises as `Writer.submit`."""
        relay = items[0].engine
        config = self.context.config_of(relay)

        def requests(plan: BatchPlan) -> Iterator[tuple[Ticket, Skeleton]]:
            def skeleton(event: int, at: int) -> Skeleton:
                made, seq = items[at].made, plan.first_seq + event
                if made is None:
                    # A place for its result: `Plan.results_of` takes it for the answer about one of them.
                    return Skeleton(200, {"seq": seq, "results": [{}]}, open=True)
                known = json.loads(subscription_text(made, seq, config))
                return Skeleton(201, {**known, **dict.fromkeys(DECIDED)}, open=True)

            return receipts(tickets, range(len(items)), skeleton)

        plan: BatchPlan = await self.context.resources.submit(
            name, _command(items, len(config.attributes)), reader=relay, requests=requests if any(tickets) else None
        )
        return plan

    async def outcomes(self, job: BatchPlan, items: Sequence[Edit]) -> list[Outcome]:
        """Each with its own seq and what to forward."""
        config = self.context.config_of(items[0].engine)
        return [
            _answer(item, seq, result, config)
            for item, seq, result in zip(items, range(job.first_seq, job.last_seq + 1), job.results, strict=True)
        ]


def subscription_edits(context: RelayContext, routes: RelaySubscriptionRoutes) -> list[Verb]:
    """The edits of subscriptions that are carried out together."""
    kind, path = Edits(context, routes), "/v1/relays/{relay}/subscriptions/{id}"
    return [
        Verb(kind, "PUT", path, replayed=routes.replayed),
        Verb(kind, "DELETE", path, replayed=only_result),
    ]


def _command(items: Sequence[Edit], attributes: int) -> EditSubscriptions:
    """All of them as one command; of what ends only the id counts."""
    made = [item.made for item in items]
    anywhere = np.full(attributes, -np.inf), np.full(attributes, np.inf)
    linked = any(one is not None and one.link is not None for one in made)
    links = [None if one is None else one.link for one in made] if linked else []
    return EditSubscriptions(
        np.array([UNSUBSCRIBE if one is None else SUBSCRIBE for one in made], np.uint8),
        pa.array([item.id for item in items], pa.string()),
        np.array([anywhere[0] if one is None else one.lo for one in made]),
        np.array([anywhere[1] if one is None else one.hi for one in made]),
        pa.array(links, pa.string()) if linked else None,
        {at: one.ttl for at, one in enumerate(made) if one is not None and one.ttl},
    )


def _answer(item: Edit, seq: int, result: Subscribed | Unsubscribed, config: RelayConfig) -> Answer:
    if item.made is not None:
        return Answer(201, f"{subscription_text(item.made, seq, config, decided(result))}\n".encode(), None)
    kept = {"seq": seq, "results": [{"id": item.id, **result.fields()}]}
    return Answer(200, f'{{"seq":{seq}{decided(result)}}}\n'.encode(), kept)
