"""Boards with several range attributes against brute force: lists, tiles, live lists, and the indexes behind them."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.baselines import one_and_half
from bench.baselines.one_and_half import ALWAYS, LATE, LATER
from indexes.boards.config import BoardConfig
from indexes.boards.kernels.changes import DELETE, SET, Changes
from indexes.boards.space.kernels import shapes
from indexes.boards.space.kernels.objects import SpaceObjects
from indexes.boards.space.kernels.shapes import SHAPES, as_params, width
from indexes.boards.space.kernels.tiles import make_space_tiles
from indexes.boards.space.painter import SpacePainter
from indexes.boards.space.subscription_index import SpaceSubscriptions
from indexes.compiled.jit import kernel
from tests.oracles.space import INF, Object, Subscription, Tile, hear, holds, must_hear, reaches, top

PLANE = ("box", "disc", "half_plane", "simplex")
NAN = float("nan")

numbers = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.0])
ends = st.one_of(numbers, st.sampled_from([-INF, INF, 0.15]))


def regions(d: int, shapes: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Subscriptions over d attributes, without a list length: (shape, params)."""
    of = {
        "box": st.tuples(*[ends] * (2 * d)),
        "disc": st.tuples(numbers, numbers, numbers),
        "half_plane": st.tuples(*[st.sampled_from([-1.0, -0.3, 0.0, 0.5])] * 2, numbers).filter(lambda p: any(p[:2])),
        "simplex": st.tuples(*[numbers] * 6),
    }
    return st.sampled_from(shapes).flatmap(lambda shape: st.tuples(st.just(shape), of[shape]))


Change = tuple[int, int, tuple[Any, ...], float, int]
"""What happens, to which row, its x and y, and whether it is touched all the same."""
Script = list[tuple[str, Any]]
"""What is done, and to what."""


class Board:
    """A painter, every subscription live on it too, and the plain facts beside them."""

    def __init__(self, d: int, ks: tuple[int, ...]) -> None:
        names = tuple(f"x{j}" for j in range(d))
        self.d = d
        self.painter = SpacePainter(BoardConfig(names, "y", "asc", ks))
        self.world: dict[Any, Any] = {}
        self.created = 0
        self.subscriptions: dict[Any, Any] = {}
        self.live: dict[Any, Any] = {}
        self.next_sid = 0

    def subscribe(self, some: list[Subscription]) -> None:
        """Add subscriptions by class, in one call each."""
        for key in {(one.shape, one.k) for one in some}:
            mine = [one for one in some if (one.shape, one.k) == key]
            sids = np.arange(self.next_sid, self.next_sid + len(mine))
            self.next_sid += len(mine)
            q = self.painter.class_of(key[1], key[0])
            self.painter.subscriptions.insert_many(q, sids, [one.params for one in mine])
            for sid, one in zip(sids.tolist(), mine, strict=True):
                self.subscriptions[sid] = one
                rows = np.array([o.id for o in top(self.world.values(), one)], np.int32)
                self.live[sid] = self.painter.live.add(q, one.k, (one.params,), rows)

    def unsubscribe(self, sid: int) -> None:
        one = self.subscriptions.pop(sid)
        q = self.painter.class_of(one.k, one.shape)
        self.painter.subscriptions.delete_many(q, [sid])
        self.painter.live.remove(q, self.live.pop(sid))

    def run(self, some: list[Change]) -> Changes:
        """Run changes (kind, row, x, y, touched) in one pass; `world` is behind until `apply`."""
        n = len(some)
        changes = Changes(
            np.array([one[0] for one in some], np.uint8),
            np.array([one[1] for one in some], np.int32),
            np.array([one[2] for one in some], np.float64).reshape(n, self.d),
            np.array([one[3] for one in some], np.float64),
            np.arange(self.created, self.created + n),
            np.array([one[4] for one in some], np.uint8),
        )
        self.created += n
        self.painter.objects.reserve(n, 1 + max(one[1] for one in some))
        done, made = self.painter.run(changes, 0, n, 1e9, True)
        assert done == n
        assert made == int(self.painter.tiles.n[0])
        return changes

    def apply(self, changes: Changes, e: int) -> tuple[list[Object], list[Object] | None, list[Object]]:
        """What change e does to the facts: the worlds before, between the halves of a move, and after."""
        row, created = int(changes.row[e]), int(changes.created[e])
        before = list(self.world.values())
        old = self.world.pop(row, None)
        between = list(self.world.values())
        if changes.kind[e] == SET:
            x, y = changes.x[e].tolist(), float(changes.y[e])
            if old is not None:
                x = [had if v != v else v for had, v in zip(old.x, x, strict=True)]
                y, created = old.y if y != y else y, old.created
            self.world[row] = Object(row, tuple(x), y, created)
        moved = old is not None and row in self.world and self.world[row].x != old.x
        return before, between if moved else None, list(self.world.values())

    def tiles(self, e: int) -> list[Tile]:
        """The tiles of change e."""
        t, painter = self.painter.tiles, self.painter
        made = []
        for i in np.flatnonzero(painter.kept_events() == e):
            q = int(t.cls[i])
            shape = painter.subscriptions.shapes[q]
            one = Object(int(t.row[i]), tuple(t.x[i].tolist()), float(t.y[i]), int(t.c[i]))
            side = tuple(t.side[i, : 2 * width(shape, self.d)].tolist())
            made.append(Tile(shape, int(painter.ks[q]), side, one, bool(t.gone[i])))
        return made

    def check_lists(self) -> None:
        for sid, one in self.subscriptions.items():
            want = [o.id for o in top(self.world.values(), one)]
            assert self.painter.live.rows(self.live[sid]).tolist() == want, one

    def check_indexes(self) -> None:
        self.painter.objects.check()
        self.painter.subscriptions.check()
        self.painter.live.index.check()
        for sid, one in self.subscriptions.items():
            q, params = self.painter.subscriptions.get(sid)
            assert (int(self.painter.ks[q]), tuple(params.tolist())) == (one.k, one.params)


def check_half(
    tiles: list[Tile],
    subscriptions: list[Subscription],
    before: list[Object],
    after: list[Object],
    row: int,
    touched: bool,
    reaching: bool = True,
) -> None:
    """Each subscription hears what it must and nothing twice, and its list is right after.

    Unless the painter does not know them, no tile reaches nobody.
    """
    now, was = {o.id: o for o in after}, {o.id: o for o in before}
    for tile in tiles:
        assert tile.gone == (tile.object.id not in now)
        assert tile.object == (was if tile.gone else now)[tile.object.id]
        assert not reaching or any(reaches(tile, one) for one in subscriptions), tile
    for one in subscriptions:
        mine, heard = hear(top(before, one), tiles, one)
        assert mine == top(after, one), (one, tiles)
        assert sorted(heard) == sorted(must_hear(before, after, row, one, touched)), (one, heard, tiles)


def check_change(board: Board, changes: Changes, e: int) -> None:
    before, between, after = board.apply(changes, e)
    row, tiles = int(changes.row[e]), board.tiles(e)
    subscriptions = list(board.subscriptions.values())
    if between is None:
        check_half(tiles, subscriptions, before, after, row, bool(changes.touched[e]))
    else:
        arriving = [tile.object.id == row and not tile.gone for tile in tiles]
        first = sum(not one for one in arriving)
        assert not any(arriving[:first]), "the halves of a move are mixed"
        check_half(tiles[:first], subscriptions, before, between, row, False)
        check_half(tiles[first:], subscriptions, between, after, row, False)


@st.composite
def scripts(draw: st.DrawFn, d: int, shapes: tuple[Any, ...], ks: tuple[int, ...], steps: int = 14) -> Script:
    """Subscriptions that come and go, and changes of a few objects, in stretches that are one pass each."""
    first = draw(st.lists(st.tuples(regions(d, shapes), st.sampled_from(ks)), max_size=30))
    script: Script = [("subscribe", [Subscription(shape, params, k) for (shape, params), k in first])]
    for _ in range(draw(st.integers(1, steps))):
        what = draw(st.sampled_from(["subscribe", "unsubscribe", "change", "change", "change", "change", "many"]))
        if what == "subscribe":
            shape, params = draw(regions(d, shapes))
            script.append((what, [Subscription(shape, params, draw(st.sampled_from(ks)))]))
        elif what == "unsubscribe":
            script.append((what, draw(st.integers(0, 40))))
        else:
            size = 1 if what == "change" else 6
            script.append(("change", draw(st.lists(changes_of(d), min_size=1, max_size=size))))
    return script


def changes_of(d: int) -> st.SearchStrategy[Any]:
    value = st.one_of(numbers, st.just(NAN))
    return st.tuples(
        st.sampled_from([SET, SET, SET, SET, DELETE]),
        st.integers(0, 9),
        st.tuples(*[value] * d),
        st.one_of(st.integers(0, 4).map(float), st.just(NAN)),
        st.booleans(),
    )


def valid(board: Board, some: list[Change]) -> list[Change]:
    """The changes that apply, with an object's first one made whole."""
    present = set(board.world)
    left = []
    for kind, row, x, y, touched in some:
        if kind == DELETE and row not in present:
            continue
        if kind == SET and row not in present:
            x, y = tuple(0.5 if v != v else v for v in x), 2.5 if y != y else y
            present.add(row)
        elif kind == DELETE:
            present.remove(row)
        left.append((kind, row, x, y, touched))
    return left


def play(d: int, ks: tuple[int, ...], script: Script) -> Board:
    board = Board(d, ks)
    for what, how in script:
        if what == "subscribe":
            board.subscribe(how)
        elif what == "unsubscribe" and board.subscriptions:
            sids = sorted(board.subscriptions)
            board.unsubscribe(sids[how % len(sids)])
        elif what == "change":
            some = valid(board, how)
            if some:
                changes = board.run(some)
                for e in range(len(some)):
                    check_change(board, changes, e)
        board.check_lists()
        board.check_indexes()
    return board


@pytest.mark.parametrize(("d", "shapes"), [(1, ("box",)), (2, ("box",)), (3, ("box",)), (4, ("box",)), (2, PLANE[1:2]),
                                           (2, PLANE[2:3]), (2, PLANE[3:]), (2, PLANE)])  # fmt: skip
@settings(max_examples=60, deadline=None)
@given(data=st.data(), ks=st.sampled_from([(1,), (2,), (3,), (1, 4), (12,)]))
def test_each_subscriber_is_told_exactly_what_it_must_hear(
    d: int, shapes: tuple[Any, ...], data: st.DataObject, ks: tuple[int, ...]
) -> None:
    play(d, ks, data.draw(scripts(d, shapes, ks)))


@kernel
def holds_point(shape: int, d: int, params: Any, x: Any) -> Any:
    """As kernels decide it, for one region and x[0]."""
    return shapes.holds(shape, d, params, 0, 1, x, 0)


def contains(shape: str, params: tuple[float, ...], x: tuple[float, ...]) -> bool:
    return bool(holds_point(SHAPES.index(shape), 2, as_params(shape, 2, params)[0], np.array([x])))


@settings(max_examples=200, deadline=None)
@given(region=regions(2, PLANE), x=st.tuples(numbers, numbers))
def test_a_region_holds_what_its_definition_says(region: tuple[str, tuple[Any, ...]], x: tuple[float, float]) -> None:
    assert contains(region[0], region[1], x) == holds(*region, x)


def grid_board(rng: Any, d: int, shape: str, k: int, m: int, n: int, distinct: int) -> Board:
    """Many subscriptions on few values, so that leaves overflow, borders tie and regions repeat."""
    board = Board(d, (k,))
    p = width(shape, d)
    params = rng.integers(0, distinct, (m, p)).astype(float)
    if shape == "box":
        params = np.sort(params.reshape(m, d, 2), 2).reshape(m, p)
        params[rng.random((m, p)) < 0.1] = INF
        params[:, ::2][params[:, ::2] == INF] = -INF
    elif shape == "half_plane":
        params[:, 0] += 1.0
    board.subscribe([Subscription(shape, tuple(row), k) for row in params.tolist()])
    some: list[Change] = [
        (SET, i, tuple(rng.integers(0, distinct, d).astype(float)), float(rng.integers(0, n)), 0) for i in range(n)
    ]
    changes = board.run(some)
    for e in range(n):
        board.apply(changes, e)
    board.check_lists()
    return board


@pytest.mark.parametrize(("d", "shape"), [(1, "box"), (2, "box"), (3, "box"), (4, "box"), *[(2, s) for s in PLANE[1:]]])
@pytest.mark.parametrize("distinct", [3, 12])
def test_many_subscriptions_with_ties_are_told_exactly(d: int, shape: str, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    board = grid_board(rng, d, shape, 3, 400, 60, distinct)
    for _ in range(12):
        row = int(rng.integers(0, 60))
        kind = rng.integers(0, 4)
        x = tuple(rng.integers(0, distinct, d).astype(float)) if kind == 0 else (NAN,) * d
        change: Change = (DELETE if kind == 1 and row in board.world else SET, row, x, float(rng.integers(0, 60)), 1)
        if row not in board.world:
            change = (SET, row, tuple(rng.integers(0, distinct, d).astype(float)), 5.0, 0)
        check_change(board, board.run([change]), 0)
        board.check_lists()
    board.check_indexes()


def test_tiles_and_buffers_grow_as_needed() -> None:
    rng = np.random.default_rng(3)
    board = Board(2, (2,))
    ends = np.sort(rng.random((6000, 2, 2)), 2).reshape(6000, 4)
    board.subscribe([Subscription("box", tuple(row), 2) for row in ends.tolist()])
    some: list[Change] = [(SET, i, (0.4 + 0.01 * i, 0.5), float(i), 0) for i in range(9)]
    gone: list[Change] = [(DELETE, i, (NAN, NAN), NAN, 0) for i in range(9)]
    changes = board.run([*some, *gone, *some, *gone, *some])
    for e in range(len(changes.row)):
        board.apply(changes, e)
    board.check_lists()
    assert len(board.painter.tiles.row) > 4096


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_copy_that_reads_use_follows(d: int) -> None:
    rng = np.random.default_rng(d)
    board = Board(d, (1,))
    copy = board.painter.objects.frozen()
    for _ in range(30):
        rows = rng.integers(0, 20, 5).tolist()
        drawn: list[Change] = [(int(rng.random() < 0.3), row, tuple(rng.random(d)), rng.random(), 0) for row in rows]
        some = valid(board, drawn)
        if some:
            changes = board.run(some)
            copy.reserve(len(some), 20)
            type(board.painter).advance(_over(copy), changes, 0, len(some))
            for e in range(len(some)):
                board.apply(changes, e)
            mine, theirs = copy.arrays, board.painter.objects.arrays
            rows = min(len(mine.pos), len(theirs.pos))
            assert np.array_equal(mine.pos[:rows], theirs.pos[:rows])
            copy.check()
            assert {o.id: (o.x, o.y, o.created) for o in board.world.values()} == {
                int(row): (tuple(x.tolist()), float(y), int(c)) for x, y, c, row in zip(*copy.contents(), strict=True)
            }
            again = SpaceObjects.build(*copy.contents())
            again.check()
            one = Subscription("box", (0.2, 0.9) * d, 4)
            for index in (copy, again):
                rows = index.arrays.row[index.top(one.shape, one.params, one.k)]
                assert rows.tolist() == [o.id for o in top(board.world.values(), one)]


def _over(objects: SpaceObjects) -> Any:
    return SimpleNamespace(objects=objects)


def test_bulk_and_single_insertions_hold_the_same() -> None:
    rng = np.random.default_rng(8)
    params = np.sort(rng.integers(0, 9, (900, 3, 2)), 2).reshape(900, 6).astype(float)
    bulk, single, again = (SpaceSubscriptions(3, ((5, "box"),)) for _ in range(3))
    bulk.insert_many(0, np.arange(900), params)
    for s in range(900):
        single.insert_many(0, [s], params[s : s + 1])
    for part in (slice(0, 500), slice(500, 520), slice(520, 900)):
        again.insert_many(0, np.arange(900)[part], params[part])
    for index in (bulk, single, again):
        index.check()
        sids, held = index.contents(0)
        assert sids.tolist() == list(range(900))
        assert (held == params).all()
    gone = rng.permutation(900)[:700].astype(np.int32)
    for index in (bulk, single, again):
        index.delete_many(0, gone)
        index.check()
        index.discard(gone)
        tile = [-INF, 4.0, 4.0, INF, 2.0, 3.0, 5.0, 8.0, -INF, 8.0, 0.0, INF]
        want = [s for s in range(900) if s not in set(gone.tolist()) and _on(tile, params[s])]
        assert sorted(index.report(0, tile).tolist()) == want
    with pytest.raises(KeyError):
        bulk.delete_many(0, [int(gone[0])])
    with pytest.raises(ValueError, match="present"):
        bulk.insert_many(0, [int(bulk.contents(0)[0][0])], params[:1])
    with pytest.raises(ValueError, match="NaN"):
        bulk.insert_many(0, [5000], [[0.0, 1.0, NAN, 1.0, 0.0, 1.0]])


def _on(tile: list[float], params: np.ndarray) -> bool:
    one = Subscription("box", tuple(params.tolist()), 1)
    return reaches(Tile("box", 1, tuple(tile), Object(0, (), 0.0, 0), False), one)


def test_the_same_calls_give_the_same_layout() -> None:
    rng = np.random.default_rng(9)
    params = np.sort(rng.random((500, 2, 2)), 2).reshape(500, 4)

    def made() -> Any:
        index = SpaceSubscriptions(2, ((5, "box"), (7, "disc")))
        index.insert_many(0, np.arange(400), params[:400])
        index.insert_many(1, np.arange(400, 450), params[400:450, :3])
        index.insert_many(0, np.arange(450, 460), params[450:460])
        index.delete_many(0, np.arange(0, 100))
        return index.frozen()

    one, two = made(), made()
    for a, b in zip((*one.tree, *one[1:]), (*two.tree, *two[1:]), strict=True):
        assert np.array_equal(a, b)


# 1.5-dimensional subscriptions.

half_open = st.tuples(ends, ends, st.one_of(numbers, st.just(INF)))


class HalfOpenBoard:
    """Objects, subscriptions l <= x1 <= r, x2 <= t of one k, and the painter of Appendix D."""

    def __init__(self, k: int, dense: bool, some: list[tuple[float, float, float]], late: int = ALWAYS) -> None:
        self.k, self.dense, self.late = k, dense, late
        self.objects = SpaceObjects(2)
        self.objects.reserve(32, 32)
        self.index = SpaceSubscriptions(2, ((k, "box"),))
        self.subscriptions = [Subscription("box", (l, r, -INF, t), k) for l, r, t in some]
        self.index.insert_many(0, np.arange(len(some)), [one.params for one in self.subscriptions])
        self.sweep, self.tiles = one_and_half.make_sweep(k), make_space_tiles(2, 4096)
        self.world: dict[Any, Any] = {}
        self.created = 0

    def change(self, row: int, x: tuple[float, float], y: float) -> tuple[list[Object], list[Object]]:
        """A new y, an insertion, or, at +inf, a deletion; returns the worlds before and after."""
        before = list(self.world.values())
        old = self.world.pop(row, None)
        if old is None:
            self.created += 1
            old = Object(row, x, INF, self.created)
        self.tiles.n[0] = 0
        made = one_and_half.paint(
            self.objects.arrays, self.index.arrays, 0, self.k, self.dense, self.late, np.array([old.x]), 0, row,
            old.y, y, old.created, self.sweep, np.empty(8), self.tiles,
        )  # fmt: skip
        assert made == 1
        if old.y < INF:
            self.objects.delete(row)
        if y < INF:
            self.objects.insert(row, old.x, y, old.created)
            self.world[row] = old._replace(y=y)
        return before, list(self.world.values())

    def made(self) -> Any:
        t = self.tiles
        return [
            Tile("box", self.k, tuple(t.side[i, :8].tolist()),
                 Object(int(t.row[i]), tuple(t.x[i].tolist()), float(t.y[i]), int(t.c[i])), bool(t.gone[i]))
            for i in range(t.n[0])
        ]  # fmt: skip


@pytest.mark.parametrize("dense", [False, True])
@settings(max_examples=80, deadline=None)
@given(
    k=st.integers(1, 4),
    late=st.sampled_from((ALWAYS, LATE, LATER)),
    some=st.lists(half_open, min_size=1, max_size=40),
    script=st.lists(
        st.tuples(
            st.integers(0, 9), st.tuples(numbers, numbers), st.one_of(st.integers(0, 6).map(float), st.just(INF))
        ),
        min_size=1,
        max_size=25,
    ),
)
def test_appendix_d_tells_exactly_what_must_be_heard(
    dense: bool,
    k: int,
    late: int,
    some: list[tuple[float, float, float]],
    script: list[tuple[int, tuple[float, float], float]],
) -> None:
    board = HalfOpenBoard(k, dense, some, late)
    everyone = list(
        product([-INF, 0.0, 0.05, 0.1, 0.25, 0.7], [0.0, 0.1, 0.25, 0.7, 1.0, INF], [0.0, 0.1, 0.5, 1.0, INF])
    )
    subscriptions = [Subscription("box", (l, r, -INF, t), k) for l, r, t in everyone] if dense else board.subscriptions
    for row, x, y in script:
        if row in board.world or y < INF:
            before, after = board.change(row, x, y)
            check_half(board.made(), subscriptions, before, after, row, True, reaching=not dense)


@pytest.mark.parametrize(("k", "late"), [(1, ALWAYS), (3, LATE), (10, LATER)])
def test_many_half_open_boxes_are_told_exactly(k: Any, late: Any) -> None:
    rng = np.random.default_rng(k)
    ends = np.sort(rng.random((400, 2)), 1)
    board = HalfOpenBoard(
        k, False, [(*row, t) for row, t in zip(ends.tolist(), rng.random(400).tolist(), strict=True)], late
    )
    board.objects.reserve(150, 150)
    for row in range(100):
        board.change(row, tuple(rng.random(2).tolist()), float(rng.random()))
    for _ in range(20):
        row = int(rng.integers(0, 100))
        before, after = board.change(row, (0.0, 0.0), float(rng.random()))
        check_half(board.made(), board.subscriptions, before, after, row, True)
