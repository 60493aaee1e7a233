"""The queue of messages to the neighbour behind a link. `inbox.py` is the other end of the protocol between two relays.

**Guarantees.** The neighbour learns, in an order without gaps, of every subscription that is to be forwarded to it, and
once of every notification that was accepted here and meets one of its subscriptions, whatever is lost, repeated or late
in between, and however long the link is down:

- A message stays until the neighbour has acknowledged it, and the queue is part of the state: it survives restarts.
- Of subscriptions that begin and end while the link is down only the last state matters. When more than `HISTORY` such
  messages wait, and more than twice as many as subscriptions are forwarded, they are dropped and the queue is *stale*:
  before anything is sent it begins a new epoch (`restarted`) with a `reset` and all that is forwarded by then. So the
  room for subscriptions is bounded by `HISTORY` and by what is forwarded.
- Notifications are never dropped. They are refused where they are made: when `FULL` of them, or `FULL_BYTES` of
  payloads, wait for a link, the relay accepts none that could go there, from clients or from other neighbours (which
  wait, and refuse in turn), until the link is up again or is removed. A queue that is not emptied stops its sources
  and loses nothing.

**Exactly once.** Within an epoch messages are numbered without gaps, and known numbers are ignored. The mark of a
notification (`Message.mark`) stays with it when it moves into another epoch; they keep their order, so a receiver only
keeps how far it was in each of the last `EPOCHS` epochs. The queue of a service that was restored from a backup begins
a new epoch before anything is accepted: what was in it is ignored where it had been sent since.

**No gap.** A `reset` removes nothing by itself. Subscriptions from before it stay, and meet notifications, until all
that is forwarded has been sent again; only then do those that were not repeated end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.core.arrays import Bytes, Floats, Ints
from indexes.relays.config import TRAVELLED, Message, Op, shown
from indexes.relays.kernels.forward import SUBSCRIBE
from indexes.relays.kernels.points import as_boxes
from indexes.relays.relay import Outgoing

HISTORY = 1_000_000
"""Messages about subscriptions that may wait for a link, however few are forwarded."""

FULL = 1_000_000
"""Notifications that may wait for a link."""

FULL_BYTES = 1 << 30
"""Bytes of payloads that may wait for a link."""

EPOCHS = 16
"""Past epochs of a neighbour that are remembered."""

CHUNK = 1024
"""Messages that are kept one by one before they are put into columns."""

OPS: tuple[Op, ...] = ("subscribe", "unsubscribe", "notify", "reset")
"""What a message does, by number; the first two are those of steps."""

NOTIFY, RESET = 2, 3

UNNAMED = ""
"""In marks, the first epoch of a queue before it has a name."""


class Row(NamedTuple):
    """A message in a queue, without its number. `values` are the point of a box, or of a notification."""

    op: int
    key: str = ""
    values: tuple[float, ...] = ()
    payload: bytes | None = None
    mark: tuple[str, int] | None = None
    follow: int = 0


class Chunk(NamedTuple):
    """Messages by column: `values` are 2d wide, of which a notification uses d. Its mark is in the
    two columns, null for all else."""

    op: Bytes
    key: pa.LargeStringArray
    values: Floats
    payload: pa.LargeBinaryArray
    mark_epoch: pa.LargeStringArray
    mark: Ints
    follow: Ints

    @property
    def size(self) -> int:
        """Number of messages."""
        return len(self.op)

    def part(self, begin: int, end: int) -> Chunk:
        """The messages from one place to another."""
        return self._replace(**{name: column[begin:end] for name, column in self._asdict().items()})

    @property
    def notifications(self) -> int:
        """Number of notifications."""
        return int(np.count_nonzero(self.op == NOTIFY))

    @property
    def bytes(self) -> int:
        """Bytes of their payloads."""
        return pc.sum(pc.binary_length(self.payload)).as_py() or 0

    def notified(self) -> Chunk:
        """Those that are notifications; all of them without a copy where there are no others."""
        if self.notifications == self.size:
            return self
        mine = self.op == NOTIFY
        mask = pa.array(mine)
        return Chunk(*[c.filter(mask) if isinstance(c, pa.Array) else c[mine] for c in self])

    def marked(self, epoch: str, first: int) -> Chunk:
        """As notifications of an epoch, counted from a number on."""
        epochs = pa.repeat(pa.scalar(epoch, pa.large_string()), self.size)
        return self._replace(mark_epoch=epochs, mark=np.arange(first, first + self.size, dtype=np.int64))

    def rows(self) -> Iterator[Row]:
        """The messages one by one."""
        coordinates = self.values.shape[1]
        columns = (self.key, self.payload, self.mark_epoch)
        texts = [column.to_pylist() for column in columns]
        numbers = [column.tolist() for column in (self.op, self.values, self.mark, self.follow)]
        for op, values, mark, follow, key, payload, epoch in zip(*numbers, *texts, strict=True):
            size = coordinates if op == SUBSCRIBE else coordinates // 2 if op == NOTIFY else 0
            yield Row(op, key, tuple(values[:size]), payload, None if epoch is None else (epoch, mark), follow)


def chunk_of(rows: Sequence[Row], coordinates: int) -> Chunk:
    """Messages as columns."""
    n = len(rows)
    values = np.zeros((n, coordinates))
    for i, row in enumerate(rows):
        values[i, : len(row.values)] = row.values
    marks: list[tuple[str | None, int]] = [(None, 0) if row.mark is None else row.mark for row in rows]
    return Chunk(
        np.array([row.op for row in rows], np.uint8),
        pa.array([row.key for row in rows], pa.large_string()),
        values,
        pa.array([row.payload for row in rows], pa.large_binary()),
        pa.array([epoch for epoch, _ in marks], pa.large_string()),
        np.array([number for _, number in marks], np.int64),
        np.array([row.follow for row in rows], np.int64),
    )


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Messages one after the other. There is one chunk at least."""
    if len(chunks) == 1:
        return chunks[0]
    columns = zip(*chunks, strict=True)
    return Chunk(*[pa.concat_arrays(c) if isinstance(c[0], pa.Array) else np.concatenate(c) for c in columns])


def regrouped(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same messages in chunks of `CHUNK` at least, but for the last."""
    some: list[Chunk] = []
    for chunk in chunks:
        some += [chunk] if chunk.size else []
        if sum(one.size for one in some) >= CHUNK:
            yield joined(some)
            some = []
    if some:
        yield joined(some)


def edits(outgoing: Outgoing) -> Chunk:
    """Messages about subscriptions that begin and end."""
    n = len(outgoing.op)
    zeros = np.zeros(n, np.int64)
    values = np.where((outgoing.op == SUBSCRIBE)[:, None], outgoing.points, 0.0)
    nothing, nowhere = pa.nulls(n, pa.large_binary()), pa.nulls(n, pa.large_string())
    keys = outgoing.keys if isinstance(outgoing.keys, pa.Array) else pa.array(outgoing.keys, pa.large_string())
    return Chunk(outgoing.op, keys, values, nothing, nowhere, zeros, zeros)


class OutboxState(NamedTuple):
    """A queue in a snapshot."""

    epoch: str | None
    stale: bool
    first: int
    marked: int
    chunk: Chunk


def as_messages(outgoing: Outgoing) -> Outgoing | Chunk:
    """Messages in the form that a queue takes without work for each. O(n), in any thread."""
    return outgoing if len(outgoing.op) < CHUNK // 16 else edits(outgoing)


class Outbox:
    """The queue of a link. `first` is the number of the first message in it and `next` that of the next one; `epoch` is
    None before it has begun one. So many notifications have been `marked` with the epoch.

    In a stale queue only notifications count: messages between them go when it is `restarted`, so that nothing has to
    be moved in the moment in which it becomes stale.
    """

    def __init__(self, coordinates: int) -> None:
        self.epoch: str | None = None
        self.stale = True
        self.first = 0
        self.notifications = 0
        self.bytes = 0
        self.marked = 0
        self._edits = 0
        self._coordinates = coordinates
        self._chunks: deque[Chunk] = deque()
        self._recent: list[Row] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def next(self) -> int:
        return self.first + self._size

    def full(self, notifications: int, size: int) -> bool:
        """Whether it cannot hold so many more notifications, with payloads of so many bytes."""
        return self.notifications + notifications > FULL or self.bytes + size > FULL_BYTES

    def queue(self, outgoing: Outgoing | Chunk) -> None:
        """Queue subscriptions that begin and end, at best as `as_messages` has them. A stale queue ignores them: its
        next epoch begins with all that is forwarded."""
        if isinstance(outgoing, Outgoing):
            outgoing = as_messages(outgoing)
        n = len(outgoing.op)
        if self.stale or not n:
            return
        if isinstance(outgoing, Chunk):
            self._extend(outgoing)
        else:
            points, keys = outgoing.points.tolist(), outgoing.keys
            keys = keys.to_pylist() if isinstance(keys, pa.Array) else keys
            for op, key, point in zip(outgoing.op.tolist(), keys, points, strict=True):
                self._add(Row(op, key, tuple(point) if op == SUBSCRIBE else ()))
        self._edits += n

    def bound(self, forwarded: int) -> None:
        """After each command: make the queue stale where it holds more messages about subscriptions than `HISTORY` and,
        twice, than are `forwarded`."""
        if self._edits > HISTORY and self._edits > 2 * forwarded + 1:
            self.mark_stale()

    def notify(self, values: tuple[float, ...], payload: bytes | None) -> None:
        """Queue a notification. O(1), amortised."""
        self._add(Row(NOTIFY, "", values, payload, (self.epoch or UNNAMED, self.marked)))
        self.marked += 1
        self.notifications += 1
        self.bytes += len(payload or b"")

    def _add(self, row: Row) -> None:
        self._recent.append(row)
        self._size += 1
        if len(self._recent) >= CHUNK:
            self._close()

    def _extend(self, chunk: Chunk) -> None:
        self._close()
        self._chunks.append(chunk)
        self._size += chunk.size

    def _close(self) -> None:
        if self._recent:
            self._chunks.append(chunk_of(self._recent, self._coordinates))
            self._recent = []

    def acknowledge(self, upto: int) -> None:
        """Drop the messages before this number, which the neighbour has. A number that cannot be makes the queue stale:
        the neighbour has lost what it had, or has what was never sent."""
        if not self.first <= upto <= self.next:
            self.mark_stale()
            return
        left = upto - self.first
        while left:
            if not self._chunks:
                self._forget(chunk_of(self._recent[:left], self._coordinates))
                del self._recent[:left]
                left = 0
            elif self._chunks[0].size <= left:
                gone = self._chunks.popleft()
                self._forget(gone)
                left -= gone.size
            else:
                self._forget(self._chunks[0].part(0, left))
                self._chunks[0] = self._chunks[0].part(left, self._chunks[0].size)
                left = 0

    def _forget(self, chunk: Chunk) -> None:
        n = chunk.notifications
        self.first += chunk.size
        self._size -= chunk.size
        self.notifications -= n
        self._edits -= chunk.size - n
        self.bytes -= chunk.bytes if n else 0

    def mark_stale(self) -> None:
        """Make the queue stale: only its notifications count from now on. Reads O(messages) bytes."""
        self._chunks = deque(chunk for chunk in self._chunks if chunk.notifications)
        self._recent = [row for row in self._recent if row.op == NOTIFY]
        self._edits, self._size, self.stale = 0, self.notifications, True

    def restarted(self, epoch: str, keys: Sequence[str], points: Floats) -> Outbox:
        """The queue in a new epoch: a reset, these subscriptions, and the notifications that wait. O(n), in any thread:
        this one does not change."""
        after = Outbox(self._coordinates)
        after.epoch, after.stale, after._edits = epoch, False, len(keys) + 1
        after._extend(chunk_of([Row(RESET, follow=len(keys))], self._coordinates))
        after._extend(edits(Outgoing(np.full(len(keys), SUBSCRIBE, np.uint8), list(keys), points)))
        waiting = 0
        for chunk in regrouped(part.notified() for part in self._parts()):
            after._extend(chunk.marked(epoch, waiting) if self.epoch is None else chunk)
            waiting += chunk.size
        after.notifications, after.bytes = self.notifications, self.bytes
        after.marked = self.marked if self.epoch is None else 0
        return after

    def _parts(self) -> Iterator[Chunk]:
        """The messages that count."""
        for chunk in (*self._chunks, chunk_of(self._recent, self._coordinates)):
            yield chunk.notified() if self.stale else chunk

    def _rows(self, begin: int) -> Iterator[Row]:
        """The messages from a place on."""
        for chunk in self._chunks:
            if begin < chunk.size:
                for at in range(begin, chunk.size, CHUNK):
                    yield from chunk.part(at, at + CHUNK).rows()
            begin = max(0, begin - chunk.size)
        yield from self._recent[begin:]

    def messages(self, first: int, limit: int) -> list[Message]:
        """Up to `limit` messages from a number on; none of a stale queue."""
        if self.stale or first < self.first:
            return []
        rows = islice(self._rows(first - self.first), limit)
        return [message_of(first + i, row) for i, row in enumerate(rows)]

    def state(self) -> OutboxState:
        """The queue for a snapshot, which shares its arrays; they do not change."""
        return OutboxState(self.epoch, self.stale, self.first, self.marked, joined(list(self._parts())))

    def check(self) -> None:
        """Raise AssertionError unless all is counted rightly. O(n)."""
        rows = [row for part in self._parts() for row in part.rows()]
        kept = [row for row in rows if row.op == NOTIFY]
        assert len(rows) == len(self) and len(kept) == self.notifications
        assert len(rows) - len(kept) == self._edits and not (self.stale and self._edits)
        assert sum(len(row.payload or b"") for row in kept) == self.bytes

    @classmethod
    def of(cls, state: OutboxState) -> Outbox:
        """The queue in that state."""
        box = cls(state.chunk.values.shape[1])
        box.epoch, box.stale, box.first, box.marked = state.epoch, state.stale, state.first, state.marked
        chunk = state.chunk
        if chunk.size:
            box._extend(chunk)
        box.notifications, box.bytes = chunk.notifications, chunk.bytes
        box._edits = chunk.size - box.notifications
        return box


def message_of(n: int, row: Row) -> Message:
    """A message as it is sent."""
    box: tuple[tuple[float, float], ...] = ()
    if row.op == SUBSCRIBE:
        lo, hi = as_boxes(np.array([row.values]))
        box = tuple(zip(lo[0].tolist(), hi[0].tolist(), strict=True))
    values = row.values if row.op == NOTIFY else ()
    own = bool(row.key) and not row.key.startswith(TRAVELLED)
    return Message(n, OPS[row.op], shown(row.key), box, row.follow, values, row.payload, row.mark, own)
