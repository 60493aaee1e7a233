"""How tests put messages into each broker, and what they find among its dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import pytest

Record = dict[str, Any]
DEAD = "dead"


class Feed(Protocol):
    """One stream, queue or topic of a broker, made by the test. `source` is its address, and `done` the function of the
    connector that acknowledges a batch there.
    """

    source: str
    done: str

    def publish(self, messages: Sequence[bytes]) -> None:
        """Add messages, in order."""
        ...

    def dead(self) -> list[Record]:
        """The dead letters so far."""
        ...

    def remove(self) -> None:
        """Leave nothing behind."""
        ...


class NatsFeed:
    """A stream of JetStream."""

    done = "app.connectors.sources.nats:NatsSource.done"

    def __init__(self, url: str, name: str, retention: str = "limits") -> None:
        pytest.importorskip("nats")
        self._url, self._name = url, name
        self.source = f"{url}/{name}"
        self._run(lambda js: js.add_stream(name=name, subjects=[f"in.{name}"], retention=retention))

    def _run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        import nats

        async def run() -> Any:
            connection = await nats.connect(self._url)
            try:
                return await work(connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(run())

    def publish(self, messages: Sequence[bytes]) -> None:
        async def publish(js: Any) -> None:
            for first in range(0, len(messages), 200):
                some = messages[first : first + 200]
                await asyncio.gather(*(js.publish(f"in.{self._name}", one) for one in some))

        self._run(publish)

    def dead(self) -> list[Record]:
        async def read(js: Any) -> list[Record]:
            info = await js.stream_info(f"{self._name}_{DEAD}")
            return [
                json.loads((await js.get_msg(f"{self._name}_{DEAD}", number)).data)
                for number in range(1, info.state.last_seq + 1)
            ]

        found: list[Record] = self._run(read)
        return found

    def remove(self) -> None:
        async def remove(js: Any) -> None:
            from nats.js.errors import NoKeysError

            for name in (self._name, f"{self._name}_{DEAD}"):
                await js.delete_stream(name)
            places = await js.key_value("RANKCAST_CONNECT")
            try:
                there = await places.keys()
            except NoKeysError:
                there = []
            for key in there:
                if self._name in key:
                    await places.purge(key)

        self._run(remove)


class RedisFeed:
    """A stream of Redis, its JSON in the field `data`."""

    done = "app.connectors.sources.redis:RedisSource.done"

    def __init__(self, url: str, name: str) -> None:
        redis = pytest.importorskip("redis")
        self._name = name
        self._redis = redis.Redis.from_url(url)
        self.source = f"{url}/{name}"

    def publish(self, messages: Sequence[bytes]) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for message in messages:
                pipe.xadd(self._name, {"data": message})
            pipe.execute()

    def dead(self) -> list[Record]:
        return [json.loads(fields[b"data"]) for _, fields in self._redis.xrange(f"{self._name}.{DEAD}")]

    def remove(self) -> None:
        for key in self._redis.scan_iter(f"*{self._name}*"):
            self._redis.delete(key)


class KafkaFeed:
    """A topic with four partitions. Message i goes to the partition i modulo four."""

    PARTITIONS = 4

    done = "app.connectors.sources.kafka:KafkaSource.done"

    def __init__(self, url: str, name: str) -> None:
        pytest.importorskip("aiokafka")
        self._hosts, self._name = url.removeprefix("kafka://"), name
        self.source = f"{url}/{name}"

    def publish(self, messages: Sequence[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        async def publish() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self._hosts, enable_idempotence=True) as producer:
                sent = [
                    await producer.send(self._name, message, partition=number % self.PARTITIONS)
                    for number, message in enumerate(messages)
                ]
                await asyncio.gather(*sent)

        asyncio.run(publish())

    def dead(self) -> list[Record]:
        """Each once: they arrive at least once."""
        from aiokafka import AIOKafkaConsumer

        async def read() -> list[Record]:
            found: dict[tuple[str, str, Any], Record] = {}
            async with AIOKafkaConsumer(
                f"{self._name}.{DEAD}", bootstrap_servers=self._hosts, auto_offset_reset="earliest"
            ) as consumer:
                while batch := await consumer.getmany(timeout_ms=3000):
                    for one in (record for records in batch.values() for record in records):
                        letter = json.loads(one.value)
                        found[letter["partition"], letter["position"], letter["index"]] = letter
            return list(found.values())

        return asyncio.run(read())

    def remove(self) -> None:
        """The cluster ends with the test."""


class RabbitFeed:
    """A durable queue."""

    done = "app.connectors.sources.subscribed:SubscribedSource.done"

    def __init__(self, url: str, name: str) -> None:
        pytest.importorskip("aio_pika")
        self._url, self._name = url, name
        self.source = f"{url}/{name}"

        async def declare(channel: Any) -> None:
            await channel.declare_queue(name, durable=True)

        self._run(declare)

    def _run(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        import aio_pika

        async def run() -> Any:
            connection = await aio_pika.connect(self._url)
            async with connection:
                # Without confirmations messages go out as fast as they are written; what follows them waits for them.
                return await work(await connection.channel(publisher_confirms=False))

        return asyncio.run(run())

    def publish(self, messages: Sequence[bytes]) -> None:
        import aio_pika

        async def publish(channel: Any) -> None:
            for message in messages:
                body = aio_pika.Message(message, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(body, self._name)
            await channel.get_queue(self._name)

        self._run(publish)

    def dead(self) -> list[Record]:
        async def read(channel: Any) -> list[Record]:
            queue = await channel.get_queue(f"{self._name}.{DEAD}")
            found = []
            while (one := await queue.get(fail=False)) is not None:
                found.append(json.loads(one.body))
            return found

        found: list[Record] = self._run(read)
        return found

    def remove(self) -> None:
        async def remove(channel: Any) -> None:
            for name in (self._name, f"{self._name}.{DEAD}"):
                await channel.queue_delete(name)

        self._run(remove)


class MqttFeed:
    """A topic, each message at least once. The session of the connector has to be there before the first."""

    done = "app.connectors.sources.subscribed:SubscribedSource.done"

    def __init__(self, url: str, name: str) -> None:
        pytest.importorskip("paho.mqtt")
        self._host, _, port = url.removeprefix("mqtt://").partition(":")
        self._port = int(port)
        self._name = name
        self.source = f"{url}/{name}"
        self._letters: list[Record] = []
        self._listener = self._client()
        self._listener.on_message = lambda *given: self._letters.append(json.loads(given[2].payload))
        self._listener.subscribe(f"{name}.{DEAD}", 1)

    def _client(self) -> Any:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        client = Client(CallbackAPIVersion.VERSION2)
        client.connect(self._host, self._port)
        client.loop_start()
        return client

    def publish(self, messages: Sequence[bytes]) -> None:
        client = self._client()
        for info in [client.publish(self._name, message, 1) for message in messages]:
            info.wait_for_publish(60)
        client.disconnect()
        client.loop_stop()

    def dead(self) -> list[Record]:
        return list(self._letters)

    def remove(self) -> None:
        self._listener.disconnect()
        self._listener.loop_stop()
