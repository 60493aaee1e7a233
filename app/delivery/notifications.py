"""Live subscriptions of relays: streams of the notifications that a local subscription meets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from app.delivery.feed import NOTIFICATION
from app.delivery.occasions import FollowedOccasions, OccasionSource, Telling
from app.delivery.relay_json import relay_json
from indexes.relays.model import Notified, RelayConfig, Slice

if TYPE_CHECKING:
    from app.delivery.hub import Hub


class LiveRelay(Telling, Protocol):
    """What the hub asks of a relay."""

    @property
    def config(self) -> RelayConfig: ...


class FollowedRelay(FollowedOccasions):
    """A relay with live subscriptions."""

    __slots__ = ("_json",)
    event = NOTIFICATION

    def __init__(self, resource: str, engine: LiveRelay, hub: Hub) -> None:
        super().__init__(resource, engine, hub)
        self._json = relay_json(engine.config.attributes)

    def occasions(self, slice: Slice) -> list[Notified]:
        return slice.told

    def write(self, occasion: Notified) -> str:
        return self._json.notification(occasion)


class RelaySource(OccasionSource):
    """Relays."""

    prefix = "relays/"
    noun = "relay"
    followed = FollowedRelay
