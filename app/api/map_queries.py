"""The standing queries of maps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, begun, check_id, id_in_path, json_alone, page_response
from app.api.map_context import MapContext
from app.api.map_models import (
    MovedAnswer,
    StandingAnswer,
    StandingBody,
    StandingPatch,
    Standings,
    StandingsAnswer,
    StandingsBody,
    StandingsQuery,
)
from app.api.map_questions import widest
from app.api.map_standing import ReadQueries
from app.api.models import Deleted, IdsBody, NoQuery, Seq
from app.api.paging import PageQuery, query
from app.api.pieces import KEPT, answer_of, in_pieces, opened, portions, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.maps_json import map_json
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.commands import Refused
from indexes.maps.commands import AddQueries, ChangeQuery, DeleteQueries, SetQuery
from indexes.maps.engine import MapEngine
from indexes.maps.query_plans import MovePlan, SetPlan
from indexes.maps.views import QueryView
from indexes.plan import Plan

LISTS = 1_000
"""Standing queries up to which their answers are in the answer unless said."""

PORTION = 64
"""Answers that are read at a time, and others in between."""

ROOM = 1_000
"""Objects in answers that are read and written at a time, on the event loop: some milliseconds."""

AnyPlan: TypeAlias = Plan[MapEngine]


class QueryRoutes:
    """``/v1/maps/{map}/queries`` but for the streams and the moves."""

    def __init__(self, context: MapContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the standing queries."""
        many, tag, write, see = "/v1/maps/{map}/queries", "maps", "maps:write", "maps:read"
        one, shown, add = many + "/{id}", StandingAnswer, routes.add
        add(
            "POST",
            many,
            self.post_queries,
            needs=write,
            tag=tag,
            answers={201: StandingsAnswer},
            body=StandingsBody,
            bulk="NewStanding",
            query=StandingsQuery,
        )
        ids, gone = many + "/delete", {200: Deleted}
        add("POST", ids, self.delete_queries, needs=write, tag=tag, answers=gone, body=IdsBody)
        add("GET", many, self.list_queries, needs=see, tag=tag, answers={200: Standings}, query=PageQuery)
        put, patch = {201: shown, 200: shown}, {200: MovedAnswer}
        add("PUT", one, self.put_query, needs=write, tag=tag, answers=put, body=StandingBody)
        add("PATCH", one, self.patch_query, needs=write, tag=tag, answers=patch, body=StandingPatch)
        add("GET", one, self.get_query, needs=see, tag=tag, answers={200: shown})
        add("DELETE", one, self.delete_query, needs=write, tag=tag, answers={200: Seq})

    async def post_queries(self, request: Request) -> Response:
        """Register many standing queries; all of them or none, unless `on_error` is `skip`.

        `lists` asks for their answers. The query parameters go with NDJSON and Arrow bodies (columns `id`, `kind`, `x`,
        `y`, `k`, `m`, `ordered`, `score` as JSON text, `ttl`); in JSON they are fields.
        """
        return await self._context.bulk(request, StandingsQuery(), self._context.query_reader, self._register)

    async def _register(self, request: Request, found: ReadQueries, ticket: Ticket | None) -> Done:
        def kept(plan: AnyPlan) -> dict[str, Any]:
            answer = begun(found, plan.last_seq, plan.faults)
            if plan.count <= KEPT:
                answer["queries"] = json.loads(f"[{_piece(found, plan, range(plan.count))}]")
            return answer

        plan: AnyPlan = await self._context.submit(
            request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(201, kept(plan))
        )
        start = opened(begun(found, plan.last_seq, plan.faults), "queries")
        lists = plan.count <= LISTS if found.lists is None else found.lists
        pieces = self._answered(request, found, plan) if lists else in_pieces(plan.count, partial(_piece, found, plan))
        response = await answer_of(streamed(start, pieces), 201)
        return Done(response, {} if ticket is None else kept(plan))

    async def _answered(self, request: Request, found: ReadQueries, plan: AnyPlan) -> AsyncIterator[bytes]:
        """The queries with their answers, which are those at the answer's seq unless one says its own."""
        engine: MapEngine = plan.engine
        write = map_json(engine.config)

        def look(views: list[QueryView]) -> tuple[int, list[QueryView | None]]:
            return engine.seq, [engine.query(view.id, True) for view in views]

        for at in portions(_sizes(plan), PORTION, ROOM):
            views, heads = _views(plan, at), _heads(found, plan, at)
            seq, answered = await self._context.between(request, partial(look, views))
            later = "" if seq == plan.last_seq else f'"seq":{seq},'
            texts = [
                write.query(
                    view if now is None else view._replace(answer=now.answer, location=now.location), head + later
                )
                for view, now, head in zip(views, answered, heads, strict=True)
            ]
            yield ",".join(texts).encode()
            await asyncio.sleep(0)

    async def put_query(self, request: Request) -> Response:
        """Make a standing query, or change it to this, so that a client which restarts can say it again."""
        check_id(request)

        async def run(raw: bytes | bytearray, ticket: Ticket | None) -> Done:
            config, id = self._context.config(request), id_in_path(request)
            body: dict[str, Any] = validated(raw, self._context.validators(config).put_query)
            return await self._set(request, self._context.query_reader(config).whole(id, body), _whole, ticket)

        return await self._write(request, run)

    async def patch_query(self, request: Request) -> Response:
        """Say where the client of a standing query is, or change what it asks.

        A location alone is a move, answered by `inside`: true within the zone, else false with the new answer. With
        anything else the whole query is answered, as GET shows it.
        """

        async def run(raw: bytes | bytearray, ticket: Ticket | None) -> Done:
            config, id = self._context.config(request), id_in_path(request)
            body: dict[str, Any] = validated(raw, self._context.validators(config).patch_query)
            if body.keys() == {"location"}:
                write = _moved
            else:
                write = _whole_moved if "location" in body else _whole
            return await self._set(request, self._context.query_reader(config).part(id, body), write, ticket)

        return await self._write(request, run)

    async def _write(
        self, request: Request, run: Callable[[bytes | bytearray, Ticket | None], Awaitable[Done]]
    ) -> Response:
        """Read a body about the query in the path and do with it what `run` does."""
        raw = await json_alone(request)
        self._context.touch(request, id_in_path(request))
        return await self._context.once(request, raw, partial(run, raw), _replayed)

    async def _set(
        self,
        request: Request,
        command: SetQuery | ChangeQuery,
        write: Callable[[AnyPlan, QueryView], str],
        ticket: Ticket | None,
    ) -> Done:
        """Submit a command about the query in the path; `write` makes the text of the answer."""
        id, text = id_in_path(request), ""

        def skeleton(plan: AnyPlan) -> Skeleton:
            stands = plan.engine.latest(id)
            assert stands is not None, "it was accepted"
            return Skeleton(_status(plan), {**json.loads(write(plan, QueryView(id, *stands, None))), "zone": None})

        def show(plan: AnyPlan) -> None:
            nonlocal text
            # What `_moved` says is in the plan: a client that stays inside is to cost no answer.
            found = plan.engine.query(id, write is not _moved)
            assert found is not None, "it was just made, or was there"
            text = write(plan, found)

        try:
            plan: AnyPlan = await self._context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
        except Refused as refused:
            raise Refused([replace(fault, index=None) for fault in refused.faults]) from None
        self._context.touch(request, id)
        return Done(json_response(text, _status(plan)), {} if ticket is None else json.loads(text))

    async def get_query(self, request: Request) -> Response:
        """A standing query and its answer."""
        query(request, NoQuery)
        engine, id = self._context.engine(request), id_in_path(request)
        seq, found = await self._context.between(request, lambda: (engine.seq, engine.query(id, True)))
        if found is None:
            raise not_found("id", f"there is no query {id[:128]!r}")
        self._context.touch(request, id)
        return json_response(map_json(engine.config).query(found, f'"seq":{seq},'))

    async def list_queries(self, request: Request) -> Response:
        """The standing queries in order of id, without their answers."""
        page = query(request, PageQuery)
        engine, after = self._context.engine(request), page.after
        seq, found = await self._context.between(request, lambda: (engine.seq, engine.queries(after, page.limit + 1)))
        return page_response(seq, found, page.limit, map_json(engine.config).query, lambda item: item.id)

    async def delete_query(self, request: Request) -> Response:
        """Delete a standing query; its streams end."""
        query(request, NoQuery)
        command = DeleteQueries([id_in_path(request)], must_exist=True)
        return await self._context.delete(request, b"", command, counted=False)

    async def delete_queries(self, request: Request) -> Response:
        """Delete many standing queries; ids that are not there are passed over."""
        return await self._context.delete_many(request, DeleteQueries)


def _replayed(answer: dict[str, Any]) -> dict[str, Any]:
    """A kept answer as it is said again: a client that is still inside has no other zone."""
    if not answer.get("inside") or "kind" in answer:
        return answer
    return {key: value for key, value in answer.items() if key != "zone"}


def _whole(plan: AnyPlan, view: QueryView) -> str:
    """A query as GET shows it."""
    return map_json(plan.engine.config).query(view, f'"seq":{plan.last_seq},')


def _whole_moved(plan: AnyPlan, view: QueryView) -> str:
    """The same, and whether its client was inside."""
    return f'{_whole(plan, view)[:-1]},"inside":{_inside(plan)}}}'


def _moved(plan: AnyPlan, view: QueryView) -> str:
    """Whether a client was inside, and its new answer where it was not."""
    text = f'"seq":{plan.last_seq},"inside":{_inside(plan)}'
    if isinstance(plan, MovePlan) and plan.moved and plan.moved[0].answer is not None:
        text = f"{text},{map_json(plan.engine.config).result(plan.moved[0].answer)}"
    return f"{{{text}}}"


def _inside(plan: AnyPlan) -> str:
    """Whether the client of a query that was moved or changed was within the zone that it had. Before it is applied
    nobody knows."""
    if isinstance(plan, MovePlan):
        inside = bool(plan.moved) and plan.moved[0].inside
    else:
        # Where nothing has changed nothing has a new answer.
        inside = plan.inside if isinstance(plan, SetPlan) else not plan.count
    return "true" if inside else "false"


def _status(plan: AnyPlan) -> int:
    return 201 if isinstance(plan, SetPlan) and plan.made else 200


def _heads(found: ReadQueries, plan: AnyPlan, at: range) -> list[str]:
    """What comes before each query of an answer: with `skip`, its place in the body."""
    return found.heads(at if plan.positions is None else plan.positions[at.start : at.stop]) or [""] * len(at)


def _views(plan: AnyPlan, at: range) -> list[QueryView]:
    """Some of the queries that a command makes, without answers."""
    command = plan.command
    assert isinstance(command, AddQueries)
    ids = command.ids.slice(at.start, len(at)).to_pylist()
    return [QueryView(id, *command.standing(i), None) for id, i in zip(ids, at, strict=True)]


def _sizes(plan: AnyPlan) -> list[int]:
    """How many objects the answers of queries may have that a command makes."""
    command = plan.command
    assert isinstance(command, AddQueries)
    return list(map(widest, command.questions))


def _piece(found: ReadQueries, plan: AnyPlan, at: range) -> str:
    write = map_json(plan.engine.config).query
    return ",".join([write(view, head) for view, head in zip(_views(plan, at), _heads(found, plan, at), strict=True)])
