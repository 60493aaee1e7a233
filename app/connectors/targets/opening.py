"""The target of an address."""

from __future__ import annotations

from app.connectors.addresses import Address
from app.connectors.targets.base import Target


def target_of(address: Address, resource: str, keep: int | None) -> Target:
    """The target of an address, not opened. Raises ConnectorError where its client is not installed."""
    if address.broker == "nats":
        from app.connectors.targets.nats import NatsTarget

        return NatsTarget(address)
    if address.broker == "redis":
        from app.connectors.targets.redis import RedisTarget

        return RedisTarget(address, resource, keep)
    from app.connectors.targets.faststream import FastStreamTarget

    return FastStreamTarget(address, resource.replace("/", "-"))
