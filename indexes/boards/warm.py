"""Compile every kernel of the boards, or load it from the disk, before the first user asks."""

from __future__ import annotations

from itertools import product
from typing import get_args, get_type_hints

import numpy as np
import pyarrow as pa

from indexes.boards.board import Board
from indexes.boards.commands import DELETE, UPSERT, BoardConfig, Events, SetSubscription, Subscribe, Unsubscribe
from indexes.boards.painter import INDEXES


def warm() -> None:
    """Run every path of the engine once on a tiny board of each kind. Seconds when cold, well below one when warm."""
    algorithms = get_args(get_type_hints(BoardConfig)["algorithm"])
    for index, algorithm in product(INDEXES, algorithms):
        _exercise(Board(BoardConfig(("x",), "y", "asc", (1, 3), algorithm, index)))


def _exercise(board: Board) -> None:
    rng = np.random.default_rng(0)
    n = 200
    ids = [f"o{i}" for i in range(n)]
    ends = np.sort(rng.random((5_000, 2)))
    names = pa.array([f"s{i}" for i in range(len(ends))])
    board.apply(Subscribe(names, ends[:, 0].copy(), ends[:, 1].copy(), np.full(len(ends), 3, np.int32)))
    board.apply(SetSubscription("wide", -np.inf, np.inf, 1))
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
    Board(board.config).replay(Events(np.full(1, UPSERT, np.uint8), ids[:1], np.zeros(1), np.zeros(1)))
