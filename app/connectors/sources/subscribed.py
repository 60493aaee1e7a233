"""What the brokers that push messages share: RabbitMQ and MQTT, over FastStream.

They have no positions. What was not acknowledged is delivered again, so an event arrives at least once.
"""

from __future__ import annotations

import asyncio
import itertools
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import BrokerLost, ConnectorError
from app.connectors.messages import Chunk, Message, Span
from app.connectors.pauses import quietly
from app.connectors.sources.base import SECONDS, WAIT, Options


class SubscribedSource:
    """A subscription of a FastStream broker, whose messages wait here until they are asked for.

    The broker holds no more than `ahead` of them unacknowledged, so that is the most that waits.
    """

    exact = False
    drop: Callable[[Iterable[str]], None]

    def __init__(self, address: Address, options: Options) -> None:
        self._address, self._options = address, options
        self.identity = str(address)
        self._broker: Any = None
        self._fresh()

    def _fresh(self) -> None:
        self._waiting: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._lost: str | None = None
        self._numbers = itertools.count(1)

    async def open(self) -> None:
        self._fresh()
        async with self._reaching():
            self._broker = await self._subscribed()
            async with asyncio.timeout(2 * SECONDS):
                await self._broker.start()
            await self._started()

    def _take(self, message: Any) -> None:
        """Called for each message in the order in which the broker delivers them."""
        self._waiting.append(message)
        self._arrived.set()

    def _lose(self, why: str) -> None:
        """What waits here is delivered again."""
        self._lost = why
        self._arrived.set()

    async def read(self, most: int) -> Chunk | None:
        if not self._waiting and self._lost is None:
            self._arrived.clear()
            try:
                async with asyncio.timeout(WAIT):
                    await self._arrived.wait()
            except TimeoutError:
                await self._look()
                return None
        if self._lost is not None:
            raise BrokerLost(self._lost)
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        return Chunk("", [Message(str(next(self._numbers)), one.body, handle=one) for one in taken])

    async def begin(self, span: Span) -> bool:
        return True

    async def done(self, span: Span, messages: Sequence[Message], dead: Sequence[bytes], more: bool) -> bool:
        if self._lost is not None:
            raise BrokerLost(self._lost)
        async with self._reaching(), asyncio.timeout(3 * SECONDS):
            for record in dead:
                await self._bury(record)
            await self._acknowledge([message.handle for message in messages])
        return True

    async def close(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await quietly(broker.stop())

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        try:
            yield
        except (ConnectorError, BrokerLost):
            raise
        except self._fatal() as error:
            raise ConnectorError(f"{self._address} refuses: {error}") from None
        except Exception as error:
            # What a broken connection raises differs from call to call, in FastStream and in the clients under it.
            raise BrokerLost(str(error) or type(error).__name__) from None

    @abstractmethod
    async def _subscribed(self) -> Any:
        """A broker with a subscription that calls `_take`, not started."""

    async def _started(self) -> None:
        """Called when the broker has begun."""

    async def _look(self) -> None:
        """Called when nothing came for a while."""

    @abstractmethod
    async def _bury(self, record: bytes) -> None:
        """Publish a dead letter."""

    @abstractmethod
    async def _acknowledge(self, messages: Sequence[Any]) -> None:
        """Acknowledge the oldest messages, in order."""

    @abstractmethod
    def _fatal(self) -> tuple[type[Exception], ...]:
        """Errors after which it is no use to try again."""


async def as_it_is(message: Any) -> Any:
    """A decoder that leaves the message whole, for whoever acknowledges it."""
    return message
