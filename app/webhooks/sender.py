"""One webhook: its queue of events, which a task of its own sends to the receiver, in order, each until it is taken.

It is a connection of the hub like a socket of a client. What differs: events leave the queue when the receiver has
taken them, and how far it is can be stored (`Sender.progress`). A subscription for which too much waits gets its
whole list again, once there is room, as that of any slow reader does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, Protocol

from app.errors import NotFound, ServiceError
from app.runtime import logs, tracing
from app.runtime.metrics import Metrics
from app.storage.webhooks import OutboxRow, PositionRow, Progress, Stage, WebhookRow
from app.streaming.buffer import GONE, Form, Message, message
from app.streaming.connection import Connection, Reader
from app.streaming.hub import Hub
from app.webhooks.receivers import Outcome, Receiver, Receivers
from app.webhooks.signing import event_id, message_id, signature, test_id

FIRST_PAUSE, LONGEST_PAUSE, JITTER = 1.0, 3_600.0, 0.1
"""Seconds until a request is repeated: doubling from the first to the longest, give or take this share."""

DISABLE_AFTER = 3 * 86_400.0
"""Seconds of failures after which a webhook is disabled."""

LARGEST_BODY = 1 << 20
"""Bytes of events from which on no more are added to a request."""

OVERHEAD = 250
"""Bytes of memory of an event that waits, besides its text."""

ATTACH_AGAIN = 1.0
"""Seconds until a subscription that cannot be followed now is tried again."""

UNSEALED = "its secret is sealed by another key than RANKCAST_SEAL_KEY"

GONE_FOR_GOOD = 410

log = logs.get("webhooks")


class Entry(NamedTuple):
    """An event that waits, by its number."""

    n: int
    reader: Followed
    item: Message


class Shared(Protocol):
    """What all webhooks of a service share."""

    hub: Hub
    receivers: Receivers
    metrics: Metrics
    requests: asyncio.Semaphore
    queue: int
    bytes: int

    def form(self, resource: str, /) -> Form: ...
    def last_seq(self, resource: str, /) -> int:
        """The last seq of a resource, also of a deleted one."""


class Followed(Reader):
    """One subscription of a webhook. Messages up to the seq `after` were made before, and are passed over.

    `begun` says that it has had its first event; `ended` that the last one is in the queue, and `again` that it is
    wanted from the start once that was taken. `since` is the seq that it had when it was last stored as live.
    """

    __slots__ = ("after", "again", "begun", "ended", "id", "since")
    connection: Sender

    def __init__(self, sender: Sender, id: str) -> None:
        super().__init__(sender)
        self.id = id
        self.after = -1
        self.since = -1
        self.begun = self.ended = self.again = False

    def push(self, item: Message) -> None:
        if item.seq <= self.after or self.void:
            return
        if self.waiting >= self.room or self.connection.full:
            self.fall_behind()
        else:
            self.connection.append(self, item)
        self.connection.wake()

    def begin(self, items: Iterable[Message]) -> None:
        super().begin(items)
        self.begun = True
        self.connection.changed(self)

    def finish(self, item: Message) -> None:
        self.ended = True
        super().finish(item)

    @property
    def stage(self) -> Stage:
        """How far it is."""
        if self.ended:
            return "new" if self.again else "gone"
        if not self.begun:
            return "new"
        return "lost" if self.channel is None or self.void else "live"


class Sender(Connection):
    """A webhook that follows its subscriptions and sends their events.

    `secret` is None where it cannot be opened. `row` is what is stored of it, as it is now.
    """

    hub: Hub
    transport = "webhook"
    lasting = True

    def __init__(self, shared: Shared, row: WebhookRow, secret: str | None) -> None:
        super().__init__(shared.hub, shared.queue, shared.bytes)
        self.row = row
        self.followed: dict[str, Followed] = {}
        self.dirty = False
        self._shared = shared
        self._secret = secret
        self._receiver = Receiver(shared.receivers, row.url)
        self._entries: deque[Entry] = deque()
        self._batch: list[Entry] = []
        self._sending = row.sending
        self._n = self._stored_n = self._taken = 0
        self._void_ns: list[int] = []
        self._changed: dict[str, None] = {}
        self._left: list[str] = []
        self._causes: list[Any] = []
        self._now = asyncio.Event()
        self._attach_at = 0.0
        self._unattached = ""
        self._as_list = False
        self._before: tuple[int, dict[str, None]] = (0, {})
        self._run_task: asyncio.Task[None] | None = None

    # --- what waits -----------------------------------------------------------------------------------------------

    def load(self, positions: Iterable[PositionRow], waiting: Sequence[OutboxRow], history: str) -> None:
        """Take over what was stored. Positions of another `history` mean nothing in this one."""
        ours = self.row.history == history
        for position in positions:
            reader = self.follow(position.id)
            reader.begun = position.stage != "new"
            if ours and position.stage == "live":
                reader.since = position.seq
            elif ours and position.stage == "gone":
                reader.ended = True
        for row in waiting:
            known = self.followed.get(row.id)
            if known is None or not ours:
                self._void_ns.append(row.n)
            else:
                self._add(Entry(row.n, known, Message(row.seq, row.event, row.block)))
        self._n = self._stored_n = max((row.n for row in waiting), default=0)
        self.row = self.row._replace(history=history, seq=self.row.seq if ours else -1)
        waits = {entry.reader for entry in self._entries}
        for reader in self.followed.values():
            # Its last event was taken, and that was not stored.
            reader.ended = reader.ended and reader in waits

    def follow(self, id: str) -> Followed:
        """Add a subscription."""
        reader = self.followed[id] = Followed(self, id)
        return reader

    def position_of(self, reader: Followed) -> int:
        """The seq up to which a subscription had every event when that was stored; -1 where it has to begin again."""
        return -1 if reader.since < 0 else max(reader.since, self.row.seq)

    def readers(self) -> Iterable[Reader]:
        return [reader for reader in self.followed.values() if reader.channel is not None]

    def append(self, reader: Reader, item: Message) -> None:
        assert isinstance(reader, Followed)
        if tracing.tracer is not None:
            tracing.tracer.cause(self._causes)
        self._n += 1
        self._add(Entry(self._n, reader, item))
        if item.event == GONE:
            self.changed(reader)
        self.dirty = True

    def _add(self, entry: Entry) -> None:
        size = _size(entry)
        self._entries.append(entry)
        entry.reader.waiting += 1
        entry.reader.nbytes += size
        self.nbytes += size

    def _remove(self, entry: Entry) -> None:
        size = _size(entry)
        entry.reader.waiting -= 1
        entry.reader.nbytes -= size
        self.nbytes -= size
        if not entry.reader.waiting:
            entry.reader.room = self.limit

    def discard(self, reader: Reader) -> None:
        """Drop what a subscription has in the queue, but that it is gone. O(queue)."""
        if reader.void or not isinstance(reader, Followed):
            return
        reader.void = True
        self.changed(reader)
        if reader.waiting:
            kept: deque[Entry] = deque()
            for entry in self._entries:
                if entry.reader is reader and entry.item.event != GONE:
                    self._remove(entry)
                    self._void_ns += [entry.n] if entry.n <= self._stored_n else []
                else:
                    kept.append(entry)
            self._entries = kept

    def _drop(self, reader: Followed) -> None:
        """Follow a subscription no longer, and forget what it has in the queue."""
        self.hub.close_stream(reader)
        self.discard(reader)
        for entry in [entry for entry in self._entries if entry.reader is reader]:
            self._entries.remove(entry)
            self._remove(entry)

    @property
    def full(self) -> bool:
        return self.nbytes > self.most

    @property
    def waiting(self) -> int:
        """Events that the receiver has not taken."""
        return len(self._batch) + len(self._entries)

    def changed(self, reader: Followed) -> None:
        """Note that how far a subscription is has changed."""
        self._changed[reader.id] = None
        self.dirty = True

    # --- how far it is ----------------------------------------------------------------------------------------------

    def progress(self, whole: bool = False) -> Progress | None:
        """What to store, None where nothing has changed; with `whole` also where no event was made or taken.

        The caller stores it, and calls `stored` or `not_stored` before this is called again.
        """
        live = next((reader for reader in self.followed.values() if reader.stage == "live"), None)
        seq = self.row.seq if live is None else self.hub.followed_seq(self.row.resource)
        if not self.dirty and not (whole and seq != self.row.seq):
            return None
        self.row = self.row._replace(seq=self.row.seq if seq is None else seq, sending=len(self._batch))
        positions = []
        for id in self._changed:
            reader = self.followed.get(id)
            if reader is not None:
                at = self.hub.position(reader) if reader.stage == "live" else None
                positions.append(PositionRow(self.row.name, id, reader.stage, -1 if at is None else at))
        added = []
        for entries in (self._entries, self._batch):
            for entry in reversed(entries):
                if entry.n <= self._stored_n:
                    break
                item = entry.item
                added.append(OutboxRow(self.row.name, entry.n, entry.reader.id, item.seq, item.event, item.block))
        found = Progress(self.row, positions, self._left, self._taken, self._void_ns, added[::-1])
        self._before = (self._stored_n, self._changed)
        self._stored_n, self._void_ns, self._changed, self._left, self.dirty = self._n, [], {}, [], False
        return found

    def not_stored(self, progress: Progress) -> None:
        """Try all of it again with the next."""
        self._stored_n, changed = self._before
        self._changed = {**changed, **self._changed}
        self._void_ns = [*progress.void, *self._void_ns]
        self._left = [*progress.left, *self._left]
        self.dirty = True

    # --- sending ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to send."""
        self._run_task = asyncio.create_task(self._send_all())

    async def stop(self) -> None:
        """Send nothing more; a request that is under way is cut off, and repeated at the next start."""
        task, self._run_task = self._run_task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with suppress(Exception):
            await self._receiver.close()

    async def change(self, row: WebhookRow, ids: Sequence[str]) -> None:
        """Follow these subscriptions from now on, and send to the URL of the row."""
        before, self.row = self.row, self.row._replace(url=row.url, batch=row.batch)
        for id in [id for id in self.followed if id not in ids]:
            self._drop(self.followed.pop(id))
        for id in ids:
            known = self.followed.get(id)
            if known is None:
                self.changed(self.follow(id))
            elif known.ended:
                known.again = True
        if row.url != before.url:
            receiver, self._receiver = self._receiver, Receiver(self._shared.receivers, row.url)
            await receiver.close()
            self._now.set()
        self._attach_at = 0.0
        self.wake()

    def enabled(self) -> WebhookRow:
        """The row once it is enabled."""
        return self.row._replace(state="active", failures=0, failing_since=None, sending=0)

    def enable(self) -> None:
        """Start again, at once."""
        self.row = self.enabled()
        self.dirty = True
        self._attach_at = 0.0
        self._now.set()
        self.wake()

    async def test(self) -> Outcome:
        """Send a test, once, whatever the state."""
        return await self._post(test_id(), b'{"event":"test","webhook":"%s"}' % self.row.name.encode())

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                if self.row.state != "disabled":
                    await self._attach()
                    if self.late and self.nbytes <= self.most // 2:
                        await self.hub.catch_up(self)
                    if self._batch or self._entries:
                        await self.send_queue()
                        continue
                    self.begun = 0
                    if self.late:
                        continue
                self.waiter = loop.create_future()
                pause = self._attach_at - loop.time()
                timer = loop.call_later(pause, self.wake) if self._attach_at and pause > 0 else None
                try:
                    await self.waiter
                finally:
                    if timer is not None:
                        timer.cancel()
            except Exception:
                # Events stay in the queue; none may be lost because of one.
                log.exception("a webhook failed", webhook=self.row.name)
                void = [reader for reader in self.followed.values() if reader.void and reader.channel is not None]
                self.late += [reader for reader in void if reader not in self.late]
                await asyncio.sleep(ATTACH_AGAIN)

    async def _attach(self) -> None:
        """Follow the subscriptions that are not followed yet, as long as there is room for what they begin with."""
        loop = asyncio.get_running_loop()
        if self._attach_at > loop.time():
            return
        self._attach_at = 0.0
        for reader in list(self.followed.values()):
            if reader.channel is not None or reader.ended or self.followed.get(reader.id) is not reader:
                continue
            if self.nbytes > self.most:
                return
            resource, after = self.row.resource, "" if reader.begun else None
            reader.void = False
            try:
                await self.hub.open_stream(reader, resource, reader.id, self._shared.form(resource), after)
            except NotFound:
                reader.void = False
                seq = self._shared.last_seq(resource)
                reader.finish(message(self.hub.epoch, seq, GONE, f'{{"seq":{seq}}}'))
            except ServiceError as error:
                if error.detail != self._unattached:
                    self._unattached = error.detail
                    log.warning("a subscription is not followed yet", webhook=self.row.name, why=error.detail)
                self._attach_at = loop.time() + ATTACH_AGAIN
                return
            if self.followed.get(reader.id) is not reader:
                # It was left out meanwhile.
                self._drop(reader)

    async def send_queue(self) -> None:
        """Send the first events until they are taken, or the webhook is disabled."""
        if not self._batch:
            self._take_batch()
        while self._batch:
            self._now.clear()
            ids = [self._id_of(entry) for entry in self._batch]
            outcome = await self._post(message_id(ids), self._body())
            if outcome.error is None:
                self._took(outcome)
                return
            self._failed(outcome)
            if self.row.state == "disabled":
                return
            await self._pause()

    def _take_batch(self) -> None:
        most = self._sending or self.row.batch
        self._as_list = self.row.batch > 1 or most > 1
        self._sending = 0
        size = 0
        while self._entries and len(self._batch) < most and (size < LARGEST_BODY or not self._batch):
            entry = self._entries.popleft()
            self._remove(entry)
            self._batch.append(entry)
            size += len(entry.item.block)

    def _id_of(self, entry: Entry) -> str:
        row, item = self.row, entry.item
        cursor = item.block[4 : item.block.index(b"\n")].decode()
        return event_id(row.made, row.resource, entry.reader.id, cursor, item.event)

    def _body(self) -> bytes:
        prefix = f'{{"resource":"{self.row.resource}","id":"'
        events = [f'{prefix}{entry.reader.id}",'.encode() + entry.item.rest for entry in self._batch]
        return b"[%b]" % b",".join(events) if self._as_list else events[0]

    async def _post(self, id: str, body: bytes) -> Outcome:
        if self._secret is None:
            return Outcome(None, UNSEALED)
        shared, tracer = self._shared, tracing.tracer
        causes, self._causes = self._causes, []
        async with shared.requests:
            timestamp = int(time.time())
            headers = {
                "webhook-id": id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(self._secret, id, timestamp, body),
            }
            with nullcontext() if tracer is None else tracer.webhook(self.row.resource, self.row.name, causes):
                if tracer is not None:
                    tracer.inject(headers)
                with shared.metrics.webhook_seconds.time():
                    outcome = await self._receiver.send(body, headers)
        shared.metrics.webhook_requests.labels("taken" if outcome.error is None else "failed").inc()
        return outcome

    def _took(self, outcome: Outcome) -> None:
        batch, self._batch = self._batch, []
        self._taken = batch[-1].n
        for entry in batch:
            reader = entry.reader
            if reader.ended and entry.item.event == GONE and self.followed.get(reader.id) is reader:
                del self.followed[reader.id]
                if reader.again:
                    self.changed(self.follow(reader.id))
                else:
                    self._left.append(reader.id)
        self._shared.metrics.webhook_events.inc(len(batch))
        if self.row.failures:
            log.info("webhook delivers again", webhook=self.row.name, failures=self.row.failures)
        self.row = self.row._replace(
            state="active",
            failures=0,
            failing_since=None,
            last_status=outcome.status,
            last_error=None,
            delivered=self.row.delivered + len(batch),
        )
        self.dirty = True

    def _failed(self, outcome: Outcome) -> None:
        now = time.time()
        since = self.row.failing_since or now
        row = self.row._replace(
            state="failing",
            failures=self.row.failures + 1,
            failing_since=since,
            last_status=outcome.status,
            last_error=outcome.error,
        )
        if not self.row.failures:
            log.warning("webhook fails", webhook=row.name, why=outcome.error)
        self.row = row
        self.dirty = True
        if outcome.status == GONE_FOR_GOOD or now - since >= DISABLE_AFTER:
            self._disable()

    def _disable(self) -> None:
        """Follow nothing and keep nothing but which subscriptions are gone, until it is enabled."""
        log.warning("webhook disabled", webhook=self.row.name, why=self.row.last_error)
        self.row = self.row._replace(state="disabled")
        batch, self._batch = self._batch, []
        for entry in reversed(batch):
            if entry.item.event == GONE:
                self._entries.appendleft(entry)
                entry.reader.waiting += 1
                entry.reader.nbytes += _size(entry)
                self.nbytes += _size(entry)
            elif entry.n <= self._stored_n:
                self._void_ns.append(entry.n)
        for reader in self.followed.values():
            self.hub.close_stream(reader)
            self.discard(reader)
            self.changed(reader)
        self.late.clear()

    async def _pause(self) -> None:
        """Wait until the request is to be repeated, or the webhook is enabled or changed."""
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.row.failures - 1, 20))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds * random.uniform(1 - JITTER, 1 + JITTER)):
                await self._now.wait()

    # --- what only connections of clients have --------------------------------------------------------------------

    async def listen(self) -> None:
        """Receivers say nothing but their answers."""

    async def send_heartbeat(self) -> None:
        """A receiver needs no sign of life."""

    async def send_end(self, code: int) -> None:
        """A receiver has no connection that could end."""

    def on_finish(self, reader: Reader) -> None:
        """The subscription leaves once the receiver has taken its last event."""


def _size(entry: Entry) -> int:
    return OVERHEAD + len(entry.item.block)
