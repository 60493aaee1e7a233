"""The hub: it keeps the lists of live subscriptions on the boards, and tells their readers what each slice changed.

A subscription is live from its first stream until `resume_seconds` after the last one closed. All that touches a board
happens between two of its slices, so a stream begins with the list at one seq and continues with every change after it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar

from app import logs
from app.delivery.encode import BoardJson
from app.delivery.feed import GONE, Feed, Form, Message, message, position
from app.delivery.readers import GOING_AWAY, POLICY, Outbox, Pump, Reader
from app.metrics import Metrics
from app.problems import Problem, not_found
from indexes.boards.commands import BoardConfig
from indexes.boards.views import ListChange, LiveTiles, ObjectView, Slice

T = TypeVar("T")
PATIENCE = 5.0
MOST_SECONDS_BETWEEN_CHORES = 1.0


class Limits(Protocol):
    """The settings that the hub goes by."""

    @property
    def max_streams(self) -> int: ...
    @property
    def stream_queue(self) -> int: ...
    @property
    def resume_seconds(self) -> float: ...
    @property
    def resume_changes(self) -> int: ...
    @property
    def heartbeat_seconds(self) -> float: ...


class LiveBoard(Protocol):
    """What the hub asks of a board."""

    @property
    def config(self) -> BoardConfig: ...
    @property
    def seq(self) -> int: ...
    def watch(self, id: str) -> int: ...
    def unwatch(self, live: int) -> None: ...
    def list_of(self, live: int) -> list[ObjectView]: ...
    def want_tiles(self, live: int, on: bool) -> None: ...


class Between(Protocol):
    """Runs a function on the loop when no slice of a board is being painted, and answers what it returned.

    All settled slices have been delivered by then. When the board is gone meanwhile, it runs all the same.
    """

    def __call__(self, board: str, fn: Callable[[], T], /) -> Awaitable[T]: ...


class Counts(NamedTuple):
    """How much is open: connections, streams on them, and subscriptions whose lists are kept."""

    connections: int
    streams: int
    live: int


class Live:
    """One live subscription: its slot on the board, and a feed for each form that somebody reads or just read."""

    __slots__ = ("changes", "id", "slot", "tiles")

    def __init__(self, id: str, slot: int) -> None:
        self.id = id
        self.slot = slot
        self.changes: Feed | None = None
        self.tiles: Feed | None = None

    def feeds(self) -> list[Feed]:
        return [feed for feed in (self.changes, self.tiles) if feed is not None]


class Followed:
    """A board with live subscriptions. `seq` is settled: all messages up to it are in the queues of their readers."""

    __slots__ = ("board", "by_id", "by_slot", "name", "seq", "write")

    def __init__(self, name: str, board: LiveBoard) -> None:
        self.name = name
        self.board = board
        self.seq = board.seq
        self.by_id: dict[str, Live] = {}
        self.by_slot: dict[int, Live] = {}
        self.write = BoardJson(board.config.range_attributes[0], board.config.rank_attribute)

    def whole(self, live: Live) -> str:
        """The data of a `snapshot` or `reset`: the list as it is now."""
        return f'{{"seq":{self.seq},"list":{self.write.list(self.board.list_of(live.slot))}}}'


class Hub:
    """Owns the live subscriptions, their feeds and the open connections of one service. Lives on the event loop.

    `boards` finds a board by name; `between` is the writer's. `on_open` is told of every stream that opens or closes
    (board, subscription), for those who count the time that a subscription was not read.
    """

    def __init__(
        self,
        epoch: str,
        limits: Limits,
        boards: Callable[[str], LiveBoard | None],
        between: Between,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = epoch
        self.limits = limits
        self.pump = Pump()
        self.on_open: Callable[[str, str], None] | None = None
        self._boards = boards
        self._between = between
        self._metrics = metrics
        self._log = logs.get("delivery")
        self._clock = clock
        self._followed: dict[str, Followed] = {}
        self._outboxes: dict[Outbox, None] = {}
        self._streams = 0
        self._live = 0
        self._left: deque[tuple[float, Feed]] = deque()
        self._beats: deque[tuple[float, Outbox]] = deque()
        self._chores: asyncio.Task[None] | None = None
        self._closing = False
        self._sent = {
            event: metrics.stream_messages.labels(event) for event in ("change", "tiles", "snapshot", "reset", GONE)
        }
        self._changes_sent = 0

    # --- connections ------------------------------------------------------------------------------------------------

    def join(self, outbox: Outbox) -> None:
        """Take in a connection. Raises the problems 429 (too many) and 503 (the service is ending)."""
        if self._closing:
            raise Problem("not-ready", "the service is ending")
        if len(self._outboxes) >= self.limits.max_streams:
            raise self._too_many()
        self._outboxes[outbox] = None
        self._beats.append((self._clock() + self.limits.heartbeat_seconds, outbox))
        self._metrics.streams.labels(outbox.transport).inc()

    def part(self, outbox: Outbox) -> None:
        """Let a connection go with all its streams. Nothing happens the second time."""
        if outbox in self._outboxes:
            del self._outboxes[outbox]
            self._metrics.streams.labels(outbox.transport).dec()
        for reader in list(outbox.readers()):
            self.leave(reader)

    def end_key(self, key_id: str) -> None:
        """End every connection that was opened with an API key."""
        for outbox in [outbox for outbox in self._outboxes if key_id in outbox.keys]:
            outbox.end(POLICY, drop=True)
            asyncio.get_running_loop().call_later(PATIENCE, outbox.abort)

    def start(self) -> None:
        """Begin the chores: heartbeats, and letting go of lists that nobody came back for."""
        self._chores = asyncio.create_task(self._do_chores())

    def stop(self) -> None:
        """Let nobody in any more, and end all connections as soon as their queues are empty."""
        self._closing = True
        if self._chores is not None:
            self._chores.cancel()
        for outbox in list(self._outboxes):
            outbox.end(GOING_AWAY)

    async def close_all(self, seconds: float = PATIENCE) -> None:
        """Stop, and return when all connections have ended; those that take nothing are cut after `seconds`."""
        self.stop()
        loop = asyncio.get_running_loop()
        give_up = loop.time() + seconds
        while self._outboxes and loop.time() < give_up:
            await asyncio.sleep(0.01)
        for outbox in list(self._outboxes):
            outbox.abort()

    def counts(self) -> Counts:
        """How much is open now."""
        return Counts(len(self._outboxes), self._streams, self._live)

    def is_read(self, board: str, id: str) -> bool:
        """Whether a stream of this subscription is open."""
        live = self._live_of(board, id)
        return live is not None and any(feed.readers for feed in live.feeds())

    def cursor(self, board: str) -> str | None:
        """The position up to which every reader of a board has all messages in its queue."""
        followed = self._followed.get(board)
        return None if followed is None else f"{self.epoch}:{followed.seq}"

    # --- streams ----------------------------------------------------------------------------------------------------

    async def open(
        self, reader: Reader, board: str, id: str, form: Form, after: str | None, replaces: Reader | None = None
    ) -> None:
        """Begin a stream: with what was missed since `after`, else with `reset`; with `snapshot` when `after` is None.

        `replaces` is a stream of the same connection that ends in the same moment. Raises the problems 404 for an
        unknown board or subscription, 429 for too many streams and 503 when the service is ending.
        """
        self._check_room(replaces)
        found = self._boards(board)
        if found is None:
            raise not_found("board", f"there is no board {board!r}")
        try:
            await self._between(board, partial(self._attach, reader, board, id, form, after, replaces))
        except BaseException:
            reader.void = True
            self.leave(reader)
            raise

    def _attach(
        self, reader: Reader, name: str, id: str, form: Form, after: str | None, replaces: Reader | None
    ) -> None:
        if reader.void or reader.outbox not in self._outboxes:
            return
        self._check_room(replaces)
        followed, live = self._follow(name, id)
        feed: Feed | None = getattr(live, form)
        missed = None
        if feed is not None and (feed.readers or self._clock() - feed.left_at < self.limits.resume_seconds):
            seq = None if after is None else position(after, self.epoch)
            if seq is not None and seq <= followed.seq:
                missed = feed.missed(seq)
        else:
            feed = Feed(name, id, form, followed.seq, self.limits.resume_changes)
            setattr(live, form, feed)
            if form == "tiles":
                followed.board.want_tiles(live.slot, True)
        if missed is None:
            event = "snapshot" if after is None else "reset"
            missed = [self._message(followed.seq, event, followed.whole(live))]
        if replaces is not None:
            self.leave(replaces)
        feed.readers[reader] = None
        reader.feed = feed
        self._streams += 1
        reader.begin(missed)
        self._touch(feed)

    def _follow(self, name: str, id: str) -> tuple[Followed, Live]:
        board = self._boards(name)
        if board is None:
            raise not_found("board", f"there is no board {name!r}")
        followed = self._followed.get(name) or Followed(name, board)
        followed.seq = board.seq
        live = followed.by_id.get(id)
        if live is None:
            try:
                live = Live(id, board.watch(id))
            except KeyError:
                raise not_found("id", f"there is no subscription {id!r}") from None
            followed.by_id[id] = followed.by_slot[live.slot] = live
            self._followed[name] = followed
            self._live += 1
        return followed, live

    def leave(self, reader: Reader) -> None:
        """Close a stream; what it still has in the queue is dropped. Nothing happens the second time."""
        feed = reader.feed
        if feed is None:
            return
        reader.feed = None
        reader.outbox.discard(reader)
        del feed.readers[reader]
        self._streams -= 1
        if not feed.readers:
            feed.left_at = self._clock()
            self._left.append((feed.left_at + self.limits.resume_seconds, feed))
        self._touch(feed)

    async def catch_up(self, outbox: Outbox) -> None:
        """Give the readers of a connection that fell behind their whole lists. Its queue is empty."""
        late, outbox.late = outbox.late, []
        names = {reader.feed.board for reader in late if reader.feed is not None}
        for name in names:
            await self._between(name, partial(self._renew, name, late))

    def _renew(self, name: str, late: Iterable[Reader]) -> None:
        followed = self._followed.get(name)
        for reader in late:
            feed = reader.feed
            if followed is not None and feed is not None and feed.board == name:
                followed.seq = followed.board.seq
                reader.begin([self._message(followed.seq, "reset", followed.whole(followed.by_id[feed.id]))])
                self._metrics.stream_collapses.inc()

    def _check_room(self, replaces: Reader | None) -> None:
        if self._closing:
            raise Problem("not-ready", "the service is ending")
        if replaces is None and self._streams >= self.limits.max_streams:
            raise self._too_many()

    def _too_many(self) -> Problem:
        return Problem("too-many", f"{self.limits.max_streams} streams are open, which is the limit")

    # --- deliveries -------------------------------------------------------------------------------------------------

    def deliver(self, board: str, engine: LiveBoard, slice: Slice) -> None:
        """Tell all readers of a board what a slice changed. O(messages + readers), JSON once per distinct change."""
        followed = self._followed.get(board)
        if followed is None:
            return
        if slice.tiles or slice.moved or slice.gone:
            self._deliver_all(followed, slice)
        else:
            made: dict[int, Message] = {}
            for change in slice.changes:
                self._deliver_change(followed, change, made)
        followed.seq = slice.last_seq
        self._sent["change"].inc(self._changes_sent)
        self._changes_sent = 0

    def _deliver_change(self, followed: Followed, change: ListChange, made: dict[int, Message]) -> None:
        seq, slot, entries = change
        live = followed.by_slot.get(slot)
        if live is None or live.changes is None or not entries:
            return
        item = made.get(id(entries))
        if item is None or item.seq != seq:
            data = f'{{"seq":{seq},"changes":{followed.write.changes(entries)}}}'
            item = made[id(entries)] = message(self.epoch, seq, "change", data)
        live.changes.publish(item)
        self._changes_sent += len(live.changes.readers)

    def _deliver_all(self, followed: Followed, slice: Slice) -> None:
        """A slice with more than changes, everything in order of seq."""
        made: dict[int, Message] = {}
        written: dict[int, str] = {}
        moved = {slot for _, slot in slice.moved}
        records: Iterable[ListChange | LiveTiles | tuple[int, int]] = chain(slice.changes, slice.tiles, slice.gone)
        for record in sorted(records, key=itemgetter(0)):
            if isinstance(record, ListChange):
                self._deliver_change(followed, record, made)
            elif isinstance(record, LiveTiles):
                if record.live not in moved:
                    self._deliver_tiles(followed, record, written)
            else:
                seq, slot = record
                live = followed.by_slot.get(slot)
                if live is not None:
                    self._end(followed, live, seq)
        followed.seq = slice.last_seq
        for slot in sorted(moved):
            live = followed.by_slot.get(slot)
            if live is not None and live.tiles is not None:
                live.tiles.restart(self._message(followed.seq, "reset", followed.whole(live)))

    def _deliver_tiles(self, followed: Followed, record: LiveTiles, written: dict[int, str]) -> None:
        live = followed.by_slot.get(record.live)
        if live is None or live.tiles is None or not record.tiles:
            return
        texts = []
        for tile in record.tiles:
            text = written.get(id(tile))
            if text is None:
                text = written[id(tile)] = followed.write.tile(tile)
            texts.append(text)
        data = f'{{"seq":{record.seq},"tiles":[{",".join(texts)}]}}'
        live.tiles.publish(message(self.epoch, record.seq, "tiles", data))
        self._sent["tiles"].inc(len(live.tiles.readers))

    def board_gone(self, board: str, seq: int) -> None:
        """A board was deleted at `seq`: its streams end."""
        followed = self._followed.get(board)
        if followed is not None:
            followed.seq = seq
            for live in list(followed.by_id.values()):
                self._end(followed, live, seq)

    def _end(self, followed: Followed, live: Live, seq: int) -> None:
        """The subscription is gone, and its slot on the board with it."""
        self._forget(followed, live)
        last = message(self.epoch, seq, GONE, f'{{"seq":{seq}}}')
        for feed in live.feeds():
            readers, feed.readers = feed.readers, {}
            self._streams -= len(readers)
            self._sent[GONE].inc(len(readers))
            for reader in readers:
                reader.finish(last)

    def _message(self, seq: int, event: str, data: str) -> Message:
        self._sent[event].inc()
        return message(self.epoch, seq, event, data)

    # --- chores -----------------------------------------------------------------------------------------------------

    async def _do_chores(self) -> None:
        shortest = min(self.limits.heartbeat_seconds, self.limits.resume_seconds or MOST_SECONDS_BETWEEN_CHORES)
        pause = min(MOST_SECONDS_BETWEEN_CHORES, max(0.02, shortest / 4))
        while True:
            await asyncio.sleep(pause)
            try:
                await self.beat()
                await self.let_go()
            except Exception:
                self._log.exception("chores failed")

    async def beat(self) -> None:
        """Send a heartbeat to every connection for which one is due."""
        now = self._clock()
        due: list[Outbox] = []
        while self._beats and self._beats[0][0] <= now:
            outbox = self._beats.popleft()[1]
            if outbox in self._outboxes:
                due.append(outbox)
                self._beats.append((now + self.limits.heartbeat_seconds, outbox))
        names = {reader.feed.board for outbox in due for reader in outbox.readers() if reader.feed is not None}
        for name in names:
            await self._between(name, partial(self._settle, name))
        for outbox in due:
            outbox.heartbeat_due = True
            outbox.stir()

    def _settle(self, name: str) -> None:
        followed = self._followed.get(name)
        if followed is not None:
            followed.seq = followed.board.seq

    async def let_go(self) -> None:
        """Stop keeping the lists that nobody came back for."""
        now = self._clock()
        lapsed: dict[str, list[Feed]] = {}
        while self._left and self._left[0][0] <= now:
            feed = self._left.popleft()[1]
            lapsed.setdefault(feed.board, []).append(feed)
        for name, feeds in lapsed.items():
            await self._between(name, partial(self._drop, name, feeds))

    def _drop(self, name: str, feeds: Iterable[Feed]) -> None:
        followed = self._followed.get(name)
        now = self._clock()
        for feed in feeds:
            live = None if followed is None else followed.by_id.get(feed.id)
            if followed is None or live is None or getattr(live, feed.form) is not feed:
                continue
            if feed.readers or now - feed.left_at < self.limits.resume_seconds:
                continue
            setattr(live, feed.form, None)
            if feed.form == "tiles":
                followed.board.want_tiles(live.slot, False)
            if not live.feeds():
                followed.board.unwatch(live.slot)
                self._forget(followed, live)

    def _forget(self, followed: Followed, live: Live) -> None:
        del followed.by_id[live.id]
        del followed.by_slot[live.slot]
        self._live -= 1
        if not followed.by_id:
            del self._followed[followed.name]

    def _live_of(self, board: str, id: str) -> Live | None:
        followed = self._followed.get(board)
        return None if followed is None else followed.by_id.get(id)

    def _touch(self, feed: Feed) -> None:
        if self.on_open is not None:
            self.on_open(feed.board, feed.id)
