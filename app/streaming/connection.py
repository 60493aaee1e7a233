"""Bounded queues between changes and the connections that carry them.

A `Reader` is one stream: one subscription in one form on one connection. A `Connection` has one queue for all its
readers, and a task that empties it, so that a slow connection delays no other. A reader with too many messages in the
queue, or on a connection with too many bytes, falls behind: its queued messages are dropped, and once the queue is
empty it gets its whole list again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import ClassVar, Protocol

from app.streaming.buffer import CHANGE, GONE, LONGER, READY, Bundle, Channel, Conflation, Message, change_of
from app.streaming.outlet import WAITS
from app.streaming.protocols import Conflating

WAKE_AT_ONCE = 128
FEW = 64

MOST_QUEUED = 1 << 20
"""Most bytes in a connection's queue, by default."""

PIECE = 1 << 18
"""Most bytes of messages in one write."""

GOING_AWAY = 1001
POLICY = 1008

Waking = tuple["Connection", "asyncio.Future[None]", "Reader | None", bytes, bytes]
"""A connection to wake, and the future that its task awaits. For a direct write also the reader of the change, its text
as it is kept, and the bytes to write; otherwise these are None and empty.
"""

_numbers = count(1)
"""The numbers of connections."""


class Pump:
    """Wakes connections a few a turn of the event loop, so that a change for thousands of them delays nothing else."""

    def __init__(self) -> None:
        self._asleep: deque[Waking] = deque()
        self._running = False

    def wake(self, connection: Connection, waiter: asyncio.Future[None]) -> None:
        """Wake a connection, whose task awaits `waiter`, in one of the next turns. O(1)."""
        self._asleep.append((connection, waiter, None, b"", b""))
        if not self._running:
            self._run_soon()

    def write_direct(self, readers: Iterable[Reader], texts: Iterable[bytes], pieces: Iterable[bytes]) -> None:
        """Push one change each to readers that are neither void nor conflated. `texts` are the changes as kept,
        `pieces` as their connections write them. O(changes).

        On an idle connection the piece bypasses the queue, and is written in one of the next turns. It is queued only
        if anything else happens to the connection first, or if it cannot be written without waiting.
        """
        add = self._asleep.append
        for reader, text, piece in zip(readers, texts, pieces, strict=True):
            connection = reader.connection
            waiter = connection.waiter
            if waiter is None:
                reader.push(change_of(text))
            else:
                connection.waiter = None
                connection.direct = waking = (connection, waiter, reader, text, piece)
                add(waking)
        if self._asleep and not self._running:
            self._run_soon()

    def _run_soon(self) -> None:
        _, waiter, _, _, _ = self._asleep[0]
        self._running = True
        waiter.get_loop().call_soon(self._run)

    def _run(self) -> None:
        asleep = self._asleep
        take = asleep.popleft
        for _ in range(min(WAKE_AT_ONCE, len(asleep))):
            waking = connection, waiter, _, _, piece = take()
            if connection.direct is waking and connection.outlet.open:
                connection.direct = None
                try:
                    connection.outlet.write(piece)
                except Exception as error:
                    # Its task may have been cancelled meanwhile; the others are woken in any case.
                    if not waiter.done():
                        waiter.set_exception(error)
                else:
                    connection.waiter = waiter
            elif not waiter.done():
                connection.go_on(waiter)
        self._running = False
        if asleep:
            self._run_soon()


class Reader:
    """One stream. `waiting` counts its messages in the connection's queue, at most `room`, and `nbytes` their bytes.

    `void`: these are dropped, and so are new ones. `channel` is None before the stream is open and after it has ended.
    `prefix` begins its messages on a connection with several streams; `packed`: they are sent as MessagePack.
    `wants_ready`: a `ready` was requested and has not been sent. With `conflation` seconds it gets at most one change
    per interval.
    """

    __slots__ = (
        "channel",
        "conflation",
        "connection",
        "nbytes",
        "packed",
        "prefix",
        "room",
        "void",
        "waiting",
        "wants_ready",
    )

    def __init__(
        self, connection: Connection, prefix: bytes = b"{", wants_ready: bool = False, conflation: float | None = None
    ) -> None:
        self.connection = connection
        self.prefix = prefix
        self.packed = False
        self.wants_ready = wants_ready
        self.conflation = None if conflation is None else Conflation(conflation)
        self.channel: Channel | None = None
        self.room = connection.limit
        self.waiting = 0
        self.nbytes = 0
        self.void = False

    @property
    def blocks(self) -> bool:
        """Whether it is sent messages as SSE blocks."""
        return self.connection.blocks

    def push(self, item: Message) -> None:
        """Queue a message, or fall behind. O(1), amortised over what becomes void."""
        if self.void:
            return
        connection = self.connection
        if self.conflation is not None and item.event == CHANGE:
            connection.hub.conflator.hold(self, self.conflation, item.seq)
            return
        if connection.direct is not None:
            connection.requeue_direct()
        if connection.depth and self.waiting + connection.depth >= self.room:
            connection.split_bundles()
        if self.waiting >= self.room or connection.nbytes > connection.most + connection.begun:
            self.fall_behind()
        else:
            # `Connection.append` and `full` inlined: the calls would take as long as the rest.
            size = item.size
            self.waiting += 1
            self.nbytes += size
            connection.nbytes += size
            connection.queue.append((self, item))
        if connection.waiter is not None:
            connection.wake()

    def set_void(self, void: bool) -> None:
        """Drop queued and new messages (`void`), or take new ones again."""
        self.void = void
        if self.channel is not None:
            self.channel.find_lone()

    def fall_behind(self) -> None:
        """Drop what is queued, and get the whole list again once the queue is empty."""
        self.connection.discard(self)
        self.connection.late.append(self)

    def push_conflated(self, item: Message) -> None:
        """Queue the net of the changes held back. O(1)."""
        self.connection.append(self, item)
        self.connection.wake()

    def begin(self, items: Iterable[Message]) -> None:
        """Queue the first messages of the stream, or of its catch-up, whatever their size."""
        self.set_void(False)
        connection = self.connection
        connection.requeue_direct()
        if self.channel is not None:
            # Split, so that its own messages are counted.
            connection.split_bundles()
            connection.extended = True
        before = self.nbytes
        for item in items:
            connection.append(self, item)
        connection.begun += self.nbytes - before
        self.room = connection.limit + self.waiting
        connection.wake()

    def finish(self, item: Message) -> None:
        """Queue the stream's last message, whatever the limits."""
        self.channel = None
        self.connection.append(self, item)
        self.connection.on_finish(self)
        self.connection.wake()


class OpenConnections(Protocol):
    """What a connection needs of `app.streaming.connections.Connections`."""

    def remove(self, connection: Connection, /) -> None: ...


class ConnectionHub(Protocol):
    """What a connection needs of `app.streaming.hub.Hub`."""

    pump: Pump

    @property
    def conflator(self) -> Conflating: ...
    @property
    def connections(self) -> OpenConnections: ...
    async def catch_up(self, connection: Connection, /) -> None: ...


class Connection(ABC):
    """One connection and its queue. `keys` are the ids of the callers that opened it.

    `run` is its task: it empties the queue, has the hub queue the lists of readers that fell behind, sends a heartbeat
    when one is due and the queue is empty, and returns when the connection ends.

    A `lasting` one belongs to the service: it does not end with those of clients, and has no heartbeats. With `blocks`
    messages are sent as SSE blocks. With `bundles` the queue may have bundles, as entries of the reader `several`.
    """

    # Some connections have more attributes than Python keeps where they are found fastest.
    __slots__ = (
        "_aborted",
        "_task",
        "_void",
        "_void_bytes",
        "begun",
        "depth",
        "direct",
        "ending",
        "extended",
        "heartbeat_due",
        "hub",
        "keys",
        "late",
        "limit",
        "lost",
        "most",
        "nbytes",
        "number",
        "outlet",
        "queue",
        "several",
        "timers",
        "waiter",
    )
    transport: str
    blocks: ClassVar[bool] = False
    bundles: ClassVar[bool] = False
    lasting: ClassVar[bool] = False

    def __init__(self, hub: ConnectionHub, limit: int, most: int = MOST_QUEUED) -> None:
        self.hub = hub
        self.number = next(_numbers)
        """Unique in this process; above 0."""
        self.limit = limit
        self.most = most
        """Bytes in the queue from which on slow readers fall behind, besides `begun`."""
        self.nbytes = 0
        """Bytes in the queue."""
        self.begun = 0
        """Bytes of first messages of streams since the queue was last empty: they count toward no limit."""
        self.keys: set[str] = set()
        self.timers: list[asyncio.TimerHandle] = []
        """When the callers expire."""
        self.queue: deque[tuple[Reader, Message]] = deque()
        self.several = Reader(self) if self.bundles else None
        """The reader of the bundles in the queue; the readers in a bundle do not count its messages as `waiting`."""
        self.depth = 0
        """The most messages that the bundles in the queue may have for one reader."""
        self.extended = False
        """Whether a stream began since the queue was last empty: its reader may have more than `limit` messages."""
        self.late: list[Reader] = []
        self.outlet = WAITS
        """Writes to it without waiting."""
        self.direct: Waking | None = None
        """A pending direct write: see `Pump.write_direct`. None while the task works."""
        self.waiter: asyncio.Future[None] | None = None
        self.heartbeat_due = False
        self.ending: int | None = None
        self.lost = False
        self._void = 0
        self._void_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._aborted = False

    @abstractmethod
    def readers(self) -> Iterable[Reader]:
        """The streams that are open here."""

    @abstractmethod
    async def listen(self) -> None:
        """Receive from the peer until it disconnects."""

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
        """The last message of a stream has been queued."""

    def send_now(self) -> None:  # noqa: B027 - not all can
        """Send what is in the queue, all or some of it, if that can be done without waiting."""

    def beat_now(self) -> None:  # noqa: B027 - not all can
        """Send the heartbeat that is due if that can be done without waiting; it is not due any more then."""

    def go_on(self, waiter: asyncio.Future[None]) -> None:
        """Send messages and a due heartbeat here, if that needs no waiting, which saves to run the task; wake the task,
        which awaits `waiter`, for anything else.
        """
        self.requeue_direct()
        if (self.queue or self.heartbeat_due) and not self.late and self.ending is None:
            try:
                if self.queue:
                    self.send_now()
                if self.heartbeat_due and not self.queue:
                    self.beat_now()
            except Exception as error:
                waiter.set_exception(error)
                return
            if not self.queue and not self.heartbeat_due:
                self.waiter = waiter
                return
        waiter.set_result(None)

    def take_some(self, most: int) -> list[tuple[Reader, Message]]:
        """The next messages to send, until they have so many bytes. O(messages), amortised over what is void."""
        if not self._void and self.nbytes < most:
            return self._take_all()
        queue, limit, size, found = self.queue, self.limit, 0, []
        while queue and size < most:
            entry = reader, item = queue.popleft()
            if isinstance(item, Bundle):
                item, behind = item.cut(most - size)
                entry = reader, item
                if behind is not None:
                    queue.appendleft((reader, behind))
                    reader.waiting += 1
            nbytes = item.size
            waiting = reader.waiting = reader.waiting - 1
            reader.nbytes -= nbytes
            self.nbytes -= nbytes
            if not waiting:
                reader.room = limit
            if not reader.void or item.event == GONE:
                if item.event == READY:
                    reader.wants_ready = False
                size += nbytes
                found.append(entry)
            else:
                self._void -= 1
                self._void_bytes -= nbytes
        if not queue:
            self.begun = self._void = self._void_bytes = self.depth = 0
            self.extended = False
        return found

    def _take_all(self) -> list[tuple[Reader, Message]]:
        """All messages, none of which is void."""
        limit, found = self.limit, list(self.queue)
        self.queue.clear()
        for reader, item in found:
            reader.waiting = reader.nbytes = 0
            reader.room = limit
            if item.event == READY:
                reader.wants_ready = False
        self.nbytes = self.begun = self.depth = 0
        self.extended = False
        return found

    def take_one(self) -> Message | None:
        """The message in the queue if there is exactly one; otherwise None, and nothing is taken."""
        if len(self.queue) != 1 or self._void:
            return None
        reader, item = self.queue.popleft()
        reader.waiting = reader.nbytes = self.nbytes = self.begun = 0
        reader.room = self.limit
        if item.event == READY:
            reader.wants_ready = False
        return item

    def append(self, reader: Reader, item: Message) -> None:
        """Queue a message. O(1)."""
        if self.direct is not None:
            self.requeue_direct()
        size = item.size
        reader.waiting += 1
        reader.nbytes += size
        self.nbytes += size
        self.queue.append((reader, item))

    def push_all(self, readers: list[Reader], texts: list[bytes], frames: bytes | None = None) -> None:
        """Push one change each to readers that are neither void nor conflated; `texts` are as on a WebSocket. Where no
        limit is near, they are queued as one bundle, with its `frames`.
        """
        self.requeue_direct()
        n, several = len(texts), self.several
        nbytes = sum(map(len, texts)) + n * LONGER
        depth = 1 if len(set(readers)) == n else n
        fits = len(self.queue) + self.depth + depth <= self.limit and self.nbytes + nbytes <= self.most + self.begun
        # The room of a reader shrinks when none of its messages waits, which is not known of those in bundles.
        if several is None or n == 1 or not fits or self.extended:
            for reader, text in zip(readers, texts, strict=True):
                reader.push(change_of(text))
            return
        self.depth += depth
        self.append(several, Bundle(readers, texts, nbytes, frames))
        self.wake()

    def requeue_direct(self) -> None:
        """Queue a pending direct write. O(1)."""
        direct, self.direct = self.direct, None
        if direct is not None:
            _, _, reader, text, _ = direct
            assert reader is not None, "there is a change in it"
            self.append(reader, change_of(text))

    def split_bundles(self) -> None:
        """Split the bundles in the queue into single messages. O(messages)."""
        several, entries = self.several, self.queue
        if several is None or not self.depth:
            return
        self.depth = several.waiting = several.nbytes = 0
        self.nbytes = 0
        self.queue = deque()
        for reader, item in entries:
            if isinstance(item, Bundle):
                for one, message in item.messages():
                    self.append(one, message)
            else:
                self.nbytes += item.size
                self.queue.append((reader, item))

    @property
    def full(self) -> bool:
        """Whether the queue has so many bytes that readers with a new message fall behind."""
        return self.nbytes > self.most + self.begun

    def discard(self, reader: Reader) -> None:
        """Drop the queued messages of a reader. O(1) amortised."""
        if reader.void:
            return
        self.requeue_direct()
        self.split_bundles()
        reader.set_void(True)
        self._void += reader.waiting
        self._void_bytes += reader.nbytes
        many = self._void >= FEW and self._void * 2 > len(self.queue)
        if many or (self._void_bytes >= PIECE and self._void_bytes * 2 > self.nbytes):
            kept: deque[tuple[Reader, Message]] = deque()
            for entry in self.queue:
                behind, item = entry
                if behind.void and item.event != GONE:
                    behind.waiting -= 1
                    behind.nbytes -= item.size
                    self.nbytes -= item.size
                else:
                    kept.append(entry)
            self.queue = kept
            self._void = self._void_bytes = 0

    def wake(self) -> None:
        """Wake the connection's task if it has nothing to do."""
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            self.hub.pump.wake(self, waiter)
        elif self.direct is not None:
            # The direct write comes before the new work.
            self.requeue_direct()

    def end(self, code: int, drop: bool = False) -> None:
        """End the connection once the queue is empty, or at once with what is in it dropped."""
        if self.ending is None:
            self.ending = code
        if drop:
            self.hub.connections.remove(self)
            self.direct = None
            self.queue.clear()
            self.late.clear()
            self.nbytes = self._void_bytes = self.depth = 0
        self.wake()

    def abort(self) -> None:
        """End the connection without sending more: its peer reads nothing."""
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
            self.hub.connections.remove(self)
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
