"""`PUT` of single new subscriptions of a relay, and `DELETE`, in groups: by one command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from app.api.relays.context import RelayContext
from app.api.relays.models import DECIDED
from app.api.relays.routes.subscriptions import RelaySubscriptionRoutes, only_result
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb, receipts
from app.api.together.readers import OfSubscription
from app.api.together.shaped import read_shaped
from app.rendering.relays import Row, decided_each, relay_json
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.relays.commands import EditSubscriptions
from indexes.relays.engine import RelayEngine
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.plans.subscriptions import BatchPlan


class Edit(NamedTuple):
    """One request: the subscription that it makes, or with None ends, of the relay `engine`, with the names of its
    attributes."""

    engine: RelayEngine
    attributes: tuple[str, ...]
    id: str
    made: Row | None


class Edits(OfSubscription):
    """`PUT` of single subscriptions that are not there yet, and `DELETE` of those that are: see
    `app.api.together.kind.Kind`.

    All others take the slow path; so does the whole group where that shows only when the group is carried out.
    """

    def read(self, request: ShortRequest, caller: Caller) -> Edit | Several[Edit]:
        """The subscription that a request makes or ends. Any exception sends it to the slow path."""
        if request.count > 1:
            return self._burst(cast(ShortBurst, request), caller)
        id, makes = request.id, request.verb.method == "PUT"
        relay, readers = self.addressed(request, caller)
        if relay.will_exist(id) == makes:
            raise Elsewhere
        if not makes:
            return Edit(relay, readers.config.attributes, id, None)
        made: Row = readers.reader.row(id, request.checked_body(readers.put))
        return Edit(relay, readers.config.attributes, id, made._replace(ttl=None) if made.ttl == 0 else made)

    def _burst(self, burst: ShortBurst, caller: Caller) -> Several[Edit]:
        """The subscriptions that a burst makes. Any exception makes its requests be read one by one."""
        relay, readers = self.addressed(burst, caller)
        ids, body, _ = shaped = read_shaped(burst, readers.put)
        self.routes.require_ids(caller, ids)
        if body.keys() != {"box"} or not relay.are_new(ids):
            raise Elsewhere
        attributes, row = readers.config.attributes, readers.reader.row
        made = [Edit(relay, attributes, id, row(id, one)) for id, one in zip(ids, shaped.bodies(), strict=True)]
        return Several(relay, made, ids)

    def subject(self, item: Edit) -> str | None:
        """The subscription, which one request makes and another one ends."""
        return item.id

    async def apply(self, name: str, items: Sequence[Edit], tickets: Sequence[Ticket | None]) -> BatchPlan:
        """Carry them out by one command. Raises as `Writer.submit`."""
        relay, attributes = items[0].engine, items[0].attributes

        def requests(plan: BatchPlan) -> Iterator[tuple[Ticket, Skeleton]]:
            def skeleton(event: int, at: int) -> Skeleton:
                made, seq = items[at].made, plan.first_seq + event
                if made is None:
                    # A place for its result: `Plan.results_of` takes it for the answer about one of them.
                    return Skeleton(200, {"seq": seq, "results": [{}]}, open=True)
                (text,) = relay_json(attributes).begun([made], [seq], [""])
                return Skeleton(201, {**json.loads(text), **dict.fromkeys(DECIDED)}, open=True)

            return receipts(tickets, range(len(items)), skeleton)

        plan: BatchPlan = await self.context.resources.submit(
            name, _command(items, len(attributes)), reader=relay, requests=requests if any(tickets) else None
        )
        return plan

    async def outcomes(self, job: BatchPlan, items: Sequence[Edit]) -> list[Outcome]:
        """Each with its own seq and what to forward."""
        write = relay_json(items[0].attributes)
        seqs, decided = range(job.first_seq, job.last_seq + 1), decided_each(job.results)
        rows = [item.made for item in items if item.made is not None]
        if len(rows) == len(items):
            return [Answer(201, f"{text}\n".encode(), None) for text in write.begun(rows, seqs, decided)]
        begun = [at for at, item in enumerate(items) if item.made is not None]
        texts = iter(write.begun(rows, [seqs[at] for at in begun], [decided[at] for at in begun]))
        return [
            _ended(item.id, seq, text, result.fields())
            if item.made is None
            else Answer(201, f"{next(texts)}\n".encode(), None)
            for item, seq, text, result in zip(items, seqs, decided, job.results, strict=True)
        ]


def subscription_edits(context: RelayContext, routes: RelaySubscriptionRoutes) -> list[Verb]:
    """The edits of subscriptions that are carried out together."""
    kind, path = Edits(context, routes), "/v1/relays/{relay}/subscriptions/{id}"
    return [
        Verb(kind, "PUT", path, replayed=routes.replayed, bursts=True),
        Verb(kind, "DELETE", path, replayed=only_result),
    ]


def _command(items: Sequence[Edit], attributes: int) -> EditSubscriptions:
    """All of them as one command; of what ends only the id counts."""
    n, ops, anywhere = len(items), [SUBSCRIBE] * len(items), [-np.inf, np.inf] * attributes
    ids: list[str] = []
    ends: list[float] = []
    links: list[str | None] = []
    ttl: dict[int, float] = {}
    for at, (_, _, id, made) in enumerate(items):
        ids.append(id)
        if made is None:
            ops[at] = UNSUBSCRIBE
            ends += anywhere
            links.append(None)
        else:
            ends += made.ends
            links.append(made.link)
            if made.ttl:
                ttl[at] = made.ttl
    lo, hi = np.array(ends[0::2]).reshape(n, attributes), np.array(ends[1::2]).reshape(n, attributes)
    return EditSubscriptions(np.array(ops, np.uint8), ids, lo, hi, links if any(links) else None, ttl)


def _ended(id: str, seq: int, decided: str, fields: dict[str, Any]) -> Answer:
    kept = {"seq": seq, "results": [{"id": id, **fields}]}
    return Answer(200, f'{{"seq":{seq}{decided}}}\n'.encode(), kept)
