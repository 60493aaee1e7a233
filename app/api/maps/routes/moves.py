"""Moves of the clients of standing queries: in a request, or over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from app.api.bulk import Read
from app.api.callers import check_ids
from app.api.chunked_response import answer_of, numbered, opened, portions, streamed
from app.api.context import Done, begun, begun_kept
from app.api.failures import problem_of
from app.api.maps.context import MapContext
from app.api.maps.models import LOCATION, Move, MovesBody, MovesResponse
from app.api.maps.parsing.questions import check_room, room_of
from app.api.maps.router import SUBSCRIBE, maps, router
from app.api.models import OnErrorQuery, made
from app.api.problems import Problem, from_validation, invalid, not_found
from app.api.routing import accepts
from app.rendering.maps import map_json
from app.streaming.moves import Moved
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Fault
from indexes.maps.commands import MoveQueries
from indexes.maps.engine import MapEngine
from indexes.maps.plans.queries import MovePlan

_PLACE = made(LOCATION)

MOVES = 1_000
"""Moves that are written at a time."""

MOST_KEPT = 50_000
"""Moves up to which a retry under an Idempotency-Key gets their results again."""

ROOM = 1_000
"""Objects in new answers that are written at a time, on the event loop: some milliseconds."""


@router.post(
    "/{map}/queries/moves",
    response_model=MovesResponse,
    dependencies=SUBSCRIBE,
    openapi_extra=accepts(MovesBody, element=Move, query=OnErrorQuery),
)
async def post_moves(request: Request) -> Response:
    """Move many clients, in order; all or none, unless `on_error` is `skip`.

    `inside` says whether a client is still in the zone that it had; where it is not, the new result follows.
    `on_error` is a query parameter with NDJSON and Arrow bodies (columns `id`, `x`, `y`); in JSON it may be a field
    instead.
    A retry of up to 50,000 moves under an Idempotency-Key gets their results again, of more only the `seq`.
    """
    context = maps(request)
    return await context.bulk(request, OnErrorQuery(), context.move_reader, _move, numbered)


async def _move(request: Request, found: Read[MoveQueries], ticket: Ticket | None) -> Done:
    context = maps(request)
    check_ids(request, found.command.ids)
    check_room(_room(context.reader(request), found.command.ids), "moves", context.settings.max_answer)

    def kept(plan: MovePlan) -> dict[str, Any]:
        if plan.count > MOST_KEPT:
            return begun(found, plan.last_seq, plan.faults)
        return {**begun_kept(found, plan.last_seq, plan.count, plan.faults, plan.positions), "results": []}

    plan: MovePlan = await context.submit(
        request,
        found.command,
        ticket=ticket,
        skeleton=lambda plan: Skeleton(200, kept(plan)),
    )
    for moved in plan.moved:
        context.touch(request, moved.id)
    start = begun(found, plan.last_seq, plan.faults)
    response = await answer_of(streamed(opened(start, "results"), _pieces(found, plan)))
    done: dict[str, Any] = {}
    if ticket is not None:
        done = kept(plan)
        if "results" in done:
            done["results"] = plan.response_fields()["results"]
    return Done(response, done)


async def carry(
    context: MapContext, resource: str, ids: list[str], locations: list[Any]
) -> Sequence[Moved | Exception]:
    """Move some clients of a map, in order; returns the outcome of each."""
    resources = context.resources
    name = resource.removeprefix(resources.prefix)
    if not name:
        return [not_found("map", "there is no map ''")] * len(ids)
    outcomes: list[Moved | Exception | None] = [None] * len(ids)
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
        return [problem] * len(ids)
    for fault in plan.faults:
        outcomes[there[fault.index or 0]] = _refusal(fault)
    applied = range(plan.count) if plan.positions is None else plan.positions
    for i, (at, moved) in enumerate(zip(applied, plan.moved, strict=True)):
        outcomes[there[at]] = Moved(plan.first_seq + i, moved.inside)
        context.service.expiry.touch(resource, moved.id)
    return [outcome for outcome in outcomes if outcome is not None]


def _room(engine: MapEngine, ids: list[str]) -> int:
    """Objects that the answers may have if all clients have left their zones."""
    views = [engine.query(key) for key in ids]
    return sum([room_of(view.question, engine.object_count) for view in views if view is not None])


def _refusal(fault: Fault) -> Problem:
    return not_found("id", fault.reason) if fault.field == "id" else invalid(fault.field, fault.reason)


async def _pieces(found: Read[MoveQueries], plan: MovePlan) -> AsyncIterator[bytes]:
    """The moves, as many at a time as take some milliseconds, and others in between."""
    sizes = (0 if one.answer is None else len(one.answer.rows.objects) for one in plan.moved)
    for at in portions(sizes, MOVES, ROOM):
        yield _piece(found, plan, at).encode()
        await asyncio.sleep(0)


def _piece(found: Read[MoveQueries], plan: MovePlan, at: range) -> str:
    """Some of the moves; with `skip` each says its place in the body."""
    heads = found.heads_at(plan.positions, at)
    moved = plan.moved[at.start : at.stop]
    answers = iter(map_json(plan.engine.config).results([one.answer for one in moved if one.answer is not None]))
    written = []
    for i, one in enumerate(moved):
        inside = "true" if one.answer is None else f"false,{next(answers)}"
        written.append(f'{{{heads[i] if heads else ""}"id":"{one.id}","inside":{inside}}}')
    return ",".join(written)
