"""Maintenance of boards: images of their indexes, and verification of every list."""

from __future__ import annotations

from collections.abc import Iterator

from app.resources.maintenance import IndexMaintenance
from formats.boards import read_image, write_image, write_lists
from formats.folder import Draft, Folder
from indexes.boards.engine import BoardEngine
from indexes.boards.packing import PackedBoard, to_forest
from indexes.boards.plans.maintenance import Captured, FoldPlan, rehearse
from indexes.boards.state import BoardState, pack_board
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.boards.verification import all_lists, verify
from indexes.core.verification import Checked


class BoardMaintenance(IndexMaintenance):
    """Boards with several range attributes or with indexed fields have no packed indexes, here or in Spark."""

    spark_rebuild = "rebuild.boards"
    spark_audit = "audit.boards"

    def churn(self, engine: BoardEngine, least: int) -> float:
        return engine.churn if engine.subscription_count >= least else 0.0

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

    def rehearse(self, engine: BoardEngine, fresh: SubscriptionIndex) -> None:
        rehearse(engine, fresh)

    def fold(self, engine: BoardEngine, fresh: SubscriptionIndex) -> FoldPlan:
        return engine.fold(fresh)

    def forget(self, engine: BoardEngine) -> None:
        engine.subscribers.touched = None

    def verify(self, captured: Captured) -> Iterator[Checked]:
        return verify(captured)

    def audited(self, captured: Captured) -> bool:
        return captured.config.dimensions == 1

    def write_lists(self, draft: Draft, name: str, captured: Captured) -> None:
        write_lists(draft, name, all_lists(captured))
