"""A board captured, packed and put together again is the same board; new indexes take their place while it changes."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.boards import packing
from indexes.boards.commands import AddSubscriptions, Configure, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.painter import INDEXES
from indexes.boards.plans.maintenance import FOLD, Captured, rehearse
from indexes.boards.regions import between, ranges
from indexes.boards.state import board_of, pack_board, state_of
from indexes.boards.subscription_index import SubscriptionIndex, shape
from indexes.boards.team import PainterTeam
from indexes.boards.verification import verify
from tests.unit.boards.helpers import (
    ENDS,
    INF,
    assert_same,
    captured,
    edits,
    events,
    same_columns,
)

scripts = st.lists(st.one_of(events, edits), max_size=12)
configs = st.builds(
    lambda order, index, algorithm: BoardConfig(("x",), "y", order, (1, 2, 5), algorithm, index),
    st.sampled_from(["asc", "desc"]),
    st.sampled_from(["range-tree", "kd-tree"]),
    st.sampled_from(["sparse", "dense"]),
)


def again(board: BoardEngine) -> BoardEngine:
    state = state_of(captured(board))
    return board_of(state, pack_board(state))


def shown(board: BoardEngine) -> tuple:
    everyone = board.subscriptions(None, 10**6)
    lists = [board.top(sub.region, sub.k, sub.offset) for sub in everyone]
    return board.seq, board.config, board.objects(None, 10**6), everyone, lists


@settings(deadline=None)
@given(config=configs, before=scripts, after=scripts)
def test_a_board_made_of_its_state_goes_on_as_the_same_board(config: BoardConfig, before: list, after: list) -> None:
    board = BoardEngine(config, 7)
    for command in before:
        board.apply(command)
    other = again(board)
    other.check()
    assert shown(other) == shown(board)
    for command in after:
        mine, _ = board.apply(command, keep_tiles=1000)
        theirs, _ = other.apply(command, keep_tiles=1000)
        assert (mine.first_seq, mine.last_seq) == (theirs.first_seq, theirs.last_seq)
        assert getattr(mine, "tiles", None) == getattr(theirs, "tiles", None) or config.algorithm == "sparse"
    other.check()
    assert shown(other) == shown(board)
    same_columns(state_of(captured(board)), state_of(captured(other)))


@settings(deadline=None)
@given(config=configs, before=scripts, after=st.lists(edits, max_size=12), rows=st.data())
def test_what_is_accepted_but_not_yet_applied_is_not_captured(
    config: BoardConfig, before: list, after: list, rows: st.DataObject
) -> None:
    board, twin = BoardEngine(config), BoardEngine(config)
    for command in before:
        board.apply(command)
        twin.apply(command)
    at = rows.draw(st.integers(0, len(after)))
    plans: list[Any] = []
    for i, command in enumerate(after):
        if i == at:
            plans.append(board.capture())
        plans.append(board.prepare(command))
    if at == len(after):
        plans.append(board.capture())
    for plan in plans:
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
    for command in after[:at]:
        twin.apply(command)
    assert plans[at].captured is not None
    same_columns(state_of(plans[at].captured), state_of(captured(twin)))


def changed_since_capture(config: BoardConfig, before: list, meanwhile: list) -> tuple[BoardEngine, Any]:
    """A board after both scripts, and the packed state of it between them."""
    board = BoardEngine(config)
    for command in before:
        board.apply(command)
    packed = pack_board(state_of(captured(board, journal=True)))
    for command in meanwhile:
        board.apply(command)
    return board, packed


@settings(deadline=None)
@given(config=configs, before=scripts, meanwhile=scripts, fold_at=st.integers(1, 5), ks=st.booleans())
def test_new_indexes_take_in_what_came_since(
    config: BoardConfig, before: list, meanwhile: list, fold_at: int, ks: bool
) -> None:
    board, packed = changed_since_capture(config, before, meanwhile)
    if ks:
        board.apply(Configure(ks=(1, 2, 3, 5)))
        board.apply(SetSubscription("three", between(0.0, 2.0), 3))
    was = shown(board)
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, packing.to_forest(packed.forest, board.subscribers.high))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("indexes.boards.plans.maintenance.FOLD", fold_at)
        for _ in range(1000):
            plan = board.fold(fresh)
            while not plan.done:
                plan.execute(1.0)
                plan.publish()
            if plan.swapped:
                break
    assert plan.swapped and board.painter.subscriptions is fresh
    board.check()
    assert shown(board) == was
    for checked in verify(captured(board, indexes=True)):
        assert checked.differences == []


@settings(deadline=None)
@given(config=configs, before=scripts, meanwhile=scripts, later=scripts, torn=st.booleans())
def test_a_rehearsed_fold_takes_in_what_came_since(
    config: BoardConfig, before: list, meanwhile: list, later: list, torn: bool
) -> None:
    board, packed = changed_since_capture(config, before, meanwhile)
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, packing.to_forest(packed.forest, board.subscribers.high))
    sides = board.subscribers.regions.sides.copy()
    if torn:
        # A thread may read what is half written.
        board.subscribers.regions.sides[0] += 1.0
    rehearse(board, fresh)
    board.subscribers.regions.sides[:] = sides
    fresh.check()
    for command in later:
        board.apply(command)
    was = shown(board)
    rehearse(board, fresh)
    plan = board.fold(fresh)
    plan.execute(1.0)
    plan.publish()
    assert plan.swapped and board.painter.subscriptions is fresh
    board.check()
    assert shown(board) == was
    rehearse(board, SubscriptionIndex())


def test_a_rehearsal_leaves_nothing_of_the_index_to_be_changed_for_the_first_time() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    board.apply(subscribe(5_000))
    packed = pack_board(state_of(captured(board, journal=True)))
    for i in range(0, 400, 3):
        board.apply(SetSubscription(f"s{i}", between(0.1 + i / 1000, 0.9), 3))
    board.apply(DeleteSubscriptions([f"s{i}" for i in range(1_000, 1_100)]))
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, packing.to_forest(packed.forest, board.subscribers.high))
    rehearse(board, fresh)
    rehearsed = fresh.frozen()
    board.fold(fresh).execute(1.0)
    assert_same(tuple(rehearsed), tuple(fresh.arrays))


def test_what_was_replaced_goes_when_the_fold_releases_it() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    board.apply(subscribe(100))
    team = board.painter
    assert isinstance(team, PainterTeam)
    team.assemble(1)
    (fellow,) = team._fellows
    fellow.subscriptions = team.subscriptions
    for painter in (team, fellow):
        # As painting does, for kernels.
        painter._kept()
    packed = pack_board(state_of(captured(board, journal=True)))
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, packing.to_forest(packed.forest, board.subscribers.high))
    before = weakref.ref(board.painter.subscriptions)
    arrays = [weakref.ref(column) for column in board.painter.subscriptions.arrays if isinstance(column, np.ndarray)]
    assert arrays
    plan = board.fold(fresh)
    plan.execute(1.0)
    plan.publish()
    assert board.painter.subscriptions is fresh and before() is not None
    plan.release()
    assert before() is None and all(column() is None for column in arrays)


@pytest.mark.parametrize("kind", ["range-tree", "kd-tree"])
@pytest.mark.parametrize("n", [0, 1, 17, 4_000])
def test_objects_laid_out_again_are_those_built(kind: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y, c, row = rng.integers(0, 99, n).astype(float), rng.random(n), rng.permutation(n), np.arange(n, dtype=np.int32)
    index = INDEXES[kind].build(x, y, c, row)
    for _ in range(min(n, 40)):
        index.delete(index.contents()[3][0])
    laid_out, built = index.laid_out(), INDEXES[kind].build(*index.contents())
    laid_out.check()
    assert_same(laid_out.contents(), built.contents())
    if kind == "range-tree":
        assert_same(tuple(laid_out.arrays), tuple(built.arrays))


def test_a_fold_of_many_changes_is_cut() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    board.apply(subscribe(3 * FOLD))
    packed = pack_board(state_of(captured(board, journal=True)))
    board.apply(DeleteSubscriptions([f"s{i}" for i in range(0, 3 * FOLD, 2)]))
    board.apply(subscribe(100, "t"))
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, packing.to_forest(packed.forest, board.subscribers.high))
    swaps: list[Any] = []
    while not any(swaps):
        plan = board.fold(fresh)
        plan.execute(0.005)
        plan.publish()
        swaps.append(plan.swapped)
    assert swaps == [False, True]
    board.check()


def test_a_class_that_goes_while_a_fold_is_cut_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.boards.plans.maintenance.FOLD", 1)
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3, 5)))
    board.apply(subscribe(3, k=5))
    packed = pack_board(state_of(captured(board, journal=True)))
    board.apply(DeleteSubscriptions(["s0", "s1", "s2"]))
    board.apply(Configure(ks=(3, 4)))
    board.apply(subscribe(2, "t", k=4))
    fresh = SubscriptionIndex()
    fresh.adopt(packed.forest.ks, packing.to_forest(packed.forest, board.subscribers.high))
    swaps: list[Any] = []
    while not any(swaps):
        plan = board.fold(fresh)
        plan.execute(1.0)
        plan.publish()
        swaps.append(plan.swapped)
    assert len(swaps) > 2
    board.check()
    board.apply(subscribe(3, "u", k=3))
    board.check()


def subscribe(n: int, letter: str = "s", k: int = 3, seed: int = 0) -> AddSubscriptions:
    both = np.sort(np.random.default_rng(seed).random((n, 2)))
    names = pa.array([f"{letter}{i}" for i in range(n)])
    return AddSubscriptions(names, ranges(*both.T), np.full(n, k, np.int32))


points = st.lists(st.tuples(st.sampled_from(ENDS), st.sampled_from(ENDS)), max_size=300)


@settings(deadline=None)
@given(points=points, above=st.integers(0, 3), seed=st.integers(0, 9))
def test_a_class_laid_out_in_cells_is_the_class_laid_out_whole(points: list, above: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = len(points)
    sid = rng.permutation(2 * n)[:n].astype(np.int32)
    l, r = (packing.ends(np.array(column, np.float64)) for column in (zip(*points, strict=True) if n else ((), ())))
    above = min(above, shape(n)[0])
    slots, nodes = packing.pack_cell(sid, l, r, n)
    order = rng.permutation(n)
    other = packing.pack_cell(sid[order], l[order], r[order], n)
    assert_same((*slots, *nodes), (*other[0], *other[1]))
    cells = [np.arange(n)]
    cuts = []
    for level in range(above):
        halves = []
        for j, cell in enumerate(cells):
            sides = [f(v[cell]) for v in (l, r) for f in (lambda a: a.min(initial=INF), lambda a: a.max(initial=-INF))]
            axis = packing.widest(packing.Box(*sides))
            key = (l, r)[axis][cell]
            cell = cell[np.lexsort((sid[cell], key))]
            middle = packing.cell_start(n, level + 1, 2 * j + 1) - packing.cell_start(n, level, j)
            cuts.append((axis, (l, r)[axis][cell[middle]] if len(cell) else 0.0))
            halves += [cell[:middle], cell[middle:]]
        cells = halves
    parts = [packing.pack_cell(sid[cell], l[cell], r[cell], n, above, j) for j, cell in enumerate(cells)]
    joined = packing.join_cells(n, above, [part[1] for part in parts], cuts)
    together = [np.concatenate(columns) for columns in zip(*(part[0] for part in parts), strict=True)]
    assert_same((*slots, *nodes), (*together, *joined))


def test_a_cell_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="cell 1 of 2"):
        packing.pack_cell(np.arange(3, dtype=np.int32), np.zeros(3), np.zeros(3), 100, 1, 1)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 215, 5000])
def test_objects_laid_out_in_parts_are_those_laid_out_whole(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y, c, row = rng.integers(0, 9, n).astype(float), rng.random(n), rng.permutation(n), np.arange(n, dtype=np.int32)
    whole = packing.pack_objects(x, y, c, row)
    order = np.lexsort((c, x))
    slots = packing.object_slots(n)
    places = packing.place(n, slots // 16, 0, n)
    cut = slots // 32 * 16
    lo = int(np.searchsorted(places, cut))
    halves = [
        packing.lay_objects(x[order[:lo]], y[order[:lo]], c[order[:lo]], row[order[:lo]], n, 0, 0, cut),
        packing.lay_objects(x[order[lo:]], y[order[lo:]], c[order[lo:]], row[order[lo:]], n, lo, cut, slots),
    ]
    assert_same(whole, tuple(np.concatenate(parts) for parts in zip(*halves, strict=True)))


def damaged(board: BoardEngine, name: str) -> Captured:
    found = captured(board, indexes=True)
    assert found.indexes is not None
    f = found.indexes.forest
    if name == "subscription":
        f.l[f.pos[2]] += 0.001
    elif name == "box":
        f.west[1] -= 1.0
    elif name == "object":
        o = found.indexes.painting.arrays
        o.y[o.pos[1]] += 10.0
    elif name == "list":
        o = found.indexes.reading.arrays
        best, worst = (o.pos[found.row[i]] for i in np.argsort(found.y)[[0, -1]])
        o.row[best], o.row[worst] = o.row[worst], o.row[best]
    elif name == "live list":
        found.indexes.live[0] = (found.indexes.live[0][0], found.indexes.live[0][1][::-1].copy())
    elif name == "ids":
        found.ids = found.ids._replace(row=np.roll(found.ids.row, 1))
        found.k[0] = 0
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("subscription", "subscription"),
        ("box", "index"),
        ("object", "object"),
        ("list", "list"),
        ("live list", "live list"),
        ("ids", "index"),
    ],
)
def test_damage_is_found(name: str, kind: str) -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    rng = np.random.default_rng(5)
    board.apply(subscribe(5000))
    board.apply(Events(np.zeros(100, np.uint8), [f"o{i}" for i in range(100)], rng.random(100), rng.random(100)))
    board.watch("s17")
    assert all(checked.differences == [] for checked in verify(captured(board, indexes=True)))
    differences = [d for checked in verify(damaged(board, name)) for d in checked.differences]
    assert kind in {d.kind for d in differences}


def test_worn_grows_with_changes_and_is_gone_after_a_rebuild() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(3,)))
    board.apply(subscribe(1000))
    assert board.churn == 0.0, "what was laid out in bulk is not worn"
    assert again(board).churn == 0.0
    before = again(board)
    for i in range(10):
        before.apply(SetSubscription(f"s{i}", between(0.1, 0.2), 3))
    assert before.churn == pytest.approx(20 / 1000)


@settings(deadline=None)
@given(config=configs, before=scripts, after=scripts)
def test_a_capture_copies_into_the_room_that_was_made(config: BoardConfig, before: list, after: list) -> None:
    board = BoardEngine(config)
    for command in before:
        board.apply(command)
    without = state_of(captured(board))
    board.make_room()
    room = board.room
    found = captured(board)
    high = board.subscribers.high
    for column in (found.k, found.offset, found.regions.shape, found.regions.sides, found.ids.row):
        assert not column.size or np.shares_memory(column, room._memory)
    assert (len(found.k), board.room is room) == (high, False)
    for command in after:
        board.apply(command)
    same_columns(state_of(found), without)
