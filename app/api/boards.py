"""Boards themselves: their configuration, and the best of any range."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.api.board_context import BoardContext, Done, NoQuery, json_of, json_response
from app.api.board_lists import SubscriptionRoutes
from app.api.board_models import RESERVED, Board, BoardBody, BoardPatch, Boards, Seq, Top, TopQuery
from app.api.board_objects import ObjectRoutes
from app.api.bodies import kind_of, read, validated
from app.api.paging import PageQuery, cursor, query
from app.api.routing import Routes
from app.api.values import LARGEST, NAME_REASON, is_name
from app.idempotency import Ticket
from app.problems import FieldError, invalid, many
from app.service import Service
from app.storage.catalog import CreateJob
from app.writer import Skeleton
from indexes.boards.board import Board as Engine
from indexes.boards.commands import BoardConfig, Configure

_PUT = TypeAdapter(BoardBody)
_PATCH = TypeAdapter(BoardPatch)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")
_EXACT = "must be null: boards are exact"


class BoardRoutes:
    """Everything under ``/v1/boards`` but the streams."""

    def __init__(self) -> None:
        self._context = BoardContext()

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._context.start(service)

    def add_routes(self, routes: Routes) -> None:
        """Serve the boards."""
        all_, one, tag, write, see = "/v1/boards", "/v1/boards/{board}", "boards", "boards:write", "boards:read"
        add = routes.add
        add("GET", all_, self.list_boards, needs=see, tag=tag, answers={200: Boards}, query=PageQuery)
        add("PUT", one, self.put_board, needs=write, tag=tag, answers={201: Board, 200: Board}, body=BoardBody)
        add("PATCH", one, self.patch_board, needs=write, tag=tag, answers={200: Board}, body=BoardPatch)
        add("GET", one, self.get_board, needs=see, tag=tag, answers={200: Board})
        add("DELETE", one, self.delete_board, needs=write, tag=tag, answers={200: Seq})
        add("GET", one + "/top", self.top, needs=see, tag=tag, answers={200: Top}, query=TopQuery)
        ObjectRoutes(self._context).add_routes(routes)
        SubscriptionRoutes(self._context).add_routes(routes)

    async def list_boards(self, request: Request) -> Response:
        """The boards in order of name."""
        page = query(request, PageQuery)
        after, catalog = page.after, self._context.catalog
        names = [name for name in catalog.names() if after is None or name > after]
        items = []
        for name in names[: page.limit]:
            board = catalog.board(name)
            if board is not None:
                items.append(_configuration(name, board.config, board))
        more = cursor(names[page.limit - 1]) if len(names) > page.limit else None
        return JSONResponse({"items": items, "next": more})

    async def put_board(self, request: Request) -> Response:
        """Make a board, or change what its PATCH may change. With another configuration otherwise: 409."""
        name = request.path_params["board"]
        query(request, NoQuery)
        kind_of(request)
        raw = await read(request)

        async def run(ticket: Ticket | None) -> Done:
            if not is_name(name):
                raise invalid("board", NAME_REASON)
            config = self._config(validated(raw, _PUT))

            def skeleton(job: Any) -> Skeleton:
                made = isinstance(job, CreateJob)
                answer = _configuration(name, config, None if made else job.board)
                return Skeleton(201 if made else 200, {"seq": job.last_seq, **answer})

            answer: dict[str, Any] = {}

            def show(_: Any) -> None:
                board = self._context.catalog.board(name)
                assert board is not None, "it was just made or changed"
                answer.update(_shown(name, board))

            job = await self._context.writer.put(name, config, ticket, skeleton, show)
            return Done(JSONResponse(answer, skeleton(job).status), answer)

        return await self._context.once(request, raw, run)

    async def patch_board(self, request: Request) -> Response:
        """Change the list lengths on offer or the algorithm. A length that is in use stays: 409."""
        name = request.path_params["board"]
        query(request, NoQuery)
        kind_of(request)
        raw = await read(request)

        async def run(ticket: Ticket | None) -> Done:
            self._context.config(request)
            body = validated(raw, _PATCH)
            given = body.model_fields_set
            errors = [FieldError(field, "must not be null") for field in ("ks", "algorithm") if _is_null(body, field)]
            errors += self._bad_ks(body.ks or []) + (
                [FieldError("epsilon", _EXACT)] if body.epsilon is not None else []
            )
            if errors:
                raise many(errors)
            command = Configure(tuple(body.ks) if body.ks and "ks" in given else None, body.algorithm)

            def skeleton(plan: Any) -> Skeleton:
                return Skeleton(
                    200, {"seq": plan.last_seq, **_configuration(name, plan.board.latest_config, plan.board)}
                )

            answer: dict[str, Any] = {}

            def show(plan: Any) -> None:
                answer.update(_shown(name, plan.board))

            await self._context.writer.submit(name, command, ticket=ticket, skeleton=skeleton, then=show)
            return Done(JSONResponse(answer), answer)

        return await self._context.once(request, raw, run)

    async def get_board(self, request: Request) -> Response:
        """A board's configuration and sizes."""
        query(request, NoQuery)
        return JSONResponse(_shown(request.path_params["board"], self._context.board(request)))

    async def delete_board(self, request: Request) -> Response:
        """Delete a board with all that is in it; its streams end."""
        query(request, NoQuery)

        async def run(ticket: Ticket | None) -> Done:
            def skeleton(job: Any) -> Skeleton:
                return Skeleton(200, {"seq": job.last_seq})

            job = await self._context.writer.drop(request.path_params["board"], ticket, skeleton)
            answer = {"seq": job.last_seq}
            return Done(JSONResponse(answer), answer)

        return await self._context.once(request, b"", run)

    async def top(self, request: Request) -> Response:
        """The best of a range, from memory; nothing is registered. Ends that are left out are unbounded."""
        board = self._context.board(request)
        l, r, k = self._asked(request, board.config)
        found = board.top(l, r, k)
        return json_response(f'{{"seq":{board.seq},"list":{json_of(board.config).list(found)}}}')

    def _asked(self, request: Request, config: BoardConfig) -> tuple[float, float, int]:
        """The range and k of a question. Raises the problem 422."""
        attribute = config.range_attributes[0]
        given: dict[str, str] = {}
        errors = []
        for name, text in request.query_params.multi_items():
            plain = {f"l.{attribute}": "l", f"r.{attribute}": "r"}.get(name, name)
            if plain not in ("l", "r", "k"):
                errors.append(FieldError(name[:80], "is not a known field"))
            elif plain in given:
                errors.append(FieldError(name, "is given more than once"))
            given[plain] = text
        ends = {"l": float("-inf"), "r": float("inf")}
        for name in ("l", "r"):
            if name in given:
                if not _NUMBER.fullmatch(given[name]):
                    errors.append(FieldError(name, "must be a number"))
                elif abs(float(given[name])) > LARGEST:
                    errors.append(FieldError(name, f"must be at most {LARGEST:g} in size"))
                else:
                    ends[name] = float(given[name])
        if ends["l"] > ends["r"]:
            errors.append(FieldError("l", "the lower end lies above the upper end"))
        k, most = given.get("k", str(config.ks[-1])), self._context.settings.max_k
        if not _COUNT.fullmatch(k) or int(k) > most:
            errors.append(FieldError("k", f"must be an integer from 1 to {most}"))
        if errors:
            raise many(errors)
        return ends["l"], ends["r"], int(k)

    def _config(self, body: BoardBody) -> BoardConfig:
        """The configuration that a body says. Raises the problem 422."""
        errors = self._bad_ks(body.ks)
        if len(body.range_attributes) > 1:
            errors.append(FieldError("range_attributes", "must be exactly one attribute"))
        for at, name in enumerate(body.range_attributes):
            if name in RESERVED:
                errors.append(FieldError(f"range_attributes[{at}]", f"must not be {name!r}"))
        if body.rank.attribute in RESERVED:
            errors.append(FieldError("rank.attribute", f"must not be {body.rank.attribute!r}"))
        if body.rank.attribute in body.range_attributes:
            errors.append(FieldError("rank.attribute", "must not be a range attribute"))
        if body.epsilon is not None:
            errors.append(FieldError("epsilon", _EXACT))
        if errors:
            raise many(errors)
        return BoardConfig(
            tuple(body.range_attributes),
            body.rank.attribute,
            body.rank.order,
            tuple(sorted(body.ks)),
            body.algorithm,
            body.index,
        )

    def _bad_ks(self, ks: list[int]) -> list[FieldError]:
        settings = self._context.settings
        errors = []
        if len(ks) > settings.max_ks:
            return [FieldError("ks", f"must have at most {settings.max_ks} elements")]
        for at, k in enumerate(ks):
            if k > settings.max_k:
                errors.append(FieldError(f"ks[{at}]", f"must be at most {settings.max_k}"))
            elif k in ks[:at]:
                errors.append(FieldError(f"ks[{at}]", "is listed twice"))
        return errors


def _is_null(body: BoardPatch, field: str) -> bool:
    return field in body.model_fields_set and getattr(body, field) is None


def _shown(name: str, board: Engine) -> dict[str, Any]:
    return {"seq": board.seq, **_configuration(name, board.config, board)}


def _configuration(name: str, config: BoardConfig, board: Engine | None) -> dict[str, Any]:
    """A board as it is listed; one that is just being made is empty."""
    return {
        "name": name,
        "range_attributes": list(config.range_attributes),
        "rank": {"attribute": config.rank_attribute, "order": config.order},
        "ks": list(config.ks),
        "algorithm": config.algorithm,
        "epsilon": None,
        "index": config.index,
        "objects": 0 if board is None else board.object_count,
        "subscriptions": 0 if board is None else board.subscription_count,
    }
