"""NATS JetStream: a subject for each subscription, whose last message holds the cursor."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.connectors.addresses import Address
from app.connectors.errors import ConnectorError, extra
from app.connectors.following import StreamEvent
from app.connectors.pauses import quietly
from app.connectors.reaching import reaching_nats
from app.connectors.sources.base import SECONDS
from app.connectors.targets.base import in_order

_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")


class NatsTarget:
    """The subjects ``<subject>.<id>``, the dots of an id written as ``%2E``."""

    exact = True

    def __init__(self, address: Address) -> None:
        self._nats = extra("nats", "NATS")
        self._errors = extra("nats.js.errors", "NATS")
        self._api = extra("nats.js.api", "NATS")
        self._address = address
        if not _SUBJECT.fullmatch(address.path):
            raise ConnectorError(f"{address}: {address.path!r} is no subject to publish to")
        self._connection: Any = None

    async def open(self, ids: Iterable[str]) -> Mapping[str, str]:
        with reaching_nats(self._address):
            self._connection = await self._nats.connect(
                self._address.url, allow_reconnect=False, connect_timeout=SECONDS, error_cb=_ignore
            )
            self._js = self._connection.jetstream(timeout=SECONDS)
            stream = await self._stream()
            found = {}
            for id in ids:
                try:
                    last = await self._js.get_last_msg(stream, self._subject(id))
                except self._errors.NotFoundError:
                    continue
                found[id] = _cursor(last.data, self._subject(id))
            return found

    async def _stream(self) -> str:
        """The stream that keeps the subjects; made where there is none."""
        wildcard = f"{self._address.path}.*"
        try:
            found: str = await self._js.find_stream_name_by_subject(wildcard)
        except self._errors.NotFoundError:
            found = re.sub(r"[^A-Za-z0-9_-]", "_", self._address.path)
            await self._js.add_stream(self._api.StreamConfig(name=found, subjects=[wildcard]))
        return found

    def _subject(self, id: str) -> str:
        return f"{self._address.path}.{id.replace('.', '%2E')}"

    async def publish(self, events: Sequence[StreamEvent]) -> None:
        with reaching_nats(self._address):
            try:
                await in_order(events, self._send)
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None

    async def _send(self, event: StreamEvent) -> None:
        headers = {"Nats-Msg-Id": f"{event.id} {event.cursor} {event.event}"}
        data = event.text.encode()
        if len(data) > self._connection.max_payload:
            raise ConnectorError(
                f"an event of {event.id} has {len(data)} bytes, more than the {self._connection.max_payload} that "
                f"{self._address} takes"
            )
        await self._js.publish(self._subject(event.id), data, headers=headers)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await quietly(connection.close())


def _cursor(raw: bytes, where: str) -> str:
    try:
        cursor = json.loads(raw).get("cursor") or ""
    except (ValueError, AttributeError):
        raise ConnectorError(f"{where} holds something else than stream events") from None
    return str(cursor)


async def _ignore(error: Exception) -> None:
    """Errors are raised where they matter."""
