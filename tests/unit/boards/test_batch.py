"""Paint-Batch against brute force: lists are exact after a batch, and no subscriber hears more than it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from indexes.boards import batch
from indexes.boards.commands import DELETE, UPSERT, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels import batch_rank_sweep
from indexes.boards.plans.batch import BatchPlan
from indexes.boards.regions import between, everywhere
from tests.oracles.batch import fewest_messages, told_by_rule
from tests.oracles.painting import INF, Object, every_range, hear, reaches, top
from tests.oracles.painting import Tile as PlainTile
from tests.support.values import scalar
from tests.unit.boards.helpers import applied

xs = st.integers(0, 4).map(float)
ys = st.integers(0, 5).map(float)
keys = st.sampled_from("abcdefg")
one = st.tuples(keys, xs, ys)
change = st.tuples(st.sampled_from([UPSERT, UPSERT, UPSERT, DELETE]), keys, xs, ys)
range_end = st.sampled_from([None, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5])


def events(changes: Any, batch: bool) -> Events:
    nan = float("nan")
    ops = np.array([op for op, _, _, _ in changes], np.uint8)
    x = np.array([nan if op == DELETE else x for op, _, x, _ in changes])
    y = np.array([nan if op == DELETE else y for op, _, _, y in changes])
    return Events(ops, [key for _, key, _, _ in changes], x, y, batch=batch)


def possible(board: BoardEngine, changes: Any) -> list[Any]:
    """The changes without deletions of what is not there."""
    there = set(board.catalogue.rows)
    found = []
    for op, key, x, y in changes:
        if op == DELETE and key not in there:
            continue
        there = there - {key} if op == DELETE else there | {key}
        found.append((op, key, x, y))
    return found


def world(board: BoardEngine) -> list[Object]:
    return [Object(view.id, scalar(view.x), view.y, view.created) for view in board.objects(None, 1000)]


def everything(board: BoardEngine) -> list[Object]:
    """All objects of a large world."""
    return [Object(view.id, scalar(view.x), view.y, view.created) for view in board.objects(None, 10**6)]


def plain(plan: Any, k: int) -> list[PlainTile]:
    """The plan's tiles as the oracle has them."""
    found = []
    for _, tile in plan.tiles:
        sides = (
            -INF if tile.l_outer is None else tile.l_outer,
            -INF if tile.l_inner is None else tile.l_inner,
            INF if tile.r_inner is None else tile.r_inner,
            INF if tile.r_outer is None else tile.r_outer,
        )
        seen = tile.object
        if tile.k == k:
            found.append(PlainTile(*sides, Object(seen.id, seen.x, seen.y, seen.created), tile.gone))
    return found


def made(start: Any, algorithm: Any, index: Any, ks: tuple[int, ...], ranges: Any) -> BoardEngine:
    board = BoardEngine(BoardConfig(("x",), "y", "asc", ks, algorithm, index))
    board.apply(events([(UPSERT, *one) for one in {key: (key, x, y) for key, x, y in start}.values()], False))
    for i, (l, r) in enumerate(ranges):
        for k in ks:
            board.apply(SetSubscription(f"s{i}:{k}", between(l, r), k))
    return board


def bring(board: BoardEngine, changes: Any, keep: int = 10**6) -> tuple[list[Object], list[Object], Any]:
    before = world(board)
    plan, _ = board.apply(events(possible(board, changes), True), keep_tiles=keep)
    board.check()
    return before, world(board), plan


def check(before: list[Object], after: list[Object], tiles: list[PlainTile], ranges: Any, k: int) -> None:
    for l, r in ranges:
        mine, heard = hear(top(before, l, r, k), tiles, l, r, k)
        assert mine == top(after, l, r, k), (l, r, before, after, tiles)
        assert len(heard) == fewest_messages(before, after, l, r, k), (l, r, before, after, heard)


@pytest.fixture(autouse=True, scope="module", params=[-1.0, INF], ids=["rank-sweep", "incremental"])
def painted_as(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small worlds are always crowded: both ways of painting a batch are right for every batch."""
    usual, batch.CROWDED = batch.CROWDED, request.param
    yield
    batch.CROWDED = usual


small = settings(max_examples=150, deadline=None)


@small
@given(
    start=st.lists(one, max_size=7),
    changes=st.lists(change, min_size=1, max_size=7),
    ks=st.sampled_from([(1,), (2,), (3,), (1, 3)]),
    index=st.sampled_from(["range-tree", "kd-tree"]),
)
def test_dense_every_possible_range_hears_the_least_that_it_must(start: Any, changes: Any, ks: Any, index: Any) -> None:
    board = made(start, "dense", index, ks, [])
    before, after, plan = bring(board, changes)
    for k in ks:
        check(before, after, plain(plan, k), every_range(before + after), k)


@small
@given(
    start=st.lists(one, max_size=7),
    changes=st.lists(change, min_size=1, max_size=7),
    ks=st.sampled_from([(1,), (2,), (3,), (2, 3)]),
    ranges=st.lists(st.tuples(range_end, range_end), max_size=12),
    index=st.sampled_from(["range-tree", "kd-tree"]),
)
def test_sparse_each_subscriber_hears_the_least_that_it_must(
    start: Any, changes: Any, ks: Any, ranges: Any, index: Any
) -> None:
    asked = [(-INF if l is None else l, INF if r is None else r) for l, r in ranges]
    asked = [(l, r) for l, r in asked if l <= r]
    board = made(start, "sparse", index, ks, asked)
    before, after, plan = bring(board, changes)
    for k in ks:
        tiles = plain(plan, k)
        check(before, after, tiles, asked, k)
        for tile in tiles:
            assert any(reaches(tile, l, r) for l, r in asked), tile


wide = st.integers(0, 25).map(float)
ops = st.sampled_from([UPSERT] * 5 + [DELETE])
many_keys = st.sampled_from([f"o{i}" for i in range(24)])
one_of_many = st.tuples(many_keys, wide, wide)


@settings(max_examples=100, deadline=None)
@given(
    start=st.lists(one_of_many, min_size=8, max_size=24),
    changes=st.lists(st.tuples(st.sampled_from([UPSERT] * 5 + [DELETE]), st.integers(0, 30), wide, wide), max_size=9),
    ks=st.sampled_from([(1,), (3,), (5,), (2, 4)]),
    ranges=st.lists(st.tuples(wide, wide).map(sorted), min_size=1, max_size=30),
    way=st.sampled_from(
        [("dense", "range-tree"), ("sparse", "range-tree"), ("dense", "kd-tree"), ("sparse", "kd-tree")]
    ),
)
def test_changes_far_apart_and_close_together_follow_the_rule(
    start: Any, changes: Any, ks: Any, ranges: Any, way: Any
) -> None:
    places = {key: x for key, x, _ in start}
    # Most change y alone: the number of an object there stands for it, and one past them for a new one.
    changes = [
        (op, *((list(places)[i], places[list(places)[i]]) if i < len(places) else (f"new{i}", x)), y)
        for op, i, x, y in changes
    ]
    asked = [(l, r) for l, r in ranges]
    board = made(start, way[0], way[1], ks, asked)
    before, after, plan = bring(board, changes)
    for k in ks:
        tiles = plain(plan, k)
        for l, r in every_range(before + after) if way[0] == "dense" else asked:
            mine, heard = hear(top(before, l, r, k), tiles, l, r, k)
            assert mine == top(after, l, r, k), (l, r, k, before, after, tiles)
            assert sorted(heard) == sorted(id for id, _, _ in told_by_rule(before, after, l, r, k)), (l, r, k)


@small
@given(
    start=st.lists(one_of_many, min_size=8, max_size=24),
    changes=st.lists(st.tuples(ops, many_keys, wide, wide), min_size=1, max_size=9),
    ks=st.sampled_from([(2,), (1, 3)]),
)
def test_tiles_come_in_the_order_of_the_messages(start: Any, changes: Any, ks: Any) -> None:
    """Demoted objects, the worst first, then exposed ones, then promoted ones."""
    board = made(start, "dense", "range-tree", ks, [])
    before, _, plan = bring(board, changes)
    old = {(one.id, one.x, one.created): one.y for one in before}
    places = []
    for k in ks:
        for tile in plain(plan, k):
            seen = tile.object
            was = old.get((seen.id, seen.x, seen.created), INF)
            now = INF if tile.gone else seen.y
            places.append((0, -now, -seen.created) if now > was else (1, 0.0, 0) if now == was else (2, 0.0, 0))
        assert places == sorted(places)
        places.clear()


@settings(max_examples=60, deadline=None)
@given(
    start=st.lists(one, max_size=7),
    changes=st.lists(change, min_size=1, max_size=12),
    k=st.integers(1, 3),
    ranges=st.lists(st.tuples(range_end, range_end), min_size=1, max_size=6),
    behind=st.integers(0, 2),
    payload=st.dictionaries(st.integers(0, 11), st.sampled_from([b"1", b"2", None])),
)
def test_live_lists_go_over_in_one_change(
    start: Any, changes: Any, k: int, ranges: Any, behind: int, payload: Any
) -> None:
    asked = [(-INF if l is None else l, INF if r is None else r) for l, r in ranges]
    asked = [(l, r) for l, r in asked if l <= r]
    board = made(start, "sparse", "range-tree", (k,), asked)
    offset = min(behind, k - 1)
    for i in range(0, len(asked), 2):
        board.apply(SetSubscription(f"s{i}:{k}", k=k - offset, offset=offset))
    live = {board.watch(f"s{i}:{k}"): (l, r) for i, (l, r) in enumerate(asked)}
    held = {slot: board.list_of(slot, board.offset_of(slot)) for slot in live}
    before = dict(held)
    command = events(possible(board, changes), True)
    command.payload = {at: text for at, text in payload.items() if at < len(command) and command.op[at] != DELETE}
    plan, heard = board.apply(command)
    told = [change for part in heard for change in part.changes]
    assert len({change.live for change in told}) == len(told)
    assert all(change.seq == plan.last_seq for change in told)
    for part in told:
        names = [entry.id for entry in part.entries]
        assert len(set(names)) == len(names)
        first = board.offset_of(part.live) + 1
        was = {view.id: (rank, view) for rank, view in enumerate(held[part.live], first)}
        now = [view for view in held[part.live] if view.id not in names]
        for entry in part.entries:
            assert (entry.old_rank, entry.old) == was.get(entry.id, (None, None))
        for entry in sorted((e for e in part.entries if e.new_rank), key=lambda e: e.new_rank or 0):
            assert entry.new_rank is not None and entry.object is not None
            now.insert(entry.new_rank - first, entry.object)
        held[part.live] = now
    for slot, (l, r) in live.items():
        truth = [item.id for item in top(world(board), l, r, k)][board.offset_of(slot) :]
        assert [view.id for view in held[slot]] == truth
        assert held[slot] == board.list_of(slot, board.offset_of(slot))
        if held[slot] == before[slot] and not command.payload:
            assert slot not in {change.live for change in told}


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("start", "changes"),
    [
        ({"a": 3, "b": 1, "c": 2}, {"a": 0, "b": 1.5}),
        ({"b": 1, "c": 2, "d": 3, "a": 4}, {"a": 0, "b": 2.5}),
        ({"a": 3, "b": 1, "c": 2}, {"a": 0, "b": 2}),
        ({"b": 1, "c": 2, "d": 3, "a": 4}, {"a": 0, "b": 5, "c": None}),
    ],
)
def test_what_will_rise_does_not_keep_others_from_their_place(start: Any, changes: Any, k: int) -> None:
    board = made([(key, 1.0, float(y)) for key, y in start.items()], "sparse", "range-tree", (k,), [(-INF, INF)])
    live = board.watch(f"s0:{k}")
    changed = [
        (DELETE if y is None else UPSERT, key, 1.0, 0.0 if y is None else float(y)) for key, y in changes.items()
    ]
    bring(board, changed)
    wanted = top(world(board), -INF, INF, k)
    assert [(view.id, view.y) for view in board.list_of(live)] == [(one.id, one.y) for one in wanted]


ranks = st.integers(0, 40).map(float)
eight = st.sampled_from([f"o{i}" for i in range(8)])


@settings(max_examples=300, deadline=None)
@given(
    start=st.permutations(range(8)).map(lambda order: [(f"o{i}", 1.0, 5.0 * y) for i, y in enumerate(order)]),
    batches=st.lists(
        st.lists(
            st.tuples(st.sampled_from([UPSERT] * 6 + [DELETE]), eight, st.sampled_from([1.0, 1.0, 1.0, 3.0]), ranks),
            min_size=2,
            max_size=6,
        ),
        min_size=1,
        max_size=4,
    ),
    k=st.integers(2, 8),
    ranges=st.just([(None, None), (0.5, 2.0), (0.5, 3.5)]),
)
def test_live_lists_are_exact_after_every_batch(start: Any, batches: Any, k: int, ranges: Any) -> None:
    asked = [(-INF if l is None else l, INF if r is None else r) for l, r in ranges]
    asked = [(l, r) for l, r in asked if l <= r]
    board = made(start, "sparse", "range-tree", (k,), asked)
    live = [(board.watch(f"s{i}:{k}"), l, r) for i, (l, r) in enumerate(asked)]
    for changes in batches:
        _, after, _ = bring(board, changes)
        for slot, l, r in live:
            shown = [Object(view.id, scalar(view.x), view.y, view.created) for view in board.list_of(slot)]
            assert shown == top(after, l, r, k), (l, r)


@pytest.mark.parametrize("algorithm", ["dense", "sparse"])
def test_the_counterexamples_to_the_papers_steps(algorithm: Any) -> None:
    """The list is that of the definition, and nothing is sent twice.

    With k = 2, a: 1, b: 5 and the batch a -> 8, b -> 9, d: new at 3 the list is {d, a}. If e is promoted from 12 to 5
    and c is demoted to 15, a, which is still there, is not sent again.
    """
    board = made([("a", 1.0, 1.0), ("b", 2.0, 5.0)], algorithm, "range-tree", (2,), [(0.0, 9.0)])
    before, after, plan = bring(board, [(UPSERT, "a", 1.0, 8.0), (UPSERT, "b", 2.0, 9.0), (UPSERT, "d", 3.0, 3.0)])
    mine, _ = hear(top(before, 0.0, 9.0, 2), plain(plan, 2), 0.0, 9.0, 2)
    assert [item.id for item in mine] == ["d", "a"]
    board = made([("c", 1.0, 0.0), ("a", 2.0, 8.0), ("e", 3.0, 12.0)], algorithm, "range-tree", (2,), [(0.0, 9.0)])
    before, after, plan = bring(board, [(UPSERT, "e", 3.0, 5.0), (UPSERT, "c", 1.0, 15.0)])
    mine, heard = hear(top(before, 0.0, 9.0, 2), plain(plan, 2), 0.0, 9.0, 2)
    assert mine == top(after, 0.0, 9.0, 2)
    assert "a" not in heard


@pytest.mark.parametrize("index", ["range-tree", "kd-tree"])
@pytest.mark.parametrize("what", ["some", "several", "most", "east", "arrivals"])
def test_batches_on_thousands_of_objects_follow_the_rule(what: str, index: Any) -> None:
    """Lists reach over many words of the places' sets, over stretches that one of both moments leaves empty, too."""
    rng = np.random.default_rng(len(what))
    n = 1300
    start = [(f"o{i}", float(x), float(y)) for i, (x, y) in enumerate(rng.integers(0, 2000, (n, 2)))]
    board = made(start, "dense", index, (1, 8), [])
    share = {"some": 0.03, "several": 0.15, "most": 0.9, "east": 0.02, "arrivals": 0.02}[what]
    changes: list[Any] = []
    for key, x, y in start:
        if what == "east" and x > 900:
            changes.append((DELETE, key, x, y))
        elif rng.random() < share:
            moves = rng.random() < 0.2
            changes.append((UPSERT, key, float(rng.integers(2000)) if moves else x, float(rng.integers(2000))))
    if what == "arrivals":
        changes += [(UPSERT, f"n{i}", float(x), float(y)) for i, (x, y) in enumerate(rng.integers(0, 2000, (n, 2)))]
    rng.shuffle(changes)
    before = everything(board)
    plan, _ = board.apply(events(changes, True), keep_tiles=10**7)
    after = everything(board)
    for k in (1, 8):
        tiles = plain(plan, k)
        for width in (3, 30, 300, 2000):
            l = float(rng.integers(0, 2000 - width)) if width < 2000 else -INF
            r = l + width if width < 2000 else INF
            mine, heard = hear(top(before, l, r, k), tiles, l, r, k)
            assert mine == top(after, l, r, k), (l, r, k)
            assert sorted(heard) == sorted(id for id, _, _ in told_by_rule(before, after, l, r, k)), (l, r, k)


@pytest.mark.parametrize("moved", [False, True])
def test_a_batch_that_might_be_crowded_and_is_not_follows_the_rule(
    moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its difference is computed to choose the way, and then painted change by change."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        start = [(f"o{i}", float(x), float(y)) for i, (x, y) in enumerate(rng.integers(0, 40, (20, 2)))]
        board = made(start, "dense", "range-tree", (3,), [])
        some = [start[i] for i in rng.permutation(20)[:10]]
        changes = [(UPSERT, key, x + 1.0 if moved and i == 0 else x, y - 5.0 + i) for i, (key, x, y) in enumerate(some)]
        monkeypatch.setattr(batch, "CROWDED", 8.5 / 20**batch.FURTHER)
        before, after, plan = bring(board, changes)
        assert plan._batch._sweep is None
        check(before, after, plain(plan, 3), every_range(before + after), 3)


@pytest.mark.parametrize("values", [3, 1000, 10**9])
def test_ranks_are_gone_through_from_the_worst_on_however_many_are_alike(values: int) -> None:
    rng = np.random.default_rng(values)
    n = 2000
    y0, y1 = (np.where(rng.random(n) < 0.1, INF, rng.integers(-values, values, n) / 7.0) for _ in range(2))
    y0[:2], y1[2:4] = -0.0, 0.0
    c, kind = rng.permutation(n), rng.integers(0, 3, n).astype(np.uint8)
    y1 = np.where(kind == batch_rank_sweep.UNCHANGED, y0, y1)
    ranks = [(y, c[p], whose, 4 * p + whose) for p in range(n) for y, whose in steps_of(kind[p], y0[p], y1[p])]
    columns: dict[str, Any] = {name: np.empty(0) for name in batch_rank_sweep.RankSweep._fields}
    places = batch_rank_sweep.RankSweep(
        **columns | {"y0": y0, "y1": y1, "c": c, "step": np.array([rank[3] for rank in ranks])}
    )
    found = batch_rank_sweep.worst_first(places, np.array([rank[0] for rank in ranks]))
    assert found.tolist() == [rank[3] for rank in sorted(ranks, reverse=True)]


def steps_of(kind: int, y0: float, y1: float) -> list[tuple[float, int]]:
    """The finite ranks of a place and whose they are."""
    ways = (
        [(y0, batch_rank_sweep.SAME)]
        if kind == batch_rank_sweep.UNCHANGED
        else [(y0, batch_rank_sweep.BEFORE), (y1, batch_rank_sweep.AFTER)]
    )
    return [(y, whose) for y, whose in ways if y < INF]


def test_a_batch_cut_into_pieces_shows_nothing_before_it_is_done() -> None:
    rng = np.random.default_rng(3)
    n = 400
    board = BoardEngine(BoardConfig(("x",), "y", "asc", (3,)))
    ids = [f"o{i}" for i in range(n)]
    board.apply(Events(np.zeros(n, np.uint8), ids, rng.random(n), rng.random(n)))
    board.apply(SetSubscription("s", between(0.2, 0.7), 3))
    live = board.watch("s")
    twin = BoardEngine(board.config)
    x, y = map(np.array, columns(board))
    twin.apply(Events(np.zeros(n, np.uint8), ids, x, y))
    before, seq = board.list_of(live), board.seq
    changes = Events(np.zeros(n, np.uint8), ids, rng.random(n), rng.random(n), batch=True)
    plan = board.prepare(changes, keep_tiles=10**6)
    assert isinstance(plan, BatchPlan) and plan.alone
    pieces = 0
    while not plan.done:
        plan.execute(0.0)
        heard = plan.publish()
        pieces += 1
        if not plan.done:
            assert heard is None and board.seq == seq and board.list_of(live) == before
            assert [view.x for view in board.top(everywhere(1), 3)] == [view.x for view in twin.top(everywhere(1), 3)]
    assert pieces > 100
    board.check()
    twin.apply(SetSubscription("s", between(0.2, 0.7), 3))
    whole = applied(twin, changes, 10**6)
    assert whole.tiles == plan.tiles and whole.tile_count == plan.tile_count > 0
    counted = applied(BoardEngine(board.config), changes)
    assert counted.tile_count == 0


def columns(board: BoardEngine) -> tuple[list[float], list[float]]:
    views = sorted(board.objects(None, 1000), key=lambda view: view.created)
    return [scalar(view.x) for view in views], [view.y for view in views]


def test_a_batch_with_more_tiles_than_the_buffer_holds() -> None:
    rng = np.random.default_rng(5)
    n = 3000
    board = BoardEngine(BoardConfig(("x",), "y", "asc", (8,), "dense"))
    ids = [f"o{i}" for i in range(n)]
    board.apply(Events(np.zeros(n, np.uint8), ids, rng.random(n), rng.random(n)))
    changes = Events(np.zeros(n, np.uint8), ids, np.full(n, np.nan), rng.random(n), batch=True)
    plan = applied(board, changes, 10**6)
    assert plan.tile_count == len(plan.tiles) > 4096
    board.check()
    again = applied(board, changes, 10**6)
    assert again.tile_count == 0


def test_payloads_alone_are_told_once_and_only_if_they_end_otherwise() -> None:
    board = made([("a", 1.0, 1.0), ("b", 2.0, 2.0)], "sparse", "range-tree", (1,), [(0.0, 9.0)])
    nan = np.full(3, np.nan)
    ops = np.zeros(3, np.uint8)
    plan = applied(board, Events(ops, ["a", "a", "a"], nan, nan, {0: b"1", 1: b"2", 2: None}, batch=True), 10)
    assert plan.tile_count == 0 and plan.count == 3
    plan = applied(board, Events(ops, ["a", "a", "b"], nan, nan, {0: b"1", 1: b"2", 2: b"3"}, batch=True), 10)
    assert [(tile.object.id, tile.object.payload) for _, tile in plan.tiles] == [("a", b"2")]


def test_what_moved_away_counts_for_nothing_at_its_old_place() -> None:
    """b leaves the range and becomes better than a, which enters: no deletion of b is sent, since a displaces it."""
    board = made([("b", 1.0, 1.0)], "sparse", "range-tree", (1,), [(0.5, INF)])
    live = board.watch("s0:1")
    _, heard = board.apply(events([(UPSERT, "a", 1.0, 0.0), (UPSERT, "b", 0.0, 0.0)], True))
    assert [view.id for view in board.list_of(live)] == ["a"]
    told = [
        (entry.id, entry.old_rank, entry.new_rank) for part in heard for one in part.changes for entry in one.entries
    ]
    assert sorted(told) == [("a", None, 1), ("b", 1, None)]


@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
def test_what_moves_away_from_an_object_beside_it_exposes_it(algorithm: Any) -> None:
    ranges = [(0.5, 1.0), (0.0, 1.0), (1.0, 1.0)]
    board = made([("a", 1.0, 1.0), ("b", 1.0, 0.0)], algorithm, "range-tree", (1,), ranges)
    before, after, plan = bring(board, [(UPSERT, "b", 0.0, 0.0)])
    check(before, after, plain(plan, 1), ranges, 1)
