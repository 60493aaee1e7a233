"""Bounded queues between what changes and the connections that carry it.

A `Reader` is one stream: one subscription in one form on one connection. An `Outbox` is a connection: one queue for all
its readers, emptied by the connection's own task, so that a slow one holds up nobody else. A reader with too much in
the queue falls behind: what it has there is void, and once the queue is empty it gets its whole list again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.delivery.feed import CHANGE, GONE, READY, Feed, Message
from app.delivery.squash import Squash

if TYPE_CHECKING:
    from app.delivery.hub import Hub

WAKE_AT_ONCE = 128
FEW = 64

GOING_AWAY = 1001
POLICY = 1008


class Pump:
    """Wakes connections a few at a time, so that a change that reaches thousands leaves the loop room for others."""

    def __init__(self) -> None:
        self._asleep: deque[asyncio.Future[None]] = deque()
        self._running = False

    def wake(self, waiter: asyncio.Future[None]) -> None:
        """Let who awaits `waiter` go on soon. O(1)."""
        self._asleep.append(waiter)
        if not self._running:
            self._running = True
            waiter.get_loop().call_soon(self._run)

    def _run(self) -> None:
        asleep = self._asleep
        for _ in range(min(WAKE_AT_ONCE, len(asleep))):
            waiter = asleep.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._running = bool(asleep)
        if asleep:
            asleep[0].get_loop().call_soon(self._run)


class Reader:
    """One stream. `waiting` counts its messages in the connection's queue, at most `room` of them.

    `void` says that those are not to be sent any more. `feed` is None before the stream is open and after it ended.
    `prefix` is how its messages begin on a connection that carries several streams. `unready` says that it asked to be
    told once it is up to date, and has not been yet. With `squash` seconds it gets at most one change in so many.
    """

    __slots__ = ("feed", "outbox", "prefix", "room", "squash", "unready", "void", "waiting")

    def __init__(self, outbox: Outbox, prefix: str = "{", unready: bool = False, squash: float | None = None) -> None:
        self.outbox = outbox
        self.prefix = prefix
        self.unready = unready
        self.squash = None if squash is None else Squash(squash)
        self.feed: Feed | None = None
        self.room = outbox.limit
        self.waiting = 0
        self.void = False

    def push(self, item: Message) -> None:
        """Queue a message, or fall behind. O(1), amortised over what becomes void."""
        if self.void:
            return
        outbox = self.outbox
        if self.squash is not None and item.event == CHANGE:
            outbox.hub.squasher.hold(self, self.squash, item.seq)
            return
        if self.waiting >= self.room:
            outbox.discard(self)
            outbox.late.append(self)
        else:
            self.waiting += 1
            outbox.queue.append((self, item))
        if outbox.waiter is not None:
            outbox.stir()

    def tell(self, item: Message) -> None:
        """Queue the net of what was held back. O(1)."""
        self.waiting += 1
        self.outbox.queue.append((self, item))
        self.outbox.stir()

    def begin(self, items: Iterable[Message]) -> None:
        """Queue what the stream begins with, or goes on with after it fell behind, however much it is."""
        self.void = False
        for item in items:
            self.waiting += 1
            self.outbox.queue.append((self, item))
        self.room = self.outbox.limit + self.waiting
        self.outbox.stir()

    def finish(self, item: Message) -> None:
        """Queue the stream's last message, whatever else is waiting."""
        self.feed = None
        self.waiting += 1
        self.outbox.queue.append((self, item))
        self.outbox.on_finish(self)
        self.outbox.stir()


class Outbox(ABC):
    """One connection and its queue. `keys` are the ids of the API keys that it was opened with.

    `run` is its task: it empties the queue, asks the hub for the lists of readers that fell behind, sends a heartbeat
    when one is due and nothing else is waiting, and returns when the connection ends.
    """

    transport: str

    def __init__(self, hub: Hub, limit: int) -> None:
        self.hub = hub
        self.limit = limit
        self.keys: set[str] = set()
        self.queue: deque[tuple[Reader, Message]] = deque()
        self.late: list[Reader] = []
        self.waiter: asyncio.Future[None] | None = None
        self.heartbeat_due = False
        self.ending: int | None = None
        self.lost = False
        self._void = 0
        self._task: asyncio.Task[None] | None = None
        self._aborted = False

    @abstractmethod
    def readers(self) -> Iterable[Reader]:
        """The streams that are open here."""

    @abstractmethod
    async def listen(self) -> None:
        """Take what the other side sends until it goes away."""

    @abstractmethod
    async def send_queue(self) -> None:
        """Send what is in the queue, all or some of it."""

    @abstractmethod
    async def send_heartbeat(self) -> None:
        """Send a sign of life with the position that has been reached."""

    @abstractmethod
    async def send_end(self, code: int) -> None:
        """End the connection properly. `code` is a WebSocket's close code."""

    @abstractmethod
    def on_finish(self, reader: Reader) -> None:
        """A stream has its last message in the queue."""

    def take(self) -> tuple[Reader, Message] | None:
        """The next message to send. O(1), amortised over what is void."""
        queue = self.queue
        while queue:
            reader, item = queue.popleft()
            reader.waiting -= 1
            if not reader.waiting:
                reader.room = self.limit
            if not reader.void or item.event == GONE:
                if item.event == READY:
                    reader.unready = False
                return reader, item
            self._void -= 1
        return None

    def discard(self, reader: Reader) -> None:
        """What a reader has in the queue is not to be sent. O(1) amortised."""
        if reader.void:
            return
        reader.void = True
        self._void += reader.waiting
        if self._void >= FEW and self._void * 2 > len(self.queue):
            kept: deque[tuple[Reader, Message]] = deque()
            for entry in self.queue:
                if entry[0].void and entry[1].event != GONE:
                    entry[0].waiting -= 1
                else:
                    kept.append(entry)
            self.queue = kept
            self._void = 0

    def stir(self) -> None:
        """Wake the connection's task if it has nothing to do."""
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            self.hub.pump.wake(waiter)

    def end(self, code: int, drop: bool = False) -> None:
        """End the connection once the queue is empty, or at once with what is in it dropped."""
        if self.ending is None:
            self.ending = code
        if drop:
            self.hub.part(self)
            self.queue.clear()
            self.late.clear()
        self.stir()

    def abort(self) -> None:
        """Give the connection up: its peer takes nothing."""
        self._aborted = True
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Carry the streams until the connection ends from either side."""
        self._task = asyncio.current_task()
        listener = asyncio.create_task(self.listen())
        listener.add_done_callback(self._on_lost)
        try:
            await self._serve()
            if not self.lost:
                await self.send_end(self.ending or GOING_AWAY)
        except OSError:
            self.lost = True
        except asyncio.CancelledError:
            if not self._aborted:
                raise
        finally:
            self._task = None
            self.hub.part(self)
            listener.cancel()
        if listener.done() and not listener.cancelled():
            listener.result()

    def _on_lost(self, listener: asyncio.Task[None]) -> None:
        self.lost = True
        self.end(GOING_AWAY, drop=True)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self.queue:
                await self.send_queue()
            elif self.ending is not None:
                return
            elif self.late:
                await self.hub.catch_up(self)
            elif self.heartbeat_due:
                self.heartbeat_due = False
                await self.send_heartbeat()
            else:
                self.waiter = loop.create_future()
                await self.waiter
