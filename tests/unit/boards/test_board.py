"""The engine against brute force: random worlds full of ties, commands of every kind, lists checked after each."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any, cast

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from formats.board_commands import decode, encode
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
from indexes.boards.regions import between, ranges
from indexes.core.commands import Refused
from tests.oracles.world import Ask, Thing, TileSubscriber, World, reaches
from tests.support.values import between as ordered

INF = float("inf")
KEYS = [f"o{i}" for i in range(12)]
ASKS = [f"s{i}" for i in range(10)]
xs = st.integers(0, 9).map(float)
ys = st.integers(-3, 4).map(float)
ends = st.one_of(st.integers(-1, 10).map(float), st.none())


def one_event(op: int, key: str, x: float | None, y: float | None, payload: Any = ()) -> Events:
    nan = float("nan")
    columns = np.array([nan if x is None else x]), np.array([nan if y is None else y])
    return Events(np.array([op], np.uint8), [key], *columns, {} if payload == () else {0: payload})


def shown(views: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(view) for view in views]


class Engine(RuleBasedStateMachine):
    """One board, the truth beside it, subscribers on tiles and live lists on changes."""

    index = "range-tree"

    @initialize(
        order=st.sampled_from(["asc", "desc"]),
        algorithm=st.sampled_from(["sparse", "dense"]),
        ks=st.sampled_from([(1,), (2,), (3,), (1, 3), (2, 5), (40,)]),
        runs=st.sampled_from([0, 0, 1, 2]),
        sketch=st.sampled_from([None, None, 1, 4]),
    )
    def start(self, order: str, algorithm: str, ks: tuple[int, ...], runs: int, sketch: Any) -> None:
        self.config = BoardConfig(("x",), "y", order, ks, algorithm, self.index, runs, sketch)  # type: ignore[arg-type]
        self.board = BoardEngine(self.config)
        self.world = World(order)
        self.subscribers: dict[str, TileSubscriber] = {}
        self.live: dict[str, int] = {}
        self.heard: dict[int, list[tuple[Any, ...]]] = {}
        self.offset: dict[int, int] = {}
        self.logged: list[Any] = []

    def run(self, command: Any, changes: dict[int, int] | None = None) -> Any:
        plan, slices = self.board.apply(command, keep_tiles=10**6)
        if plan.count:
            self.logged.append([(part.name, part.payload) for part in encode(plan.command, plan.count)])
        for part in slices:
            for change in part.changes:
                self.follow(change)
                if changes is not None:
                    changes[change.live] += 1
            for seq, live in part.gone:
                assert seq <= self.board.seq
                self.live = {key: slot for key, slot in self.live.items() if slot != live}
        return plan

    def follow(self, change: Any) -> None:
        """The wire's rule for a change.

        Take out every listed object, put in those with a new rank, in order; their places are their ranks behind the
        offset.
        """
        names = {entry.id for entry in change.entries}
        now = [item for item in self.heard[change.live] if item[0] not in names]
        old, new = self.offset[change.live], self.board.offset_of(change.live)
        before = {item[0]: (rank, item) for rank, item in enumerate(self.heard[change.live], old + 1)}
        for entry in change.entries:
            rank, item = before.get(entry.id, (None, None))
            assert (entry.old_rank, entry.old and tuple(entry.old)) == (rank, item)
            assert entry.new_rank is None or tuple(entry.object) != item, "an object that only shifts is listed"
        for entry in sorted((e for e in change.entries if e.new_rank), key=lambda e: e.new_rank):
            assert 0 < entry.new_rank - new <= len(now) + 1
            now.insert(entry.new_rank - new - 1, tuple(entry.object))
        self.heard[change.live] = now
        self.offset[change.live] = new

    def event(self, op: int, key: str, x: float | None, y: float | None, payload: Any) -> None:
        world = self.world
        old = {ask: world.whole(ask) for ask in world.asks}
        before = replace(world.things[key]) if key in world.things else None
        plan = self.run(one_event(op, key, x, y, payload))
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
            config = self.board.config
            assert takers or config.algorithm == "dense" or config.sketch, "a tile of Paint-Sparse reaches no one"
            for ask in takers:
                reached[ask, tile.object.id, tile.gone] += 1
                self.subscribers[ask].apply(tile)
        assert all(n == 1 for n in reached.values()), "an object was told twice"
        if op != DELETE and before == world.things[key]:
            assert not tiles, "an event that changes nothing was told"
        hit = {ask for ask, _, _ in reached}
        for ask in world.asks:
            moved_within = x is not None and op != DELETE
            if old[ask] == world.whole(ask) and ask in hit:
                spare = moved_within or payload != () or self.board.config.runs
                assert spare, f"{ask} is not affected and heard of it"

    @rule(key=st.sampled_from(KEYS), x=xs, y=ys, payload=st.sampled_from([(), (), b"1", None]))
    def upsert(self, key: str, x: float, y: float, payload: Any) -> None:
        self.event(UPSERT, key, x, y, payload)

    @rule(
        data=st.data(),
        x=st.one_of(st.none(), xs),
        y=st.one_of(st.none(), ys),
        payload=st.sampled_from([(), b"2", None]),
    )
    def update(self, data: Any, x: float | None, y: float | None, payload: Any) -> None:
        if self.world.things:
            self.event(UPDATE, data.draw(st.sampled_from(sorted(self.world.things))), x, y, payload)

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        if self.world.things:
            self.event(DELETE, data.draw(st.sampled_from(sorted(self.world.things))), None, None, ())

    @rule(data=st.data())
    def batch(self, data: Any) -> None:
        """Many events in one command, told one after the other or together."""
        together = data.draw(st.booleans())
        n = data.draw(st.integers(1, 8))
        keys = data.draw(st.lists(st.sampled_from(KEYS), min_size=n, max_size=n))
        ops, x, y = [], [], []
        there = set(self.world.things)
        for key in keys:
            op = data.draw(st.sampled_from([UPSERT, UPSERT, DELETE])) if key in there else UPSERT
            there = there - {key} if op == DELETE else there | {key}
            ops.append(op)
            x.append(data.draw(xs))
            y.append(data.draw(ys))
        changes = dict.fromkeys(self.live.values(), 0)
        command = Events(np.array(ops, np.uint8), keys, np.array(x), np.array(y), batch=together)
        plan = self.run(command, changes)
        assert not together or set(changes.values()) <= {0, 1}
        for op, key, to_x, to_y in zip(ops, keys, x, y, strict=True):
            if op == DELETE:
                del self.world.things[key]
            else:
                self.world.upsert(key, to_x, to_y)
        for _, tile in plan.tiles:
            for sub in self.subscribers.values():
                if reaches(tile, sub.ask):
                    sub.apply(tile)

    @rule(key=st.sampled_from(KEYS))
    def refuse_a_batch_with_one_bad_event(self, key: str) -> None:
        if key not in self.world.things:
            good = one_event(UPSERT, "new", 1.0, 1.0)
            bad = Events(np.array([UPSERT, UPDATE], np.uint8), ["new", key], np.array([1.0, 1.0]), np.array([1.0, 1.0]))
            before = self.board.seq, self.board.objects(None, 100)
            with pytest.raises(Refused):
                self.board.apply(bad)
            assert (self.board.seq, self.board.objects(None, 100)) == before
            assert good.ids == ["new"]

    @rule(data=st.data(), key=st.sampled_from(ASKS), l=ends, r=ends)
    def put_subscription(self, data: Any, key: str, l: float | None, r: float | None) -> None:
        low, high = (-INF if l is None else l), (INF if r is None else r)
        k, offset = self.window(data)
        if low > high:
            with pytest.raises(Refused):
                self.board.apply(SetSubscription(key, between(low, high), k, offset=offset))
            return
        self.set(SetSubscription(key, between(low, high), k, offset=offset), Ask(low, high, k, offset))

    @rule(data=st.data(), key=st.sampled_from(ASKS))
    def patch_subscription(self, data: Any, key: str) -> None:
        """Another k or offset alone: what is not named stays."""
        if key in self.world.asks:
            was = self.world.asks[key]
            k, offset = data.draw(st.sampled_from([(was.k + 1, None), (None, was.offset + 1), (None, 0), (1, None)]))
            now = Ask(was.l, was.r, k or was.k, was.offset if offset is None else offset)
            command = SetSubscription(key, k=k, offset=offset, must_exist=True)
            if now.depth in self.board.config.ks:
                self.set(command, now)
            else:
                with pytest.raises(Refused) as refused:
                    self.board.apply(command)
                assert [fault.field for fault in refused.value.faults] == ["offset" if offset else "k"]

    def window(self, data: Any) -> tuple[int, int]:
        """A k and an offset whose sum is on offer."""
        depth = data.draw(st.sampled_from(self.board.config.ks))
        offset = data.draw(st.one_of(st.just(0), st.integers(0, depth - 1)))
        return depth - offset, offset

    def set(self, command: SetSubscription, ask: Ask) -> None:
        key = command.id
        self.run(command)
        self.world.asks[key] = ask
        self.subscribers[key] = TileSubscriber(self.world, self.world.asks[key])

    @rule(data=st.data())
    def subscribe_many(self, data: Any) -> None:
        free = [key for key in ASKS if key not in self.world.asks]
        if not free:
            return
        keys = data.draw(st.lists(st.sampled_from(free), unique=True, min_size=1))
        asks = [Ask(*ordered(data.draw(st.tuples(xs, xs))), *self.window(data)) for _ in keys]
        regions = ranges([a.l for a in asks], [a.r for a in asks])
        k, offset = (np.array([getattr(a, name) for a in asks], np.int32) for name in ("k", "offset"))
        self.run(AddSubscriptions(pa.array(keys), regions, k, offset=offset if offset.any() else None))
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
            self.offset[live] = self.board.offset_of(live)
            self.heard[live] = shown(self.board.list_of(live, self.offset[live]))

    @rule(key=st.sampled_from(ASKS))
    def unwatch(self, key: str) -> None:
        if key in self.live:
            self.board.unwatch(self.live.pop(key))

    @rule(
        more=st.sampled_from([2, 4, 7]),
        algorithm=st.sampled_from(["sparse", "dense", None]),
        runs=st.sampled_from([0, 1, 2, None]),
        sketch=st.sampled_from([0, 2, None]),
    )
    def configure(self, more: int, algorithm: Any, runs: Any, sketch: Any) -> None:
        used = {ask.depth for ask in self.world.asks.values()}
        self.run(Configure(tuple(sorted({*used, more})), algorithm, runs, sketch))
        other = tuple(k for k in (9,) if k not in used)
        if used and other:
            with pytest.raises(Refused):
                self.board.apply(Configure(other))

    @precondition(lambda self: hasattr(self, "board"))
    @invariant()
    def lists_are_exact(self) -> None:
        self.board.check()
        for key, ask in self.world.asks.items():
            truth = self.world.shown(key)
            assert shown(self.board.top(between(ask.l, ask.r), ask.k, ask.offset)) == truth
            assert self.subscribers[key].shown() == truth
            if key in self.live:
                assert shown(self.board.list_of(self.live[key], ask.offset)) == truth
                assert self.heard[self.live[key]] == truth
        assert set(self.live) <= set(self.world.asks)
        objects = [Thing(*cast("tuple[Any, ...]", view)) for view in self.board.objects(None, 100)]
        assert objects == sorted(self.world.things.values(), key=lambda t: t.id)
        assert [view.id for view in self.board.subscriptions(None, 100)] == sorted(self.world.asks)

    def teardown(self) -> None:
        """Replaying the log gives the same state, rows and creation numbers included."""
        if not hasattr(self, "board"):
            return
        again = BoardEngine(self.config)
        for parts in self.logged:
            again.replay(cast("Command", decode(parts)))
        again.check()
        assert again.seq == self.board.seq
        assert again.objects(None, 100) == self.board.objects(None, 100)
        assert again.subscriptions(None, 100) == self.board.subscriptions(None, 100)
        assert again.catalogue.rows == self.board.catalogue.rows
        assert again.config == self.board.config


class KdEngine(Engine):
    index = "kd-tree"


effort = settings(
    max_examples=int(os.environ.get("RANKCAST_EXAMPLES", "20")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestRangeTreeEngine = Engine.TestCase
TestRangeTreeEngine.settings = effort
TestKdTreeEngine = KdEngine.TestCase
TestKdTreeEngine.settings = effort


def test_commands_prepared_ahead_are_taken_back_newest_first() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(2,)))
    board.apply(one_event(UPSERT, "a", 1.0, 1.0))
    board.apply(SetSubscription("s", between(0.0, 5.0), 2))
    before = board.seq, board.objects(None, 9), board.subscriptions(None, 9)
    plans = [
        board.prepare(command)
        for command in (
            one_event(DELETE, "a", None, None),
            one_event(UPSERT, "a", 2.0, 2.0),
            one_event(UPSERT, "b", 2.0, 2.0),
            SetSubscription("s", between(1.0, None)),
            DeleteSubscriptions(["s"]),
            SetSubscription("s", between(3.0, 4.0), 2),
            Configure((2, 3)),
        )
    ]
    with pytest.raises(Refused):
        board.prepare(one_event(UPDATE, "c", 1.0, 1.0))
    for plan in reversed(plans):
        plan.cancel()
    assert (board.seq, board.objects(None, 9), board.subscriptions(None, 9)) == before
    with pytest.raises(Refused):
        board.apply(one_event(UPDATE, "b", 1.0, 1.0))
    board.apply(one_event(UPDATE, "a", 3.0, None))
    board.check()
    assert [view.created for view in board.objects(None, 9)] == [0]


def test_commands_prepared_ahead_settle_as_if_one_after_the_other() -> None:
    commands: list[Command] = [
        one_event(UPSERT, "a", 1.0, 1.0),
        one_event(DELETE, "a", None, None),
        one_event(UPSERT, "a", 2.0, 2.0, b"{}"),
        SetSubscription("s", between(0.0, 5.0), 2),
        SetSubscription("s", between(1.0, None)),
        DeleteSubscriptions(["s"]),
        SetSubscription("s", between(None, 4.0), 2),
        one_event(UPSERT, "b", 2.0, 1.0),
    ]
    config = BoardConfig(("x",), "y", ks=(2,))
    ahead, stepwise = BoardEngine(config), BoardEngine(config)
    plans = [ahead.prepare(command) for command in commands]
    for plan in plans:
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
    for command in commands:
        stepwise.apply(command)
    ahead.check()
    assert ahead.objects(None, 9) == stepwise.objects(None, 9)
    assert ahead.subscriptions(None, 9) == stepwise.subscriptions(None, 9)
    assert ahead.catalogue.rows == stepwise.catalogue.rows
    assert not ahead.catalogue._pending and not ahead.subscribers.pending


def test_many_subscriptions_come_as_one_command() -> None:
    board = BoardEngine(BoardConfig(("x",), "y", ks=(1, 2)))
    n = 10_000
    rng = np.random.default_rng(1)
    ids = [f"s{i:05d}" for i in rng.permutation(n)]
    l = rng.integers(0, 50, n).astype(float)
    command = AddSubscriptions(pa.array(ids), ranges(l, l + 3), rng.integers(1, 3, n).astype(np.int32))
    board.apply(SetSubscription("z", between(0.0, 1.0), 1))
    board.apply(command)
    board.check()
    assert board.subscription_count == n + 1
    assert [view.id for view in board.subscriptions("s00041", 2)] == ["s00042", "s00043"]
    with pytest.raises(Refused) as refused:
        board.apply(AddSubscriptions(pa.array([f"t{i}" for i in range(n - 1)] + [ids[0]]), ranges(l, l), command.k))
    assert [(fault.index, fault.kind) for fault in refused.value.faults] == [(n - 1, "taken")]
    board.apply(DeleteSubscriptions(ids[:5000]))
    board.check()
    board.apply(AddSubscriptions(pa.array(ids[:5000]), ranges(l[:5000], l[:5000]), command.k[:5000]))
    board.check()
    assert board.subscription_count == n + 1
