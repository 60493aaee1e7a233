"""Changes of single objects of a board, carried out together."""

from __future__ import annotations

import asyncio
import json
import math
from bisect import bisect_left
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from app.api.boards.context import BoardContext, json_of
from app.api.boards.routes.objects import INLINE, PIECE
from app.api.bodies import check_literals
from app.api.chunked_response import fitting, portions
from app.api.together.kind import Answer, Elsewhere, Place, ShortRequest
from app.api.values import is_name, payload_text
from app.rendering.boards import tile_sizes, tiles_at
from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.boards.commands import UPDATE, UPSERT, Events
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.events import EventsPlan

_MESSAGES = {b"": "full", b"messages=full": "full", b"messages=count": "count", b"messages=none": "none"}


class ObjectChange(NamedTuple):
    """One request: what it says of an object, by the configuration of `board`."""

    board: BoardEngine
    id: str
    values: dict[str, float]
    payload: bytes | None
    has_payload: bool
    messages: str


class ObjectChanges:
    """`PUT` or `PATCH` of single objects: see `app.api.together.kind.Kind`."""

    route = "/v1/boards/{board}/objects/{id}"

    def __init__(self, context: BoardContext, op: int) -> None:
        self._context = context
        self._op = op

    def need(self, name: str) -> Need:
        return Need("boards", "publish", name)

    def read(self, request: ShortRequest, caller: Caller) -> ObjectChange:
        """The change that a request asks for. Raises whatever makes it take the usual way."""
        messages = _MESSAGES[request.query]
        if messages == "full":
            caller.require_whole()
        board = self._context.resources.latest(request.name)
        config = board.latest_config
        if len(config.range_attributes) != 1 or not is_name(request.id):
            raise Elsewhere
        validators = self._context.validators(config)
        check_literals(request.body)
        body: dict[str, Any] = (validators.put_object if self._op == UPSERT else validators.patch_object).validate_json(
            request.body
        )
        if body.get("id", request.id) != request.id:
            raise Elsewhere
        has_payload = "payload" in body
        payload = payload_text(body["payload"], self._context.settings.max_payload) if has_payload else None
        return ObjectChange(board, request.id, body.get("values", {}), payload, has_payload, messages)

    async def apply(self, name: str, items: Sequence[ObjectChange], tickets: Sequence[Ticket | None]) -> EventsPlan:
        """Apply the changes as one command. Raises as `Writer.submit`."""
        board, settings = items[0].board, self._context.settings
        if any(item.board is not board for item in items):
            raise Elsewhere
        x_name, y_name = board.latest_config.range_attributes[0], board.latest_config.rank_attribute
        n, nan = len(items), math.nan
        command = Events(
            np.full(n, self._op, np.uint8),
            [item.id for item in items],
            np.array([item.values.get(x_name, nan) for item in items]),
            np.array([item.values.get(y_name, nan) for item in items]),
            {at: item.payload for at, item in enumerate(items) if item.has_payload},
            skip=True,
            counted=True,
        )
        keep = settings.max_tiles if any(item.messages == "full" for item in items) else 0

        def requests(plan: EventsPlan) -> list[tuple[Ticket, Skeleton]]:
            found, made = [], plan.created
            for event, at in enumerate(_positions(plan, n)):
                ticket = tickets[at]
                if ticket is not None:
                    kept = _kept(plan, event, items[at], 0)
                    found.append((ticket, Skeleton(self._status(event, made), kept)))
            return found

        plan: EventsPlan = await self._context.resources.submit(
            name, command, keep=keep, reader=board, requests=requests if any(tickets) else None
        )
        return plan

    async def answers(self, job: EventsPlan, items: Sequence[ObjectChange]) -> list[Answer | None]:
        """Each with its own seq and tiles; None for those that did not apply."""
        plan, n = job, len(items)
        answers: list[Answer | None] = [None] * n
        tiles = _Tiles(plan, self._context.settings.max_answer)
        created = plan.created
        for event, at in enumerate(_positions(plan, n)):
            item, count = items[at], plan.counts[event]
            kept = _kept(plan, event, item, count)
            text = json.dumps(kept, separators=(",", ":"))
            if item.messages == "full":
                text = f"{text[:-1]},{await tiles.field(event, count)}}}"
            answers[at] = Answer(self._status(event, created), f"{text}\n".encode(), kept)
        return answers

    def _status(self, event: int, created: Container[int]) -> int:
        return 201 if self._op == UPSERT and event in created else 200


def _positions(plan: EventsPlan, n: int) -> Sequence[int]:
    """The places of the changes that apply, of n."""
    return range(n) if plan.positions is None else plan.positions


def _kept(plan: EventsPlan, event: int, item: ObjectChange, count: int) -> dict[str, Any]:
    """The answer to a change without its tiles, of which there are so many."""
    kept: dict[str, Any] = {"seq": plan.first_seq + event, "applied": 1}
    if item.messages != "none":
        kept["tile_count"] = count
    return kept


def object_changes(context: BoardContext) -> dict[Place, ObjectChanges]:
    """The changes of objects that are carried out together, by method, resource type and part of the path."""
    place = b"boards", b"objects"
    return {(b"PUT", *place): ObjectChanges(context, UPSERT), (b"PATCH", *place): ObjectChanges(context, UPDATE)}


class _Tiles:
    """Writes the tiles of the events of a plan, each answer at most so many bytes."""

    def __init__(self, plan: EventsPlan, most: int) -> None:
        self._kept = plan.kept
        self._most = most
        self._write = json_of(plan.engine.config).tiles

    async def field(self, event: int, count: int) -> str:
        """The field of the tiles of an event, of which there are so many; it says where some are left out."""
        texts: list[str] = []
        written, room = 0, self._most
        for rows in self._kept if count else ():
            first, last = bisect_left(rows.event, event), bisect_left(rows.event, event + 1)
            if first == last:
                continue
            some = tiles_at(rows, range(first, last))
            sizes = tile_sizes(some)
            fit = fitting(sizes, room)
            room -= sum(sizes[:fit])
            for at in portions(sizes[:fit], INLINE, PIECE):
                if texts:
                    await asyncio.sleep(0)
                texts.append(self._write(tiles_at(some, at), [0] * len(at)))
            written += fit
            if fit < len(sizes):
                break
        cut = ',"truncated":true' if written < count else ""
        return f'"tiles":[{",".join(texts)}]{cut}'
