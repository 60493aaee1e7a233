"""What subscriptions of a board have in common takes no memory for each."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

from indexes.boards.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import Region, between, ranges
from indexes.core.aligned import APART_BYTES
from tests.unit.indexes.resident import PAGE, leave_garbage, resident_bytes

M = APART_BYTES // 4 + 1_000


def added(engine: BoardEngine, first: int, m: int, offset: int | None = None) -> None:
    """Add ranges [i, i + 1], with an offset where there is one."""
    at = np.arange(first, first + m, dtype=np.float64)
    k = np.full(m, 2 - (offset or 0), np.int32)
    offsets = None if offset is None else np.full(m, offset, np.int32)
    ids = pa.array([f"s{i}" for i in range(first, first + m)])
    engine.apply(AddSubscriptions(ids, ranges(at, at + 1), k, offset=offsets))


@pytest.mark.skipif(sys.platform != "linux", reason="pages apart are those of Linux")
@pytest.mark.parametrize("offset", [None, 0])
def test_shapes_and_offsets_that_are_all_the_same_take_no_memory(offset: int | None) -> None:
    engine = BoardEngine(BoardConfig(("x",), "y", ks=(2,)))
    leave_garbage()
    added(engine, 0, M, offset)
    subscribers = engine.subscribers
    engine.apply(SetSubscription("s1", between(0.0, 9.0), 2))
    engine.apply(DeleteSubscriptions(["s2"]))
    # One page was read, which is that of all zeros.
    assert resident_bytes(subscribers.offset) <= PAGE
    assert subscribers.regions.shape.strides == (0,)
    subscribers.check()


def test_an_offset_is_kept_when_columns_grow_and_goes_with_its_subscription() -> None:
    engine = BoardEngine(BoardConfig(("x",), "y", ks=(2,)))
    added(engine, 0, 10)
    engine.apply(SetSubscription("s3", between(1.0, 2.0), 1, offset=1))
    added(engine, 10, 3_000, 1)
    added(engine, 3_010, 3_000)
    seen = {key: engine.subscription(key) for key in ("s2", "s3", "s10", "s3010")}
    assert [view and (view.k, view.offset) for view in seen.values()] == [(2, 0), (1, 1), (1, 1), (2, 0)]
    assert seen["s3"] is not None and seen["s3"].region == Region("box", (1.0, 2.0))
    engine.apply(DeleteSubscriptions(["s3", "s10"]))
    engine.apply(SetSubscription("s11", between(1.0, 2.0), 2, offset=0))
    added(engine, 6_010, 2)
    views = [engine.subscription(key) for key in ("s11", "s6010", "s6011")]
    assert [view and (view.k, view.offset) for view in views] == [(2, 0)] * 3
    engine.subscribers.check()
