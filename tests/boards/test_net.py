"""What a batch does, net: rows come together, items that cross a value are found, lists go back before the batch."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numba import njit

from indexes.boards import net as kernels
from indexes.boards.changes import DELETE, SET, Changes
from indexes.boards.net import ITEMS, MISSING, Group, Net, Room, better
from indexes.boards.range_tree import RangeTreeIndex

INF = np.inf
NAN = np.nan

ROOM = Room()
"""Used again and again, as that of a board."""


# What only kernels can call.


@njit
def is_changed(net, row):  # type: ignore[no-untyped-def]
    return kernels.is_changed(net, row)


@njit
def crossing(g, p, east, upper, lower, x_end):  # type: ignore[no-untyped-def]
    return kernels.crossing(g, p, east, upper, lower, x_end)


@njit
def passes(g, p, y, c):  # type: ignore[no-untyped-def]
    return kernels.passes(g, p, y, c)


@njit
def turn_back(net, rise, fall, behind, y, c, k, west, east):  # type: ignore[no-untyped-def]
    kernels.turn_back(net, rise, fall, behind, y, c, k, west, east)


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


def count(g: Group) -> int:
    return int(g.size[ITEMS])


def items(g: Group) -> list[tuple[int, float, float, float]]:
    return [(int(g.row[i]), float(g.x[i]), float(g.y0[i]), float(g.y1[i])) for i in range(count(g))]


def test_each_object_is_what_all_its_changes_made_of_it() -> None:
    o = index_of([5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0], 8).arrays
    net = Room().net_of(
        o,
        changes(
            (SET, 0, NAN, 9.0, -1),
            (SET, 0, NAN, 3.0, -1),  # fell, in two steps
            (SET, 1, NAN, 0.0, -1),  # rose
            (SET, 2, 7.0, NAN, -1),  # moved
            (SET, 3, NAN, 5.0, -1),
            (SET, 3, NAN, 1.0, -1),  # as before
            (DELETE, 4, NAN, NAN, -1),  # went
            (SET, 5, 6.0, 2.0, 5),  # came
            (SET, 6, 6.0, 2.0, 6),
            (DELETE, 6, NAN, NAN, -1),  # came and went
        ),
        np.zeros(0, np.int64),
        8,
    )
    assert items(net.fallen) == [(4, 1.0, 1.0, INF), (2, 3.0, 1.0, INF), (0, 5.0, 1.0, 3.0)]
    assert items(net.risen) == [(1, 4.0, 1.0, 0.0), (5, 6.0, INF, 2.0), (2, 7.0, INF, 1.0)]
    assert [is_changed(net, row) for row in range(9)] == [1, 1, 1, 0, 1, 1, 0, 0, 1]
    assert net.fallen.other[:3].tolist() == [0, 0, 1] and net.risen.other[:3].tolist() == [2, 3, 3]
    assert (net.fallen.size[MISSING], net.risen.size[MISSING]) == (2, 2)


def test_a_new_payload_alone_counts_as_a_rise_to_the_same_value() -> None:
    o = index_of([1.0, 2.0], [1.0, 2.0], 2).arrays
    net = Room().net_of(o, changes((SET, 1, NAN, NAN, -1), (SET, 0, NAN, 1.0, -1)), np.array([1]), 2)
    assert items(net.fallen) == [] and items(net.risen) == [(1, 2.0, 2.0, 2.0)]


def made(start: list[tuple[float, float]], news: list[tuple[int, float]]) -> tuple[Net, dict[int, float]]:
    news = [(row % len(start), y) for row, y in news]
    x, y = [one[0] for one in start], [one[1] for one in start]
    net = ROOM.net_of(
        index_of(x, y, len(start)).arrays,
        changes(*((SET, row, NAN, y, -1) for row, y in news)),
        np.zeros(0, np.int64),
        len(start),
    )
    return net, dict(news)


@given(start=objects, news=updates)
def test_room_holds_nothing_of_the_batch_before(
    start: list[tuple[float, float]], news: list[tuple[int, float]]
) -> None:
    net, last = made(start, news)
    before = [one[1] for one in start]
    after = [last.get(row, y) for row, y in enumerate(before)]
    for g, worse in ((net.fallen, True), (net.risen, False)):
        wanted = [
            (row, start[row][0], old, new)
            for row, (old, new) in enumerate(zip(before, after, strict=True))
            if (new > old if worse else new < old)
        ]
        assert sorted(items(g)) == sorted(wanted)
        assert [x for _, x, _, _ in items(g)] == sorted(x for _, x, _, _ in wanted)
    changed = [is_changed(net, row) for row in range(len(start) + 1)]
    assert changed == [*(old != new for old, new in zip(before, after, strict=True)), True]


@given(start=objects, news=updates, east=st.booleans(), upper=values, lower=values, x_end=values, p=st.integers(-1, 40))
def test_the_nearest_item_that_crosses_is_found(
    start: list[tuple[float, float]],
    news: list[tuple[int, float]],
    east: bool,
    upper: float,
    lower: float,
    x_end: float,
    p: int,
) -> None:
    g = made(start, news)[0].fallen
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


@given(start=objects, news=updates, x=values, y=values, k=st.integers(1, 4))
def test_lists_go_back_before_the_batch_as_far_as_they_reach(
    start: list[tuple[float, float]], news: list[tuple[int, float]], x: float, y: float, k: int
) -> None:
    net, last = made(start, news)
    c = len(start)  # the object at hand is the youngest

    def lists(ys: list[float]) -> tuple[list[float], list[float]]:
        there = [start[i][0] for i in range(len(start)) if better(ys[i], i, y, c)]
        west = sorted((at for at in there if at < x), reverse=True)
        return ([x, *west, *[-INF] * k])[: k + 1], ([x, *sorted(at for at in there if at >= x), *[INF] * k])[: k + 1]

    old = [one[1] for one in start]
    new = [last.get(i, old[i]) for i in range(len(start))]
    west, east = (np.array(side) for side in lists(new))
    l, r = west[k], east[k]
    fall, rise = (int(np.searchsorted(g.x[: count(g)], x)) for g in (net.fallen, net.risen))
    turn_back(net, rise, fall, count(net.fallen), y, c, k, west, east)
    wanted_west, wanted_east = lists(old)
    assert [v for v in west if v > l] == [v for v in wanted_west if v > l]
    assert [v for v in east if v < r] == [v for v in wanted_east if v < r]
    assert not any(passes(g, i, y, c) for g in (net.fallen, net.risen) for i in range(count(g)) if g.y0[i] == g.y1[i])


def test_a_batch_that_is_too_large_for_the_room_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "KEPT", 4)
    room, o, none = Room(), index_of([1.0] * 200, [1.0] * 200, 200).arrays, np.zeros(0, np.int64)
    for rows in ([7, 8], [*range(100)], [150], [3, 70, 199], [*range(64, 200)], [], [0]):
        net = room.net_of(o, changes(*((SET, row, NAN, 2.0, -1) for row in rows)), none, 200)
        assert [row for row in range(200) if is_changed(net, row)] == rows
        assert sorted(row for row, _, _, _ in items(net.fallen)) == rows and count(net.risen) == 0
