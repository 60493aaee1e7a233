"""What the relays' routes share: a relay's readers and writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.api.context import Context
from app.api.relay_models import RelayValidators, graph_of, validators
from app.api.relay_notifications import NotificationReader
from app.api.relay_subscriptions import SubscriptionReader
from app.resources import Resources
from indexes.relays.engine import RelayEngine
from indexes.relays.model import UPSTREAM, LinkView, RelayConfig


class RelayContext(Context[RelayEngine, RelayConfig]):
    """Shared by the routes of relays."""

    noun = "relay"

    @property
    def resources(self) -> Resources[RelayEngine, RelayConfig]:
        return self.service.relays

    def config_of(self, engine: RelayEngine) -> RelayConfig:
        return engine.latest_config

    def seen(self, engine: RelayEngine) -> tuple[int, RelayConfig]:
        return engine.seq, engine.config

    def shown(self, name: str, config: RelayConfig, engine: RelayEngine | None) -> dict[str, Any]:
        views = [] if engine is None else engine.links()
        links = self.service.overlay.shown(name, config, views)
        return {**self._stands(name, config), **_sizes(config, engine, views), "links": links}

    def promised(self, name: str, config: RelayConfig, engine: RelayEngine | None) -> dict[str, Any]:
        if engine is None:
            return self.shown(name, config, None)
        # What is in it is not known while it is being changed.
        return {**self._stands(name, config), "links": self.service.overlay.shown(name, config, [])}

    def _stands(self, name: str, config: RelayConfig) -> dict[str, Any]:
        return {
            "name": name,
            "attributes": list(config.attributes),
            "graph": graph_of(config),
            "index": config.index,
            "service": self.service.overlay.service,
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
