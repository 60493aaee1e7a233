"""Long deletions are cut into slices, each of which leaves an exact state at its own seq."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from indexes.boards.commands import UPSERT, AddSubscriptions, DeleteSubscriptions, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import ranges
from indexes.core.commands import Refused
from tests.unit.boards.helpers import applied

M = 6_000


def board_with_subscriptions() -> BoardEngine:
    board = BoardEngine(BoardConfig(("x",), "y", "asc", (1, 3)))
    rng = np.random.default_rng(4)
    ends = np.sort(rng.integers(0, 50, (M, 2)).astype(float), axis=1)
    ks = rng.choice(np.array([1, 3], np.int32), M)
    board.apply(AddSubscriptions(pa.array([f"s{n:05}" for n in range(M)]), ranges(*ends.T), ks))
    op = np.full(50, UPSERT, np.uint8)
    board.apply(Events(op, [f"o{n}" for n in range(50)], np.arange(50.0), rng.random(50)))
    return board


def test_a_long_deletion_goes_in_slices() -> None:
    board = board_with_subscriptions()
    live = board.watch("s02000")
    ids = [f"s{n:05}" for n in range(0, M, 2)] + ["unknown"]
    first = board.seq + 1
    plan = board.prepare(DeleteSubscriptions(ids))
    assert (plan.first_seq, plan.last_seq, plan.count) == (first, first + M // 2 - 1, M // 2)
    slices = 0
    gone: list[Any] = []
    while not plan.done:
        plan.execute(0.001)
        heard = plan.publish()
        slices += 1
        deleted = board.seq - first + 1
        assert board.subscription_count == M - deleted
        assert board.subscription(ids[deleted - 1]) is None
        assert deleted == len(ids) - 1 or board.subscription(ids[deleted]) is not None
        gone += [] if heard is None else heard.gone
    assert slices > 5
    assert gone == [(first + 1_000, live)]
    assert board.seq == plan.last_seq
    board.check()
    y = np.array([-1.0])
    tiles = applied(board, Events(np.array([UPSERT], np.uint8), ["o7"], np.array([np.nan]), y), 1_000)
    assert tiles.tile_count > 0


def test_a_deletion_that_is_not_accepted_leaves_no_trace() -> None:
    board = board_with_subscriptions()
    steps = board.prepare_steps(DeleteSubscriptions([f"s{n:05}" for n in range(M)]))
    next(steps)
    steps.close()
    with pytest.raises(Refused):
        board.prepare(DeleteSubscriptions(["s00001", "unknown"], must_exist=True))
    plan, _ = board.apply(DeleteSubscriptions(["s00001", "s00002"]))
    assert plan.count == 2
    assert board.subscription_count == M - 2
    board.check()
