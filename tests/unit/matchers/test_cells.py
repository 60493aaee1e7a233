"""The best intervals by cell: their answers are those of a scan, and every list is whole, whatever changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.compiled.masks import BLOCK, block_around
from indexes.core.arrays import INF, Floats, Ints32
from indexes.matchers.config import MatcherConfig
from indexes.matchers.kernels import cells, run_index
from indexes.matchers.kernels.answers import new_answers
from indexes.matchers.kernels.cells import CellIndex, top_of_cells
from indexes.matchers.kernels.table import points
from indexes.matchers.layout import Indexes, build_indexes

N = 600


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "FEWEST", 1)
    monkeypatch.setattr(cells, "SPREAD", 8)
    monkeypatch.setattr(run_index, "TAIL", 16)
    monkeypatch.setattr(run_index, "GROWTH", 2)


class World:
    """A table of intervals, and its indexes."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind = kind
        self.rec = self.some(N)
        self.alive = np.ones(N, np.bool_)
        self.alive[N // 2 :] = False
        self.indexes: Indexes = build_indexes(MatcherConfig(("a",), "exact"), self.rec, self.rows())

    @property
    def cells(self) -> CellIndex:
        assert self.indexes.cells is not None
        return self.indexes.cells

    def rows(self) -> Ints32:
        return np.flatnonzero(self.alive).astype(np.int32)

    def some(self, n: int) -> Floats:
        """Intervals: on a grid, or anywhere, or of very different lengths; some unbounded, with many equal scores."""
        lo: Floats
        match self.kind:
            case "grid":
                lo = self.rng.integers(0, 12, n).astype(float)
                hi = lo + self.rng.integers(0, 4, n)
            case "far":
                lo = self.rng.normal(0, 1, n) * 10.0 ** self.rng.integers(-300, 300, n)
                hi = lo + np.abs(lo) * self.rng.random(n)
            case _:
                lo = self.rng.random(n)
                hi = lo + self.rng.random(n) ** 4
        lo[self.rng.random(n) < 0.02] = -INF
        hi[self.rng.random(n) < 0.02] = INF
        return np.column_stack([lo, hi, self.rng.integers(0, 40, n) / 8])

    def change(self, n: int) -> None:
        """Take some out, put others in, and give some another place."""
        gone = self.rng.choice(self.rows(), min(n, int(self.alive.sum())), replace=False).astype(np.int32)
        self.indexes.remove(self.rec, gone)
        self.alive[gone] = False
        fresh = self.rng.choice(np.flatnonzero(~self.alive), n, replace=False).astype(np.int32)
        self.rec[fresh] = self.some(n)
        self.alive[fresh] = True
        self.indexes.add(self.rec, fresh)

    def check(self) -> None:
        self.cells.check(self.rec, self.rows())
        ends = np.concatenate([self.rec[:, :2].ravel(), self.cells.arrays.bound])
        ends = ends[np.isfinite(ends)]
        near = [ends, np.nextafter(ends, INF), np.nextafter(ends, -INF), [np.nan, -1e308, 1e308, 0.0]]
        self.ask(points(np.concatenate(near)), 5)

    def ask(self, events: Floats, k: int) -> int:
        """Compare answers with a scan; returns how many there are."""
        answers = new_answers(len(events), k)
        top_of_cells(self.cells.arrays, self.rec, events, answers)
        rows = self.rows()
        best = rows[np.lexsort((rows, -self.rec[rows, 2]))]
        for t, (a, b) in enumerate(events):
            n = int(answers.found[t])
            met = best[(self.rec[best, 0] <= b) & (self.rec[best, 1] >= a)]
            assert n in (0, min(k, len(met)))
            assert answers.rows[t, :n].tolist() == met[:n].tolist()
        return int(np.count_nonzero(answers.found))


@pytest.mark.parametrize("kind", ["grid", "far", "mixed"])
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1 << 20))
def test_lists_are_whole_whatever_changes(kind: str, seed: int) -> None:
    world = World(seed, kind)
    world.check()
    for n in (1, 3, 40, 200, 1, 60):
        world.change(n)
        world.check()


def test_most_points_are_answered() -> None:
    world = World(1, "mixed")
    events = points(world.rng.random(500))
    assert world.ask(events, 5) > 450
    assert world.ask(events, BLOCK + 1) == 0, "no list is so long"
    assert world.ask(np.column_stack([events[:, 0], events[:, 0] + 0.1]), 5) == 0, "a range is not in one cell"


def test_short_lists_are_filled_again() -> None:
    """Once half of what a list had has gone, from the runs, which have what ranked below its floor."""
    world = World(2, "mixed")
    full = np.count_nonzero(world.cells.arrays.used == BLOCK)
    assert full > 5
    best = world.rows()[np.argsort(-world.rec[world.rows(), 2], kind="stable")].astype(np.int32)
    for begin in range(0, 150, 10):
        gone = best[begin : begin + 10]
        world.indexes.remove(world.rec, gone)
        world.alive[gone] = False
        world.check()
    arrays = world.cells.arrays
    assert ((arrays.used >= cells.SHORT) | (arrays.floor[: len(arrays.used)] == -INF)).all()


def test_cells_are_let_go_when_changes_are_in_too_many_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "DEAR", 0)
    world = World(3, "mixed")
    assert len(world.cells)
    world.change(5)
    assert not len(world.cells)
    assert world.ask(points(world.rng.random(50)), 5) == 0
    world.change(5)
    world.cells.check(world.rec, world.rows())


def test_few_intervals_have_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "FEWEST", N)
    assert not len(World(4, "mixed").cells)


def test_a_block_is_compared_with_a_part_of_a_cell() -> None:
    rng = np.random.default_rng(0)
    code: Any = rng.integers(0, 256, 3 * BLOCK).astype(np.uint8)
    for base, part in ((0, 1), (7, 128), (BLOCK, 254)):
        lower, upper = code[base : base + BLOCK].astype(int), code[base + BLOCK : base + 2 * BLOCK].astype(int)
        reach, exceed = block_around(code, base, part)
        for i in range(BLOCK):
            assert (reach >> i & 1) == (lower[i] >= 255 - part and upper[i] >= part)
            assert (exceed >> i & 1) == (lower[i] > 255 - part and upper[i] > part)
