"""What a subscription is said to cost, against counting."""

from __future__ import annotations

from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from indexes.boards import costs
from indexes.boards.commands import UPSERT, AddSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import Region, Regions, between
from indexes.boards.space.kernels.shapes import SHAPES, width
from tests.oracles.regions import Where
from tests.unit.boards.regions import at, regions

INF = float("inf")


def changed_part(inside: int, k: int, objects: int, offset: int) -> float:
    """Every object gets every place among the others of the range: whether that changes a window or a value in it."""
    changed = 0
    for old, new in product(range(inside), range(inside)):
        others = [f"other{n}" for n in range(inside - 1)]
        before, after = ([*others[:at], "it", *others[at:]][offset:k] for at in (old, new))
        changed += before != after or "it" in before
    return changed / (objects * inside) if inside else 0.0


@given(st.integers(0, 12), st.integers(1, 14), st.integers(0, 10), st.integers(0, 13))
def test_the_share_is_that_of_all_updates_of_the_model(inside: int, k: int, outside: int, offset: int) -> None:
    objects = max(1, inside + outside)
    offset = min(offset, k - 1)
    wanted = changed_part(inside, k, objects, offset)
    assert costs.share_of(inside, k, objects, offset) == pytest.approx(wanted, abs=1e-12)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=12),
    st.integers(-1, 10),
    st.integers(-1, 10),
    st.sampled_from([(1, 0), (3, 0), (40, 0), (1, 2), (30, 10)]),
    st.sampled_from(["asc", "desc"]),
    st.booleans(),
)
def test_counts_and_the_threshold_are_those_of_the_list(
    things: list[tuple[int, int]], l: int, r: int, window: tuple[int, int], order: str, unbounded: bool
) -> None:
    k, offset = window
    board = BoardEngine(BoardConfig(("x",), "y", order, (1, 3, 40)))  # type: ignore[arg-type]
    low, high = min(l, r), max(l, r)
    ids = [f"o{n}" for n in range(len(things))]
    x, y = (np.array([float(thing[at]) for thing in things]) for at in (0, 1))
    board.apply(Events(np.full(len(ids), UPSERT, np.uint8), ids, x, y))
    board.apply(SetSubscription("mine", between(-INF if unbounded else low, high), k, offset=offset))
    found = board.explain_subscription("mine")
    assert found is not None
    inside = sorted((y for x, y in things if (unbounded or low <= x) and x <= high), reverse=order == "desc")
    assert (found.objects_in_range, found.k, found.offset) == (len(inside), k, offset)
    assert found.list_length == len(inside[offset : offset + k])
    assert found.kth == (inside[offset + k - 1] if len(inside) >= offset + k else None)
    assert board.explain_subscription("nobody") is None


@given(st.lists(st.tuples(at, at, st.integers(0, 4)), max_size=12), regions(2), st.sampled_from([1, 3, 40]))
def test_counts_and_the_threshold_of_regions_are_those_of_the_list(things: Any, where: Where, k: int) -> None:
    board = BoardEngine(BoardConfig(("a", "b"), "y", "asc", (1, 3, 40), index="kd-tree"))
    ids = [f"o{n}" for n in range(len(things))]
    if things:
        a, b, y = (np.array(column, float) for column in zip(*things, strict=True))
        board.apply(Events(np.full(len(ids), UPSERT, np.uint8), ids, np.column_stack([a, b]), y))
    board.apply(SetSubscription("mine", Region(where.shape, where.sides), k))
    found = board.explain_subscription("mine")
    inside = sorted(y for a, b, y in things if where.holds((a, b)))
    assert found is not None and (found.objects_in_range, found.k) == (len(inside), k)
    assert found.list_length == len(inside[:k])
    assert found.kth == (inside[k - 1] if len(inside) >= k else None)
    assert found.share == costs.share_of(len(inside), k, len(ids))
    assert board.explain_subscription("nobody") is None


@pytest.mark.parametrize(("d", "shape"), [(2, "box"), (2, "disc"), (2, "simplex"), (3, "box"), (4, "box")])
def test_the_estimate_of_regions_is_near_what_indexes_take(d: int, shape: str) -> None:
    """Columns by sid have room for some more."""
    m, p = 20_000, width(shape, d)
    board = BoardEngine(BoardConfig(tuple(f"x{i}" for i in range(d)), "y", "asc", (3,), index="kd-tree"))
    sides = np.random.default_rng(1).random((m, p))
    sides[:, 1::2] += sides[:, ::2][:, : p // 2]
    asked = Regions.empty(d, m)
    asked.shape[:], asked.sides[:p] = SHAPES.index(shape), sides.T
    board.apply(AddSubscriptions(pa.array([f"s{i}" for i in range(m)]), asked, np.full(m, 3, np.int32)))
    found = board.explain_subscription("s7")
    columns = board.subscribers.regions
    size = board.painter.subscriptions.nbytes + columns.sides.nbytes + columns.shape.nbytes + 8 * len(columns)
    assert found is not None
    assert 0.8 <= (found.nbytes - 12 - len("s7")) / (size / m) <= 1.25


def test_a_live_list_is_in_the_estimate() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(2, 9)))
    board.apply(SetSubscription("a", between(0.0, 1.0), 9))
    board.apply(SetSubscription("b-longer", between(0.0, 1.0), 9))
    sizes = {}
    for key in ("a", "b-longer"):
        found = board.explain_subscription(key)
        assert found is not None
        sizes[key] = found.nbytes
    assert sizes["b-longer"] == sizes["a"] + 7
    live = board.watch("a")
    found = board.explain_subscription("a")
    assert found is not None and found.nbytes >= sizes["a"] + 9 * 8
    board.unwatch(live)
    found = board.explain_subscription("a")
    assert found is not None and found.nbytes == sizes["a"]
