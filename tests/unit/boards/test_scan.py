"""Lists without an index are those of the definition, in any order of objects and for every shape.

And verification, which rests on them, goes by short slices and finds what is wrong.
"""

from __future__ import annotations

import os
import time
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from indexes.boards import verification
from indexes.boards.commands import AddSubscriptions, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels import scan
from indexes.boards.kernels.scan import Scan, SpaceScan, bounds
from indexes.boards.regions import Region, Regions
from tests.oracles.regions import INF, Thing, Where, World
from tests.unit.boards.helpers import captured
from tests.unit.boards.regions import regions

EFFORT = settings(max_examples=int(os.environ.get("RANKCAST_EXAMPLES", "60")), deadline=None)
at = st.integers(0, 5).map(float)


def columns(things: list[Thing], d: int) -> tuple[Any, ...]:
    """Objects by column, as an index holds them."""
    x = np.array([thing.x for thing in things]).reshape(len(things), d)
    rows = np.arange(len(things), dtype=np.int32)[::-1].copy()
    return x, np.array([thing.y for thing in things]), np.array([t.created for t in things], np.int64), rows


@EFFORT
@given(st.data(), st.sampled_from([1, 2, 2, 3, 4]), st.sampled_from([1, 3, scan.CHUNK]))
def test_a_list_is_that_of_the_definition(data: Any, d: int, chunk: int) -> None:
    """Objects lie on a grid, so that ranks, places and borders are met exactly, and more than a chunk at once."""
    world = World("asc")
    for n, (x, y) in enumerate(data.draw(st.lists(st.tuples(st.tuples(*[at] * d), st.integers(0, 4)), max_size=40))):
        world.upsert(f"o{n}", x, float(y))
    things = list(data.draw(st.permutations(list(world.things.values()))))
    asks = data.draw(st.lists(st.tuples(regions(d), st.sampled_from([1, 2, 5, 60])), min_size=1, max_size=12))
    asked = Regions.of([Region(where.shape, where.sides) for where, _ in asks], d)
    x, y, c, rows = columns(things, d)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scan, "CHUNK", chunk)
        scans = [SpaceScan(x, y, c, rows)] + ([Scan(x[:, 0], y, c, rows)] if d == 1 else [])
        for one in scans:
            found = one.lists(asked, np.array([k for _, k in asks], np.int32))
            for i, (where, k) in enumerate(asks):
                wanted = [rows[things.index(thing)] for thing in world.top(where, k)]
                assert found.of(i).tolist() == wanted, (where, k)


ODD = [0.0, 1e-200, 1e-160, 5e-324, 0.1, 1.0, 3.7, 1e8, 1e154, 1e200, 1e300]


@EFFORT
@given(st.tuples(*[st.sampled_from([sign * v for v in ODD for sign in (1, -1)])] * 5), st.sampled_from(ODD))
def test_a_disc_reaches_no_farther_than_is_looked_at(numbers: tuple[float, ...], radius: float) -> None:
    """Also where squares vanish or are rounded, and just beyond the border."""
    c1, c2, u, v, w = numbers
    where = Where("disc", (c1, c2, radius))
    low, high = bounds(Regions.of([Region("disc", where.sides)], 2))
    edges = [c1 + radius, c1 - radius, c1, c1 + w]
    beyond = [value * (1 + 1e-15 * n) for value in edges for n in range(-3, 4)]
    for x in [(u, v), *((value, c2) for value in beyond)]:
        if all(abs(value) <= 1e300 for value in x) and where.holds(x):
            assert all(low[j, 0] <= x[j] <= high[j, 0] for j in range(2)), x


def a_board(n: int, m: int) -> BoardEngine:
    """Objects of few values of a field, and subscriptions to values that few or none of them have."""
    board = BoardEngine(BoardConfig(("x",), "y", ks=(2,), index="kd-tree", indexed=("to",)))
    rng = np.random.default_rng(1)
    payload: dict[int, bytes | None] = {i: b'{"to":%d}' % to for i, to in enumerate(rng.integers(9, size=n).tolist())}
    board.apply(Events(np.zeros(n, np.uint8), [f"o{i}" for i in range(n)], rng.random(n), rng.random(n), payload))
    asked = Regions.empty(1, m)
    asked.sides[0], asked.sides[1] = -INF, rng.random(m)
    where = (pa.array([str(to) for to in rng.integers(12, size=m).tolist()]),)
    board.apply(AddSubscriptions(pa.array([f"s{i}" for i in range(m)]), asked, np.full(m, 2, np.int32), where=where))
    board.watch("s3")
    return board


def test_a_verification_goes_by_short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list costs a millisecond here: no slice is much longer than it should be, and all lists are compared."""
    lists = SpaceScan.lists

    def slow(self: SpaceScan, asked: Regions, k: Any) -> Any:
        time.sleep(1e-3 * len(k))
        return lists(self, asked, k)

    found = captured(a_board(60, 400), indexes=True)
    list(verification.verify(found))
    monkeypatch.setattr(SpaceScan, "lists", slow)
    checked = list(verification.verify(found))
    assert sum(one.compared for one in checked) == 401 == checked[0].of
    assert max(one.compared for one in checked) * 1e-3 <= 4 * verification.SLICE
    assert len(checked) > 8 and not any(one.differences for one in checked)


@pytest.mark.parametrize("most", [1, 7, 100])
def test_slices_are_all_of_it_in_order(most: int) -> None:
    found = list(verification._slices(100, most))
    assert [i for part in found for i in range(100)[part]] == list(range(100))
    assert max(part.stop - part.start for part in found) <= max(most, 16)


@pytest.mark.parametrize("kind", ["list", "live list", "object", "index", "subscription"])
def test_damage_is_found_where_there_are_filters(kind: str) -> None:
    found = captured(a_board(60, 40), indexes=True)
    assert found.indexes is not None
    if kind == "list":
        o = found.indexes.reading.arrays
        o.row[:60] = np.roll(o.row[:60], 1)
    elif kind == "live list":
        found.indexes.live[0] = (found.indexes.live[0][0], found.indexes.live[0][1][::-1].copy())
    elif kind == "object":
        o = found.indexes.painting.arrays
        o.y[o.pos[1]] += 10.0
    elif kind == "index":
        found.indexes.painting.arrays.tree.lo[5] -= 1.0
    else:
        found.regions.sides[1, 2] += 0.001
    differences = [one for checked in verification.verify(found) for one in checked.differences]
    assert kind in {one.kind for one in differences}
