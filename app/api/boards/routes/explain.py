"""Explanations: what an event would do, and what a subscription costs. Nothing is changed or logged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from app.api.boards.context import bad_epsilon, bad_painting, json_of, runs_of, several_of
from app.api.boards.models import EventExplanation, ExplainBody, SubscriptionExplanation
from app.api.boards.router import READ, boards, router
from app.api.callers import caller_of
from app.api.context import id_in_path, json_body
from app.api.models import NoQuery
from app.api.pages import query
from app.api.problems import Problem, from_refused, many, not_found
from app.api.responses import json_response
from app.api.routing import accepts
from app.errors import FieldError
from app.rendering.boards import TILE, BoardJson, end, number
from app.streaming.hub import Following
from indexes.boards.costs import SubscriptionCost
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.explain import Boxes, ClassEffect, ExplainPlan, Explanation, Exposed, Nearest
from indexes.boards.results import ObjectView
from indexes.core.commands import Fault, Refused

INLINE = 2_000
"""Tiles up to which an explanation is written on the event loop."""


@router.post(
    "/{board}/explain",
    response_model=EventExplanation,
    dependencies=READ,
    openapi_extra=accepts(ExplainBody, asks=True),
)
async def explain_event(request: Request) -> Response:
    """Explain what an event would do, without applying it.

    It is queued among the writes and explained for the board as it then is: what POST of the same event to `events`
    would do at the next seq, tile for tile. `algorithm` and `epsilon` explain it for a board with these: with
    several range attributes or indexed fields there is `sparse` and an epsilon of null only.
    """
    context = boards(request)
    caller_of(request).require_whole()
    raw = await json_body(request)
    await context.service.kernels.need("boards.explain")
    config = context.config(request)
    settings = context.settings
    command, rest = context.event_reader(config).single(raw)
    wrong = bad_epsilon(rest.get("epsilon"), settings.max_k)
    algorithm = rest.get("algorithm")
    several = several_of(len(config.range_attributes), len(config.indexed))
    wrong = wrong or bad_painting(several, algorithm, rest.get("epsilon"))
    if wrong:
        raise many(wrong)
    dense = None if algorithm is None else algorithm == "dense"
    runs = runs_of(rest["epsilon"]) if "epsilon" in rest else None

    def accept(board: BoardEngine) -> ExplainPlan:
        return board.explain(command, settings.max_tiles, dense=dense, runs=runs)

    try:
        plan = await context.ask(request, accept)
    except Refused as refused:
        raise from_refused(refused, _named) from None
    if plan.failure is not None:
        raise plan.failure
    write, found = json_of(config), plan.explanation
    assert found is not None, "it has had its turn"
    most = settings.max_answer
    if found.tile_count * (TILE + settings.max_payload) > most and _size(found) > most:
        raise Problem("too-large", f"the explanation has more than {most} bytes")
    if found.tile_count <= INLINE:
        return json_response(explanation(write, found))
    return json_response(await asyncio.to_thread(explanation, write, found))


@router.get("/{board}/subscriptions/{id}/explain", response_model=SubscriptionExplanation, dependencies=READ)
async def explain_subscription(request: Request) -> Response:
    """Get the cost of a subscription, and how often its list changes.

    `share` is the part of events that change its list when each gives a random object of the board a new rank
    value that is as likely to take any place among the objects in range as any other.
    """
    context = boards(request)
    caller_of(request).require_whole()
    query(request, NoQuery)
    board, id = context.engine(request), id_in_path(request)
    await context.service.kernels.need("boards.explain")
    cost = board.explain_subscription(id)
    if cost is None:
        raise not_found("id", f"there is no subscription {id[:128]!r}")
    context.touch(request, id)
    resource = context.resources.prefix + context.name(request)
    return json_response(_cost(board.seq, id, cost, context.service.hub.following(resource, id)))


def _size(found: Explanation) -> int:
    """About how many bytes an explanation has."""
    size = 0
    for one in found.classes:
        own = sum(TILE + len(tile.object.payload or b"") for tile in one.tiles)
        size += own + sum(TILE * (1 + len(it.tiles.sides)) + len(it.object.payload or b"") for it in one.exposed)
    return size


def _named(fault: Fault) -> FieldError:
    return FieldError("event" if fault.index is None else f"event.{fault.field}", fault.reason)


def explanation(write: BoardJson, found: Explanation) -> str:
    """An explanation as JSON text."""
    classes = ",".join([_effect(write, one) for one in found.classes])
    text = (
        f'{{"seq":{found.seq},"kind":"{found.kind}","before":{_object(write, found.before)},'
        f'"after":{_object(write, found.after)},"near":{{"before":{_near(found.near_before)},'
        f'"after":{_near(found.near_after)}}},"classes":[{classes}],"tile_count":{found.tile_count},'
        f'"affected":{found.affected}'
    )
    return text + (',"truncated":true}' if found.truncated else "}")


def _object(write: BoardJson, item: ObjectView | None) -> str:
    return "null" if item is None else write.object(item)


def _near(near: Nearest | None) -> str:
    return (
        "null"
        if near is None
        else f'{{"west":{_listed(map(number, near.west))},"east":{_listed(map(number, near.east))}}}'
    )


def _effect(write: BoardJson, one: ClassEffect) -> str:
    calls = json.dumps(one.calls._asdict(), separators=(",", ":"))
    return (
        f'{{"k":{one.k},{write.shape(one.shape)}"before":{_boxes(write, one.shape, one.before)},'
        f'"after":{_boxes(write, one.shape, one.after)},"tiles":{_listed(map(write.tile, one.tiles))},'
        f'"exposed":{_listed(_exposed(write, one.shape, item) for item in one.exposed)},'
        f'"tile_count":{one.tile_count},"reached":{one.reached},"calls":{calls}}}'
    )


def _exposed(write: BoardJson, shape: str, item: Exposed) -> str:
    tiles = _boxes(write, shape, item.tiles)
    return f'{{"object":{write.object(item.object)},"tiles":{tiles},"reached":{item.reached}}}'


def _boxes(write: BoardJson, shape: str, boxes: Boxes) -> str:
    return _listed(write.boxes(shape, boxes.sides, boxes.where))


def _cost(seq: int, id: str, cost: SubscriptionCost, following: Following | None) -> str:
    live = "false" if following is None else "true"
    streams, kept, sent, nbytes = following or (0, 0, 0, 0)
    offset = f'"offset":{cost.offset},' if cost.offset else ""
    return (
        f'{{"seq":{seq},"id":"{id}","k":{cost.k},{offset}"objects_in_range":{cost.objects_in_range},'
        f'"list_length":{cost.list_length},"kth":{end(cost.kth)},"share":{number(cost.share)},"live":{live},'
        f'"streams":{streams},"kept":{kept},"changes":{sent},"bytes":{cost.nbytes + nbytes}}}'
    )


def _listed(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"
