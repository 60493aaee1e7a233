"""The difference that a batch makes: rows are collected, crossing items found, and lists reverted to O0."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numba import njit

from indexes.boards.kernels import batch_diff as kernels
from indexes.boards.kernels.batch_diff import ITEMS, MISSING, BatchDiff, DiffBuffers, DiffItems, better
from indexes.boards.kernels.changes import DELETE, SET, Changes
from indexes.boards.kernels.range_tree import RangeTreeIndex

INF = np.inf
NAN = np.nan

BUFFERS = DiffBuffers()
"""Reused by all tests, as a board reuses its own."""


# Entry points for functions that only kernels can call.


@njit
def is_changed(diff: Any, row: Any) -> Any:
    return kernels.is_changed(diff, row)


@njit
def crossing(g: Any, p: Any, east: Any, upper: Any, lower: Any, x_end: Any) -> Any:
    return kernels.crossing(g, p, east, upper, lower, x_end)


@njit
def passes(g: Any, p: Any, y: Any, c: Any) -> Any:
    return kernels.passes(g, p, y, c)


@njit
def revert_lists(
    diff: Any, promoted_at: Any, demoted_at: Any, applied: Any, y: Any, c: Any, k: Any, west: Any, east: Any
) -> None:
    kernels.revert_lists(diff, promoted_at, demoted_at, applied, y, c, k, west, east)


values = st.integers(0, 8).map(float)
objects = st.lists(st.tuples(values, values), min_size=1, max_size=40)
updates = st.lists(st.tuples(st.integers(0, 39), values), max_size=60)


def changes(*given: tuple[int, int, float, float, int]) -> Changes:
    kind, row, x, y, created = ([one[i] for one in given] for i in range(5))
    return Changes(
        np.array(kind, np.uint8),
        np.array(row, np.int32),
        np.array(x, float),
        np.array(y, float),
        np.array(created, np.int64),
        np.zeros(len(given), np.uint8),
    )


def index_of(x: list[float], y: list[float], rows: int) -> RangeTreeIndex:
    index = RangeTreeIndex.build(x, y, np.arange(len(x)), np.arange(len(x)))
    index.reserve(0, rows)
    return index


def count(g: DiffItems) -> int:
    return int(g.size[ITEMS])


def items(g: DiffItems) -> list[tuple[int, float, float, float]]:
    return [(int(g.row[i]), float(g.x[i]), float(g.y0[i]), float(g.y1[i])) for i in range(count(g))]


def test_each_object_is_what_all_its_changes_made_of_it() -> None:
    o = index_of([5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0], 8).arrays
    diff = DiffBuffers().diff_of(
        o,
        changes(
            (SET, 0, NAN, 9.0, -1),
            (SET, 0, NAN, 3.0, -1),  # demoted, in two steps
            (SET, 1, NAN, 0.0, -1),  # promoted
            (SET, 2, 7.0, NAN, -1),  # moved
            (SET, 3, NAN, 5.0, -1),
            (SET, 3, NAN, 1.0, -1),  # as before
            (DELETE, 4, NAN, NAN, -1),  # deleted
            (SET, 5, 6.0, 2.0, 5),  # inserted
            (SET, 6, 6.0, 2.0, 6),
            (DELETE, 6, NAN, NAN, -1),  # inserted and deleted
        ),
        np.zeros(0, np.int64),
        8,
    )
    assert items(diff.demoted) == [(4, 1.0, 1.0, INF), (2, 3.0, 1.0, INF), (0, 5.0, 1.0, 3.0)]
    assert items(diff.promoted) == [(1, 4.0, 1.0, 0.0), (5, 6.0, INF, 2.0), (2, 7.0, INF, 1.0)]
    assert [is_changed(diff, row) for row in range(9)] == [1, 1, 1, 0, 1, 1, 0, 0, 1]
    assert diff.demoted.other[:3].tolist() == [0, 0, 1] and diff.promoted.other[:3].tolist() == [2, 3, 3]
    assert (diff.demoted.size[MISSING], diff.promoted.size[MISSING]) == (2, 2)


def test_a_new_payload_alone_counts_as_a_rise_to_the_same_value() -> None:
    o = index_of([1.0, 2.0], [1.0, 2.0], 2).arrays
    diff = DiffBuffers().diff_of(o, changes((SET, 1, NAN, NAN, -1), (SET, 0, NAN, 1.0, -1)), np.array([1]), 2)
    assert items(diff.demoted) == [] and items(diff.promoted) == [(1, 2.0, 2.0, 2.0)]


def made(start: list[tuple[float, float]], changed: list[tuple[int, float]]) -> tuple[BatchDiff, dict[int, float]]:
    changed = [(row % len(start), y) for row, y in changed]
    x, y = [one[0] for one in start], [one[1] for one in start]
    diff = BUFFERS.diff_of(
        index_of(x, y, len(start)).arrays,
        changes(*((SET, row, NAN, y, -1) for row, y in changed)),
        np.zeros(0, np.int64),
        len(start),
    )
    return diff, dict(changed)


@given(start=objects, changed=updates)
def test_room_holds_nothing_of_the_batch_before(
    start: list[tuple[float, float]], changed: list[tuple[int, float]]
) -> None:
    diff, last = made(start, changed)
    before = [one[1] for one in start]
    after = [last.get(row, y) for row, y in enumerate(before)]
    for g, worse in ((diff.demoted, True), (diff.promoted, False)):
        wanted = [
            (row, start[row][0], old, new)
            for row, (old, new) in enumerate(zip(before, after, strict=True))
            if (new > old if worse else new < old)
        ]
        assert sorted(items(g)) == sorted(wanted)
        assert [x for _, x, _, _ in items(g)] == sorted(x for _, x, _, _ in wanted)
    flags = [is_changed(diff, row) for row in range(len(start) + 1)]
    assert flags == [*(old != new for old, new in zip(before, after, strict=True)), True]


@given(
    start=objects, changed=updates, east=st.booleans(), upper=values, lower=values, x_end=values, p=st.integers(-1, 40)
)
def test_the_nearest_item_that_crosses_is_found(
    start: list[tuple[float, float]],
    changed: list[tuple[int, float]],
    east: bool,
    upper: float,
    lower: float,
    x_end: float,
    p: int,
) -> None:
    g = made(start, changed)[0].demoted
    wanted = [
        i
        for i in (range(p, count(g)) if east else range(min(p, count(g) - 1), -1, -1))
        if min(g.y0[i], g.y1[i]) <= upper
        and max(g.y0[i], g.y1[i]) >= lower
        and (g.x[i] <= x_end if east else g.x[i] >= x_end)
    ]
    # Nobody looks on from a place that lies behind the end.
    if p >= 0 if east else p < count(g):
        assert crossing(g, p, east, upper, lower, x_end) == (wanted[0] if wanted else -1)


@given(start=objects, changed=updates, x=values, y=values, k=st.integers(1, 4))
def test_lists_go_back_before_the_batch_as_far_as_they_reach(
    start: list[tuple[float, float]], changed: list[tuple[int, float]], x: float, y: float, k: int
) -> None:
    diff, last = made(start, changed)
    c = len(start)  # the object at hand is the youngest

    def lists(ys: list[float]) -> tuple[list[float], list[float]]:
        there = [start[i][0] for i in range(len(start)) if better(ys[i], i, y, c)]
        west = sorted((at for at in there if at < x), reverse=True)
        return ([x, *west, *[-INF] * k])[: k + 1], ([x, *sorted(at for at in there if at >= x), *[INF] * k])[: k + 1]

    old = [one[1] for one in start]
    new = [last.get(i, old[i]) for i in range(len(start))]
    west, east = (np.array(side) for side in lists(new))
    l, r = west[k], east[k]
    demoted_at, promoted_at = (int(np.searchsorted(g.x[: count(g)], x)) for g in (diff.demoted, diff.promoted))
    revert_lists(diff, promoted_at, demoted_at, count(diff.demoted), y, c, k, west, east)
    wanted_west, wanted_east = lists(old)
    assert [v for v in west if v > l] == [v for v in wanted_west if v > l]
    assert [v for v in east if v < r] == [v for v in wanted_east if v < r]
    assert not any(
        passes(g, i, y, c) for g in (diff.demoted, diff.promoted) for i in range(count(g)) if g.y0[i] == g.y1[i]
    )


def test_a_batch_that_is_too_large_for_the_room_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "KEPT", 4)
    room, o, none = DiffBuffers(), index_of([1.0] * 200, [1.0] * 200, 200).arrays, np.zeros(0, np.int64)
    for rows in ([7, 8], [*range(100)], [150], [3, 70, 199], [*range(64, 200)], [], [0]):
        diff = room.diff_of(o, changes(*((SET, row, NAN, 2.0, -1) for row in rows)), none, 200)
        assert [row for row in range(200) if is_changed(diff, row)] == rows
        assert sorted(row for row, _, _, _ in items(diff.demoted)) == rows and count(diff.promoted) == 0
