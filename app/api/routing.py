"""How routes are added: documented by their models, guarded by a scope, and called with the plain request.

FastAPI's own way of calling an endpoint (solving dependencies, two exit stacks) takes longer than most answers here. So
a route of FastAPI, with a signature made from the models, only describes it, and is made when the OpenAPI document is
asked for: a hundred of them take longer than the rest of the application. The endpoint itself takes the request and
reads its body with `app.api.bodies`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, cast, get_args

from fastapi import Body, FastAPI, Header, Path, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.api.bodies import Kind
from app.idempotency import Answers, Replay, Ticket, hash_request
from app.problems import NAME_PATTERN, invalid
from app.security import ANONYMOUS, Keyring

Endpoint = Callable[[Request], Awaitable[Response]]

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "Refused; nothing was changed.", "content": _PROBLEM},
    "503": {"description": "Not now; `Retry-After` says when to ask again.", "content": _PROBLEM},
}
_LARGE = 1 << 20
_IDEMPOTENCY = re.compile(r"[!-~]{1,255}")

PathName = Annotated[str, Path(min_length=1, max_length=128, pattern=NAME_PATTERN)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]{1,255}$",
        description="The same request under the same key gets the first answer again, for 24 hours.",
    ),
]


def idempotency_key(request: Request) -> str | None:
    """The request's Idempotency-Key. Raises the problem 422 when it is not 1 to 255 visible characters."""
    key = request.headers.get("idempotency-key")
    if key is not None and not _IDEMPOTENCY.fullmatch(key):
        raise invalid("Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    return key


async def claim(answers: Answers, request: Request, raw: bytes | bytearray, part: int = 0) -> Ticket | Replay | None:
    """What the request's Idempotency-Key gives it: the right to answer, the first answer, or None without a key.

    A body that is answered in parts has an answer for each. Raises the problem 422 for a malformed key, `KeyReused` and
    `StillRunning`.
    """
    key = idempotency_key(request)
    if key is None:
        return None
    if part:
        # No key of a request has a space.
        key = f"{key} {part}"
    scope = request.scope
    parts = (
        scope["method"],
        scope["path"],
        scope["query_string"].decode("latin-1"),
        cast(bytes, raw),
    )
    digest = await asyncio.to_thread(hash_request, *parts) if len(raw) > _LARGE else hash_request(*parts)
    whose = scope.get("key_id", ANONYMOUS)
    row = await answers.look_up(whose, key) if answers.elsewhere(whose, key) else None
    return answers.claim(whose, key, digest, row)


class DirectRoute(Route):
    """A route that calls its endpoint with the request alone; `describe` makes the route that documents it."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Endpoint,
        admit: Callable[[Scope], None],
        describe: Callable[[], APIRoute],
    ) -> None:
        super().__init__(path, endpoint)
        # Starlette adds HEAD to GET; here a path has the methods that it is documented with.
        self.methods = {method}
        self.describe = describe

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            admit(scope)
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = run


class Routes:
    """Adds routes to an application."""

    def __init__(self, app: FastAPI, keyring: Keyring) -> None:
        self._app = app
        self._keyring = keyring

    def add(
        self,
        method: str,
        path: str,
        endpoint: Endpoint,
        *,
        needs: str | None,
        tag: str,
        answers: Mapping[int, Any],
        body: Any = None,
        bulk: str | None = None,
        lines: str | None = None,
        query: type[BaseModel] | None = None,
        content: str = "application/json",
        writes: bool = True,
    ) -> None:
        """Serve `method` at `path`.

        `needs` is the scope that a key must have (None: no key is asked for), `answers` the model of each good status,
        `body` the model of a JSON body (``| None`` where it may be left out); with `bulk`, the name of one element, it
        may come as NDJSON or Arrow too, and with `lines` in place of them as NDJSON alone. The endpoint's docstring is
        its description.
        Every write takes an Idempotency-Key; with `writes` false it is a question, although it has a body.
        """
        describe = partial(
            _documented,
            method,
            path,
            endpoint,
            needs=needs,
            tag=tag,
            answers=answers,
            body=body,
            bulk=bulk,
            lines=lines,
            query=query,
            content=content,
            writes=writes,
        )
        self._app.router.routes.append(DirectRoute(method, path, endpoint, self._admission(needs), describe))

    def _admission(self, needs: str | None) -> Callable[[Scope], None]:
        if needs is None:
            return lambda _: None
        keyring = self._keyring

        def admit(scope: Scope) -> None:
            if keyring.open:
                return
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scope["key_id"] = keyring.admit(header.decode("latin-1"), needs)

        return admit


def _documented(
    method: str,
    path: str,
    endpoint: Endpoint,
    *,
    needs: str | None,
    tag: str,
    answers: Mapping[int, Any],
    body: Any,
    bulk: str | None,
    lines: str | None,
    query: type[BaseModel] | None,
    content: str,
    writes: bool,
) -> APIRoute:
    """What `Routes.add` was told, as a route of FastAPI, which the OpenAPI document is made from."""
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=PathName) for name in re.findall(r"{(\w+)}", path)]
    if query is not None:
        parameters.append(Parameter("query", Parameter.KEYWORD_ONLY, annotation=Annotated[query, Query()]))
    if body is not None:
        default = None if type(None) in get_args(body) else Parameter.empty
        parameters.append(
            Parameter("body", Parameter.KEYWORD_ONLY, annotation=Annotated[body, Body()], default=default)
        )
    if method != "GET" and writes:
        parameters.append(Parameter("idempotency_key", Parameter.KEYWORD_ONLY, annotation=IdempotencyKey, default=None))
    extra: dict[str, Any] = {} if needs is None else {"security": [{"key": []}]}
    if bulk is not None:
        extra["requestBody"] = {"content": _bulk_content(bulk)}
    if lines is not None:
        extra["requestBody"] = {"required": True, "content": _lines_content(lines)}
    good: dict[int | str, dict[str, Any]] = {}
    for status, model in answers.items():
        good[status] = {"description": "Done."} if model is None else {"description": "Done.", "model": model}
        if content != "application/json":
            good[status] = {"description": "Done.", "content": {content: {"schema": {"type": "string"}}}}
    return APIRoute(
        path,
        _described(endpoint, parameters),
        methods=[method],
        status_code=next(iter(answers)),
        tags=[tag],
        summary=endpoint.__name__.replace("_", " ").capitalize(),
        description=" ".join((endpoint.__doc__ or "").split()),
        operation_id=endpoint.__name__,
        responses={**good, **_REFUSALS},
        openapi_extra=extra,
        response_model=None,
        response_class=JSONResponse if content == "application/json" else Response,
    )


def _described(endpoint: Endpoint, parameters: list[Parameter]) -> Callable[..., Any]:
    def described(**_: Any) -> None: ...

    described.__name__ = endpoint.__name__
    described.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return described


def _lines_content(element: str) -> dict[str, Any]:
    return {Kind.NDJSON.value: {"schema": {"type": "string", "description": f"One {element} a line."}}}


def _bulk_content(element: str) -> dict[str, Any]:
    return {
        **_lines_content(element),
        Kind.ARROW.value: {"schema": {"type": "string", "format": "binary", "description": "An Arrow IPC stream."}},
    }
