"""The subscriptions of boards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from app.api.board_context import BoardContext, json_of
from app.api.board_models import (
    SubscriptionAnswer,
    SubscriptionBody,
    SubscriptionPatch,
    Subscriptions,
    SubscriptionsAnswer,
    SubscriptionsBody,
    SubscriptionsQuery,
)
from app.api.board_subscriptions import ReadSubscriptions
from app.api.bodies import validated
from app.api.context import Done, begun, check_id, id_in_path, json_alone, page_response
from app.api.models import Deleted, IdsBody, NoQuery, Seq
from app.api.paging import PageQuery, query
from app.api.pieces import KEPT, answer_of, in_pieces, opened, streamed
from app.api.responses import json_response
from app.api.routing import Routes
from app.delivery.encode import BoardJson, ends_column, number
from app.idempotency import Ticket
from app.problems import FieldError, Problem, from_refused, not_found
from app.writer import Skeleton
from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Filter, SetSubscription, Subscribe, Unsubscribe
from indexes.boards.plans import EditPlan
from indexes.boards.views import ObjectView, SubscriptionView
from indexes.commands import Fault, Refused

LISTS = 1_000
"""Subscriptions up to which their lists are in the answer unless said."""

TURN = 0.05
"""Seconds of writing lists after which others get their turn."""


class SubscriptionRoutes:
    """``/v1/boards/{board}/subscriptions`` but for the streams."""

    def __init__(self, context: BoardContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the subscriptions."""
        many, tag, write, see = "/v1/boards/{board}/subscriptions", "boards", "boards:write", "boards:read"
        one, shown, add = many + "/{id}", SubscriptionAnswer, routes.add
        add(
            "POST",
            many,
            self.post_subscriptions,
            needs=write,
            tag=tag,
            answers={201: SubscriptionsAnswer},
            body=SubscriptionsBody,
            bulk="NewSubscription",
            query=SubscriptionsQuery,
        )
        ids, gone = many + "/delete", {200: Deleted}
        add("POST", ids, self.delete_subscriptions, needs=write, tag=tag, answers=gone, body=IdsBody)
        add("GET", many, self.list_subscriptions, needs=see, tag=tag, answers={200: Subscriptions}, query=PageQuery)
        put, patch = {201: shown, 200: shown}, {200: shown}
        add("PUT", one, self.put_subscription, needs=write, tag=tag, answers=put, body=SubscriptionBody)
        add("PATCH", one, self.patch_subscription, needs=write, tag=tag, answers=patch, body=SubscriptionPatch)
        add("GET", one, self.get_subscription, needs=see, tag=tag, answers={200: shown})
        add("DELETE", one, self.delete_subscription, needs=write, tag=tag, answers={200: Seq})

    async def post_subscriptions(self, request: Request) -> Response:
        """Register many subscriptions; all of them or none, unless `on_error` is `skip`.

        The query parameters go with NDJSON and Arrow bodies (columns `id`, `k`, `<attribute>_min`, `<attribute>_max`,
        `offset`, `ttl`, and `where.<field>` as JSON text); in JSON they are fields.
        """
        return await self._context.bulk(
            request, SubscriptionsQuery(), self._context.subscription_reader, self._register
        )

    async def _register(self, request: Request, found: ReadSubscriptions, ticket: Ticket | None) -> Done:
        def kept(plan: EditPlan) -> dict[str, Any]:
            answer = begun(found, plan.last_seq, plan.faults)
            if plan.count <= KEPT:
                views, write = _views(_made(plan)), json_of(plan.board.config)
                heads = _heads(found, plan, range(plan.count))
                answer["subscriptions"] = [
                    json.loads(write.subscription(view, head)) for view, head in zip(views, heads, strict=True)
                ]
            return answer

        plan: EditPlan = await self._context.submit(
            request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(201, kept(plan))
        )
        start = opened(begun(found, plan.last_seq, plan.faults), "subscriptions")
        lists = plan.count <= LISTS if found.lists is None else found.lists
        pieces = _with_lists(found, plan) if lists else _without_lists(found, plan)
        response = await answer_of(streamed(start, pieces), 201)
        return Done(response, {} if ticket is None else kept(plan))

    async def put_subscription(self, request: Request) -> Response:
        """Make a subscription, or change it to this, so that a client which restarts can say it again."""
        check_id(request)
        return await self._set(request, whole=True)

    async def patch_subscription(self, request: Request) -> Response:
        """Change a subscription's range, filter, `k`, `offset` or `ttl`. Its streams miss nothing."""
        return await self._set(request, whole=False)

    async def _set(self, request: Request, whole: bool) -> Response:
        raw = await json_alone(request)
        id = id_in_path(request)
        self._context.touch(request, id)

        async def run(ticket: Ticket | None) -> Done:
            config = self._context.config(request)
            validators, reader = self._context.validators(config), self._context.subscription_reader(config)
            body: dict[str, Any] = validated(
                raw, validators.put_subscription if whole else validators.patch_subscription
            )
            command = reader.whole(id, body) if whole else reader.part(id, body)
            write = json_of(config)

            def status(plan: EditPlan) -> int:
                changes = plan.edit.changes
                return 201 if changes and changes[0].before is None else 200

            def skeleton(plan: EditPlan) -> Skeleton:
                head = f'"seq":{plan.last_seq},'
                return Skeleton(status(plan), json.loads(write.subscription(_view(plan), head)))

            text = ""

            def show(plan: EditPlan) -> None:
                nonlocal text
                text = _with_list(write, plan.board, _view(plan))

            try:
                plan = await self._context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
            except Refused as refused:
                raise _one_refusal(refused, config) from None
            self._context.touch(request, id)
            return Done(json_response(text, status(plan)), {} if ticket is None else skeleton(plan).answer)

        return await self._context.once(request, raw, run)

    async def get_subscription(self, request: Request) -> Response:
        """A subscription and its list."""
        query(request, NoQuery)
        board, id = self._context.engine(request), id_in_path(request)
        found = board.subscription(id)
        if found is None:
            raise not_found("id", f"there is no subscription {id[:128]!r}")
        self._context.touch(request, id)
        return json_response(_with_list(json_of(board.config), board, found))

    async def list_subscriptions(self, request: Request) -> Response:
        """The subscriptions in order of id, without their lists."""
        page = query(request, PageQuery)
        board = self._context.engine(request)
        found = board.subscriptions(page.after, page.limit + 1)
        write = json_of(board.config).subscription
        return page_response(board.seq, found, page.limit, write, lambda item: item.id)

    async def delete_subscription(self, request: Request) -> Response:
        """Delete a subscription; its streams end."""
        query(request, NoQuery)
        return await self._context.delete(
            request, b"", Unsubscribe([id_in_path(request)], must_exist=True), counted=False
        )

    async def delete_subscriptions(self, request: Request) -> Response:
        """Delete many subscriptions; ids that are not there are passed over."""
        return await self._context.delete_many(request, Unsubscribe)


def _one_refusal(refused: Refused, config: BoardConfig) -> Problem:
    """A refused subscription. A range is that of the board's attribute, where it has one."""

    def named(fault: Fault) -> FieldError:
        one = fault.field == "range" and len(config.range_attributes) == 1
        return FieldError(f"range.{config.range_attributes[0]}" if one else fault.field, fault.reason)

    return from_refused(refused, named)


def _view(plan: EditPlan) -> SubscriptionView:
    """The subscription that a command made or changed, as the command says it whole."""
    command = plan.command
    assert isinstance(command, SetSubscription) and command.region is not None
    assert command.k is not None and command.offset is not None and command.where is not None
    rest = command.k, command.ttl or None, command.offset, command.where
    return SubscriptionView(command.id, command.region, *rest)


def _with_list(write: BoardJson, board: Board, view: SubscriptionView) -> str:
    return write.subscription(view, f'"seq":{board.seq},', _listed(board, view))


def _listed(board: Board, view: SubscriptionView) -> list[ObjectView]:
    return board.top(view.region, view.k, view.offset, view.where)


def _made(plan: EditPlan) -> Subscribe:
    assert isinstance(plan.command, Subscribe)
    return plan.command


def _views(command: Subscribe) -> list[SubscriptionView]:
    offset = [0] * len(command) if command.offset is None else command.offset.tolist()
    where: list[Filter] = [()] * len(command)
    if command.where:
        wanted = zip(*(column.to_pylist() for column in command.where), strict=True)
        where = [row if any(text is not None for text in row) else () for row in wanted]
    return [
        SubscriptionView(id, command.regions.at(i), k, command.ttl.get(i), offset[i], where[i])
        for i, (id, k) in enumerate(zip(command.ids.to_pylist(), command.k.tolist(), strict=True))
    ]


def _heads(found: ReadSubscriptions, plan: EditPlan, at: range) -> list[str]:
    """What comes before each subscription of an answer: with `skip`, its place in the body."""
    return found.heads(at if plan.positions is None else plan.positions[at.start : at.stop]) or [""] * len(at)


async def _with_lists(found: ReadSubscriptions, plan: EditPlan) -> AsyncIterator[bytes]:
    """The subscriptions with their lists, which are those at the answer's seq unless one says its own."""
    board, write = plan.board, json_of(plan.board.config)
    heads = _heads(found, plan, range(plan.count))
    until = time.perf_counter() + TURN
    for i, view in enumerate(_views(_made(plan))):
        head = heads[i] if board.seq == plan.last_seq else f'{heads[i]}"seq":{board.seq},'
        yield write.subscription(view, head, _listed(board, view)).encode()
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN


def _without_lists(found: ReadSubscriptions, plan: EditPlan) -> AsyncIterator[bytes]:
    """The subscriptions in pieces; those with a single range are put together by column."""
    config = plan.board.config
    if config.dimensions > 1:
        return _in_turn(found, plan)
    return in_pieces(plan.count, partial(_piece, found, plan, _made(plan), config.range_attributes[0]))


async def _in_turn(found: ReadSubscriptions, plan: EditPlan) -> AsyncIterator[bytes]:
    """The subscriptions in pieces of `LISTS`, between which others get their turn."""
    write = json_of(plan.board.config).subscription
    views, heads = _views(_made(plan)), _heads(found, plan, range(plan.count))
    for start in range(0, plan.count, LISTS):
        part = zip(views[start : start + LISTS], heads[start : start + LISTS], strict=True)
        yield ",".join([write(view, head) for view, head in part]).encode()
        await asyncio.sleep(0)


def _piece(found: ReadSubscriptions, plan: EditPlan, command: Subscribe, attribute: str, at: range) -> str:
    lo, hi = at.start, at.stop
    parts: list[Any] = ["{"]
    if found.skip:
        parts.append(pa.array(_heads(found, plan, at), pa.string()))
    l, r = (ends_column(side[lo:hi]) for side in command.regions.sides)
    parts += ['"id":"', command.ids.slice(lo, hi - lo), f'","range":{{"{attribute}":[', l, ",", r]
    parts += [']},"k":', pa.array(command.k[lo:hi]).cast(pa.string())]
    if command.offset is not None:
        offset = [f',"offset":{one}' if one else "" for one in command.offset[lo:hi].tolist()]
        parts.append(pa.array(offset, pa.string()))
    if command.ttl:
        ttl = [f',"ttl":{number(command.ttl[i])}' if i in command.ttl else "" for i in at]
        parts.append(pa.array(ttl, pa.string()))
    whole = pc.binary_join_element_wise(*parts, "}", "")
    text: str = ",".join(whole.to_pylist())
    return text
