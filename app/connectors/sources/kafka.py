"""Kafka topics: a consumer group, whose committed offsets carry in their metadata what may have been sent."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import BrokerLost, ConnectorError, extra
from app.connectors.messages import Chunk, Message, Span
from app.connectors.pauses import quietly
from app.connectors.sources.base import WAIT, Options, Place, parse_place

REQUEST_MS = 20_000
JOIN_SECONDS = 120.0
"""For how long a group may be without partitions: until the members before are known to be gone."""


class KafkaSource:
    """A topic. A lane is a partition, positions are offsets; several connectors of one name share the partitions."""

    exact = True
    drop: Callable[[Iterable[str]], None]

    def __init__(self, address: Address, options: Options) -> None:
        self._kafka = extra("aiokafka", "Kafka")
        self._admins = extra("aiokafka.admin", "Kafka")
        self._errors = extra("aiokafka.errors", "Kafka")
        self._address, self._options = address, options
        self._topic, self._group = address.path, f"rankcast-{options.name}"
        self.identity = str(address)
        self.drop = _nothing
        self._consumer: Any = None
        self._admin: Any = None
        self._producer: Any = None
        self._term = 0
        self._forget()

    def _forget(self) -> None:
        self._terms: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._ready: deque[Chunk] = deque()
        self._assigned = asyncio.Event()
        self._failed: Exception | None = None

    async def open(self) -> None:
        self._forget()
        async with self._reaching():
            servers = self._address.hosts
            self._admin = self._admins.AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=REQUEST_MS)
            await self._admin.start()
            self._consumer = self._kafka.AIOKafkaConsumer(
                bootstrap_servers=servers,
                group_id=self._group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                request_timeout_ms=REQUEST_MS,
                isolation_level="read_committed",
            )
            self._consumer.subscribe([self._topic], listener=self._listener())
            await self._consumer.start()
            if not self._options.dead_elsewhere:
                self._producer = self._kafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
                await self._producer.start()

    def _listener(self) -> Any:
        source = self

        class Listener(self._kafka.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]
            async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                source._give_up(revoked)

            async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                try:
                    await source._take(list(assigned))
                except Exception as error:
                    # The consumer would only log it, and go on.
                    source._failed = error
                source._assigned.set()

        return Listener()

    def _give_up(self, partitions: Iterable[Any]) -> None:
        lanes = [str(one.partition) for one in partitions]
        for lane in lanes:
            self._terms.pop(lane, None)
            self._next.pop(lane, None)
        self._ready = deque(chunk for chunk in self._ready if chunk.lane not in lanes)
        self.drop(lanes)

    async def _take(self, partitions: list[Any]) -> None:
        """Go on from what is committed of these partitions, and read again what may have been sent."""
        if not partitions:
            return
        self._term += 1
        consumer = self._consumer
        async with self._reaching():
            committed = await self._admin.list_consumer_group_offsets(self._group, partitions=partitions)
            for partition in partitions:
                lane = str(partition.partition)
                kept = committed.get(partition)
                if kept is None or kept.offset < 0:
                    ends = consumer.beginning_offsets if self._options.begin == "first" else consumer.end_offsets
                    at = (await ends([partition]))[partition]
                else:
                    at = kept.offset
                if kept is not None and kept.metadata:
                    place = parse_place(kept.metadata, f"{self._address}, partition {lane}")
                    span = Span(lane, place.first, place.last, self._term)
                    self._ready.append(Chunk(lane, await self._again(partition, span), span))
                    at = int(place.last) + 1
                # Only now: what the consumer has fetched meanwhile is not what comes next.
                consumer.seek(partition, at)
                self._next[lane], self._terms[lane] = at, self._term

    async def _again(self, partition: Any, span: Span) -> list[Message]:
        """What is still there of a request that may have been sent before."""
        end = (await self._consumer.end_offsets([partition]))[partition]
        found: list[Message] = []
        last = int(span.last)
        reader = self._kafka.AIOKafkaConsumer(
            bootstrap_servers=self._address.hosts, group_id=None, isolation_level="read_committed"
        )
        await reader.start()
        try:
            reader.assign([partition])
            reader.seek(partition, int(span.first))
            while (at := await reader.position(partition)) <= last and at < end:
                for records in (await reader.getmany(partition, timeout_ms=int(WAIT * 1000))).values():
                    found += [self._message(record, span.term) for record in records if record.offset <= last]
        finally:
            await reader.stop()
        return found

    def _message(self, record: Any, term: int) -> Message:
        fault = "" if record.value is not None else "has no value"
        return Message(str(record.offset), record.value or b"", str(record.partition), fault=fault, term=term)

    async def read(self, most: int) -> Chunk | None:
        self._check()
        if not self._assigned.is_set():
            try:
                async with asyncio.timeout(JOIN_SECONDS):
                    await self._assigned.wait()
            except TimeoutError:
                raise BrokerLost("the group assigns no partitions") from None
            self._check()
        if not self._ready:
            async with self._reaching():
                found = await self._consumer.getmany(timeout_ms=int(WAIT * 1000), max_records=most)
            self._check()
            for partition, records in found.items():
                lane = str(partition.partition)
                fresh = [one for one in records if lane in self._terms and one.offset >= self._next[lane]]
                if fresh:
                    self._next[lane] = fresh[-1].offset + 1
                    self._ready.append(Chunk(lane, [self._message(one, self._terms[lane]) for one in fresh]))
        return self._ready.popleft() if self._ready else None

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed

    async def begin(self, span: Span) -> bool:
        place = Place(span.first, span.last, False, at=time.time())
        return await self._commit(span, int(span.first), place.dump().decode())

    async def done(self, span: Span, messages: Sequence[Message], dead: Sequence[bytes], more: bool) -> bool:
        async with self._reaching():
            sent = [await self._producer.send(f"{self._topic}.dead", record) for record in dead]
            await asyncio.gather(*sent)
        return await self._commit(span, int(span.last) + 1, "")

    async def _commit(self, span: Span, offset: int, metadata: str) -> bool:
        if self._terms.get(span.lane) != span.term:
            return False
        partition = self._kafka.TopicPartition(self._topic, int(span.lane))
        errors = self._errors
        try:
            async with self._reaching():
                await self._consumer.commit({partition: self._kafka.structs.OffsetAndMetadata(offset, metadata)})
        except (errors.CommitFailedError, errors.IllegalStateError) as error:
            # What follows in this lane must not be committed over what was not.
            raise BrokerLost(f"the group has moved on: {error}") from None
        return True

    async def close(self) -> None:
        opened = (self._consumer, self._producer, self._admin)
        self._consumer = self._producer = self._admin = None
        for one in opened:
            if one is not None:
                await quietly(one.close() if hasattr(one, "close") else one.stop())

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        errors = self._errors
        try:
            yield
        except (errors.CommitFailedError, errors.IllegalStateError):
            raise
        except (
            errors.TopicAuthorizationFailedError,
            errors.GroupAuthorizationFailedError,
            errors.InvalidTopicError,
        ) as error:
            raise ConnectorError(f"{self._address} refuses: {error}") from None
        except (errors.KafkaError, OSError, TimeoutError) as error:
            raise BrokerLost(str(error) or type(error).__name__) from None


def _nothing(lanes: Iterable[str]) -> None:
    """There is nothing to drop before the first chunk."""
