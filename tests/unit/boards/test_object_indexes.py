"""Both object indexes against a dictionary of objects: every query, every change, every invariant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.boards.alternatives.kd_tree import KdTreeIndex
from indexes.boards.kernels.object_index import MAX, delete, insert, next_east, next_west, set_y
from indexes.boards.kernels.range_tree import RangeTreeIndex
from indexes.boards.kernels.region import exposed
from indexes.boards.kernels.scratch import make_scratch
from indexes.compiled.jit import allocating_kernel
from tests.oracles.objects import Objects, Thing
from tests.support.values import present

INF = np.inf
INDEXES = [RangeTreeIndex, KdTreeIndex]

xs = st.integers(0, 12).map(float)
ys = st.integers(0, 9).map(float) | st.just(INF)
ends = st.integers(-1, 13).map(float) | st.sampled_from([-INF, INF, -MAX, MAX])
bounds = st.integers(-1, 10).map(float) | st.just(-INF)
ks = st.sampled_from([1, 2, 3, 7, 1000])


@allocating_kernel
def neighbours(o: Any, s: Any, T: Any, Tc: Any) -> Any:
    """The protocol as a caller's cached kernel sees it."""
    return next_west(o, s, T, Tc), next_east(o, s, T, Tc)


@allocating_kernel
def replay(o: Any, kind: Any, row: Any, x: Any, y: Any, c: Any) -> Any:
    """Insertions (0), deletions (1) and new y (2) within one kernel: whether there was room for all."""
    fits = True
    for e in range(kind.size):
        if kind[e] == 0:
            fits &= insert(o, row[e], x[e], y[e], c[e]) >= 0
        elif kind[e] == 1:
            delete(o, row[e])
        else:
            set_y(o, o.pos[row[e]], y[e])
    return fits


@allocating_kernel
def expose(o: Any, s: int, k: int, y: float, c: int, y_end: float, scratch: Any) -> tuple[int, bool]:
    """As painting finds the objects that a demotion exposes, from just past the rank (y, c)."""
    return exposed(o, s, k, y, c, y_end, -INF, INF, scratch)


def sweep(index: RangeTreeIndex | KdTreeIndex, slot: int, y_new: float, k: int) -> list[int]:
    """The slots of the objects that become exposed as the one in a slot is demoted to `y_new`, in order of rank."""
    o, scratch = index.arrays, make_scratch(k)
    found: list[int] = []
    (y, c), complete = (o.y[slot], o.c[slot]), False
    while not complete:
        n, complete = expose(o, slot, k, y, c, y_new, scratch)
        found += (scratch.hit[:n] >> 1).tolist()
        y, c = (o.y[found[-1]], o.c[found[-1]]) if found else (y, c)
    return found


def rows_of(index: RangeTreeIndex | KdTreeIndex, slots: list[int] | np.ndarray) -> list[int]:
    return [int(index.arrays.row[s]) for s in slots]


def same_objects(index: RangeTreeIndex | KdTreeIndex, truth: Objects) -> None:
    o = index.arrays
    assert len(index) == len(truth.things)
    assert {row: (o.x[s], o.y[s], o.c[s]) for row in truth.things if (s := index.slot(row)) is not None} == truth.things


def compare(
    index: RangeTreeIndex | KdTreeIndex,
    truth: Objects,
    row: int,
    other: int,
    k: int,
    y: float,
    lo: float,
    hi: float,
) -> None:
    """All queries, about an object and about a range."""
    s = present(index.slot(row))
    me = truth.things[row]
    limit = (min(y, MAX), other)
    west, east = truth.west(row, limit), truth.east(row, limit)
    found = neighbours(index.arrays, s, *limit)
    assert [rows_of(index, [n] if n >= 0 else []) for n in found] == [west[:1], east[:1]]
    for least_y in (None, limit[0]):
        rank = (min(me.y, MAX) if least_y is None else least_y, me.created)
        lists = [rows_of(index, side) for side in index.first_k(s, k, least_y)]
        assert lists == [truth.west(row, rank)[:k], truth.east(row, rank)[:k]]
    assert rows_of(index, index.top(lo, hi, k)) == truth.top(lo, hi, k)
    assert index.count(lo, hi) == truth.count(lo, hi)
    least = index.min_y(lo, hi, limit[0], limit[1])
    assert (least if least is None else int(index.arrays.row[least])) == truth.min_y(lo, hi, limit)
    for y_new in (limit[0], INF):
        if y_new > me.y:
            assert rows_of(index, sweep(index, s, y_new, k)) == truth.sweep(row, y_new, k)


class Changes(RuleBasedStateMachine):
    """Objects on a small grid of x and y, so that equal ranks and equal positions outgrow leaves."""

    kind: type[RangeTreeIndex | KdTreeIndex] = RangeTreeIndex

    @initialize(points=st.lists(st.tuples(xs, ys), max_size=60))
    def build(self, points: list[tuple[float, float]]) -> None:
        self.truth = Objects()
        self.created = 0
        self.free: list[Any] = []
        rows = np.random.default_rng(len(points)).permutation(2 * len(points))[: len(points)]
        for row, (x, y) in zip(rows.tolist(), points, strict=True):
            self.truth.things[row] = Thing(x, y, self._next())
        things = list(self.truth.things.values())
        columns = np.array(things, float).reshape(-1, 3).T
        self.index = self.kind.build(columns[0], columns[1], columns[2].astype(int), rows)
        self.high = 2 * len(points)

    def _next(self) -> int:
        self.created += 1
        return self.created

    def _row(self) -> int:
        self.high += 1
        return self.free.pop() if self.free and self.high % 2 else self.high

    def _add(self, x: float, y: float) -> None:
        row, thing = self._row(), Thing(x, y, self._next())
        self.index.insert(row, *thing)
        self.truth.things[row] = thing

    def _pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.truth.things)))

    @rule(x=xs, y=ys, times=st.sampled_from([1, 1, 1, 20]))
    def insert(self, x: Any, y: Any, times: Any) -> None:
        for _ in range(times):
            self._add(x, y)

    @rule(x=st.integers(-40, 40).map(float), step=st.sampled_from([-1.0, 0.25, 1.0]), n=st.integers(5, 60))
    def insert_sorted(self, x: float, step: float, n: int) -> None:
        for i in range(n):
            self._add(x + i * step, float(i % 7))

    @rule(n=st.integers(1, 80), seed=st.integers(0, 99))
    def insert_in_a_kernel(self, n: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        rows, created = [self._row() for _ in range(n)], [self._next() for _ in range(n)]
        x, y = random.integers(0, 13, n).astype(float), random.integers(0, 10, n).astype(float)
        self.index.reserve(n, max(rows) + 1)
        assert replay(self.index.arrays, np.zeros(n, int), np.array(rows), x, y, np.array(created))
        self.truth.things |= {row: Thing(*values) for row, *values in zip(rows, x, y, created, strict=True)}

    @precondition(lambda self: self.truth.things)
    @rule(data=st.data(), times=st.sampled_from([1, 1, 30]))
    def delete(self, data: st.DataObject, times: int) -> None:
        row = self._pick(data)
        for victim in sorted(self.truth.things)[:times] if times > 1 else [row]:
            self.index.delete(victim)
            del self.truth.things[victim]
            self.free.append(victim)

    @precondition(lambda self: self.truth.things)
    @rule(data=st.data(), x=xs)
    def move(self, data: st.DataObject, x: float) -> None:
        row = self._pick(data)
        self.index.move(row, x)
        self.truth.things[row] = self.truth.things[row]._replace(x=x)

    @precondition(lambda self: self.truth.things)
    @rule(data=st.data(), y=ys, times=st.sampled_from([1, 1, 30]))
    def set_y(self, data: st.DataObject, y: float, times: int) -> None:
        row = self._pick(data)
        for each in sorted(self.truth.things)[-times:] if times > 1 else [row]:
            self.index.set_y(present(self.index.slot(each)), y)
            self.truth.things[each] = self.truth.things[each]._replace(y=y)

    @precondition(lambda self: self.truth.things)
    @rule(data=st.data(), k=ks, limit=bounds | st.just(MAX), created=st.integers(-1, 300), lo=ends, hi=ends)
    def ask(self, data: st.DataObject, k: int, limit: float, created: int, lo: float, hi: float) -> None:
        compare(self.index, self.truth, self._pick(data), created, k, limit, lo, hi)

    @precondition(lambda self: self.truth.things)
    @rule(data=st.data(), k=ks, lo=ends, hi=ends)
    def ask_at_the_rank_of_an_object(self, data: st.DataObject, k: int, lo: float, hi: float) -> None:
        rival = self.truth.things[self._pick(data)]
        compare(self.index, self.truth, self._pick(data), rival.created, k, rival.y, lo, hi)

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "index"):
            self.index.check()
            same_objects(self.index, self.truth)


class KdTreeChanges(Changes):
    kind = KdTreeIndex


steps = settings(max_examples=40, stateful_step_count=25)
TestRangeTree = Changes.TestCase
TestRangeTree.settings = steps
TestKdTree = KdTreeChanges.TestCase
TestKdTree.settings = steps


def filled(kind: type[Any], n: int, seed: int, grid: int | None = None) -> tuple[RangeTreeIndex | KdTreeIndex, Objects]:
    """An index of n objects, and the truth about it; on a grid when asked for ties."""
    random = np.random.default_rng(seed)
    x, y = (random.integers(0, grid, n).astype(float) if grid else random.random(n) for _ in range(2))
    created = random.permutation(n)
    truth = Objects()
    truth.things = {row: Thing(*values) for row, values in enumerate(zip(x, y, created, strict=True))}
    return kind.build(x, y, created, np.arange(n)), truth


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("grid", [None, 6])
def test_queries_on_several_levels_agree_with_sorting(kind: type[Any], grid: int | None) -> None:
    index, truth = filled(kind, 3_000, 1, grid)
    index.check()
    random = np.random.default_rng(2)
    for _ in range(25):
        span = grid or 1
        lo, hi = sorted(random.random(2) * (span + 0.2) - 0.1)
        limit = float(random.integers(0, span)) if grid else float(random.random())
        row = int(random.integers(3_000))
        compare(index, truth, row, int(random.integers(3_000)), int(random.choice([1, 10, 40])), limit, lo, hi)
    for lo, hi in ((-INF, INF), (-MAX, MAX), (INF, INF), (-INF, -INF), (MAX, INF), (0.5, 0.2)):
        assert rows_of(index, index.top(lo, hi, 5_000)) == truth.top(lo, hi, 5_000)
        assert index.count(lo, hi) == truth.count(lo, hi)
        least = index.min_y(lo, hi)
        assert rows_of(index, [] if least is None else [least]) == truth.top(lo, hi, 1)


@pytest.mark.parametrize("kind", INDEXES)
def test_the_sweep_finds_every_exposed_object(kind: Any) -> None:
    for seed in range(30):
        index, truth = filled(kind, 24, seed, (None, 5)[seed % 2])
        for k in (1, 2, 4):
            row = seed % 24
            swept = rows_of(index, sweep(index, present(index.slot(row)), INF, k))
            exposed = truth.exposed(row, INF, k)
            assert [other for other in swept if other in exposed] == exposed
            if k == 1 and seed % 2 == 0:
                assert swept == exposed


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("ranks", [1, 3, 40])
@pytest.mark.parametrize("n", [15, 16, 17, 33, 5_000])
def test_exposed_objects_are_in_order_where_many_have_the_same_y(kind: Any, ranks: int, n: int) -> None:
    """As many as fit, one run, more than one, and more than are found at once."""
    random = np.random.default_rng(n + ranks)
    index = kind()
    index.reserve(n + 1, n + 1)
    x, y, created = random.random(n + 1), random.integers(0, ranks, n + 1) + 1.0, random.permutation(n + 1)
    y[n] = 0.0
    assert replay(index.arrays, np.zeros(n + 1, int), np.arange(n + 1), x, y, created)
    swept = rows_of(index, sweep(index, present(index.slot(n)), INF, 5_000))
    assert swept == sorted(range(n), key=lambda row: (y[row], created[row]))


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("order", ["rising", "falling", "equal", "inwards"])
def test_sorted_insertions_through_many_growths_stay_sound(kind: Any, order: Any) -> None:
    n = 6_000
    i = np.arange(n, dtype=float)
    x = {"rising": i, "falling": -i, "equal": 0 * i, "inwards": np.where(i % 2, i, -i) / (1 + i)}[order]
    index = kind()
    for lo in range(0, n, 500):
        index.reserve(500, lo + 500)
        part = np.arange(lo, lo + 500)
        assert replay(index.arrays, np.zeros(500, int), part, x[part], -i[part], part)
        index.check()
    assert rows_of(index, index.top(-INF, INF, 3)) == [n - 1, n - 2, n - 3]
    assert index.count(-INF, INF) == n
    half = np.arange(0, n, 2)
    assert replay(index.arrays, np.ones(len(half), int), half, i[half], i[half], half)
    index.check()
    index.reserve(0)
    index.check()
    assert len(index) == n // 2


@pytest.mark.parametrize("kind", INDEXES)
def test_drifting_ranks_keep_the_index_sound(kind: Any) -> None:
    n = 2_000
    index, truth = filled(kind, n, 5)
    random = np.random.default_rng(6)
    for _ in range(10):
        row = random.integers(0, n, 1_000)
        y = random.random(1_000) * np.where(random.random(1_000) < 0.5, 0.01, 100.0)
        replay(index.arrays, np.full(1_000, 2), row, y, y, row)
        index.check()
        for each, value in zip(row.tolist(), y.tolist(), strict=True):
            truth.things[each] = truth.things[each]._replace(y=value)
        same_objects(index, truth)
        assert rows_of(index, index.top(0.2, 0.7, 50)) == truth.top(0.2, 0.7, 50)


@pytest.mark.parametrize("kind", INDEXES)
@given(points=st.lists(st.tuples(xs, ys), max_size=80), k=ks, lo=ends, hi=ends)
@settings(max_examples=60)
def test_top_is_sorting_even_where_k_exceeds_the_world(kind: Any, points: Any, k: Any, lo: Any, hi: Any) -> None:
    truth = Objects()
    truth.things = {row: Thing(x, y, -row) for row, (x, y) in enumerate(points)}
    columns = np.array(list(truth.things.values()), float).reshape(-1, 3).T
    index = kind.build(columns[0], columns[1], columns[2].astype(int), np.arange(len(points)))
    assert rows_of(index, index.top(lo, hi, k)) == truth.top(lo, hi, k)
    assert index.count(lo, hi) == truth.count(lo, hi)


@pytest.mark.parametrize("kind", INDEXES)
def test_absent_and_present_rows_are_refused_by_name(kind: Any) -> None:
    index = kind()
    assert len(index) == 0 and index.slot(3) is None and index.count(-INF, INF) == 0
    assert index.min_y(-INF, INF) is None and len(index.top(-INF, INF, 10)) == 0
    with pytest.raises(KeyError):
        index.delete(3)
    index.insert(3, 1.0, 2.0, 0)
    with pytest.raises(ValueError, match="row 3 is present"):
        index.insert(3, 1.0, 2.0, 1)
    with pytest.raises(KeyError):
        index.move(2, 1.0)
    index.delete(3)
    index.check()
    assert index.slot(3) is None
