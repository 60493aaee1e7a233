"""RabbitMQ queues over FastStream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from app.connectors.addresses import Address
from app.connectors.errors import extra
from app.connectors.sources.base import Options
from app.connectors.sources.subscribed import SubscribedSource, as_it_is

_MOST_PREFETCHED = 65_535


class RabbitSource(SubscribedSource):
    """A queue, which has to be there. Dead letters go to the queue ``<queue>.dead``, which is made."""

    def __init__(self, address: Address, options: Options) -> None:
        self._rabbit = extra("faststream.rabbit", "RabbitMQ")
        self._stream = extra("faststream", "RabbitMQ")
        self._errors = extra("aiormq.exceptions", "RabbitMQ")
        super().__init__(address, options)

    async def _subscribed(self) -> Any:
        rabbit = self._rabbit
        broker = rabbit.RabbitBroker(
            rabbit_url(self._address),
            default_channel=rabbit.Channel(prefetch_count=min(_MOST_PREFETCHED, self._options.ahead)),
            apply_types=False,
            logger=None,
            graceful_timeout=1.0,
        )
        subscriber = broker.subscriber(
            rabbit.RabbitQueue(self._address.path, declare=False),
            ack_policy=self._stream.AckPolicy.MANUAL,
            decoder=as_it_is,
            no_reply=True,
        )

        async def take(message: Any) -> None:
            self._take(message)

        subscriber(take)
        return broker

    async def _started(self) -> None:
        connection = await self._broker.connect()
        # FastStream connects again by itself; what was read before is delivered again, so it must not stay here.
        connection.close_callbacks.add(lambda *_: self._lose("the connection was closed"))
        connection.reconnect_callbacks.add(lambda *_: self._lose("the connection was closed"))
        if not self._options.dead_elsewhere:
            self._dead = self._rabbit.RabbitQueue(f"{self._address.path}.dead", durable=True)
            await self._broker.declare_queue(self._dead)

    async def _bury(self, record: bytes) -> None:
        await self._broker.publish(record, queue=self._dead, persist=True, content_type="application/json")

    async def _acknowledge(self, messages: Sequence[Any]) -> None:
        if messages:
            await messages[-1].raw_message.ack(multiple=True)

    def _fatal(self) -> tuple[type[Exception], ...]:
        errors = self._errors
        return (
            errors.ChannelNotFoundEntity,
            errors.ChannelAccessRefused,
            errors.ChannelPreconditionFailed,
            errors.AuthenticationError,
            errors.ProbableAuthenticationError,
        )


def rabbit_url(address: Address) -> str:
    """The URL of a server with its virtual host."""
    return f"{address.url}/{quote(dict(address.query).get('vhost', '/'), safe='')}"
