"""What the maps' routes share: a map's readers and writers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from app.api.context import Context
from app.api.maps.models import MapValidators, validators
from app.api.maps.parsing.objects import ObjectReader
from app.api.maps.parsing.queries import MoveReader, QueryReader
from app.rendering.maps import plain
from app.write_path.resources import Resources
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig
from indexes.maps.engine import MapEngine


class MapContext(Context[MapEngine, MapConfig]):
    """Shared by the routes of maps."""

    noun = "map"

    @cached_property
    def resources(self) -> Resources[MapEngine, MapConfig]:
        return self.service.maps

    def config_of(self, engine: MapEngine) -> MapConfig:
        return engine.config

    def shown(self, name: str, config: MapConfig, engine: MapEngine | None) -> dict[str, Any]:
        return {
            "name": name,
            "attributes": {attribute.name: _shown(attribute) for attribute in config.attributes},
            "bounds": [plain(value) for value in config.bounds],
            "metric": config.metric,
            "objects": 0 if engine is None else engine.object_count,
            "queries": 0 if engine is None else engine.query_count,
        }

    def seen(self, engine: MapEngine) -> tuple[int, MapConfig]:
        return engine.seq, engine.config

    def validators(self, config: MapConfig) -> MapValidators:
        """The validators of a map's bodies."""
        return validators(config, self.settings.max_elements, self.settings.max_k)

    def object_reader(self, config: MapConfig) -> ObjectReader:
        """What reads a map's objects."""
        return ObjectReader(config, self.validators(config), self.settings.max_payload)

    def query_reader(self, config: MapConfig) -> QueryReader:
        """What reads a map's standing queries."""
        return QueryReader(config, self.validators(config))

    def move_reader(self, config: MapConfig) -> MoveReader:
        """What reads where the clients of standing queries are."""
        return MoveReader(self.validators(config))


def _shown(attribute: Attribute) -> str | dict[str, Any]:
    order = "high" if attribute.high else "low"
    return order if attribute.range is None else {"order": order, "range": [plain(end) for end in attribute.range]}
