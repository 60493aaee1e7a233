"""The objects of boards: events, and objects one by one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.board_context import BoardContext, json_of
from app.api.board_events import ReadEvents
from app.api.board_models import (
    Applied,
    EventsBody,
    EventsQuery,
    MessagesQuery,
    ObjectAnswer,
    ObjectBody,
    ObjectPatch,
    Objects,
)
from app.api.bodies import kind_of, read, validated
from app.api.context import Done, check_id, id_in_path, page_response, skipped
from app.api.elements import Place
from app.api.models import NoQuery
from app.api.paging import PageQuery, query
from app.api.responses import json_response
from app.api.routing import Routes
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events
from indexes.boards.plans import EventsPlan
from indexes.boards.views import ObjectView
from indexes.commands import Refused

_EVENTS = EventsQuery()


class ObjectRoutes:
    """``/v1/boards/{board}/events`` and ``/v1/boards/{board}/objects``."""

    def __init__(self, context: BoardContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the objects."""
        board, tag, write, see = "/v1/boards/{board}", "boards", "boards:write", "boards:read"
        one = board + "/objects/{id}"
        add, done, asked = routes.add, {200: Applied}, MessagesQuery
        add(
            "POST",
            board + "/events",
            self.post_events,
            needs=write,
            tag=tag,
            answers=done,
            body=EventsBody,
            bulk="Event",
            query=EventsQuery,
        )
        put = {201: Applied, 200: Applied}
        add("PUT", one, self.put_object, needs=write, tag=tag, answers=put, body=ObjectBody, query=asked)
        add("PATCH", one, self.patch_object, needs=write, tag=tag, answers=done, body=ObjectPatch, query=asked)
        add("DELETE", one, self.delete_object, needs=write, tag=tag, answers=done, query=asked)
        add("GET", one, self.get_object, needs=see, tag=tag, answers={200: ObjectAnswer})
        add("GET", board + "/objects", self.list_objects, needs=see, tag=tag, answers={200: Objects}, query=PageQuery)

    async def post_events(self, request: Request) -> Response:
        """Change many objects, in order; all of them or none, unless `on_error` is `skip`.

        The answer has the tiles: which subscriptions must hear of which object. The query parameters go with NDJSON
        and Arrow bodies (columns `op`, `id`, the attributes, `payload` as JSON text); in JSON they are fields.
        """
        return await self._context.bulk(request, _EVENTS, self._context.event_reader, self._apply)

    async def put_object(self, request: Request) -> Response:
        """Make an object, or merge values into it."""
        check_id(request)
        return await self._one(request, UPSERT)

    async def patch_object(self, request: Request) -> Response:
        """Change some values of an object, or its payload."""
        return await self._one(request, UPDATE)

    async def delete_object(self, request: Request) -> Response:
        """Delete an object."""
        return await self._one(request, DELETE)

    async def get_object(self, request: Request) -> Response:
        """An object as it is."""
        query(request, NoQuery)
        board = self._context.engine(request)
        found = board.object(id_in_path(request))
        if found is None:
            raise not_found("id", f"there is no object {id_in_path(request)[:128]!r}")
        return json_response(json_of(board.config).object(_shown(found), f'"seq":{board.seq},'))

    async def list_objects(self, request: Request) -> Response:
        """The objects in order of id."""
        page = query(request, PageQuery)
        board = self._context.engine(request)
        found = board.objects(page.after, page.limit + 1)
        write = json_of(board.config).object
        return page_response(board.seq, found, page.limit, lambda item: write(_shown(item)), lambda item: item.id)

    async def _one(self, request: Request, op: int) -> Response:
        """One event about the object in the path."""
        messages = query(request, MessagesQuery).messages
        raw: bytes | bytearray = b""
        if op != DELETE:
            kind_of(request)
            raw = await read(request)

        async def run(ticket: Ticket | None) -> Done:
            config = self._context.config(request)
            validators = self._context.validators(config)
            body: dict[str, Any] = {}
            if op != DELETE:
                body = validated(raw, validators.put_object if op == UPSERT else validators.patch_object)
            command = self._context.event_reader(config).one(op, id_in_path(request), body)
            try:
                found = ReadEvents(command, False, Place(""), None, [], messages)
                return await self._apply(request, found, ticket, op == UPSERT)
            except Refused as refused:
                unknown = next((fault for fault in refused.faults if fault.kind == "unknown"), None)
                if unknown is not None:
                    raise not_found("id", unknown.reason) from None
                raise Refused([replace(fault, index=None) for fault in refused.faults]) from None

        return await self._context.once(request, raw, run)

    async def _apply(self, request: Request, found: ReadEvents, ticket: Ticket | None, makes: bool = False) -> Done:
        """Submit events and say what they did. With `makes` the status is 201 where the object is new."""
        command: Events = found.command

        def kept(plan: EventsPlan) -> dict[str, Any]:
            answer: dict[str, Any] = {"seq": plan.last_seq, "applied": plan.count}
            if found.messages != "none":
                answer["tile_count"] = plan.tile_count
            if found.skip:
                answer["errors"] = skipped(found.errors, plan.faults, found.place, found.place_of)
            return answer

        def status(plan: EventsPlan) -> int:
            return 201 if makes and plan.created else 200

        if command.batch:
            await self._context.service.kernels.need("boards.batch")
        plan: EventsPlan = await self._context.submit(
            request,
            command,
            keep=self._context.settings.max_tiles if found.messages == "full" else 0,
            ticket=ticket,
            skeleton=lambda plan: Skeleton(status(plan), kept(plan)),
        )
        answer = kept(plan)
        text = json.dumps(answer, separators=(",", ":"))
        if found.messages == "full":
            text = f"{text[:-1]},{self._tiles(found, plan)}}}"
        return Done(json_response(text, status(plan)), answer)

    @staticmethod
    def _tiles(found: ReadEvents, plan: EventsPlan) -> str:
        write = json_of(plan.board.config).tiles
        place, positions = found.place_of, plan.positions
        batch = found.command.batch

        def event(at: int) -> int | None:
            return None if batch else place(at if positions is None else positions[at])

        parts = [write(rows, [event(at) for at in rows.event]) for rows in plan.kept]
        text = f'"tiles":[{",".join(parts)}]'
        return text if sum(len(rows.event) for rows in plan.kept) == plan.tile_count else f'{text},"truncated":true'


def _shown(item: ObjectView) -> ObjectView:
    """An object as GET shows it: one without a payload says so."""
    return item if item.payload is not None else item._replace(payload=b"null")
