"""What the feeds' routes share: a feed's readers and writers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from app.api.context import Context
from app.api.feeds.models import FeedValidators, validators
from app.api.feeds.parsing.posts import PostReader
from app.api.feeds.parsing.subscriptions import SubscriptionReader
from app.rendering.maps import plain
from app.write_path.resources import Resources
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine


class FeedContext(Context[FeedEngine, FeedConfig]):
    """Shared by the routes of feeds."""

    noun = "feed"

    @cached_property
    def resources(self) -> Resources[FeedEngine, FeedConfig]:
        return self.service.feeds

    def config_of(self, engine: FeedEngine) -> FeedConfig:
        return engine.config

    def shown(self, name: str, config: FeedConfig, engine: FeedEngine | None) -> dict[str, Any]:
        span = config.span
        return {
            "name": name,
            "window": config.posts if span is None else {"seconds": plain(span / 1000)},
            "bounds": [plain(value) for value in config.bounds],
            "weighting": "tfidf" if config.tfidf else "given",
            "buffer": config.buffer,
            "stop_words": None if config.stop_words is None else list(config.stop_words),
            "posts": 0 if engine is None else engine.post_count,
            "subscriptions": 0 if engine is None else engine.subscription_count,
        }

    def seen(self, engine: FeedEngine) -> tuple[int, FeedConfig]:
        return engine.seq, engine.config

    def validators(self, config: FeedConfig) -> FeedValidators:
        """The validators of the bodies of feeds."""
        return validators(self.settings.max_elements, self.settings.max_k)

    def post_reader(self, config: FeedConfig) -> PostReader:
        """What reads a feed's posts."""
        return PostReader(config, self.validators(config), self.settings.max_payload)

    def subscription_reader(self, config: FeedConfig) -> SubscriptionReader:
        """What reads a feed's subscriptions."""
        return SubscriptionReader(config, self.validators(config), self.settings.max_k)
