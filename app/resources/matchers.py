"""Matchers as a resource type."""

from __future__ import annotations

from typing import ClassVar

from app.resources.base import ResourceType
from app.resources.maintenance import PackedMaintenance
from formats import matcher_commands, matchers
from indexes.matchers import state as states
from indexes.matchers import verification
from indexes.matchers.commands import DeleteSubscriptions
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.matcher import Matcher
from indexes.matchers.packing import PackedMatcher, pack_indexes, unpack_indexes
from indexes.matchers.plans.maintenance import FoldPlan, Origin
from indexes.matchers.plans.subscriptions import EditPlan
from indexes.matchers.state import MatcherState, indexes_of, matcher_of


class MatcherMaintenance(PackedMaintenance):
    """Spark packs the indexes of matchers; it verifies nothing of them."""

    spark_rebuild = "rebuild.matchers"
    verify = staticmethod(verification.verify)

    def size(self, engine: MatcherEngine) -> int:
        return engine.subscription_count

    def changed_share(self, engine: MatcherEngine) -> float:
        return engine.matcher.churn

    def rows(self, state: MatcherState) -> int:
        return len(state.ttl)

    def pack(self, state: MatcherState) -> PackedMatcher:
        return pack_indexes(indexes_of(state))

    def fresh(self, image: PackedMatcher | None, state: MatcherState) -> tuple[Matcher, Origin]:
        assert state.origin is not None, "the state was not copied from an engine"
        return matcher_of(state, None if image is None else unpack_indexes(image)), state.origin

    def fold(self, engine: MatcherEngine, fresh: tuple[Matcher, Origin]) -> FoldPlan:
        return engine.fold(*fresh)

    def forget(self, engine: MatcherEngine) -> None:
        engine.matcher.end_journal()


class MatcherType(ResourceType):
    """Subscriptions that are boxes with scores. `on_edit` gets each plan that made, changed or deleted some."""

    prefix = matchers.RESOURCE
    noun = "matcher"
    maintenance = MatcherMaintenance()
    edits = (EditPlan,)
    fixed: ClassVar[dict[str, str]] = {
        "dimensions": "dimensions",
        "mode": "mode",
        "combine": "combine",
        "index": "index",
    }
    deletion = DeleteSubscriptions
    encode = staticmethod(matcher_commands.encode)
    decode = staticmethod(matcher_commands.decode)
    state_of = staticmethod(states.state_of)
    write_state = staticmethod(matchers.write_state)
    read_state = staticmethod(matchers.read_state)

    def kernels(self, config: MatcherConfig) -> tuple[str, ...]:
        return ("matchers.main",) if config.index == "auto" else ("matchers.main", "matchers.alternatives")

    def make(self, config: MatcherConfig, first_seq: int) -> MatcherEngine:
        return MatcherEngine(config, first_seq)

    def engine_of(self, state: MatcherState, image: PackedMatcher | None) -> MatcherEngine:
        return states.engine_of(state, None if image is None else unpack_indexes(image))

    def sizes(self, engine: MatcherEngine) -> dict[str, int]:
        return {"seq": engine.seq, "subscriptions": engine.subscription_count}
