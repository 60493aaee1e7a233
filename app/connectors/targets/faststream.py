"""Kafka, RabbitMQ and MQTT over FastStream: at least once, the cursors in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import BrokerLost, ConnectorError, extra
from app.connectors.following import StreamEvent
from app.connectors.pauses import quietly
from app.connectors.sources.base import SECONDS
from app.connectors.sources.mqtt import mqtt_broker
from app.connectors.sources.rabbitmq import rabbit_url
from app.connectors.targets.base import in_order

SENT_SECONDS = 60.0
"""Until a broker that does not confirm counts as lost."""

_JSON = "application/json"


class FastStreamTarget:
    """A topic or queue. Kafka: the id is the key. MQTT: the topics ``<topic>/<id>``. RabbitMQ: a durable queue."""

    exact = False

    def __init__(self, address: Address, name: str) -> None:
        self._address, self._name = address, name
        kind = {"kafka": "kafka", "amqp": "rabbit", "mqtt": "mqtt"}[address.broker]
        self._module = extra(f"faststream.{kind}", {"kafka": "Kafka", "rabbit": "RabbitMQ", "mqtt": "MQTT"}[kind])
        self._broker: Any = None
        if address.broker == "mqtt":
            self._zmqtt = extra("zmqtt", "MQTT")
            if any(one in "+#" for one in address.path):
                raise ConnectorError(f"{address}: a topic to publish to has no wildcards")

    def _made(self) -> Any:
        quiet = {"apply_types": False, "logger": None}
        if self._address.broker == "kafka":
            return self._module.KafkaBroker(self._address.hosts, enable_idempotence=True, acks="all", **quiet)
        if self._address.broker == "amqp":
            return self._module.RabbitBroker(rabbit_url(self._address), **quiet)
        reconnect = self._zmqtt.ReconnectConfig(enabled=False)
        return mqtt_broker(self._module, self._address, client_id=f"rankcast-publish-{self._name}", reconnect=reconnect)

    async def open(self, ids: Iterable[str]) -> Mapping[str, str]:
        self._broker = self._made()
        await self._reach(self._start(), 2 * SECONDS)
        return {}

    async def _start(self) -> None:
        await self._broker.start()
        if self._address.broker == "amqp":
            self._queue = self._module.RabbitQueue(self._address.path, durable=True)
            await self._broker.declare_queue(self._queue)

    async def publish(self, events: Sequence[StreamEvent]) -> None:
        await self._reach(in_order(events, self._send), SENT_SECONDS)

    async def _send(self, event: StreamEvent) -> None:
        data, path = event.text.encode(), self._address.path
        if self._address.broker == "kafka":
            await self._broker.publish(data, path, key=event.id.encode(), headers={"content-type": _JSON})
        elif self._address.broker == "amqp":
            await self._broker.publish(data, queue=self._queue, persist=True, content_type=_JSON)
        else:
            await self._broker.publish(data, topic=f"{path}/{event.id}", qos=self._zmqtt.QoS.AT_LEAST_ONCE)

    async def close(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await quietly(broker.stop())

    async def _reach(self, work: Any, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await work
        except Exception as error:
            # What a broken connection raises differs from call to call, in FastStream and in the clients under it.
            raise BrokerLost(str(error) or type(error).__name__) from None
