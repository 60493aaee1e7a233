"""The objects of boards: events, and objects one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.boards.context import json_of
from app.api.boards.models import (
    BoardEvent,
    BoardEventsBody,
    BoardEventsQuery,
    BoardEventsResponse,
    BoardObjectBody,
    BoardObjectPage,
    BoardObjectPatch,
    BoardObjectResponse,
    MessagesQuery,
)
from app.api.boards.parsing.events import ReadEvents
from app.api.boards.router import PUBLISH, READ, boards, router
from app.api.bodies import format_of, read, validated
from app.api.bulk import Place
from app.api.chunked_response import answer_of, fitting, opened, portions, streamed
from app.api.context import Done, begun, check_id, id_in_path
from app.api.element_errors import ElementErrors
from app.api.pages import PageQuery, query
from app.api.problems import not_found
from app.api.responses import JsonResponse, json_response
from app.api.routing import accepts, caller_of
from app.rendering.boards import TILE, tile_sizes, tiles_at
from app.settings import Settings
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.events import EventsPlan
from indexes.boards.results import ObjectView, TileRows
from indexes.core.commands import Refused

INLINE = 1_000
"""Tiles up to which they are written in one piece."""

PIECE = 1 << 20
"""Bytes of tiles, about, that are written at a time."""

_EVENTS = BoardEventsQuery()


@router.post(
    "/{board}/events",
    response_model=BoardEventsResponse,
    dependencies=PUBLISH,
    openapi_extra=accepts(BoardEventsBody, element=BoardEvent, query=BoardEventsQuery),
)
async def post_events(request: Request) -> Response:
    """Change many objects, in order; all or none, unless `on_error` is `skip`.

    The response has the tiles. The query parameters are for NDJSON and Arrow bodies (columns `op`, `id`, the
    attributes, `payload` as JSON text); in JSON they may be fields instead.
    """
    context = boards(request)
    return await context.bulk(request, _EVENTS, context.event_reader, _apply)


@router.put(
    "/{board}/objects/{id}",
    status_code=201,
    response_model=BoardEventsResponse,
    responses={200: {"model": BoardEventsResponse}},
    dependencies=PUBLISH,
    openapi_extra=accepts(BoardObjectBody, query=MessagesQuery),
)
async def put_object(request: Request) -> Response:
    """Create an object, or merge values into it."""
    check_id(request)
    return await _one(request, UPSERT)


@router.patch(
    "/{board}/objects/{id}",
    response_model=BoardEventsResponse,
    dependencies=PUBLISH,
    openapi_extra=accepts(BoardObjectPatch, query=MessagesQuery),
)
async def patch_object(request: Request) -> Response:
    """Change some values of an object, or its payload."""
    return await _one(request, UPDATE)


@router.delete(
    "/{board}/objects/{id}",
    response_model=BoardEventsResponse,
    dependencies=PUBLISH,
    openapi_extra=accepts(query=MessagesQuery),
)
async def delete_object(request: Request) -> Response:
    """Delete an object."""
    return await _one(request, DELETE)


@router.get("/{board}/objects/{id}", response_model=BoardObjectResponse, dependencies=READ)
async def get_object(request: Request) -> Response:
    """Get an object."""
    context = boards(request)
    return await context.item(request, "object", BoardEngine.object, _writer)


@router.get(
    "/{board}/objects", response_model=BoardObjectPage, dependencies=READ, openapi_extra=accepts(query=PageQuery)
)
async def list_objects(request: Request) -> Response:
    """List the objects in order of id."""
    context = boards(request)
    return await context.page(request, BoardEngine.objects, _writer, lambda item: item.id)


async def _one(request: Request, op: int) -> Response:
    """One event about the object in the path."""
    context = boards(request)
    messages = query(request, MessagesQuery).messages
    raw: bytes | bytearray = b""
    if op != DELETE:
        format_of(request)
        raw = await read(request)

    async def run(ticket: Ticket | None) -> Done:
        config = context.config(request)
        validators = context.validators(config)
        body: dict[str, Any] = {}
        if op != DELETE:
            body = validated(raw, validators.put_object if op == UPSERT else validators.patch_object)
        command = context.event_reader(config).one(op, id_in_path(request), body)
        try:
            found = ReadEvents(command, False, Place(""), None, ElementErrors(), messages)
            return await _apply(request, found, ticket, op == UPSERT)
        except Refused as refused:
            unknown = next((fault for fault in refused.faults if fault.kind == "unknown"), None)
            if unknown is not None:
                raise not_found("id", unknown.reason) from None
            raise Refused([replace(fault, index=None) for fault in refused.faults]) from None

    return await context.once(request, raw, run)


async def _apply(request: Request, found: ReadEvents, ticket: Ticket | None, makes: bool = False) -> Done:
    """Submit events and say what they did. With `makes` the status is 201 where the object is new."""
    context = boards(request)
    command: Events = found.command
    if found.messages == "full":
        caller_of(request).require_whole()  # tiles show what others have subscribed to

    def kept(plan: EventsPlan) -> dict[str, Any]:
        answer: dict[str, Any] = {"seq": plan.last_seq, "applied": plan.count}
        if found.messages != "none":
            answer["tile_count"] = plan.tile_count
        if found.skip:
            answer |= begun(found, plan.last_seq, plan.faults)
        return answer

    def status(plan: EventsPlan) -> int:
        return 201 if makes and plan.created else 200

    if command.batch:
        await context.service.kernels.need("boards.batch")
    plan: EventsPlan = await context.submit(
        request,
        command,
        keep=context.settings.max_tiles if found.messages == "full" else 0,
        ticket=ticket,
        skeleton=lambda plan: Skeleton(status(plan), kept(plan)),
    )
    answer = kept(plan)
    if found.messages != "full":
        return Done(JsonResponse(answer, status(plan)), answer)
    tiles = _fitting(plan, context.settings)
    if plan.tile_count > INLINE:
        return Done(await _long(found, plan, tiles, answer, status(plan)), answer)
    text = json.dumps(answer, separators=(",", ":"))
    return Done(json_response(f"{text[:-1]},{_tiles(found, plan, tiles)}}}", status(plan)), answer)


def _fitting(plan: EventsPlan, settings: Settings) -> list[TileRows]:
    """The first of the tiles, as many as an answer may have by their bytes."""
    room = settings.max_answer
    if plan.tile_count * (TILE + settings.max_payload) <= room:
        return plan.kept
    found = []
    for rows in plan.kept:
        sizes = tile_sizes(rows)
        fit = fitting(sizes, room)
        if fit < len(sizes):
            found.append(tiles_at(rows, range(fit)))
            break
        found.append(rows)
        room -= sum(sizes)
    return [rows for rows in found if len(rows.event)]


def _tiles(found: ReadEvents, plan: EventsPlan, tiles: list[TileRows]) -> str:
    """The field of a few tiles."""
    text = f'"tiles":[{",".join(map(_writer_of_tiles(found, plan), tiles))}]'
    return f'{text},"truncated":true' if _count(tiles) < plan.tile_count else text


async def _long(
    found: ReadEvents, plan: EventsPlan, tiles: list[TileRows], answer: dict[str, Any], status: int
) -> Response:
    """A response with many tiles, written as it is sent."""
    cut = {"truncated": True} if _count(tiles) < plan.tile_count else {}
    write = _writer_of_tiles(found, plan)

    async def pieces() -> AsyncIterator[bytes]:
        for rows in tiles:
            for at in portions(tile_sizes(rows), INLINE, PIECE):
                yield write(tiles_at(rows, at)).encode()
                await asyncio.sleep(0)

    return await answer_of(streamed(opened({**answer, **cut}, "tiles"), pieces()), status)


def _count(tiles: list[TileRows]) -> int:
    return sum(len(rows.event) for rows in tiles)


def _writer_of_tiles(found: ReadEvents, plan: EventsPlan) -> Callable[[TileRows], str]:
    """What writes tiles, each with the place of its event in the body."""
    write = json_of(plan.engine.config).tiles
    place, positions = found.place_of, plan.positions
    batch = found.command.batch

    def event(at: int) -> int | None:
        return None if batch else place(at if positions is None else positions[at])

    return lambda rows: write(rows, [event(at) for at in rows.event.tolist()])


def _writer(board: BoardEngine) -> Callable[..., str]:
    write = json_of(board.config).object
    return lambda item, head="": write(_shown(item), head)


def _shown(item: ObjectView) -> ObjectView:
    """An object as GET shows it: one without a payload says so."""
    return item if item.payload is not None else item._replace(payload=b"null")
