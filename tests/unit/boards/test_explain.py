"""What an event is said to do beforehand is what it then does, and saying it leaves no trace."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from indexes.boards.commands import DELETE, UPDATE, UPSERT, AddSubscriptions, Configure, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.kernels.scratch import MERGE, MIN_Y, REFRESH, SNAP, make_scratch
from indexes.boards.plans import explain
from indexes.boards.plans.explain import Explanation
from indexes.boards.regions import ranges
from indexes.boards.results import TileView
from indexes.core.commands import Refused
from tests.oracles.painting import every_range
from tests.oracles.world import Ask, World, reaches
from tests.support.values import scalar
from tests.unit.boards.explained import foretold, sides_of, state
from tests.unit.boards.helpers import applied

INF = float("inf")
KEYS = [f"o{i:02}" for i in range(30)]
EFFORT = settings(max_examples=int(os.environ.get("RANKCAST_EXAMPLES", "80")), deadline=None)
xs = st.integers(0, 14).map(float)
ys = st.integers(-3, 6).map(float)
ends = st.one_of(st.integers(-1, 15).map(float), st.none())


def an_event(op: int, key: str, x: float | None, y: float | None, payload: Any = ()) -> Events:
    nan = float("nan")
    columns = np.array([nan if x is None else x]), np.array([nan if y is None else y])
    return Events(np.array([op], np.uint8), [key], *columns, {} if payload == () else {0: payload})


def tiles_of(explanation: Explanation) -> list[TileView]:
    """The tiles of an explanation as the event would send them: the gone half of a move, what it exposes, the other."""
    found: list[Any] = []
    for one in explanation.classes:
        exposed = [
            TileView(one.k, *sides_of(row), item.object, False)
            for item in one.exposed
            for row in item.tiles.sides.tolist()
        ]
        if explanation.kind == "move":
            gone = [tile for tile in one.tiles if tile.gone]
            found += [*gone, *exposed, *(tile for tile in one.tiles if not tile.gone)]
        else:
            found += [*one.tiles, *exposed]
    return found


def holds(strips: Any, l: float, r: float) -> bool:
    """Whether a range is in one of the strips, and in one only."""
    found = [
        (l_outer == -INF or l_outer < l) and l <= l_inner and r_inner <= r and (r < r_outer or r_outer == INF)
        for l_outer, l_inner, r_inner, r_outer in strips.sides.tolist()
    ]
    assert sum(found) <= 1
    return any(found)


@st.composite
def cases(draw: Any) -> tuple[BoardConfig, list[tuple[str, float, float]], list[Ask], list[tuple[Any, ...]]]:
    order = draw(st.sampled_from(["asc", "desc"]))
    algorithm, index = draw(st.sampled_from(["sparse", "dense"])), draw(st.sampled_from(["range-tree", "kd-tree"]))
    ks = draw(st.sampled_from([(1,), (2,), (3,), (1, 3), (2, 5), (1, 2, 40)]))
    least = draw(st.sampled_from([0, 0, 15]))
    things = [(key, draw(xs), draw(ys)) for key in draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=least))]
    asks = []
    for l, r in draw(st.lists(st.tuples(ends, ends), min_size=draw(st.sampled_from([0, 0, 40])), max_size=70)):
        low, high = (-INF if l is None else l), (INF if r is None else r)
        if low <= high:
            asks.append(Ask(low, high, draw(st.sampled_from(ks))))
    there = sorted(key for key, _, _ in things)
    events = []
    for _ in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from([UPSERT, UPSERT, UPDATE, DELETE] if there else [UPSERT]))
        key = draw(st.sampled_from(there if op != UPSERT else KEYS))
        payload = draw(st.sampled_from([(), (), b"1", None]))
        new = key not in there
        x = draw(xs if new else st.one_of(st.none(), xs))
        y = draw(ys if new else st.one_of(st.none(), ys))
        if op == DELETE:
            x, y, payload = None, None, ()
            there = [other for other in there if other != key]
        elif new:
            there = sorted([*there, key])
        events.append((op, key, x, y, payload))
    runs = draw(st.sampled_from([0, 0, 1, 2]))
    sketch = draw(st.sampled_from([None, None, 1, 3]))
    return BoardConfig(("x",), "y", order, ks, algorithm, index, runs, sketch), things, asks, events


def the_board(
    config: BoardConfig, things: list[tuple[str, float, float]], asks: list[Ask]
) -> tuple[BoardEngine, World]:
    board, world = BoardEngine(config), World(config.order)
    if things:
        keys, x, y = zip(*things, strict=True)
        board.apply(Events(np.full(len(keys), UPSERT, np.uint8), list(keys), np.array(x), np.array(y)))
        for key, at, value in things:
            world.upsert(key, at, value)
    if asks:
        l, r = np.array([ask.l for ask in asks]), np.array([ask.r for ask in asks])
        ids = [f"s{n:02}" for n in range(len(asks))]
        board.apply(AddSubscriptions(pa.array(ids), ranges(l, r), np.array([ask.k for ask in asks], np.int32)))
        world.asks = dict(zip(ids, asks, strict=True))
        for key in ids[::3]:
            board.watch(key)
    return board, world


def happen(world: World, op: int, key: str, x: float | None, y: float | None, payload: Any) -> None:
    if op == DELETE:
        del world.things[key]
        return
    world.upsert(key, x, y)
    if payload != ():
        world.things[key].payload = payload


def kind_of(world: World, op: int, key: str, x: float | None, y: float | None, payload: Any) -> str:
    thing = world.things.get(key)
    if thing is None:
        return "insertion"
    if op == DELETE:
        return "deletion"
    if x is not None and x != thing.x:
        return "move"
    if y is not None and y != thing.y:
        return "better" if world.sign * y < world.sign * thing.y else "worse"
    return "payload" if payload != () and payload != thing.payload else "nothing"


@EFFORT
@given(cases())
def test_an_event_does_what_was_said_and_saying_it_leaves_no_trace(case: Any) -> None:
    config, things, asks, events = case
    board, world = the_board(config, things, asks)
    twin, _ = the_board(config, things, asks)
    for event in events:
        op, key, *_ = event
        kind = kind_of(world, *event)
        old = {ask: world.shown(ask) for ask in world.asks}
        was = replace(world.things[key]) if key in world.things else None
        objects = [*world.things.values()]
        before = state(board)
        said = foretold(board, an_event(*event))
        assert state(board) == before
        board.check()

        plan = applied(board, an_event(*event), 10**6)
        done = [tile for _, tile in plan.tiles]
        # Another board counts as the paper does; this one takes a shorter way where few subscriptions are concerned.
        twin.painter.work = make_scratch(max(config.ks), 0, twin.painter.work.level)
        twin.apply(an_event(*event))
        counted = twin.painter.work.stats
        happen(world, *event)
        assert said.kind == kind and said.seq == plan.first_seq - 1
        assert (said.before is None) == (was is None) and (said.after is None) == (op == DELETE)
        for view, thing in ((said.before, was), (said.after, world.things.get(key))):
            if view is not None and thing is not None:
                assert tuple(view) == (thing.id, thing.x, thing.y, thing.created, thing.payload)

        assert [one.k for one in said.classes] == list(config.ks)
        assert said.tile_count == plan.tile_count == sum(one.tile_count for one in said.classes)
        assert not said.truncated
        foretold_tiles = tiles_of(said)
        for k in config.ks:
            assert [tile for tile in foretold_tiles if tile.k == k] == [tile for tile in done if tile.k == k]
        for name, of in (("min_y", MIN_Y), ("snaps", SNAP), ("merges", MERGE), ("refreshes", REFRESH)):
            assert sum(getattr(one.calls, name) for one in said.classes) == counted[of], name

        hit = {ask for ask in world.asks if old[ask] != world.shown(ask)}
        assert said.affected == len(hit)
        assert said.affected <= sum(one.reached for one in said.classes)
        assert config.runs or said.affected == sum(one.reached for one in said.classes)
        check_regions(said, world, objects, was)
        for one in said.classes:
            heard = {
                ask for ask, it in world.asks.items() if it.k == one.k and any(reaches(t, it) for t in foretold_tiles)
            }
            assert one.reached == len(heard)
            for item in one.exposed:
                mine = [t for t in foretold_tiles if t.object.id == item.object.id and not t.gone]
                told = [ask for ask, it in world.asks.items() if any(reaches(t, it) for t in mine)]
                assert item.object.id != key
                assert item.reached == len([ask for ask in told if world.asks[ask].k == one.k])


def check_regions(said: Any, world: World, objects: list[Any], was: Any) -> None:
    """A region holds the ranges that have the object among their best k, and no others.

    The nearest better objects bound it.
    """
    now: list[Any] = list(world.things.values())
    for near, present, thing in ((said.near_before, objects, was), (said.near_after, now, said.after)):
        assert (near is None) == (thing is None)
        if near is not None and thing is not None:
            key, most = (world.sign * thing.y, thing.created), max(one.k for one in said.classes)
            better = [other for other in present if other.id != thing.id and world.key(other) < key]
            # Which of those at its own x stand on which side does not matter; east are at least those beyond it.
            here = sum(other.x == thing.x for other in better)
            assert near.east.count(thing.x) + near.west.count(thing.x) == min(here, most) or here > most
            for side, mine in ((1, near.east), (-1, near.west)):
                beyond = sorted(side * other.x for other in better if side * other.x > side * thing.x)
                found = [side * x for x in mine]
                at_own = [x for x in found if x == side * thing.x]
                assert found == [*at_own, *beyond][:most]
    for one in said.classes:
        for strips, present, thing in ((one.before, objects, was), (one.after, now, said.after)):
            if thing is None:
                assert len(strips) == 0
                continue
            others = [other for other in present if other.id != thing.id]
            key = (world.sign * thing.y, thing.created)
            for l, r in every_range([*others, thing]):
                if l <= r:
                    better = [o for o in others if l <= o.x <= r and world.key(o) < key]
                    there = l <= thing.x <= r and len(better) < one.k
                    assert holds(strips, l, r) == there, (strips, l, r)


@EFFORT
@given(cases(), st.sampled_from(["sparse", "dense"]), st.sampled_from([0, 1, 2]))
def test_it_can_be_asked_as_if_the_board_were_painted_otherwise(case: Any, algorithm: Any, runs: int) -> None:
    config, things, asks, events = case
    board, _ = the_board(config, things, asks)
    said = foretold(board, an_event(*events[0]), dense=algorithm == "dense", runs=runs)
    board.apply(Configure(None, algorithm, runs))
    meant = foretold(board, an_event(*events[0]))
    assert [one.calls for one in said.classes] == [one.calls for one in meant.classes]
    assert (said.affected, tiles_of(said)) == (meant.affected, tiles_of(meant))
    plan = applied(board, an_event(*events[0]), 10**6)
    assert plan.tile_count == said.tile_count


@EFFORT
@given(cases(), st.integers(0, 6))
def test_tiles_beyond_the_limit_are_left_out_and_counted(case: Any, most: int) -> None:
    config, things, asks, events = case
    board, _ = the_board(config, things, asks)
    whole, cut = (foretold(board, an_event(*events[0]), keep) for keep in (10**6, most))
    assert cut.truncated == (whole.tile_count > most)
    assert [one.tile_count for one in cut.classes] == [one.tile_count for one in whole.classes]
    assert [one.reached for one in cut.classes] == [one.reached for one in whole.classes]
    assert len(tiles_of(cut)) == min(most, whole.tile_count)
    room = most
    for less, more in zip(cut.classes, whole.classes, strict=True):
        mine, all_of_them = (
            [*one.tiles, *(row.tolist() for item in one.exposed for row in item.tiles.sides)] for one in (less, more)
        )
        assert mine == all_of_them[:room]
        room -= len(mine)


@pytest.mark.parametrize(
    "command",
    [
        an_event(UPDATE, "nobody", 1.0, 1.0),
        an_event(DELETE, "nobody", None, None),
        an_event(UPSERT, "nobody", 1.0, None),
        an_event(UPSERT, "nobody", None, None),
    ],
)
def test_what_would_be_refused_is_refused_the_same_way(command: Events) -> None:
    board, _ = the_board(BoardConfig(("x",), "y", ks=(2,)), [("a", 1.0, 1.0)], [Ask(0.0, 5.0, 2)])
    before = state(board)
    with pytest.raises(Refused) as beforehand:
        board.explain(command)
    assert state(board) == before
    with pytest.raises(Refused) as then:
        board.apply(command)
    assert beforehand.value.faults == then.value.faults


def test_it_sees_what_was_accepted_before_it_and_nothing_after() -> None:
    """Plans wait in one queue: the event is explained for the board that it would meet there."""
    board, _ = the_board(BoardConfig(("x",), "y", ks=(1,)), [("a", 1.0, 1.0), ("b", 2.0, 5.0)], [Ask(0.0, 5.0, 1)])
    plans: list[Any] = [
        board.prepare(an_event(DELETE, "a", None, None)),
        board.explain(an_event(UPSERT, "c", 3.0, 2.0, b"1"), 100),
        board.prepare(an_event(UPSERT, "d", 3.0, 0.0)),
        board.explain(an_event(UPDATE, "d", None, 9.0), 100),
    ]
    with pytest.raises(Refused):
        board.explain(an_event(UPDATE, "a", None, 9.0))
    for plan in plans:
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
    board.check()
    first, second = plans[1].explanation, plans[3].explanation
    assert (first.kind, first.seq, first.after.created, first.affected) == ("insertion", plans[0].last_seq, 2, 1)
    assert len(first.classes[0].before) == 0
    assert first.classes[0].after.sides.tolist() == [[-INF, 3.0, 3.0, INF]]
    assert (second.kind, second.seq, second.affected) == ("worse", plans[2].last_seq, 1)
    assert [item.object.id for item in second.classes[0].exposed] == ["b"]


def test_a_class_that_is_no_longer_offered_is_left_out() -> None:
    board, _ = the_board(BoardConfig(("x",), "y", ks=(1, 3)), [("a", 1.0, 1.0)], [Ask(0.0, 5.0, 1)])
    board.apply(Configure((1, 7)))
    said = foretold(board, an_event(UPDATE, "a", None, 2.0))
    assert [(one.k, one.reached) for one in said.classes] == [(1, 1), (7, 0)]


def test_many_tiles_outgrow_the_first_buffer() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(60,), algorithm="dense"))
    n = 3_000
    rng = np.random.default_rng(3)
    board.apply(Events(np.full(n, UPSERT, np.uint8), [f"o{i}" for i in range(n)], rng.random(n), rng.random(n)))
    board.apply(an_event(UPSERT, "best", 0.5, -1.0))
    event = an_event(UPDATE, "best", None, 2.0)
    said = foretold(board, event)
    plan = applied(board, event, 10**6)
    assert said.tile_count == plan.tile_count > 4096
    assert tiles_of(said) == [tile for _, tile in plan.tiles]


@pytest.mark.parametrize("runs", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_history_goes_as_it_was_said(seed: int, runs: int) -> None:
    """Many ties and many subscriptions, where the same strips can be put together in more than one way."""
    rng = np.random.default_rng(seed)
    m, ks = 80, (2, 5)
    ends = np.sort(rng.integers(-1, 21, (m, 2)).astype(float), axis=1)
    ends[ends < 0], ends[ends > 19] = -INF, INF
    ends = ends[ends[:, 0] < INF]
    asks = [
        Ask(l, r if r > -INF else 0.0, int(k))
        for (l, r), k in zip(ends.tolist(), rng.choice([2, 5, 5, 5], m), strict=False)
    ]
    board, _ = the_board(BoardConfig(("x",), "y", "desc", ks, "sparse", "range-tree", runs), [], asks)
    for _ in range(60):
        key = f"o{rng.integers(40)}"
        present = board.object(key)
        x = scalar(present.x) if present is not None and rng.random() < 0.5 else float(rng.integers(20))
        event = an_event(UPSERT, key, x, float(rng.integers(8)))
        said = foretold(board, event)
        plan = applied(board, event, 10**6)
        done = [tile for _, tile in plan.tiles]
        for k in ks:
            assert [tile for tile in tiles_of(said) if tile.k == k] == [tile for tile in done if tile.k == k]


def test_a_question_that_fails_leaves_the_board_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of memory, say, in the middle of painting."""
    board, _ = the_board(BoardConfig(("x",), "y", ks=(1, 2)), [("a", 1.0, 1.0)], [Ask(0.0, 5.0, 1)])
    before = state(board)
    asked = 0

    def fails(*_: Any) -> int:
        nonlocal asked
        asked += 1
        raise MemoryError

    monkeypatch.setattr(explain, "reach", fails)
    plan = board.explain(an_event(UPSERT, "b", 2.0, 0.0), 100)
    plan.execute(1.0)
    assert plan.publish() is None
    assert plan.done and plan.explanation is None and isinstance(plan.failure, MemoryError) and asked == 1
    assert state(board) == before
    board.check()
    board.apply(an_event(UPSERT, "b", 2.0, 0.0))
    board.check()
