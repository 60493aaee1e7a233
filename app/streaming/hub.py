"""The hub: the live subscriptions of one service with their channels, and its open connections.

A subscription is live from its first stream until `resume_seconds` after the last one closed. The hub works on a
resource between two of its slices, so a stream begins at one seq and continues with every change after it. Resources
have their full names here, as ``boards/delays``; what differs between resource types is in their `Source`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from app.errors import NotFound, NotReady
from app.runtime import logs, tracing
from app.runtime.metrics import Metrics
from app.streaming.buffer import (
    CHANGE,
    GONE,
    NOTIFICATION,
    READY,
    RESULT,
    WIN,
    Channel,
    Form,
    Message,
    message,
    parse_cursor,
)
from app.streaming.conflation import Conflator
from app.streaming.connection import Connection, Pump, Reader
from app.streaming.connections import PATIENCE, ConnectionLimits, Connections, too_many
from app.streaming.protocols import LiveResource, LiveSubscription, Source, StreamedEngine

T = TypeVar("T")
MOST_SECONDS_BETWEEN_ROUNDS = 1.0

MOST_TERMS = 16
"""Earlier epochs with cursors that can be resumed."""

CHANNEL, MESSAGE = 400, 85
"""Bytes of memory for a channel, and for a message besides its text, as measured."""


class Limits(ConnectionLimits, Protocol):
    """The settings that the hub uses."""

    @property
    def stream_queue(self) -> int: ...
    @property
    def stream_bytes(self) -> int: ...
    @property
    def resume_seconds(self) -> float: ...
    @property
    def resume_changes(self) -> int: ...


class Counts(NamedTuple):
    """The numbers of open connections, streams on them, and live subscriptions."""

    connections: int
    streams: int
    live: int


class Following(NamedTuple):
    """What a live subscription costs: its open `streams`, the messages `kept` for readers that resume, the messages
    `sent` since it became live (counted by form, not by reader), and an estimate of the bytes of memory.
    """

    streams: int
    kept: int
    sent: int
    nbytes: int


class Hub:
    """Owns the live subscriptions and the open connections of one service. Lives on the event loop.

    `sources` are the resource types. `on_open` is called for every stream that opens or closes (resource,
    subscription), which restarts the lifetime of the subscription.
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
        self._earlier: deque[tuple[str, dict[str, int]]] = deque(maxlen=MOST_TERMS)
        self.limits = limits
        self.pump = Pump()
        self.on_open: Callable[[str, str], None] | None = None
        self._sources = {source.prefix: source for source in sources}
        self._metrics = metrics
        self._log = logs.get("delivery")
        self._clock = clock
        self._live_resources: dict[str, LiveResource] = {}
        self.connections = Connections(limits, metrics, self._now, self.close_stream, self._expire_stream)
        self._streams = 0
        self._live = 0
        self._left: deque[tuple[float, Channel]] = deque()
        self._housekeeping: asyncio.Task[None] | None = None
        self._sent = {
            event: metrics.stream_messages.labels(event)
            for event in (CHANGE, "tiles", "snapshot", "reset", READY, WIN, NOTIFICATION, RESULT, GONE)
        }
        self.conflator = Conflator(epoch, self._live_resources.get, self.between, clock, self._sent[CHANGE].inc)

    def _now(self) -> float:
        return self._clock()

    def enter(self, epoch: str, seqs: dict[str, int]) -> None:
        """Go on under another epoch, as when another service leads from now on.

        Positions under the one before are good up to the last seq that each resource had in it, which is in `seqs`.
        """
        self._earlier.append((self.epoch, seqs))
        self.epoch = self.conflator.epoch = epoch

    def _position(self, resource: str, after: str) -> int | None:
        """The seq of a cursor, None where it is none of this history."""
        found = parse_cursor(after, self.epoch)
        for epoch, seqs in self._earlier if found is None else ():
            seq = parse_cursor(after, epoch)
            if seq is not None and seq <= seqs.get(resource, -1):
                return seq
        return found

    def start(self) -> None:
        """Start housekeeping: heartbeats, and dropping channels that were not resumed."""
        self._housekeeping = asyncio.create_task(self._housekeep())

    def stop(self) -> None:
        """Accept no more connections, and end those of clients as soon as their queues are empty."""
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        self.conflator.stop()
        self.connections.stop()

    async def close_all(self, seconds: float = PATIENCE) -> None:
        """Stop, and return when all of clients have ended; those that still send are aborted after `seconds`."""
        self.stop()
        await self.connections.wait_closed(seconds)

    def counts(self) -> Counts:
        """How much is open now."""
        return Counts(len(self.connections), self._streams, self._live)

    def is_read(self, resource: str, id: str) -> bool:
        """Whether a stream of this subscription is open."""
        live = self._live_of(resource, id)
        return live is not None and any(channel.readers for channel in live.channels())

    def read_now(self) -> Iterator[tuple[str, str]]:
        """The subscriptions that a stream is open of, by resource and id. O(live subscriptions)."""
        for resource, live_resource in self._live_resources.items():
            for id, live in live_resource.by_id.items():
                if any(channel.readers for channel in live.channels()):
                    yield resource, id

    def cursors(self, readers: Iterable[Reader]) -> dict[str, str]:
        """By resource, the cursor up to which all of these readers have every message, sent or in the queue.

        Resources for which it differs between readers, since some have changes held back, are left out.
        """
        seqs: dict[str, set[int]] = {}
        for reader in readers:
            channel, conflation = reader.channel, reader.conflation
            live_resource = None if channel is None else self._live_resources.get(channel.resource)
            if channel is not None and live_resource is not None:
                held = conflation is not None and conflation.last is not None
                at = conflation.at if held and conflation is not None else live_resource.delivered_seq(channel)
                seqs.setdefault(live_resource.resource, set()).add(at)
        return {name: f"{self.epoch}:{at.pop()}" for name, at in sorted(seqs.items()) if len(at) == 1}

    def following(self, resource: str, id: str) -> Following | None:
        """What following a subscription costs; None when it is not live. O(messages kept)."""
        live = self._live_of(resource, id)
        if live is None:
            return None
        channels = live.channels()
        kept = [text for channel in channels for _, text in channel.pairs()]
        return Following(
            sum(len(channel.readers) for channel in channels),
            len(kept),
            sum(channel.published for channel in channels),
            CHANNEL * len(channels) + sum(MESSAGE + len(text) for text in kept),
        )

    # --- streams ----------------------------------------------------------------------------------------------------

    def source(self, resource: str) -> tuple[Source, str]:
        """The type of a resource, and its name without the prefix. Raises the problem 404."""
        prefix, slash, name = resource.partition("/")
        source = self._sources.get(prefix + slash)
        if source is None or not name:
            raise NotFound("resource", f"there is no resource {resource!r}")
        return source, name

    def between(self, resource: str, fn: Callable[[], T]) -> Awaitable[T]:
        """Run `fn` on the loop between two slices of a resource. Raises the problem 404 for an unknown type."""
        source, name = self.source(resource)
        return source.between(name, fn)

    def missing(self, resource: str, ids: Iterable[str]) -> list[str]:
        """Those of the ids that are no subscriptions of a resource. Raises the problem 404 where that is not there."""
        source, engine = self._find(resource)
        return [id for id in ids if not source.has(engine, id)]

    async def open_stream(
        self, reader: Reader, resource: str, id: str, form: Form, after: str | None, replaces: Reader | None = None
    ) -> None:
        """Begin a stream with what was missed since `after`, or with `reset`.

        When `after` is None it begins with what its resource type says.

        A reader that `wants_ready` gets a `ready` after that.

        `replaces` is a stream of the same connection that ends in the same moment. Raises the problems 404 for an
        unknown resource or subscription, 429 for too many streams and 503 when the service is ending.
        """
        self._check_room(replaces)
        self._find(resource)
        try:
            await self.between(resource, partial(self._attach, reader, resource, id, form, after, replaces))
        except BaseException:
            reader.void = True
            self.close_stream(reader)
            raise

    def _attach(
        self, reader: Reader, resource: str, id: str, form: Form, after: str | None, replaces: Reader | None
    ) -> None:
        if reader.void or reader.connection not in self.connections:
            return
        self._check_room(replaces)
        live_resource, live = self._follow(resource, id)
        channel: Channel | None = getattr(live, form)
        missed, seq = None, None
        if channel is not None and (channel.readers or self._clock() - channel.left_at < self.limits.resume_seconds):
            seq = None if after is None else self._position(resource, after)
            if seq is not None and seq <= live_resource.delivered_seq(channel):
                missed = channel.missed(seq)
        else:
            channel = live_resource.channel(resource, id, form, live_resource.seq, self.limits.resume_changes)
            setattr(live, form, channel)
            live_resource.set_active(live, form, True)
            channel.floor = channel.diffs_floor = live_resource.delivered_seq(channel)
            seq = None if after is None else parse_cursor(after, self.epoch)
        if missed is None and seq is not None:
            missed = live_resource.missed(live, form, seq)
        if missed is None:
            missed = [live_resource.first_message(live, form, after is None)]
        elif missed and reader.conflation is not None and seq is not None:
            missed = self.conflator.missed(live_resource, live, channel, seq, missed)
        if reader.conflation is not None:
            channel.keep_diffs(live_resource.seq)
        if replaces is not None:
            self.close_stream(replaces)
        channel.add(reader)
        reader.channel = channel
        self._streams += 1
        self._begin(live_resource, reader, missed)
        self._touch(channel)

    def continue_stream(self, reader: Reader, resource: str, id: str, form: Form, seq: int) -> bool:
        """Begin a stream that has everything up to a seq, where the resource is at that seq; return whether it is.

        Between two slices, and for connections that are `lasting`: nothing is counted against a limit. Raises the
        problem 404.
        """
        _, engine = self._find(resource)
        if engine.seq != seq:
            return False
        live_resource, live = self._follow(resource, id)
        channel: Channel | None = getattr(live, form)
        if channel is None:
            channel = live_resource.channel(resource, id, form, live_resource.seq, self.limits.resume_changes)
            setattr(live, form, channel)
            live_resource.set_active(live, form, True)
        channel.add(reader)
        reader.channel = channel
        self._streams += 1
        self._touch(channel)
        return True

    def position(self, reader: Reader) -> int | None:
        """The seq up to which a reader has every message, sent or in the queue; None for one that follows nothing."""
        channel = reader.channel
        live_resource = None if channel is None else self._live_resources.get(channel.resource)
        return None if channel is None or live_resource is None else live_resource.delivered_seq(channel)

    def followed_seq(self, resource: str) -> int | None:
        """The seq up to which all readers of a resource have every message; None where it has no readers."""
        live_resource = self._live_resources.get(resource)
        return None if live_resource is None else live_resource.seq

    def _begin(self, live_resource: LiveResource, reader: Reader, items: list[Message]) -> None:
        """Queue the catch-up messages, followed by `ready` if the reader wants it and they do not imply it."""
        if reader.wants_ready and not (items and items[-1].event == READY):
            seq = live_resource.seq if reader.channel is None else live_resource.delivered_seq(reader.channel)
            items.append(self.message(seq, READY, f'{{"seq":{seq}}}'))
        reader.begin(items)
        self.conflator.caught_up(live_resource, reader, items)

    def _find(self, resource: str) -> tuple[Source, StreamedEngine]:
        source, name = self.source(resource)
        engine = source.find(name)
        if engine is None:
            raise NotFound(source.noun, f"there is no {source.noun} {name!r}")
        return source, engine

    def _follow(self, resource: str, id: str) -> tuple[LiveResource, LiveSubscription]:
        source, engine = self._find(resource)
        live_resource = self._live_resources.get(resource) or source.live(resource, engine, self)
        live_resource.seq = engine.seq
        live = live_resource.by_id.get(id)
        if live is None:
            try:
                live = live_resource.watch(id)
            except KeyError:
                raise NotFound("id", f"there is no {source.subscription_noun} {id!r}") from None
            live_resource.by_id[id] = live
            self._live_resources[resource] = live_resource
            self._live += 1
        return live_resource, live

    def close_stream(self, reader: Reader) -> None:
        """Close a stream and drop its queued messages. Idempotent."""
        channel = reader.channel
        if channel is None:
            return
        reader.channel = None
        reader.connection.discard(reader)
        channel.remove(reader)
        self._streams -= 1
        if not channel.readers:
            channel.left_at = self._clock()
            self._left.append((channel.left_at + self.limits.resume_seconds, channel))
        self._touch(channel)

    def _expire_stream(self, reader: Reader) -> None:
        """Close a stream with `gone`, since the time of its caller is over."""
        channel = reader.channel
        if channel is not None:
            live_resource = self._live_resources.get(channel.resource)
            seq = 0 if live_resource is None else live_resource.delivered_seq(channel)
            self.close_stream(reader)
            reader.finish(self.message(seq, GONE, f'{{"seq":{seq},"reason":"expired"}}'))

    async def catch_up(self, connection: Connection) -> None:
        """Queue whole lists for readers of a connection that fell behind, for some where there is much. Its queue is
        empty.
        """
        late, connection.late = connection.late, []
        resources = {reader.channel.resource for reader in late if reader.channel is not None}
        for resource in resources:
            await self.between(resource, partial(self._renew, resource, late))

    def _renew(self, resource: str, late: Iterable[Reader]) -> None:
        live_resource = self._live_resources.get(resource)
        for reader in late:
            channel = reader.channel
            if live_resource is not None and channel is not None and channel.resource == resource:
                if reader.connection.nbytes > reader.connection.most:
                    reader.connection.late.append(reader)
                    continue
                live_resource.seq = live_resource.engine.seq
                first = live_resource.first_message(live_resource.by_id[channel.id], channel.form, False)
                self._begin(live_resource, reader, [first])
                self._metrics.stream_collapses.inc()

    def _check_room(self, replaces: Reader | None) -> None:
        if self.connections.closing:
            raise NotReady("the service is ending")
        if replaces is None and self._streams >= self.limits.max_streams:
            raise too_many(self.limits)

    # --- delivery -------------------------------------------------------------------------------------------------

    def deliver(self, resource: str, slice: Any) -> None:
        """Queue for all readers of a resource what a slice changed."""
        live_resource = self._live_resources.get(resource)
        if live_resource is None:
            return
        tracer = tracing.tracer
        if tracer is None or not tracer.applied:
            live_resource.deliver(slice)
        else:
            with tracer.delivery(resource, f"{self.epoch}:{slice.last_seq}"):
                live_resource.deliver(slice)

    def resource_gone(self, resource: str, seq: int) -> None:
        """A resource was deleted at `seq`: its streams end."""
        live_resource = self._live_resources.get(resource)
        if live_resource is not None:
            live_resource.seq = seq
            for live in list(live_resource.by_id.values()):
                self.end(live_resource, live, seq)

    def resource_rebuilt(self, resource: str) -> None:
        """A resource has another engine, whose state may be an earlier one: its streams go on with `reset`, and those
        of subscriptions that it lacks end.
        """
        before = self._live_resources.pop(resource, None)
        for old in [] if before is None else list(before.by_id.values()):
            self._live -= 1
            read = [(form, channel) for form in old.forms if (channel := getattr(old, form)) is not None]
            read = [(form, channel) for form, channel in read if channel.readers]
            if not read:
                continue
            try:
                live_resource, live = self._follow(resource, old.id)
            except NotFound:
                for _, channel in read:
                    self._finish(channel, before.seq if before is not None else 0)
                continue
            for form, channel in read:
                fresh = live_resource.channel(resource, old.id, form, live_resource.seq, self.limits.resume_changes)
                setattr(live, form, fresh)
                live_resource.set_active(live, form, True)
                for reader in cast("dict[Reader, None]", channel.take_readers()):
                    fresh.add(reader)
                    reader.channel = fresh
                    if reader.conflation is not None:
                        fresh.keep_diffs(live_resource.seq)
                    reader.connection.discard(reader)
                    reader.connection.late.append(reader)
                    reader.connection.wake()

    def end(self, live_resource: LiveResource, live: LiveSubscription, seq: int) -> None:
        """End the streams of a deleted subscription."""
        self._forget(live_resource, live)
        for channel in live.channels():
            self._finish(channel, seq)

    def _finish(self, channel: Channel, seq: int) -> None:
        """End the streams of a channel."""
        last = message(self.epoch, seq, GONE, f'{{"seq":{seq}}}')
        readers = channel.take_readers()
        self._streams -= len(readers)
        self._sent[GONE].inc(len(readers))
        for reader in readers:
            reader.finish(last)

    def message(self, seq: int, event: str, data: str) -> Message:
        """A message for one reader, or for all of a channel."""
        self._sent[event].inc()
        return message(self.epoch, seq, event, data)

    def count(self, event: str, messages: int) -> None:
        """Count sent messages."""
        self._sent[event].inc(messages)

    # --- housekeeping ------------------------------------------------------------------------------------------------

    async def _housekeep(self) -> None:
        shortest = min(self.limits.heartbeat_seconds, self.limits.resume_seconds or MOST_SECONDS_BETWEEN_ROUNDS)
        pause = min(MOST_SECONDS_BETWEEN_ROUNDS, max(0.02, shortest / 4))
        while True:
            await asyncio.sleep(pause)
            try:
                await self.send_heartbeats()
                await self.drop_lapsed()
            except Exception:
                self._log.exception("housekeeping failed")

    async def send_heartbeats(self) -> None:
        """Send a heartbeat to every connection for which one is due."""
        due = self.connections.take_due()
        channels = [reader.channel for connection in due for reader in connection.readers()]
        resources = {channel.resource for channel in channels if channel is not None}
        for resource in resources:
            await self.settle(resource)
        for connection in due:
            connection.heartbeat_due = True
            connection.wake()

    async def settle(self, resource: str) -> None:
        """Let readers of a resource be at its seq, also where what led there changed nothing for them."""
        await self.between(resource, partial(self._settle, resource))

    def _settle(self, resource: str) -> None:
        live_resource = self._live_resources.get(resource)
        if live_resource is not None:
            live_resource.seq = live_resource.engine.seq

    async def drop_lapsed(self) -> None:
        """Drop the channels that were not resumed in time."""
        now = self._clock()
        lapsed: dict[str, list[Channel]] = {}
        while self._left and self._left[0][0] <= now:
            channel = self._left.popleft()[1]
            lapsed.setdefault(channel.resource, []).append(channel)
        for resource, channels in lapsed.items():
            await self.between(resource, partial(self._drop, resource, channels))

    def _drop(self, resource: str, channels: Iterable[Channel]) -> None:
        live_resource = self._live_resources.get(resource)
        now = self._clock()
        for channel in channels:
            live = None if live_resource is None else live_resource.by_id.get(channel.id)
            if live_resource is None or live is None or getattr(live, channel.form) is not channel:
                continue
            if channel.readers or now - channel.left_at < self.limits.resume_seconds:
                continue
            setattr(live, channel.form, None)
            live_resource.set_active(live, channel.form, False)
            if not live.channels():
                live_resource.unwatch(live)
                self._forget(live_resource, live)

    def _forget(self, live_resource: LiveResource, live: LiveSubscription) -> None:
        del live_resource.by_id[live.id]
        live_resource.forget(live)
        self._live -= 1
        if not live_resource.by_id:
            del self._live_resources[live_resource.resource]

    def _live_of(self, resource: str, id: str) -> LiveSubscription | None:
        live_resource = self._live_resources.get(resource)
        return None if live_resource is None else live_resource.by_id.get(id)

    def _touch(self, channel: Channel) -> None:
        if self.on_open is not None:
            self.on_open(channel.resource, channel.id)
