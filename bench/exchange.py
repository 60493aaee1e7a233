"""An HTTP/1.1 client that costs next to nothing: requests are bytes made beforehand, answers are cut by their length.

It understands what the servers of the benchmarks send, answers with a Content-Length, and nothing else. A body that is
answered while it is sent goes by `converse`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from bench.process import HOST, Failed, cpu_seconds

JSON = "application/json"

TIMEOUT = 300.0
"""Seconds without a byte after which a conversation has failed."""


def request(method: str, path: str, body: bytes = b"", kind: str = JSON) -> bytes:
    """A whole request."""
    head = f"{method} {path} HTTP/1.1\r\nhost: {HOST}\r\n"
    if body:
        head += f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Exchange(asyncio.Protocol):
    """One connection with one request on its way. `on_answer(exchange, status, body)` is called for each answer."""

    def __init__(self, on_answer: Callable[[Exchange, int, bytes], None]) -> None:
        self._on_answer = on_answer
        self._rest = b""
        self.sent = 0.0
        self.lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self, payload: bytes) -> None:
        """Send a request; `sent` is when."""
        self.sent = time.perf_counter()
        self.transport.write(payload)

    def data_received(self, data: bytes) -> None:
        rest = self._rest + data if self._rest else data
        while rest:
            end = rest.find(b"\r\n\r\n")
            if end < 0:
                break
            at = rest.find(b"content-length: ", 0, end)
            total = end + 4 + (int(rest[at + 16 : rest.find(b"\r", at)]) if at >= 0 else 0)
            if len(rest) < total:
                break
            answer, rest = rest[:total], rest[total:]
            self._rest = rest
            self._on_answer(self, int(answer[9:12]), answer[end + 4 :])
        self._rest = rest

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = error or ConnectionError("the server closed the connection")


async def connect(port: int, on_answer: Callable[[Exchange, int, bytes], None]) -> Exchange:
    """An open connection."""
    _, exchange = await asyncio.get_running_loop().create_connection(lambda: Exchange(on_answer), HOST, port)
    return exchange


class Closed:
    """A closed loop: each of so many connections sends its next request when the last one is answered. With `keep` the
    bodies of all answers are in `answers`, in the order in which they came."""

    def __init__(self, payloads: Iterable[bytes], keep: bool = False) -> None:
        self._payloads: Iterator[bytes] = iter(payloads)
        self._keep = keep
        self._open = 0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.seconds: list[float] = []
        self.statuses: dict[int, int] = {}
        self.bodies = 0
        self.last = b""
        self.answers: list[bytes] = []

    async def run(self, port: int, connections: int) -> dict[str, Any]:
        """Send everything; what it took, measured from the first request to the last answer."""
        exchanges = [await connect(port, self._on_answer) for _ in range(connections)]
        began = time.perf_counter()
        self._open = connections
        for exchange in exchanges:
            self._next(exchange)
        while not self._done.done():
            await asyncio.wait([self._done], timeout=1.0)
            for exchange in exchanges:
                if exchange.lost is not None and not self._done.done():
                    raise exchange.lost
        elapsed = time.perf_counter() - began
        for exchange in exchanges:
            exchange.transport.close()
        return {
            "elapsed": elapsed,
            "requests": len(self.seconds),
            "statuses": self.statuses,
            "answer_bytes": self.bodies,
            "last": self.last[:300].decode(),
            "ms": milliseconds(self.seconds),
        }

    def _next(self, exchange: Exchange) -> None:
        payload = next(self._payloads, None)
        if payload is not None:
            exchange.ask(payload)
            return
        self._open -= 1
        if self._open == 0 and not self._done.done():
            self._done.set_result(None)

    def _on_answer(self, exchange: Exchange, status: int, body: bytes) -> None:
        self.seconds.append(time.perf_counter() - exchange.sent)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.bodies += len(body)
        self.last = body
        if self._keep:
            self.answers.append(body)
        self._next(exchange)


class Answer(NamedTuple):
    """When a request was due, how long after that it was answered, in seconds, and how."""

    due: float
    seconds: float
    status: int
    body: bytes


class Paced:
    """An open loop: requests leave when they are due, whether or not the ones before are answered.

    The time of an answer counts from when its request was due, so that one that waits for a free connection is not seen
    as fast. Times are those of `time.perf_counter`.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._exchanges: list[Exchange] = []
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._free: deque[Exchange] = deque()
        self._due: dict[Exchange, float] = {}

    async def open(self, port: int, connections: int) -> None:
        """Open the connections."""
        self._exchanges = [await connect(port, self._on_answer) for _ in range(connections)]
        self._free = deque(self._exchanges)

    async def send(self, due: float, payload: bytes) -> None:
        """Wait until a request is due, and send it by the next free connection. Raises Failed when one is lost."""
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        self._waiting.append((due, payload))
        self._ask()
        if any(exchange.lost for exchange in self._exchanges):
            raise Failed("the service closed a connection of the load")

    async def finish(self, seconds: float) -> int:
        """Close the connections when all is answered, or so many seconds from now; how many requests were not."""
        end = time.perf_counter() + seconds
        while (self._due or self._waiting) and time.perf_counter() < end:
            await asyncio.sleep(0.001)
        for exchange in self._exchanges:
            exchange.transport.close()
        return len(self._due) + len(self._waiting)

    def _ask(self) -> None:
        while self._waiting and self._free:
            due, payload = self._waiting.popleft()
            exchange = self._free.popleft()
            self._due[exchange] = due
            exchange.ask(payload)

    def _on_answer(self, exchange: Exchange, status: int, body: bytes) -> None:
        due = self._due.pop(exchange)
        self.answers.append(Answer(due, time.perf_counter() - due, status, body))
        self._free.append(exchange)
        self._ask()


def converse(
    port: int, path: str, pieces: Sequence[bytes], kind: str, chunked: bool = False
) -> tuple[float, int, bytes]:
    """POST a body piece by piece and read its answer meanwhile, in a connection of its own.

    Unless `chunked`, the request states the length of the body, which its server may treat in another way. Returns
    the seconds from the first byte sent to the last received, the status, and the body of the answer.

    Raises:
        Failed: the server ends the connection without an answer, as one may that refuses a body before it has read it.
    """
    head = f"POST {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\ncontent-type: {kind}\r\n"
    framed: Sequence[bytes] = pieces
    if chunked:
        head += "transfer-encoding: chunked\r\n\r\n"
        framed = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces] + [b"0\r\n\r\n"]
    else:
        head += f"content-length: {sum(map(len, pieces))}\r\n\r\n"
    with socket.create_connection((HOST, port), TIMEOUT) as connection:

        def send() -> None:
            # What is not taken any more is not sent; the answer, or that there is none, says why.
            with suppress(OSError):
                for piece in (head.encode(), *framed):
                    connection.sendall(piece)

        sender = threading.Thread(target=send)
        began = time.perf_counter()
        sender.start()
        answer = []
        try:
            with suppress(ConnectionResetError):
                while piece := connection.recv(1 << 20):
                    answer.append(piece)
            seconds = time.perf_counter() - began
        finally:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            sender.join()
    if not answer:
        raise Failed(f"POST {path} is not answered: the server has closed the connection")
    head_of_answer, _, body = b"".join(answer).partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head_of_answer.lower():
        body = _joined(body)
    return seconds, int(head_of_answer[9:12]), body


def _joined(chunks: bytes) -> bytes:
    """A chunked body as a whole."""
    found: list[bytes] = []
    at = 0
    while True:
        end = chunks.index(b"\r\n", at)
        size = int(chunks[at:end], 16)
        if size == 0:
            return b"".join(found)
        found.append(chunks[end + 2 : end + 2 + size])
        at = end + size + 4


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles in milliseconds."""
    if not seconds:
        return {}
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3

    return {
        "mean": sum(ordered) / len(ordered) * 1e3,
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "p999": at(0.999),
        "max": ordered[-1] * 1e3,
    }


class Clock:
    """Processor seconds of a server and of this process since it was made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._server = cpu_seconds(pid)
        self._own = cpu_seconds(os.getpid())

    def read(self) -> dict[str, float]:
        return {"server_cpu": cpu_seconds(self._pid) - self._server, "own_cpu": cpu_seconds(os.getpid()) - self._own}
