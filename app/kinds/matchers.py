"""Matchers as a kind of resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from app.kinds import Kind
from app.kinds.fixed import check_fixed
from app.kinds.upkeep import Upkeep
from formats.commands import Part
from formats.folder import Draft, Folder
from formats.matcher_commands import Logged, decode, encode
from formats.matchers import RESOURCE, read_state, write_state
from formats.parts import read_image, write_image
from indexes.checked import Checked
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.matcher import Matcher
from indexes.matchers.model import MatcherConfig
from indexes.matchers.packing import PackedMatcher, pack_indexes, unpack_indexes
from indexes.matchers.plans import EditPlan, Plan
from indexes.matchers.state import MatcherState, engine_of, indexes_of, matcher_of, state_of
from indexes.matchers.upkeep import Captured, FoldPlan, Origin
from indexes.matchers.verify import verify

_FIXED = {"dimensions": "dimensions", "mode": "mode", "combine": "combine", "index": "index"}
"""What of a configuration cannot be changed, which is all of it, and how it is called in a body."""


class MatcherUpkeep(Upkeep):
    """Spark lays out the indexes of matchers; it compares nothing of them."""

    spark_rebuild = "matchers"

    def worn(self, engine: MatcherEngine, least: int) -> float:
        return engine.matcher.worn if engine.subscription_count >= least else 0.0

    def packs(self, state: MatcherState) -> bool:
        return True

    def rows(self, state: MatcherState) -> int:
        return len(state.ttl)

    def pack(self, state: MatcherState) -> PackedMatcher:
        return pack_indexes(indexes_of(state))

    def write_image(self, folder: Folder, resource: str, lsn: int, image: PackedMatcher) -> None:
        write_image(folder, resource, lsn, image)

    def read_image(self, folder: Folder) -> PackedMatcher | None:
        return read_image(folder)

    def fresh(self, image: PackedMatcher | None, state: MatcherState) -> tuple[Matcher, Origin]:
        assert state.origin is not None, "the state was not copied from an engine"
        return matcher_of(state, None if image is None else unpack_indexes(image)), state.origin

    def fold(self, engine: MatcherEngine, fresh: tuple[Matcher, Origin]) -> FoldPlan:
        return engine.fold(*fresh)

    def forget(self, engine: MatcherEngine) -> None:
        engine.matcher.end_journal()

    def verify(self, captured: Captured) -> Iterator[Checked]:
        return verify(captured)


class MatcherKind(Kind):
    """Subscriptions that are boxes with scores. `on_edit` is told of each plan that made, changed or deleted some."""

    prefix = RESOURCE
    noun = "matcher"
    upkeep = MatcherUpkeep()
    edits = (EditPlan,)

    def kernels(self, config: MatcherConfig) -> tuple[str, ...]:
        return ("matchers.main",) if config.index == "auto" else ("matchers.main", "matchers.alternatives")

    def make(self, config: MatcherConfig, first_seq: int) -> MatcherEngine:
        return MatcherEngine(config, first_seq)

    def change(self, engine: MatcherEngine, config: MatcherConfig) -> Plan:
        """Nothing may change. Raises Refused where something differs."""
        check_fixed(self.noun, _FIXED, engine.config, config)
        return engine.keep()

    def encode(self, command: Logged, count: int) -> Iterable[Part]:
        return encode(command, count)

    def decode(self, parts: list[tuple[str, bytes]]) -> Logged:
        return decode(parts)

    def state_of(self, captured: Captured) -> MatcherState:
        return state_of(captured)

    def write_state(self, draft: Draft, name: str, state: MatcherState) -> dict[str, Any]:
        return write_state(draft, name, state)

    def read_state(self, folder: Folder, name: str, about: dict[str, Any]) -> MatcherState:
        return read_state(folder, name, about)

    def engine_of(self, state: MatcherState, image: PackedMatcher | None) -> MatcherEngine:
        return engine_of(state, None if image is None else unpack_indexes(image))

    def sizes(self, engine: MatcherEngine) -> dict[str, int]:
        return {"seq": engine.seq, "subscriptions": engine.subscription_count}
