"""Feeds as a kind of resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from app.kinds import Kind
from app.kinds.fixed import check_fixed
from app.kinds.upkeep import Upkeep
from formats.commands import Part
from formats.feed_commands import Logged, decode, encode
from formats.feeds import RESOURCE, read_state, write_state
from formats.folder import Draft, Folder
from formats.parts import read_image, write_image
from indexes.checked import Checked
from indexes.feeds.edit_plans import EditPlan
from indexes.feeds.engine import FeedEngine
from indexes.feeds.model import FeedConfig
from indexes.feeds.packing import Layout, PackedFeed, pack_layout, unpack_layout
from indexes.feeds.plans import Plan
from indexes.feeds.state import FeedState, engine_of, layout_of, state_of
from indexes.feeds.upkeep import Captured, FoldPlan
from indexes.feeds.verify import verify

_FIXED = {
    "posts": "window",
    "span": "window.seconds",
    "bounds": "bounds",
    "tfidf": "weighting",
    "buffer": "buffer",
    "stop_words": "stop_words",
}
"""What of a configuration cannot be changed, which is all of it, and how it is called in a body."""


class FeedUpkeep(Upkeep):
    """A rebuild counts how rare the words of the window are, cuts the places of subscriptions into cells, and lays them
    out by both."""

    spark_rebuild = "feeds"

    def worn(self, engine: FeedEngine, least: int) -> float:
        return engine.index.worn if engine.subscription_count >= least else 0.0

    def packs(self, state: FeedState) -> bool:
        return True

    def rows(self, state: FeedState) -> int:
        return len(state.posts) + len(state.ttl)

    def pack(self, state: FeedState) -> PackedFeed:
        return pack_layout(layout_of(state))

    def write_image(self, folder: Folder, resource: str, lsn: int, image: PackedFeed) -> None:
        write_image(folder, resource, lsn, image)

    def read_image(self, folder: Folder) -> PackedFeed | None:
        return read_image(folder)

    def fresh(self, image: PackedFeed | None, state: FeedState) -> Layout:
        return layout_of(state) if image is None else unpack_layout(image)

    def fold(self, engine: FeedEngine, fresh: Layout) -> FoldPlan:
        return engine.fold(fresh)

    def forget(self, engine: FeedEngine) -> None:
        """Nothing is noted."""

    def verify(self, captured: Captured) -> Iterator[Checked]:
        return verify(captured)


class FeedKind(Kind):
    """Posts of a window, and subscriptions to the best of them. `on_edit` is told of each plan that made, changed or
    deleted some of these."""

    prefix = RESOURCE
    noun = "feed"
    upkeep = FeedUpkeep()
    edits = (EditPlan,)

    def make(self, config: FeedConfig, first_seq: int) -> FeedEngine:
        return FeedEngine(config, first_seq)

    def change(self, engine: FeedEngine, config: FeedConfig) -> Plan:
        """Nothing may change. Raises Refused where something differs."""
        check_fixed(self.noun, _FIXED, engine.config, config)
        return engine.keep()

    def encode(self, command: Logged, count: int) -> Iterable[Part]:
        return encode(command, count)

    def decode(self, parts: list[tuple[str, bytes]]) -> Logged:
        return decode(parts)

    def state_of(self, captured: Captured) -> FeedState:
        return state_of(captured)

    def write_state(self, draft: Draft, name: str, state: FeedState) -> dict[str, Any]:
        return write_state(draft, name, state)

    def read_state(self, folder: Folder, name: str, about: dict[str, Any]) -> FeedState:
        return read_state(folder, name, about)

    def engine_of(self, state: FeedState, image: PackedFeed | None) -> FeedEngine:
        """An image would tell nothing that a start needs: words are counted as posts are put into the window."""
        return engine_of(state)

    def sizes(self, engine: FeedEngine) -> dict[str, int]:
        return {"seq": engine.seq, "posts": engine.post_count, "subscriptions": engine.subscription_count}
