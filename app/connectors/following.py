"""Stream events of subscriptions, over one WebSocket that is opened again where it was, at the same node or another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from app.connectors.errors import ConnectorError
from app.connectors.pauses import pause
from app.connectors.service import nodes_of

UNKNOWN = "unknown:0"
"""A cursor that the service does not know: it answers by `reset`."""

SILENT_SECONDS = 60.0
"""Without a sign of life for so long, the connection counts as lost."""

LARGEST = 64 << 20
"""Bytes of an event."""

_AGAIN = frozenset({429, 500, 502, 503, 504})
_LOST = (OSError, ConnectionClosed, InvalidHandshake, TimeoutError)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of one subscription, as the WebSocket carries it."""

    id: str
    event: str
    cursor: str
    text: str


class ServiceLost(Exception):
    """The connection was lost, or what is followed cannot be followed now."""


class Following:
    """Follows subscriptions of one resource. Events wait in `events`, at most `ahead`; more are not read.

    `url` may name several nodes, with commas, of which cursors are good at each: it goes on at another one.
    """

    def __init__(
        self,
        url: str,
        key: str | None,
        resource: str,
        cursors: Mapping[str, str | None],
        options: Mapping[str, Any],
        away: Callable[[str | None], None],
        ahead: int = 1_000,
    ) -> None:
        self._nodes = nodes_of(url)
        if not all(node.startswith(("http://", "https://")) for node in self._nodes.urls):
            raise ConnectorError("the URL of the service begins with http:// or https://")
        self.events: asyncio.Queue[StreamEvent] = asyncio.Queue(ahead)
        self.reconnects = 0
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._resource, self._options, self._away = resource, options, away
        self._cursors = dict(cursors)
        self._followed: set[str] = {id for id, cursor in cursors.items() if cursor is not None}

    async def run(self) -> None:
        """Follow until every subscription is gone. Raises ConnectorError where that cannot be."""
        failures, was_away, nodes = 0, False, self._nodes
        tried: set[str] = set()
        while self._cursors:
            node = nodes.turn(tried)
            tried.add(node)
            at = f"ws{node.removeprefix('http')}/v1/stream"
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    socket = await connect(
                        at, additional_headers=self._headers, max_size=LARGEST, compression=None,
                        ping_interval=None, open_timeout=10.0,
                    )  # fmt: skip
                async with socket:
                    if was_away:
                        self._away(None)
                        was_away = False
                    failures = 0
                    nodes.worked(node)
                    await self._follow(socket)
                    return
            except InvalidURI:
                raise ConnectorError("the URL of the service is none") from None
            except InvalidStatus as refusal:
                status = refusal.response.status_code
                if status not in _AGAIN:
                    raise ConnectorError(f"the service refuses the stream: {status}") from None
                why = str(status)
            except (ServiceLost, *_LOST) as error:
                why = str(error) or type(error).__name__
            self.reconnects += 1
            nodes.failed(node)
            if nodes.left(tried):
                continue
            failures += 1
            if not was_away:
                self._away(why)
                was_away = True
            await asyncio.sleep(pause(failures))

    async def _follow(self, socket: ClientConnection) -> None:
        for id, cursor in self._cursors.items():
            asked = {"op": "subscribe", "resource": self._resource, "id": id, **self._options}
            await socket.send(json.dumps(asked | ({} if cursor is None else {"after": cursor})))
        while self._cursors:
            async with asyncio.timeout(SILENT_SECONDS):
                text = await socket.recv()
            if isinstance(text, bytes):
                raise ConnectorError("the service sends no text: is the URL that of Rankcast?")
            await self._take(text)

    async def _take(self, text: str) -> None:
        data = json.loads(text)
        event, id = data.get("event"), data.get("id")
        if event == "error":
            self._refused(id, data.get("problem") or {})
            if id in self._cursors:
                # It was there before: what follows the list learns that it is no more.
                text = json.dumps({"resource": self._resource, "id": id, "event": "gone"})
                event, data = "gone", {}
        if id not in self._cursors or not isinstance(event, str):
            return
        cursor = data.get("cursor") or self._cursors[id] or ""
        await self.events.put(StreamEvent(id, event, cursor, text))
        self._followed.add(id)
        if event == "gone":
            del self._cursors[id]
        else:
            self._cursors[id] = cursor

    def _refused(self, id: Any, problem: Mapping[str, Any]) -> None:
        status = problem.get("status")
        why = f"{self._resource}, {id}: {status} {problem.get('detail') or problem.get('title')}"
        if status in _AGAIN:
            raise ServiceLost(why)
        if status != 404 or id not in self._followed:
            raise ConnectorError(f"the service refuses: {why}")

    def taken(self, most: int) -> list[StreamEvent]:
        """What waits, up to so many events."""
        found: list[StreamEvent] = []
        with suppress(asyncio.QueueEmpty):
            while len(found) < most:
                found.append(self.events.get_nowait())
        return found


def by_id(events: Sequence[StreamEvent]) -> dict[str, list[StreamEvent]]:
    """Events of each subscription, in order."""
    found: dict[str, list[StreamEvent]] = {}
    for event in events:
        found.setdefault(event.id, []).append(event)
    return found
