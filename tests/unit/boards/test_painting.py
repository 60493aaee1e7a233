"""Painting against brute force: who hears of what, with which values, in how many tiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.boards.kernels import object_index as protocol
from indexes.boards.kernels.paint import paint
from indexes.boards.kernels.range_tree import RangeTreeIndex
from indexes.boards.kernels.scratch import ROOM, PaintContext, make_scratch
from indexes.boards.kernels.tiles import make_tiles
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.core.arrays import int64
from tests.oracles.painting import INF, Object, Tile, every_range, fewest_tiles, hear, must_hear, reaches, top

INDEXES: list[type[Any]] = [RangeTreeIndex]
try:
    from indexes.boards.alternatives.kd_tree import KdTreeIndex

    INDEXES.append(KdTreeIndex)
except ImportError:
    pass


class Board:
    """A tiny board: an object index, subscriptions by class, and the plain facts beside them."""

    def __init__(
        self,
        index: type[Any],
        ks: tuple[int, ...],
        dense: bool,
        subscriptions: list[tuple[int, float, float]],
        capacity: int = 4096,
        room: int = ROOM,
        runs: int = 0,
        level: int = -1,
    ) -> None:
        self.objects = index()
        self.objects.reserve(64, 64)
        self.subscriptions = SubscriptionIndex(ks)
        self.ks = np.array(ks, np.int64)
        self.dense = dense
        self.runs = runs
        self.work = make_scratch(max(ks), room, level)
        self.tiles = make_tiles(capacity)
        self.world: dict[Any, Any] = {}
        self.created = 0
        self.ranges: dict[Any, Any] = {q: [] for q in range(len(ks))}
        for sid, (q, l, r) in enumerate(subscriptions):
            self.subscriptions.insert_many(q, [sid], [l], [r])
            self.ranges[q].append((l, r))

    def _paint(self, row: int, y: float) -> None:
        self.tiles.n[0] = 0
        slot = int64(self.objects.arrays.pos[row])
        o, f = self.objects.arrays, self.subscriptions.arrays
        context = PaintContext(f, self.ks, self.dense, self.runs, self.work, self.tiles)
        self.work.counting[0] = 1
        assert paint(o, context, slot, y)
        counted, self.tiles.n[0] = int(self.tiles.n[0]), 0
        self.work.counting[0] = 0
        assert paint(o, context, slot, y)
        assert self.tiles.n[0] == counted

    def change(self, row: int, x: float, y: float) -> tuple[list[Object], list[Object]]:
        """Set an object's y (+inf deletes it); a new row is inserted at x. Returns worlds before and after."""
        before = list(self.world.values())
        o = self.objects.arrays
        if row not in self.world:
            self.created += 1
            self.world[row] = Object(row, x, y, self.created)
            protocol.insert(o, row, x, INF, self.created)
            self._paint(row, y)
            protocol.set_y(o, int64(o.pos[row]), y)
        else:
            self._paint(row, y)
            if y == INF:
                del self.world[row]
                protocol.delete(o, row)
            else:
                self.world[row] = self.world[row]._replace(y=y)
                protocol.set_y(o, int64(o.pos[row]), y)
        return before, list(self.world.values())

    def tell_again(self, row: int) -> None:
        """A new payload: the tiles of the object's present region."""
        self.tiles.n[0] = 0
        slot = int64(self.objects.arrays.pos[row])
        self._paint(row, float(self.objects.arrays.y[slot]))

    def painted(self, q: int) -> list[Tile]:
        """The tiles of class q."""
        t = self.tiles
        return [
            Tile(
                *cast("tuple[float, float, float, float]", t.side[i].tolist()),
                Object(int(t.row[i]), float(t.x[i]), float(t.y[i]), int(t.c[i])),
                bool(t.gone[i]),
            )
            for i in range(t.n[0])
            if t.cls[i] == q
        ]


def check_protocol(
    tiles: list[Tile],
    ranges: list[tuple[float, float]],
    before: list[Object],
    after: list[Object],
    row: int,
    k: int,
    touched: bool = False,
) -> None:
    """Every range's list is right after the tiles, it hears what it must, and each thing once."""
    for l, r in ranges:
        mine, heard = hear(top(before, l, r, k), tiles, l, r, k)
        assert mine == top(after, l, r, k), (l, r, tiles)
        assert len(set(heard)) == len(heard), (l, r, heard)
        assert set(heard) == must_hear(before, after, row, l, r, k, touched), (l, r, heard, tiles)


def check_order(tiles: list[Tile], row: int) -> None:
    """The changed object's own tiles from west to east, then exposed objects by (y, created)."""
    for one, two in itertools.pairwise(tiles):
        if one.object.id == two.object.id:
            assert one.l_inner <= two.l_outer or one.l_inner < two.l_inner
        elif one.object.id != row:
            assert (one.object.y, one.object.created) < (two.object.y, two.object.created)
        else:
            assert two.object.id != row


def count_tiles(tiles: list[Tile]) -> dict[int, int]:
    """How many tiles name each object."""
    named = [tile.object.id for tile in tiles]
    return {one: named.count(one) for one in named}


def told_by(tiles: list[Tile], ranges: list[tuple[float, float]]) -> dict[int, set[tuple[float, float]]]:
    """The ranges each object's tiles reach."""
    told: dict[Any, Any] = {}
    for tile in tiles:
        told.setdefault(tile.object.id, set()).update((l, r) for l, r in ranges if reaches(tile, l, r))
    return told


def check_values(tiles: list[Tile], before: list[Object], after: list[Object], row: int) -> None:
    """Tiles carry the values after the change; those of an object that is gone, its last ones."""
    now, was = {one.id: one for one in after}, {one.id: one for one in before}
    for tile in tiles:
        assert tile.gone == (tile.object.id not in now)
        assert tile.object == (was if tile.gone else now)[tile.object.id]
        assert tile.l_outer < tile.l_inner
        assert tile.r_inner < tile.r_outer


def check_dense(
    board: Board, before: list[Object], after: list[Object], row: int, touched: bool = False, fewest: bool = False
) -> None:
    for q, k in enumerate(board.ks.tolist()):
        tiles = board.painted(q)
        ranges = every_range([*before, *after])
        check_values(tiles, before, after, row)
        check_order(tiles, row)
        check_protocol(tiles, ranges, before, after, row, k, touched)
        if fewest:
            for told, n in zip(told_by(tiles, ranges).values(), count_tiles(tiles).values(), strict=True):
                assert n == fewest_tiles(told, ranges)


def check_sparse(
    board: Board, before: list[Object], after: list[Object], row: int, touched: bool = False, fewest: bool = False
) -> None:
    for q, k in enumerate(board.ks.tolist()):
        tiles = board.painted(q)
        ranges = board.ranges[q]
        check_values(tiles, before, after, row)
        check_order(tiles, row)
        check_protocol(tiles, ranges, before, after, row, k, touched)
        for tile in tiles:
            assert any(reaches(tile, l, r) for l, r in ranges)
        if fewest:
            for told, n in zip(told_by(tiles, ranges).values(), count_tiles(tiles).values(), strict=True):
                assert n <= 2 * fewest_tiles(told, ranges)


coordinates = st.integers(0, 5).map(float)
changes = st.lists(
    st.tuples(st.integers(0, 7), coordinates, st.one_of(coordinates, st.just(INF))), min_size=1, max_size=25
)
ends = st.one_of(st.just(None), st.sampled_from([v / 2 for v in range(-1, 12)]))


@st.composite
def subscriptions(draw: st.DrawFn, classes: int, most: int) -> list[tuple[int, float, float]]:
    some = []
    for q in range(classes):
        for l, r in draw(st.lists(st.tuples(ends, ends), max_size=most)):
            some.append((q, -INF if l is None else l, INF if r is None else r))
    return some


def play(board: Board, script: list[tuple[int, float, float]], check: Callable[..., Any], **how: Any) -> None:
    for row, x, y in script:
        if row in board.world and board.world[row].y == y:
            board.tell_again(row)
            world = list(board.world.values())
            check(board, world, world, row, touched=True, **how)
        elif row in board.world or y < INF:
            before, after = board.change(row, x, y)
            check(board, before, after, row, **how)


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=60, deadline=None)
@given(script=changes, ks=st.sampled_from([(1,), (2,), (3,), (1, 4), (3, 2)]))
def test_dense_tells_every_possible_range_exactly_what_it_must_hear(
    index: type[Any], script: list[tuple[int, float, float]], ks: tuple[int, ...]
) -> None:
    play(Board(index, ks, True, []), script, check_dense)


@settings(max_examples=40, deadline=None)
@given(script=st.lists(st.tuples(st.integers(0, 4), coordinates, st.one_of(coordinates, st.just(INF))), max_size=12),
       k=st.integers(1, 3))  # fmt: skip
def test_dense_sends_the_fewest_tiles(script: list[tuple[int, float, float]], k: int) -> None:
    play(Board(RangeTreeIndex, (k,), True, []), script, check_dense, fewest=True)


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), script=changes, ks=st.sampled_from([(1,), (2,), (3,), (2, 4), (3, 1)]))
def test_sparse_tells_each_subscriber_exactly_what_it_must_hear(
    index: type[Any], data: st.DataObject, script: list[tuple[int, float, float]], ks: tuple[int, ...]
) -> None:
    board = Board(index, ks, False, data.draw(subscriptions(len(ks), 40)))
    play(board, script, check_sparse)


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    script=changes,
    ks=st.sampled_from([(1,), (2,), (3,), (2, 4), (3, 1)]),
    room=st.sampled_from([-1, 0, 6]),
)
def test_a_short_list_that_overflows_changes_nothing(
    data: st.DataObject, script: list[tuple[int, float, float]], ks: tuple[int, ...], room: int
) -> None:
    subscribed = data.draw(subscriptions(len(ks), 40))
    boards = [Board(RangeTreeIndex, ks, False, subscribed, room=size) for size in (room, ROOM)]

    def check(board: Board, before: list[Object], after: list[Object], row: int, touched: bool = False) -> None:
        check_sparse(board, before, after, row, touched)

    seen = []
    for board in boards:
        painted: list[Any] = []

        def keep(*facts: Any, painted: list[list[list[Tile]]] = painted, **how: Any) -> None:
            check(*facts, **how)
            painted.append([facts[0].painted(q) for q in range(len(ks))])

        play(board, script, keep)
        seen.append(painted)
    assert seen[0] == seen[1]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), script=changes, k=st.integers(1, 3), room=st.sampled_from([-1, ROOM]))
def test_sparse_sends_at_most_twice_the_fewest_tiles(
    data: st.DataObject, script: list[tuple[int, float, float]], k: int, room: int
) -> None:
    board = Board(RangeTreeIndex, (k,), False, data.draw(subscriptions(1, 9)), room=room)
    play(board, script, check_sparse, fewest=True)


def check_approximate(board: Board, before: list[Object], after: list[Object], row: int, touched: bool = False) -> None:
    """Lists are right, nobody hears of an object ranked behind (1 + 1/j) k, and no object takes more than j tiles."""
    for q, k in enumerate(board.ks.tolist()):
        tiles = board.painted(q)
        ranges = every_range(before + after) if board.dense else board.ranges[q]
        runs = board.runs if board.runs < k else k
        assert all(n <= runs for n in count_tiles(tiles).values())
        for l, r in ranges:
            mine, heard = hear(top(before, l, r, k), tiles, l, r, k)
            assert mine == top(after, l, r, k), (l, r, tiles)
            assert len(set(heard)) == len(heard), (l, r, heard)
            need = must_hear(before, after, row, l, r, k, touched)
            assert need <= set(heard), (l, r, need, heard)
            for one in heard:
                assert min(rank_of(world, one, l, r) for world in (before, after)) <= k + k / runs, (l, r, one)
        if not board.dense:
            for tile in tiles:
                assert any(reaches(tile, l, r) for l, r in ranges)


def rank_of(world: list[Object], one: int, l: float, r: float) -> float:
    """The rank of an object in a range that holds it, or infinity."""
    inside = [other.id for other in top(world, l, r, len(world))]
    return inside.index(one) + 1 if one in inside else INF


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=60, deadline=None)
@given(script=changes, ks=st.sampled_from([(2,), (3,), (4,), (5, 2), (6,)]), runs=st.integers(1, 5))
def test_dense_with_epsilon_keeps_its_bounds(
    index: type[Any], script: list[tuple[int, float, float]], ks: tuple[int, ...], runs: int
) -> None:
    play(Board(index, ks, True, [], runs=runs), script, check_approximate)


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), script=changes, ks=st.sampled_from([(2,), (3,), (4,), (5, 2), (6,)]), runs=st.integers(1, 5))
def test_sparse_with_epsilon_keeps_its_bounds(
    index: type[Any], data: st.DataObject, script: list[tuple[int, float, float]], ks: tuple[int, ...], runs: int
) -> None:
    board = Board(index, ks, False, data.draw(subscriptions(len(ks), 40)), runs=runs)
    play(board, script, check_approximate)


@pytest.mark.parametrize(("runs", "expected"), [(0, 3), (1, 1), (2, 2), (3, 3)])
def test_a_staircase_of_three_steps_is_covered_by_so_many_boxes(runs: int, expected: int) -> None:
    """Figure 10(a) of the paper: three better objects on each side make three strips, k = 3."""
    board = Board(RangeTreeIndex, (3,), True, [], runs=runs)
    for i, x in enumerate((1, 2, 3, 5, 6, 7)):
        board.change(i, float(x), 10.0 + i)
    board.change(9, 4.0, 100.0)
    assert count_tiles(board.painted(0)) == {9: expected}


def check_sketched(board: Board, before: list[Object], after: list[Object], row: int, touched: bool = False) -> None:
    """As for Paint-Sparse, but a tile may reach nobody."""
    for q, k in enumerate(board.ks.tolist()):
        tiles = board.painted(q)
        check_values(tiles, before, after, row)
        check_order(tiles, row)
        check_protocol(tiles, board.ranges[q], before, after, row, k, touched)


@pytest.mark.parametrize("level", [0, 1, 2, 30])
@settings(max_examples=40, deadline=None)
@given(data=st.data(), script=changes, ks=st.sampled_from([(1,), (3,), (2, 4)]))
def test_by_a_sketch_each_subscriber_hears_exactly_what_it_must(
    level: int, data: st.DataObject, script: list[tuple[int, float, float]], ks: tuple[int, ...]
) -> None:
    subscribed = data.draw(subscriptions(len(ks), 30))
    for _ in range(data.draw(st.sampled_from([0, 5]))):
        subscribed = subscribed + subscribed[:20]
    board = Board(RangeTreeIndex, ks, False, subscribed, level=level)
    play(board, script, check_sketched)


def test_a_finer_sketch_sends_fewer_tiles_that_reach_nobody() -> None:
    rng = np.random.default_rng(4)
    ends_ = np.sort(rng.random((3000, 2)), 1).tolist()
    sent = []
    for level in (0, 4, -1):
        board = Board(RangeTreeIndex, (5,), False, [(0, l, r) for l, r in ends_], level=level)
        board.objects.reserve(600, 600)
        draw = np.random.default_rng(1)
        total = 0
        for row in range(500):
            board.change(row, float(draw.random()), float(draw.random()))
            total += int(board.tiles.n[0])
        sent.append(total)
    assert sent[0] > sent[1] > sent[2]
