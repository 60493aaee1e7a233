"""Compile every kernel of the boards, or load it from the disk, before the first user asks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa

from indexes.boards.board import Board
from indexes.boards.commands import DELETE, UPSERT, BoardConfig, Events, SetSubscription, Subscribe, Unsubscribe
from indexes.boards.packing import to_forest
from indexes.boards.painter import INDEXES
from indexes.boards.regions import Region, Regions, between, everywhere, ranges
from indexes.boards.space.shapes import SHAPES, width
from indexes.boards.state import board_of, pack_board, state_of
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.upkeep import Captured
from indexes.boards.verify import verify


SPACE = "space"
"""What stands for the kernels of several range attributes on the command line."""


def warm() -> None:
    """Make every kernel ready. Well below a second from the cache; cold, about a minute on two cores.

    When the cache is empty, the kernels of each object index are compiled in a process of its own first.
    """
    if False:
        command = [sys.executable, "-m", "indexes.boards.warm"]
        for process in [subprocess.Popen([*command, kind]) for kind in (*INDEXES, SPACE)]:
            process.wait()
    exercise(INDEXES)
    exercise_space()


def exercise_space() -> None:
    """Run every path of the engine once on a tiny board with two range attributes. Those of more take the same."""
    board = Board(BoardConfig(("a", "b"), "y", "asc", (1, 3), index="kd-tree"))
    rng = np.random.default_rng(0)
    n = 300
    ids = [f"o{i}" for i in range(n)]
    op, nothing = np.full(n, UPSERT, np.uint8), np.full((1, 2), np.nan)
    shapes = [everywhere(2), *(Region(shape, tuple(range(1, 1 + width(shape, 2)))) for shape in SHAPES[1:])]
    for region in shapes:
        asked = Regions.of([region] * 100, 2)
        asked.sides[:2] += np.where(np.isfinite(asked.sides[:2]), rng.random((2, 100)), 0.0)
        names = pa.array([f"{region.shape}{i}" for i in range(100)])
        board.apply(Subscribe(names, asked, np.full(100, 3, np.int32)))
        board.apply(SetSubscription(region.shape, region, 1))
    board.apply(Events(op, ids, rng.random((n, 2)), rng.random(n), {0: b"{}"}))
    for region in shapes:
        board.want_tiles(board.watch(region.shape), True)
    for batch in (False, True):
        board.apply(Events(op, ids, 3 * rng.random((n, 2)), rng.random(n), {0: b"{}"}, batch=batch), keep_tiles=100)
    board.apply(Events(op[:1], ids[:1], nothing, np.full(1, np.nan), {0: None}))
    _exercise_explaining(board, Events(op[:1], ids[:1], np.zeros((1, 2)), np.zeros(1)), "box")
    board.apply(SetSubscription("box", Region("disc", (1.0, 1.0, 1.0)), 3))
    board.apply(Unsubscribe(["box", "disc", "disc1"]))
    board.apply(Events(np.full(1, DELETE, np.uint8), ids[:1], nothing, np.full(1, np.nan)))
    board.top(everywhere(2), 10)
    _verified(board)
    board_of(state_of(_captured(board)))
    Board(board.config).replay(Events(op[:1], ids[:1], np.zeros((1, 2)), np.zeros(1)))


def exercise(indexes: Iterable[Literal["range-tree", "kd-tree"]]) -> None:
    """Run every path of the engine once on tiny boards over these object indexes."""
    for index in indexes:
        _exercise(Board(BoardConfig(("x",), "y", "asc", (1, 3), index=index)))


def _exercise(board: Board) -> None:
    rng = np.random.default_rng(0)
    n = 600
    ids = [f"o{i}" for i in range(n)]
    ends = np.sort(rng.random((5_000, 2)))
    names = pa.array([f"s{i}" for i in range(len(ends))])
    board.apply(Subscribe(names, ranges(*ends.T), np.full(len(ends), 3, np.int32)))
    board.apply(SetSubscription("wide", everywhere(1), 1))
    board.apply(Events(np.full(n, UPSERT, np.uint8), ids, rng.random(n), rng.random(n), {0: b"{}"}))
    board.want_tiles(board.watch("wide"), True)
    board.watch("s1")
    for _ in range(2):
        op = np.full(n, UPSERT, np.uint8)
        board.apply(Events(op, ids, rng.random(n), rng.random(n), {0: b"{}"}), keep_tiles=100)
        # A batch that is small beside its board is painted otherwise, and one with equal x put in order otherwise.
        for some, x in ((n, rng.random(n)), (2, np.array([0.5, 0.5]))):
            changed = Events(op[:some], ids[:some], x, rng.random(some), {0: b"{}"}, batch=True)
            board.apply(changed, keep_tiles=100)
    board.apply(Events(np.full(1, UPSERT, np.uint8), ids[:1], np.full(1, np.nan), np.full(1, np.nan), {0: None}))
    _exercise_explaining(board, Events(np.full(1, UPSERT, np.uint8), ids[:1], np.zeros(1), np.zeros(1)), "wide")
    board.apply(SetSubscription("s1", between(0.1, 0.2), 3))
    board.apply(Unsubscribe(["s1", "s2"]))
    board.apply(Events(np.full(50, DELETE, np.uint8), ids[:50], np.full(50, np.nan), np.full(50, np.nan)))
    board.subscriptions("s3", 3)
    board.top(everywhere(1), 10)
    _exercise_upkeep(board)
    Board(board.config).replay(Events(np.full(1, UPSERT, np.uint8), ids[:1], np.zeros(1), np.zeros(1)))


def _exercise_explaining(board: Board, event: Events, key: str) -> None:
    plan = board.explain(event, 10)
    plan.paint(1.0)
    plan.settle()
    board.explain_subscription(key)


def _captured(board: Board, **how: bool) -> Captured:
    plan = board.capture(**how)
    plan.paint(1.0)
    plan.settle()
    assert plan.captured is not None
    return plan.captured


def _verified(board: Board) -> Captured:
    captured = _captured(board, journal=True, indexes=True)
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    return captured


def _exercise_upkeep(board: Board) -> None:
    state = state_of(_verified(board))
    packed = pack_board(state)
    board_of(state, packed)
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, to_forest(packed.forest, state.subscription_rows))
    fold = board.fold(fresh)
    fold.paint(1.0)
    fold.settle()


if __name__ == "__main__":
    exercise(index for index in INDEXES if index in sys.argv)
    if SPACE in sys.argv:
        exercise_space()
