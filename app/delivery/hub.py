"""The hub: it keeps what live subscriptions need for their streams, and tells their readers what each slice changed.

A subscription is live from its first stream until `resume_seconds` after the last one closed. All that touches a
resource happens between two of its slices, so a stream begins at one seq and continues with all that comes after it.
Resources have their whole names here, as ``boards/delays``; what differs between kinds is asked of their `Source`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from app import logs
from app.delivery.feed import CHANGE, GONE, NOTIFICATION, READY, RESULT, WIN, Feed, Form, Message, message, position
from app.delivery.readers import GOING_AWAY, POLICY, Outbox, Pump, Reader
from app.delivery.source import Followed, Live, LiveResource, Source
from app.delivery.squash import Squasher
from app.metrics import Metrics
from app.problems import Problem, not_found

T = TypeVar("T")
PATIENCE = 5.0
MOST_SECONDS_BETWEEN_CHORES = 1.0

FEED, MESSAGE = 1_100, 150
"""Bytes that Python takes for a feed, and for a message beside its text, as measured."""


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


class Counts(NamedTuple):
    """How much is open: connections, streams on them, and subscriptions whose lists are kept."""

    connections: int
    streams: int
    live: int


class Following(NamedTuple):
    """What following a subscription costs: its open `streams`, the messages `kept` for readers who come back, those
    `sent` since it became live (once for each form, however many read it), and the bytes of all that, an estimate."""

    streams: int
    kept: int
    sent: int
    nbytes: int


class Hub:
    """Owns the live subscriptions, their feeds and the open connections of one service. Lives on the event loop.

    `sources` are the kinds of resource. `on_open` is told of every stream that opens or closes (resource,
    subscription), for those who count the time that a subscription was not read.
    """

    def __init__(
        self,
        epoch: str,
        limits: Limits,
        sources: Iterable[Source],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.epoch = epoch
        self.limits = limits
        self.pump = Pump()
        self.on_open: Callable[[str, str], None] | None = None
        self._sources = {source.prefix: source for source in sources}
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
            event: metrics.stream_messages.labels(event)
            for event in (CHANGE, "tiles", "snapshot", "reset", READY, WIN, NOTIFICATION, RESULT, GONE)
        }
        self.squasher = Squasher(epoch, self._followed.get, self._between, clock, self._sent[CHANGE].inc)

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
        self.squasher.stop()
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

    def is_read(self, resource: str, id: str) -> bool:
        """Whether a stream of this subscription is open."""
        live = self._live_of(resource, id)
        return live is not None and any(feed.readers for feed in live.feeds())

    def cursors(self, readers: Iterable[Reader]) -> dict[str, str]:
        """By resource, the position up to which all of these readers have been told or have it in the queue.

        Left out are resources that they have not been told of up to the same one, since some have changes held back.
        """
        seqs: dict[str, set[int]] = {}
        for reader in readers:
            feed, squash = reader.feed, reader.squash
            followed = None if feed is None else self._followed.get(feed.resource)
            if feed is not None and followed is not None:
                held = squash is not None and squash.last is not None
                at = squash.at if held and squash is not None else followed.told(feed)
                seqs.setdefault(followed.resource, set()).add(at)
        return {name: f"{self.epoch}:{at.pop()}" for name, at in sorted(seqs.items()) if len(at) == 1}

    def following(self, resource: str, id: str) -> Following | None:
        """What following a subscription costs; None when it is not live. O(messages kept)."""
        live = self._live_of(resource, id)
        if live is None:
            return None
        feeds = live.feeds()
        kept = [item for feed in feeds for item in feed.kept]
        return Following(
            sum(len(feed.readers) for feed in feeds),
            len(kept),
            sum(feed.published for feed in feeds),
            FEED * len(feeds) + sum(MESSAGE + len(item.block) for item in kept),
        )

    # --- streams ----------------------------------------------------------------------------------------------------

    def source(self, resource: str) -> tuple[Source, str]:
        """The kind of a resource, and its name behind the prefix. Raises the problem 404."""
        prefix, slash, name = resource.partition("/")
        source = self._sources.get(prefix + slash)
        if source is None or not name:
            raise not_found("resource", f"there is no resource {resource!r}")
        return source, name

    def _between(self, resource: str, fn: Callable[[], T]) -> Awaitable[T]:
        source, name = self.source(resource)
        return source.between(name, fn)

    async def open(
        self, reader: Reader, resource: str, id: str, form: Form, after: str | None, replaces: Reader | None = None
    ) -> None:
        """Begin a stream: with what was missed since `after`, else with `reset`; when `after` is None with what its
        kind begins with.

        An `unready` reader is told when that was all.

        `replaces` is a stream of the same connection that ends in the same moment. Raises the problems 404 for an
        unknown resource or subscription, 429 for too many streams and 503 when the service is ending.
        """
        self._check_room(replaces)
        self._find(resource)
        try:
            await self._between(resource, partial(self._attach, reader, resource, id, form, after, replaces))
        except BaseException:
            reader.void = True
            self.leave(reader)
            raise

    def _attach(
        self, reader: Reader, resource: str, id: str, form: Form, after: str | None, replaces: Reader | None
    ) -> None:
        if reader.void or reader.outbox not in self._outboxes:
            return
        self._check_room(replaces)
        followed, live = self._follow(resource, id)
        feed: Feed | None = getattr(live, form)
        missed, seq = None, None
        if feed is not None and (feed.readers or self._clock() - feed.left_at < self.limits.resume_seconds):
            seq = None if after is None else position(after, self.epoch)
            if seq is not None and seq <= followed.told(feed):
                missed = feed.missed(seq)
        else:
            feed = followed.feed(resource, id, form, followed.seq, self.limits.resume_changes)
            setattr(live, form, feed)
            followed.want(live, form, True)
        if missed is None:
            missed = [followed.begin(live, form, after is None)]
        elif reader.squash is not None and seq is not None:
            missed = self.squasher.missed(followed, live, feed, seq, missed)
        if reader.squash is not None:
            feed.keep_nets(followed.seq)
        if replaces is not None:
            self.leave(replaces)
        feed.readers[reader] = None
        reader.feed = feed
        self._streams += 1
        self._begin(followed, reader, missed)
        self._touch(feed)

    def _begin(self, followed: Followed, reader: Reader, items: list[Message]) -> None:
        """Queue what brings a reader up to date, and that it is, if it waits to hear so and that does not say it."""
        if reader.unready and not (items and items[-1].event == READY):
            seq = followed.seq if reader.feed is None else followed.told(reader.feed)
            items.append(self.message(seq, READY, f'{{"seq":{seq}}}'))
        reader.begin(items)
        self.squasher.caught_up(followed, reader, items)

    def _find(self, resource: str) -> tuple[Source, LiveResource]:
        source, name = self.source(resource)
        engine = source.find(name)
        if engine is None:
            raise not_found(source.noun, f"there is no {source.noun} {name!r}")
        return source, engine

    def _follow(self, resource: str, id: str) -> tuple[Followed, Live]:
        source, engine = self._find(resource)
        followed = self._followed.get(resource) or source.follow(resource, engine, self)
        followed.seq = engine.seq
        live = followed.by_id.get(id)
        if live is None:
            try:
                live = followed.watch(id)
            except KeyError:
                raise not_found("id", f"there is no {source.followed_noun} {id!r}") from None
            followed.by_id[id] = live
            self._followed[resource] = followed
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
        resources = {reader.feed.resource for reader in late if reader.feed is not None}
        for resource in resources:
            await self._between(resource, partial(self._renew, resource, late))

    def _renew(self, resource: str, late: Iterable[Reader]) -> None:
        followed = self._followed.get(resource)
        for reader in late:
            feed = reader.feed
            if followed is not None and feed is not None and feed.resource == resource:
                followed.seq = followed.engine.seq
                self._begin(followed, reader, [followed.begin(followed.by_id[feed.id], feed.form, False)])
                self._metrics.stream_collapses.inc()

    def _check_room(self, replaces: Reader | None) -> None:
        if self._closing:
            raise Problem("not-ready", "the service is ending")
        if replaces is None and self._streams >= self.limits.max_streams:
            raise self._too_many()

    def _too_many(self) -> Problem:
        return Problem("too-many", f"{self.limits.max_streams} streams are open, which is the limit")

    # --- deliveries -------------------------------------------------------------------------------------------------

    def deliver(self, resource: str, slice: Any) -> None:
        """Tell all readers of a resource what a slice changed."""
        followed = self._followed.get(resource)
        if followed is not None:
            followed.deliver(slice)

    def resource_gone(self, resource: str, seq: int) -> None:
        """A resource was deleted at `seq`: its streams end."""
        followed = self._followed.get(resource)
        if followed is not None:
            followed.seq = seq
            for live in list(followed.by_id.values()):
                self.end(followed, live, seq)

    def end(self, followed: Followed, live: Live, seq: int) -> None:
        """The subscription is gone, and with it what its engine kept for it."""
        self._forget(followed, live)
        last = message(self.epoch, seq, GONE, f'{{"seq":{seq}}}')
        for feed in live.feeds():
            readers, feed.readers = feed.readers, {}
            self._streams -= len(readers)
            self._sent[GONE].inc(len(readers))
            for reader in readers:
                reader.finish(last)

    def message(self, seq: int, event: str, data: str) -> Message:
        """A message that is for one reader, or for all of a feed as one."""
        self._sent[event].inc()
        return message(self.epoch, seq, event, data)

    def count(self, event: str, messages: int) -> None:
        """So many messages were sent."""
        self._sent[event].inc(messages)

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
        resources = {reader.feed.resource for outbox in due for reader in outbox.readers() if reader.feed is not None}
        for resource in resources:
            await self._between(resource, partial(self._settle, resource))
        for outbox in due:
            outbox.heartbeat_due = True
            outbox.stir()

    def _settle(self, resource: str) -> None:
        followed = self._followed.get(resource)
        if followed is not None:
            followed.seq = followed.engine.seq

    async def let_go(self) -> None:
        """Stop keeping the lists that nobody came back for."""
        now = self._clock()
        lapsed: dict[str, list[Feed]] = {}
        while self._left and self._left[0][0] <= now:
            feed = self._left.popleft()[1]
            lapsed.setdefault(feed.resource, []).append(feed)
        for resource, feeds in lapsed.items():
            await self._between(resource, partial(self._drop, resource, feeds))

    def _drop(self, resource: str, feeds: Iterable[Feed]) -> None:
        followed = self._followed.get(resource)
        now = self._clock()
        for feed in feeds:
            live = None if followed is None else followed.by_id.get(feed.id)
            if followed is None or live is None or getattr(live, feed.form) is not feed:
                continue
            if feed.readers or now - feed.left_at < self.limits.resume_seconds:
                continue
            setattr(live, feed.form, None)
            followed.want(live, feed.form, False)
            if not live.feeds():
                followed.unwatch(live)
                self._forget(followed, live)

    def _forget(self, followed: Followed, live: Live) -> None:
        del followed.by_id[live.id]
        followed.forget(live)
        self._live -= 1
        if not followed.by_id:
            del self._followed[followed.resource]

    def _live_of(self, resource: str, id: str) -> Live | None:
        followed = self._followed.get(resource)
        return None if followed is None else followed.by_id.get(id)

    def _touch(self, feed: Feed) -> None:
        if self.on_open is not None:
            self.on_open(feed.resource, feed.id)
