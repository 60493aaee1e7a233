"""The base, its tombstones and the delta: any changes leave what a dictionary would hold, under tight bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.kernels.object_index import BLOCK, BLOCKS
from indexes.maps.object_index import PlaceIndex
from tests.unit.maps.helpers import arrays_of


def held(index: PlaceIndex) -> dict[int, tuple[float, ...]]:
    slots = index.slots()
    points, statics = index.rows(slots)
    return dict(zip(slots.tolist(), map(tuple, np.hstack([points, statics]).tolist()), strict=True))


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_changes_in_any_order_leave_what_a_dictionary_would_hold(seed: int, d: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 5, (n, 2 + d)) / 4
    index = PlaceIndex.build(rows[:, :2], rows[:, 2:], fanout=5)
    truth = dict(enumerate(map(tuple, rows.tolist())))
    for _ in range(6):
        slots = rng.integers(0, 2 * n + 5, int(rng.integers(0, 2 * BLOCK)))
        if rng.random() < 0.4:
            index.delete(slots)
            for slot in slots.tolist():
                truth.pop(slot, None)
        else:
            rows = rng.integers(0, 5, (len(slots), 2 + d)) / 4
            index.put(slots, rows[:, :2], rows[:, 2:])
            truth.update(zip(slots.tolist(), map(tuple, rows.tolist()), strict=True))
        index.check()
        assert held(index) == truth and len(index) == len(truth)
        assert all((slot in index) == (slot in truth) for slot in range(-1, 2 * n + 6))
    folded = index.folded(fanout=5)
    folded.check()
    assert held(folded) == truth and folded.delta == 0 and folded.churn == 0
    rows = np.array([truth[slot] for slot in sorted(truth)]).reshape(-1, 2 + d)
    again = PlaceIndex.build(rows[:, :2], rows[:, 2:], sorted(truth), fanout=5)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays_of(folded.tree), arrays_of(again.tree), strict=True))


@given(st.integers(0, 2**32), st.integers(0, 3), st.integers(1, 100))
@settings(max_examples=60, deadline=None)
def test_objects_that_are_there_are_changed_in_part(seed: int, d: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 5, (n, 2 + d)) / 4
    index = PlaceIndex.build(rows[:, :2], rows[:, 2:], fanout=5)
    signs = rng.choice([1.0, -1.0], d)
    for _ in range(8):
        slots = rng.choice(n, int(rng.integers(0, n + 1)), replace=False).astype(np.int32)
        given = rng.integers(-2, 5, (len(slots), 2 + d)) / 4
        given[rng.random(given.shape) < 0.4] = np.nan
        given[given == 0.0] = -0.0
        wanted = rows.copy()
        signed = np.concatenate([given[:, :2], given[:, 2:] * signs], axis=1)
        wanted[slots] = np.where(np.isnan(given), rows[slots], signed)
        points, statics = given[:, :2].copy(), given[:, 2:].copy()
        changed = index.change(slots, signs, points, statics)
        assert changed.tolist() == np.flatnonzero((wanted != rows)[slots].any(axis=1)).tolist()
        assert np.array_equal(np.hstack([points, statics]), wanted[slots])
        assert not np.signbit(np.hstack([points, statics])[wanted[slots] == 0.0]).any()
        before, copied = held(index), index.copy()
        index.check()
        assert held(index) == dict(enumerate(map(tuple, wanted.tolist())))
        rows = wanted
        others = rng.random((n, 2 + d))
        index.change(np.arange(n, dtype=np.int32), np.ones(d), others[:, :2].copy(), others[:, 2:].copy())
        assert held(copied) == before
        copied.check()
        rows = np.where(rng.random(rows.shape) < 0.5, rows, others)
        index.put(np.arange(n), rows[:, :2], rows[:, 2:])
    folded = index.folded()
    folded.check()
    assert held(folded) == held(index)


def test_an_object_of_the_base_that_stays_in_its_leaf_stays_in_the_base() -> None:
    points, statics = np.array([[0, 0], [4, 4], [9, 9.0]]), np.array([[0], [2], [5.0]])
    index = PlaceIndex.build(points, statics, fanout=5)
    slots, sign = np.array([1], np.int32), np.ones(1)
    for row, left in (([9, 0, 5], 0), ([9.5, 0, 5], 1), ([1, 1, 1], 1)):
        given = np.array([row], np.float64)
        assert index.change(slots, sign, given[:, :2].copy(), given[:, 2:].copy()).tolist() == [0]
        assert index.delta == left and held(index)[1] == tuple(row)
        index.check()
    assert len(index) == 3 and index.churn == pytest.approx(2 / 3)


def test_an_object_keeps_its_order_of_creation_through_changes_and_folds() -> None:
    index = PlaceIndex.build([[0, 0], [1, 1]], [[0], [1]], [3, 5], [70, 10])
    index.put([3, 9], [[2, 2], [3, 3]], [[2], [3]], [1000, 5])
    assert index.folded().view.created[[3, 5, 9]].tolist() == [70, 10, 5]
    index.delete([3])
    index.put([3], [[2, 2]], [[2]], [2000])
    assert index.view.created[3] == 2000


def test_what_is_no_place_or_no_value_is_refused_and_changes_nothing() -> None:
    index = PlaceIndex.build([[0, 0]], [[0]])
    for point, value in (([np.nan, 0], 0), ([0, np.inf], 0), ([0, 0], np.nan), ([0, 0], -np.inf)):
        with pytest.raises(ValueError):
            index.put([1, 0], np.array([[1, 1], point]), np.array([[1], [value]]))
    assert held(index) == {0: (0.0, 0.0, 0.0)}


def test_negative_zeros_are_zeros_in_the_delta_too() -> None:
    index = PlaceIndex.build(np.empty((0, 2)), np.empty((0, 1)))
    index.put([0], [[-0.0, -0.0]], [[-0.0]])
    assert not np.signbit(np.hstack(index.rows([0]))).any()


@pytest.mark.parametrize("way", ["in rows", "at random", "at one place"])
def test_blocks_of_the_delta_stay_small_in_whatever_order_objects_come(way: str) -> None:
    rng = np.random.default_rng(1)
    n = 40 * BLOCK
    points = rng.random((n, 2))
    if way == "in rows":
        points = points[np.lexsort((points[:, 0], points[:, 1].round(1)))]
    if way == "at one place":
        points[:] = 0.5
    index = PlaceIndex.build(np.empty((0, 2)), np.empty((0, 1)))
    index.put(np.arange(n), points, rng.random((n, 1)))
    moved = rng.choice(n, n // 2, replace=False)
    index.put(moved, points[rng.permutation(moved)], rng.random((len(moved), 1)))
    index.check()
    v = index.view
    b = np.arange(int(v.size[BLOCKS]))
    # Tiles of all of the square would have an area of 1 together; these may lie over one another a little.
    assert ((v.blocks.x1 - v.blocks.x0) * (v.blocks.y1 - v.blocks.y0))[b].sum() < 3
    assert len(b) < 3 * n / BLOCK


def test_there_is_room_for_all_blocks_to_be_split_at_once() -> None:
    index = PlaceIndex.build(np.empty((0, 2)), np.empty((0, 1)))
    sites = np.arange(60.0)
    for lap in range(BLOCK):
        # Each site fills a block of its own, far from the others.
        some = np.column_stack([1_000 * sites + lap / BLOCK, np.zeros(60)])
        index.put(np.arange(60) + 60 * lap, some, np.zeros((60, 1)))
        index.check()
    full = int((np.diff(index.view.block_end[: int(index.view.size[BLOCKS])], prepend=0) == BLOCK).sum())
    index.put(60 * BLOCK + np.arange(60), np.column_stack([1_000 * sites, np.zeros(60)]), np.zeros((60, 1)))
    index.check()
    assert full >= 1 and len(index) == 60 * (BLOCK + 1)


def test_blocks_that_have_become_nearly_empty_give_their_room_back() -> None:
    rng = np.random.default_rng(2)
    index = PlaceIndex.build(np.empty((0, 2)), np.empty((0, 1)))
    left: dict[int, tuple[float, ...]] = {}
    for round in range(12):
        slots = np.arange(2_000) + 2_000 * round
        index.put(slots, rng.random((2_000, 2)), rng.random((2_000, 1)))
        index.delete(slots[slots % 50 != 0])
        index.check()
        left.update((slot, row) for slot, row in held(index).items() if slot in slots)
    assert held(index) == left and len(left) == 480
    assert len(index.view.block_end) < 400
