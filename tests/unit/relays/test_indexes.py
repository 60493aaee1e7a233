"""The covering indexes on their own, at sizes at which trees are deep and arrays are merged many times."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.kernels.points import as_boxes, as_points, coverers_first
from tests.oracles.relays import contains
from tests.unit.relays.worlds import INDEXES, N, orders, small_index, table


def covering(lo: np.ndarray, hi: np.ndarray, among: set[int], t: int) -> set[int]:
    """By brute force, from the ends as they were given."""

    def box(i: int) -> list[tuple[float, float]]:
        return list(zip(lo[i].tolist(), hi[i].tolist(), strict=True))

    mine = box(t)
    return {x for x in among if contains(box(x), mine) and (x < t or not contains(mine, box(x)))}


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("d", [1, 2])
def test_what_covers_is_found_in_any_order_of_changes(kind: str, d: int) -> None:
    rng = np.random.default_rng(7)
    for name, lo, hi in orders(d):
        points, index = table(lo, hi), small_index(kind, 2 * d)
        there: set[int] = set()
        for begin in range(0, N, 150):
            new = np.arange(begin, begin + 150, dtype=np.int32)
            index.insert(points, new)
            there |= set(new.tolist())
            gone = rng.permutation(sorted(there))[:60].astype(np.int32)
            index.delete(points, gone)
            there -= set(gone.tolist())
            index.check(points)
            assert set(index.slots().tolist()) == there and len(index) == len(there), name
            for t in rng.integers(0, N, 8).tolist():
                wanted = covering(lo, hi, there, t)
                assert set(index.cover(points, t, N).tolist()) == wanted, (name, t)
                few = index.cover(points, t, 3).tolist()
                assert len(few) == min(3, len(wanted)) and set(few) <= wanted
        index.delete(points, index.slots())
        index.check(points)
        assert len(index) == 0 and not len(index.cover(points, 0, 1))


def test_a_tree_is_shallow_whatever_order_points_come_in() -> None:
    for name, lo, hi in orders(1):
        points, index = table(lo, hi), KdIndex(2, full=8)
        index.insert(points, np.arange(N, dtype=np.int32))
        o = index.arrays
        deepest = 0
        for v in np.unique(o.at[:N]).tolist():
            depth = 0
            while v > 0:
                v, depth = int(o.up[v]), depth + 1
            deepest = max(deepest, depth)
        assert deepest <= np.log(N) / np.log(4 / 3), (name, deepest)


def groups_of(index: KdIndex) -> int:
    """How many groups of leaves a tree has; its leaves are in them by `check`."""
    o = index.arrays
    return len({int(o.place[v]) // 64 for v in np.unique(o.at[o.at >= 0]).tolist() if o.place[v] >= 0})


def test_groups_of_leaves_are_split_and_made_again_as_a_tree_grows_and_shrinks() -> None:
    for name, lo, hi in orders(2):
        points, index = table(lo, hi), KdIndex(4, full=8)
        most = []
        for i in range(N):
            index.insert(points, np.array([i], np.int32))
            most.append(groups_of(index))
            if i % 16 == 0:
                index.check(points)
        # A group that is made has 24 * 8 points at most, and one that is split more than 64 leaves of a point and more.
        assert most[7] == 0 and most[8] == 1 and most[-1] >= 2, (name, most[-1])
        for i in range(N - 9):
            index.delete(points, np.array([i], np.int32))
            if i % 16 == 0:
                index.check(points)
        index.check(points)
        assert groups_of(index) <= 1, name
        laid_out = KdIndex(4, full=8)
        laid_out.load(points, np.arange(N, dtype=np.int32))
        laid_out.check(points)
        assert groups_of(laid_out) >= N // (24 * 8)


def test_a_bucket_has_a_block_of_points_at_most() -> None:
    with pytest.raises(ValueError, match="bucket"):
        KdIndex(2, full=65)


def test_a_box_alone_is_the_point_that_it_is_among_others() -> None:
    lo, hi = np.array([[0.0, -inf], [-0.0, 0.0], [-1.5, -0.0]]), np.array([[0.0, 1.0], [-0.0, inf], [0.25, -0.0]])
    together = as_points(lo, hi)
    for i in range(len(lo)):
        assert as_points(lo[i : i + 1], hi[i : i + 1]).tobytes() == together[i].tobytes()


def test_boxes_are_points_and_back() -> None:
    lo, hi = np.array([[0.0, -inf], [-1e300, 2.0]]), np.array([[0.0, 1.0], [3.0, inf]])
    exact = as_points(lo, hi)
    back = as_boxes(exact)
    assert (back[0] == lo).all() and (back[1] == hi).all()
    assert not np.signbit(exact[exact == 0]).any()
    points = table(lo, hi)
    assert coverers_first(points, np.array([0, 1], np.int32)).tolist() == [1, 0]
