"""Live subscriptions of relays: streams of the notifications that a local subscription meets."""

from __future__ import annotations

from typing import Any, Protocol

from app.rendering.relays import relay_json
from app.streaming.buffer import NOTIFICATION
from app.streaming.event_stream import EventEngine, EventSource, LiveEventResource
from app.streaming.protocols import StreamHub
from indexes.relays.config import RelayConfig
from indexes.relays.results import Notified, Slice


class StreamedRelay(EventEngine, Protocol):
    """What the hub asks of a relay."""

    @property
    def config(self) -> RelayConfig: ...


class LiveRelay(LiveEventResource):
    """A relay with live subscriptions."""

    __slots__ = ("_json",)
    event = NOTIFICATION

    def __init__(self, resource: str, engine: StreamedRelay, hub: StreamHub) -> None:
        super().__init__(resource, engine, hub)
        self._json = relay_json(engine.config.attributes)

    def events(self, slice: Slice) -> list[Notified]:
        return slice.notified

    def write(self, notification: Notified) -> str:
        return self._json.notification(notification)


class RelaySource(EventSource):
    """Relays."""

    prefix = "relays/"
    noun = "relay"
    live_resource = LiveRelay

    def has(self, engine: Any, id: str) -> bool:
        return bool(engine.settled(id) is not None)
