"""Maps as a resource type."""

from __future__ import annotations

from typing import Any, ClassVar

from app.resources.base import ResourceType
from app.resources.maintenance import PackedMaintenance
from formats import map_commands, maps
from indexes.core.edit_plan import EditPlan
from indexes.maps import state as states
from indexes.maps import verification
from indexes.maps.attributes import Attribute
from indexes.maps.commands import DeleteQueries
from indexes.maps.config import MapConfig
from indexes.maps.engine import MapEngine
from indexes.maps.object_index import PlaceIndex
from indexes.maps.packing import PackedMap, pack_index, unpack_index
from indexes.maps.state import MapState, index_of, tree_of


class MapMaintenance(PackedMaintenance):
    """Spark packs the objects of maps; it verifies nothing of them."""

    spark_rebuild = "rebuild.maps"
    verify = staticmethod(verification.verify)

    def size(self, engine: MapEngine) -> int:
        return engine.object_count

    def changed_share(self, engine: MapEngine) -> float:
        return engine.table.index.churn

    def rows(self, state: MapState) -> int:
        return len(state.created)

    def pack(self, state: MapState) -> PackedMap:
        return pack_index(tree_of(state))

    def fresh(self, image: PackedMap | None, state: MapState) -> PlaceIndex:
        assert state.slots is not None, "the state was not copied from an engine"
        return index_of(state, None if image is None else unpack_index(image))

    def forget(self, engine: MapEngine) -> None:
        engine.table.changed = None


class MapType(ResourceType):
    """Objects with places, and standing queries among them.

    `on_edit` gets each plan that made, changed or deleted some of these.
    """

    prefix = maps.RESOURCE
    noun = "map"
    maintenance = MapMaintenance()
    edits = (EditPlan,)
    fixed: ClassVar[dict[str, str]] = {"attributes": "attributes", "bounds": "bounds", "metric": "metric"}
    deletion = DeleteQueries
    encode = staticmethod(map_commands.encode)
    decode = staticmethod(map_commands.decode)
    state_of = staticmethod(states.state_of)
    write_state = staticmethod(maps.write_state)
    read_state = staticmethod(maps.read_state)

    def make(self, config: MapConfig, first_seq: int) -> MapEngine:
        return MapEngine(config, first_seq)

    def engine_of(self, state: MapState, image: PackedMap | None) -> MapEngine:
        return states.engine_of(state, None if image is None else unpack_index(image))

    def ready(self, engine: MapEngine) -> bool:
        return engine.wake()

    def sizes(self, engine: MapEngine) -> dict[str, int]:
        return {"seq": engine.seq, "objects": engine.object_count, "queries": engine.query_count}

    def shown(self, value: Any) -> str:
        """A value of a configuration, attributes as `price (low), rating (high, from 0.0 to 5.0)`."""
        if not isinstance(value, tuple) or not all(isinstance(one, Attribute) for one in value):
            return super().shown(value)
        return ", ".join(_spelled(one) for one in value) or "no attributes"


def _spelled(attribute: Attribute) -> str:
    order = "high" if attribute.high else "low"
    between = "" if attribute.range is None else f", from {attribute.range[0]} to {attribute.range[1]}"
    return f"{attribute.name} ({order}{between})"
