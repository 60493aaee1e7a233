"""HTTP on one connection to the service: short requests take the fast path, all others that of uvicorn."""

from __future__ import annotations

import asyncio
import re
from typing import TypeAlias

from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.api.accounting import SAMPLING
from app.api.together.lane import Lane
from app.server.http import HttpProtocol
from app.server.short import DIGITS, Head, Short, short_request

LONGEST = 1 << 10
"""Most bytes of headers that are kept for comparison with the next ones; also of the request line before them."""

KnownHead: TypeAlias = tuple[bytes, bytes, Head]
"""A head that was parsed: its bytes from the HTTP version to the length of the body, those after the length, and what
its headers say."""

_LINE = re.compile(rb"([A-Z]+) (/[!-~]*)")
"""A method and a target, of which the parser would take more."""

_TAIL = re.compile(rb"([!\"$&-.0->@-~]*)(?:\?([!\"$-~]*))?")
"""What may follow a `Short.stem`, so that the request differs from the one with that stem in id and query alone: an id
without escapes, and a query where there is one."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)


class ServiceProtocol(HttpProtocol):
    """One connection; its short requests go to the application's lane.

    A client repeats its headers from request to request, except for the length of the body. Those of the last short
    request are kept, and the next one with the same bytes there is not parsed: with one request at a time the parser
    and its callbacks run with cold caches, and took a tenth of the processor time of a write.
    """

    __slots__ = ("_between", "_known", "_lane")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._lane: Lane | None = getattr(getattr(self.app, "state", None), "lane", None)
        self._known: KnownHead | None = None
        self._between = True
        """Whether the parser has seen the end of a message, and nothing of the next one."""
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._between or self._gathered or self._rest or self.flow.held:
            super().data_received(data)
            return
        cycle, known = self.cycle, self._known
        if known is None or not cycle.response_complete or not self._take_as_before(data, *known):
            super().data_received(data)
            if isinstance(self.cycle, Short) and self.cycle is not cycle:
                self._known = _known_head(data, self.cycle)

    def _take_as_before(self, data: bytes, before: bytes, behind: bytes, head: Head) -> bool:
        """Take a request that arrived whole, if its headers are the known ones (`KnownHead`). False, with nothing done,
        where they are not.
        """
        # Where one of them is not in the data, or elsewhere in it, the line or the length is none that is taken.
        asked, _, rest = data.partition(before)
        length, _, body = rest.partition(behind)
        lane = self._lane
        if lane is None or not 0 < len(asked) <= LONGEST or not length.isdigit() or len(length) > DIGITS:
            return False
        if not len(body) == int(length) <= lane.largest:
            return False
        last: Short | None = self.cycle if isinstance(self.cycle, Short) else None
        self.headers = head.headers
        short: Short | None
        if last is not None and last.line == asked:
            # Consecutive posts to one resource have the same request line.
            self.url = last.url
            short = Short(self, last.verb, last.name, last.id, last.query, head, self.take_slow_path)
        elif (
            last is not None
            and last.stem
            and asked.startswith(last.stem)
            and (tail := _TAIL.fullmatch(asked, len(last.stem))) is not None
        ):
            # Consecutive requests about objects or subscriptions of one resource differ in the id.
            self.url = asked[len(last.line) - len(last.url) :]
            id, query = tail.groups(b"")
            short = Short(self, last.verb, last.name, id.decode(), query.decode(), head, self.take_slow_path)
            short.stem = last.stem
        else:
            found = _LINE.fullmatch(asked)
            if found is None:
                return False
            method, self.url = found.groups()
            short = short_request(self, lane, method, head, self.take_slow_path)
            if short is not None and short.id:
                short.stem = asked[: asked.rindex(b"/", 0, len(asked) - len(short.query)) + 1]
        if short is None or (body and not short.verb.has_body):
            return False
        short.body, short.line, short.more_body = body, asked, False
        self._idle_since, self.cycle = None, short
        if not lane.take(short):
            self.take_slow_path(short)
        return True

    def on_message_begin(self) -> None:
        self._between = False
        # Only a request on the slow path has a scope.
        self.url, self.expect_100_continue, self.headers = b"", False, []

    def _scope_of(self, headers: list[tuple[bytes, bytes]]) -> HTTPScope:
        """The scope of a request with these headers."""
        kept = self.url, self.expect_100_continue, self.headers
        super().on_message_begin()
        self.url, self.expect_100_continue, self.headers = kept
        scope = self.scope
        scope["headers"] = headers
        return scope

    def on_headers_complete(self) -> None:
        cycle = self.cycle
        if self._lane is not None and (cycle is None or (cycle.response_complete and not self.pipeline)):
            short = None
            if self.parser.get_http_version() == "1.1":
                short = short_request(self, self._lane, self.parser.get_method(), None, self.take_slow_path)
            if short is not None:
                self._head_came()
                self.cycle = short
                return
        self._scope_of(self.headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle: RequestResponseCycle | Short = self.cycle
        if isinstance(cycle, Short) and not cycle.response_complete:
            self._body_came(body)
            cycle.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._again:
            return
        self._between = True
        cycle: RequestResponseCycle | Short = self.cycle
        if isinstance(cycle, Short) and not cycle.response_complete:
            assert self._lane is not None, "it made this request a short one"
            self._message_came()
            cycle.more_body = False
            if not self._lane.take(cycle):
                self.take_slow_path(cycle)
        else:
            super().on_message_complete()

    def take_slow_path(self, short: Short) -> None:
        """Carry out a short request as uvicorn does all others."""
        if self.transport.is_closing():
            short.response_complete = True
            if short.trace is not None:
                short.trace.end(short.verb.route, 499)
            return
        path, _, query = short.url.partition(b"?")
        length = b"%d" % len(short.body)
        scope = self._scope_of([(k, length if k == b"content-length" else v) for k, v in short.head.headers])
        scope["method"], scope["path"], scope["raw_path"] = short.verb.method, path.decode("ascii"), path
        scope["query_string"] = query
        scope[SAMPLING] = short.sampling  # type: ignore[literal-required]
        cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=short.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.body += short.body
        cycle.more_body = False
        cycle.message_event.set()
        if self.cycle is short:
            self.cycle = cycle
        self._start_asgi_task(cycle, self.app)


def _known_head(data: bytes, short: Short) -> KnownHead | None:
    """The head of a request that was just parsed, to recognise it in the next one; None unless it arrived whole."""
    line, end = data.find(b" HTTP/1.1\r\n"), data.find(b"\r\n\r\n")
    length = _LENGTH.search(data, line, end + 2) if line > 0 else None
    if length is None or short.more_body or end - line > LONGEST or len(data) - end - 4 != len(short.body):
        return None
    return data[line : length.start(1)], data[length.end(1) : end + 4], short.head
