"""The audit's numpy join against sorting and scanning in plain Python."""

from __future__ import annotations

from math import inf
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.audit import ranges
from spark_jobs.audit.ranges import Lists, differing, rank, top

# Few values, so that x and y are shared, and ends fall on objects, between them and beyond them.
NUMBERS = st.sampled_from([-1e300, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, 1e300])
ENDS = st.one_of(NUMBERS, st.sampled_from([-inf, inf, -2.0, 0.25, 2.0]))
RANGES = st.tuples(ENDS, ENDS, st.sampled_from([1, 2, 3, 7, 1000]))


@st.composite
def boards(draw: st.DrawFn) -> list[tuple[float, float, int, int]]:
    """Objects (x, y, created, row): rows with gaps, ages in another order."""
    values = draw(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40))
    ages = draw(st.permutations(range(len(values))))
    return [(x, y, 5 * age, 3 * i + 1) for i, ((x, y), age) in enumerate(zip(values, ages, strict=True))]


def truth(objects: list[tuple[float, float, int, int]], l: float, r: float, k: int, descending: bool) -> list[int]:
    """The rows of the best k."""
    inside = [one for one in objects if l <= one[0] <= r]
    inside.sort(key=lambda one: (-one[1] if descending else one[1], one[2]))
    return [one[3] for one in inside[:k]]


def columns(objects: list[tuple[float, float, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    x, y, created, row = zip(*objects, strict=True) if objects else ((), (), (), ())
    return np.array(x, float), np.array(y, float), np.array(created, np.int64), np.array(row, np.int32)


def split(lists: Lists) -> list[list[int]]:
    return [part.tolist() for part in np.split(lists.values, np.cumsum(lists.length)[:-1])]


def answers(
    objects: list[tuple[float, float, int, int]], asked: list[tuple[float, float, int]], descending: bool
) -> list[list[int]]:
    """What `top` says, as rows."""
    ranked = rank(*columns(objects), descending)
    l, r, k = zip(*asked, strict=True)
    found = top(ranked, np.array(l, float), np.array(r, float), np.array(k, np.int32))
    return split(Lists(found.length, ranked.row[found.values]))


@pytest.mark.parametrize("narrow", [None, True, False], ids=["as it chooses", "all fetched", "all walked"])
@pytest.mark.parametrize("cells", [1, 50, 1 << 19])
@given(objects=boards(), asked=st.lists(RANGES, min_size=1, max_size=30), descending=st.booleans())
def test_each_range_has_its_best_k(
    narrow: bool | None,
    cells: int,
    objects: list[tuple[float, float, int, int]],
    asked: list[tuple[float, float, int]],
    descending: bool,
) -> None:
    expected = [truth(objects, *one, descending) for one in asked]
    choose = (lambda width, k, n: narrow) if narrow is not None else ranges._narrow
    # Fewer cells: more and smaller groups, and more blocks to walk.
    few: dict[str, Any] = {
        "_narrow": choose,
        "_CELLS": cells,
        "_block": lambda width, k, n: min(n, max(1, cells // 10)),
    }
    with mock.patch.multiple(ranges, **few):
        assert answers(objects, asked, descending) == expected


def test_many_objects_take_several_blocks() -> None:
    """At the real sizes of blocks and groups, with an order that makes a walk long: the best are all far from r."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 1500, 3000).astype(float)
    objects = [(float(x[i]), float(x[i] // 7), 3000 - i, i) for i in range(3000)]
    ends = np.sort(rng.integers(-5, 1505, (400, 2)), 1).astype(float)
    asked = [(l, r, int(k)) for (l, r), k in zip(ends.tolist(), rng.choice([1, 10, 400], 400), strict=True)]
    for descending in (False, True):
        assert answers(objects, asked, descending) == [truth(objects, *one, descending) for one in asked]


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 3), max_size=3)] * 2), min_size=1))
def test_differing_marks_every_pair_that_is_not_equal(pairs: list[tuple[list[int], list[int]]]) -> None:
    def pack(lists: tuple[Any, ...]) -> Lists:
        return Lists(np.array([len(one) for one in lists]), np.array([v for one in lists for v in one], np.int32))

    left, right = zip(*pairs, strict=True)
    assert differing(pack(left), pack(right)).tolist() == [a != b for a, b in pairs]
