"""The subscriptions of boards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.api.board_context import (
    BoardContext,
    Done,
    NoQuery,
    element_refusal,
    id_in_path,
    json_of,
    json_response,
    skipped,
)
from app.api.board_models import (
    Deleted,
    IdsBody,
    Seq,
    SubscriptionAnswer,
    SubscriptionBody,
    SubscriptionPatch,
    Subscriptions,
    SubscriptionsAnswer,
    SubscriptionsBody,
    SubscriptionsQuery,
    ids_validator,
)
from app.api.board_subscriptions import ReadSubscriptions
from app.api.bodies import BULK, Kind, kind_of, read, validated
from app.api.paging import PageQuery, cursor, query
from app.api.routing import Routes
from app.api.values import NAME_REASON, is_name
from app.delivery.encode import BoardJson, number
from app.idempotency import Ticket
from app.problems import FieldError, Problem, from_refused, invalid, not_found
from app.writer import Skeleton
from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Fault, Refused, SetSubscription, Subscribe, Unsubscribe
from indexes.boards.plans import EditPlan
from indexes.boards.views import SubscriptionView

LISTS = 1_000
"""Subscriptions up to which their lists are in the answer unless said."""

KEPT = 10_000
"""Subscriptions up to which a retry gets them all again; beyond, only the seq."""

PIECE = 50_000
"""Subscriptions in one piece of a long answer."""

WHOLE = 1 << 20
"""Bytes from which on an answer is sent in pieces."""

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
        `ttl`); in JSON they are fields.
        """
        kind = kind_of(request, BULK)
        asked = SubscriptionsQuery()
        if kind is Kind.JSON:
            query(request, NoQuery)
        else:
            asked = query(request, SubscriptionsQuery)
        raw = await read(request)

        async def run(ticket: Ticket | None) -> Done:
            def parse(config: BoardConfig) -> ReadSubscriptions:
                return self._context.subscription_reader(config).read(kind, raw, asked)

            found = await self._context.parsed(request, raw, parse)
            try:
                return await self._register(request, found, ticket)
            except Refused as refused:
                raise element_refusal(refused, found.place, found.place_of) from None

        return await self._context.once(request, raw, run)

    async def _register(self, request: Request, found: ReadSubscriptions, ticket: Ticket | None) -> Done:
        skip = found.command.skip

        def kept(plan: EditPlan) -> dict[str, Any]:
            answer: dict[str, Any] = {"seq": plan.last_seq}
            if skip:
                answer["errors"] = skipped(found.errors, plan.faults, found.place, found.place_of)
            if plan.count <= KEPT:
                views, write = _views(_made(plan)), json_of(plan.board.config)
                heads = _heads(found, plan, range(plan.count))
                answer["subscriptions"] = [
                    json.loads(write.subscription(view, head)) for view, head in zip(views, heads, strict=True)
                ]
            return answer

        plan: EditPlan = await self._context.writer.submit(
            request.path_params["board"],
            found.command,
            ticket=ticket,
            skeleton=None if ticket is None else lambda plan: Skeleton(201, kept(plan)),
        )
        begin = {"seq": plan.last_seq}
        if skip:
            begin["errors"] = skipped(found.errors, plan.faults, found.place, found.place_of)  # type: ignore[assignment]
        start = f'{json.dumps(begin, separators=(",", ":"))[:-1]},"subscriptions":['
        lists = plan.count <= LISTS if found.lists is None else found.lists
        pieces = _with_lists(found, plan) if lists else _without_lists(found, plan)
        parts = _streamed(start, pieces)
        whole = await _up_to(parts, WHOLE)
        if len(whole) < WHOLE:
            response = Response(whole, 201, media_type="application/json")
        else:
            response = StreamingResponse(_after(whole, parts), 201, media_type="application/json")
        return Done(response, {} if ticket is None else kept(plan))

    async def put_subscription(self, request: Request) -> Response:
        """Make a subscription, or change it to this, so that a client which restarts can say it again."""
        if not is_name(id_in_path(request)):
            raise invalid("id", NAME_REASON)
        return await self._set(request, whole=True)

    async def patch_subscription(self, request: Request) -> Response:
        """Change a subscription's range, `k` or `ttl`. Its streams miss nothing."""
        return await self._set(request, whole=False)

    async def _set(self, request: Request, whole: bool) -> Response:
        query(request, NoQuery)
        kind_of(request)
        raw = await read(request)
        name, id = request.path_params["board"], id_in_path(request)
        self._context.service.expiry.touch(name, id)

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
                plan = await self._context.writer.submit(
                    name, command, ticket=ticket, skeleton=None if ticket is None else skeleton, then=show
                )
            except Refused as refused:
                raise _one_refusal(refused, config) from None
            self._context.service.expiry.touch(name, id)
            return Done(json_response(text, status(plan)), {} if ticket is None else skeleton(plan).answer)

        return await self._context.once(request, raw, run)

    async def get_subscription(self, request: Request) -> Response:
        """A subscription and its list."""
        query(request, NoQuery)
        board, id = self._context.board(request), id_in_path(request)
        found = board.subscription(id)
        if found is None:
            raise not_found("id", f"there is no subscription {id[:128]!r}")
        self._context.service.expiry.touch(request.path_params["board"], id)
        return json_response(_with_list(json_of(board.config), board, found))

    async def list_subscriptions(self, request: Request) -> Response:
        """The subscriptions in order of id, without their lists."""
        page = query(request, PageQuery)
        board = self._context.board(request)
        found = board.subscriptions(page.after, page.limit + 1)
        items = found[: page.limit]
        more = json.dumps(cursor(items[-1].id)) if len(found) > page.limit else "null"
        write = json_of(board.config).subscription
        text = ",".join([write(item) for item in items])
        return json_response(f'{{"seq":{board.seq},"items":[{text}],"next":{more}}}')

    async def delete_subscription(self, request: Request) -> Response:
        """Delete a subscription; its streams end."""
        query(request, NoQuery)
        return await self._delete(request, b"", Unsubscribe([id_in_path(request)], must_exist=True), counted=False)

    async def delete_subscriptions(self, request: Request) -> Response:
        """Delete many subscriptions; ids that are not there are passed over."""
        query(request, NoQuery)
        kind_of(request)
        raw = await read(request)
        ids = validated(raw, ids_validator(self._context.settings.max_elements))["ids"]
        return await self._delete(request, raw, Unsubscribe(ids), counted=True)

    async def _delete(self, request: Request, raw: bytes | bytearray, command: Unsubscribe, counted: bool) -> Response:
        async def run(ticket: Ticket | None) -> Done:
            def answer(plan: EditPlan) -> dict[str, Any]:
                return {"seq": plan.last_seq, **({"deleted": plan.count} if counted else {})}

            plan = await self._context.writer.submit(
                request.path_params["board"],
                command,
                ticket=ticket,
                skeleton=lambda plan: Skeleton(200, answer(plan)),
            )
            return Done(JSONResponse(answer(plan)), answer(plan))

        return await self._context.once(request, raw, run)


def _one_refusal(refused: Refused, config: BoardConfig) -> Problem:
    """A refused subscription; its range is the one of the board's attribute."""

    def named(fault: Fault) -> FieldError:
        field = f"range.{config.range_attributes[0]}" if fault.field == "range" else fault.field
        return FieldError(field, fault.reason)

    return from_refused(refused, named)


def _view(plan: EditPlan) -> SubscriptionView:
    """The subscription that a command made or changed, as the command says it whole."""
    command = plan.command
    assert isinstance(command, SetSubscription) and command.l is not None and command.r is not None
    assert command.k is not None
    return SubscriptionView(command.id, command.l, command.r, command.k, command.ttl or None)


def _with_list(write: BoardJson, board: Board, view: SubscriptionView) -> str:
    return write.subscription(view, f'"seq":{board.seq},', board.top(view.l, view.r, view.k))


def _made(plan: EditPlan) -> Subscribe:
    assert isinstance(plan.command, Subscribe)
    return plan.command


def _views(command: Subscribe) -> list[SubscriptionView]:
    columns = zip(command.ids.to_pylist(), command.l.tolist(), command.r.tolist(), command.k.tolist(), strict=True)
    return [SubscriptionView(*row, command.ttl.get(i)) for i, row in enumerate(columns)]


def _heads(found: ReadSubscriptions, plan: EditPlan, at: range) -> list[str]:
    """What comes before each subscription of an answer: with `skip`, its place in the body."""
    if not found.command.skip:
        return [""] * len(at)
    positions = plan.positions
    return [f'"index":{found.place_of(i if positions is None else positions[i])},' for i in at]


async def _with_lists(found: ReadSubscriptions, plan: EditPlan) -> AsyncIterator[str]:
    """The subscriptions with their lists, which are those at the answer's seq unless one says its own."""
    board, write = plan.board, json_of(plan.board.config)
    heads = _heads(found, plan, range(plan.count))
    until = time.perf_counter() + TURN
    for i, view in enumerate(_views(_made(plan))):
        head = heads[i] if board.seq == plan.last_seq else f'{heads[i]}"seq":{board.seq},'
        yield write.subscription(view, head, board.top(view.l, view.r, view.k))
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN


async def _without_lists(found: ReadSubscriptions, plan: EditPlan) -> AsyncIterator[str]:
    """The subscriptions in pieces, each put together by column."""
    command, attribute = _made(plan), plan.board.config.range_attributes[0]
    for start in range(0, plan.count, PIECE):
        at = range(start, min(start + PIECE, plan.count))
        parts = found, plan, command, attribute, at
        yield _piece(*parts) if len(at) <= LISTS else await asyncio.to_thread(_piece, *parts)


def _piece(found: ReadSubscriptions, plan: EditPlan, command: Subscribe, attribute: str, at: range) -> str:
    lo, hi = at.start, at.stop
    parts: list[Any] = ["{"]
    if found.command.skip:
        parts.append(pa.array(_heads(found, plan, at), pa.string()))
    parts += ['"id":"', command.ids.slice(lo, hi - lo), f'","range":{{"{attribute}":[', _texts(command.l[lo:hi]), ","]
    parts += [_texts(command.r[lo:hi]), ']},"k":', pa.array(command.k[lo:hi]).cast(pa.string())]
    if command.ttl:
        ttl = [f',"ttl":{number(command.ttl[i])}' if i in command.ttl else "" for i in at]
        parts.append(pa.array(ttl, pa.string()))
    whole = pc.binary_join_element_wise(*parts, "}", "")
    text: str = ",".join(whole.to_pylist())
    return text


def _texts(ends: npt.NDArray[np.float64]) -> pa.StringArray:
    """Ends of ranges as JSON, as `app.delivery.encode.end` writes them."""
    whole = (np.abs(ends) <= 1 << 53) & (np.floor(ends) == ends)
    integers = pa.array(np.where(whole, ends, 0.0).astype(np.int64)).cast(pa.string())
    fractions = pa.array(ends).cast(pa.string())
    texts = pc.if_else(pa.array(whole), integers, fractions)
    return pc.if_else(pa.array(np.isinf(ends)), pa.scalar("null"), texts)


async def _streamed(start: str, pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """A long answer, sent as its pieces are ready."""
    separator = start
    async for piece in pieces:
        yield f"{separator}{piece}".encode()
        separator = ","
    yield f"{separator if separator is start else ''}]}}".encode()


async def _up_to(parts: AsyncIterator[bytes], size: int) -> bytes:
    """The first parts that have `size` bytes together, or all."""
    found, length = [], 0
    async for part in parts:
        found.append(part)
        length += len(part)
        if length >= size:
            break
    return b"".join(found)


async def _after(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in parts:
        yield part
