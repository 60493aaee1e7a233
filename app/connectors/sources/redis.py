"""Redis streams: the position in a key beside the stream, a consumer group that shows it, all in one script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import ConnectorError, extra
from app.connectors.messages import Chunk, Message, Span
from app.connectors.pauses import quietly
from app.connectors.reaching import reaching_redis
from app.connectors.sources.base import SECONDS, WAIT, Options, Place, parse_place, taken_over

# Dead letters, the acknowledgement and the position are one step, and none of it where another connector came.
_KEEP = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then redis.call('XGROUP', 'SETID', KEYS[2], ARGV[4], ARGV[3]) end
for i = 5, #ARGV do redis.call('XADD', KEYS[3], '*', 'data', ARGV[i]) end
return 1
"""


class RedisSource:
    """A stream of Redis. Positions are the ids of its entries."""

    exact = True
    drop: Callable[[Iterable[str]], None]

    def __init__(self, address: Address, options: Options) -> None:
        self._redis = extra("redis.asyncio", "Redis")
        self._errors = extra("redis.exceptions", "Redis")
        self._address, self._options = address, options
        self._stream = address.path
        # All keys have one slot of a cluster.
        self._kept = f"{{{self._stream}}}:rankcast:{options.name}"
        self._group = f"rankcast-{options.name}"
        self.identity = str(address)
        self._client: Any = None
        self._state = b""
        self._span: Span | None = None
        self._at = "0-0"

    async def open(self) -> None:
        with reaching_redis(self._address):
            self._client = connected(self._redis, self._address)
            self._script = self._client.register_script(_KEEP)
            kept = await self._client.get(self._kept)
            self._state, self._span, self._at = kept or b"", None, "0-0"
            if kept is not None:
                place = parse_place(kept, self._kept)
                self._at = place.last
                self._span = None if place.done else Span("", place.first, place.last)
            elif self._options.begin == "new":
                last = await self._client.xrevrange(self._stream, count=1)
                self._at = last[0][0].decode() if last else "0-0"
            try:
                await self._client.xgroup_create(self._stream, self._group, self._at, mkstream=True)
            except self._errors.ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

    async def read(self, most: int) -> Chunk | None:
        with reaching_redis(self._address):
            if self._span is not None:
                span, self._span = self._span, None
                entries = await self._client.xrange(self._stream, span.first, span.last)
                return Chunk("", list(map(self._message, entries)), span)
            found = await self._client.xread({self._stream: self._at}, count=most, block=int(WAIT * 1000))
            entries = found[0][1] if found else []
            if not entries:
                return None
            messages = list(map(self._message, entries))
            self._at = messages[-1].position
            return Chunk("", messages)

    def _message(self, entry: tuple[bytes, Mapping[bytes, bytes]]) -> Message:
        id, fields = entry
        name = self._options.field
        if name == "*":
            shown = {_text(key): _text(value) for key, value in fields.items()}
            return Message(id.decode(), json.dumps(shown).encode())
        data = fields.get(name.encode())
        return Message(id.decode(), data or b"", fault="" if data is not None else f"the entry has no field {name!r}")

    async def begin(self, span: Span) -> bool:
        await self._keep(Place(span.first, span.last, False))
        return True

    async def done(self, span: Span, messages: Sequence[Message], dead: Sequence[bytes], more: bool) -> bool:
        await self._keep(Place(span.first, span.last, True), span.last, dead)
        return True

    async def _keep(self, place: Place, acknowledged: str = "", dead: Sequence[bytes] = ()) -> None:
        state = place.dump()
        with reaching_redis(self._address):
            kept = await self._script(
                keys=[self._kept, self._stream, f"{self._stream}.dead"],
                args=[self._state, state, acknowledged, self._group, *dead],
            )
        if not kept:
            raise taken_over(self._options.name)
        self._state = state

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await quietly(client.aclose())


def connected(redis: Any, address: Address) -> Any:
    """A client of a Redis server, which opens its connection when it is used. Raises ConnectorError."""
    database = dict(address.query).get("db", "0")
    if not database.isdigit():
        raise ConnectorError(f"{address}: db is the number of a database")
    # A script that was carried out, and whose answer was lost, must not be tried again.
    never = extra("redis.retry", "Redis").Retry(extra("redis.backoff", "Redis").NoBackoff(), 0)
    return redis.Redis.from_url(
        f"{address.url}/{database}", socket_connect_timeout=SECONDS, socket_timeout=SECONDS, retry=never
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
