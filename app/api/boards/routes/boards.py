"""Boards themselves: their configuration, and the best of any range."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.boards.context import BoardContext, bad_epsilon, bad_painting, json_of, runs_of, several_of
from app.api.boards.models import RESERVED, Board, BoardBody, BoardPage, BoardPatch, BoardTopQuery, BoardTopResponse
from app.api.boards.parsing.filters import FilterReader
from app.api.boards.router import READ, WRITE, boards, router
from app.api.bodies import validated
from app.api.context import Done, json_body
from app.api.problems import many
from app.api.resources import ResourceRoutes
from app.api.responses import JsonResponse, json_response
from app.api.routing import accepts
from app.api.values import LARGEST, NUMBER_TEXT, bad_attributes
from app.errors import FieldError
from app.settings import Settings
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.boards.commands import Configure, Filter
from indexes.boards.config import BoardConfig
from indexes.boards.regions import REVERSED, Region, everywhere

_PATCH = TypeAdapter(BoardPatch)

MOST_ATTRIBUTES = 4
MOST_TOGETHER = f"a board has at most {MOST_ATTRIBUTES} range attributes and indexed fields together"

_COUNT = re.compile(r"[1-9][0-9]{0,8}")


class BoardRoutes(ResourceRoutes[BoardContext]):
    """``/v1/boards`` and ``/v1/boards/{board}``."""

    noun = "board"
    body, shown, page = BoardBody, Board, BoardPage
    put_prose = "Of one that exists, what PATCH can change is changed; any other difference is refused with 409."

    def context(self, request: Request) -> BoardContext:
        return boards(request)

    def config(self, context: BoardContext, body: BoardBody) -> BoardConfig:
        """The configuration that a body describes. Raises the problem 422."""
        errors = _bad_ks(body.ks, context.settings)
        ranged, d = len(body.range_attributes), len(body.range_attributes) + len(body.indexed)
        if ranged > MOST_ATTRIBUTES:
            errors.append(FieldError("range_attributes", f"must be at most {MOST_ATTRIBUTES} attributes"))
        elif d > MOST_ATTRIBUTES:
            errors.append(FieldError("indexed", f"must be at most {MOST_ATTRIBUTES - ranged} fields: {MOST_TOGETHER}"))
        errors += bad_attributes("indexed", body.indexed)
        errors += bad_attributes("range_attributes", body.range_attributes, RESERVED)
        if body.rank.attribute in RESERVED:
            errors.append(FieldError("rank.attribute", f"must not be {body.rank.attribute!r}"))
        if body.rank.attribute in body.range_attributes:
            errors.append(FieldError("rank.attribute", "must not be a range attribute"))
        several = several_of(ranged, len(body.indexed))
        errors += bad_epsilon(body.epsilon, context.settings.max_k) + _bad_painting(several, body)
        index = body.index if d == 1 or "index" in body.model_fields_set else "kd-tree"
        if d > 1 and index != "kd-tree":
            errors.append(FieldError("index", f"must be 'kd-tree' {several}"))
        if errors:
            raise many(errors)
        return BoardConfig(
            tuple(body.range_attributes),
            body.rank.attribute,
            body.rank.order,
            tuple(sorted(body.ks)),
            body.algorithm,
            index,
            runs_of(body.epsilon),
            body.sketch,
            tuple(body.indexed),
        )


BoardRoutes().add_to(router)


@router.patch("/{board}", response_model=Board, dependencies=WRITE, openapi_extra=accepts(BoardPatch))
async def patch_board(request: Request) -> Response:
    """Change the list lengths, the algorithm, epsilon or the sketch. A length in use cannot be removed: 409."""
    context, name = boards(request), request.path_params["board"]
    raw = await json_body(request)

    async def run(ticket: Ticket | None) -> Done:
        config = context.config(request)
        body = validated(raw, _PATCH)
        given = body.model_fields_set
        errors = [FieldError(field, "must not be null") for field in ("ks", "algorithm") if _is_null(body, field)]
        errors += _bad_ks(body.ks or [], context.settings) + bad_epsilon(body.epsilon, context.settings.max_k)
        errors += _bad_painting(several_of(len(config.range_attributes), len(config.indexed)), body)
        if errors:
            raise many(errors)
        ks = tuple(body.ks) if body.ks and "ks" in given else None
        runs = runs_of(body.epsilon) if "epsilon" in given else None
        command = Configure(ks, body.algorithm, runs, body.sketch or 0 if "sketch" in given else None)

        def skeleton(plan: Any) -> Skeleton:
            shown = context.shown(name, plan.engine.latest_config, plan.engine)
            return Skeleton(200, {"seq": plan.last_seq, **shown})

        answer: dict[str, Any] = {}

        def show(plan: Any) -> None:
            answer.update(context.shown_now(name, plan.engine))

        await context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
        return Done(JsonResponse(answer), answer)

    return await context.once(request, raw, run)


@router.get(
    "/{board}/top", response_model=BoardTopResponse, dependencies=READ, openapi_extra=accepts(query=BoardTopQuery)
)
async def query_top(request: Request) -> Response:
    """Get the best objects of a range, without a subscription. Absent ends are unbounded."""
    context = boards(request)
    board = context.engine(request)
    region, k, offset, where = _asked(request, board.config, context.settings.max_k)
    found = board.top(region, k, offset, where)
    return json_response(f'{{"seq":{board.seq},"list":{json_of(board.config).list(found, offset)}}}')


def _asked(request: Request, config: BoardConfig, most: int) -> tuple[Region, int, int, Filter]:
    """The region, k, offset and filter of a question. Raises the problem 422."""
    names = config.range_attributes
    # With one attribute it need not be named.
    ends = ["l", "r"] if len(names) == 1 else [f"{end}.{name}" for name in names for end in ("l", "r")]
    filters = FilterReader(config.indexed)
    given: dict[str, str] = {}
    errors: list[FieldError] = []
    for name, text in request.query_params.multi_items():
        plain = {f"l.{names[0]}": "l", f"r.{names[0]}": "r"}.get(name, name) if len(names) == 1 else name
        if plain not in (*ends, *filters.columns, "k", "offset"):
            errors.append(FieldError(name[:80], "is not a known field"))
        elif plain in given:
            errors.append(FieldError(name, "is given more than once"))
        given[plain] = text
    sides = list(everywhere(len(names)).sides)
    for at, name in enumerate(ends):
        if name in given:
            if not NUMBER_TEXT.fullmatch(given[name]):
                errors.append(FieldError(name, "must be a number"))
            elif abs(float(given[name])) > LARGEST:
                errors.append(FieldError(name, f"must be at most {LARGEST:g} in size"))
            else:
                sides[at] = float(given[name])
    region = Region("box", tuple(sides))
    for name, (l, r) in zip(ends[::2], region.ends, strict=True):
        if l > r:
            errors.append(FieldError(name, REVERSED))
    where = filters.asked(given, errors)
    k = given.get("k", str(config.ks[-1]))
    if not _COUNT.fullmatch(k) or int(k) > most:
        errors.append(FieldError("k", f"must be an integer from 1 to {most}"))
    offset = given.get("offset", "0")
    if offset != "0" and not _COUNT.fullmatch(offset):
        errors.append(FieldError("offset", "must be an integer from 0 on"))
    elif not errors and int(offset) + int(k) > most:
        errors.append(FieldError("offset", f"offset + k must be at most {most}"))
    if errors:
        raise many(errors)
    return region, int(k), int(offset), where


def _bad_ks(ks: list[int], settings: Settings) -> list[FieldError]:
    errors = []
    if len(ks) > settings.max_ks:
        return [FieldError("ks", f"must have at most {settings.max_ks} elements")]
    for at, k in enumerate(ks):
        if k > settings.max_k:
            errors.append(FieldError(f"ks[{at}]", f"must be at most {settings.max_k}"))
        elif k in ks[:at]:
            errors.append(FieldError(f"ks[{at}]", "is listed twice"))
    return errors


def _bad_painting(several: str, body: BoardBody | BoardPatch) -> list[FieldError]:
    """What a board with several range attributes or with indexed fields does not offer."""
    errors = bad_painting(several, body.algorithm, body.epsilon)
    if several and body.sketch is not None:
        errors.append(FieldError("sketch", f"must be null {several}"))
    return errors


def _is_null(body: BoardPatch, field: str) -> bool:
    return field in body.model_fields_set and getattr(body, field) is None
