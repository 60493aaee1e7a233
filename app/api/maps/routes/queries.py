"""The standing queries of maps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from starlette.requests import Request

from app.api.maps.context import MapContext
from app.api.maps.models import (
    NewStandingQuery,
    StandingQueriesBody,
    StandingQueriesResponse,
    StandingQueryBody,
    StandingQueryPage,
    StandingQueryPatch,
    StandingQueryPatchResponse,
    StandingQueryResponse,
)
from app.api.maps.parsing.queries import QueryReader
from app.api.maps.parsing.questions import widest
from app.api.maps.router import maps, router
from app.api.models import ListsQuery
from app.api.subscriptions import Change, Models, Prose, SubscriptionRoutes
from app.rendering.maps import map_json
from app.write_path.writer import Skeleton
from indexes.core.plan import Plan
from indexes.maps.commands import AddQueries, DeleteQueries
from indexes.maps.config import MapConfig
from indexes.maps.engine import MapEngine
from indexes.maps.plans.queries import MovePlan, SetPlan
from indexes.maps.results import QueryView

AnyPlan: TypeAlias = Plan[MapEngine]


class QueryRoutes(SubscriptionRoutes[MapContext, MapEngine, MapConfig]):
    """``/v1/maps/{map}/queries`` but for the streams and the moves."""

    collection = results = "queries"
    noun = "query"
    lists = True
    models = Models(
        new=NewStandingQuery,
        many=StandingQueriesBody,
        whole=StandingQueryBody,
        part=StandingQueryPatch,
        shown=StandingQueryResponse,
        created=StandingQueriesResponse,
        page=StandingQueryPage,
        changed=StandingQueryPatchResponse,
        query=ListsQuery,
    )
    prose = Prose(
        columns="`id`, `kind`, `x`, `y`, `k`, `m`, `ordered`, `score` as JSON text, `ttl`",
        post="`lists` asks for their results.",
        patch="A location alone is a move; the response has `inside`: true in the zone that the client had, else false "
        "with the new result. With anything else the response is the whole query.",
    )
    delete_command = DeleteQueries

    def context(self, request: Request) -> MapContext:
        return maps(request)

    def reader(self, context: MapContext, config: MapConfig) -> QueryReader:
        return context.query_reader(config)

    def validators(self, context: MapContext, config: MapConfig) -> tuple[Any, Any]:
        found = context.validators(config)
        return found.put_query, found.patch_query

    def find(self, engine: MapEngine, id: str) -> QueryView | None:
        return engine.query(id, True)

    def find_many(self, engine: MapEngine, after: str | None, limit: int) -> Sequence[QueryView]:
        return engine.queries(after, limit)

    def writer(self, engine: MapEngine) -> Callable[..., str]:
        return map_json(engine.config).query

    def piece(self, found: Any, plan: Any, at: range) -> str:
        write, heads = map_json(plan.engine.config).query, found.heads_at(plan.positions, at) or [""] * len(at)
        return ",".join([write(view, head) for view, head in zip(self.views(plan, at), heads, strict=True)])

    def views(self, plan: Any, at: range) -> list[QueryView]:
        command: AddQueries = plan.command
        ids = command.ids.slice(at.start, len(at)).to_pylist()
        return [QueryView(id, *command.state_at(i), None) for id, i in zip(ids, at, strict=True)]

    def sizes(self, plan: Any) -> list[int]:
        return list(map(widest, plan.command.questions))

    def merged(self, view: QueryView, now: QueryView | None) -> QueryView:
        return view if now is None else view._replace(answer=now.answer, location=now.location)

    def text(self, plan: Any, change: Change) -> str:
        # A move says only what is in the plan: a client that stays inside is to cost no search.
        found = plan.engine.query(change.id, not _is_move(change))
        assert found is not None, "it was just made, or was there"
        return _text(plan, change, found)

    def skeleton(self, plan: Any, change: Change) -> Skeleton:
        engine: MapEngine = plan.engine
        standing = engine.latest(change.id)
        assert standing is not None, "it was accepted"
        text = _text(plan, change, QueryView(change.id, *standing, None))
        return Skeleton(self.status(plan), {**json.loads(text), "zone": None})

    def replayed(self, kept: dict[str, Any]) -> dict[str, Any]:
        """A client that is still inside has no other zone."""
        if not kept.get("inside") or "kind" in kept:
            return kept
        return {key: value for key, value in kept.items() if key != "zone"}


def _is_move(change: Change) -> bool:
    return not change.whole and change.body.keys() == {"location"}


def move_text(seq: int, inside: str, result: str) -> str:
    """The response to a move: whether the client is `inside` the zone that it had, and the fields of its new result;
    both as JSON text, the latter empty where it has none."""
    return f'{{"seq":{seq},"inside":{inside}{"," if result else ""}{result}}}'


def _text(plan: AnyPlan, change: Change, view: QueryView) -> str:
    """The response to a PUT or PATCH: of a move what came of it, else the query as GET shows it, with `inside` where
    the location was changed too."""
    write, inside = map_json(plan.engine.config), _inside(plan)
    if _is_move(change):
        answer = plan.moved[0].answer if isinstance(plan, MovePlan) and plan.moved else None
        return move_text(plan.last_seq, inside, "" if answer is None else write.result(answer))
    whole = write.query(view, f'"seq":{plan.last_seq},')
    return f'{whole[:-1]},"inside":{inside}}}' if not change.whole and "location" in change.body else whole


def _inside(plan: AnyPlan) -> str:
    """Whether the client of a query that was moved or changed was within the zone that it had. Before it is applied
    nobody knows."""
    if isinstance(plan, MovePlan):
        inside = bool(plan.moved) and plan.moved[0].inside
    else:
        # Where nothing has changed nothing has a new answer.
        inside = plan.inside if isinstance(plan, SetPlan) else not plan.count
    return "true" if inside else "false"


QueryRoutes().add_to(router)
