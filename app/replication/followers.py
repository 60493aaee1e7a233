"""Those who follow this service's log: what is sent to each, how far each is, and the wait for those in step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.errors import LogUnavailable, NotFollowed, TooMany
from app.replication.frames import Frame, packed
from app.replication.tap import Tap
from app.runtime import clock, logs
from app.runtime.metrics import Metrics
from app.storage import Stores
from app.storage.rows import NOTE, CopiedRow, StoredAnswer

BEAT = 1.0
"""Seconds between two signs of life."""

SILENT = 5.0
"""Seconds after which a replica that has said nothing does not follow."""

PIECE, PIECE_ROWS = 1 << 20, 1_000
"""Bytes and rows of one frame, about."""

MOST = 64
"""Replicas that may follow at the same time."""

REMEMBERED = 256
"""Replicas that are remembered after they left."""

KEYS, WEBHOOKS = "keys", "webhooks"
"""What a row notes that goes to replicas whole."""

log = logs.get("replication")


@dataclass
class Follower:
    """A replica as the leader knows it: `durable` is its last row on disk, `applied` the last that its reads show."""

    node: str
    name: str
    address: str
    since: float
    durable: int
    applied: int
    heard: float = field(default_factory=time.monotonic)
    connections: int = 0

    def follows(self, shared: bool) -> bool:
        """Whether it follows now: over a connection, or, where nodes share the log, as far as it has said lately."""
        return self.connections > 0 or (shared and time.monotonic() - self.heard < SILENT)


class Followers:
    """The followers of this service. Lives on the event loop. `term` is this service's, at present."""

    def __init__(self, stores: Stores, metrics: Metrics, term: Callable[[], int], wanted: int, seconds: float) -> None:
        self.tap = Tap()
        self.shared = stores.shared is not None
        self._stores = stores
        self._term = term
        self._wanted = wanted
        self._seconds = seconds
        self._known: dict[str, Follower] = {}
        self._heard = asyncio.Event()
        self._ended = False
        stores.log.on_append = self.tap.add
        metrics.gauge("rankcast_replica_lag_rows", "Rows that a replica has not applied.", "replica", self._lags)
        metrics.gauge("rankcast_replica_connected", "Whether a replica follows.", "replica", self._connected)

    def start(self) -> None:
        """Begin to look at what is logged."""
        self.tap.start()

    def end(self) -> None:
        """End all streams, as this service ends or no longer leads."""
        self._ended = True
        self._heard.set()
        self.tap.add((), ())

    def resume(self) -> None:
        """Let streams begin again."""
        self._ended = False

    def all(self) -> list[Follower]:
        """All that are known, in order of node."""
        return [self._known[node] for node in sorted(self._known)]

    def check(self, after: int, chained: bytes) -> None:
        """Raise `NotFollowed` where the log cannot be followed from a row with this checksum."""
        store = self._stores.log
        if after > store.last_lsn:
            raise NotFollowed(f"the log ends at row {store.last_lsn}, before row {after}: another history")
        found = store.checksum_at(after)
        if found is None:
            raise NotFollowed(f"rows up to {store.pruned_through} have been deleted from the log: pruned")
        if found != chained:
            raise NotFollowed(f"row {after} is another one here: another history")

    def add(self, node: str, name: str, address: str, after: int) -> Follower:
        """Note that a replica begins to follow. Raises `TooMany`."""
        if sum(one.connections for one in self._known.values()) >= MOST:
            raise TooMany(f"{MOST} replicas follow already")
        known = self._known.pop(node, None)
        while len(self._known) >= REMEMBERED:
            gone = min(self._known.values(), key=lambda one: (one.connections, one.heard))
            del self._known[gone.node]
        connections = 0 if known is None else known.connections
        found = Follower(node, name, address, time.time(), after, after, connections=connections)
        self._known[node] = found
        return found

    def note(self, node: str, durable: int, applied: int, name: str = "", address: str = "") -> None:
        """Note how far a replica is. One that does not follow is passed over, unless nodes share the log."""
        found = self._known.get(node)
        if found is None and self.shared:
            found = self.add(node, name, address, durable)
        if found is None:
            return
        last = self._stores.log.last_lsn
        found.durable, found.applied = min(durable, last), min(applied, last)
        found.heard = time.monotonic()
        self._heard.set()
        self._heard = asyncio.Event()

    async def stream(self, follower: Follower, after: int) -> AsyncIterator[bytes]:
        """The frames for a replica that has everything up to a row, for as long as it takes them."""
        follower.connections += 1
        log.info("a replica follows", node=follower.node, name=follower.name, after=after)
        try:
            yield await asyncio.to_thread(self._whole, ())
            while not self._ended:
                number, last, first = self.tap.follow(), self._stores.log.last_lsn, True
                while after < last or first:
                    frame, after = await asyncio.to_thread(self._from_log, after, last, first)
                    first = False
                    yield frame
                async for sent, frame in self._from_memory(number, after):
                    after = sent
                    yield frame
        except LogUnavailable as error:
            log.warning("a replica is cut off: the log cannot be read", node=follower.node, error=str(error))
        finally:
            follower.connections -= 1
            log.info("a replica follows no more", node=follower.node, name=follower.name)

    async def _from_memory(self, number: int, after: int) -> AsyncIterator[tuple[int, bytes]]:
        """The frames from a transaction on while they are in memory, each with the row up to which all is in it."""
        while not self._ended:
            entries = self.tap.since(number, PIECE)
            if entries is None:
                return
            number += len(entries)
            if not entries:
                yield after, self._frame()
                await self.tap.wait(number, BEAT)
                continue
            rows = [one for entry in entries for one in entry.rows if one.row.lsn > after]
            answers = [answer for entry in entries for answer in entry.answers]
            if rows:
                after = rows[-1].row.lsn
            if rows or answers:
                about = _noted(rows)
                whole = asyncio.to_thread(self._whole, about, rows, answers) if about else None
                yield after, self._frame(rows, answers) if whole is None else await whole

    def _from_log(self, after: int, last: int, first: bool) -> tuple[bytes, int]:
        """A frame of rows after one, and its last row. The first one has the responses of the row before it too."""
        store = self._stores.log
        rows: list[CopiedRow] = []
        size = 0
        for one in store.copies(after, last):
            rows.append(one)
            size += len(one.row.payload)
            if size > PIECE or len(rows) == PIECE_ROWS:
                break
        until = rows[-1].row.lsn if rows else after
        answers = store.answers_between(after if first else after + 1, until)
        # What came meanwhile without a row belongs to the last one; it is in memory for those who go on from there.
        return self._whole(_noted(rows), rows, answers), until

    def _whole(
        self, about: tuple[str, ...], rows: list[CopiedRow] | None = None, answers: list[StoredAnswer] | None = None
    ) -> bytes:
        """A frame with all keys and webhooks where rows note a change of them, or where it has no rows."""
        keys = self._stores.keys.all() if rows is None or KEYS in about else None
        webhooks = self._stores.webhooks.all() if rows is None or WEBHOOKS in about else None
        return packed(self._made(rows or (), answers or ())._replace(keys=keys, webhooks=webhooks))

    def _frame(self, rows: Any = (), answers: Any = ()) -> bytes:
        return packed(self._made(rows, answers))

    def _made(self, rows: Any, answers: Any) -> Frame:
        return Frame(self._stores.log.last_lsn, clock.now(), self._term(), rows, answers)

    # --- in step ------------------------------------------------------------------------------------------------------

    def in_step(self, lsn: int) -> bool:
        """Whether as many replicas as are wanted have the log up to a row on disk."""
        return sum(one.durable >= lsn for one in self._known.values()) >= self._wanted

    async def synced(self, lsn: int) -> bool:
        """Wait until `in_step`; return whether it came to that within the limit."""
        until = time.monotonic() + self._seconds
        while not self.in_step(lsn):
            left = until - time.monotonic()
            if left <= 0 or self._ended:
                return False
            try:
                async with asyncio.timeout(left):
                    await self._heard.wait()
            except TimeoutError:
                return self.in_step(lsn)
        return not self._ended

    def _lags(self) -> Mapping[str, float]:
        last = self._stores.log.last_lsn
        return {one.name or one.node: last - one.applied for one in self._known.values()}

    def _connected(self) -> Mapping[str, float]:
        return {one.name or one.node: float(one.follows(self.shared)) for one in self._known.values()}


def _noted(rows: list[CopiedRow]) -> tuple[str, ...]:
    """What rows note that goes to replicas whole."""
    return tuple({one.row.resource for one in rows if one.row.command == NOTE and one.row.resource in (KEYS, WEBHOOKS)})
