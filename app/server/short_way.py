"""HTTP on one connection to the service: small writes take a short way, all other requests that of uvicorn."""

from __future__ import annotations

import asyncio

from uvicorn._types import HTTPScope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.api.accounting import SAMPLING
from app.api.together.lane import Lane
from app.server.http import HttpProtocol
from app.server.short import Short, short_request


class ServiceProtocol(HttpProtocol):
    """One connection, whose small writes go to the application's lane."""

    __slots__ = ("_lane",)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._lane: Lane | None = getattr(getattr(self.app, "state", None), "lane", None)
        super().connection_made(transport)

    def on_message_begin(self) -> None:
        # Only what takes the usual way has a scope.
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
            short = short_request(self, self._lane, self.take_usual_way)
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
        cycle: RequestResponseCycle | Short = self.cycle
        if isinstance(cycle, Short) and not cycle.response_complete:
            assert self._lane is not None, "it made this request a short one"
            self._message_came()
            cycle.more_body = False
            if not self._lane.take(cycle):
                self.take_usual_way(cycle)
        else:
            super().on_message_complete()

    def take_usual_way(self, short: Short) -> None:
        """Carry out a request that was short as all others are."""
        if self.transport.is_closing():
            short.response_complete = True
            if short.trace is not None:
                short.trace.end(short.verb.route, 499)
            return
        path, _, query = short.url.partition(b"?")
        scope = self._scope_of(short.plain_headers)
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
