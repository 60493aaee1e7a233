"""Redis streams: entries and cursors in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import extra
from app.connectors.following import StreamEvent
from app.connectors.pauses import quietly
from app.connectors.reaching import reaching_redis
from app.connectors.sources.redis import connected


class RedisTarget:
    """A stream with a field `id` and a field `data`, and a hash beside it with the cursor of each subscription.

    With `keep` the stream is cut to about so many entries.
    """

    exact = True

    def __init__(self, address: Address, resource: str, keep: int | None) -> None:
        self._redis = extra("redis.asyncio", "Redis")
        self._address, self._keep = address, keep
        # Both keys have one slot of a cluster.
        self._kept = f"{{{address.path}}}:rankcast:{resource}"
        self._client: Any = None

    async def open(self, ids: Iterable[str]) -> Mapping[str, str]:
        self._client = connected(self._redis, self._address)
        with reaching_redis(self._address):
            kept = await self._client.hgetall(self._kept)
        cursors = {id.decode("utf-8", "replace"): cursor.decode("utf-8", "replace") for id, cursor in kept.items()}
        return {id: cursors[id] for id in ids if id in cursors}

    async def publish(self, events: Sequence[StreamEvent]) -> None:
        with reaching_redis(self._address):
            async with self._client.pipeline(transaction=True) as transaction:
                for event in events:
                    fields = {"id": event.id, "data": event.text}
                    transaction.xadd(self._address.path, fields, maxlen=self._keep, approximate=True)
                transaction.hset(self._kept, mapping={event.id: event.cursor for event in events})
                await transaction.execute()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await quietly(client.aclose())
