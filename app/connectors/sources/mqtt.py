"""MQTT topics over FastStream: a session that the broker keeps, with every message acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import ConnectorError, extra
from app.connectors.sources.base import Options
from app.connectors.sources.subscribed import SubscribedSource, as_it_is

SESSION_SECONDS = 7 * 24 * 3600
"""How long the broker keeps what comes while the connector is away."""

_UNBOUNDED = 0


class MqttSource(SubscribedSource):
    """A topic or a filter of topics, at least once (QoS 1), in MQTT 5.

    How much is unacknowledged at once is the broker's to say: Mosquitto passes over a limit of ours when it resumes a
    session, and the client ends the connection then.
    """

    def __init__(self, address: Address, options: Options) -> None:
        self._mqtt = extra("faststream.mqtt", "MQTT")
        self._stream = extra("faststream", "MQTT")
        self._zmqtt = extra("zmqtt", "MQTT")
        super().__init__(address, options)
        if not options.dead_elsewhere and any(one in "+#" for one in address.path):
            raise ConnectorError(f"{address} has many topics: name a file for dead letters by --dead")

    async def _subscribed(self) -> Any:
        broker = mqtt_broker(
            self._mqtt,
            self._address,
            client_id=f"rankcast-{self._options.name}",
            clean_session=False,
            session_expiry_interval=SESSION_SECONDS,
            reconnect=self._zmqtt.ReconnectConfig(enabled=False),
            session_replay_buffer_size=_UNBOUNDED,
        )
        client = await broker.connect()
        # FastStream reads nothing before it has subscribed, and subscribing waits until all that the broker sends again
        # is in the buffer. At most 65,535 messages are unacknowledged: packets have no more numbers.
        client.subscribe = partial(client.subscribe, receive_buffer_size=_UNBOUNDED)
        subscriber = broker.subscriber(
            self._address.path, qos=self._zmqtt.QoS.AT_LEAST_ONCE, ack_policy=self._stream.AckPolicy.MANUAL,
            decoder=as_it_is, no_reply=True,
        )  # fmt: skip

        async def take(message: Any) -> None:
            self._take(message)

        subscriber(take)
        return broker

    async def _look(self) -> None:
        if not await self._broker.ping(timeout=5.0):
            self._lose("the connection was closed")

    async def _bury(self, record: bytes) -> None:
        await self._broker.publish(record, topic=f"{self._address.path}.dead", qos=self._zmqtt.QoS.AT_LEAST_ONCE)

    async def _acknowledge(self, messages: Sequence[Any]) -> None:
        for message in messages:
            await message.ack()

    def _fatal(self) -> tuple[type[Exception], ...]:
        return ()


def mqtt_broker(mqtt: Any, address: Address, **options: Any) -> Any:
    """A FastStream broker of this server."""
    return mqtt.MQTTBroker(address.url, apply_types=False, logger=None, graceful_timeout=1.0, **options)
