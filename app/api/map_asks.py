"""Questions to maps: the skyline or the k best at a place, or at many, and where each answer holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import json_alone
from app.api.gathering import Gathering
from app.api.map_context import MapContext
from app.api.map_models import MapValidators, SkylineAnswer, SkylineBody, TopAnswer, TopBody
from app.api.map_questions import check, check_room, locations_of, room_of, top_of
from app.api.pieces import answer_of, opened, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.maps_json import MapJson, map_json
from app.problems import FieldError, Problem
from app.storage.log import LogUnavailable
from indexes.maps.ask_plans import AskPlan
from indexes.maps.engine import MapEngine
from indexes.maps.model import MapConfig, Point, Question, Skyline, Top
from indexes.maps.views import Answer

AT_ONCE = 0.002
"""Seconds of work up to which it is done on the event loop: a turn of its own would take longer to come."""

PIECE = 50
"""Answers that are written at a time, the first of them on the event loop."""

INLINE = 1_000
"""Objects up to which answers are written on the event loop: some milliseconds."""

ATTEMPTS = 8
"""How often a question is asked whose turn comes beside writes that fail."""


class Asked(NamedTuple):
    """What is asked of a map: of one that was made anew meanwhile, nothing."""

    name: str
    engine: MapEngine
    question: Question


class AskRoutes:
    """``/v1/maps/{map}/top`` and ``/v1/maps/{map}/skyline``."""

    def __init__(self, context: MapContext) -> None:
        self._context = context
        self._together: Gathering[Asked, Point, Answer] = Gathering(self._answers)

    def add_routes(self, routes: Routes) -> None:
        """Serve the questions."""
        one, see, add = "/v1/maps/{map}", "maps:read", routes.add
        ways = (("top", self.ask_top, TopBody, TopAnswer), ("skyline", self.ask_skyline, SkylineBody, SkylineAnswer))
        for name, endpoint, body, answer in ways:
            add(
                "POST",
                f"{one}/{name}",
                endpoint,
                needs=see,
                tag="maps",
                answers={200: answer},
                body=body,
                writes=False,
            )

    async def ask_top(self, request: Request) -> Response:
        """Find the k best objects at a place, and how far it is to where that may change.

        `zone` is a circle: strictly within it the k best of `candidates`, by the same score, are a right top-k, up to
        equal scores. With `locations` in place of `location` there is a result for each, all at one `seq`.
        """

        return await self._ask(request, lambda known: known.top, top_of)

    async def ask_skyline(self, request: Request) -> Response:
        """Find the objects that none dominates at a place, and where that stays so.

        An object dominates another when it is nowhere worse, in distance and all attributes, and somewhere better.
        Strictly inside the `zone` the skyline is the same. `locations` as with the k best.
        """
        return await self._ask(request, lambda known: known.skyline, lambda config, body, errors: Skyline())

    async def _ask(
        self,
        request: Request,
        validator: Callable[[MapValidators], SchemaValidator],
        read: Callable[[MapConfig, dict[str, Any], list[FieldError]], Question],
    ) -> Response:
        raw = await json_alone(request)
        config = self._context.config(request)
        body: dict[str, Any] = validated(raw, validator(self._context.validators(config)))
        errors: list[FieldError] = []
        question = read(config, body, errors)
        locations = locations_of(config, body)
        check(config, question, errors)
        engine = self._context.reader(request)
        room = room_of(question, engine.object_count)
        check_room(room * len(locations), "locations")
        name = self._context.name(request)
        count = self._context.service.metrics.map_answers
        kind = "top" if isinstance(question, Top) else "skyline"
        count.labels(self._context.resources.prefix + name, kind).inc(len(locations))
        write = map_json(config)
        asked = Asked(name, engine, question)
        if "location" in body:
            seq, answer = await self._together.ask(asked, locations[0])
            return json_response(f'{{"seq":{seq},{write.result(answer)}}}')
        seq, answers = await self._answers(asked, locations)
        return await answer_of(streamed(opened({"seq": seq}, "results"), _pieces(write, answers)))

    async def _answers(self, asked: Asked, locations: Sequence[Point]) -> tuple[int, Sequence[Answer]]:
        """The seq at which a question was answered at places, and the answers."""
        name, engine, question = asked
        resources = self._context.resources
        short = len(locations) * engine.seconds(question) <= AT_ONCE
        # One that is just being made has its turn first, and the question after it.
        if short and engine is resources.get(name):
            return await resources.between(name, lambda: (engine.seq, engine.answer(question, locations)))
        for attempt in range(ATTEMPTS):
            try:
                plan: AskPlan = await resources.ask(name, lambda engine: engine.ask(question, locations), engine)
                return plan.last_seq, plan.answers
            except LogUnavailable:
                # It waited beside writes that could not be logged. A question need not be.
                await asyncio.sleep(0.01 * attempt)
        raise Problem("busy", "the log cannot be written, and too many writes wait for it")


async def _pieces(write: MapJson, answers: Sequence[Answer]) -> AsyncIterator[bytes]:
    for begin in range(0, len(answers), PIECE):
        part = answers[begin : begin + PIECE]
        if sum([len(answer.rows.ids) for answer in part]) > INLINE:
            texts = await asyncio.to_thread(write.results, part)
        else:
            texts = write.results(part)
            # Neither the writing nor the sending of a piece waits for anything: others go first here.
            await asyncio.sleep(0)
        yield f"{{{'},{'.join(texts)}}}".encode()
