"""Refusals as ``application/problem+json`` (RFC 9457): a stable type, and each bad field with the reason."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.errors import FieldError, ServiceError
from app.security.scopes import PATTERN as SCOPE_PATTERN
from indexes.core.commands import Fault, Refused

MOST_ERRORS = 100
MOST_LISTED = 300_000
_MOST_CHARACTERS = 80

WHOLE = "body"
"""What is at fault where it is no field of the body, but the body."""


class ProblemType(NamedTuple):
    """A type of problem: its status, its title, what it means, and what a client should do."""

    status: int
    title: str
    meaning: str
    remedy: str


_RETRY = "Retry after the seconds in Retry-After, under the same Idempotency-Key if it is a write."

PROBLEMS: dict[str, ProblemType] = {
    "malformed": ProblemType(
        400,
        "The request cannot be read",
        "The body is not valid JSON, NDJSON or Arrow, or the request is not valid HTTP.",
        "Send the format that Content-Type names. For NDJSON the detail has the line.",
    ),
    "unauthorized": ProblemType(
        401,
        "A key is needed",
        "The service has keys, and the request has none, or one that is not known or was deleted.",
        "Send Authorization: Bearer with a key. An admin creates one with POST /v1/admin/keys or rankcast keys create.",
    ),
    "forbidden": ProblemType(
        403,
        "The key does not allow this",
        "The key is valid, but lacks the scope that the operation needs; the detail names it.",
        "Use a key with that scope.",
    ),
    "foreign-host": ProblemType(
        403,
        "This host name is not served",
        "Without keys the service only responds to requests whose Host is a loopback address, so that a web page "
        "cannot reach it by rebinding a name.",
        "Use 127.0.0.1 or localhost, list the name in RANKCAST_TRUSTED_HOSTS, or create keys.",
    ),
    "foreign-origin": ProblemType(
        403,
        "Pages of other origins may not ask",
        "Without keys the service refuses requests of web pages from other origins.",
        "Use a page of the service itself, list its host in RANKCAST_TRUSTED_HOSTS, or create keys.",
    ),
    "not-found": ProblemType(
        404,
        "There is no such thing",
        "The path, or a resource or id in it, does not exist.",
        "Check the path. A resource is created with PUT.",
    ),
    "method-not-allowed": ProblemType(
        405,
        "The method is not offered here",
        "The path exists, but not with this method.",
        "Use one of the methods in the Allow header.",
    ),
    "too-slow": ProblemType(
        408,
        "The request came too slowly",
        "Too little of the request arrived for too long.",
        "Retry on a better connection, or raise the limit in the settings.",
    ),
    "id-taken": ProblemType(
        409,
        "The id is taken",
        "An element with this id exists already, or the request has the id twice.",
        "Choose another id, leave it out to have one generated, or use PUT to create or replace.",
    ),
    "in-use": ProblemType(
        409,
        "It is in use",
        "Something that still depends on it would break.",
        "Change or delete what uses it first.",
    ),
    "different": ProblemType(
        409,
        "It exists with another configuration",
        "A resource of this name has another configuration, or was recreated while the request was read.",
        "PATCH what can be changed, or delete the resource and create it again.",
    ),
    "cycle": ProblemType(
        409,
        "The link would close a cycle",
        "The links of relays form a tree, and this one would connect two relays that are connected already.",
        "Remove a link on the other way between them first.",
    ),
    "not-promoted": ProblemType(
        409,
        "This node does not become the leader",
        "Another node that can be reached has more of the log, or leads and does not hand over.",
        "Promote the node that the detail names, or give up what this one lacks with force.",
    ),
    "not-followed": ProblemType(
        409,
        "The log cannot be followed from there",
        "The row that a replica stands at was deleted from the log, or is another one here.",
        "A replica takes a new snapshot by itself.",
    ),
    "last-admin": ProblemType(
        409,
        "The last key with admin stays",
        "Without it nobody could administer the service.",
        "Create another key with the scope admin first.",
    ),
    "in-progress": ProblemType(
        409,
        "The same request is still running",
        "The first request under this Idempotency-Key has no response yet.",
        "Wait, then retry under the same key.",
    ),
    "too-large": ProblemType(
        413,
        "The request is too large",
        "The body, or a list in it, exceeds a limit of the service; the detail names it.",
        "Split the request, or raise the limit in the settings.",
    ),
    "unsupported-media-type": ProblemType(
        415,
        "The content type is not understood",
        "The operation does not take bodies of this content type.",
        "Send one of the types in the detail.",
    ),
    "invalid": ProblemType(
        422,
        "The request is not valid",
        "The request can be read, but some fields are invalid, or name something that does not exist.",
        "Correct the fields in errors. With on_error=skip the valid elements of a list are applied.",
    ),
    "key-reused": ProblemType(
        422,
        "The idempotency key belongs to another request",
        "The Idempotency-Key came before with another method, path, query or body.",
        "Use a new key for each new request.",
    ),
    "no-websocket": ProblemType(
        426,
        "This path serves WebSockets only",
        "The request does not ask for a WebSocket, or a proxy in between did not pass that on.",
        "Connect with ws:// or wss://, by a client for WebSockets. A proxy has to pass on Upgrade and Connection.",
    ),
    "too-many": ProblemType(
        429,
        "Too many",
        "A limit on concurrent streams or jobs is reached.",
        "Close streams that are not needed, and retry after the seconds in Retry-After.",
    ),
    "internal": ProblemType(
        500,
        "Something went wrong here",
        "The service failed on this request. Nothing was changed unless the detail says so.",
        "Retry; if it persists, report the request id in X-Request-Id with the service's log.",
    ),
    "not-ready": ProblemType(
        503,
        "The service is not ready yet",
        "The service is starting or ending, or a kernel that the request needs is still being compiled.",
        _RETRY,
    ),
    "queue-full": ProblemType(
        503,
        "The queue of a link is full",
        "Too many messages wait for the service on the other side of a link.",
        _RETRY + " If it persists, see the state of the link with GET of the relay.",
    ),
    "not-replicated": ProblemType(
        503,
        "The write is not known to be at the replicas",
        "The write was carried out by the leader, but too few replicas have said in time that they have it on disk; or "
        "the replica that was asked does not show it yet.",
        _RETRY + " Without a key, read what is there first.",
    ),
    "busy": ProblemType(
        503,
        "The writer's queue is full",
        "Writes arrive faster than they can be applied.",
        _RETRY,
    ),
    "log-unavailable": ProblemType(
        503,
        "The log cannot be written",
        "The disk or database that holds the log refuses writes. Nothing was changed.",
        _RETRY + " Reads and streams continue.",
    ),
}
_BY_STATUS = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid",
    429: "too-many",
    503: "not-ready",
}
_RETRY_AFTER = {
    "not-ready": "1",
    "busy": "1",
    "queue-full": "5",
    "log-unavailable": "5",
    "not-replicated": "1",
    "too-many": "5",
}


class Problem(HTTPException):
    """A refusal; raised anywhere in a request, answered as a problem document. `slug` is a key of `PROBLEMS`.
    `count` is how many errors there are; `errors` may be only the first of them."""

    def __init__(
        self, slug: str, detail: str = "", errors: Iterable[FieldError] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        status, self.title, *_ = PROBLEMS[slug]
        self.slug = slug
        self.errors = list(errors)
        self.count = len(self.errors)
        super().__init__(status, detail or self.title, {**_headers(slug), **(headers or {})})

    def document(self) -> dict[str, Any]:
        """The problem's members; at most `MOST_ERRORS` errors are listed."""
        detail = self.detail
        if self.count > MOST_ERRORS:
            detail = f"{detail} ({self.count} errors, the first {MOST_ERRORS} are listed)"
        return {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status_code,
            "detail": detail,
            "errors": [error._asdict() for error in self.errors[:MOST_ERRORS]],
        }

    def response(self) -> Response:
        """The answer that carries this problem."""
        body = json.dumps(self.document(), separators=(",", ":")).encode() + b"\n"
        return Response(body, self.status_code, self.headers, "application/problem+json")


def _headers(slug: str) -> dict[str, str]:
    if slug == "unauthorized":
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": _RETRY_AFTER[slug]} if slug in _RETRY_AFTER else {}


def invalid(field: str, reason: str) -> Problem:
    """The 422 for one bad field."""
    return Problem("invalid", f"{field}: {reason}", [FieldError(field, reason)])


def not_found(field: str, reason: str) -> Problem:
    """The 404 for a resource or an id in the path."""
    return Problem("not-found", reason, [FieldError(field, reason)])


def no_socket(path: str) -> Problem:
    """The 404 for a WebSocket to a path that has none."""
    return Problem("not-found", f"no socket is served at {path[:200]}")


def many(errors: Sequence[FieldError], count: int | None = None) -> Problem:
    """The 422 for several bad fields, the first of `count`."""
    first = errors[0]
    problem = Problem("invalid", f"{first.field}: {first.reason}", errors)
    if count is not None:
        problem.count = count
    return problem


def from_error(error: ServiceError) -> Problem:
    """The problem that a refusal of the service is."""
    headers = None if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return Problem(error.code, error.detail, error.errors, headers)


# --- field paths and reasons ----------------------------------------------------------------------------------------


BRANCH = "\0"
"""How the tag of a union's branch begins, as no name of a field does."""

_KEY = "[key]"
"""The last part of pydantic's location of a key of an object."""


def path(loc: Iterable[int | str], tags: frozenset[str] = frozenset()) -> str:
    """A pydantic location as a field path. A name that begins with `BRANCH`, or is in `tags` and right after an index,
    is a union's branch and no field.

    >>> path(("events", 3, "upsert", "values", "delay"), frozenset({"upsert"}))
    'events[3].values.delay'
    >>> path(("window", BRANCH + "time", "seconds"))
    'window.seconds'
    """
    text = ""
    after_index = False
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
            after_index = True
            continue
        if not (part.startswith(BRANCH) or (after_index and part in tags)):
            name = part if len(part) <= _MOST_CHARACTERS else part[:_MOST_CHARACTERS] + "..."
            text = f"{text}.{name}" if text else name
        after_index = False
    return text


_REASONS = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be a smaller integer",
    "int_from_float": "must be an integer",
    "finite_number": "must be finite",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "none_required": "must be null",
    "recursion_loop": "is nested too deeply",
}
NAME_PATTERN = r"^(?:[A-Za-z0-9._:-]*[A-Za-z0-9_:-][A-Za-z0-9._:-]*|\.{3,})$"
ATTRIBUTE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
PRINTABLE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
VISIBLE_PATTERN = r"^[!-~]+$"
_PATTERNS = {
    PRINTABLE_PATTERN: "must have no control characters",
    VISIBLE_PATTERN: "must be made of visible ASCII characters",
    SCOPE_PATTERN: "must be admin or <resources>[/<name>]:<right>, such as boards:read or boards/delays:publish",
    NAME_PATTERN: "must be made of A-Z a-z 0-9 . _ : - and not be . or ..",
    ATTRIBUTE_PATTERN: "must be a letter or _ and up to 63 letters, digits or _",
}


def counted(count: int, noun: str) -> str:
    """So many of a noun.

    >>> counted(1, "element"), counted(2, "element")
    ('1 element', '2 elements')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def reason(error: ErrorDetails | dict[str, Any]) -> str:
    """Why pydantic refused a value, in plain words."""
    kind = error["type"]
    if kind in _REASONS:
        return _REASONS[kind]
    ctx: dict[str, Any] = error.get("ctx", {})
    match kind:
        case "greater_than_equal":
            return f"must be at least {ctx['ge']:.15g}"
        case "less_than_equal":
            return f"must be at most {ctx['le']:.15g}"
        case "greater_than":
            return f"must be greater than {ctx['gt']:.15g}"
        case "less_than":
            return f"must be less than {ctx['lt']:.15g}"
        case "literal_error" | "enum":
            return f"must be {ctx['expected']}"
        case "union_tag_invalid":
            return f"must be one of {ctx['expected_tags']}"
        case "union_tag_not_found":
            return "is required"
        case "string_pattern_mismatch":
            return _PATTERNS.get(ctx["pattern"], f"must match {ctx['pattern']}")
        case "string_too_long":
            return f"must be at most {counted(ctx['max_length'], 'character')}"
        case "string_too_short":
            return f"must be at least {counted(ctx['min_length'], 'character')}"
        case "too_long":
            return f"must have at most {counted(ctx['max_length'], 'element')}"
        case "too_short":
            return f"must have at least {counted(ctx['min_length'], 'element')}"
        case "value_error":
            return str(ctx["error"])
    text = str(error["msg"])
    return text[:1].lower() + text[1:]


def field_error(
    error: ErrorDetails | dict[str, Any], prefix: str = "", tags: frozenset[str] = frozenset()
) -> FieldError:
    """One of pydantic's errors as a field and a reason; `prefix` is the path of what was validated."""
    loc: tuple[int | str, ...] = error["loc"]
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        loc = (*loc, error["ctx"]["discriminator"].strip("'"))
    if len(loc) > 1 and loc[-1] == _KEY and error["type"] != "extra_forbidden":
        loc = loc[:-1]
    field = path(loc, tags)
    if prefix:
        field = prefix + ("" if not field or field.startswith("[") else ".") + field
    return FieldError(field, reason(error))


def details(failure: ValidationError) -> list[ErrorDetails]:
    """What is wrong, one by one; in one piece where there is so much that listing it would fill the memory."""
    count = failure.error_count()
    if count > MOST_LISTED:
        reason = f"has {count} errors, which is too many to list"
        return [{"type": "value_error", "loc": (), "msg": reason, "input": None, "ctx": {"error": reason}}]
    return failure.errors(include_url=False, include_input=False)


def from_validation(failure: ValidationError, prefix: str = "", tags: frozenset[str] = frozenset()) -> Problem:
    """A failed validation as 400 (not JSON), 413 (a list beyond the limit) or 422."""
    errors = details(failure)
    for error in errors:
        if error["type"] == "json_invalid":
            return Problem("malformed", f"the body is not JSON: {error['ctx']['error']}")
    listed = [field_error(error, prefix, tags) for error in errors]
    for error, bad in zip(errors, listed, strict=True):
        if error["type"] == "too_long" and len(error["loc"]) == 1:
            return Problem("too-large", f"{bad.field}: {bad.reason}", [bad])
    return many([bad if bad.field else bad._replace(field=WHOLE) for bad in listed])


def fault_error(fault: Fault) -> FieldError:
    """A command's fault as a bad field; its index, if any, counts in a list that the caller names."""
    return FieldError(fault.field if fault.index is None else path((fault.index, fault.field)), fault.reason)


_FAULT_SLUGS = (
    ("missing", "not-found"),
    ("invalid", "invalid"),
    ("unknown", "invalid"),
    ("taken", "id-taken"),
    ("in_use", "in-use"),
    ("different", "different"),
    ("full", "queue-full"),
)


def from_refused(refused: Refused, named: Callable[[Fault], FieldError] = fault_error) -> Problem:
    """A refused command: 404 before 422 before 409 where several hold; all faults are listed, as `named` says."""
    kinds = {fault.kind for fault in refused.faults}
    slug = next((slug for kind, slug in _FAULT_SLUGS if kind in kinds), "invalid")
    errors = [named(fault) for fault in refused.faults]
    if slug == "not-found" and len(errors) == 1 and refused.faults[0].index is None:
        return not_found(*errors[0])
    detail = f"{errors[0].field}: {errors[0].reason}" if errors else ""
    return Problem(slug, detail, errors)


# --- handlers -------------------------------------------------------------------------------------------------------


def allowed_methods(routes: Sequence[BaseRoute], scope_path: str, headers: Mapping[str, str]) -> str:
    """The methods of every route that serves a path, as an Allow header; `headers` are of the route that refused."""
    methods = set(filter(None, headers.get("Allow", "").split(", ")))
    for route in routes:
        if isinstance(route, Route) and route.path_regex.match(scope_path):
            methods |= route.methods or set()
    return ", ".join(sorted(methods))


def install(app: FastAPI, others: Mapping[type[Exception], Callable[[Exception], Problem]]) -> None:
    """Make every refusal of `app` a problem document; `others` says which problem another exception is.

    What is not expected here is answered by the guard.
    """

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error, Problem):
            return error.response()
        if error.status_code == 405:
            allow = allowed_methods(request.app.routes, request.scope["path"], error.headers or {})
            return Problem("method-not-allowed", f"allowed here: {allow}", headers={"Allow": allow}).response()
        detail = f"nothing is served at {request.scope['path'][:200]}" if error.status_code == 404 else error.detail
        return Problem(_BY_STATUS.get(error.status_code, "malformed"), detail, headers=error.headers).response()

    async def on_request_validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        places = ("query", "path", "body", "header", "cookie")
        listed = []
        for one in error.errors():
            loc = one["loc"]
            listed.append(field_error({**one, "loc": loc[1:] if loc and loc[0] in places else loc}))
        return many(listed).response()

    async def on_refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return from_refused(error).response()

    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_request_validation)

    async def on_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)
        return from_error(error).response()

    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(ServiceError, on_error)
    for kind, problem_of in others.items():
        app.add_exception_handler(kind, _answered(problem_of))


def _answered(problem_of: Callable[[Exception], Problem]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(_: Request, error: Exception) -> Response:
        return problem_of(error).response()

    return answer
