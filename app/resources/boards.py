"""Boards as a resource type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from app.resources.base import Job, ResourceType
from app.resources.board_maintenance import BoardMaintenance
from app.runtime.metrics import Metrics
from formats import board_commands, boards
from indexes.boards import state as states
from indexes.boards.commands import Configure, DeleteSubscriptions
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.packing import PackedBoard
from indexes.boards.plans.edits import EditPlan
from indexes.boards.plans.events import EventsGroup, EventsPlan
from indexes.boards.state import BoardState
from indexes.boards.store import BoardStore
from indexes.core.plan import Plan


class BoardType(ResourceType):
    """Ranked sets of objects with subscriptions to their best."""

    prefix = boards.RESOURCE
    noun = "board"
    maintenance = BoardMaintenance()
    edits = (EditPlan,)
    fixed: ClassVar[dict[str, str]] = {
        "range_attributes": "range_attributes",
        "rank_attribute": "rank.attribute",
        "order": "rank.order",
        "index": "index",
        "indexed": "indexed",
    }
    deletion = DeleteSubscriptions
    encode = staticmethod(board_commands.encode)
    decode = staticmethod(board_commands.decode)
    state_of = staticmethod(states.state_of)
    write_state = staticmethod(boards.write_state)
    read_state = staticmethod(boards.read_state)

    def kernels(self, config: BoardConfig) -> tuple[str, ...]:
        if config.dimensions > 1:
            return ("boards.space",)
        return ("boards.main", "boards.kd-tree") if config.index == "kd-tree" else ("boards.main",)

    def make(self, config: BoardConfig, first_seq: int) -> BoardEngine:
        return BoardEngine(config, first_seq)

    def make_room(self, engine: BoardEngine) -> None:
        engine.make_room()

    def change(self, engine: BoardEngine, config: BoardConfig) -> Plan[BoardStore]:
        """The list lengths on offer, the algorithm and the number of zones may change.

        Raises Refused: it differs in something else, or a k in use would go.
        """
        self.check_fixed(engine.latest_config, config)
        return engine.prepare(Configure(config.ks, config.algorithm, zones=config.zones or 0))

    def combine(self, jobs: Sequence[EventsPlan]) -> EventsGroup:
        return EventsGroup(jobs)

    def lifetimes(self, engine: BoardEngine) -> Iterator[tuple[str, float]]:
        return engine.subscribers.lifetimes()

    def count(self, metrics: Metrics, resource: str, job: Job) -> None:
        tiles = job.tile_count if isinstance(job, EventsPlan) else 0
        metrics.applied(resource, type(job.command).__name__, job.count, tiles)

    def engine_of(self, state: BoardState, image: PackedBoard | None) -> BoardEngine:
        return states.board_of(state, image)

    def sizes(self, engine: BoardEngine) -> dict[str, int]:
        return {"seq": engine.seq, "objects": engine.object_count, "subscriptions": engine.subscription_count}
