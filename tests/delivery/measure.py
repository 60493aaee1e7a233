"""What a change costs on its way from a settled slice to its readers, over real connections on this machine.

    python -m tests.delivery.measure --sse 5000 --sockets 50 --each 100 --seconds 10

A server in this process and the readers in another one; every live subscription changes once a second, spread evenly.
It prints the server's CPU time a change, and the time from the slice to the receipt.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import resource
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

import uvicorn
import uvloop
from fastapi import FastAPI

from app import problems
from app.api.routing import Routes
from app.api.streams import StreamRoutes
from app.delivery.hub import Hub
from app.delivery.lists import BoardSource
from app.metrics import Metrics
from app.security import Keyring
from indexes.boards.commands import BoardConfig
from indexes.boards.views import ListChange, ListEntry, ObjectView, Slice
from tests.delivery.world import Limits

T = TypeVar("T")
TICK = 0.002


class StillBoard:
    """A board that has every subscription; each list is the same."""

    config = BoardConfig(("distance",), "delay")

    def __init__(self) -> None:
        self.seq = 0
        self.slots = 0

    def watch(self, id: str) -> int:
        self.slots += 1
        return self.slots - 1

    def unwatch(self, live: int) -> None: ...

    def offset_of(self, live: int) -> int:
        return 0

    def list_of(self, live: int, offset: int = 0) -> list[ObjectView]:
        return [ObjectView(f"AA{i}", 500.0 + i, 30.0, i, None) for i in range(10)]

    def want_tiles(self, live: int, on: bool) -> None: ...

    def slice(self, count: int, first: int, distinct: bool) -> Slice:
        """`count` lists change by one object in and one out, each at a seq of its own or all of them alike at one."""
        changes = []
        entries: tuple[ListEntry, ...] = ()
        for i in range(count):
            if distinct or not entries:
                self.seq += 1
                item = ObjectView("AA1141", 1400.0, time.perf_counter() * 1e6 // 1, 17, None)
                entries = (ListEntry("DL95", 5, None, None, item), ListEntry("AA1141", None, 2, item, None))
            changes.append(ListChange(self.seq, (first + i) % self.slots, entries))
        return Slice(self.seq, changes, [], [], [])


async def serve(args: argparse.Namespace, port: socket.socket, told: Connection) -> None:
    board = StillBoard()

    async def between(name: str, fn: Callable[[], T]) -> T:
        return fn()

    boards: dict[str, StillBoard] = {"b": board}
    hub = Hub("0123456789abcdef", Limits(max_streams=100_000), [BoardSource(boards.get, between)], Metrics())
    app = FastAPI()
    problems.install(app, {})
    keyring = Keyring()
    streams = StreamRoutes(keyring)
    streams.add_routes(Routes(app, keyring), app)
    streams.start(hub)
    hub.start()
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", ws="websockets-sansio", ws_per_message_deflate=False, http="httptools"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([port]))
    wanted = args.sse + args.sockets * args.each
    empty = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while hub.counts().streams < wanted:
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    full = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{args.sse} SSE and {args.sockets} x {args.each} on WebSockets: {(full - empty) / wanted:.1f} KiB a stream")
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    sent, spent, first = 0, time.process_time(), 0
    delivering = 0.0
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < args.seconds:
        due = int(now * wanted * args.rate) - sent
        if due >= (wanted if args.burst else 1):
            part = board.slice(due, first, not args.burst)
            start = time.process_time()
            hub.deliver("boards/b", part)
            delivering += time.process_time() - start
            first, sent = first + due, sent + due
        await asyncio.sleep(TICK)
    spent = time.process_time() - spent
    await asyncio.sleep(1)
    kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{sent} changes: {spent / sent * 1e6:.1f} us of CPU each, {delivering / sent * 1e6:.1f} of them in deliver")
    print(f"{spent / args.seconds:.2f} of a core; {(kept - full) / sent:.2f} KiB kept a change")
    await hub.close_all()
    server.should_exit = True
    await serving
    told.send(sent)


class Reading(asyncio.Protocol):
    """A connection that says something, then something more once it is answered, and notes the age of every change."""

    def __init__(self, says: bytes, after: bytes, latencies: list[float], ended: Callable[[], None]) -> None:
        self._says = says
        self._after = after
        self._latencies = latencies
        self._ended = ended
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(self._says)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter() * 1e6
        if self._after:
            self._transport.write(self._after)  # type: ignore[attr-defined]
            self._after = b""
        data = self._rest + data
        at = data.find(AGE)
        done = 0
        while at >= 0 and (end := data.find(b"}", at)) >= 0:
            self._latencies.append(now - int(data[at + len(AGE) : end]))
            done = end
            at = data.find(AGE, end)
        self._rest = data[max(done, len(data) - 200) :]

    def connection_lost(self, error: Exception | None) -> None:
        self._ended()


AGE = b'"distance":1400,"delay":'
HANDSHAKE = (
    b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def frame(text: bytes) -> bytes:
    """A text frame of a client, masked with zeros."""
    return b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text


async def read(args: argparse.Namespace, port: int, told: Connection) -> None:
    latencies: list[float] = []
    loop = asyncio.get_running_loop()
    open_connections = args.sse + args.sockets
    all_ended = loop.create_future()

    def ended() -> None:
        nonlocal open_connections
        open_connections -= 1
        if not open_connections:
            all_ended.set_result(None)

    says = [
        (f"GET /v1/boards/b/subscriptions/s{i}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode(), b"")
        for i in range(args.sse)
    ]
    for n in range(args.sockets):
        operations = (f'{{"op":"subscribe","resource":"boards/b","id":"w{n}-{i}"}}' for i in range(args.each))
        says.append((HANDSHAKE, b"".join(frame(operation.encode()) for operation in operations)))
    for first in range(0, len(says), 100):
        await asyncio.gather(
            *(
                loop.create_connection(lambda pair=pair: Reading(*pair, latencies, ended), "127.0.0.1", port)
                for pair in says[first : first + 100]
            )
        )
    await all_ended
    latencies.sort()
    sent = await asyncio.to_thread(told.recv)
    mean, last = sum(latencies) / len(latencies) / 1e3, latencies[len(latencies) * 99 // 100] / 1e3
    print(f"{len(latencies)} of {sent} received: mean {mean:.1f} ms, p99 {last:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sse", type=int, default=5000, help="subscriptions on connections of their own")
    parser.add_argument("--sockets", type=int, default=50, help="WebSockets")
    parser.add_argument("--each", type=int, default=100, help="subscriptions on each WebSocket")
    parser.add_argument("--rate", type=float, default=1.0, help="changes a second of each subscription")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--burst", action="store_true", help="one change of all of them at once, each second")
    args = parser.parse_args()
    with socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        port.bind(("127.0.0.1", 0))
        tell, told = multiprocessing.Pipe()
        readers = multiprocessing.get_context("spawn").Process(
            target=_read, args=(args, port.getsockname()[1], told), daemon=True
        )
        readers.start()
        uvloop.run(serve(args, port, tell))
        readers.join(30)


def _read(args: argparse.Namespace, port: int, told: Connection) -> None:
    uvloop.run(read(args, port, told))


if __name__ == "__main__":
    main()
