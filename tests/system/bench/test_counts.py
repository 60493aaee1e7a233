"""What the benchmark counts is what brute force counts, and both ways of Unicast find the same."""

from __future__ import annotations

import numpy as np
import pytest

from bench import compare
from bench.baselines.unicast import count_wrong, make_recipients, unicast
from bench.boards import tables
from bench.boards.tables import Counts, Row, Size, Tables, measure
from bench.boards.workload import (
    COIN,
    World,
    make_ranges,
    make_world,
    new_y,
    object_index,
    scratch,
    subscription_index,
)
from bench.report import Report
from indexes.boards.kernels.object_index import set_y

N, M, EVENTS, SEED = 30, 60, 60, 3


@pytest.fixture
def world() -> World:
    return make_world(N, EVENTS, SEED)


def event(world: World, y: np.ndarray, e: int) -> tuple[int, float]:
    """The object and the new y of an event, from the text of the workload."""
    which, u, side = world.events[e]
    i = int(which * N)
    return i, y[i] * u if side < 0.5 else y[i] + (1 - y[i]) * u


def top(x: np.ndarray, y: np.ndarray, l: float, r: float, k: int) -> list[int]:
    inside = [i for i in range(len(x)) if l <= x[i] <= r]
    return sorted(inside, key=lambda i: (y[i], i))[:k]


@pytest.mark.parametrize("k", [1, 3])
def test_counts_are_those_of_brute_force(world: World, k: int) -> None:
    ranges = list(zip(*make_ranges(M, SEED), strict=True))
    y = world.y.copy()
    affected = square = 0
    for e in range(EVENTS):
        i, new = event(world, y, e)
        before = [top(world.x, y, l, r, k) for l, r in ranges]
        best = min(y[i], new)
        y[i] = new
        after = [top(world.x, y, l, r, k) for l, r in ranges]
        affected += sum(i in old or i in now for old, now in zip(before, after, strict=True))
        for l, r in ranges:
            if l <= world.x[i] <= r:
                better = [j for j in range(N) if j != i and (y[j], j) < (best, i)]
                square += (
                    sum(l <= world.x[j] <= world.x[i] for j in better) < k
                    and sum(world.x[i] < world.x[j] <= r for j in better) < k
                )
    counts = measure(world, subscription_index(M, SEED), k)
    assert counts.affected == pytest.approx(affected / EVENTS)
    assert counts.unicast == pytest.approx(square / EVENTS)
    assert counts.tiles_sparse <= counts.tiles_dense
    assert counts.min_y_sparse <= counts.min_y_dense


@pytest.mark.parametrize("walk", [False, True])
def test_unicast_tells_each_affected_subscription_which_object_enters(world: World, walk: bool) -> None:
    k = 3
    forest = subscription_index(M, SEED)
    o, told = object_index(world), make_recipients(M)
    work, _ = scratch(k)
    y = world.y.copy()
    for e in range(EVENTS):
        i, new = event(world, y, e)
        s = int(o.pos[i])
        heard, _ = unicast(o, forest, k, s, new, work, walk, told)
        before, old = y.copy(), y[i]
        y[i] = new
        expected = {}
        for l, r in zip(*make_ranges(M, SEED), strict=True):
            was, now = top(world.x, before, l, r, k), top(world.x, y, l, r, k)
            if i in was or i in now:
                entered = set(now) - set(was) - {i}
                expected[l, r] = entered.pop() if new > old and entered else -1
        rows = o.row[told.entering[:heard]]
        entering = np.where(told.entering[:heard] >= 0, rows, -1).tolist()
        assert dict(zip(zip(told.l[:heard], told.r[:heard], strict=True), entering, strict=True)) == expected
        set_y(o, s, new)


@pytest.mark.parametrize("k", [1, 3])
def test_one_min_y_is_wrong_where_the_object_was_not_the_last_of_the_list(world: World, k: int) -> None:
    work, _ = scratch(k)
    affected, wrong = count_wrong(
        object_index(world), subscription_index(M, SEED), k, work, world.events, N, COIN, make_recipients(M)
    )
    y = world.y.copy()
    expected = [0, 0]
    for e in range(EVENTS):
        i, new = event(world, y, e)
        before, old = y.copy(), y[i]
        y[i] = new
        for l, r in zip(*make_ranges(M, SEED), strict=True):
            was, now = top(world.x, before, l, r, k), top(world.x, y, l, r, k)
            if new > old and i in was:
                entered = set(now) - set(was)
                next_best = [j for j in top(world.x, before, l, r, N) if old < before[j] < new][:1]
                expected[0] += 1
                expected[1] += entered != set(next_best)
    assert [affected, wrong] == expected
    assert (wrong == 0) == (k == 1)


def test_the_new_y_is_the_old_one_moved_to_the_side_of_the_coin() -> None:
    assert new_y(0.5, 0.5, 0.1, COIN) == 0.25
    assert new_y(0.5, 0.5, 0.9, COIN) == 0.75


def test_tables_show_a_row_for_each_of_the_papers_values(capsys: pytest.CaptureFixture[str]) -> None:
    size = Size(n=200, m=500, events=50, ks=(1, 5), ms=(200, None), seeds=(2,))
    tables.TABLE_IV[200] = (1.0, 1.0, 1.0)
    try:
        Tables(Report(), size).show((1, 3, 4))
    finally:
        del tables.TABLE_IV[200]
    shown = capsys.readouterr().out
    assert "| 1 | 444.1 |" in shown
    assert "| 5 | snaps | 12.1 |" in shown
    assert "| 200 | `min_y`, Unicast | 1.000 |" in shown
    assert "| dense | `min_y`, Paint-Dense | 6.600 |" in shown


class Known(Tables):
    """Tables that measure nothing: values by (model, seed)."""

    values: dict[tuple[int, int], float]

    def _measure(self, k: int, m: int, model: int, seed: int) -> Counts:
        return Counts(*[self.values[model, seed]] * len(Counts._fields))


@pytest.mark.parametrize(
    ("others", "uniform", "why"),
    [
        ((80.0, 104.0), 50.0, "the random numbers"),
        ((80.0, 82.0), 101.0, "with a uniform new y"),
        ((80.0, 82.0), 50.0, "open"),
    ],
)
def test_a_value_that_is_off_is_explained_by_what_was_tried(
    others: tuple[float, ...], uniform: float, why: str
) -> None:
    known = Known(Report(lambda _: None), Size(seeds=(2, 3)))
    known.values = {(1, 1): 81.0, (1, 2): others[0], (1, 3): others[1], (0, 1): uniform}
    assert why in compare.why(known._compared(Row(("1",), 100.0, 1, 1, "affected")))
