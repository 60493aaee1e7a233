"""Compile every kernel of the boards, or load it from the disk, before the first user asks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from typing import Literal, get_args, get_type_hints

import numpy as np
import pyarrow as pa

from indexes.boards.board import Board
from indexes.boards.commands import DELETE, UPSERT, BoardConfig, Events, SetSubscription, Subscribe, Unsubscribe
from indexes.boards.packing import to_forest
from indexes.boards.painter import INDEXES
from indexes.boards.state import board_of, pack_board, state_of
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.verify import verify
from indexes.jit import cache_folder


def warm() -> None:
    """Make every kernel ready. Well below a second from the cache; cold, about a minute on two cores.

    When the cache is empty, the kernels of each object index are compiled in a process of its own first.
    """
    if not any(cache_folder().rglob("*.nbi")):
        command = [sys.executable, "-m", "indexes.boards.warm"]
        for process in [subprocess.Popen([*command, index]) for index in INDEXES]:
            process.wait()
    exercise(INDEXES)


def exercise(indexes: Iterable[Literal["range-tree", "kd-tree"]]) -> None:
    """Run every path of the engine once on tiny boards over these object indexes."""
    algorithms = get_args(get_type_hints(BoardConfig)["algorithm"])
    for index, algorithm in product(indexes, algorithms):
        _exercise(Board(BoardConfig(("x",), "y", "asc", (1, 3), algorithm, index)))


def _exercise(board: Board) -> None:
    rng = np.random.default_rng(0)
    n = 600
    ids = [f"o{i}" for i in range(n)]
    ends = np.sort(rng.random((5_000, 2)))
    names = pa.array([f"s{i}" for i in range(len(ends))])
    board.apply(Subscribe(names, ends[:, 0].copy(), ends[:, 1].copy(), np.full(len(ends), 3, np.int32)))
    board.apply(SetSubscription("wide", -np.inf, np.inf, 1))
    board.apply(Events(np.full(n, UPSERT, np.uint8), ids, rng.random(n), rng.random(n), {0: b"{}"}))
    board.want_tiles(board.watch("wide"), True)
    board.watch("s1")
    for _ in range(3):
        op = np.full(n, UPSERT, np.uint8)
        board.apply(Events(op, ids, rng.random(n), rng.random(n), {0: b"{}"}), keep_tiles=100)
    board.apply(Events(np.full(1, UPSERT, np.uint8), ids[:1], np.full(1, np.nan), np.full(1, np.nan), {0: None}))
    board.apply(SetSubscription("s1", 0.1, 0.2, 3))
    board.apply(Unsubscribe(["s1", "s2"]))
    board.apply(Events(np.full(50, DELETE, np.uint8), ids[:50], np.full(50, np.nan), np.full(50, np.nan)))
    board.subscriptions("s3", 3)
    board.top(-np.inf, np.inf, 10)
    board.check()
    _exercise_upkeep(board)
    Board(board.config).replay(Events(np.full(1, UPSERT, np.uint8), ids[:1], np.zeros(1), np.zeros(1)))


def _exercise_upkeep(board: Board) -> None:
    plan = board.capture(journal=True, indexes=True)
    plan.paint(1.0)
    plan.settle()
    assert plan.captured is not None
    for checked in verify(plan.captured):
        assert not checked.differences, checked.differences
    state = state_of(plan.captured)
    packed = pack_board(state)
    board_of(state, packed).check()
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, to_forest(packed.forest, state.subscription_rows))
    fold = board.fold(fresh)
    fold.paint(1.0)
    fold.settle()
    board.check()


if __name__ == "__main__":
    exercise(index for index in INDEXES if index in sys.argv)
