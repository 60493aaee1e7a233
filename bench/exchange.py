"""An HTTP/1.1 client that costs next to nothing: requests are bytes made beforehand, answers are cut by their length.

It understands what the servers of the benchmarks send, answers with a Content-Length, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from bench.process import HOST, cpu_seconds

JSON = "application/json"


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
