"""The upkeep of boards: images of their indexes, and every list beside a scan."""

from __future__ import annotations

from collections.abc import Iterator

from app.kinds.upkeep import Upkeep
from formats.boards import read_image, write_image, write_lists
from formats.folder import Draft, Folder
from indexes.boards.board import Board
from indexes.boards.packing import PackedBoard, to_forest
from indexes.boards.state import BoardState, pack_board
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.upkeep import Captured, FoldPlan
from indexes.boards.verify import Checked, all_lists, verify


class BoardUpkeep(Upkeep):
    """Boards with several range attributes or with indexed fields have no packed indexes; Spark does not know them."""

    spark_rebuild = "boards"
    spark_audit = "audit"

    def worn(self, engine: Board, least: int) -> float:
        return engine.worn if engine.subscription_count >= least else 0.0

    def packs(self, state: BoardState) -> bool:
        return state.config.dimensions == 1

    def rows(self, state: BoardState) -> int:
        return len(state.subscriptions.k) + len(state.objects.id)

    def pack(self, state: BoardState) -> PackedBoard:
        return pack_board(state)

    def write_image(self, folder: Folder, resource: str, lsn: int, image: PackedBoard) -> None:
        write_image(folder, resource, lsn, image)

    def read_image(self, folder: Folder) -> PackedBoard:
        return read_image(folder)

    def fresh(self, image: PackedBoard, state: BoardState) -> SubscriptionIndex:
        fresh = SubscriptionIndex()
        fresh.adopt(image.forest.ks, to_forest(image.forest, state.subscription_rows))
        return fresh

    def fold(self, engine: Board, fresh: SubscriptionIndex) -> FoldPlan:
        return engine.fold(fresh)

    def forget(self, engine: Board) -> None:
        engine.subscribers.touched = None

    def verify(self, captured: Captured) -> Iterator[Checked]:
        return verify(captured)

    def audited(self, captured: Captured) -> bool:
        return captured.config.dimensions == 1

    def write_lists(self, draft: Draft, name: str, captured: Captured) -> None:
        write_lists(draft, name, all_lists(captured))
