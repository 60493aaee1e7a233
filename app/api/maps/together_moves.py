"""Moves of single standing queries in groups: by one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from app.api.maps.context import MapContext
from app.api.maps.routes.queries import QueryRoutes, move_text
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb, receipts
from app.api.together.readers import OfSubscription
from app.api.together.shaped import read_shaped
from app.rendering.maps import map_json
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.maps.commands import MoveQueries
from indexes.maps.engine import MapEngine
from indexes.maps.plans.queries import MovePlan


class ClientMove(NamedTuple):
    """One request: where the client of a query of the map `engine` is now."""

    engine: MapEngine
    id: str
    location: tuple[float, float]


class ClientMoves(OfSubscription):
    """`PATCH` of single queries that are there, by a location alone: see `app.api.together.kind.Kind`.

    All others take the slow path; so does the whole group where that shows only when the group is carried out.
    """

    def read(self, request: ShortRequest, caller: Caller) -> ClientMove | Several[ClientMove]:
        """The move that a request asks for. Any exception sends it to the slow path."""
        if request.count > 1:
            return self._burst(cast(ShortBurst, request), caller)
        id = request.id
        engine, readers = self.addressed(request, caller)
        body: dict[str, Any] = request.checked_body(readers.patch)
        if body.keys() != {"location"} or not engine.will_exist(id):
            raise Elsewhere
        x, y = body["location"]
        return ClientMove(engine, id, (x, y))

    def _burst(self, burst: ShortBurst, caller: Caller) -> Several[ClientMove]:
        """The moves that a burst asks for. Any exception makes its requests be read one by one."""
        engine, readers = self.addressed(burst, caller)
        ids, body, _ = shaped = read_shaped(burst, readers.patch)
        self.routes.require_ids(caller, ids)
        if body.keys() != {"location"} or not all(map(engine.will_exist, ids)):
            raise Elsewhere
        places = [(x, y) for x, y in map(itemgetter("location"), shaped.bodies())]
        return Several(engine, [ClientMove(engine, id, place) for id, place in zip(ids, places, strict=True)])

    def subject(self, item: ClientMove) -> str | None:
        """Any number of requests may be about the same client."""
        return None

    async def apply(self, name: str, items: Sequence[ClientMove], tickets: Sequence[Ticket | None]) -> MovePlan:
        """Move the clients by one command. Raises as `Writer.submit`."""
        resources = self.context.resources

        def requests(plan: MovePlan) -> Iterator[tuple[Ticket, Skeleton]]:
            def skeleton(event: int, at: int) -> Skeleton:
                kept = {"seq": plan.first_seq + event, "inside": False, "zone": None}
                return Skeleton(200, kept, open=True)

            return receipts(tickets, range(len(items)), skeleton)

        plan: MovePlan = await resources.submit(
            name,
            MoveQueries([item.id for item in items], np.array([item.location for item in items], np.float64)),
            reader=items[0].engine,
            requests=requests if any(tickets) else None,
        )
        expiry, resource = self.context.service.expiry, resources.prefix + name
        for item in items if len(expiry) else ():
            expiry.touch(resource, item.id)
        return plan

    async def outcomes(self, job: MovePlan, items: Sequence[ClientMove]) -> list[Outcome]:
        """Each with its own seq, and the new result of a client that has left its zone."""
        write = map_json(self.context.config_of(items[0].engine))
        written = iter(write.results([one.answer for one in job.moved if one.answer is not None]))
        found: list[Outcome] = []
        for seq, moved in enumerate(job.moved, job.first_seq):
            text = move_text(seq, "true", "") if moved.answer is None else move_text(seq, "false", next(written))
            found.append(Answer(200, f"{text}\n".encode(), None))
        return found


def client_moves(context: MapContext, routes: QueryRoutes) -> list[Verb]:
    """The moves of clients that are carried out together."""
    kind = ClientMoves(context, routes)
    return [Verb(kind, "PATCH", "/v1/maps/{map}/queries/{id}", replayed=routes.replayed, bursts=True)]
