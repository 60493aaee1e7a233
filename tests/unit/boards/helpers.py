"""Boards under edits, and comparison of their indexes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from indexes.boards.commands import (
    DELETE,
    UPSERT,
    Command,
    DeleteSubscriptions,
    Events,
    SetSubscription,
)
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.maintenance import Captured
from indexes.boards.regions import between
from indexes.boards.state import BoardState

INF = np.inf


ENDS = [-INF, *map(float, range(5)), INF]


ids = st.sampled_from([f"s{i}" for i in range(12)])


objects = st.sampled_from([f"o{i}" for i in range(8)])


small = st.integers(0, 4).map(float)


payloads = st.sampled_from([None, b"1", b'{"a":2}'])


events = st.lists(
    st.tuples(st.sampled_from([UPSERT, UPSERT, UPSERT, DELETE]), objects, small, small, payloads),
    min_size=1,
    max_size=8,
).map(
    lambda rows: Events(
        np.array([op for op, *_ in rows], np.uint8),
        [key for _, key, *_ in rows],
        np.array([x for _, _, x, _, _ in rows]),
        np.array([y for *_, y, _ in rows]),
        {i: payload for i, (op, *_, payload) in enumerate(rows) if op == UPSERT},
        skip=True,
    )
)


pairs = st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS)).map(sorted)


edits = st.one_of(
    st.builds(
        lambda key, lr, k, ttl: SetSubscription(key, between(*lr), k[0], ttl, offset=k[1]),
        ids, pairs, st.sampled_from([(1, 0), (2, 0), (5, 0), (1, 1), (2, 3)]), st.sampled_from([None, 30.0]),
    ),
    st.lists(ids, min_size=1, max_size=4).map(DeleteSubscriptions),
)  # fmt: skip


def captured(board: BoardEngine, **how: bool) -> Captured:
    plan = board.capture(**how)
    while not plan.done:
        plan.execute(1.0)
        plan.publish()
    assert plan.captured is not None
    return plan.captured


def same_columns(a: BoardState, b: BoardState) -> None:
    assert (a[:5], a.objects.id, a.objects.payload) == (b[:5], b.objects.id, b.objects.payload)
    mine, theirs = (
        (*s.objects, s.subscriptions.regions.shape, s.subscriptions.regions.sides, *s.subscriptions[2:],
         s.free_objects, s.free_subscriptions)
        for s in (a, b)
    )  # fmt: skip
    for x, y in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(x, y)
    for one, other in zip(a.subscriptions.ids, b.subscriptions.ids, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_same(a: tuple, b: tuple) -> None:
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.tobytes() == y.tobytes()


def applied(board: BoardEngine, command: Command, keep_tiles: int = 0) -> Any:
    """The plan of a command once it is applied, as of events, with their tiles."""
    return board.apply(command, keep_tiles=keep_tiles)[0]
