"""What the matchers' routes share: a matcher's readers and writers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from app.api.context import Context
from app.api.matchers.models import MatcherValidators, validators
from app.api.matchers.parsing.events import EventReader
from app.api.matchers.parsing.subscriptions import SubscriptionReader
from app.write_path.resources import Resources
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine


class MatcherContext(Context[MatcherEngine, MatcherConfig]):
    """Shared by the routes of matchers."""

    noun = "matcher"

    @cached_property
    def resources(self) -> Resources[MatcherEngine, MatcherConfig]:
        return self.service.matchers

    def config_of(self, engine: MatcherEngine) -> MatcherConfig:
        return engine.config

    def shown(self, name: str, config: MatcherConfig, engine: MatcherEngine | None) -> dict[str, Any]:
        return {
            "name": name,
            "dimensions": list(config.dimensions),
            "mode": config.mode,
            "combine": config.combine if config.relaxed else None,
            "index": config.index,
            "subscriptions": 0 if engine is None else engine.subscription_count,
        }

    def seen(self, engine: MatcherEngine) -> tuple[int, MatcherConfig]:
        return engine.seq, engine.config

    def validators(self, config: MatcherConfig) -> MatcherValidators:
        """The validators of a matcher's bodies."""
        return validators(config, self.settings.max_elements, self.settings.max_k)

    def subscription_reader(self, config: MatcherConfig) -> SubscriptionReader:
        """What reads a matcher's subscriptions."""
        return SubscriptionReader(config, self.validators(config))

    def event_reader(self, config: MatcherConfig) -> EventReader:
        """What reads the events of a match."""
        settings = self.settings
        return EventReader(config, self.validators(config), settings.max_k, settings.max_payload)
