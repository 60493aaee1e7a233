"""Maps as a kind of resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from app.kinds import Kind
from app.kinds.fixed import check_fixed, listed
from app.kinds.upkeep import Upkeep
from formats.commands import Part
from formats.folder import Draft, Folder
from formats.map_commands import Logged, decode, encode
from formats.maps import RESOURCE, read_state, write_state
from formats.parts import read_image, write_image
from indexes.checked import Checked
from indexes.maps.attributes import Attribute
from indexes.maps.engine import MapEngine
from indexes.maps.model import MapConfig
from indexes.maps.packing import PackedMap, pack_index, unpack_index
from indexes.maps.places import PlaceIndex
from indexes.maps.plans import Plan
from indexes.maps.query_plans import EditPlan
from indexes.maps.state import MapState, engine_of, index_of, state_of, tree_of
from indexes.maps.upkeep import Captured, FoldPlan
from indexes.maps.verify import verify

_FIXED = {"attributes": "attributes", "bounds": "bounds", "metric": "metric"}
"""What of a configuration cannot be changed, which is all of it, and how it is called in a body."""


class MapUpkeep(Upkeep):
    """Spark packs the objects of maps; it compares nothing of them."""

    spark_rebuild = "maps"

    def worn(self, engine: MapEngine, least: int) -> float:
        return engine.table.index.worn if engine.object_count >= least else 0.0

    def packs(self, state: MapState) -> bool:
        return True

    def rows(self, state: MapState) -> int:
        return len(state.created)

    def pack(self, state: MapState) -> PackedMap:
        return pack_index(tree_of(state))

    def write_image(self, folder: Folder, resource: str, lsn: int, image: PackedMap) -> None:
        write_image(folder, resource, lsn, image)

    def read_image(self, folder: Folder) -> PackedMap | None:
        return read_image(folder)

    def fresh(self, image: PackedMap | None, state: MapState) -> PlaceIndex:
        assert state.slots is not None, "the state was not copied from an engine"
        return index_of(state, None if image is None else unpack_index(image))

    def fold(self, engine: MapEngine, fresh: PlaceIndex) -> FoldPlan:
        return engine.fold(fresh)

    def forget(self, engine: MapEngine) -> None:
        engine.table.changed = None

    def verify(self, captured: Captured) -> Iterator[Checked]:
        return verify(captured)


class MapKind(Kind):
    """Objects with places, and standing queries among them. `on_edit` is told of each plan that made, changed or
    deleted some of these."""

    prefix = RESOURCE
    noun = "map"
    upkeep = MapUpkeep()
    edits = (EditPlan,)

    def make(self, config: MapConfig, first_seq: int) -> MapEngine:
        return MapEngine(config, first_seq)

    def change(self, engine: MapEngine, config: MapConfig) -> Plan:
        """Nothing may change. Raises Refused where something differs."""
        check_fixed(self.noun, _FIXED, engine.config, config, _shown)
        return engine.keep()

    def encode(self, command: Logged, count: int) -> Iterable[Part]:
        return encode(command, count)

    def decode(self, parts: list[tuple[str, bytes]]) -> Logged:
        return decode(parts)

    def state_of(self, captured: Captured) -> MapState:
        return state_of(captured)

    def write_state(self, draft: Draft, name: str, state: MapState) -> dict[str, Any]:
        return write_state(draft, name, state)

    def read_state(self, folder: Folder, name: str, about: dict[str, Any]) -> MapState:
        return read_state(folder, name, about)

    def engine_of(self, state: MapState, image: PackedMap | None) -> MapEngine:
        return engine_of(state, None if image is None else unpack_index(image))

    def ready(self, engine: MapEngine) -> bool:
        return engine.wake()

    def sizes(self, engine: MapEngine) -> dict[str, int]:
        return {"seq": engine.seq, "objects": engine.object_count, "queries": engine.query_count}


def _shown(value: Any) -> str:
    """A value of a configuration, attributes as `price (low), rating (high, from 0.0 to 5.0)`."""
    if not isinstance(value, tuple) or not all(isinstance(one, Attribute) for one in value):
        return listed(value)
    return ", ".join(_spelled(one) for one in value) or "no attributes"


def _spelled(attribute: Attribute) -> str:
    order = "high" if attribute.high else "low"
    between = "" if attribute.range is None else f", from {attribute.range[0]} to {attribute.range[1]}"
    return f"{attribute.name} ({order}{between})"
