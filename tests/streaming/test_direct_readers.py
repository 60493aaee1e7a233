"""Readers whose changes bypass the queue hold the true lists, whatever else happens on their connections."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from typing import Any, cast
from unittest.mock import patch

import pytest

from app.streaming import lone_readers
from app.streaming.buffer import CHANGE, message
from app.streaming.connection import Pump, Reader
from app.streaming.frames import TEXT, chunk, head_of
from app.streaming.outlet import Outlet
from tests.streaming.manual import ManualConnection
from tests.streaming.play import IDS, Play
from tests.streaming.world import BundlingTap, Service, Tap, apart, quiet


class Outlets(Tap):
    """A connection that is written to at once while its peer takes something."""

    over = False

    def open_outlet(self) -> None:
        self.outlet = Outlet(lambda: self.flowing.is_set() and not self._gone.is_set(), self.write)

    def write(self, data: bytes) -> None:
        raise NotImplementedError

    def take(self, message: dict[str, Any]) -> None:
        assert not self.over, "written behind the end"
        if not self._gone.is_set():
            self.got.append(message)

    def beat_now(self) -> None:
        if self.outlet.is_open():
            self.heartbeat_due = False
            for cursor in self.hub.cursors(self.open).values():
                self.take({"event": "heartbeat", "seq": int(cursor.split(":")[1]), "cursor": cursor})

    async def send_end(self, code: int) -> None:
        self.over = True
        await super().send_end(code)


class Blocks(Outlets):
    """One with one stream, as SSE has them."""

    blocks = True

    async def follow(self, board: str, id: str, *rest: Any, **named: Any) -> Reader:
        self._stream = {"id": id, "stream": self.opened}
        return await super().follow(board, id, *rest, **named)

    def write(self, data: bytes) -> None:
        while data:
            size, _, rest = data.partition(b"\r\n")
            end = int(size, 16)
            body, data = rest[:end], rest[end + 2 :]
            assert body.endswith(b"\n\n")
            assert rest[end : end + 2] == b"\r\n"
            for block in body[:-2].split(b"\n\n"):
                cursor, event, said = (line.split(b": ", 1)[1].decode() for line in block.split(b"\n"))
                self.take({**self._stream, "event": event, "cursor": cursor, **json.loads(said)})

    def send_now(self) -> None:
        if self.outlet.is_open():
            item = self.take_one()
            body = b"".join([one.block for _, one in self.take_some(1 << 18)]) if item is None else item.block
            if body:
                self.write(chunk(body))


class Frames(Outlets, BundlingTap):
    """One with any number of streams, as sockets have them."""

    def write(self, data: bytes) -> None:
        while data:
            size, at = (int.from_bytes(data[2:4], "big"), 4) if data[1] == 126 else (data[1], 2)
            self.take(json.loads(data[at : at + size]))
            data = data[at + size :]

    def send_now(self) -> None:
        if self.outlet.is_open():
            for entry in self.take_some(1 << 16):
                for reader, item in apart(entry):
                    text = reader.prefix + item.rest
                    self.write(head_of(TEXT, len(text)) + text)


class DirectPlay(Play):
    """A play on such connections."""

    async def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("open" | "resume" as what, *rest) if self.taps:
                tap = self.taps[rest[-1 if what == "resume" else 0] % len(self.taps)]
                if isinstance(tap, Blocks) and tap.opened:
                    return
            case "replace", i, _ if attached := self.attached():
                if isinstance(attached[i % len(attached)].tap, Blocks):
                    return
        await super().step(step)
        if step[0] == "stall":
            for one in self.taps:
                one.outlet.shut()


def any_step(rng: random.Random) -> tuple[Any, ...]:
    """A step, most of which are changes that go by column."""
    which = rng.randrange(10)

    def put(payload: bytes | None = None) -> tuple[Any, ...]:
        return "put", rng.choice("pqrstu"), rng.randrange(5), rng.randrange(5), payload

    if rng.random() < 0.55:
        return "slice", [put() for _ in range(rng.randint(1, 5))]
    place = sorted((rng.randrange(5), rng.randrange(5)))
    some = [put(b"1"), ("delete", rng.choice("pqrstu")), ("move", rng.choice(IDS), place, (rng.randint(1, 3), 0))]
    form = rng.choice(["changes", "changes", "changes", "old", "tiles"])
    steps: list[tuple[Any, ...]] = [
        ("slice", [rng.choice(some)]),
        ("connect",),
        ("open", which, rng.choice(IDS), form, rng.random() < 0.5, rng.choice([None, None, None, 1.0])),
        ("open", which, rng.choice(IDS), "changes", rng.random() < 0.5, None),
        ("close", which),
        ("replace", which, rng.random() < 0.5),
        ("lose", which),
        ("resume", which, rng.randrange(10)),
        ("stall", which),
        ("flow", which),
        ("wait", rng.choice([1.0, 6.0, 10.0])),
        ("turns", rng.randint(1, 4)),
    ]
    return rng.choice(steps)


def test_every_reader_holds_the_true_list_at_every_position() -> None:
    write, direct = Pump.write_direct, 0

    def counted(pump: Pump, readers: Iterable[Reader], texts: Iterable[bytes], pieces: Iterable[bytes]) -> None:
        nonlocal direct
        some = list(zip(readers, texts, pieces, strict=True))
        direct += sum(reader.connection.outlet.open for reader, _, _ in some)
        write(pump, *zip(*some, strict=True))

    async def run(rng: random.Random) -> None:
        def connect(service: Service) -> Tap:
            kind = rng.choice([Blocks, Blocks, Frames])
            tap = kind(service.hub, service.limits.stream_queue)
            tap.open_outlet()
            service.hub.connections.add(tap)
            tap.start()
            return tap

        play = DirectPlay()
        play.world.by_column = True
        for id in IDS:
            play.world.subscribe(id, 0, 4, 3)
            play.note()
        begin: list[tuple[Any, ...]] = [
            ("slice", [("put", id, at % 5, at % 4, None) for at, id in enumerate("pqrstu")]),
            *[("connect",)] * 3,
            ("open", 0, "a", "changes", False, None),
            ("open", 1, "b", "changes", True, None),
            ("turns", 4),
        ]
        pauses = rng.random() < 0.5
        with patch.object(Service, "connect", connect):
            for step in begin + [any_step(rng) for _ in range(rng.randint(10, 90))]:
                await play.step(step)
                await quiet(rng.choice([0, 0, 1, 3, 6]) if pauses else 0)
                play.look()
            await play.end()

    with patch.object(lone_readers, "FEW", 1), patch.object(Pump, "write_direct", counted):
        for seed in range(60):
            asyncio.run(run(random.Random(seed)))
    assert direct > 100


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_connection_that_fails_to_write_holds_up_no_other_one(cancelled: bool) -> None:
    def fail(data: bytes) -> None:
        raise RuntimeError("the handler is closed")

    async def run() -> None:
        pump, written = Pump(), cast("list[bytes]", [])
        writes: list[Callable[[bytes], None]] = [fail, written.append]
        readers: list[Reader] = []
        for write in writes:
            connection = ManualConnection(None, 10, 1_000, readers=1)
            connection.outlet = Outlet(lambda: True, write)
            assert connection.outlet.is_open()
            connection.waiter = asyncio.get_running_loop().create_future()
            readers += connection.all
        broken, waiters = readers[0].connection, [reader.connection.waiter for reader in readers]
        text = message("e", 1, CHANGE, '{"seq":1}').block
        pump.write_direct(readers, [text] * 2, [text] * 2)
        assert waiters[0] is not None
        if cancelled:
            waiters[0].cancel()
        await quiet(3)
        assert written == [text]
        assert waiters[0].cancelled() if cancelled else isinstance(waiters[0].exception(), RuntimeError)
        assert broken.direct is None
        pump.write_direct(readers[1:], [text], [text])
        await quiet(3)
        assert written == [text] * 2

    asyncio.run(run())
