"""The exercises that compile the kernels of boards, by group: each kernel is called once, on tiny boards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pyarrow as pa

from indexes.boards.commands import DELETE, UPSERT, AddSubscriptions, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels import change_text
from indexes.boards.kernels.change_text import END, ChangeTexts, write_changes
from indexes.boards.kernels.tile_text import IS_GONE, NUMBERS, TileTexts, most_bytes, write_tiles
from indexes.boards.packing import to_forest
from indexes.boards.plans.events import EventsPlan
from indexes.boards.plans.maintenance import Captured
from indexes.boards.regions import Region, Regions, between, everywhere, ranges
from indexes.boards.space.kernels.shapes import SHAPES, width
from indexes.boards.state import board_of, pack_board, state_of
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.boards.team import PainterTeam
from indexes.boards.verification import verify
from indexes.compiled.text import pieces_of
from indexes.core import cutting
from indexes.core.spaced_ids import SpacedIds


def main() -> None:
    """Events, subscriptions, streams and reads of a board with one range attribute, and tiles and events as text."""
    board = _board("range-tree")
    _exercise(board)
    _exercise_text()
    _exercise_cutting(board)


def batch() -> None:
    """Events as a batch."""
    _exercise_batches(_filled(_board("range-tree")))


def explain() -> None:
    """Explanations of an event and of a subscription."""
    event = Events(np.full(1, UPSERT, np.uint8), ["o1"], np.zeros(1), np.zeros(1))
    _exercise_explaining(_filled(_board("range-tree")), event, "wide")


def maintain() -> None:
    """Snapshots, rebuilds and verification."""
    _exercise_maintenance(_filled(_board("range-tree")))


def kd_tree() -> None:
    """All of the above with the k-d tree as object index."""
    board = _board("kd-tree")
    _exercise(board)
    _exercise_batches(board)
    _exercise_explaining(board, Events(np.full(1, UPSERT, np.uint8), ["o60"], np.zeros(1), np.zeros(1)), "wide")
    _exercise_maintenance(board)


def space() -> None:
    """Every path of the engine with two range attributes; more of them use the same kernels."""
    board = BoardEngine(BoardConfig(("a", "b"), "y", "asc", (1, 3), index="kd-tree"))
    rng = np.random.default_rng(0)
    n = 300
    ids = [f"o{i}" for i in range(n)]
    op, nothing = np.full(n, UPSERT, np.uint8), np.full((1, 2), np.nan)
    shapes = [everywhere(2), *(Region(shape, tuple(range(1, 1 + width(shape, 2)))) for shape in SHAPES[1:])]
    for region in shapes:
        regions = Regions.of([region] * 100, 2)
        regions.sides[:2] += np.where(np.isfinite(regions.sides[:2]), rng.random((2, 100)), 0.0)
        names = pa.array([f"{region.shape}{i}" for i in range(100)])
        board.apply(AddSubscriptions(names, regions, np.full(100, 3, np.int32)))
        board.apply(SetSubscription(region.shape, region, 1))
    board.apply(Events(op, ids, rng.random((n, 2)), rng.random(n), {0: b"{}"}))
    for region in shapes:
        board.want_tiles(board.watch(region.shape), True)
    for batch in (False, True):
        board.apply(Events(op, ids, 3 * rng.random((n, 2)), rng.random(n), {0: b"{}"}, batch=batch), keep_tiles=100)
    board.apply(Events(op[:1], ids[:1], nothing, np.full(1, np.nan), {0: None}))
    _exercise_explaining(board, Events(op[:1], ids[:1], np.zeros((1, 2)), np.zeros(1)), "box")
    board.apply(SetSubscription("box", Region("disc", (1.0, 1.0, 1.0)), 3))
    board.apply(DeleteSubscriptions(["box", "disc", "disc1"]))
    board.apply(Events(np.full(1, DELETE, np.uint8), ids[:1], nothing, np.full(1, np.nan)))
    board.top(everywhere(2), 10)
    _verified(board)
    board_of(state_of(_captured(board)))
    BoardEngine(board.config).replay(Events(op[:1], ids[:1], np.zeros((1, 2)), np.zeros(1)))


def _board(index: Literal["range-tree", "kd-tree"]) -> BoardEngine:
    return BoardEngine(BoardConfig(("x",), "y", "asc", (1, 3), index=index))


N = 600
"""Objects of a tiny board."""


def _ids() -> list[str]:
    return [f"o{i}" for i in range(N)]


def _filled(board: BoardEngine) -> BoardEngine:
    """A board with subscriptions and objects, whose subscriber `wide` gets tiles and `s1` lists."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.random((5_000, 2)))
    names = pa.array([f"s{i}" for i in range(len(ends))])
    board.apply(AddSubscriptions(names, ranges(*ends.T), np.full(len(ends), 3, np.int32)))
    board.apply(SetSubscription("wide", everywhere(1), 1))
    board.apply(Events(np.full(N, UPSERT, np.uint8), _ids(), rng.random(N), rng.random(N), {0: b"{}"}))
    board.want_tiles(board.watch("wide"), True)
    board.watch("s1")
    return board


def _exercise(board: BoardEngine) -> None:
    rng, ids, op = np.random.default_rng(0), _ids(), np.full(N, UPSERT, np.uint8)
    _filled(board)
    for _ in range(2):
        board.apply(Events(op, ids, rng.random(N), rng.random(N), {0: b"{}"}), keep_tiles=100)
    board.apply(Events(op[:1], ids[:1], np.full(1, np.nan), np.full(1, np.nan), {0: None}))
    board.apply(SetSubscription("s1", between(0.1, 0.2), 3))
    board.apply(DeleteSubscriptions(["s1", "s2"]))
    board.apply(Events(np.full(50, DELETE, np.uint8), ids[:50], np.full(50, np.nan), np.full(50, np.nan)))
    board.subscriptions("s3", 3)
    board.top(everywhere(1), 10)
    BoardEngine(board.config).replay(Events(op[:1], ids[:1], np.zeros(1), np.zeros(1)))
    _exercise_team(_filled(BoardEngine(board.config)))


def _exercise_team(board: BoardEngine) -> None:
    plan, painter = board.prepare(Events(np.full(1, UPSERT, np.uint8), ["o1"], np.zeros(1), np.zeros(1))), board.painter
    assert isinstance(plan, EventsPlan) and isinstance(painter, PainterTeam)
    painter.run_together((), plan.changes, 0, 1, 1.0, keep=True)


def _exercise_text() -> None:
    pieces, one = pieces_of([""] * (IS_GONE + 1)), np.zeros(1, np.int64)
    numbers = b"0," * NUMBERS
    text = np.frombuffer(numbers + b"\0", np.uint8)
    tiles = TileTexts(one, one, np.zeros((1, NUMBERS)), text, len(numbers), False, one, np.zeros(1, np.bool_))
    write_tiles(np.empty(most_bytes(pieces, tiles), np.uint8), np.empty(1, np.int64), pieces, tiles)
    pieces, rank, text = pieces_of([""] * (END + 1)), np.ones(1, np.int32), np.frombuffer(b",\0", np.uint8)
    changes = ChangeTexts(one + 1, one, rank, rank, one, np.zeros((1, 2)), text, 1, text[:0])
    out = np.empty(change_text.most_bytes(pieces, changes), np.uint8)
    write_changes(out, np.empty(1, np.int64), np.empty(1, np.int64), pieces, changes)


def _exercise_cutting(board: BoardEngine) -> None:
    """Bodies of one shape, and an event whose id is given as bytes."""
    cutting.exercise()
    ids = SpacedIds(np.array(list(b"o1 "), np.uint8), 1)
    board.apply(Events(np.full(1, UPSERT, np.uint8), ids, np.zeros(1), np.zeros(1)))


def _exercise_batches(board: BoardEngine) -> None:
    rng, ids, op = np.random.default_rng(0), _ids(), np.full(N, UPSERT, np.uint8)
    for _ in range(2):
        board.apply(Events(op, ids, rng.random(N), rng.random(N), {0: b"{}"}), keep_tiles=100)
        # Small batches and large ones are painted by different kernels, and equal x are sorted by another one.
        for some, x in ((N, rng.random(N)), (2, np.array([0.5, 0.5]))):
            changed = Events(op[:some], ids[:some], x, rng.random(some), {0: b"{}"}, batch=True)
            board.apply(changed, keep_tiles=100)


def _exercise_explaining(board: BoardEngine, event: Events, key: str) -> None:
    plan = board.explain(event, 10)
    plan.execute(1.0)
    plan.publish()
    board.explain_subscription(key)


def _captured(board: BoardEngine, **how: bool) -> Captured:
    plan = board.capture(**how)
    plan.execute(1.0)
    plan.publish()
    assert plan.captured is not None
    return plan.captured


def _verified(board: BoardEngine) -> Captured:
    captured = _captured(board, journal=True, indexes=True)
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    return captured


def _exercise_maintenance(board: BoardEngine) -> None:
    state = state_of(_verified(board))
    packed = pack_board(state)
    board_of(state, packed)
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, to_forest(packed.forest, state.subscription_rows))
    fold = board.fold(fresh)
    fold.execute(1.0)
    fold.publish()


GROUPS: dict[str, Callable[[], None]] = {
    "main": main,
    "batch": batch,
    "explain": explain,
    "maintenance": maintain,
    "kd-tree": kd_tree,
    "space": space,
}
"""The exercise of each group of kernels that become ready together."""
