"""The subscriptions of boards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request

from app.api.boards.context import BoardContext, json_of
from app.api.boards.models import (
    BoardSubscriptionBody,
    BoardSubscriptionPage,
    BoardSubscriptionPatch,
    BoardSubscriptionResponse,
    BoardSubscriptionsBody,
    BoardSubscriptionsResponse,
    NewBoardSubscription,
)
from app.api.boards.parsing.subscriptions import ReadSubscriptions
from app.api.boards.router import boards, router
from app.api.chunked_response import in_pieces
from app.api.models import ListsQuery
from app.api.problems import Problem, from_refused
from app.api.subscriptions import LISTS, Change, Models, Prose, SubscriptionRoutes
from app.errors import FieldError
from app.write_path.writer import Skeleton
from indexes.boards.commands import AddSubscriptions, DeleteSubscriptions, Filter, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.edits import AddPlan
from indexes.boards.results import ObjectView, SubscriptionView
from indexes.boards.store import BoardStore
from indexes.core.commands import Fault, Refused
from indexes.core.plan import Plan

TURN = 0.05
"""Seconds of writing lists after which others get their turn."""


class BoardSubscriptionRoutes(SubscriptionRoutes[BoardContext, BoardEngine, BoardConfig]):
    """``/v1/boards/{board}/subscriptions`` but for the streams."""

    lists = True
    models = Models(
        new=NewBoardSubscription,
        many=BoardSubscriptionsBody,
        whole=BoardSubscriptionBody,
        part=BoardSubscriptionPatch,
        shown=BoardSubscriptionResponse,
        created=BoardSubscriptionsResponse,
        page=BoardSubscriptionPage,
        changed=BoardSubscriptionResponse,
        query=ListsQuery,
    )
    prose = Prose(
        columns="`id`, `k`, `<attribute>_min`, `<attribute>_max`, `offset`, `ttl`, and `where.<field>` as JSON text",
        post="`lists` asks for their lists.",
    )
    delete_command = DeleteSubscriptions

    def context(self, request: Request) -> BoardContext:
        return boards(request)

    def find(self, engine: BoardEngine, id: str) -> tuple[SubscriptionView, list[ObjectView]] | None:
        view = engine.subscription(id)
        return None if view is None else (view, _list(engine, view))

    def find_many(self, engine: BoardEngine, after: str | None, limit: int) -> Sequence[tuple[SubscriptionView, None]]:
        return [(view, None) for view in engine.subscriptions(after, limit)]

    def writer(self, engine: BoardEngine) -> Callable[..., str]:
        write = json_of(engine.config).subscription
        return lambda found, head="": write(found[0], head, found[1])

    def key(self, item: tuple[SubscriptionView, None]) -> str:
        return item[0].id

    def piece(self, found: Any, plan: Any, at: range) -> str:
        write, heads = json_of(plan.engine.config).subscription, _heads(found, plan, at)
        views = _views(plan.command)[at.start : at.stop]
        return ",".join([write(view, head) for view, head in zip(views, heads, strict=True)])

    def pieces(self, request: Request, found: Any, plan: Any) -> AsyncIterator[bytes]:
        if self.wants_lists(found, plan):
            return _with_lists(found, plan)
        if plan.engine.config.dimensions > 1:
            return _in_turn(found, plan)
        return in_pieces(plan.count, partial(_piece, found, plan))

    def text(self, plan: Any, change: Change) -> str:
        view = _view(plan)
        write = json_of(change.config).subscription
        return write(view, f'"seq":{plan.engine.seq},', _list(plan.engine, view))

    def skeleton(self, plan: Any, change: Change) -> Skeleton:
        text = json_of(change.config).subscription(_view(plan), f'"seq":{plan.last_seq},')
        return Skeleton(self.status(plan), json.loads(text))

    def kept(self, plan: Any, change: Change, text: str) -> dict[str, Any]:
        return self.skeleton(plan, change).answer

    def refusal(self, refused: Refused, config: BoardConfig) -> Problem:
        """A range is that of the board's attribute, where it has one."""

        def named(fault: Fault) -> FieldError:
            one = fault.field == "range" and len(config.range_attributes) == 1
            return FieldError(f"range.{config.range_attributes[0]}" if one else fault.field, fault.reason)

        return from_refused(refused, named)


def _view(plan: Plan[BoardStore]) -> SubscriptionView:
    """The subscription that a command made or changed, as the command says it whole."""
    command = plan.command
    assert isinstance(command, SetSubscription) and command.region is not None
    assert command.k is not None and command.offset is not None and command.where is not None
    rest = command.k, command.ttl or None, command.offset, command.where
    return SubscriptionView(command.id, command.region, *rest)


def _list(board: BoardEngine | BoardStore, view: SubscriptionView) -> list[ObjectView]:
    return board.top(view.region, view.k, view.offset, view.where)


def _views(command: AddSubscriptions) -> list[SubscriptionView]:
    offset = [0] * len(command) if command.offset is None else command.offset.tolist()
    where: list[Filter] = [()] * len(command)
    if command.where:
        wanted = zip(*(column.to_pylist() for column in command.where), strict=True)
        where = [row if any(text is not None for text in row) else () for row in wanted]
    return [
        SubscriptionView(id, command.regions.at(i), k, command.ttl.get(i), offset[i], where[i])
        for i, (id, k) in enumerate(zip(command.ids.to_pylist(), command.k.tolist(), strict=True))
    ]


def _heads(found: ReadSubscriptions, plan: AddPlan, at: range) -> list[str]:
    """What comes before each subscription of a response: with `skip`, its place in the body."""
    return found.heads_at(plan.positions, at) or [""] * len(at)


async def _with_lists(found: ReadSubscriptions, plan: Any) -> AsyncIterator[bytes]:
    """The subscriptions with their lists, which are those at the response's seq unless one says its own."""
    board, write = plan.engine, json_of(plan.engine.config).subscription
    heads = _heads(found, plan, range(plan.count))
    until = time.perf_counter() + TURN
    for i, view in enumerate(_views(plan.command)):
        head = heads[i] if board.seq == plan.last_seq else f'{heads[i]}"seq":{board.seq},'
        yield write(view, head, _list(board, view)).encode()
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN


async def _in_turn(found: ReadSubscriptions, plan: Any) -> AsyncIterator[bytes]:
    """The subscriptions in pieces of `LISTS`, between which others get their turn."""
    write = json_of(plan.engine.config).subscription
    views, heads = _views(plan.command), _heads(found, plan, range(plan.count))
    for start in range(0, plan.count, LISTS):
        part = zip(views[start : start + LISTS], heads[start : start + LISTS], strict=True)
        yield ",".join([write(view, head) for view, head in part]).encode()
        await asyncio.sleep(0)


def _piece(found: ReadSubscriptions, plan: AddPlan, at: range) -> str:
    heads = _heads(found, plan, at) if found.skip else None
    return json_of(plan.engine.config).subscriptions(plan.command, at, heads)


BoardSubscriptionRoutes().add_to(router)
