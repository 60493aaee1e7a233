"""Boards themselves: their configuration, and the best of any range."""

from __future__ import annotations

import re
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.board_context import BoardContext, bad_epsilon, bad_painting, json_of, runs_of, several_of
from app.api.board_explain import ExplainRoutes
from app.api.board_filters import FilterReader
from app.api.board_lists import SubscriptionRoutes
from app.api.board_models import RESERVED, Board, BoardBody, BoardPatch, Boards, Top, TopQuery
from app.api.board_objects import ObjectRoutes
from app.api.bodies import validated
from app.api.context import Done, json_alone
from app.api.models import Seq
from app.api.paging import PageQuery
from app.api.responses import JsonResponse, json_response
from app.api.routing import Routes
from app.api.values import LARGEST, NUMBER_TEXT, bad_attributes
from app.idempotency import Ticket
from app.problems import FieldError, many
from app.service import Service
from app.writer import Skeleton
from indexes.boards.commands import BoardConfig, Configure, Filter
from indexes.boards.regions import REVERSED, Region, everywhere

_PUT = TypeAdapter(BoardBody)
_PATCH = TypeAdapter(BoardPatch)

MOST_ATTRIBUTES = 4
MOST_TOGETHER = f"a board has at most {MOST_ATTRIBUTES} range attributes and indexed fields together"

_COUNT = re.compile(r"[1-9][0-9]{0,8}")


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
        ExplainRoutes(self._context).add_routes(routes)

    async def list_boards(self, request: Request) -> Response:
        """The boards in order of name."""
        return await self._context.listing(request)

    async def put_board(self, request: Request) -> Response:
        """Make a board, or change what its PATCH may change. With another configuration otherwise: 409."""
        return await self._context.put(request, lambda raw: self._config(validated(raw, _PUT)))

    async def patch_board(self, request: Request) -> Response:
        """Change the list lengths on offer, the algorithm or epsilon. A length that is in use stays: 409."""
        name = request.path_params["board"]
        raw = await json_alone(request)

        async def run(ticket: Ticket | None) -> Done:
            config = self._context.config(request)
            body = validated(raw, _PATCH)
            given = body.model_fields_set
            errors = [FieldError(field, "must not be null") for field in ("ks", "algorithm") if _is_null(body, field)]
            errors += self._bad_ks(body.ks or []) + bad_epsilon(body.epsilon, self._context.settings.max_k)
            errors += _bad_painting(several_of(len(config.range_attributes), len(config.indexed)), body)
            if errors:
                raise many(errors)
            ks = tuple(body.ks) if body.ks and "ks" in given else None
            runs = runs_of(body.epsilon) if "epsilon" in given else None
            command = Configure(ks, body.algorithm, runs, body.sketch or 0 if "sketch" in given else None)

            def skeleton(plan: Any) -> Skeleton:
                shown = self._context.shown(name, plan.board.latest_config, plan.board)
                return Skeleton(200, {"seq": plan.last_seq, **shown})

            answer: dict[str, Any] = {}

            def show(plan: Any) -> None:
                answer.update(self._context.shown_now(name, plan.board))

            await self._context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
            return Done(JsonResponse(answer), answer)

        return await self._context.once(request, raw, run)

    async def get_board(self, request: Request) -> Response:
        """A board's configuration and sizes."""
        return await self._context.get(request)

    async def delete_board(self, request: Request) -> Response:
        """Delete a board with all that is in it; its streams end."""
        return await self._context.drop(request)

    async def top(self, request: Request) -> Response:
        """The best of a range, from memory; nothing is registered. Ends that are left out are unbounded."""
        board = self._context.engine(request)
        region, k, offset, where = self._asked(request, board.config)
        found = board.top(region, k, offset, where)
        return json_response(f'{{"seq":{board.seq},"list":{json_of(board.config).list(found, offset)}}}')

    def _asked(self, request: Request, config: BoardConfig) -> tuple[Region, int, int, Filter]:
        """The region, k, offset and filter of a question. Raises the problem 422."""
        names = config.range_attributes
        # With one attribute it need not be named.
        ends = ["l", "r"] if len(names) == 1 else [f"{end}.{name}" for name in names for end in ("l", "r")]
        filters = FilterReader(config.indexed)
        given: dict[str, str] = {}
        errors: list[FieldError] = []
        for name, text in request.query_params.multi_items():
            plain = {f"l.{names[0]}": "l", f"r.{names[0]}": "r"}.get(name, name) if len(names) == 1 else name
            if plain not in (*ends, *filters.columns, "k", "offset"):
                errors.append(FieldError(name[:80], "is not a known field"))
            elif plain in given:
                errors.append(FieldError(name, "is given more than once"))
            given[plain] = text
        sides = list(everywhere(len(names)).sides)
        for at, name in enumerate(ends):
            if name in given:
                if not NUMBER_TEXT.fullmatch(given[name]):
                    errors.append(FieldError(name, "must be a number"))
                elif abs(float(given[name])) > LARGEST:
                    errors.append(FieldError(name, f"must be at most {LARGEST:g} in size"))
                else:
                    sides[at] = float(given[name])
        region = Region("box", tuple(sides))
        for name, (l, r) in zip(ends[::2], region.ends, strict=True):
            if l > r:
                errors.append(FieldError(name, REVERSED))
        where = filters.asked(given, errors)
        k, most = given.get("k", str(config.ks[-1])), self._context.settings.max_k
        if not _COUNT.fullmatch(k) or int(k) > most:
            errors.append(FieldError("k", f"must be an integer from 1 to {most}"))
        offset = given.get("offset", "0")
        if offset != "0" and not _COUNT.fullmatch(offset):
            errors.append(FieldError("offset", "must be an integer from 0 on"))
        elif not errors and int(offset) + int(k) > most:
            errors.append(FieldError("offset", f"offset + k must be at most {most}"))
        if errors:
            raise many(errors)
        return region, int(k), int(offset), where

    def _config(self, body: BoardBody) -> BoardConfig:
        """The configuration that a body says. Raises the problem 422."""
        errors = self._bad_ks(body.ks)
        ranged, d = len(body.range_attributes), len(body.range_attributes) + len(body.indexed)
        if ranged > MOST_ATTRIBUTES:
            errors.append(FieldError("range_attributes", f"must be at most {MOST_ATTRIBUTES} attributes"))
        elif d > MOST_ATTRIBUTES:
            errors.append(FieldError("indexed", f"must be at most {MOST_ATTRIBUTES - ranged} fields: {MOST_TOGETHER}"))
        errors += bad_attributes("indexed", body.indexed)
        errors += bad_attributes("range_attributes", body.range_attributes, RESERVED)
        if body.rank.attribute in RESERVED:
            errors.append(FieldError("rank.attribute", f"must not be {body.rank.attribute!r}"))
        if body.rank.attribute in body.range_attributes:
            errors.append(FieldError("rank.attribute", "must not be a range attribute"))
        several = several_of(ranged, len(body.indexed))
        errors += bad_epsilon(body.epsilon, self._context.settings.max_k) + _bad_painting(several, body)
        index = body.index if d == 1 or "index" in body.model_fields_set else "kd-tree"
        if d > 1 and index != "kd-tree":
            errors.append(FieldError("index", f"must be 'kd-tree' {several}"))
        if errors:
            raise many(errors)
        return BoardConfig(
            tuple(body.range_attributes),
            body.rank.attribute,
            body.rank.order,
            tuple(sorted(body.ks)),
            body.algorithm,
            index,
            runs_of(body.epsilon),
            body.sketch,
            tuple(body.indexed),
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


def _bad_painting(several: str, body: BoardBody | BoardPatch) -> list[FieldError]:
    """What a board with several range attributes or with indexed fields does not offer."""
    errors = bad_painting(several, body.algorithm, body.epsilon)
    if several and body.sketch is not None:
        errors.append(FieldError("sketch", f"must be null {several}"))
    return errors


def _is_null(body: BoardPatch, field: str) -> bool:
    return field in body.model_fields_set and getattr(body, field) is None
