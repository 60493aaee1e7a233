"""Objects spread over zone owners answer as one index does, and no longer a way is counted than is gone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.boards.owners import Size, Spread, measure
from bench.network.owners import Owners, first_k, min_y, owner_of, share_out
from bench.report import Report

INF = np.inf


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Owners, int, float, int]:
    n = draw(st.integers(1, 30))
    owners = draw(st.integers(1, n))
    y = np.array(draw(st.permutations(range(n))), float)
    x = np.sort(np.array(draw(st.lists(st.integers(0, 100), min_size=n, max_size=n, unique=True)), float))
    return share_out(x, y, owners), draw(st.integers(0, n - 1)), draw(st.integers(0, n)) - 0.5, draw(st.integers(1, 8))


@given(worlds())
def test_every_owner_has_its_share(world: tuple[Owners, int, float, int]) -> None:
    d, i, _, _ = world
    shares = np.diff(d.first)
    assert shares.sum() == len(d.x) and shares.max() - shares.min() <= 1
    s = owner_of(d, i)
    assert d.first[s] <= i < d.first[s + 1]


@given(worlds(), st.booleans())
def test_first_k_finds_the_nearest_better_and_asks_no_owner_too_many(
    world: tuple[Owners, int, float, int], east: bool
) -> None:
    d, i, y, k = world
    side = range(i + 1, len(d.x)) if east else range(i - 1, -1, -1)
    better = [j for j in side if d.y[j] < y][:k]
    found, last, length = first_k(d, i, y, k, east)
    assert found == len(better)
    assert last == (d.x[better[-1]] if better else d.x[i])
    rim = len(d.x) - 1 if east else 0
    end = better[-1] if len(better) == k else rim
    assert length == abs(owner_of(d, end) - owner_of(d, i))


@given(worlds(), st.integers(-10, 110), st.integers(-10, 110))
def test_min_y_finds_the_next_object_of_the_range(world: tuple[Owners, int, float, int], l: int, r: int) -> None:
    d, i, y, _ = world
    l, r = min(l, d.x[i] - 1), max(r, d.x[i] + 1)
    inside = [j for j in range(len(d.x)) if l < d.x[j] < r and d.y[j] > y]
    found, length = min_y(d, i, l, r, y)
    assert found == min(inside, key=lambda j: d.y[j], default=-1)
    touched = {int(owner_of(d, j)) for j in range(len(d.x)) if l < d.x[j] < r}
    assert len(touched) - 1 <= length <= len(d.first) - 2


def test_lengths_are_those_of_the_formula_where_half_are_better() -> None:
    rng = np.random.default_rng(2)
    d = share_out(np.sort(rng.random(20_000)), rng.random(20_000), 100)
    objects = rng.integers(6_000, 14_000, size=300)
    found = measure(d, objects, np.full(300, 0.5), 1_000)
    assert found.first_k == pytest.approx(2 * 1_000 * 100 / 20_000, rel=0.1)
    assert found.min_y == pytest.approx(2 * found.first_k, rel=0.1)


def test_figure_20_has_a_row_for_each_query_and_k() -> None:
    report = Report(lambda _: None)
    panels = Spread(report, Size(n=400, owners=10, events=20, ks=(2, 50))).figure_20()
    assert [curve.x for curve in panels[0].curves] == [(2, 50)] * 6
    assert report.page().count("| half are better |") == report.page().count("| a random object |") == 4
