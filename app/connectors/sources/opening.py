"""The source of an address."""

from __future__ import annotations

from app.connectors.addresses import Address
from app.connectors.errors import ConnectorError
from app.connectors.sources.base import Options, Source


def source_of(address: Address, options: Options) -> Source:
    """The source of an address, not opened. Raises ConnectorError where its client is not installed."""
    if address.broker in ("amqp", "mqtt") and options.begin == "new":
        raise ConnectorError(
            f"{address} has no positions: it begins with what is not acknowledged, whatever --from says"
        )
    if address.broker == "nats":
        from app.connectors.sources.nats import NatsSource

        return NatsSource(address, options)
    if address.broker == "redis":
        from app.connectors.sources.redis import RedisSource

        return RedisSource(address, options)
    if address.broker == "kafka":
        from app.connectors.sources.kafka import KafkaSource

        return KafkaSource(address, options)
    if address.broker == "amqp":
        from app.connectors.sources.rabbitmq import RabbitSource

        return RabbitSource(address, options)
    from app.connectors.sources.mqtt import MqttSource

    return MqttSource(address, options)
