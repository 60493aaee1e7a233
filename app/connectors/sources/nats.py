"""NATS JetStream: a durable consumer, and the position in a key-value bucket."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import BrokerLost, ConnectorError, extra
from app.connectors.messages import Chunk, Message, Span
from app.connectors.pauses import quietly
from app.connectors.reaching import reaching_nats
from app.connectors.sources.base import SECONDS, WAIT, Options, Place, no_dead, parse_place, taken_over

BUCKET = "RANKCAST_CONNECT"
ACK_SECONDS = 3600.0
"""After so long without an acknowledgement the broker delivers again; what was read already is passed over."""

TOGETHER = 256
"""Dead letters under way at once."""

EXPIRES, HEARTBEAT = 30.0, 5.0
"""Seconds for which the broker keeps a request for messages, and between its signs of life meanwhile."""

_ACK = "$JS.ACK."
_CONFLICT = "409"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


class NatsSource:
    """A stream of JetStream. Positions are its sequence numbers."""

    exact = True
    drop: Callable[[Iterable[str]], None]

    def __init__(self, address: Address, options: Options) -> None:
        self._nats = extra("nats", "NATS")
        self._js_errors = extra("nats.js.errors", "NATS")
        self._api = extra("nats.js.api", "NATS")
        self._address, self._options = address, options
        self._stream, self._dead = address.path, f"{address.path}.dead"
        self._key = f"{_token(self._stream)}.{_token(options.name)}"
        self._durable = f"rankcast-{_token(options.name)}"
        self.identity = str(address)
        self._connection: Any = None
        self._forget()

    def _forget(self) -> None:
        self._revision: int | None = None
        self._span: Span | None = None
        self._read_to = 0
        self._pull: _Pull | None = None

    async def open(self) -> None:
        self._forget()
        with reaching_nats(self._address):
            self._connection = await self._nats.connect(
                self._address.url, allow_reconnect=False, connect_timeout=SECONDS, error_cb=_ignore
            )
            self._js = self._connection.jetstream(timeout=SECONDS)
            try:
                info = await self._js.stream_info(self._stream)
            except self._js_errors.NotFoundError:
                raise ConnectorError(f"{self._address}: there is no such stream") from None
            self._config = info.config
            self.identity = f"{self._address} {info.created}"
            if not self._options.dead_elsewhere:
                await self._hold_dead_letters()
            await self._take_place(info)
            await self._consume()

    async def _hold_dead_letters(self) -> None:
        """See to it that a stream, and not this one, keeps dead letters."""
        try:
            holder = await self._js.find_stream_name_by_subject(self._dead)
        except self._js_errors.NotFoundError:
            name = f"{self._stream}_dead"
            await self._js.add_stream(self._api.StreamConfig(name=name, subjects=[self._dead]))
            return
        if holder == self._stream:
            raise no_dead(self._address, self._dead)

    async def _take_place(self, info: Any) -> None:
        try:
            self._kv = await self._js.key_value(BUCKET)
        except self._js_errors.BucketNotFoundError:
            self._kv = await self._js.create_key_value(self._api.KeyValueConfig(bucket=BUCKET, history=1))
        try:
            entry = await self._kv.get(self._key)
        except self._js_errors.KeyNotFoundError:
            place = None
        else:
            self._revision = entry.revision
            place = parse_place(entry.value, f"{BUCKET}/{self._key}")
        if place is not None and place.source == str(info.created):
            self._read_to = int(place.last) if place.done else int(place.first) - 1
            self._span = None if place.done else Span("", place.first, place.last)
        elif self._options.begin == "new":
            self._read_to = info.state.last_seq
        self._created = str(info.created)

    async def _consume(self) -> None:
        """A consumer that begins behind what was read; the one before it goes."""
        api, js = self._api, self._js
        queue = self._config.retention == api.RetentionPolicy.WORK_QUEUE
        names = [one.name async for one in self._consumers()]
        # A stream that is kept for its consumers must not be without one, and a work queue has one alone.
        name = next(name for i in range(len(names) + 1) if (name := f"{self._durable}-{i}") not in names)
        if queue:
            await self._remove(names)
        await js.add_consumer(
            self._stream,
            api.ConsumerConfig(
                durable_name=name,
                deliver_policy=api.DeliverPolicy.ALL if queue else api.DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=None if queue else self._read_to + 1,
                ack_policy=api.AckPolicy.EXPLICIT if queue else api.AckPolicy.ALL,
                ack_wait=ACK_SECONDS,
                max_ack_pending=max(20_000, 4 * self._options.ahead),
            ),
        )
        if not queue:
            await self._remove(names)
        self._each = queue
        if self._pull is not None:
            await self._pull.close()
        self._pull = _Pull(self._connection, self._stream, name, self._options.ahead)
        await self._pull.open()

    async def _consumers(self) -> AsyncIterator[Any]:
        offset = 0
        while page := await self._js.consumers_info(self._stream, offset=offset):
            offset += len(page)
            for one in page:
                if re.fullmatch(re.escape(self._durable) + r"-\d+", one.name):
                    yield one

    async def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            await self._js.delete_consumer(self._stream, name)

    async def read(self, most: int) -> Chunk | None:
        with reaching_nats(self._address):
            if self._span is not None:
                span, self._span = self._span, None
                return Chunk("", await self._read_to_end_of(span, most), span)
            messages = await self._fetch(most)
            return Chunk("", messages) if messages else None

    async def _read_to_end_of(self, span: Span, most: int) -> list[Message]:
        """What is still there of a request that may have been sent before."""
        found: list[Message] = []
        last = int(span.last)
        while self._read_to < last:
            left = last - self._read_to
            more = await self._fetch(min(most, left))
            beyond = [message for message in more if int(message.position) > last]
            found += more[: len(more) - len(beyond)]
            if beyond or (not more and not await self._left()):
                # The rest was deleted; what lies behind it is read again.
                self._read_to = last
                await self._consume()
        return found

    async def _left(self) -> int:
        """How much of the stream this consumer has not delivered."""
        assert self._pull is not None
        info = await self._js.consumer_info(self._stream, self._pull.consumer)
        left: int = info.num_pending
        return left

    async def _fetch(self, most: int) -> list[Message]:
        assert self._pull is not None
        found = []
        for one in await self._pull.take(most):
            sequence, delivery = _numbers(one.reply)
            if delivery != self._pull.delivered + 1:
                # A delivery was lost on its way, and would come late: begin again behind what is here.
                await self._consume()
                break
            self._pull.delivered = delivery
            if sequence > self._read_to:
                self._read_to = sequence
                found.append(Message(str(sequence), one.data, handle=one.reply))
        return found

    async def begin(self, span: Span) -> bool:
        await self._keep(Place(span.first, span.last, False, self._created))
        return True

    async def done(self, span: Span, messages: Sequence[Message], dead: Sequence[bytes], more: bool) -> bool:
        with reaching_nats(self._address):
            for first in range(0, len(dead), TOGETHER):
                await asyncio.gather(*map(self._bury, range(first, len(dead)), dead[first : first + TOGETHER]))
            for message in messages if self._each else messages[-1:]:
                await self._connection.publish(message.handle, b"+ACK")
            if self._each:
                await self._connection.flush(SECONDS)
        if not more:
            await self._keep(Place(span.first, span.last, True, self._created))
        return True

    async def _bury(self, number: int, record: bytes) -> None:
        # A letter that is sent again is the same one: the stream keeps it once.
        id = hashlib.sha256(b"%s %d %s" % (self.identity.encode(), number, record)).hexdigest()
        await self._js.publish(self._dead, record, headers={"Nats-Msg-Id": id})

    async def _keep(self, place: Place) -> None:
        """Keep the place, unless another connector has kept one since."""
        with reaching_nats(self._address):
            try:
                if self._revision is None:
                    self._revision = await self._kv.create(self._key, place.dump())
                else:
                    self._revision = await self._kv.update(self._key, place.dump(), last=self._revision)
            except self._js_errors.KeyWrongLastSequenceError:
                raise taken_over(self._options.name) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await quietly(connection.close())


class _Pull:
    """Messages that are asked for before they are needed, never more than `ahead`.

    The client's own `fetch` asks when the one before has been answered, which leaves the broker idle in between.
    """

    def __init__(self, connection: Any, stream: str, consumer: str, ahead: int) -> None:
        self.consumer = consumer
        self.delivered = 0
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._ahead = ahead
        self._asked = 0
        self._waiting: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._heard = time.monotonic()
        self._lost = ""
        self._inbox = ""
        self._subscription: Any = None

    async def open(self) -> None:
        self._inbox = self._connection.new_inbox()
        self._subscription = await self._connection.subscribe(
            self._inbox, cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def close(self) -> None:
        await self._subscription.unsubscribe()

    async def _take(self, message: Any) -> None:
        self._heard = time.monotonic()
        headers = message.headers
        if headers and not message.reply.startswith(_ACK):
            status = headers.get("Status", "")
            self._asked -= int(headers.get("Nats-Pending-Messages", 0))
            if status == _CONFLICT and "Nats-Pending-Messages" not in headers:
                self._lost = headers.get("Description", status)
        else:
            self._asked -= 1
            self._waiting.append(message)
        self._arrived.set()

    async def take(self, most: int) -> list[Any]:
        """What is here, up to so many messages; what comes within a moment where that is nothing."""
        if len(self._waiting) + self._asked <= self._ahead // 2:
            more = self._ahead - len(self._waiting) - self._asked
            self._asked += more
            # Without a request the broker says nothing.
            self._heard = time.monotonic()
            asked = {"batch": more, "expires": int(EXPIRES * 1e9), "idle_heartbeat": int(HEARTBEAT * 1e9)}
            await self._connection.publish(self._subject, json.dumps(asked).encode(), reply=self._inbox)
        if not self._waiting:
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT):
                    await self._arrived.wait()
        if not self._waiting:
            if self._connection.is_closed:
                raise BrokerLost("the connection was closed")
            if self._lost:
                raise BrokerLost(self._lost)
            if time.monotonic() - self._heard > 3 * HEARTBEAT:
                raise BrokerLost("it sends no heartbeats")
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]


async def _ignore(error: Exception) -> None:
    """Errors are raised where they matter."""


def _token(text: str) -> str:
    """A name as part of a subject: what is not allowed there is written as its code."""
    return "".join(one if _PLAIN.fullmatch(one) else f"={ord(one):02X}" for one in text)


def _numbers(reply: str) -> tuple[int, int]:
    """The sequence numbers of a message in its stream and of its delivery, from where it is acknowledged.

    >>> _numbers("$JS.ACK.EVENTS.mine.1.17.5.1700000000000000000.0")
    (17, 5)
    """
    parts = reply.split(".")
    return (int(parts[5]), int(parts[6])) if len(parts) == 9 else (int(parts[7]), int(parts[8]))
