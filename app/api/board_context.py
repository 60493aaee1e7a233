"""What the boards' routes share: the running service, a board's readers, and how a write is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api.board_events import EventReader
from app.api.board_models import BoardValidators, validators
from app.api.board_subscriptions import SubscriptionReader
from app.api.elements import ElementError, Place
from app.api.paging import Query
from app.api.routing import claim
from app.delivery.encode import BoardJson
from app.idempotency import Replay, Ticket
from app.problems import FieldError, Problem, fault_error, from_refused, not_found
from app.service import Service
from app.settings import Settings
from app.storage.catalog import Catalog
from app.writer import Writer
from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Fault, Refused

T = TypeVar("T")

INLINE = 512 << 10
"""Bytes of body up to which it is taken apart on the event loop."""


class Done(NamedTuple):
    """A write that was applied: its answer, and what is kept of it for a retry."""

    response: Response
    kept: dict[str, Any]


class NoQuery(Query):
    """Where no parameter is taken."""


class BoardContext:
    """Shared by the routes of boards; usable once `start` was called."""

    def __init__(self) -> None:
        self._service: Service | None = None

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._service = service

    @property
    def service(self) -> Service:
        """The service. No request gets here before there is one: the guard answers 503 until then."""
        assert self._service is not None
        return self._service

    @property
    def settings(self) -> Settings:
        return self.service.settings

    @property
    def writer(self) -> Writer:
        return self.service.writer

    @property
    def catalog(self) -> Catalog:
        return self.service.catalog

    def board(self, request: Request) -> Board:
        """The board in the path as reads see it. Raises the problem 404."""
        name = request.path_params["board"]
        board = self.catalog.board(name)
        if board is None:
            raise not_found("board", f"there is no board {name[:128]!r}")
        return board

    def config(self, request: Request) -> BoardConfig:
        """The configuration that the next command meets. Raises `Refused` (missing)."""
        return self.catalog.latest(request.path_params["board"]).latest_config

    def validators(self, config: BoardConfig) -> BoardValidators:
        """The validators of a board's bodies."""
        settings = self.settings
        return validators(config.range_attributes, config.rank_attribute, settings.max_elements, settings.max_k)

    def event_reader(self, config: BoardConfig) -> EventReader:
        """What reads a board's events."""
        x_name, y_name = config.range_attributes[0], config.rank_attribute
        return EventReader(x_name, y_name, self.validators(config), self.settings.max_payload)

    def subscription_reader(self, config: BoardConfig) -> SubscriptionReader:
        """What reads a board's subscriptions."""
        return SubscriptionReader(config.range_attributes[0], self.validators(config), self.settings.max_k)

    async def parsed(self, request: Request, raw: bytes | bytearray, parse: Callable[[BoardConfig], T]) -> T:
        """`parse` for the board's attributes; a long body is taken apart in a thread, beside other requests."""
        config = self.config(request)
        if len(raw) <= INLINE:
            return parse(config)
        read = await asyncio.to_thread(parse, config)
        if _attributes(self.config(request)) != _attributes(config):
            raise Problem("different", "the board was made anew with other attributes meanwhile")
        return read

    async def once(
        self, request: Request, raw: bytes | bytearray, run: Callable[[Ticket | None], Awaitable[Done]]
    ) -> Response:
        """Run a write, or answer as the first time when its Idempotency-Key came before."""
        ticket = await claim(self.service.answers, request, raw)
        if ticket is None:
            return (await run(None)).response
        if isinstance(ticket, Replay):
            return JSONResponse(ticket.answer, ticket.status)
        try:
            done = await run(ticket)
        except Exception:
            ticket.abandon()
            raise
        ticket.complete(done.response.status_code, done.kept)
        return done.response


def _attributes(config: BoardConfig) -> tuple[str, ...]:
    return (*config.range_attributes, config.rank_attribute)


@lru_cache(maxsize=256)
def _json_of(x_name: str, y_name: str) -> BoardJson:
    return BoardJson(x_name, y_name)


def json_of(config: BoardConfig) -> BoardJson:
    """What writes a board's objects and subscriptions."""
    return _json_of(config.range_attributes[0], config.rank_attribute)


def json_response(text: str, status: int = 200) -> Response:
    """JSON text as an answer."""
    return Response(text.encode(), status, media_type="application/json")


def element_refusal(refused: Refused, place: Place, place_of: Callable[[int], int]) -> Problem:
    """A refused command of many elements; `place_of` says where in the body a faulty one was."""

    def named(fault: Fault) -> FieldError:
        if fault.index is None:
            return fault_error(fault)
        return place.error(ElementError(place_of(fault.index), fault.field, fault.reason))

    return from_refused(refused, named)


def skipped(
    errors: list[ElementError], faults: list[Fault], place: Place, place_of: Callable[[int], int]
) -> list[dict[str, Any]]:
    """What `on_error=skip` says of the elements that were passed over, in order."""
    found = errors + [ElementError(place_of(fault.index or 0), fault.field, fault.reason) for fault in faults]
    found.sort(key=lambda error: error.index)
    return [{"index": error.index, **place.error(error)._asdict()} for error in found]


def id_in_path(request: Request) -> str:
    """The id in the path."""
    found: str = request.path_params["id"]
    return found
