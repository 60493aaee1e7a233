"""Small questions to the service at little cost: one for each stream that opens.

httpx takes 3 to 5 times as long for one as all else that opening a stream takes here. What these connections cannot do
is left to it: other ends than plain HTTP, and headers that it would refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

import httptools

from app.errors import NotReady

MOST_IDLE = 64
"""Connections that are kept open."""

MOST_ANSWER = 64 << 20
"""Bytes of an answer."""

_PLAIN = "/%:@!$&'()*+,;=~-._"
"""Characters of a path that stay as they are, apart from letters and digits."""


class Answer(NamedTuple):
    """The answer to a question."""

    status_code: int
    headers: dict[str, str]
    content: bytes


class Lost(Exception):
    """A connection ended before its answer did; `unused` says that it had been idle, and nothing came."""

    def __init__(self, unused: bool) -> None:
        super().__init__("the connection was closed")
        self.unused = unused


class _Connection(asyncio.Protocol):
    """One connection with at most one question on its way."""

    def __init__(self) -> None:
        self.open = False
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[Answer] | None = None
        self._used = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.open = cast(asyncio.Transport, transport), True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(Lost(self._used and not self._came))

    async def ask(self, request: bytes) -> Answer:
        """The answer to a request. Raises `Lost`."""
        if not self.open or self._transport is None:
            raise Lost(self._used)
        self._answered = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._came = 0
        self._transport.write(request)
        try:
            return await self._answered
        finally:
            self._used, self._answered = True, None

    def close(self) -> None:
        """Give it up."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._came += len(data)
        try:
            if self._answered is None or self._came > MOST_ANSWER:
                raise ValueError("too much comes")
            self._parser.feed_data(data)
        except (httptools.HttpParserError, ValueError):
            self.close()

    # --- what the parser finds ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        if not self._parser.should_keep_alive():
            self.open = False
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(Answer(status, self._headers, b"".join(self._body)))


class Asker:
    """GET requests to the service at a URL, over connections that are kept."""

    def __init__(self, url: str, connect_seconds: float) -> None:
        parts = urlsplit(url)
        self._connect_seconds = connect_seconds
        self._host, self._port, self._prefix = parts.hostname or "", parts.port or 80, parts.path
        self._name = parts.netloc.rpartition("@")[2]
        self._takes = parts.scheme == "http" and "@" not in parts.netloc
        self._idle: list[_Connection] = []

    def takes(self, headers: Iterable[tuple[str, str]]) -> bool:
        """Whether a question with these headers can be asked here."""
        return self._takes and all(value.isascii() and value.isprintable() for _, value in headers)

    async def get(
        self, path: str, params: dict[str, str], headers: Iterable[tuple[str, str]], seconds: float
    ) -> Answer:
        """The answer. Raises `NotReady` where the service is away, or takes longer."""
        target = quote(self._prefix + path, safe=_PLAIN) + (f"?{urlencode(params)}" if params else "")
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        if not any(name == "host" for name, _ in headers):
            lines.append(f"host: {self._name}")
        request = "\r\n".join((*lines, "accept: application/json", "", "")).encode()
        try:
            async with asyncio.timeout(seconds):
                return await self._answer(request)
        except (OSError, Lost) as error:
            raise NotReady(f"the service cannot be reached: {type(error).__name__}", retry_after=1) from None

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    async def _answer(self, request: bytes) -> Answer:
        while True:
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                answer = await connection.ask(request)
            except Lost as lost:
                # The service closes connections that are idle: it has not seen the question.
                if lost.unused:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            if connection.open and len(self._idle) < MOST_IDLE:
                self._idle.append(connection)
            else:
                connection.close()
            return answer

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_seconds):
            _, connection = await loop.create_connection(_Connection, self._host, self._port)
        return connection
