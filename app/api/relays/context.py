"""What the relays' routes share: a relay's readers and writers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

from starlette.requests import Request

from app.api.callers import caller_of
from app.api.context import Context
from app.api.relays.models import RelayValidators, graph_of, validators
from app.api.relays.parsing.notifications import NotificationReader
from app.api.relays.parsing.subscriptions import SubscriptionReader
from app.service import Service
from app.write_path.resources import Resources
from indexes.relays.config import UPSTREAM, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.results import LinkView

DOWN = "the other side cannot be reached, or refuses; a key with admin sees why"


class RelayContext(Context[RelayEngine, RelayConfig]):
    """Shared by the routes of relays."""

    noun = "relay"

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(self, relay: str) -> asyncio.Lock:
        """What is held from where the links of a relay are looked at until they have become others."""
        return self._turns.setdefault(relay, asyncio.Lock())

    @cached_property
    def resources(self) -> Resources[RelayEngine, RelayConfig]:
        return self.service.relays

    def config_of(self, engine: RelayEngine) -> RelayConfig:
        return engine.latest_config

    def seen(self, engine: RelayEngine) -> tuple[int, RelayConfig]:
        return engine.seq, engine.config

    def shown(self, name: str, config: RelayConfig, engine: RelayEngine | None) -> dict[str, Any]:
        views = [] if engine is None else engine.links()
        links = self.service.links.describe(name, config, views)
        return {**self._configuration(name, config), **_sizes(config, engine, views), "links": links}

    def pending(self, name: str, config: RelayConfig, engine: RelayEngine | None) -> dict[str, Any]:
        if engine is None:
            return self.shown(name, config, None)
        # What is in it is not known while it is being changed.
        return {**self._configuration(name, config), "links": self.service.links.describe(name, config, [])}

    def visible(self, request: Request, shown: dict[str, Any]) -> dict[str, Any]:
        """Without the reasons why links are down, which would tell open ports from closed ones, but for an admin."""
        if caller_of(request).grants.admin:
            return shown
        links = {name: _without_reason(link) for name, link in shown["links"].items()}
        return {**shown, "links": links}

    def _configuration(self, name: str, config: RelayConfig) -> dict[str, Any]:
        return {
            "name": name,
            "attributes": list(config.attributes),
            "graph": graph_of(config),
            "index": config.index,
            "service": self.service.links.service,
        }

    def validators(self, config: RelayConfig) -> RelayValidators:
        """The validators of a relay's bodies."""
        return validators(config.attributes, self.settings.max_elements)

    def subscription_reader(self, config: RelayConfig) -> SubscriptionReader:
        """What reads a relay's subscriptions."""
        return SubscriptionReader(config, self.validators(config))

    def notification_reader(self, config: RelayConfig) -> NotificationReader:
        """What reads a relay's notifications."""
        return NotificationReader(config, self.validators(config), self.settings.max_payload)


def _without_reason(link: dict[str, Any]) -> dict[str, Any]:
    found = {field: value for field, value in link.items() if field != "refused"}
    return {**found, "reason": DOWN} if "reason" in found else found


def _sizes(config: RelayConfig, engine: RelayEngine | None, views: Sequence[LinkView]) -> dict[str, Any]:
    """How much is in a relay; nothing in one that is just being made."""
    forwarded: Any = dict.fromkeys(sorted(config.links), 0) | {view.name: view.forwarded for view in views}
    ratio: Any = dict.fromkeys(sorted(config.links), 0.0) | {view.name: view.covering_ratio for view in views}
    if not config.links:
        told, n = (0, 0) if engine is None else engine.relay.forwarded_count(UPSTREAM)
        forwarded, ratio = told, (n - told) / n if n else 0.0
    return {
        "subscriptions": 0 if engine is None else engine.subscription_count,
        "forwarded": forwarded,
        "covering_ratio": ratio,
        "statistics": {} if engine is None else {"searches": engine.relay.searches(), "bytes": engine.relay.nbytes},
    }
