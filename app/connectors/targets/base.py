"""What a publisher needs of a target, whichever broker it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from app.connectors.following import StreamEvent, by_id


class Target(Protocol):
    """A subject, stream or topic that takes stream events.

    One that is `exact` holds the cursors itself, with the events: what it holds after any end is where to go on.
    """

    exact: bool

    async def open(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Connect; the cursors that the broker holds of these subscriptions. Raises BrokerLost and ConnectorError."""
        ...

    async def publish(self, events: Sequence[StreamEvent]) -> None:
        """Publish events, those of one subscription in order; returns when the broker has them all."""
        ...

    async def close(self) -> None:
        """Let the broker go, whatever state it is in."""
        ...


async def in_order(events: Sequence[StreamEvent], send: Callable[[StreamEvent], Awaitable[object]]) -> None:
    """Send the events of each subscription one after the other, so that none is there without those before it."""

    async def one(some: Sequence[StreamEvent]) -> None:
        for event in some:
            await send(event)

    async with asyncio.TaskGroup() as group:
        for some in by_id(events).values():
            group.create_task(one(some))
