"""HTTP/1.1 on one connection, with bounds on the memory and the time that a client can make the service spend.

uvicorn's protocol parses whatever arrives, queues pipelined requests without a bound, and collects heads in quadratic
time. Here bytes are parsed a slice at a time, and none while a pipelined request is queued or the client has not read
its response: the rest stays in the socket, as back-pressure. Heads and bodies have timeouts.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, NoReturn

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.api.problems import Problem
from app.server.limits import Unread, limits_of, refusal
from app.streaming.outlet import Outlet
from app.streaming.sse import CHUNK

LARGEST_HEAD = 1 << 16
"""Most bytes of a request's head, and between two pieces of its body."""

SLICE = 1 << 13
"""Bytes that are parsed at a time: the pipelined requests in them may be queued, a megabyte of memory at most."""

JOINED = 1 << 16
"""Most bytes after the head of a response that are copied behind it, to write both by one call."""

_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)((?:[/?#].*)?)", re.IGNORECASE)
"""A target in absolute form: its host, and the rest. One with a user does not match, since that hides the host."""


_WITHOUT_CHUNKS = frozenset({"0.9", "1.0"})
"""Versions of HTTP whose clients take the sizes of chunks for a part of the body."""


class Flow(FlowControl):
    """Flow control that does not resume reading while it is `held`. `paused` says whether reading was paused since it
    was last set to false.
    """

    held = False
    paused = False

    def pause_reading(self) -> None:
        self.paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        if self.read_paused and not self.held:
            super().resume_reading()


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    `_gathered` counts the bytes since the end of the last head or piece of a body, `_came` those of the body since the
    last check of its rate (`_look`). `_rest` was read and is not parsed. `_untaken`: the client has not read the last
    response, so the next request waits. `_refused`: nothing more is read. `_outlet` is that of the last stream.
    `_idle_since` is when the connection became idle, None while it is not; `_idle` is the timer that checks it.
    `_again` is a head to be parsed a second time, before the bytes after it, or empty. `_running` is the request that
    the application works on; `cycle` is the last one that was read.
    """

    # Python keeps few attributes of an object where they are found fastest, and uvicorn has as many.
    __slots__ = (
        "_again",
        "_came",
        "_gathered",
        "_idle",
        "_idle_since",
        "_in_head",
        "_limits",
        "_outlet",
        "_patience",
        "_problem",
        "_refused",
        "_rest",
        "_running",
        "_unread",
        "_untaken",
    )  # fmt: skip

    flow: Flow
    cycle: Any

    # --- the connection ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._limits = limits_of(self.config)
        self._unread = Unread(self.loop, transport, self._limits.unread_seconds)
        self._gathered = self._came = 0
        self._in_head = True
        self._again = b""
        self._rest = b""
        self._untaken = self._refused = False
        self._outlet: Outlet | None = None
        self._running: RequestResponseCycle | None = None
        self._problem: Problem | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        self._idle_no_more()
        self._unread.end()
        self._shut()
        self._rest = b""
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._wait_no_more()
        self._idle_no_more()
        super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._shut()
        self._unread.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.end()
        if self._untaken:
            self._untaken = False
            self.on_response_complete()

    def _shut(self) -> None:
        """Have the last stream's outlet check again whether it may write."""
        if self._outlet is not None:
            self._outlet.shut()

    # --- parsing ----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if len(data) > SLICE or self.flow.held or self._rest:
            self._rest += data
            self._take_rest()
            return
        self._take(data)

    def _take_rest(self) -> None:
        """Parse what was read, until a pipelined request is queued."""
        rest, at = self._rest, 0
        while at < len(rest) and not self.flow.held and self._takes():
            self._take(rest[at : at + SLICE])
            at += SLICE
        self._rest = rest[at:] if self._takes() else b""

    def _take(self, data: bytes) -> None:
        self._gathered += len(data)
        self._parse(data)
        if self._gathered or not self._in_head:
            self._expect_more()
        elif self.cycle is not None and self.cycle.response_complete:
            self._expect_nothing()

    def _parse(self, data: bytes) -> None:
        """Parse as uvicorn does, except for a request to upgrade to another protocol than WebSocket, which some clients
        send first: its head is parsed again without the header. Otherwise the parser would skip its body, or read it as
        further requests.
        """
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
            except HttpParserError:
                message = "Invalid HTTP request received."
                self.logger.warning(message)
                self.send_400_response(message)
            except HttpParserUpgrade as upgrade:
                if self._again:
                    data, self._again = self._again + data[upgrade.args[0] :], b""
                    # The former parser may have ended.
                    self.parser = _parser(self)
                    continue
                if self._should_upgrade():
                    self.handle_websocket_upgrade()
                else:
                    self._unsupported_upgrade_warning()
            return

    def _expect_more(self) -> None:
        """A head or body has begun, and its end has not been parsed."""
        if not self._takes():
            self._wait_no_more()
        elif self._gathered > LARGEST_HEAD:
            self._refuse(Problem("malformed", f"the head of a request has at most {LARGEST_HEAD} bytes"))
        elif self._patience is None:
            self._wait()

    def _expect_nothing(self) -> None:
        """A request has ended after its response: the connection is idle."""
        if self._takes():
            self._begin_idle()

    def _takes(self) -> bool:
        """Whether this protocol still parses what arrives."""
        return not (self._refused or self.transport.is_closing()) and self.transport.get_protocol() is self

    def _head_came(self) -> None:
        self._gathered, self._came, self._in_head = 0, 0, False
        if self._patience is not None:
            self._wait_no_more()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            # A trailer is no header: the parser does not say which is which, and nobody asks for one.
            return
        # Spaces behind a value are no part of it (RFC 9110, 5.5): the parser takes off those in front alone.
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        self._check_coding()
        if self.expect_100_continue and self.parser.get_http_version() == "1.0":
            # Such a client takes what it is sent for the answer (RFC 9110, 10.1.1).
            self.expect_100_continue = False
        if self.url[:1] != b"/":
            self._take_host()
        if self.parser.should_upgrade():
            self._check_tunnel()
            if not self._should_upgrade():
                self._again = self._plain_head()
                if self._again:
                    return
        super().on_headers_complete()
        self._head_came()
        # There is no path where the connection goes over to another protocol.
        path = self.scope.get("path", "")
        if path.endswith("/stream"):
            if self._outlet is not None:
                # Only the outlet of the last stream is shut in time: the one before may not have ended.
                self._outlet.retire()
            self._outlet = Outlet(partial(_writes_chunks, self.cycle), self.transport.write)
            extensions: dict[str, Any] = {CHUNK: self._outlet}
            self.scope["extensions"] = extensions
        elif path:
            self.cycle.transport = JoinedWrites(self.loop, self.transport)
        if self.pipeline:
            self.flow.held = True

    def _take_host(self) -> None:
        """Put the host that the target names in place of the header `Host` (RFC 9112, 3.2.2). Refuse a target that is
        neither a path nor such a URL.
        """
        if self.url == b"*" or self.parser.get_method() == b"CONNECT":
            return
        found = _ABSOLUTE.fullmatch(self.url)
        if found is None:
            self._stop(Problem("malformed", "the target of a request is a path, or an http URL without a user"))
        host, rest = found.groups()
        self.url = rest if rest.startswith(b"/") else b"/" + rest
        others = [header for header in self.headers if header[0] != b"host"]
        if len(self.headers) - len(others) < 2:
            # Two are refused by the application, whatever they say.
            self.headers[:] = [(b"host", host), *others]

    def _check_tunnel(self) -> None:
        """Refuse `CONNECT`: the parser expects no body, and would read what follows as further requests."""
        if self.parser.get_method() == b"CONNECT":
            self._stop(Problem("method-not-allowed", "the service is no proxy", headers={"Allow": ""}))

    def _plain_head(self) -> bytes:
        """The head of this request without the header `Upgrade`; empty if it has none."""
        kept = [(name, value) for name, value in self.headers if name != b"upgrade"]
        if len(kept) == len(self.headers):
            return b""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(b"%b: %b\r\n" % each for each in kept))

    def _body_came(self, body: bytes) -> None:
        self._gathered = 0
        self._came += len(body)

    def on_body(self, body: bytes) -> None:
        self._body_came(body)
        super().on_body(body)

    def _message_came(self) -> None:
        self._gathered, self._in_head = 0, True
        if self._patience is not None:
            self._wait_no_more()

    def on_message_complete(self) -> None:
        if self._again:
            return
        self._message_came()
        super().on_message_complete()

    def _check_coding(self) -> None:
        """Refuse transfer codings other than chunked, which the parser would leave in the body undecoded."""
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and codings != [b"chunked"]:
            self._stop(Problem("malformed", "the only transfer coding that is understood is chunked"))

    def _should_upgrade(self) -> bool:
        # Before HTTP/1.1 there is no other protocol to ask for.
        upgrades = self.parser.get_http_version() == "1.1" and super()._should_upgrade()
        if upgrades:
            self._check_handshake()
        return upgrades

    def _check_handshake(self) -> None:
        """Refuse a handshake that the WebSocket protocol could not answer at once."""
        why = None
        if self.parser.get_method() != b"GET":
            why = "a WebSocket is opened by GET"
        elif any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
            for name, value in self.headers
        ):
            why = "the handshake of a WebSocket has no body"
        elif self.flow.write_paused or (self.cycle is not None and not self.cycle.response_complete):
            why = "a WebSocket is opened when the requests before it are answered"
        if why is not None:
            self._stop(Problem("malformed", why))

    def _stop(self, problem: Problem) -> NoReturn:
        """Refuse a request at the end of its head: what is raised ends the parser, and `send_400_response` answers."""
        self._problem = problem
        raise problem

    # --- responses --------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if cycle.scope["http_version"] in _WITHOUT_CHUNKS:
            app = partial(_without_chunks, app, cycle)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if self.flow.write_paused and not self.transport.is_closing():
            self._untaken = self.flow.held = True
            self.flow.pause_reading()
            return
        self._running = None
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._begin_idle()
        if self.flow.held and not self.pipeline and not self._refused:
            self.flow.held = False
            self._take_rest()
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._problem or Problem("malformed", msg))

    def _refuse(self, problem: Problem) -> None:
        """Read nothing more, and answer with a problem once all requests before are answered."""
        self._wait_no_more()
        self._shut()
        self._rest = b""
        self._refused = True
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            if self._in_head:
                self._answer(problem)
            else:
                # It was answered before its body was whole: another answer would be that of the next request.
                self.transport.close()
        elif self.pipeline or not cycle.more_body:
            # If a complete request came before the fault, its response is the last.
            cycle.keep_alive = False
            if cycle.more_body:
                # Those before its head are whole: it is answered in its turn.
                self.pipeline[0] = cycle, problem.response()  # type: ignore[assignment]
            self.flow.held = True
            self.flow.pause_reading()
        elif cycle.response_started:
            self.transport.close()
        else:
            self._answer(problem)
            cycle.disconnected = True
            cycle.message_event.set()

    def _answer(self, problem: Problem) -> None:
        self.transport.write(refusal(problem, self.server_state.default_headers))
        self.transport.close()

    # --- keep-alive -------------------------------------------------------------------------------------------------

    def _unset_keepalive_if_required(self) -> None:
        """Bytes have arrived. uvicorn cancels a timer here and starts one with each response, which costs more than a
        check now and then.
        """
        self._idle_since = None

    def _begin_idle(self) -> None:
        self._idle_since = self.loop.time()
        if self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._look_idle)

    def _look_idle(self) -> None:
        """Close the connection if it was idle for the keep-alive timeout."""
        self._idle = None
        if self._idle_since is None:
            # The end of the request under way, or of its response, starts the timer again.
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._idle = self.loop.call_later(left, self._look_idle)
        else:
            self.timeout_keep_alive_handler()

    def _idle_no_more(self) -> None:
        self._idle_since = None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    # --- patience ---------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        seconds = self._limits.head_seconds if self._in_head else self._limits.body_seconds
        self.flow.paused = self.flow.read_paused
        self._patience = self.loop.call_later(seconds, self._look)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _look(self) -> None:
        """Check that a head or body still arrives. Time in which reading is paused does not count."""
        self._patience = None
        if self.flow.paused or self.flow.read_paused:
            self._wait()
        elif self._in_head:
            if self._gathered:
                self._refuse(self._too_slow("head", self._limits.head_seconds))
            else:
                self.transport.close()
        elif self.cycle.response_complete:
            # Nobody waits for what is left of the body.
            self.transport.close()
        elif self.cycle.response_started or self._came >= self._limits.body_rate * self._limits.body_seconds:
            # Once the response has begun, the rest of the body may depend on it: no rate is required.
            self._came = 0
            self._wait()
        else:
            self._refuse(self._too_slow("body", self._limits.body_seconds))

    @staticmethod
    def _too_slow(what: str, seconds: float) -> Problem:
        return Problem("too-slow", f"too little of the {what} of a request came in {seconds:g} s")


def _parser(protocol: HttpProtocol) -> HttpRequestParser:
    """A parser as uvicorn makes one: it ignores what follows the last request of a connection."""
    parser = HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class JoinedWrites:
    """The transport of one cycle, which joins the head of a response and the first piece of its body into one write:
    two writes would wake the client twice.
    """

    __slots__ = ("_held", "_loop", "_to")

    def __init__(self, loop: asyncio.AbstractEventLoop, to: asyncio.Transport) -> None:
        self._loop = loop
        self._to = to
        self._held: bytes | None = None
        """The head until the body follows, at most to the end of the turn of the event loop; empty once written."""

    def write(self, data: bytes) -> None:
        """Write, or hold a head."""
        if self._held is None:
            self._held = data
            self._loop.call_soon(self._flush)
        elif self._held and len(data) <= JOINED:
            self._held, data = b"", self._held + data
            self._to.write(data)
        else:
            self._flush()
            self._to.write(data)

    def _flush(self) -> None:
        if self._held and not self._to.is_closing():
            self._held, data = b"", self._held
            self._to.write(data)

    def close(self) -> None:
        """Write what is held, and close."""
        self._flush()
        self._to.close()

    def is_closing(self) -> bool:
        """Whether nothing more is written."""
        return self._to.is_closing()


async def _without_chunks(
    app: ASGIApp, cycle: RequestResponseCycle, scope: Scope, receive: Receive, send: Send
) -> None:
    """Call an application whose answer, where its length is not stated, ends with the connection."""
    unbounded = False

    async def answer(message: Message) -> None:
        nonlocal unbounded
        if message["type"] == "http.response.start":
            unbounded = all(name.lower() != b"content-length" for name, _ in message["headers"])
            if unbounded:
                # What is in chunks otherwise has no length to keep to: the cycle leaves this body to the lines below.
                cycle.scope = {**cycle.scope, "method": "HEAD"}
        elif unbounded and scope["method"] != "HEAD":
            if cycle.flow.write_paused and not cycle.disconnected:
                await cycle.flow.drain()
            if not cycle.disconnected:
                cycle.transport.write(message.get("body", b""))
        await send(message)

    await app(scope, receive, answer)


def _writes_chunks(cycle: Any) -> bool:
    """Whether a chunk of the response of a cycle can be written without waiting."""
    open: bool = cycle.chunked_encoding and not (cycle.disconnected or cycle.response_complete)
    return open and not cycle.flow.write_paused and not cycle.transport.is_closing()
