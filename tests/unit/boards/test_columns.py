"""Columns of subscriptions grow a piece at a time, and are the same as if all had been copied at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.boards import columns
from indexes.boards.columns import Columns, GrowingColumns
from indexes.boards.commands import AddSubscriptions, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import between, ranges
from indexes.boards.state import state_of
from indexes.core.ids import BULK
from tests.unit.boards.helpers import captured, edits, same_columns

changes = st.lists(
    st.tuples(st.lists(st.integers(0, 1023), min_size=1, max_size=9, unique=True), st.integers(0, 3)), max_size=60
)


@given(
    changes=changes, d=st.sampled_from([1, 2]), piece=st.integers(1, 300), more=st.booleans(), wide=st.integers(0, 60)
)
def test_growing_columns_hold_what_was_written(changes: list, d: int, piece: int, more: bool, wide: int) -> None:
    """Also classes that need more than a byte, from change `wide` on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "LARGE", 1)
        patch.setattr(columns, "FULL", 0.5)
        patch.setattr(columns, "PIECE", piece)
        growing, plain = GrowingColumns(d), Columns(d, 4096, np.int32)
        growing.reserve(800)
        for i, (rows, offset) in enumerate(changes):
            sids = np.array([row % len(growing.now) for row in rows], np.int32)
            k = i + 1 if i < wide else 300 + i
            growing.fit(k)
            for one in (growing.now, plain):
                one.regions.sides[:, sids] = i
                one.k[sids] = k
                one.offset[sids] = offset
                if d > 1:
                    one.regions.shape[sids] = i % 3
            growing.follow(sids, 700 + i)
        if more:
            growing.reserve(2000)
        now, size = growing.now, len(growing.now)
        assert len(now.regions) == size == len(now.offset)
        assert np.array_equal(now.regions.sides, plain.regions.sides[:, :size])
        assert np.array_equal(now.regions.shape, plain.regions.shape[:size])
        assert np.array_equal(now.k, plain.k[:size]) and np.array_equal(now.offset, plain.offset[:size])


@settings(deadline=None)
@given(script=st.lists(edits, max_size=30), piece=st.integers(1, 400))
def test_a_board_whose_columns_grow_is_the_same_board(script: list, piece: int) -> None:
    config = BoardConfig(("x",), "y", ks=(1, 2, 5))
    twin = BoardEngine(config)
    for command in script:
        twin.apply(command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "LARGE", 1)
        patch.setattr(columns, "FULL", 0.0)
        patch.setattr(columns, "PIECE", piece)
        board = BoardEngine(config)
        for command in script:
            board.apply(command)
            board.check()
    same_columns(state_of(captured(board)), state_of(captured(twin)))


def test_no_change_copies_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "LARGE", 1_000)
    monkeypatch.setattr(columns, "PIECE", 50)
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    board.apply(many(900))
    copied: list[int] = []
    take_over = Columns.take_over

    def noted(self: Columns, other: Columns, rows: slice | np.ndarray) -> None:
        copied.append(len(range(*rows.indices(len(other)))) if isinstance(rows, slice) else len(rows))
        take_over(self, other, rows)

    monkeypatch.setattr(Columns, "take_over", noted)
    sizes = set()
    for i in range(900, 2_500):
        board.apply(SetSubscription(f"s{i}", between(0.0, i), 3))
        sizes.add(len(board.subscribers.k))
    assert len(sizes) > 2, "the columns have grown twice at least"
    assert max(copied) <= 50
    board.check()


def test_publishing_many_subscriptions_makes_no_room_and_writes_no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is done where it is executed, which is not on the event loop."""
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    plan = board.prepare(many(BULK + 1))
    plan.execute(1.0)
    before = board.subscribers.regions
    assert len(before) > BULK and not board.subscribers.k.any() and len(board.subscribers) == 0
    assert np.array_equal(np.sort(before.r[: BULK + 1]), np.arange(1.0, BULK + 2))

    def never(*arguments: object) -> None:
        raise AssertionError("this takes too long on the event loop")

    monkeypatch.setattr(Columns, "__init__", never)
    monkeypatch.setattr(type(before), "place", never)
    plan.publish()
    assert plan.done and board.subscribers.regions is before and len(board.subscribers) == BULK + 1
    board.check()


def many(n: int) -> AddSubscriptions:
    at = np.arange(n, dtype=np.float64)
    return AddSubscriptions(pa.array([f"s{i}" for i in range(n)]), ranges(at, at + 1), np.full(n, 3, np.int32))
