"""Boards as a kind of resource."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from app.kinds import Job, Kind
from app.kinds.board_upkeep import BoardUpkeep
from app.kinds.fixed import check_fixed
from app.metrics import Metrics
from formats.board_commands import Logged, decode, encode
from formats.boards import RESOURCE, read_state, write_state
from formats.commands import Part
from formats.folder import Draft, Folder
from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Configure
from indexes.boards.packing import PackedBoard
from indexes.boards.plans import EditPlan, EventsGroup, EventsPlan, Plan
from indexes.boards.state import BoardState, board_of, state_of
from indexes.boards.subscribers import Edit
from indexes.boards.upkeep import Captured

_FIXED = {
    "range_attributes": "range_attributes",
    "rank_attribute": "rank.attribute",
    "order": "rank.order",
    "index": "index",
    "indexed": "indexed",
}
"""What of a configuration cannot be changed, and how it is called in a body."""


class BoardKind(Kind):
    """Ranked sets of objects with subscriptions to their best. `on_edit` is told of each `Edit` that is done."""

    prefix = RESOURCE
    noun = "board"
    upkeep = BoardUpkeep()
    edits = (EditPlan,)

    def edit_of(self, job: Any) -> Edit:
        edit: Edit = job.edit
        return edit

    def kernels(self, config: BoardConfig) -> tuple[str, ...]:
        if config.dimensions > 1:
            return ("boards.space",)
        return ("boards.main", "boards.kd-tree") if config.index == "kd-tree" else ("boards.main",)

    def make(self, config: BoardConfig, first_seq: int) -> Board:
        return Board(config, first_seq)

    def change(self, engine: Board, config: BoardConfig) -> Plan:
        """The list lengths on offer and the algorithm may change. Raises Refused: it differs in something else, or a k
        in use would go."""
        check_fixed(self.noun, _FIXED, engine.latest_config, config)
        return engine.prepare(Configure(config.ks, config.algorithm))

    def together(self, jobs: Sequence[EventsPlan]) -> EventsGroup:
        return EventsGroup(jobs)

    def count(self, metrics: Metrics, resource: str, job: Job) -> None:
        tiles = job.tile_count if isinstance(job, Plan) else 0
        metrics.applied(resource, type(job.command).__name__, job.count, tiles)

    def encode(self, command: Logged, count: int) -> Iterable[Part]:
        return encode(command, count)

    def decode(self, parts: list[tuple[str, bytes]]) -> Logged:
        return decode(parts)

    def state_of(self, captured: Captured) -> BoardState:
        return state_of(captured)

    def write_state(self, draft: Draft, name: str, state: BoardState) -> dict[str, Any]:
        return write_state(draft, name, state)

    def read_state(self, folder: Folder, name: str, about: dict[str, Any]) -> BoardState:
        return read_state(folder, name, about)

    def engine_of(self, state: BoardState, image: PackedBoard | None) -> Board:
        return board_of(state, image)

    def sizes(self, engine: Board) -> dict[str, int]:
        return {"seq": engine.seq, "objects": engine.object_count, "subscriptions": engine.subscription_count}
