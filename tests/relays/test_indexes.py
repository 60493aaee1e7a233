"""The covering indexes on their own, at sizes at which trees are deep and arrays are merged many times."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from indexes.relays.kd_tree import KdIndex
from indexes.relays.points import as_boxes, as_points, coverers_first, empty_points, write
from tests.oracles.relays import contains, meets
from tests.relays.worlds import FAR, INDEXES, small_index

N = 600


def table(lo, hi):
    points = empty_points(len(lo), 2 * lo.shape[1])
    write(points, np.arange(len(lo), dtype=np.int32), as_points(lo, hi), np.arange(len(lo)))
    return points


def orders(d):
    """Boxes in orders that are bad for trees: at random, ever smaller, ever larger, shifted, all equal, unbounded,
    and so wide that their width is no number."""
    rng = np.random.default_rng(d)
    ends = np.sort(rng.integers(0, 50, (N, d, 2)), axis=2).astype(float)
    yield "random", ends[:, :, 0], ends[:, :, 1]
    step = np.repeat(np.arange(N, dtype=float)[:, None], d, axis=1)
    yield "smaller", step, 2.0 * N - step
    yield "larger", -step, step
    yield "shifted", step, step + 10
    yield "equal", 0 * step, 0 * step + 1
    lo, hi = ends[:, :, 0].copy(), ends[:, :, 1].copy()
    lo[rng.random((N, d)) < 0.5] = -inf
    hi[rng.random((N, d)) < 0.5] = inf
    yield "unbounded", lo, hi
    far = rng.choice([-FAR, 0.0, FAR], (N, d, 2))
    far[0], far[1] = -FAR, FAR
    far = np.sort(far + ends, axis=2)
    yield "far", far[:, :, 0], far[:, :, 1]


def covering(lo, hi, among, t):
    """By brute force, from the ends as they were given."""

    def box(i):
        return list(zip(lo[i].tolist(), hi[i].tolist(), strict=True))

    mine = box(t)
    return {x for x in among if contains(box(x), mine) and (x < t or not contains(mine, box(x)))}


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("d", [1, 2])
def test_what_covers_is_found_in_any_order_of_changes(kind, d):
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


def test_a_tree_is_shallow_whatever_order_points_come_in():
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


@pytest.mark.parametrize("d", [1, 3])
def test_all_boxes_that_hold_a_point_are_found(d):
    rng = np.random.default_rng(1)
    for name, lo, hi in orders(d):
        points, index = table(lo, hi), KdIndex(2 * d, full=8)
        index.insert(points, np.arange(N, dtype=np.int32))
        index.delete(points, np.arange(0, N, 3, dtype=np.int32))
        # Ends themselves, and what float32 cannot tell from them.
        values = np.concatenate([lo[:40], hi[40:80], lo[80:100] + 2.0**-40, rng.uniform(0, 50, (20, d))])
        values = values[np.isfinite(values).all(axis=1)]
        slots, upto = index.containing(points, as_points(values, values))
        found = np.split(slots, upto[:-1])
        for value, mine in zip(values.tolist(), found, strict=True):
            wanted = {
                i for i in range(N) if i % 3 and meets(list(zip(lo[i].tolist(), hi[i].tolist(), strict=True)), value)
            }
            assert set(mine.tolist()) == wanted and len(mine) == len(wanted), (name, value)


def test_no_notifications_and_no_subscriptions():
    index = KdIndex(2)
    points = empty_points(0, 2)
    slots, upto = index.containing(points, as_points(np.zeros((2, 1)), np.zeros((2, 1))))
    assert len(slots) == 0 and upto.tolist() == [0, 0]
    assert len(index.containing(points, np.empty((0, 2)))[1]) == 0
    with pytest.raises(ValueError, match="bucket"):
        KdIndex(2, full=65)


def test_boxes_are_points_and_back():
    lo, hi = np.array([[0.0, -inf], [-1e300, 2.0]]), np.array([[0.0, 1.0], [3.0, inf]])
    exact = as_points(lo, hi)
    back = as_boxes(exact)
    assert (back[0] == lo).all() and (back[1] == hi).all()
    assert not np.signbit(exact[exact == 0]).any()
    points = table(lo, hi)
    assert coverers_first(points, np.array([0, 1], np.int32)).tolist() == [1, 0]
