"""A conversation in NDJSON: commands come in, and what each comes to goes out in order, while more of them come.

The body is cut into pieces, each of which is one command for the writer: all of it or, where a line cannot be carried
out, nothing. One that announces its length is cut after every `PIECE` lines, so that a short one is all or nothing as
any other; so is one with an Idempotency-Key, which gives each piece an answer of its own to be kept. Of one that comes
in chunks without a key, a piece is what has come.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.bodies import INLINE as INLINE_BYTES
from app.api.bodies import LONGEST_LINE, BodyFormat, format_of
from app.api.bulk import Lines, Place
from app.api.callers import caller_of, check_caller
from app.api.context import element_refusal, skipped
from app.api.element_errors import ElementErrors
from app.api.idempotency import claim, idempotency_key
from app.api.pages import query
from app.api.problems import Problem
from app.api.relays.context import RelayContext
from app.api.relays.models import CommandsQuery, RelayCommand
from app.api.relays.parsing.subscriptions import RelayColumns
from app.api.relays.router import SUBSCRIBE, relays, router
from app.api.routing import accepts, shown_as
from app.write_path.idempotency import Replay, Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Refused
from indexes.relays.commands import EditSubscriptions
from indexes.relays.config import RelayConfig
from indexes.relays.plans.subscriptions import EditPlan

PIECE = 5_000
"""Lines that are carried out, or refused, together."""

AT_ONCE = 2
"""Pieces that are processed at the same time."""

INLINE = 500
"""Lines up to which a piece is taken apart and written on the event loop, where they are not long."""


class ReadCommands(NamedTuple):
    """Commands out of a piece. `size` are all that it has; `indexes` are the places of those in `command` where some
    were skipped, and `errors` say why."""

    command: EditSubscriptions
    size: int
    place: Place
    indexes: list[int] | None
    errors: ElementErrors

    def place_of(self, position: int) -> int:
        """The place in the piece of the command at a position."""
        return position if self.indexes is None else self.indexes[position]


class Piece(NamedTuple):
    """Lines of the body, behind so many, and the number of the piece."""

    raw: bytes
    lines: int
    before: int
    number: int


Taken: TypeAlias = tuple[Piece, ReadCommands]


class _Turn:
    """A piece on its way: `accepted` is done when what is submitted next comes behind it. `before` is the one before,
    while that is on its way as well."""

    def __init__(self, before: _Turn | None) -> None:
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answer: asyncio.Future[bytes]
        self._before = before

    def accept(self, _: Any) -> None:
        """The piece was accepted. Raises what the one before has failed with since: nothing comes behind that."""
        if self._before is not None and _failed(self._before.answer):
            self._before.answer.result()
        self._before = None
        self.accepted.set_result(None)


def _failed(one: asyncio.Future[Any]) -> bool:
    return one.done() and (one.cancelled() or one.exception() is not None)


class ResultLines(Response):
    """An answer in lines as they are made. What is refused after the first were sent is the last of them."""

    media_type = BodyFormat.NDJSON.value

    def __init__(self, request: Request, body: _Body, first: bytes, answers: AsyncIterator[bytes]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._request = request
        self._body = body
        self._first = first
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self._first, "more_body": True})
            async with aclosing(self._said()) as said:
                async for part in said:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._body.close()

    async def _said(self) -> AsyncGenerator[bytes, None]:
        try:
            async for part in self._answers:
                yield part
        except ClientDisconnect:
            raise
        except Exception as error:
            handlers = self._request.scope["app"].exception_handlers
            handler = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers), None)
            if handler is None:
                raise
            refusal = await handler(self._request, error)
            yield json.dumps({"problem": json.loads(refusal.body)}, separators=(",", ":")).encode() + b"\n"


@router.post(
    "/{relay}/commands",
    dependencies=SUBSCRIBE,
    openapi_extra=accepts(lines=RelayCommand, query=CommandsQuery),
    response_class=ResultLines,
    responses=shown_as(
        BodyFormat.NDJSON.value,
        "One result a line, in order.",
        '{"id": "s1", "seq": 42, "forward": true, "covered_by": []}\n',
    ),
)
async def run_commands(request: Request) -> Response:
    """Subscribe and unsubscribe, a line each, answered in order by a line each while more come.

    A line is `{"op": "subscribe", "id", "box", "link", "ttl"}` or `{"op": "unsubscribe", "id"}`, and its answer has
    the `id`, its `seq`, and what to forward. Lines are carried out in pieces of up to 5,000; what was answered was
    carried out. A line that cannot be refuses its piece, and nothing of it and behind it is carried out: in the
    first piece the answer is a problem, as everywhere, later a last line `{"problem": {...}}`. With
    `on_error=skip` such a line is answered by `{"index", "errors"}`, and the others carry their `index`.
    """
    context = relays(request)
    caller_of(request).require_whole()
    format_of(request, (BodyFormat.NDJSON,))
    asked = query(request, CommandsQuery)
    context.config(request)
    whole = idempotency_key(request) is not None or "content-length" in request.headers
    body = _Body(request, eager=not whole)
    answers = _answers(request, body, asked.on_error == "skip")
    try:
        first = await anext(answers, b"")
    except BaseException:
        body.close()
        raise
    return ResultLines(request, body, first, answers)


async def _answers(request: Request, body: _Body, skip: bool) -> AsyncIterator[bytes]:
    """The answer to each piece, in order. While one is applied the next is checked, and the one after that is taken
    apart."""
    context = relays(request)
    config, elements = context.config_of(context.reader(request)), 0
    coming: asyncio.Future[Taken | None] | None = asyncio.ensure_future(_taken(context, config, body, skip))
    under_way: deque[_Turn] = deque()
    try:
        while coming is not None or under_way:
            head = under_way[0].answer if under_way else None
            # What cannot be parsed is reported after what came before it.
            wants = coming is not None and len(under_way) < AT_ONCE and not (under_way and _failed(coming))
            waited: list[asyncio.Future[Any]] = [] if head is None else [head]
            if wants and coming is not None:
                waited.append(coming)
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if head is not None and head.done():
                under_way.popleft()
                yield head.result()
                continue
            assert coming is not None, "something was waited for"
            if under_way and _failed(coming):
                continue
            taken, coming = coming.result(), None
            if taken is None:
                continue
            check_caller(request)
            piece, found = taken
            found.place.first = elements
            elements += found.size
            turn = _Turn(under_way[-1] if under_way else None)
            under_way.append(turn)
            turn.answer = asyncio.ensure_future(_answer(request, piece, found, turn))
            coming = asyncio.ensure_future(_taken(context, config, body, skip))
            checked: list[asyncio.Future[Any]] = [turn.answer, turn.accepted]
            await asyncio.wait(checked, return_when=asyncio.FIRST_COMPLETED)
            if _failed(turn.answer):
                coming.cancel()
                coming = None
    finally:
        if coming is not None:
            coming.cancel()
        await asyncio.gather(*(turn.answer for turn in under_way), return_exceptions=True)


async def _taken(context: RelayContext, config: RelayConfig, body: _Body, skip: bool) -> Taken | None:
    """The next piece of the body, taken apart; None at its end. Raises the problems 400 and 413."""
    piece = await body.take()
    if piece is None:
        return None
    if piece.lines <= INLINE and len(piece.raw) <= INLINE_BYTES:
        return piece, _parsed(context, config, piece, skip)
    return piece, await asyncio.to_thread(_parsed, context, config, piece, skip)


def _parsed(context: RelayContext, config: RelayConfig, piece: Piece, skip: bool) -> ReadCommands:
    columns = RelayColumns(config.attributes)
    # Each error is answered by a line of its own.
    columns.errors = ElementErrors(most=None)
    source = Lines(piece.raw, context.validators(config).command, columns.errors, piece.before)
    for items in source:
        columns.add_items(items)
    place = Place("commands", source.numbered)
    # What is wrong is answered before anything is made of it.
    command, indexes = columns.commands(skip)
    return ReadCommands(command, columns.count, place, indexes, columns.errors)


async def _answer(request: Request, piece: Piece, found: ReadCommands, turn: _Turn) -> bytes:
    """Carry out a piece, or answer as the first time when it came before under its Idempotency-Key."""
    context = relays(request)
    skip = found.command.skip
    if found.errors and not skip:
        raise found.place.refusal(found.errors)
    ticket = await claim(context.service.answers, request, piece.raw, piece.number)
    if isinstance(ticket, Replay):
        return _replayed(ticket.answer, found.place.first if skip else None)
    try:
        plan = await _carry_out(request, found, ticket, turn)
    except Refused as refused:
        if ticket is not None:
            ticket.abandon()
        raise element_refusal(refused, found.place, found.place_of) from None
    except Exception:
        if ticket is not None:
            ticket.abandon()
        raise
    errors = _passed_over(found, plan) if skip else []
    if ticket is not None:
        ticket.complete(200, {**_kept(plan, errors), "results": plan.response_fields()["results"]})
    return _written(found, plan, errors, skip)


async def _carry_out(request: Request, found: ReadCommands, ticket: Ticket | None, turn: _Turn) -> EditPlan:
    context = relays(request)

    def skeleton(plan: EditPlan) -> Skeleton:
        errors = _passed_over(found, plan) if found.command.skip else []
        return Skeleton(200, {**_kept(plan, errors), "results": []})

    plan: EditPlan = await context.submit(
        request,
        found.command,
        ticket=ticket,
        skeleton=None if ticket is None else skeleton,
        accepted=turn.accept,
    )
    return plan


def _kept(plan: EditPlan, errors: list[dict[str, Any]]) -> dict[str, Any]:
    return {"seq": plan.last_seq, **({"errors": errors} if errors else {})}


def _passed_over(found: ReadCommands, plan: EditPlan) -> list[dict[str, Any]]:
    """What was passed over, by its index in the whole body."""
    errors = skipped(found.errors, plan.faults, found.place, found.place_of, None)
    return [{**error, "index": found.place.first + error["index"]} for error in errors]


def _written(found: ReadCommands, plan: EditPlan, errors: list[dict[str, Any]], skip: bool) -> bytes:
    seqs = range(plan.first_seq, plan.last_seq + 1)
    results: list[dict[str, Any]] = [
        {"id": one.id, "seq": seq, **one.fields()} for seq, one in zip(seqs, plan.results, strict=True)
    ]
    if skip:
        positions = plan.positions
        places = (found.place_of(i if positions is None else positions[i]) for i in range(len(results)))
        results = [{"index": found.place.first + at, **one} for at, one in zip(places, results, strict=True)]
    return _lines(results, errors)


def _replayed(answer: dict[str, Any], first: int | None) -> bytes:
    """A kept answer. The results are those that no error is about, in order; with `skip` they carry their index, and
    those of the piece begin with `first`."""
    results, errors = [{**one, "replayed": True} for one in answer["results"]], answer.get("errors", [])
    if first is not None:
        bad = {error["index"] for error in errors}
        places = (at for at in count(first) if at not in bad)
        results = [{"index": at, **one} for at, one in zip(places, results, strict=False)]
    return _lines(results, errors)


def _lines(results: list[dict[str, Any]], errors: list[dict[str, Any]]) -> bytes:
    if not errors:
        return b"".join([to_json(one) + b"\n" for one in results])
    bad: dict[int, list[dict[str, Any]]] = {}
    for error in errors:
        bad.setdefault(error["index"], []).append({"field": error["field"], "reason": error["reason"]})
    lines = {one["index"]: one for one in results} | {at: {"index": at, "errors": why} for at, why in bad.items()}
    return b"".join([to_json(lines[at]) + b"\n" for at in sorted(lines)])


class _Body:
    """The body of a request as it comes, read whether or not answers are taken: a client that sends all before it reads
    would wait for ever. `eager` takes what has come, else pieces are full but for the last."""

    def __init__(self, request: Request, eager: bool) -> None:
        self._receive = request.receive
        self._eager = eager
        self._chunks: deque[bytes] = deque()
        self._newlines = 0
        self._unended = 0
        self._lines = 0
        self._number = 0
        self._over = False
        self._error: BaseException | None = None
        self._came = asyncio.Event()
        self._reading = asyncio.ensure_future(self._read())

    def close(self) -> None:
        """Read no more."""
        self._reading.cancel()

    async def _read(self) -> None:
        try:
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                if chunk:
                    self._chunks.append(chunk)
                    self._newlines += chunk.count(b"\n")
                    last = chunk.rfind(b"\n")
                    self._unended = len(chunk) - last - 1 if last >= 0 else self._unended + len(chunk)
                    self._check_line()
                    self._came.set()
        except Exception as error:
            self._error = error
        self._over = True
        self._came.set()

    def _check_line(self) -> None:
        if self._unended > LONGEST_LINE:
            raise Problem("too-large", f"a line has more than {LONGEST_LINE} bytes")

    async def take(self) -> Piece | None:
        """The next piece; None at the end. Raises `ClientDisconnect`, and the problem 413."""
        while self._newlines < PIECE and not self._over and not (self._eager and self._newlines):
            self._came.clear()
            await self._came.wait()
        if self._newlines < PIECE and self._error is not None:
            raise self._error
        if not self._chunks:
            return None
        most = min(PIECE, self._newlines)
        if most < PIECE and self._over:
            raw, self._newlines = b"".join(self._chunks), 0
            self._chunks.clear()
        else:
            raw = self._cut(most)
        piece = Piece(raw, most, self._lines, self._number)
        self._lines += most
        self._number += 1
        return piece

    def _cut(self, most: int) -> bytes:
        """The first so many lines, which are there."""
        taken, lines = [], 0
        while lines < most:
            chunk = self._chunks.popleft()
            here = chunk.count(b"\n")
            if lines + here > most or (lines + here == most and not chunk.endswith(b"\n")):
                end = -1
                for _ in range(most - lines):
                    end = chunk.find(b"\n", end + 1)
                self._chunks.appendleft(chunk[end + 1 :])
                chunk, here = chunk[: end + 1], most - lines
            taken.append(chunk)
            lines += here
        self._newlines -= most
        return b"".join(taken)
