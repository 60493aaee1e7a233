"""What accepted commands will do, while they are applied and taken back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indexes.boards import regions
from indexes.boards.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.core.pending import PendingValues


def test_a_command_that_is_taken_back_leaves_nothing_of_one_applied_meanwhile() -> None:
    overlay: PendingValues[str] = PendingValues()
    first: list[tuple[str, tuple[int, str] | None]] = []
    second: list[tuple[str, tuple[int, str] | None]] = []
    overlay.put(1, "a", "one", first)
    overlay.put(2, "a", "two", second)
    overlay.settle(1, first)
    assert overlay.get("a") == "two"
    overlay.roll_back(second)
    assert not overlay


def test_a_command_that_is_taken_back_leaves_one_that_is_still_to_come() -> None:
    overlay: PendingValues[str] = PendingValues()
    first: list[tuple[str, tuple[int, str] | None]] = []
    second: list[tuple[str, tuple[int, str] | None]] = []
    overlay.put(1, "a", "one", first)
    overlay.put(2, "a", "two", second)
    overlay.roll_back(second)
    assert overlay.get("a") == "one"
    overlay.settle(1, first)
    assert not overlay


def test_a_subscription_added_in_bulk_is_there_although_a_deletion_of_it_once_stood_before_a_failure() -> None:
    board = BoardEngine(BoardConfig(("x",), "y"))
    board.apply(SetSubscription("s0", regions.everywhere(1), 10))
    deleted = board.prepare(DeleteSubscriptions(["s0"]))
    failed = board.prepare(SetSubscription("s0", regions.everywhere(1), 10))
    while not deleted.done:
        deleted.execute(1.0)
        deleted.publish()
    failed.cancel()
    n = 5_000
    ends = np.arange(n, dtype=float)
    names = pa.array([f"s{i}" for i in range(n)])
    board.apply(AddSubscriptions(names, regions.ranges(ends, ends + 1), np.full(n, 10, np.int32)))
    assert board.prepare(DeleteSubscriptions(["s0"])).count == 1
