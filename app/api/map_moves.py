"""Where the clients of standing queries are: told by a list of moves, or by sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from app.api.context import Done, begun
from app.api.elements import Read
from app.api.failures import problem_of
from app.api.map_context import MapContext
from app.api.map_models import LOCATION, MovesAnswer, MovesBody
from app.api.map_questions import check_room, room_of
from app.api.models import OnErrorQuery, made
from app.api.pieces import answer_of, numbered, opened, portions, streamed
from app.api.routing import Routes
from app.delivery.maps_json import map_json
from app.delivery.moves import Moved
from app.idempotency import Ticket
from app.problems import Problem, from_validation, invalid, not_found
from app.writer import Skeleton
from indexes.commands import Fault
from indexes.maps.commands import MoveQueries
from indexes.maps.engine import MapEngine
from indexes.maps.query_plans import MovePlan

_PLACE = made(LOCATION)

MOVES = 1_000
"""Moves that are written at a time."""

ROOM = 1_000
"""Objects in new answers that are written at a time, on the event loop: some milliseconds."""


class MoveRoutes:
    """``/v1/maps/{map}/queries/moves``, and the moves that sockets carry."""

    def __init__(self, context: MapContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the moves."""
        routes.add(
            "POST",
            "/v1/maps/{map}/queries/moves",
            self.post_moves,
            needs="maps:write",
            tag="maps",
            answers={200: MovesAnswer},
            body=MovesBody,
            bulk="Move",
            query=OnErrorQuery,
        )

    async def post_moves(self, request: Request) -> Response:
        """Say where many clients are, in order; all of them or none, unless `on_error` is `skip`.

        Each is answered by `inside`: whether that is within the zone it had; where it is not, the new answer follows.
        `on_error` is a query parameter with NDJSON and Arrow bodies (columns `id`, `x`, `y`); in JSON it is a field.
        """
        return await self._context.bulk(request, OnErrorQuery(), self._context.move_reader, self._move, numbered)

    async def _move(self, request: Request, found: Read[MoveQueries], ticket: Ticket | None) -> Done:
        check_room(_room(self._context.reader(request), found.command.ids), "moves")
        plan: MovePlan = await self._context.submit(
            request,
            found.command,
            ticket=ticket,
            skeleton=lambda plan: Skeleton(200, {**begun(found, plan.last_seq, plan.faults), "results": []}),
        )
        for moved in plan.moved:
            self._context.touch(request, moved.id)
        start = begun(found, plan.last_seq, plan.faults)
        response = await answer_of(streamed(opened(start, "results"), _pieces(found, plan)))
        return Done(response, {} if ticket is None else {**start, "results": plan.told()["results"]})

    async def carry(self, resource: str, ids: list[str], locations: list[Any]) -> Sequence[Moved | Problem]:
        """Move some clients of a map, in order; for each its outcome. Raises the problem that all have."""
        resources = self._context.resources
        name = resource.removeprefix(resources.prefix)
        if not name:
            raise not_found("map", "there is no map ''")
        outcomes: list[Moved | Problem | None] = [None] * len(ids)
        there = []
        for at, location in enumerate(locations):
            try:
                _PLACE.validate_python(location)
                there.append(at)
            except ValidationError as wrong:
                outcomes[at] = from_validation(wrong, "location")
        places = np.array([locations[at] for at in there], np.float64).reshape(-1, 2) + 0.0
        try:
            plan: MovePlan = await resources.submit(name, MoveQueries([ids[at] for at in there], places, skip=True))
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            raise problem from None
        for fault in plan.faults:
            outcomes[there[fault.index or 0]] = _refusal(fault)
        applied = range(plan.count) if plan.positions is None else plan.positions
        for i, (at, moved) in enumerate(zip(applied, plan.moved, strict=True)):
            outcomes[there[at]] = Moved(plan.first_seq + i, moved.inside)
            self._context.service.expiry.touch(resource, moved.id)
        return [outcome for outcome in outcomes if outcome is not None]


def _room(engine: MapEngine, ids: list[str]) -> int:
    """Objects that the answers may have if all clients have left their zones."""
    views = [engine.query(key) for key in ids]
    return sum([room_of(view.question, engine.object_count) for view in views if view is not None])


def _refusal(fault: Fault) -> Problem:
    return not_found("id", fault.reason) if fault.field == "id" else invalid(fault.field, fault.reason)


async def _pieces(found: Read[MoveQueries], plan: MovePlan) -> AsyncIterator[bytes]:
    """The moves, as many at a time as take some milliseconds, and others in between."""
    sizes = (0 if one.answer is None else len(one.answer.rows.ids) for one in plan.moved)
    for at in portions(sizes, MOVES, ROOM):
        yield _piece(found, plan, at).encode()
        await asyncio.sleep(0)


def _piece(found: Read[MoveQueries], plan: MovePlan, at: range) -> str:
    """Some of the moves; with `skip` each says its place in the body."""
    heads = found.heads(at if plan.positions is None else plan.positions[at.start : at.stop])
    moved = plan.moved[at.start : at.stop]
    answers = iter(map_json(plan.engine.config).results([one.answer for one in moved if one.answer is not None]))
    written = []
    for i, one in enumerate(moved):
        inside = "true" if one.answer is None else f"false,{next(answers)}"
        written.append(f'{{{heads[i] if heads else ""}"id":"{one.id}","inside":{inside}}}')
    return ",".join(written)
