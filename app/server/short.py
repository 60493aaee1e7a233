"""Short requests over HTTP, which the lane carries out in groups and answers without a task or an ASGI scope.

In uvicorn's protocol such a request takes the place of a `RequestResponseCycle`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from app.api.bodies import check_literals
from app.api.problems import Problem
from app.api.together.kind import CheckedOnce, Verb
from app.api.together.lane import Lane
from app.runtime.tracing import RequestTrace, Sampling
from app.runtime.write_order import WriteOrder
from app.security.callers import Caller
from app.write_path.idempotency import hash_request

DIGITS = 5
"""Most digits of the length of a body."""

_PLAIN = frozenset({b"accept", b"accept-encoding", b"accept-language", b"traceparent", b"tracestate", b"user-agent"})
"""Headers that do not keep a request from being short; the tracing ones are read later."""

_JSON = ((b"content-type", b"application/json"),)

_IDS = count(1)
_START = token_hex(4).encode()


class _Unused:
    """In place of the event on which an ASGI task waits for more of the body: a short request has no task."""

    def set(self) -> None:
        """Nothing waits for it."""


_UNUSED = _Unused()


class Short(CheckedOnce):
    """A short request over HTTP, see `app.api.together.kind.ShortRequest`.

    `body` is as received. `line` is the request line up to the version, and `stem` the part of it before the id: both
    are empty if uvicorn's parser has read the request, `stem` also if there is no id. The other attributes are those of
    uvicorn's cycle, which its protocol reads and sets.
    """

    __slots__ = (
        "_slow_path",
        "authorization",
        "began",
        "body",
        "disconnected",
        "head",
        "host",
        "id",
        "keep_alive",
        "key",
        "line",
        "message_event",
        "more_body",
        "name",
        "protocol",
        "query",
        "response_complete",
        "response_started",
        "sampling",
        "stem",
        "trace",
        "url",
        "verb",
    )  # fmt: skip

    caller: Caller | None = None
    write_order: WriteOrder | None = None

    def __init__(
        self, protocol: HttpToolsProtocol, verb: Verb, name: str, id: str, query: str, head: Head,
        slow_path: Callable[[Short], None],
    ) -> None:  # fmt: skip
        self.began, self._slow_path, self._checked = perf_counter(), slow_path, None
        self.protocol, self.verb = protocol, verb
        self.name, self.id, self.query, self.url = name, id, query, protocol.url
        self.head = head
        _, self.host, self.authorization, key, _, _ = head
        self.key = key.decode("latin-1") if key else ""
        self.sampling: Sampling | None = None
        self.trace: RequestTrace | None = None
        self.body = self.line = self.stem = b""
        self.keep_alive, self.more_body = True, True
        self.response_started = self.response_complete = self.disconnected = False
        self.message_event = _UNUSED

    def headers(self) -> Iterable[tuple[bytes, bytes]]:
        return self.head.headers

    def check_body(self, validator: SchemaValidator) -> Any:
        check_literals(self.body)
        return validator.validate_json(self.body)

    def digest(self) -> bytes:
        path, _, query = self.url.partition(b"?")
        return hash_request(self.verb.method, path.decode("ascii"), query.decode("latin-1"), self.body)

    def at_end_of_turn(self, fn: Callable[[], None]) -> None:
        """See `app.api.together.kind.ShortRequest`, as for the others."""
        self.protocol.loop.call_soon(fn)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        tasks = self.protocol.server_state.tasks
        task = self.protocol.loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def answer(self, status: int, body: bytes) -> None:
        # `_answer` inlined: most answers come here.
        protocol = self.protocol
        self.response_started = self.response_complete = True
        state = protocol.server_state
        lines = _default[1] if state.default_headers is _default[0] else _lines_of(state)
        if self.keep_alive and not self.disconnected and not protocol.transport.is_closing():
            protocol.transport.write(
                b"%b%bcontent-length: %d\r\ncontent-type: application/json\r\nx-request-id: %b-s%d\r\n\r\n%b"
                % (STATUS_LINE[status], lines, len(body), _START, next(_IDS), body)
            )
            protocol.on_response_complete()
        else:
            self._answer(status, body, [(b"content-length", b"%d" % len(body)), *_JSON])

    def refuse(self, problem: Problem) -> None:
        self.fail(problem)

    def fail(self, problem: Problem) -> None:
        response = problem.response()
        self._answer(response.status_code, bytes(response.body), response.raw_headers)

    def _answer(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        protocol = self.protocol
        self.response_started = self.response_complete = True
        if not self.disconnected and not protocol.transport.is_closing():
            protocol.transport.write(self._written(status, body, headers))
            if not self.keep_alive:
                protocol.transport.close()
        protocol.on_response_complete()

    async def take_slow_path(self) -> None:
        self._slow_path(self)

    def _written(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        head = STATUS_LINE[status] + _lines_of(self.protocol.server_state) + _lines(headers)
        last = b"" if self.keep_alive else b"connection: close\r\n"
        return b"%bx-request-id: %b-s%d\r\n%b\r\n%b" % (head, _START, next(_IDS), last, body)


_default: tuple[list[tuple[bytes, bytes]], bytes] = [], b""
"""uvicorn's default headers, a new list once a second, and their lines."""


def _lines_of(state: ServerState) -> bytes:
    global _default
    if state.default_headers is not _default[0]:
        _default = state.default_headers, _lines(state.default_headers)
    return _default[1]


def _lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % pair for pair in headers])


class Head(NamedTuple):
    """The headers of a plain request, as received and parsed. `length` is that of the body; `has_json` says that it is
    given, and the content type is JSON.
    """

    headers: list[tuple[bytes, bytes]]
    host: bytes
    authorization: bytes
    key: bytes
    length: int
    has_json: bool


def short_request(
    protocol: HttpToolsProtocol, lane: Lane, method: bytes, head: Head | None, slow_path: Callable[[Short], None]
) -> Short | None:
    """The request whose head was just parsed, if that of a short one: of a known verb, with plain headers, and a small
    JSON body where the verb has one, none elsewhere. None for any other. `head` is the parsed headers, if known.
    """
    url = protocol.url
    path, _, query = url.partition(b"?")
    parts = path.split(b"/")
    if not 5 <= len(parts) <= 6 or b"%" in path or b"#" in url or not path.isascii():
        return None
    verb = lane.verb(method, parts)
    if verb is None or parts[0] or parts[1] != b"v1":
        return None
    if head is None:
        head = _plain_head(protocol.headers)
        if head is None:
            return None
    if head.length > lane.largest or not head.has_json if verb.has_body else head.length:
        return None
    return Short(
        protocol, verb, parts[3].decode("ascii"), parts[5].decode("ascii") if len(parts) > 5 else "",
        query.decode("latin-1"), head, slow_path,
    )  # fmt: skip


def _plain_head(headers: list[tuple[bytes, bytes]]) -> Head | None:
    """The headers of a request, parsed; None if one of them keeps it from being short."""
    host = authorization = key = b""
    length = hosts = lengths = types = keys = 0
    for name, value in headers:
        if name == b"host":
            host, hosts = value, hosts + 1
        elif name == b"content-length":
            if len(value) > DIGITS or not value.isdigit():
                return None
            length, lengths = int(value), lengths + 1
        elif name == b"content-type":
            if value != b"application/json":
                return None
            types += 1
        elif name == b"authorization":
            authorization, keys = value, keys + 1
        elif name == b"idempotency-key":
            if key or not value:
                return None
            key = value
        elif name == b"connection":
            if value.lower() != b"keep-alive":
                return None
        elif name not in _PLAIN:
            return None
    if hosts != 1 or lengths > 1 or types > 1 or keys > 1:
        return None
    return Head(headers, host, authorization, key, length, lengths == types == 1)
