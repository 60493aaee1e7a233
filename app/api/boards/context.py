"""What the boards' routes share: a board's readers and writers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from starlette.requests import Request

from app.api.boards.models import BoardValidators, validators
from app.api.boards.parsing.events import EventReader
from app.api.boards.parsing.subscriptions import SubscriptionReader
from app.api.context import Context
from app.errors import FieldError
from app.rendering.boards import BoardJson, board_json
from app.write_path.resources import Resources
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine

T = TypeVar("T")

_NEARLY = 1e-9


class BoardContext(Context[BoardEngine, BoardConfig]):
    """Shared by the routes of boards."""

    noun = "board"

    @cached_property
    def resources(self) -> Resources[BoardEngine, BoardConfig]:
        return self.service.boards

    def config_of(self, engine: BoardEngine) -> BoardConfig:
        return engine.latest_config

    def shown(self, name: str, config: BoardConfig, engine: BoardEngine | None) -> dict[str, Any]:
        return {
            "name": name,
            "range_attributes": list(config.range_attributes),
            "rank": {"attribute": config.rank_attribute, "order": config.order},
            "ks": list(config.ks),
            "algorithm": config.algorithm,
            "epsilon": 1 / config.runs if config.runs else None,
            "sketch": config.sketch,
            "indexed": list(config.indexed),
            "index": config.index,
            "zones": config.zones,
            "objects": 0 if engine is None else engine.object_count,
            "subscriptions": 0 if engine is None else engine.subscription_count,
        }

    def seen(self, engine: BoardEngine) -> tuple[int, BoardConfig]:
        return engine.seq, engine.config

    async def look(self, request: Request, fn: Callable[[], T]) -> T:
        # A board can be read at any moment.
        return fn()

    def validators(self, config: BoardConfig) -> BoardValidators:
        """The validators of a board's bodies."""
        settings = self.settings
        names = config.range_attributes, config.rank_attribute
        return validators(*names, settings.max_elements, settings.max_k, config.indexed)

    def event_reader(self, config: BoardConfig) -> EventReader:
        """What reads a board's events."""
        names, validators = (config.range_attributes, config.rank_attribute), self.validators(config)
        return EventReader(*names, validators, self.settings.max_payload)

    def subscription_reader(self, config: BoardConfig) -> SubscriptionReader:
        """What reads a board's subscriptions."""
        names, validators = config.range_attributes, self.validators(config)
        return SubscriptionReader(names, validators, self.settings.max_k, config.indexed)


def json_of(config: BoardConfig) -> BoardJson:
    """What writes a board's objects and subscriptions."""
    return board_json(config.range_attributes, config.rank_attribute, config.indexed)


def bad_epsilon(epsilon: float | None, most: int) -> list[FieldError]:
    """What is wrong with an epsilon; `most` is the largest k."""
    if epsilon is None or (1 / most <= epsilon <= 1 and abs(epsilon * round(1 / epsilon) - 1) < _NEARLY):
        return []
    return [FieldError("epsilon", f"must be null or 1/j for a whole j from 1 to {most}: 1, 0.5, {1 / 3}, 0.25, ...")]


def several_of(ranged: int, indexed: int) -> str:
    """Why a board with so many range attributes and indexed fields is painted by the walk, in words; empty if it is
    not."""
    if ranged > 1:
        return "with several range attributes"
    return "with indexed fields" if indexed else ""


def bad_painting(several: str, algorithm: str | None, epsilon: float | None) -> list[FieldError]:
    """What of a way to paint is not offered on a board that is painted by the walk."""
    errors = []
    if several and algorithm == "dense":
        errors.append(FieldError("algorithm", f"must be 'sparse' {several}"))
    if several and epsilon is not None:
        errors.append(FieldError("epsilon", f"must be null {several}"))
    return errors


def bad_zones(zones: int | None, several: str, enabled: bool) -> list[FieldError]:
    """What is wrong with a number of zones."""
    if zones is None:
        return []
    if several:
        return [FieldError("zones", f"must be null {several}")]
    return [] if enabled else [FieldError("zones", "must be null: the service has no NATS (RANKCAST_NATS)")]


def runs_of(epsilon: float | None) -> int:
    """j, where epsilon is 1/j; 0 where a board is exact."""
    return 0 if epsilon is None else round(1 / epsilon)
