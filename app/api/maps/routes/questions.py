"""Questions to maps: the skyline or the k best at a place, or at many, and where each answer holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.chunked_response import answer_of, opened, portions, streamed
from app.api.coalescing import Gathering
from app.api.connected import while_connected
from app.api.context import json_body
from app.api.maps.context import MapContext
from app.api.maps.models import MapTopBody, MapTopResponse, MapValidators, SkylineBody, SkylineResponse
from app.api.maps.parsing.questions import check, check_cost, check_room, check_size, locations_of, room_of, top_of
from app.api.maps.router import READ, maps, router
from app.api.problems import Problem
from app.api.responses import json_response
from app.api.routing import accepts
from app.errors import FieldError, LogUnavailable, NotReady
from app.rendering.maps import MapJson, answer_size, map_json
from indexes.maps.config import MapConfig, Point, Question, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.plans.questions import QuestionPlan
from indexes.maps.results import Answer

AT_ONCE = 0.002
"""Seconds of work up to which it is done on the event loop: a turn of its own would take longer to come."""

PIECE = 50
"""Answers that are written at a time, the first of them on the event loop."""

ROOM = 1 << 20
"""Bytes of answers, about, that are written at a time."""

INLINE = 4_000
"""Objects up to which answers are written on the event loop: some milliseconds."""

ATTEMPTS = 8
"""How often a question is repeated that was queued with writes that failed."""


class Asked(NamedTuple):
    """A question to a map, by which it is coalesced; a map that was created again is another one."""

    context: MapContext
    name: str
    engine: MapEngine
    question: Question


@router.post(
    "/{map}/top", response_model=MapTopResponse, dependencies=READ, openapi_extra=accepts(MapTopBody, asks=True)
)
async def ask_top(request: Request) -> Response:
    """Find the k best objects at a location, and the zone in which they stay the best.

    `zone` is a circle: strictly within it the k best of `candidates`, by the same score, are a right top-k, up to
    equal scores. With `locations` in place of `location` there is a result for each, all at one `seq`.
    """
    return await _ask(request, lambda known: known.top, top_of)


@router.post(
    "/{map}/skyline",
    response_model=SkylineResponse,
    dependencies=READ,
    openapi_extra=accepts(SkylineBody, asks=True),
)
async def ask_skyline(request: Request) -> Response:
    """Find the objects that none dominates at a place, and where that stays so.

    An object dominates another when it is nowhere worse, in distance and all attributes, and somewhere better.
    Strictly inside the `zone` the skyline is the same. `locations` as with the k best.
    """
    return await _ask(request, lambda known: known.skyline, lambda config, body, errors: Skyline())


async def _ask(
    request: Request,
    validator: Callable[[MapValidators], SchemaValidator],
    read: Callable[[MapConfig, dict[str, Any], list[FieldError]], Question],
) -> Response:
    context = maps(request)
    raw = await json_body(request)
    config = context.config(request)
    body: dict[str, Any] = validated(raw, validator(context.validators(config)))
    errors: list[FieldError] = []
    question = read(config, body, errors)
    locations = locations_of(config, body)
    check(config, question, errors)
    engine = context.reader(request)
    check_cost(question, engine.object_count)
    room = room_of(question, engine.object_count)
    most = context.settings.max_answer
    check_room(room * len(locations), "locations", most)
    name = context.name(request)
    count = context.service.metrics.map_answers
    kind = "top" if isinstance(question, Top) else "skyline"
    count.labels(context.resources.prefix + name, kind).inc(len(locations))
    write = map_json(config)
    asked = Asked(context, name, engine, question)
    if "location" in body:
        seq, answer = await while_connected(request, _TOGETHER.ask(asked, locations[0]))
        return json_response(f'{{"seq":{seq},{write.result(answer)}}}')
    seq, answers = await while_connected(request, _answers(asked, locations))
    sizes = list(map(answer_size, answers))
    check_size(sum(sizes), "locations", most)
    return await answer_of(streamed(opened({"seq": seq}, "results"), _pieces(write, answers, sizes)))


async def _answers(asked: Asked, locations: Sequence[Point]) -> tuple[int, Sequence[Answer]]:
    """The seq at which a question was answered at places, and the answers."""
    context, name, engine, question = asked
    resources = context.resources
    short = len(locations) * engine.seconds(question) <= AT_ONCE
    # One that is just being made has its turn first, and the question after it.
    if short and engine is resources.get(name):
        return await resources.between(name, lambda: (engine.seq, engine.answer(question, locations)))
    made: list[QuestionPlan] = []

    def make(engine: MapEngine) -> QuestionPlan:
        made.append(engine.ask(question, locations))
        return made[-1]

    for attempt in range(ATTEMPTS):
        try:
            plan: QuestionPlan = await resources.ask(name, make, engine)
            if plan.dropped:
                raise NotReady("the service is ending")
            return plan.last_seq, plan.answers
        except asyncio.CancelledError:
            for plan in made:
                plan.drop()
            raise
        except LogUnavailable:
            # It was queued with writes that could not be logged; a question need not be.
            await asyncio.sleep(0.01 * attempt)
    raise Problem("busy", "the log cannot be written, and too many writes wait for it")


_TOGETHER: Gathering[Asked, Point, Answer] = Gathering(_answers)
"""Questions to maps that wait for an answer."""


async def _pieces(write: MapJson, answers: Sequence[Answer], sizes: Sequence[int]) -> AsyncIterator[bytes]:
    for at in portions(sizes, PIECE, ROOM):
        part = answers[at.start : at.stop]
        if sum([len(answer.rows.objects) for answer in part]) > INLINE:
            texts = await asyncio.to_thread(write.results, part)
        else:
            texts = write.results(part)
            # Neither the writing nor the sending of a piece waits for anything: others go first here.
            await asyncio.sleep(0)
        yield f"{{{'},{'.join(texts)}}}".encode()
