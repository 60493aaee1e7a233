"""Feeds as a resource type."""

from __future__ import annotations

from typing import ClassVar

from app.resources.base import ResourceType
from app.resources.maintenance import PackedMaintenance
from formats import feed_commands, feeds
from indexes.feeds import state as states
from indexes.feeds import verification
from indexes.feeds.commands import DeleteSubscriptions
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine
from indexes.feeds.packing import Layout, PackedFeed, pack_layout, unpack_layout
from indexes.feeds.plans.subscriptions import EditPlan
from indexes.feeds.state import FeedState, layout_of


class FeedMaintenance(PackedMaintenance):
    """What a rebuild makes of feeds.

    It counts the words of the window, cuts the locations of subscriptions into cells, and packs subscriptions by both.
    """

    spark_rebuild = "rebuild.feeds"
    verify = staticmethod(verification.verify)

    def size(self, engine: FeedEngine) -> int:
        return engine.subscription_count

    def changed_share(self, engine: FeedEngine) -> float:
        return engine.index.churn

    def rows(self, state: FeedState) -> int:
        return len(state.posts) + len(state.ttl)

    def pack(self, state: FeedState) -> PackedFeed:
        return pack_layout(layout_of(state))

    def fresh(self, image: PackedFeed | None, state: FeedState) -> Layout:
        return layout_of(state) if image is None else unpack_layout(image)

    def forget(self, engine: FeedEngine) -> None:
        """Nothing is noted."""


class FeedType(ResourceType):
    """Posts of a window, and subscriptions to the best of them.

    `on_edit` gets each plan that made, changed or deleted some of these.
    """

    prefix = feeds.RESOURCE
    noun = "feed"
    maintenance = FeedMaintenance()
    edits = (EditPlan,)
    fixed: ClassVar[dict[str, str]] = {
        "posts": "window",
        "span": "window.seconds",
        "bounds": "bounds",
        "tfidf": "weighting",
        "buffer": "buffer",
        "stop_words": "stop_words",
    }
    deletion = DeleteSubscriptions
    encode = staticmethod(feed_commands.encode)
    decode = staticmethod(feed_commands.decode)
    state_of = staticmethod(states.state_of)
    write_state = staticmethod(feeds.write_state)
    read_state = staticmethod(feeds.read_state)

    def make(self, config: FeedConfig, first_seq: int) -> FeedEngine:
        return FeedEngine(config, first_seq)

    def engine_of(self, state: FeedState, image: PackedFeed | None) -> FeedEngine:
        """The image is not needed: words are counted as posts are put into the window."""
        return states.engine_of(state)

    def sizes(self, engine: FeedEngine) -> dict[str, int]:
        return {"seq": engine.seq, "posts": engine.post_count, "subscriptions": engine.subscription_count}
