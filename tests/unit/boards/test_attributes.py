"""The engine with several range attributes against brute force.

Events and edits of subscriptions of every shape, lists checked after each, and the same board again from its log and
from its state.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from math import nan
from tempfile import TemporaryDirectory
from typing import Any, cast

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from formats.board_commands import decode, encode
from formats.boards import read_state, write_state
from formats.folder import Folder
from indexes.boards.commands import (
    DELETE,
    UPDATE,
    UPSERT,
    AddSubscriptions,
    Command,
    Configure,
    DeleteSubscriptions,
    Events,
    SetSubscription,
)
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import Region, Regions, everywhere
from indexes.boards.state import board_of, state_of
from indexes.boards.verification import verify
from indexes.core.commands import Refused
from tests.oracles.regions import INF, Ask, Thing, TileSubscriber, Where, World, reaches
from tests.unit.boards.helpers import captured, same_columns
from tests.unit.boards.regions import at, regions

KEYS = [f"o{i}" for i in range(10)]
ASKS = [f"s{i}" for i in range(9)]
ys = st.integers(-2, 3).map(float)
payloads = st.sampled_from([(), (), b"1", None])


def region(where: Where) -> Region:
    return Region(where.shape, where.sides)


def changes(rows: list[tuple[int, str, tuple[float | None, ...], float | None, Any]], **more: Any) -> Events:
    x = np.array([[nan if value is None else value for value in place] for _, _, place, _, _ in rows])
    y = np.array([nan if row[3] is None else row[3] for row in rows])
    payload = {i: row[4] for i, row in enumerate(rows) if row[4] != ()}
    return Events(np.array([row[0] for row in rows], np.uint8), [row[1] for row in rows], x, y, payload, **more)


def shown(views: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(view) for view in views]


class Engine(RuleBasedStateMachine):
    """One board, the truth beside it, subscribers on tiles and live lists on changes."""

    d = 2

    @initialize(order=st.sampled_from(["asc", "desc"]), ks=st.sampled_from([(1,), (2,), (1, 3), (2, 30)]))
    def start(self, order: Any, ks: tuple[int, ...]) -> None:
        self.config = BoardConfig(tuple(f"x{i}" for i in range(self.d)), "y", order, ks)
        self.board = BoardEngine(self.config)
        self.world = World(order)
        self.subscribers: dict[str, TileSubscriber] = {}
        self.live: dict[str, int] = {}
        self.heard: dict[int, list[tuple[Any, ...]]] = {}
        self.offset: dict[int, int] = {}
        self.logged: list[Any] = []

    def run(self, command: Any) -> Any:
        plan, slices = self.board.apply(command, keep_tiles=10**6)
        if plan.count:
            self.logged.append([(part.name, part.payload) for part in encode(plan.command, plan.count)])
        self.parts = slices
        for part in slices:
            for change in part.changes:
                self.follow(change)
            for _, live in part.gone:
                self.live = {key: slot for key, slot in self.live.items() if slot != live}
        return plan

    def follow(self, change: Any) -> None:
        """The wire's rule for a change."""
        was = self.heard[change.live]
        before = {item[0]: (rank, item) for rank, item in enumerate(was, self.offset[change.live] + 1)}
        names = {entry.id for entry in change.entries}
        now = [item for item in self.heard[change.live] if item[0] not in names]
        for entry in change.entries:
            assert (entry.old_rank, entry.old and tuple(entry.old)) == before.get(entry.id, (None, None))
        offset = self.offset[change.live] = self.board.offset_of(change.live)
        for entry in sorted((e for e in change.entries if e.new_rank), key=lambda e: e.new_rank):
            now.insert(entry.new_rank - 1 - offset, tuple(entry.object))
        self.heard[change.live] = now

    def event(self, op: int, key: str, x: tuple[float | None, ...], y: float | None, payload: Any = ()) -> None:
        world = self.world
        old = {ask: world.deep(ask) for ask in world.asks}
        before = replace(world.things[key]) if key in world.things else None
        plan = self.run(changes([(op, key, x, y, payload)]))
        if op == DELETE:
            del world.things[key]
        else:
            world.upsert(key, x, y)
            if payload != ():
                world.things[key].payload = payload
        tiles = [tile for _, tile in plan.tiles]
        assert plan.tile_count == len(tiles)
        reached: Counter[tuple[str, str, bool]] = Counter()
        for tile in tiles:
            takers = [ask for ask, sub in self.subscribers.items() if reaches(tile, sub.ask)]
            assert takers, "a tile reaches no one"
            for ask in takers:
                reached[ask, tile.object.id, tile.gone] += 1
                self.subscribers[ask].apply(tile)
        assert all(n == 1 for n in reached.values()), "an object was told twice"
        if op != DELETE and before == world.things[key]:
            assert not tiles, "an event that changes nothing was told"
        for ask in {ask for ask, _, _ in reached}:
            if old[ask] == world.deep(ask):
                moved = before is not None and op != DELETE and before.x != world.things[key].x
                assert moved or payload != (), f"{ask} is not affected and heard of it"

    @rule(data=st.data(), key=st.sampled_from(KEYS), y=ys, payload=payloads)
    def upsert(self, data: Any, key: str, y: float, payload: Any) -> None:
        self.event(UPSERT, key, tuple(data.draw(st.tuples(*[at] * self.d))), y, payload)

    @rule(data=st.data(), y=st.none() | ys, payload=payloads)
    def update(self, data: Any, y: float | None, payload: Any) -> None:
        if self.world.things:
            key = data.draw(st.sampled_from(sorted(self.world.things)))
            self.event(UPDATE, key, data.draw(st.tuples(*[st.none() | at] * self.d)), y, payload)

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        if self.world.things:
            self.event(DELETE, data.draw(st.sampled_from(sorted(self.world.things))), (None,) * self.d, None)

    @rule(data=st.data(), batch=st.booleans())
    def many(self, data: Any, batch: bool) -> None:
        """Many events in one command: the same as one after the other; a batch tells of it once."""
        rows: list[Any] = []
        there = set(self.world.things)
        for key in data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)):
            if key in there and data.draw(st.booleans()):
                there.discard(key)
                rows.append((DELETE, key, (None,) * self.d, None, ()))
            else:
                there.add(key)
                rows.append((UPSERT, key, data.draw(st.tuples(*[at] * self.d)), data.draw(ys), ()))
        before = {live: list(heard) for live, heard in self.heard.items()}
        plan = self.run(changes(rows, batch=batch))
        for op, key, x, y, _ in rows:
            if op == DELETE:
                del self.world.things[key]
            else:
                self.world.upsert(key, x, y)
        if batch:
            told = [change for part in self.parts for change in part.changes]
            assert all(change.seq == self.board.seq for change in told)
            lives = [change.live for change in told]
            assert sorted(lives) == [
                live for live in sorted(set(self.live.values())) if before[live] != self.heard[live]
            ]
        for _, tile in plan.tiles:
            for sub in self.subscribers.values():
                if reaches(tile, sub.ask):
                    sub.apply(tile)

    @rule(data=st.data(), key=st.sampled_from(ASKS))
    def put_subscription(self, data: Any, key: str) -> None:
        ask = Ask(data.draw(regions(self.d)), *self.window(data))
        self.run(SetSubscription(key, region(ask.where), ask.k, offset=ask.offset))
        self.world.asks[key] = ask
        self.subscribers[key] = TileSubscriber(self.world, ask)

    def window(self, data: Any) -> tuple[int, int]:
        """A k and an offset whose sum is on offer."""
        depth = data.draw(st.sampled_from(self.board.config.ks))
        offset = data.draw(st.just(0) | st.integers(0, min(depth, 4) - 1))
        return depth - offset, offset

    @rule(data=st.data(), key=st.sampled_from(ASKS), whole=st.booleans())
    def patch_subscription(self, data: Any, key: str, whole: bool) -> None:
        """Sides that are left out stay; of a box they are unbounded where there was another shape."""
        ask = self.world.asks.get(key)
        if ask is None:
            return
        given = data.draw(regions(self.d))
        n = 2 * self.d if given.shape == "box" else 1
        left = data.draw(st.lists(st.integers(0, len(given.sides) // n - 1), max_size=2))
        holes = {i * n + j if given.shape != "box" else 2 * (i % self.d) + j for i in left for j in range(n) if j < 2}
        sides = tuple(nan if i in holes else side for i, side in enumerate(given.sides))
        if given.shape == ask.where.shape:
            old = ask.where.sides
        else:
            old = (-INF, INF) * self.d
        window = self.window(data) if whole else (ask.k, ask.offset)
        command = SetSubscription(key, Region(given.shape, sides), *(window[:1] if whole else ()))
        command.offset = window[1] if whole else None
        if holes and given.shape != ask.where.shape and given.shape != "box":
            with pytest.raises(Refused):
                self.board.apply(command)
            return
        where = Where(given.shape, tuple(old[i] if i in holes else side for i, side in enumerate(given.sides)))
        if region(where).fault is not None:
            with pytest.raises(Refused):
                self.board.apply(command)
            return
        self.run(command)
        self.world.asks[key] = Ask(where, *window)
        self.subscribers[key] = TileSubscriber(self.world, self.world.asks[key])

    @rule(data=st.data())
    def subscribe_many(self, data: Any) -> None:
        free = [key for key in ASKS if key not in self.world.asks]
        if not free:
            return
        keys = data.draw(st.lists(st.sampled_from(free), unique=True, min_size=1))
        asks = [Ask(data.draw(regions(self.d)), *self.window(data)) for _ in keys]
        columns = Regions.of([region(ask.where) for ask in asks], self.d)
        k, offset = (np.array([getattr(ask, name) for ask in asks], np.int32) for name in ("k", "offset"))
        self.run(AddSubscriptions(pa.array(keys), columns, k, offset=offset))
        for key, ask in zip(keys, asks, strict=True):
            self.world.asks[key] = ask
            self.subscribers[key] = TileSubscriber(self.world, ask)

    @rule(key=st.sampled_from(ASKS))
    def unsubscribe(self, key: str) -> None:
        self.run(DeleteSubscriptions([key]))
        self.world.asks.pop(key, None)
        self.subscribers.pop(key, None)

    @rule(key=st.sampled_from(ASKS), tiles=st.booleans())
    def watch(self, key: str, tiles: bool) -> None:
        if key in self.world.asks and key not in self.live:
            live = self.live[key] = self.board.watch(key)
            self.board.want_tiles(live, tiles)
            self.heard[live] = shown(self.board.list_of(live, self.world.asks[key].offset))
            self.offset[live] = self.world.asks[key].offset

    @rule(key=st.sampled_from(ASKS))
    def unwatch(self, key: str) -> None:
        if key in self.live:
            self.board.unwatch(self.live.pop(key))

    @rule(more=st.sampled_from([2, 4]))
    def configure(self, more: int) -> None:
        self.run(Configure(tuple(sorted({*(ask.depth for ask in self.world.asks.values()), more}))))

    @rule()
    def come_back(self) -> None:
        """A board of the state on disk goes on as this one."""
        state = state_of(captured(self.board))
        with TemporaryDirectory() as made:
            folder = Folder.at(made) / "s"
            draft = folder.draft()
            about = write_state(draft, "b", state)
            draft.publish({"about": about})
            found = read_state(folder, "b", folder.verify()["about"])
        same_columns(found, state)
        self.board = board_of(found)
        self.live, self.heard = {}, {}

    @precondition(lambda self: hasattr(self, "board"))
    @invariant()
    def lists_are_exact(self) -> None:
        self.board.check()
        for key, ask in self.world.asks.items():
            truth = self.world.shown(key)
            assert shown(self.board.top(region(ask.where), ask.k, ask.offset)) == truth
            assert self.subscribers[key].shown() == truth
            if key in self.live:
                assert shown(self.board.list_of(self.live[key], ask.offset)) == truth
                assert self.heard[self.live[key]] == truth
        objects = [Thing(*cast("tuple[Any, ...]", view)) for view in self.board.objects(None, 100)]
        assert objects == sorted(self.world.things.values(), key=lambda t: t.id)
        views = self.board.subscriptions(None, 100)
        assert {view.id: (view.region, view.k, view.offset) for view in views} == {
            key: (region(ask.where), ask.k, ask.offset) for key, ask in self.world.asks.items()
        }

    def teardown(self) -> None:
        """Replaying the log gives the same state, rows and creation numbers included; and verification finds it so."""
        if not hasattr(self, "board"):
            return
        assert not [found for checked in verify(captured(self.board, indexes=True)) for found in checked.differences]
        again = BoardEngine(self.config)
        for parts in self.logged:
            again.replay(cast("Command", decode(parts)))
        again.check()
        same_columns(state_of(captured(again)), state_of(captured(self.board)))


class Engine3(Engine):
    d = 3


class Engine4(Engine):
    d = 4


effort = settings(
    max_examples=int(os.environ.get("RANKCAST_EXAMPLES", "20")),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
TestTwo = Engine.TestCase
TestTwo.settings = effort
TestThree = Engine3.TestCase
TestThree.settings = effort
TestFour = Engine4.TestCase
TestFour.settings = effort


def test_verification_finds_what_is_wrong_with_regions_and_lists() -> None:
    board = BoardEngine(BoardConfig(("a", "b"), "y", ks=(2,)))
    board.apply(changes([(UPSERT, f"o{i}", (float(i), 0.0), float(i), ()) for i in range(6)]))
    board.apply(SetSubscription("disc", Region("disc", (2.0, 0.0, 1.0)), 2))
    board.apply(SetSubscription("all", everywhere(2), 2))
    whole = captured(board, indexes=True)
    assert not any(one.wrong for one in verify(whole))
    whole.regions.sides[2, board.subscribers.ids.find("disc")] = 1.5
    found = [difference for checked in verify(whole) for difference in checked.differences]
    assert [(one.kind, one.id, one.expected) for one in found] == [("subscription", "disc", "disc [2.0, 0.0, 1.5] k 2")]
    other = captured(board, indexes=True)
    other.y[:] = -other.y
    found = [difference for checked in verify(other) for difference in checked.differences if difference.kind == "list"]
    assert [(one.id, one.expected, one.found) for one in found] == [
        ("disc", ["o3", "o2"], ["o1", "o2"]),
        ("all", ["o5", "o4"], ["o0", "o1"]),
    ]


def test_a_batch_in_pieces_is_seen_at_once_and_by_whoever_came_meanwhile() -> None:
    board = BoardEngine(BoardConfig(("a", "b"), "y", ks=(2,)))
    board.apply(SetSubscription("all", everywhere(2), 2))
    board.apply(SetSubscription("disc", Region("disc", (0.0, 0.0, 2.0)), 2))
    board.apply(changes([(UPSERT, "o0", (0.0, 0.0), 9.0, ())]))
    plan = board.prepare(changes([(UPSERT, f"o{i}", (float(i), 0.0), 5.0 - i, ()) for i in range(5)], batch=True))
    first = board.watch("all")
    late = None
    heard = None
    while not plan.done:
        plan.execute(0.0)
        heard = plan.publish()
        if not plan.done:
            assert (heard, board.seq, [view.id for view in board.objects(None, 9)]) == (None, 3, ["o0"])
            if late is None:
                late = board.watch("disc")
                board.want_tiles(late, True)
    board.check()
    assert heard is not None and late is not None
    entries = {change.live: [(e.id, e.old_rank, e.new_rank) for e in change.entries] for change in heard.changes}
    assert entries == {
        first: [("o0", 1, None), ("o4", None, 1), ("o3", None, 2)],
        late: [("o0", 1, None), ("o2", None, 1), ("o1", None, 2)],
    }
    assert [part.live for part in heard.tiles] == [late] and not heard.moved
    assert {change.seq for change in heard.changes} == {part.seq for part in heard.tiles} == {8}


def test_who_comes_while_a_batch_that_nobody_hears_is_painted_starts_anew() -> None:
    board = BoardEngine(BoardConfig(("a", "b"), "y", ks=(2,)))
    board.apply(SetSubscription("all", everywhere(2), 2))
    plan = board.prepare(changes([(UPSERT, f"o{i}", (float(i), 0.0), 5.0 - i, ()) for i in range(5)], batch=True))
    plan.execute(0.0)
    assert plan.publish() is None
    late = board.watch("all")
    board.want_tiles(late, True)
    heard = None
    while not plan.done:
        plan.execute(0.0)
        heard = plan.publish()
    board.check()
    assert heard is not None
    assert heard.moved == [(6, late)] and not heard.tiles
    assert [entry.id for change in heard.changes for entry in change.entries] == ["o4", "o3"]


def test_a_new_object_needs_every_attribute_and_later_ones_merge() -> None:
    board = BoardEngine(BoardConfig(("a", "b", "c"), "y", ks=(1,)))
    with pytest.raises(Refused) as refused:
        board.apply(changes([(UPSERT, "o", (1.0, None, None), None, ())]))
    assert [fault.field for fault in refused.value.faults] == ["values.b", "values.c", "values.y"]
    board.apply(changes([(UPSERT, "o", (1.0, 2.0, 3.0), 4.0, ())]))
    board.apply(changes([(UPDATE, "o", (None, 5.0, None), None, ())]))
    assert shown(board.objects(None, 9)) == [("o", (1.0, 5.0, 3.0), 4.0, 0, None)]


def test_a_board_that_was_just_made_takes_no_events_at_all_as_well() -> None:
    board = BoardEngine(BoardConfig(("a", "b"), "y", ks=(1,)))
    ahead = board.prepare(changes([(UPSERT, "o", (1.0, 2.0), 4.0, ())]))
    none = board.prepare(Events(np.empty(0, np.uint8), [], np.empty((0, 2)), np.empty(0)))
    assert none.done and not ahead.done
