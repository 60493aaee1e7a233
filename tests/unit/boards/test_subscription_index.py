"""The subscription index against a dictionary of ranges: every query, every change, every invariant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.boards.kernels import forest
from indexes.boards.subscription_index import SubscriptionIndex, count, exists, insert, report, snap

INF = np.inf
FINITE = list(map(float, range(6)))
ends = st.sampled_from([-INF, *FINITE, INF])
ranges = st.tuples(ends, ends)
inner = st.sampled_from([-forest.MAX, *FINITE, forest.MAX])
tiles = st.tuples(ends, inner, inner, ends)


def reached(subscriptions: dict[int, tuple[float, float]], tile: tuple[float, float, float, float]) -> set[int]:
    """The sids a tile reaches, by the definition of a tile with infinite sides."""
    l_outer, l_inner, r_inner, r_outer = tile
    clipped = {sid: np.clip(lr, -forest.MAX, forest.MAX) for sid, lr in subscriptions.items()}
    return {
        sid
        for sid, (l, r) in clipped.items()
        if (l > l_outer or l_outer == -INF) and l <= l_inner and r >= r_inner and (r < r_outer or r_outer == INF)
    }


def compare(
    index: SubscriptionIndex,
    q: int,
    subscriptions: dict[int, tuple[float, float]],
    tile: tuple[float, float, float, float],
) -> None:
    """All four queries of class q against the definition."""
    want = reached(subscriptions, tile)
    f = index.arrays
    assert count(f, q, *tile) == len(want)
    assert bool(exists(f, q, *tile)) == bool(want)
    out = np.empty(len(want), np.int32)
    assert report(f, q, *tile, out) == len(want)
    assert set(out.tolist()) == want
    if want:
        assert report(f, q, *tile, out[:-1]) == -1
    points = np.clip([subscriptions[sid] for sid in want], -forest.MAX, forest.MAX).reshape(-1, 2)
    box = snap(f, q, *tile)
    if want:
        assert tuple(box) == (*_span(points[:, 0]), *_span(points[:, 1]))
    else:
        assert tuple(box) == (INF, -INF, INF, -INF)


def _span(column: np.ndarray) -> tuple[float, float]:
    return column.min(), column.max()


class Subscriptions(RuleBasedStateMachine):
    """Insertions, deletions and rebuilds in two classes on a small grid, so that equal points outgrow leaves."""

    @initialize()
    def open(self) -> None:
        self.index = SubscriptionIndex([1, 5])
        self.model: Any = ({}, {})
        self.next_sid = 0

    def _fresh(self, n: Any) -> Any:
        self.next_sid += n
        return np.arange(self.next_sid - n, self.next_sid)

    @rule(q=st.integers(0, 1), some=st.lists(ranges, max_size=60))
    def insert_many(self, q: Any, some: Any) -> None:
        sids = self._fresh(len(some))
        self.index.insert_many(q, sids, [l for l, _ in some], [r for _, r in some])
        self.model[q].update(zip(sids.tolist(), some, strict=True))

    @rule(q=st.integers(0, 1), one=ranges, times=st.integers(1, 40))
    def insert_in_a_kernel(self, q: Any, one: Any, times: Any) -> None:
        sids = self._fresh(times)
        self.index.reserve(q, times, self.next_sid)
        for sid in sids:
            assert insert(self.index.arrays, q, sid, *one)
            self.model[q][int(sid)] = one

    @precondition(lambda self: self.model[0] or self.model[1])
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        q = data.draw(st.sampled_from([q for q in (0, 1) if self.model[q]]))
        gone = data.draw(st.lists(st.sampled_from(sorted(self.model[q])), unique=True, max_size=60))
        self.index.delete_many(q, gone)
        for sid in gone:
            del self.model[q][sid]

    @rule()
    def open_another_class(self) -> None:
        if len(self.index.ks) < 4:
            self.index.add_class(len(self.index.ks) + 10)

    @rule(tile=tiles)
    def ask(self, tile: Any) -> None:
        for q in (0, 1):
            compare(self.index, q, self.model[q], tile)

    @invariant()
    def holds(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.model[0]) + len(self.model[1])


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("spread", [4, 1000, 10**9])
def test_queries_match_a_scan_of_all_subscriptions(spread: int) -> None:
    rng = np.random.default_rng(spread)
    lr = np.sort(rng.integers(0, spread, (3000, 2)) / spread, axis=1)
    lr[rng.random(3000) < 0.05, 0] = -INF
    lr[rng.random(3000) < 0.05, 1] = INF
    index = SubscriptionIndex([3])
    model: dict[Any, Any] = {}
    for start in range(0, 3000, 250):
        sids = np.arange(start, start + 250)
        index.insert_many(0, sids, lr[sids, 0], lr[sids, 1])
        model.update((sid, (lr[sid, 0], lr[sid, 1])) for sid in sids.tolist())
        gone = rng.choice(sorted(model), 60, replace=False)
        index.delete_many(0, gone)
        for sid in gone.tolist():
            del model[sid]
        index.check()
        for _ in range(5):
            a, b = np.sort(rng.integers(-1, spread, 2)) / spread
            c, d = np.sort(rng.integers(0, spread + 1, 2)) / spread
            tile = (a if rng.random() < 0.8 else -INF, b, c, d if rng.random() < 0.8 else INF)
            compare(index, 0, model, tile)


def test_a_hot_spot_of_insertions_keeps_the_layout_balanced() -> None:
    index = SubscriptionIndex([1])
    lr = np.sort(np.random.default_rng(0).random((4000, 2)), axis=1)
    index.insert_many(0, np.arange(4000), lr[:, 0], lr[:, 1])
    index.reserve(0, 3000, 7000)
    arrays = index.arrays
    hot = 0.5 + np.arange(3000) / 1e6
    assert forest.insert_many(arrays, 0, np.arange(4000, 7000, dtype=np.int32), hot, hot + 0.1) == 3000
    assert index.arrays is arrays
    index.check()


def test_a_full_class_refuses_an_insertion_and_stays_as_it_was() -> None:
    index = SubscriptionIndex([1])
    sid = 0
    index.reserve(0, 0, 1000)
    while insert(index.arrays, 0, sid, 0.0, 1.0):
        sid += 1
    index.check()
    assert len(index) == sid == 8


def test_the_layout_follows_from_the_calls_alone() -> None:
    def run() -> SubscriptionIndex:
        rng = np.random.default_rng(5)
        index = SubscriptionIndex([1, 2])
        for start in range(0, 2000, 100):
            lr = np.sort(rng.integers(0, 50, (100, 2)), axis=1)
            index.insert_many(start // 100 % 2, np.arange(start, start + 100), lr[:, 0], lr[:, 1])
            index.delete_many(start // 100 % 2, rng.choice(np.arange(start, start + 100), 30, replace=False))
        return index

    one, two = run(), run()
    live = np.flatnonzero(one.arrays.sid >= 0)
    for name in ("sid", "pos", "cnt", "west", "east", "south", "north", "head", "axis", "cut"):
        assert np.array_equal(getattr(one.arrays, name), getattr(two.arrays, name)), name
    assert np.array_equal(one.arrays.l[live], two.arrays.l[live])


def test_misuse_is_refused() -> None:
    index = SubscriptionIndex([1, 2])
    index.insert_many(0, [0, 1], [0.0, 1.0], [2.0, INF])
    with pytest.raises(ValueError, match="present"):
        index.insert_many(1, [1], [0.0], [1.0])
    with pytest.raises(ValueError, match="distinct"):
        index.insert_many(0, [5, 5], [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="distinct"):
        index.insert_many(0, [-1], [0.0], [1.0])
    with pytest.raises(ValueError, match="NaN"):
        index.insert_many(0, [7], [np.nan], [1.0])
    with pytest.raises(ValueError, match="1 sids, 2 left"):
        index.insert_many(0, [7], [0.0, 1.0], [1.0])
    for q, sid in ((1, 0), (0, 9), (0, -1)):
        with pytest.raises(KeyError):
            index.delete_many(q, [sid])
    with pytest.raises(KeyError):
        index.get(2)
    assert index.get(1) == (1.0, INF)
    assert index.report(0, -INF, 0.5, 1.0, INF).tolist() == [0]
    index.check()
