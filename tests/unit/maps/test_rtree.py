"""The packed R-tree: what it holds, that its order depends on the objects alone, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.compiled.simd import LANES
from indexes.core.aligned import LINE_BYTES
from indexes.maps.kernels.rtree import Slab, Tree, check, fanout_of, first_key, join, lay_slab, pack, slab_of
from tests.unit.maps.helpers import arrays_of

numbers = st.one_of(
    st.integers(0, 3).map(float), st.sampled_from([-0.0, 1e300, -1e300, 5e-324, -5e-324]), st.floats(-1, 1)
)


@st.composite
def objects(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Places and static values of up to 60 objects, most on a grid, some values missing."""
    n, d = draw(st.integers(0, 60)), draw(st.integers(1, 4))
    places = draw(st.lists(numbers, min_size=2 * n, max_size=2 * n))
    values = draw(st.lists(st.one_of(numbers, st.just(np.inf)), min_size=d * n, max_size=d * n))
    return np.array(places).reshape(n, 2), np.array(values).reshape(n, d)


def rows(tree: Tree) -> list[tuple[float, ...]]:
    """The objects of a tree in order of slot: slot, place, static values."""
    n = len(tree.slot)
    columns = np.column_stack([tree.slot, tree.x[:n], tree.y[:n], tree.statics[:, :n].T])
    return sorted(map(tuple, columns.tolist()))


@given(objects(), st.integers(2, 9))
def test_a_tree_holds_every_object_under_tight_bounds(
    given_objects: tuple[np.ndarray, np.ndarray], fanout: int
) -> None:
    places, values = given_objects
    tree = pack(places, values, fanout=fanout)
    check(tree)
    assert rows(tree) == sorted(map(tuple, np.column_stack([np.arange(len(places)), places, values]).tolist()))
    assert (tree.end - tree.first).max() <= fanout
    for column in (tree.x, tree.y, *tree.statics, tree.x0, tree.y1, *tree.lower, *tree.upper):
        assert column.ctypes.data % LINE_BYTES == 0


@given(objects(), st.integers(2, 9), st.randoms(use_true_random=False))
def test_the_same_objects_give_the_same_tree_to_the_last_bit_in_whatever_order_they_come(
    given_objects: tuple[np.ndarray, np.ndarray], fanout: int, random: Any
) -> None:
    places, values = given_objects
    order = list(range(len(places)))
    random.shuffle(order)
    slots = np.array(order, np.int32)
    one = pack(places, values, np.arange(len(places), dtype=np.int32), fanout)
    other = pack(places[order], values[order], slots, fanout)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays_of(one), arrays_of(other), strict=True))


@settings(max_examples=60, deadline=None)
@given(objects(), st.integers(2, 5), st.data())
def test_slabs_laid_out_one_by_one_are_joined_to_the_same_tree(
    given_objects: tuple[np.ndarray, np.ndarray], fanout: int, data: st.DataObject
) -> None:
    places, values = given_objects
    n, dimensions = len(places), 2 + values.shape[1]
    along = data.draw(st.integers(1, dimensions))
    slots = data.draw(st.permutations(range(n)))
    in_order = sorted(range(n), key=lambda i: (float(first_key(places[i, 0])), slots[i]))
    slab = slab_of(n, along, fanout)
    parts = [in_order[at : at + slab] for at in range(0, n, slab)] if n else [[]]
    laid: dict[int, Slab] = {}
    for number in data.draw(st.permutations(range(len(parts)))):
        rows = np.concatenate([places, values], axis=1)[parts[number]] + 0.0
        laid[number] = lay_slab(rows, np.array(slots, np.int32)[parts[number]], n, fanout, along)
    joined = join([laid[number] for number in range(len(parts))], fanout, along)
    whole = pack(places, values, slots, fanout, along)
    assert all(
        a.tobytes() == b.tobytes() and a.shape == b.shape
        for a, b in zip(arrays_of(joined), arrays_of(whole), strict=True)
    )
    assert (len(parts) > 1) == (n > fanout and along > 1)


@pytest.mark.parametrize("n", [4**4 - 1, 4**4, 4**4 + 1, 4**5])
def test_slabs_are_whole_tiles_where_leaves_are_powers_of_the_fanout(n: int) -> None:
    rng = np.random.default_rng(n)
    places, values = rng.integers(0, 9, (n, 2)).astype(float), rng.integers(0, 3, (n, 2)).astype(float)
    order, slab = np.argsort(places[:, 0], kind="stable"), slab_of(n, 4, 4)
    assert slab % 4 == 0 and slab * 2 < n
    parts = [order[at : at + slab] for at in range(0, n, slab)]
    laid = [lay_slab(np.hstack([places, values])[some], some.astype(np.int32), n, 4, 4) for some in parts]
    tree = join(laid, 4, 4)
    check(tree)
    assert all(
        a.tobytes() == b.tobytes()
        for a, b in zip(arrays_of(tree), arrays_of(pack(places, values, fanout=4)), strict=True)
    )


def test_negative_zeros_are_zeros() -> None:
    tree = pack([[-0.0, 0.0]], [[-0.0]])
    assert not np.signbit(tree.x[0]) and not np.signbit(tree.statics[0, 0]) and not np.signbit(tree.x0[0])


def test_columns_have_room_for_a_block_behind_their_last_number() -> None:
    tree = pack(np.zeros((17, 2)), np.zeros((17, 3)), fanout=4)
    assert len(tree.x) >= 17 + LANES and len(tree.x0) >= len(tree.first) + LANES
    assert np.isinf(tree.statics[:, 17:]).all() and np.isinf(tree.lower[:, len(tree.first) :]).all()


def test_a_page_holds_fewer_children_of_more_dimensions() -> None:
    assert [fanout_of(d) for d in (1, 2, 4, 300)] == [73, 56, 39, 2]


def test_what_is_no_place_and_no_value_is_refused() -> None:
    for points, statics in (
        ([[np.inf, 0]], [[0]]),
        ([[0, np.nan]], [[0]]),
        ([[0, 0]], [[np.nan]]),
        ([[0, 0]], [[0], [1]]),
        ([[0, 0, 0]], [[0]]),
    ):
        with pytest.raises(ValueError):
            pack(points, statics)
    with pytest.raises(ValueError):
        pack([[0, 0]], [[0]], fanout=1)
