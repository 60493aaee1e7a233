"""How operations are documented: their ids and summaries, and the signatures from which FastAPI describes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args

from fastapi import Body, Header, Path, Query
from pydantic import BaseModel

from app.api.bodies import BodyFormat
from app.api.examples import EXAMPLES
from app.api.problems import NAME_PATTERN
from app.resource_names import RESOURCES

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "The request is refused and has changed nothing; `type` says why.", "content": _PROBLEM},
    "503": {"description": "The service cannot respond now; `Retry-After` says when to retry.", "content": _PROBLEM},
}
"""The `responses` of every router."""

_DONE: dict[int | str | None, str] = {201: "Created. ", 202: "Accepted. "}

_IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern="^[!-~]{1,255}$",
        description="A retry under the same key gets the first response again, for 24 hours.",
    ),
]


@dataclass(frozen=True, slots=True)
class Accepts:
    """What a request may have: see `accepts`."""

    body: Any = None
    element: type[BaseModel] | None = None
    lines: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    idempotent: bool = True
    asks: bool = False


def accepts(
    body: Any = None,
    *,
    element: type[BaseModel] | None = None,
    lines: type[BaseModel] | None = None,
    query: type[BaseModel] | None = None,
    idempotent: bool = True,
    asks: bool = False,
) -> dict[str, Any]:
    """The `openapi_extra` of an operation that reads its request itself.

    `body` is the model of a JSON body (``| None`` where it may be left out). With `element`, the model of one element,
    it may be NDJSON or Arrow too; with `lines`, the model of one line, it is NDJSON only. `query` is the model of the
    query parameters. Every write takes an Idempotency-Key unless `idempotent` is false; a body that `asks` writes
    nothing.
    """
    return {_ACCEPTS: Accepts(body, element, lines, query, idempotent and not asks, asks)}


def writes(options: Mapping[str, Any]) -> bool:
    """Whether an operation with these options of a route may change something."""
    takes: Accepts = (options.get("openapi_extra") or {}).get(_ACCEPTS, Accepts())
    return not takes.asks and not {"GET", "HEAD"} & set(options.get("methods") or ("GET",))


_ACCEPTS = "x-accepts"


def shown_as(media_type: str, description: str, example: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an operation whose response is a text."""
    return {200: {"description": description, "content": {media_type: {"example": example}}}}


# --- names ------------------------------------------------------------------------------------------------------------

_ACTIONS = {
    "healthz": "Check that the process is alive",
    "readyz": "Check that the service is ready",
    "metrics": "Get the metrics",
    "top": "Query the top k",
    "skyline": "Query a skyline",
    "match": "Match events",
    "explain": "Explain {a}",
    "stream": "Stream {a}",
    "start": "Get what begins a stream of {a}",
    "probe": "Probe {a}",
    "verify": "Start a verification",
    "test": "Send a test to {a}",
    "enable": "Enable {a}",
}
"""Last parts of paths that say what is done."""

_VERBS = {
    "create": "Create",
    "publish": "Publish",
    "upsert": "Create or update",
    "run": "Run",
    "receive": "Receive",
    "apply": "Apply",
    "list": "List",
    "get": "Get {a}",
    "put": "Create or replace {a}",
    "patch": "Change {a}",
    "delete": "Delete {a}",
    "delete_many": "Delete several",
}
_POSTS = {
    "events": "publish",
    "posts": "publish",
    "notifications": "publish",
    "objects": "upsert",
    "commands": "run",
    "messages": "receive",
    "moves": "apply",
}
_SUMMARIES = {
    "admin_keys_create": "Create a key",
    "admin_rebuilds_create": "Start a rebuild",
    "admin_snapshots_create": "Start a snapshot",
    "tickets_create": "Make a ticket for streams",
    "boards_explain": "Explain an event",
    "boards_zones_create": "Cut the zones of a board again",
}
"""Where the general rule does not say it."""

_PUTS: dict[str, str] = {"objects": "Create or update {a}"} | dict.fromkeys(RESOURCES, "Create {a}")
"""What PUT does where it replaces nothing: values are merged into an object, and a resource that exists stays one."""

_WITH_ID = {"GET": "get", "PUT": "put", "PATCH": "patch", "DELETE": "delete"}


def operation_id(method: str, path: str) -> str:
    """The id of an operation: the fixed parts of its path, and what is done unless the last one says that.

    >>> operation_id("POST", "/v1/boards/{board}/subscriptions"), operation_id("POST", "/v1/matchers/{matcher}/match")
    ('boards_subscriptions_create', 'matchers_match')
    """
    return "_".join(_named(method, path))


def summary(method: str, path: str) -> str:
    """An operation in a few words.

    >>> summary("PUT", "/v1/boards/{board}/subscriptions/{id}")
    'Create or replace a subscription of a board'
    >>> summary("PUT", "/v1/boards/{board}/objects/{id}"), summary("PUT", "/v1/boards/{board}")
    ('Create or update an object of a board', 'Create a board')
    """
    *parts, last = _named(method, path)
    special = _SUMMARIES.get("_".join((*parts, last)))
    if special is not None:
        return special
    if last in _ACTIONS:
        text = _ACTIONS[last]
    else:
        text = _PUTS.get(parts[-1], _VERBS[last]) if last == "put" else _VERBS[last]
        if "{a}" not in text:
            text += f" {parts[-1]}"
    text = text.format(a=_a(parts[-1]) if parts else "")
    return text if len(parts) < 2 or parts[0] == "admin" else f"{text} of {_a(parts[0])}"


def _named(method: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part and part != "v1"]
    fixed = [part for part in parts if not part.startswith("{")]
    if parts[-1] in _ACTIONS:
        return fixed
    if parts[-1] == "delete":
        return [*fixed[:-1], "delete_many"]
    if parts[-1].startswith("{"):
        return [*fixed, _WITH_ID[method]]
    return [*fixed, "list" if method == "GET" else _POSTS.get(fixed[-1], "create")]


def _a(nouns: str) -> str:
    noun = _singular(nouns)
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _singular(noun: str) -> str:
    return noun[:-3] + "y" if noun.endswith("ies") else noun.removesuffix("s")


# --- what FastAPI documents -------------------------------------------------------------------------------------------


def documented(path: str, endpoint: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a route of FastAPI, completed by what the path, the docstring and the models say."""
    if not options["include_in_schema"]:
        return {**options, "endpoint": endpoint}
    (method, *_) = options["methods"]
    extra = dict(options["openapi_extra"] or {})
    takes: Accepts = extra.pop(_ACCEPTS, Accepts())
    name = operation_id(method, path)
    parameters = [
        Parameter(part, Parameter.KEYWORD_ONLY, annotation=_path_parameter(path, part))
        for part in re.findall(r"{(\w+)}", path)
    ]
    if takes.query is not None:
        parameters.append(Parameter("query", Parameter.KEYWORD_ONLY, annotation=Annotated[takes.query, Query()]))
    if takes.body is not None:
        default = None if type(None) in get_args(takes.body) else Parameter.empty
        body: Any = takes.body
        annotation = Annotated[body, Body()]
        parameters.append(Parameter("body", Parameter.KEYWORD_ONLY, annotation=annotation, default=default))
    if method != "GET" and takes.idempotent:
        key = Parameter("idempotency_key", Parameter.KEYWORD_ONLY, annotation=_IdempotencyKey, default=None)
        parameters.append(key)
    about: dict[str, Any] = {
        "endpoint": _signed(name, parameters),
        "status_code": options["status_code"] or 200,
        "operation_id": name,
        "summary": options["summary"] or summary(method, path),
        "description": _prose(options["description"] or endpoint.__doc__),
        "responses": {status: _response(status, one) for status, one in options["responses"].items()},
        "openapi_extra": {**extra, **_request_body(takes)},
    }
    model = options["response_model"]
    if isinstance(model, type) and issubclass(model, BaseModel):
        about["response_description"] = _DONE.get(options["status_code"], "") + _prose(model.__doc__)
    else:
        about["response_model"] = None
    return {**options, **about}


def _response(status: int | str, response: dict[str, Any]) -> dict[str, Any]:
    """A further response, described by its model."""
    model = response.get("model")
    return response if model is None else {"description": _DONE.get(status, "") + _prose(model.__doc__), **response}


def _path_parameter(path: str, name: str) -> Any:
    before = path.split("/")[path.split("/").index(f"{{{name}}}") - 1]
    text = f"Id of the {_singular(before)}." if name == "id" else f"Name of the {name}."
    return Annotated[str, Path(min_length=1, max_length=128, pattern=NAME_PATTERN, description=text)]


def _request_body(takes: Accepts) -> dict[str, Any]:
    """What FastAPI cannot derive from a signature: bodies other than JSON, and examples of bodies."""
    content: dict[str, Any] = {}
    if takes.body is not None:
        model = next(one for one in (takes.body, *get_args(takes.body)) if isinstance(one, type))
        content["application/json"] = {"example": EXAMPLES[model.__name__]}
    element = takes.element or takes.lines
    if element is not None:
        example = json.dumps(EXAMPLES[element.__name__]) + "\n"
        text = f"One {element.__name__} a line."
        content[BodyFormat.NDJSON.value] = {"schema": {"type": "string", "description": text}, "example": example}
    if takes.element is not None:
        schema = {"type": "string", "format": "binary", "description": "An Arrow IPC stream."}
        content[BodyFormat.ARROW.value] = {"schema": schema}
    if not content:
        return {}
    return {"requestBody": {"content": content, **({"required": True} if takes.lines else {})}}


def _signed(name: str, parameters: list[Parameter]) -> Callable[..., Any]:
    def described(**_: Any) -> None: ...

    described.__name__ = name
    described.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return described


def _prose(docstring: str | None) -> str:
    return " ".join((docstring or "").split())
