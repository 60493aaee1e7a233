"""Which boxes hold a point, by slabs: exact against brute force, whatever comes and goes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.compiled.jit import allocating_kernel, kernel
from indexes.core.arrays import int64
from indexes.relays.kernels import slab_search
from indexes.relays.kernels.comparisons import BLOCK, CODES, block_holds, block_pack, code_steps
from indexes.relays.kernels.points import copied, empty_points, write
from indexes.relays.kernels.slab_codes import CLUSTER, GROUP, MOST, Slabs, end_code, insert
from indexes.relays.kernels.slab_search import TOGETHER
from indexes.relays.kernels.slabs import SETTLED, SlabIndex
from tests.oracles.relays import meets
from tests.unit.relays.worlds import N, boxes, numbers, orders, rows, table


def held_by(index: SlabIndex, points: Any, values: np.ndarray) -> list[set[int]]:
    """The slots that each point is held by, as sets; none is named twice."""
    slots, upto = index.containing(points, values)
    found = np.split(slots, upto)[:-1]
    assert all(len(set(mine.tolist())) == len(mine) for mine in found)
    return [set(mine.tolist()) for mine in found]


def brute(lo: np.ndarray, hi: np.ndarray, there: set[int], value: list[float]) -> set[int]:
    return {i for i in there if meets(list(zip(lo[i].tolist(), hi[i].tolist(), strict=True)), value)}


@pytest.mark.parametrize("d", [1, 3, 5])
def test_all_boxes_that_hold_a_point_are_found_whatever_comes_and_goes(d: int) -> None:
    rng = np.random.default_rng(1)
    for name, lo, hi in orders(d):
        points, index = table(lo, hi), SlabIndex(d)
        there: set[int] = set()
        # Ends themselves, what lies beside them, and points at random.
        values = np.concatenate([lo[:20], hi[20:40], np.nextafter(lo[40:50], -np.inf), rng.uniform(0, 50, (10, d))])
        values = values[np.isfinite(values).all(axis=1)]
        for _ in range(12):
            absent = np.array(sorted(set(range(N)) - there), np.int32)
            come = rng.choice(absent, int(rng.integers(0, len(absent) // 2 + 2)), replace=False).astype(np.int32)
            index.insert(points, come)
            there |= set(come.tolist())
            go = rng.choice(np.array(sorted(there), np.int32), len(there) // 3, replace=False).astype(np.int32)
            index.delete(points, go)
            there -= set(go.tolist())
            index.check(points)
            assert index.slots().tolist() == sorted(there) and len(index) == len(there)
            for value, mine in zip(values.tolist(), held_by(index, points, values), strict=True):
                assert mine == brute(lo, hi, there, value), (name, value)


@settings(max_examples=200)
@given(st.data(), st.integers(1, 3))
def test_small_worlds_are_exact(data: st.DataObject, d: int) -> None:
    world = data.draw(st.lists(boxes(d), max_size=40))
    ends = rows(world, d)
    points = empty_points(max(1, len(world)), 2 * d)
    slots = np.arange(len(world), dtype=np.int32)
    write(points, slots, ends, 0)
    index = SlabIndex(d)
    if data.draw(st.booleans()):
        index.load(points, slots)
    else:
        for slot in slots:
            index.insert(points, np.array([slot]))
    index.check(points)
    values = np.array(data.draw(st.lists(st.lists(numbers, min_size=d, max_size=d), max_size=6))).reshape(-1, d)
    for value, mine in zip(values.tolist(), held_by(index, points, values), strict=True):
        assert mine == {i for i, box in enumerate(world) if meets(box, value)}


@pytest.mark.parametrize("by_pieces", [False, True])
def test_many_boxes_fill_many_chunks(by_pieces: bool) -> None:
    n, d = 3 * SETTLED, 2
    assert n > 2 * GROUP
    rng = np.random.default_rng(2)
    lo = rng.random((n, d))
    hi = lo + rng.random((n, d)) ** 4
    points, index = table(lo, hi), SlabIndex(d)
    slots = rng.permutation(n).astype(np.int32)
    if by_pieces:
        for piece in np.array_split(slots, 11):
            index.insert(points, piece)
    else:
        index.load(points, slots)
    index.delete(points, slots[::3])
    index.insert(points, slots[:300:3])
    index.check(points)
    there = np.ones(n, np.bool_)
    there[slots[300::3]] = False
    values = np.concatenate([rng.random((20, d)), lo[:5], hi[5:10]])
    for value, mine in zip(values, held_by(index, points, values), strict=True):
        met = there & (lo <= value).all(axis=1) & (value <= hi).all(axis=1)
        assert mine == set(np.flatnonzero(met).tolist())
    again = SlabIndex(d)
    again.arrays = index.trimmed()
    again.check(points)
    assert [*map(sorted, held_by(again, points, values))] == [*map(sorted, held_by(index, points, values))]
    again.reserve(100, n)
    again.insert(points, slots[300:600:3])
    again.check(points)


def test_boxes_that_are_more_than_sixty_four_groups() -> None:
    n = CLUSTER + GROUP + 5
    rng = np.random.default_rng(3)
    lo = rng.random((n, 1))
    hi = lo + rng.random((n, 1)) ** 9
    points, index = table(lo, hi), SlabIndex(1)
    slots = rng.permutation(n).astype(np.int32)
    index.load(points, slots[: -GROUP - 9])
    index.insert(points, slots[-GROUP - 9 :])
    index.check(points)
    values = rng.random((3, 1))
    wanted = [set(np.flatnonzero((lo <= value) & (value <= hi)).tolist()) for value in values]
    assert held_by(index, points, values) == wanted
    assert [held_by(index, points, value[None])[0] for value in values] == wanted


@settings(max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=60), st.lists(numbers, max_size=60))
def test_codes_keep_the_order(ends: Any, others: Any) -> None:
    values = np.array([*ends, *others, *others])[:, None]
    points, index = table(values, values), SlabIndex(1)
    slots = np.arange(len(values), dtype=np.int32)
    index.load(points, slots[: len(ends)])
    index.reserve(len(values), len(values))
    insert(index.arrays, points, slots[len(ends) :])
    lower, upper = MOST - _codes(index.arrays, points, slots, 0), _codes(index.arrays, points, slots, 1)
    assert (lower <= upper).all()
    by_value = np.argsort(values[:, 0], kind="stable")
    assert (np.diff(lower[by_value]) >= 0).all() and (np.diff(upper[by_value]) >= 0).all()


@allocating_kernel
def _codes(index: Slabs, points: Any, slots: Any, end: int) -> Any:
    return np.array([end_code(index, points, int64(slot), end) for slot in slots])


def test_a_block_takes_up_boxes_unlike_those_that_it_was_laid_out_for() -> None:
    """Steps are spread over the codes of a block; a box that comes to a free position has others."""
    rng = np.random.default_rng(7)
    n = 3 * BLOCK + 5
    lo = (np.arange(n) // BLOCK + rng.uniform(0, 0.5, n))[:, None]
    hi = lo + 0.1
    lo[::BLOCK] -= 100.0
    hi[1::BLOCK], lo[2::BLOCK] = np.inf, -np.inf
    points, index = table(lo, hi), SlabIndex(1)
    slots = np.arange(n, dtype=np.int32)
    index.load(points, slots)
    before = index.arrays.scale.copy()
    values = np.sort(np.concatenate([lo, hi, np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf)]), axis=0)
    values = rng.permutation(values[np.isfinite(values)])[: 2 * TOGETHER, None]
    there = set(range(n))
    wanted = [brute(lo, hi, there, value) for value in values.tolist()]
    for _ in range(10):
        gone = rng.permutation(slots)[:9]
        index.delete(points, gone)
        left = there - set(gone.tolist())
        assert held_by(index, points, values) == [held & left for held in wanted]
        index.insert(points, rng.permutation(gone))
        index.check(points)
        assert held_by(index, points, values) == wanted
    assert (index.arrays.scale != before).any()


@pytest.mark.parametrize("d", [1, 4, 9])
def test_few_boxes_that_hold_a_point_are_looked_at(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that many boxes share leave no doubt, and of others one in ten at most."""
    rng = np.random.default_rng(d)
    n = 4 * GROUP
    shared = rng.integers(0, 20, (n, d)).astype(float)
    for lo in (shared, rng.random((n, d)) * 20):
        hi = lo + (5.0 if lo is shared else rng.random((n, d)) * 20)
        points, index = table(lo, hi), SlabIndex(d)
        index.load(points, np.arange(n, dtype=np.int32))
        values = np.floor(rng.random((TOGETHER, d)) * 20) if lo is shared else rng.random((TOGETHER, d)) * 20
        monkeypatch.setattr(slab_search, "_space", slab_search._Space())
        slab_search._space.search.unsure[:] = -1
        found = sum(map(len, held_by(index, points, values)))
        looked_at = np.count_nonzero(slab_search._space.search.unsure >= 0)
        assert looked_at == 0 if lo is shared else looked_at < 0.1 * found + 9 * d, (looked_at, found)


def test_indexes_of_all_sizes_are_searched_in_the_memory_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, wide and narrow, while one of them grows."""
    monkeypatch.setattr(slab_search, "_space", slab_search._Space())
    rng, sizes = np.random.default_rng(5), {1: 40, 9: GROUP + 70, 4: 3 * GROUP, 5: 0}
    worlds = {d: boxes_of(rng, 3 * GROUP + 200, d) for d in sizes}
    indexes = {d: SlabIndex(d) for d in sizes}
    for d, n in sizes.items():
        indexes[d].load(table(*worlds[d]), np.arange(n, dtype=np.int32))
    for turn in range(12):
        for d, n in sizes.items():
            lo, hi = worlds[d]
            points, index = table(lo, hi), indexes[d]
            if turn % 4 == 1 and n + 40 <= len(lo):
                index.insert(points, np.arange(n, n + 40, dtype=np.int32))
                sizes[d] = n = n + 40
            values = rng.random((int(rng.integers(1, 2 * TOGETHER)), d))
            found = np.array([((lo[:n] <= one) & (one <= hi[:n])).all(axis=1) for one in values]).reshape(
                len(values), n
            )
            assert held_by(index, points, values) == [set(np.flatnonzero(row).tolist()) for row in found]


def boxes_of(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.sort(rng.random((2, n, d)), axis=0)
    return ends[0], ends[1]


def test_a_copy_of_an_index_is_searched_by_itself() -> None:
    lo, hi = boxes_of(np.random.default_rng(6), 300, 2)
    points, index = table(lo, hi), SlabIndex(2)
    index.load(points, np.arange(200, dtype=np.int32))
    values = np.array([[0.5, 0.5], [0.1, 0.9]])
    before = held_by(index, points, values)
    for copy in (deepcopy(index), copied(index, index.arrays)):
        index.delete(points, np.arange(0, 200, 2, dtype=np.int32))
        assert held_by(copy, points, values) == before
        copy.delete(points, np.arange(1, 200, 2, dtype=np.int32))
        assert held_by(copy, points, values) == [{slot for slot in one if slot % 2 == 0} for one in before]
        assert held_by(index, points, values) == [{slot for slot in one if slot % 2} for one in before]
        index.insert(points, np.arange(0, 200, 2, dtype=np.int32))
        assert held_by(index, points, values) == before


@pytest.mark.parametrize("d", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("kind", ["few values", "unbounded", "equal", "narrow", "wide"])
def test_many_points_at_once_find_what_each_finds_alone(d: int, kind: str) -> None:
    """More points than are searched together, on and beside ends that many boxes share; more found than there is room
    for.
    """
    rng = np.random.default_rng(d)
    n = 2 * GROUP + 77
    lo = rng.integers(0, 4, (n, d)).astype(float) if kind == "few values" else rng.random((n, d))
    hi = lo + {"few values": 0.0, "narrow": 1e-3, "equal": 0.0}.get(kind, 1.0) * rng.random((n, d))
    if kind == "equal":
        lo[:], hi[:] = 0.25, 0.5
    if kind == "unbounded":
        lo[rng.random((n, d)) < 0.7] = -np.inf
        hi[rng.random((n, d)) < 0.7] = np.inf
    points, index = table(lo, hi), SlabIndex(d)
    index.load(points, np.arange(n, dtype=np.int32))
    index.check(points)
    some = rng.integers(0, n, 2 * TOGETHER + 9)
    values = np.where(np.isfinite(lo[some]), lo[some], rng.random((len(some), d)))
    values[1::3] = np.nextafter(values[1::3], -np.inf)
    values[2::3] = np.where(np.isfinite(hi[some]), hi[some], 7.0)[2::3]
    values[5] = np.nextafter(values[5], np.inf)
    for value, mine in zip(values, held_by(index, points, values), strict=True):
        assert mine == set(np.flatnonzero(((lo <= value) & (value <= hi)).all(axis=1)).tolist())
    for value in values[:9]:
        met = ((lo <= value) & (value <= hi)).all(axis=1)
        assert held_by(index, points, value[None]) == [set(np.flatnonzero(met).tolist())]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0.0])
def test_the_ends_of_all_numbers(value: float) -> None:
    ends = [-np.inf, -1.7976931348623157e308, -5e-324, 0.0, 5e-324, 1.7976931348623157e308, np.inf]
    pairs = np.array([(a, b) for a in ends for b in ends if a <= b] * 40)
    points, index = table(pairs[:, :1], pairs[:, 1:]), SlabIndex(1)
    index.load(points, np.arange(len(pairs), dtype=np.int32))
    met = (pairs[:, 0] <= value) & (value <= pairs[:, 1])
    assert held_by(index, points, np.array([[value]])) == [set(np.flatnonzero(met).tolist())]


@pytest.mark.parametrize("seed", range(5))
def test_masks_of_blocks_and_what_they_pack(seed: int) -> None:
    """Compiled and as defined."""
    rng = np.random.default_rng(seed)
    columns = 1 + 3 * seed
    few, some = np.array([-128, -2, -1, 0, 1, 127], np.int8), np.array([-128, -128, -2, -1, 0, 127], np.int8)
    a, bound = rng.choice(few, columns * BLOCK + 3), rng.choice(some, columns + 2)
    met = _blocks(a, bound, columns)
    assert met == block_holds(a, 3, bound, 2, columns)
    held, masks = rng.integers(0, 99, BLOCK + 1).astype(np.int32), [0, -1, int(rng.integers(-(2**63), 2**63))]
    for mask in masks:
        wanted = [lane for lane in range(BLOCK) if mask >> lane & 1]
        found = np.zeros(2 * BLOCK + 5, np.int32)
        _pack(held, mask, found)
        assert found[5 : 5 + len(wanted)].tolist() == [held[1 + lane] for lane in wanted]


@pytest.mark.parametrize("seed", range(5))
def test_steps_of_codes(seed: int) -> None:
    """Compiled and as defined; a greater code has no lesser step."""
    rng = np.random.default_rng(seed)
    low = np.concatenate([[0, 1, 256, 65535], rng.integers(0, 65536, 2 * CODES)]).astype(np.uint16)
    scale = np.concatenate([[65535, 65535, 0, 256], rng.integers(0, 65536, 2 * CODES)]).astype(np.uint16)
    code = np.sort(rng.integers(0, 65536, 200).astype(np.uint16))
    code[:2], code[-2:] = [0, 1], [65534, 65535]
    for at in range(len(low) - CODES):
        rows = np.full((2, len(code), CODES), 7, np.int8)
        for i, x in enumerate(code):
            row = np.full(CODES, x)
            code_steps(row, 0, low, scale, at, rows[0, i], 0)
            _steps(row, low, scale, at, rows[1, i])
        assert (rows[0] == rows[1]).all() and (np.diff(rows[0].astype(int), axis=0) >= 0).all()


@kernel
def _steps(code: Any, low: Any, scale: Any, at: int, out: Any) -> None:
    code_steps(code, 0, low, scale, at, out, 0)


@kernel
def _blocks(a: Any, bound: Any, columns: int) -> Any:
    return block_holds(a, 3, bound, 2, columns)


@kernel
def _pack(held: Any, mask: int, found: Any) -> None:
    block_pack(held, 1, mask, found, 5)


def test_no_notifications_and_no_subscriptions() -> None:
    index = SlabIndex(1)
    points = empty_points(0, 2)
    slots, upto = index.containing(points, np.zeros((2, 1)))
    assert len(slots) == 0 and upto.tolist() == [0, 0]
    assert len(index.containing(points, np.empty((0, 1)))[1]) == 0
    index.check(points)


def test_points_and_what_is_unbounded() -> None:
    lo, hi = (
        np.array([[0.0, -np.inf], [-np.inf, 2.0], [0.0, 2.0]]),
        np.array([[0.0, np.inf], [np.inf, 2.0], [0.0, 2.0]]),
    )
    points, index = table(lo, hi), SlabIndex(2)
    index.insert(points, np.arange(3, dtype=np.int32))
    wanted = [{0, 1, 2}, {0}, {1}, set()]
    assert held_by(index, points, np.array([[-0.0, 2.0], [0.0, -1e300], [1e300, 2.0], [1.0, 1.0]])) == wanted
