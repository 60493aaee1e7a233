"""Changes of single objects of a board in groups: by one command."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from app.api.boards.context import BoardContext, json_of
from app.api.boards.models import BoardValidators
from app.api.boards.routes.objects import INLINE, PIECE
from app.api.bulk import Place
from app.api.chunked_response import fitting, portions
from app.api.context import element_refusal
from app.api.problems import Problem, from_refused, not_found
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb, receipts
from app.api.together.latest import Latest
from app.api.together.shaped import read_shaped
from app.api.values import is_name, payload_text
from app.rendering.boards import tile_sizes, tiles_at, tiles_size
from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.events import EventsPlan
from indexes.core.commands import Fault, Refused

_MESSAGES = {"": "", "messages=full": "full", "messages=count": "count", "messages=none": "none"}

_OPS = {"upsert": UPSERT, "update": UPDATE, "delete": DELETE}

_ONE_OF_MANY = -1
"""The op of a verb whose requests have a list of events."""

AT_ONCE = 4_000
"""Tiles of a group up to which they are written in one go: a millisecond or two. By the event it would be as long, and
the others of the event loop would wait for all of it too."""

_NOTHING: dict[str, float] = {}
_CUT = b',"truncated":true'
_EVENTS = Place("events")


class ObjectChange(NamedTuple):
    """One request: what it says of an object, by the configuration of the board `engine`. It `makes` the object where
    which its status says, and is `listed` where its body has a list with one event."""

    engine: BoardEngine
    op: int
    id: str
    values: dict[str, float]
    payload: bytes | None
    has_payload: bool
    messages: str
    makes: bool
    listed: bool


class ObjectChanges:
    """`PUT`, `PATCH` or `DELETE` of single objects, and single events: see `app.api.together.kind.Kind`."""

    def __init__(self, context: BoardContext) -> None:
        self._context = context
        self._validators: Latest[BoardConfig, BoardValidators] = Latest(context.validators)

    def need(self, name: str) -> Need:
        return Need("boards", "publish", name)

    def read(self, request: ShortRequest, caller: Caller) -> ObjectChange | Several[ObjectChange]:
        """The change that a request asks for. Any exception sends it to the slow path."""
        messages, op = _MESSAGES[request.query], request.verb.op
        board = self._context.resources.latest(request.name)
        config = board.latest_config
        if len(config.range_attributes) != 1:
            raise Elsewhere
        validators = self._validators.of(config)
        if request.count > 1:
            return self._burst(cast(ShortBurst, request), board, validators, messages or "full", caller)
        listed = op == _ONE_OF_MANY
        body: dict[str, Any]
        if listed:
            whole: dict[str, Any] = request.checked_body(validators.events)
            (body,) = whole.pop("events")
            said = whole.pop("messages", messages)
            if whole.pop("mode", "each") != "each" or whole.pop("on_error", "refuse") != "refuse" or whole:
                raise Elsewhere
            if messages and said != messages:
                raise Elsewhere
            messages, op, id = said, _OPS[body["op"]], body["id"]
            if op == DELETE and len(body) > 2:
                raise Elsewhere
        else:
            body, id = {}, request.id
            if op != DELETE:
                body = request.checked_body(validators.put_object if op == UPSERT else validators.patch_object)
            if body.get("id", id) != id or not is_name(id):
                raise Elsewhere
        messages = messages or "full"
        if messages == "full":
            caller.require_whole()
        has_payload = "payload" in body
        payload = payload_text(body["payload"], self._context.settings.max_payload) if has_payload else None
        values = body.get("values", _NOTHING)
        return ObjectChange(board, op, id, values, payload, has_payload, messages, op == UPSERT and not listed, listed)

    def _burst(
        self, burst: ShortBurst, board: BoardEngine, validators: BoardValidators, messages: str, caller: Caller
    ) -> Several[ObjectChange]:
        """The changes that a burst asks for. Any exception makes its requests be read one by one."""
        op = burst.verb.op
        makes = op == UPSERT
        if messages == "full":
            caller.require_whole()
        shaped = read_shaped(burst, validators.put_object if makes else validators.patch_object)
        if shaped.body.keys() != {"values"}:
            raise Elsewhere
        return Several(
            board,
            [
                ObjectChange(board, op, id, body["values"], None, False, messages, makes, False)
                for id, body in zip(shaped.ids, shaped.bodies(), strict=True)
            ],
        )

    def subject(self, item: ObjectChange) -> str | None:
        """Any number of requests may be about the same."""
        return None

    async def apply(self, name: str, items: Sequence[ObjectChange], tickets: Sequence[Ticket | None]) -> EventsPlan:
        """Apply the changes as one command. Raises as `Writer.submit`."""
        board, settings = items[0].engine, self._context.settings
        x_name, y_name = board.latest_config.range_attributes[0], board.latest_config.rank_attribute
        nan = math.nan
        ops: list[int] = []
        ids: list[str] = []
        x: list[float] = []
        y: list[float] = []
        shown: set[str] = set()
        payloads: dict[int, bytes | None] = {}
        for at, (_, op, id, values, payload, has_payload, messages, _, _) in enumerate(items):
            ops.append(op)
            ids.append(id)
            x.append(values.get(x_name, nan))
            y.append(values.get(y_name, nan))
            shown.add(messages)
            if has_payload:
                payloads[at] = payload
        full = "full" in shown
        columns = np.array(x, np.float64), np.array(y, np.float64)
        command = Events(
            np.frombuffer(bytes(ops), np.uint8), ids, *columns, payloads, skip=True, counted=full or "count" in shown
        )

        def requests(plan: EventsPlan) -> Iterator[tuple[Ticket, Skeleton]]:
            made = plan.created

            def skeleton(event: int, at: int) -> Skeleton:
                return Skeleton(_status(items[at], event in made), _kept(plan, event, items[at], 0))

            return receipts(tickets, _positions(plan, len(items)), skeleton)

        plan: EventsPlan = await self._context.resources.submit(
            name,
            command,
            keep=settings.max_tiles if full else 0,
            reader=board,
            requests=requests if any(tickets) else None,
        )
        return plan

    async def outcomes(self, job: EventsPlan, items: Sequence[ObjectChange]) -> list[Outcome]:
        """Each with its own seq and tiles."""
        plan, n = job, len(items)
        outcomes: list[Outcome] = [_UNKNOWN] * n
        tiles = _Tiles(plan, self._context.settings.max_answer) if plan.kept else None
        whole = tiles.written_whole() if tiles is not None else {}
        created, counts = plan.created, plan.counts
        for event, at in enumerate(_positions(plan, n)):
            item, count = items[at], counts[event] if counts else 0
            kept = _kept(plan, event, item, count)
            shown = b"" if item.messages == "none" else b',"tile_count":%d' % count
            field = b""
            if item.messages == "full":
                if whole is None:
                    assert tiles is not None, "it could not write them whole"
                    field = await tiles.field(event, count)
                elif count:
                    field = whole.get(event, _LEFT_OUT)
                else:
                    field = _NO_TILES
            text = b'{"seq":%d,"applied":1%b%b}\n' % (kept["seq"], shown, field)
            outcomes[at] = Answer(_status(item, event in created), text, kept)
        if plan.faults:
            faults: dict[int, list[Fault]] = {}
            for fault in plan.faults:
                faults.setdefault(fault.index or 0, []).append(fault)
            for at, those in faults.items():
                outcomes[at] = _problem(items[at], those)
        return outcomes


_UNKNOWN = Problem("internal")


def _problem(item: ObjectChange, faults: list[Fault]) -> Problem:
    """Why a change does not apply, as the routes say it."""
    if item.listed:
        return element_refusal(Refused([replace(fault, index=0) for fault in faults]), _EVENTS, lambda position: 0)
    for fault in faults:
        if fault.kind == "unknown":
            return not_found("id", fault.reason)
    return from_refused(Refused([replace(fault, index=None) for fault in faults]))


def _status(item: ObjectChange, created: bool) -> int:
    return 201 if item.makes and created else 200


def _positions(plan: EventsPlan, n: int) -> Sequence[int]:
    """The places of the changes that apply, of n."""
    return range(n) if plan.positions is None else plan.positions


def _kept(plan: EventsPlan, event: int, item: ObjectChange, count: int) -> dict[str, Any]:
    """The answer to a change without its tiles, of which there are so many."""
    kept: dict[str, Any] = {"seq": plan.first_seq + event, "applied": 1}
    if item.messages != "none":
        kept["tile_count"] = count
    return kept


def object_changes(context: BoardContext) -> list[Verb]:
    """The changes of objects that are carried out together."""
    kind = ObjectChanges(context)
    one = "/v1/boards/{board}/objects/{id}"
    return [
        Verb(kind, "PUT", one, UPSERT, bursts=True),
        Verb(kind, "PATCH", one, UPDATE, bursts=True),
        Verb(kind, "DELETE", one, DELETE),
        Verb(kind, "POST", "/v1/boards/{board}/events", _ONE_OF_MANY),
    ]


class _Tiles:
    """Writes the tiles of the events of a plan, each answer at most so many bytes."""

    def __init__(self, plan: EventsPlan, most: int) -> None:
        self._kept = plan.kept
        self._counts = plan.counts
        self._most = most
        self._write = json_of(plan.engine.config)

    def written_whole(self) -> dict[int, bytes] | None:
        """The fields of the tiles of all events that have some, written in one go; None where that takes too long or an
        answer may be too large.

        It saves the answers of a group what a call costs that writes only a few.
        """
        kept, counts = self._kept, self._counts
        if sum([len(rows.id) for rows in kept]) > AT_ONCE or sum(map(tiles_size, kept)) > min(PIECE, self._most):
            return None
        found: dict[int, bytes] = {}
        for rows in kept:
            many, event, end = len(rows.id), rows.event.item(0), 0
            events: list[int] = []
            ends: list[int] = []
            while end < many:
                if counts[event]:
                    end += counts[event]
                    events.append(event)
                    ends.append(min(end, many))
                event += 1
            for event, text in zip(events, self._write.runs(rows, ends), strict=True):
                found[event] = _tiles_field(text, cut=False)
            if end > many:
                found[event] = _tiles_field(text, cut=True)
        return found

    async def field(self, event: int, count: int) -> bytes:
        """The field of the tiles of an event, of which there are so many; it says where some are left out."""
        texts: list[str] = []
        written, room = 0, self._most
        for rows in self._kept if count else ():
            first, last = rows.event.searchsorted((event, event + 1)).tolist()
            if first == last:
                continue
            some = tiles_at(rows, range(first, last))
            sizes = tile_sizes(some)
            fit = fitting(sizes, room)
            room -= sum(sizes[:fit])
            for at in portions(sizes[:fit], INLINE, PIECE):
                if texts:
                    await asyncio.sleep(0)
                texts.append(self._write.tiles(tiles_at(some, at), [0] * len(at)))
            written += fit
            if fit < len(sizes):
                break
        return _tiles_field(",".join(texts).encode(), written < count)


def _tiles_field(text: bytes, cut: bool) -> bytes:
    return b',"tiles":[%b]%b' % (text, _CUT if cut else b"")


_NO_TILES, _LEFT_OUT = _tiles_field(b"", cut=False), _tiles_field(b"", cut=True)
